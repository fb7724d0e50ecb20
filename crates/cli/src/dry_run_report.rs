//! The report on a dry run.

use crate::{
    attribution_report::AttributionReport,
    checks::Check,
    one_line::one_line,
    output::{self, verdict, CommandResult, HexHash},
    pov::{LimitRow, PovRow},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What can be tried.
pub(crate) const ITEMS: [&str; 2] = ["extrinsic", "runtime"];
/// What can become of the item.
pub(crate) const OUTCOMES: [&str; 2] = ["succeeded", "call failed"];
/// What is said of an item that adds no node.
pub(crate) const NO_FURTHER_NODE: &str =
    "It needs no further node: the block without it needs all that it reads and changes.";

/// What an extrinsic or another runtime would add to the next block.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct DryRunReport {
    /// Name of the chain or file.
    pub(crate) name: String,
    /// What was tried.
    #[schemars(extend("enum" = ITEMS))]
    pub(crate) item: String,
    /// Number of the block that would hold it.
    pub(crate) number: u32,
    /// Root of the state that this block starts from.
    pub(crate) parent_state_root: HexHash,
    /// Version of the chain's runtime.
    pub(crate) spec_version: u32,
    /// Version of the runtime that was tried; null for an extrinsic.
    #[serde(deserialize_with = "Option::deserialize")]
    pub(crate) new_spec_version: Option<u32>,
    /// What became of the item. An extrinsic whose call fails is in the block and pays its fee.
    #[schemars(extend("enum" = OUTCOMES))]
    pub(crate) outcome: String,
    /// The error of the call that failed; null if it succeeded.
    #[serde(deserialize_with = "Option::deserialize")]
    pub(crate) call_error: Option<String>,
    /// The block without the item, ended after its initialization.
    pub(crate) without: PartialRow,
    /// The block with the item, ended after it.
    pub(crate) with: PartialRow,
    /// The difference: what the item adds.
    pub(crate) added: AddedRow,
    /// The block with the item beside the limit; null without a limit.
    #[serde(deserialize_with = "Option::deserialize")]
    pub(crate) pov_limit: Option<LimitRow>,
    /// What needs the nodes that only the block with the item has; it counts only them.
    pub(crate) attribution: AttributionReport,
    /// What must hold; empty for an extrinsic.
    pub(crate) checks: Vec<Check>,
    /// Requests sent to the node; null if the state comes from a file.
    #[serde(deserialize_with = "Option::deserialize")]
    pub(crate) requests: Option<u64>,
}

/// A block that ends early. Times are processor time of the thread, sizes are bytes.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct PartialRow {
    /// Bytes of the proof, each node with the prefix of its length.
    pub(crate) recorded: u64,
    /// Bytes of the proof, encoded.
    pub(crate) encoded: u64,
    /// Bytes of the compact proof, encoded.
    pub(crate) compact: u64,
    /// Number of nodes.
    pub(crate) nodes: u64,
    /// The whole PoV, with the known part of the header, and without an author's inherents.
    pub(crate) pov: PovRow,
    /// Weight consumed in picoseconds; null if the runtime stores no weight in a known form.
    #[serde(deserialize_with = "Option::deserialize")]
    pub(crate) weight_ref_time: Option<u64>,
    /// Weight consumed in bytes of the proof, as the runtime counts them; null like `weight_ref_time`.
    #[serde(deserialize_with = "Option::deserialize")]
    pub(crate) weight_proof_size: Option<u64>,
    /// Processor time of all calls in milliseconds.
    pub(crate) ms: f64,
}

