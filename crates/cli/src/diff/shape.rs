//! The fields of each kind of result that are compared, as options, facts or numbers.
//!
//! A field is named by its path in the JSON, with slashes between names.

use crate::output::Heading;
use serde::Serialize;

/// What a number measures. Proofs and allocations are exact; times are as noisy as the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Measure {
    Proof,
    Allocations,
    Time,
}

impl Measure {
    pub(crate) const ALL: [Self; 3] = [Self::Proof, Self::Allocations, Self::Time];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Proof => "proof",
            Self::Allocations => "allocations",
            Self::Time => "time",
        }
    }
}

/// A number of a result.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Number {
    pub(crate) field: &'static str,
    pub(crate) measure: Measure,
    /// Whether less of it is worse.
    pub(crate) more_is_better: bool,
    /// Whether a limit applies to it.
    pub(crate) judged: bool,
}

impl Number {
    const fn of(measure: Measure, field: &'static str) -> Self {
        Self {
            field,
            measure,
            more_is_better: false,
            judged: true,
        }
    }

    /// The same number, shown but not judged.
    const fn shown(self) -> Self {
        Self {
            judged: false,
            ..self
        }
    }
}

const fn proof(field: &'static str) -> Number {
    Number::of(Measure::Proof, field)
}

const fn allocations(field: &'static str) -> Number {
    Number::of(Measure::Allocations, field)
}

const fn time(field: &'static str) -> Number {
    Number::of(Measure::Time, field)
}

/// How many times as long the peer takes. If there is such a ratio, it is judged and times are not,
/// because a slow machine slows both sides.
const fn speed(field: &'static str) -> Number {
    Number {
        more_is_better: true,
        ..time(field)
    }
}

/// A list of objects, each with a name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows {
    pub(crate) field: &'static str,
    /// Fields that name a row.
    pub(crate) key: &'static [&'static str],
    pub(crate) facts: &'static [&'static str],
    pub(crate) numbers: &'static [Number],
    /// Names of rows that are not judged: the peer and what is built on it.
    pub(crate) not_judged: &'static [&'static str],
    /// Times that are added up over all rows that both results have. Only the sum is judged, because
    /// one block alone is too short.
    pub(crate) totals: &'static [Number],
    /// Whether a result may lack the list.
    pub(crate) optional: bool,
}

impl Rows {
    const fn of(field: &'static str, key: &'static [&'static str]) -> Self {
        Self {
            field,
            key,
            facts: &[],
            numbers: &[],
            not_judged: &[],
            totals: &[],
            optional: false,
        }
    }
}

/// What is compared of one kind of result.
#[derive(Debug)]
pub(crate) struct Shape {
    /// The command that makes it, without `povmeter`.
    pub(crate) command: &'static str,
    pub(crate) heading: Heading,
    /// Fields that must be the same for a comparison to mean something. An object stands for each of
    /// its fields.
    pub(crate) options: &'static [&'static str],
    /// Fields that are listed if they differ.
    pub(crate) facts: &'static [&'static str],
    pub(crate) numbers: &'static [Number],
    pub(crate) rows: &'static [Rows],
}

const CHECKS: Rows = Rows {
    facts: &["holds"],
    ..Rows::of("checks", &["name"])
};

/// Proof bytes by extrinsic or item. Their sum is judged elsewhere.
const ATTRIBUTED: Rows = Rows {
    numbers: &[proof("bytes").shown()],
    optional: true,
    ..Rows::of("", &[])
};

/// All kinds of results that can be compared.
pub(crate) const SHAPES: [Shape; 8] = [
    BLOCK, REPLAY, COMPARE, ESTIMATOR, ROOT, OVERLAY, POOL, GENESIS,
];

const BLOCK: Shape = Shape {
    command: "block",
    heading: Heading::BLOCK,
    options: &["options"],
    facts: &[
        "parent_root",
        "root",
        "extrinsics/applied",
        "extrinsics/failed",
        "extrinsics/refused",
    ],
    numbers: &[
        proof("proof_bytes/estimate_after_last"),
        proof("proof_bytes/root_adds_after_last"),
        proof("proof_bytes/recorded"),
        proof("proof_bytes/encoded"),
        proof("proof_bytes/compact"),
        proof("proof_bytes/nodes"),
        time("per_extrinsic_us/execute").shown(),
        time("per_extrinsic_us/estimate").shown(),
        time("phases/initialize/cpu_ms").shown(),
        time("phases/extrinsics/cpu_ms").shown(),
        time("phases/estimates/cpu_ms").shown(),
        time("phases/finalize/cpu_ms").shown(),
        time("phases/seal/cpu_ms").shown(),
        time("phases/total/cpu_ms"),
        time("phases/total/wall_ms").shown(),
    ],
    rows: &[
        CHECKS,
        Rows {
            field: "proof_bytes/attribution/by_extrinsic",
            key: &["phase", "index"],
            ..ATTRIBUTED
        },
        Rows {
            field: "proof_bytes/attribution/by_item",
            key: &["name"],
            ..ATTRIBUTED
        },
    ],
};

