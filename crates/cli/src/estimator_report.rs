//! The report on estimates, as text and as JSON.

use crate::{
    counted::counted,
    output::{self, verdict, CommandResult},
    table::{or_dash, Table},
};
use povmeter_dev_measure::{Flatness, ShadowMemory, SpeedCase, SpeedRow};
use povmeter_dev_oracle::Flavour;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The cases that are measured.
const CASES: [SpeedCase; 5] = [
    SpeedCase::Loaded,
    SpeedCase::Cold,
    SpeedCase::Counted,
    SpeedCase::Transfer,
    SpeedCase::Rollback,
];

/// What a case measures.
fn meaning(case: SpeedCase) -> &'static str {
    match case {
        SpeedCase::Loaded => "keys that were read before; trie-db can't reuse the reads",
        SpeedCase::Cold => "keys that were not read before",
        SpeedCase::Counted => "keys that an earlier boundary counted",
        SpeedCase::Transfer => {
            "keys of balance transfers, read before, with a boundary after each transfer"
        }
        SpeedCase::Rollback => "counts that are rolled back, which trie-db can't do",
    }
}

/// Results of the comparison. A block with several differences counts under the first.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Checks {
    /// Boundaries at which an estimate was compared, in blocks that agreed.
    pub(crate) boundaries: u64,
    /// Blocks with an estimate below the truth; must be 0.
    pub(crate) under: usize,
    /// Overestimated bytes of mixed blocks, in percent of the truth.
    pub(crate) over_bytes_percent: f64,
    /// Overestimated nodes of adversarial blocks, in percent of the truth.
    pub(crate) over_nodes_percent: f64,
    /// Boundaries at which a fresh trie for each boundary gives less than the truth.
    pub(crate) upstream_under: u64,
    /// Blocks whose importers or validator get another size than the author; must be 0.
    pub(crate) roles_differ: usize,
    /// Blocks with another compact proof, or another length of it; must be 0.
    pub(crate) compact_differs: usize,
    /// Blocks with another answer, root or set of nodes; must be 0.
    pub(crate) others_differ: usize,
}

impl Checks {
    /// The checks, and whether they hold.
    pub(crate) fn named(&self) -> [(&'static str, bool); 4] {
        [
            ("under", self.under == 0),
            ("roles_differ", self.roles_differ == 0),
            ("compact_differs", self.compact_differs == 0),
            ("others_differ", self.others_differ == 0),
        ]
    }

    /// The names of the checks that failed.
    pub(crate) fn failed(&self) -> Vec<String> {
        output::failed(self.named())
    }
}

/// The result for blocks of one flavour, both accountings together.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct OfFlavour {
    /// Flavour of the random blocks.
    #[schemars(extend("enum" = Flavour::ALL.map(Flavour::name)))]
    pub(crate) flavour: String,
    /// Blocks, in both accountings.
    pub(crate) blocks: u64,
    /// Boundaries compared.
    pub(crate) boundaries: u64,
    /// Overestimated bytes, in percent of the truth.
    pub(crate) over_bytes_percent: f64,
    /// The same for consensus accounting alone.
    pub(crate) consensus_over_bytes_percent: f64,
    /// The same for advisory accounting alone.
    pub(crate) advisory_over_bytes_percent: f64,
    /// The part of over_bytes_percent that the counting rule itself causes; the rest is due to earlier
    /// estimates.
    pub(crate) rule_over_bytes_percent: f64,
    /// Overestimated nodes, in percent of the truth.
    pub(crate) over_nodes_percent: f64,
    /// Boundaries at which deletions of absent keys were withheld from the trie of sp-state-machine.
    pub(crate) left_out: u64,
    /// Boundaries at which the fresh trie was asked.
    pub(crate) upstream_boundaries: u64,
    /// Boundaries at which the fresh trie was too low.
    pub(crate) upstream_under: u64,
    /// Blocks with such a boundary.
    pub(crate) upstream_under_blocks: u64,
}

/// A block that differs.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Failed {
    /// Flavour of the random blocks.
    #[schemars(extend("enum" = Flavour::ALL.map(Flavour::name)))]
    pub(crate) flavour: String,
    /// The block's own seed.
    pub(crate) seed: u64,
    /// Accounting of the estimates.
    #[schemars(extend("enum" = ["consensus", "advisory"]))]
    pub(crate) accounting: String,
    /// What differs.
    pub(crate) mismatch: String,
}

/// Estimates beside what sp-state-machine reads for the same blocks, and what they cost.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct EstimatorReport {
    /// Random blocks of each flavour.
    pub(crate) cases: u64,
    /// Seed of blocks and keys.
    pub(crate) seed: u64,
    /// Results of the comparison. A block with several differences counts under the first.
    pub(crate) checks: Checks,
    /// Results by flavour.
    pub(crate) flavours: [OfFlavour; 3],
    /// The first blocks that differ.
    pub(crate) failures: Vec<Failed>,
    /// Dirty keys of each measured boundary.
    pub(crate) dirty_keys: usize,
    /// Measured rounds.
    pub(crate) rounds: usize,
    /// Cost of one changed key.
    pub(crate) rows: Vec<SpeedRow>,
    /// Whether estimates get slower as a block grows.
    pub(crate) flatness: Vec<Flatness>,
    /// What the shadow trie of a block holds.
    pub(crate) memory: Vec<ShadowMemory>,
}