/// The difference between two blocks. A number is negative if the block with the item has less.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct AddedRow {
    /// Bytes of the proof, each node with the prefix of its length.
    #[schemars(extend("minimum" = i64::MIN))]
    pub(crate) recorded: i64,
    /// Bytes of the proof, encoded.
    #[schemars(extend("minimum" = i64::MIN))]
    pub(crate) encoded: i64,
    /// Bytes of the compact proof, encoded.
    #[schemars(extend("minimum" = i64::MIN))]
    pub(crate) compact: i64,
    /// Number of nodes.
    #[schemars(extend("minimum" = i64::MIN))]
    pub(crate) nodes: i64,
    /// Bytes of the whole PoV.
    #[schemars(extend("minimum" = i64::MIN))]
    pub(crate) pov: i64,
    /// Bytes of the compressed PoV.
    #[schemars(extend("minimum" = i64::MIN))]
    pub(crate) pov_compressed: i64,
    /// Weight in picoseconds; null if the runtime stores no weight in a known form.
    #[serde(deserialize_with = "Option::deserialize")]
    #[schemars(extend("minimum" = i64::MIN))]
    pub(crate) weight_ref_time: Option<i64>,
    /// Weight in bytes of the proof, as the runtime counts them; null like `weight_ref_time`.
    #[serde(deserialize_with = "Option::deserialize")]
    #[schemars(extend("minimum" = i64::MIN))]
    pub(crate) weight_proof_size: Option<i64>,
    /// Processor time of the item in milliseconds: of an extrinsic its call; of a runtime the difference.
    #[schemars(extend("minimum" = f64::MIN))]
    pub(crate) ms: f64,
}

impl CommandResult for DryRunReport {
    const COMMAND: &'static str = "dry-run";
    const WHAT: &'static str = "dry-run";
    const SCHEMA: u64 = 1;
    const IF_FAILED: &'static str =
        "build the runtime of this chain, or upgrade with a call that compares no names, such \
        as `set_code_without_checks`";
}

impl DryRunReport {
    /// The names of the checks that failed.
    pub(crate) fn failed(&self) -> Vec<String> {
        let checks = self.checks.iter();
        output::failed(checks.map(|check| (&*check.name, check.holds)))
    }
}

fn difference(with: u64, without: u64) -> i64 {
    // Sizes are far below 2^63.
    i64::try_from(i128::from(with) - i128::from(without)).unwrap_or(i64::MAX)
}

impl AddedRow {
    /// Returns what `with` has more than `without`; the item took `ms` milliseconds.
    pub(crate) fn of(with: &PartialRow, without: &PartialRow, ms: f64) -> Self {
        let both = |with: Option<u64>, without: Option<u64>| Some(difference(with?, without?));
        Self {
            recorded: difference(with.recorded, without.recorded),
            encoded: difference(with.encoded, without.encoded),
            compact: difference(with.compact, without.compact),
            nodes: difference(with.nodes, without.nodes),
            pov: difference(with.pov.total, without.pov.total),
            pov_compressed: difference(with.pov.compressed, without.pov.compressed),
            weight_ref_time: both(with.weight_ref_time, without.weight_ref_time),
            weight_proof_size: both(with.weight_proof_size, without.weight_proof_size),
            ms,
        }
    }
}

impl DryRunReport {
    /// Whose processor time the added one is.
    pub(crate) fn what_takes_the_time(&self) -> &'static str {
        match self.new_spec_version {
            None => "of its call alone",
            Some(_) => "the difference of the two blocks",
        }
    }
}