const REPLAY: Shape = Shape {
    command: "replay",
    heading: Heading::REPLAY,
    options: &["name", "on", "sizes"],
    facts: &[],
    numbers: &[],
    rows: &[
        Rows {
            facts: &[
                "hash",
                "state_root",
                "extrinsics",
                "reads",
                "writes",
                "sizes_told",
            ],
            numbers: &[
                proof("estimate_after_last"),
                proof("recorded"),
                proof("encoded"),
                proof("compact"),
                proof("nodes"),
                time("whole_ms").shown(),
                time("steps_ms").shown(),
            ],
            totals: &[time("whole_ms"), time("steps_ms")],
            ..Rows::of("blocks", &["number"])
        },
        CHECKS,
    ],
};

const COMPARE: Shape = Shape {
    command: "compare block",
    heading: Heading::COMPARE,
    options: &["options", "cache"],
    facts: &["rounds", "checks/roots_equal", "checks/estimates_complete"],
    numbers: &[],
    rows: &[Rows {
        numbers: &[
            proof("estimate_after_last"),
            proof("estimate_under_bytes"),
            proof("recorded"),
            proof("encoded"),
            proof("compact"),
            proof("nodes"),
            allocations("allocations_per_extrinsic"),
            speed("percent_of_peer_none"),
            time("median_ms").shown(),
            time("median_wall_ms").shown(),
            time("per_extrinsic_us").shown(),
            time("finalize_ms").shown(),
            time("root_ms").shown(),
        ],
        not_judged: &[
            "peer-none",
            "none",
            "root-each-tx",
            "incremental",
            "fake-hasher",
            "each-key-once",
            "forget",
            "get-for-writes",
            "upstream",
        ],
        ..Rows::of("rows", &["name"])
    }],
};

const ESTIMATOR: Shape = Shape {
    command: "compare estimator",
    heading: Heading::ESTIMATOR,
    options: &["cases", "seed", "dirty_keys"],
    facts: &[
        "rounds",
        "checks/boundaries",
        "checks/under",
        "checks/upstream_under",
        "checks/roles_differ",
        "checks/compact_differs",
        "checks/others_differ",
    ],
    numbers: &[],
    rows: &[
        Rows {
            facts: &["blocks", "boundaries", "left_out"],
            numbers: &[
                proof("over_bytes_percent"),
                proof("consensus_over_bytes_percent"),
                proof("advisory_over_bytes_percent"),
                proof("rule_over_bytes_percent"),
                proof("over_nodes_percent"),
            ],
            ..Rows::of("flavours", &["flavour"])
        },
        Rows {
            numbers: &[
                allocations("allocations_per_key"),
                time("ours_ns"),
                time("peer_ns").shown(),
            ],
            ..Rows::of("rows", &["case", "keys"])
        },
        Rows {
            numbers: &[
                time("after_50_ns").shown(),
                time("after_5000_ns").shown(),
                time("ratio").shown(),
            ],
            ..Rows::of("flatness", &["keys"])
        },
        Rows {
            facts: &["loaded_nodes"],
            numbers: &[
                allocations("arena_bytes"),
                allocations("arena_bytes_per_node").shown(),
            ],
            ..Rows::of("memory", &["keys"])
        },
    ],
};

const ROOT: Shape = Shape {
    command: "compare root",
    heading: Heading::ROOT,
    options: &["cases", "seed"],
    facts: &[
        "rounds",
        "modes",
        "missing",
        "known_states",
        "checks/updates_differ",
        "checks/known_states_differ",
    ],
    numbers: &[],
    rows: &[
        Rows {
            facts: &["blocks", "changes", "inserted", "removed"],
            ..Rows::of("versions", &["state_version"])
        },
        Rows {
            numbers: &[
                allocations("allocations_per_change"),
                speed("ratio_to_peer_node"),
                speed("ratio_to_peer_plain").shown(),
                time("us").shown(),
            ],
            not_judged: &["peer_plain", "peer_node"],
            ..Rows::of("rows", &["keys", "changes", "mode"])
        },
        Rows {
            facts: &["nodes", "compressions"],
            numbers: &[time("us").shown()],
            ..Rows::of("hashing", &["keys", "changes", "mode"])
        },
    ],
};

const OVERLAY: Shape = Shape {
    command: "compare overlay",
    heading: Heading::OVERLAY,
    options: &["seed"],
    facts: &["rounds"],
    numbers: &[
        allocations("memory/ours_bytes_per_key"),
        allocations("memory/peer_bytes_per_key").shown(),
    ],
    rows: &[Rows {
        numbers: &[
            allocations("ours_allocations"),
            allocations("peer_allocations").shown(),
            speed("ratio"),
            time("ours_ns").shown(),
            time("peer_ns").shown(),
        ],
        ..Rows::of("rows", &["operation"])
    }],
};