impl CommandResult for EstimatorReport {
    const COMMAND: &'static str = "compare estimator";
    const WHAT: &'static str = "estimator";
    const SCHEMA: u64 = 1;
}

impl fmt::Display for EstimatorReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cases, seed, .. } = self;
        writeln!(
            f,
            "{cases} random blocks of each flavour from seed {seed}, in both accountings\n"
        )?;
        self.fmt_flavours(f)?;
        self.fmt_checks(f)?;
        for failed in &self.failures {
            writeln!(
                f,
                "  {} block {}, {}: {}",
                failed.flavour, failed.seed, failed.accounting, failed.mismatch
            )?;
        }
        self.fmt_rows(f)?;
        self.fmt_block(f)
    }
}

impl EstimatorReport {
    fn fmt_flavours(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new([
            "<",
            "blocks",
            "boundaries",
            "bytes over, %",
            "consensus",
            "advisory",
            "due to the rule",
            "nodes over, %",
            "upstream too low at",
        ]);
        for of in &self.flavours {
            table.row([
                of.flavour.clone(),
                of.blocks.to_string(),
                of.boundaries.to_string(),
                format!("{:.4}", of.over_bytes_percent),
                format!("{:.4}", of.consensus_over_bytes_percent),
                format!("{:.4}", of.advisory_over_bytes_percent),
                format!("{:.4}", of.rule_over_bytes_percent),
                format!("{:.4}", of.over_nodes_percent),
                format!("{} of {}", of.upstream_under, of.upstream_boundaries),
            ]);
        }
        writeln!(f, "{table}\n")
    }

    /// The checks, each with the number of blocks that fail it.
    pub(crate) fn named_checks(&self) -> [(usize, &'static str); 4] {
        let checks = &self.checks;
        [
            (
                checks.under,
                "never too low: no estimate is below the truth",
            ),
            (
                checks.roles_differ,
                "roles agree: importers and validator get the author's sizes",
            ),
            (
                checks.compact_differs,
                "compact proofs agree: they and their lengths are sp-state-machine's",
            ),
            (
                checks.others_differ,
                "all else agrees: answers, roots and nodes are sp-state-machine's",
            ),
        ]
    }

    fn fmt_checks(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (blocks, what) in self.named_checks() {
            writeln!(f, "{}{what} ({blocks} blocks)", verdict(blocks == 0))?;
        }
        Ok(())
    }

    fn fmt_rows(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "\nns of cpu time per dirty key, medians; {} per boundary, {}",
            counted(self.dirty_keys as u64, "key"),
            counted(self.rounds as u64, "round")
        )?;
        let mut table = Table::new(["<", "keys", "trie-db", "povmeter", "times", "allocs/key"]);
        for row in &self.rows {
            let times = row.peer_ns.map(|peer| peer / row.ours_ns);
            table.row([
                row.case.name().to_owned(),
                row.keys.to_string(),
                or_dash(row.peer_ns.map(|peer| format!("{peer:.1}"))),
                format!("{:.1}", row.ours_ns),
                or_dash(times.map(|times| format!("{times:.1}"))),
                format!("{:.4}", row.allocations_per_key),
            ]);
        }
        writeln!(f, "{table}\n")?;
        for case in CASES {
            writeln!(f, "{:<8}  {}", case.name(), meaning(case))?;
        }
        Ok(())
    }

    fn fmt_block(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for flat in &self.flatness {
            write!(
                f,
                "\n{} keys: an estimate takes {:.0} ns after the 50th transfer, {:.0} ns after the \
                 5,000th: {:.2} times as long",
                flat.keys, flat.after_50_ns, flat.after_5000_ns, flat.ratio
            )?;
        }
        for memory in &self.memory {
            write!(
                f,
                "\n{} keys: {} nodes loaded at the end, {:.0} arena bytes per node",
                memory.keys, memory.loaded_nodes, memory.arena_bytes_per_node
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_difference_fails_a_check() {
        let fine = Checks {
            boundaries: 1,
            under: 0,
            over_bytes_percent: 0.1,
            over_nodes_percent: 1.0,
            upstream_under: 5,
            roles_differ: 0,
            compact_differs: 0,
            others_differ: 0,
        };
        assert!(fine.failed().is_empty());
        assert_eq!(Checks { under: 1, ..fine }.failed(), ["under"]);
        let roles_differ = 1;
        let failed = Checks {
            roles_differ,
            ..fine
        };
        assert_eq!(failed.failed(), ["roles_differ"]);
        let failed = Checks {
            compact_differs: 2,
            others_differ: 1,
            ..fine
        };
        assert_eq!(failed.failed(), ["compact_differs", "others_differ"]);
    }
}