impl fmt::Display for DryRunReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            item,
            number,
            spec_version,
            with,
            without,
            added,
            ..
        } = self;
        write!(
            f,
            "{}: {item} in block {number}, runtime {spec_version}",
            one_line(name)
        )?;
        if let Some(new) = self.new_spec_version {
            write!(f, " to {new}")?;
        }
        writeln!(f, ": {}", self.outcome)?;
        if let Some(error) = &self.call_error {
            writeln!(f, "{}", one_line(error))?;
        }
        writeln!(
            f,
            "\n{:<28} {:>16} {:>16} {:>16}",
            "", "without", "with", "added"
        )?;
        let mut row = |what: &str, without: u64, with: u64, added: i64| {
            writeln!(f, "{what:<28} {without:>16} {with:>16} {added:>16}")
        };
        row(
            "recorded, bytes",
            without.recorded,
            with.recorded,
            added.recorded,
        )?;
        row(
            "encoded, bytes",
            without.encoded,
            with.encoded,
            added.encoded,
        )?;
        row(
            "compact, bytes",
            without.compact,
            with.compact,
            added.compact,
        )?;
        row("nodes", without.nodes, with.nodes, added.nodes)?;
        let [before, after] = [&without.pov, &with.pov];
        row("PoV, bytes", before.total, after.total, added.pov)?;
        row(
            "PoV compressed, bytes",
            before.compressed,
            after.compressed,
            added.pov_compressed,
        )?;
        for (what, [without, with], added) in [
            (
                "weight, ps",
                [without.weight_ref_time, with.weight_ref_time],
                added.weight_ref_time,
            ),
            (
                "weight, bytes of the proof",
                [without.weight_proof_size, with.weight_proof_size],
                added.weight_proof_size,
            ),
        ] {
            if let (Some(without), Some(with), Some(added)) = (without, with, added) {
                row(what, without, with, added)?;
            }
        }
        writeln!(
            f,
            "{:<28} {:>16.3} {:>16.3} {:>16.3}  (added: {})",
            "processor time, ms",
            without.ms,
            with.ms,
            added.ms,
            self.what_takes_the_time()
        )?;
        if let Some(limit) = &self.pov_limit {
            writeln!(f)?;
            limit.lines(f, &with.pov)?;
        }
        match self.attribution.is_empty() {
            true => write!(f, "\n{NO_FURTHER_NODE}")?,
            false => {
                writeln!(f, "\nwhat only the block with it needs:")?;
                write!(f, "{}", self.attribution)?;
            }
        }
        for check in &self.checks {
            let detail = one_line(&check.detail);
            write!(f, "\n{}{}: {detail}", verdict(check.holds), check.name)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use povmeter_attribution::ByteTally;

    fn partial() -> PartialRow {
        PartialRow {
            recorded: 1,
            encoded: 1,
            compact: 1,
            nodes: 1,
            pov: PovRow {
                header: 1,
                extrinsics: 1,
                compact_proof: 1,
                framing: 1,
                total: 4,
                compressed: 4,
            },
            weight_ref_time: None,
            weight_proof_size: None,
            ms: 1.0,
        }
    }

    #[test]
    fn names_and_errors_are_one_line_each() {
        let (without, with) = (partial(), partial());
        let report = DryRunReport {
            name: "\u{1b}[31mred\nok     forged".to_owned(),
            item: ITEMS[0].to_owned(),
            number: 7,
            parent_state_root: sp_core::H256::zero().into(),
            spec_version: 1,
            new_spec_version: None,
            outcome: OUTCOMES[1].to_owned(),
            call_error: Some("Module\n\u{202e}error".to_owned()),
            added: AddedRow::of(&with, &without, 1.0),
            without,
            with,
            pov_limit: None,
            attribution: AttributionReport::new(&ByteTally::default(), 15),
            checks: vec![Check {
                name: "check".to_owned(),
                holds: false,
                detail: "name\nok     forged".to_owned(),
            }],
            requests: None,
        };
        let text = report.to_string();
        let expected =
            "\\u{1b}[31mred\\nok     forged: extrinsic in block 7, runtime 1: call failed\n\
                        Module\\n\\u{202e}error\n\n";
        assert!(text.starts_with(expected), "{text:?}");
        let nothing = format!("\n\n{NO_FURTHER_NODE}\nFAILED");
        assert!(text.contains(&nothing), "{text:?}");
        let last = "\nFAILED check: name\\nok     forged";
        assert!(text.ends_with(last), "{text:?}");
        assert_eq!(report.failed(), ["check"]);
    }
}