const POOL: Shape = Shape {
    command: "compare pool",
    heading: Heading::POOL,
    options: &["extrinsics"],
    facts: &["same_block", "same_sizes"],
    numbers: &[
        allocations("fresh/allocations_per_extrinsic"),
        allocations("fresh/allocations"),
        allocations("fresh/bytes"),
        allocations("fresh/bytes_of_sealing"),
        allocations("pooled/allocations_per_extrinsic"),
        allocations("pooled/allocations"),
        allocations("pooled/bytes"),
        allocations("pooled/bytes_of_sealing"),
        allocations("kept/allocations_per_extrinsic"),
        allocations("kept/allocations"),
        allocations("kept/bytes"),
        allocations("kept/bytes_of_sealing"),
    ],
    rows: &[],
};

const GENESIS: Shape = Shape {
    command: "genesis",
    heading: Heading::GENESIS,
    options: &["state_version"],
    facts: &[
        "name",
        "id",
        "entries",
        "child_tries",
        "child_entries",
        "state_root",
        "genesis_hash",
    ],
    numbers: &[],
    rows: &[],
};

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use std::{collections::BTreeSet, fs, path::Path};

    /// Fields that are not compared, because they follow from others, are about the peer alone, or are
    /// too many to list.
    const LEFT_OUT: [&str; 26] = [
        "what",
        "schema",
        "growth_bytes/",
        "phases/",
        "estimates",
        "told",
        "checks/detail",
        "checks/of",
        "checks/first_failure",
        "checks/by_design",
        "checks/first_by_design",
        "blocks/truth_after_last",
        "rows/state_machine_percent",
        "rows/rounds",
        "rows/claims_complete",
        "checks/over_",
        "flavours/upstream_",
        "failures/",
        "known_failures/",
        "memory/keys",
        "modes",
        "missing",
        "bytes_percent",
        "kept_percent",
        "proof_bytes/attribution/",
        "blocks/attribution/",
    ];

    fn schema_of(shape: &Shape) -> Value {
        let name = shape.command.replace(' ', "-");
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schemas");
        let text = fs::read(docs.join(name).with_extension("json")).unwrap();
        serde_json::from_slice(&text).unwrap()
    }

    /// Finds the fields of a schema that hold no other fields. A list counts as its items.
    fn leaves(schema: &Value, root: &Value, way: &str, found: &mut BTreeSet<String>) {
        if let Some(name) = schema.get("$ref").and_then(Value::as_str) {
            let definition = root.pointer(name.trim_start_matches('#')).unwrap();
            leaves(definition, root, way, found);
        } else if let Some(items) = schema.get("items") {
            leaves(items, root, way, found);
        } else if let Some(choice) = schema.pointer("/oneOf/1") {
            leaves(choice, root, way, found);
        } else if let Some(Value::Object(fields)) = schema.get("properties") {
            for (name, field) in fields {
                leaves(field, root, &format!("{way}/{name}"), found);
            }
        } else {
            found.insert(way.trim_start_matches('/').to_owned());
        }
    }

    /// A new field must be compared, or be added to `LEFT_OUT`.
    #[test]
    fn every_field_is_compared_or_left_out() {
        for shape in &SHAPES {
            let schema = schema_of(shape);
            let mut fields = BTreeSet::new();
            leaves(&schema, &schema, "", &mut fields);
            let inside = |rows: &Rows, field: &str| format!("{}/{field}", rows.field);
            let mut compared: BTreeSet<String> = BTreeSet::new();
            compared.extend(shape.numbers.iter().map(|number| number.field.to_owned()));
            compared.extend(shape.facts.iter().map(|field| (*field).to_owned()));
            for rows in shape.rows {
                compared.extend(rows.key.iter().map(|field| inside(rows, field)));
                compared.extend(rows.facts.iter().map(|field| inside(rows, field)));
                compared.extend(rows.numbers.iter().map(|number| inside(rows, number.field)));
            }
            for field in &compared {
                assert!(fields.contains(field), "{}: no {field}", shape.command);
            }
            for field in fields.difference(&compared) {
                let option = shape.options.iter().any(|option| field.starts_with(option));
                let left_out = LEFT_OUT.iter().any(|start| field.starts_with(start));
                assert!(option || left_out, "{}: {field}", shape.command);
            }
        }
    }

    /// Exactly `peer-none` and the ladder's strategies are not judged, and their names are up to date.
    #[test]
    fn what_is_not_judged_is_the_peers() {
        use crate::contender::Contender;
        let not_judged: BTreeSet<_> = COMPARE.rows[0].not_judged.iter().copied().collect();
        let all = Contender::all().into_iter();
        let theirs = all.filter(|contender| {
            !matches!(contender, Contender::Povmeter | Contender::PovmeterNone)
        });
        assert_eq!(not_judged, theirs.map(Contender::name).collect());
    }
}
