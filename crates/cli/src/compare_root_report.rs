//! The report on root updates, as text and as JSON.

use crate::{
    counted::counted,
    options::VersionArg,
    output::{self, verdict, CommandResult},
    table::{or_dash, Table},
};
use povmeter_dev_measure::{HashRow, RootRow};
use povmeter_dev_oracle::Flavour;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Name of the check that no random block differs.
pub(crate) const UPDATES_AGREE: &str = "updates agree";
/// Name of the check that no real state differs.
pub(crate) const STATES_AGREE: &str = "real states agree";

/// The names of the modes, and what they mean.
const MODES: [(&str, &str); 7] = [
    (
        "portable",
        "povmeter on one thread, hashing one node after the other in plain Rust",
    ),
    (
        "many",
        "the same, hashing 2 to 4 nodes at once (SSE4.1, AVX2) if the processor can",
    ),
    ("avx512", "the same, hashing 8 nodes at once"),
    (
        "cold",
        "povmeter in the best mode of one thread, with no node loaded before",
    ),
    (
        "threads_N",
        "povmeter in the best mode, on N threads if an update is large enough (--split-from)",
    ),
    ("peer_plain", "sp-state-machine, without recorder and cache"),
    (
        "peer_node",
        "sp-state-machine as in a node, with a recorder and a warm cache",
    ),
];

/// Results of the comparison.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Checks {
    /// Random blocks whose update differs in some mode; must be 0.
    pub(crate) updates_differ: usize,
    /// Real states whose update from the empty state, or whose root, differs; must be 0.
    pub(crate) known_states_differ: usize,
}

impl Checks {
    /// The checks, and whether they hold.
    pub(crate) fn named(&self) -> [(&'static str, bool); 2] {
        [
            (UPDATES_AGREE, self.updates_differ == 0),
            (STATES_AGREE, self.known_states_differ == 0),
        ]
    }

    /// The names of the checks that failed.
    pub(crate) fn failed(&self) -> Vec<String> {
        output::failed(self.named())
    }
}

/// Sums over the blocks of one state version whose updates agree.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct OfVersion {
    /// The version of the state's layout.
    #[schemars(extend("enum" = VersionArg::NUMBERS))]
    pub(crate) state_version: u8,
    /// Blocks that agreed.
    pub(crate) blocks: u64,
    /// Changes in these blocks.
    pub(crate) changes: u64,
    /// Nodes inserted.
    pub(crate) inserted: u64,
    /// Nodes removed.
    pub(crate) removed: u64,
}

/// A block whose update differs.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Failed {
    /// Flavour of the random block.
    #[schemars(extend("enum" = Flavour::ALL.map(Flavour::name)))]
    pub(crate) flavour: String,
    /// The block's own seed.
    pub(crate) seed: u64,
    /// The version of the state's layout.
    #[schemars(extend("enum" = VersionArg::NUMBERS))]
    pub(crate) state_version: u8,
    /// What differs.
    pub(crate) mismatch: String,
}

/// A real state whose update or root differs.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct KnownFailed {
    /// Name of the state.
    pub(crate) state: String,
    /// What differs.
    pub(crate) mismatch: String,
}

/// Root updates beside those of sp-state-machine, and what they cost.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct RootReport {
    /// Random blocks of each state version.
    pub(crate) cases: u64,
    /// Seed of blocks and keys.
    pub(crate) seed: u64,
    /// Modes of computing a root that were compared.
    pub(crate) modes: Vec<String>,
    /// Modes that this processor does not support.
    pub(crate) missing: Vec<String>,
    /// Results of the comparison.
    pub(crate) checks: Checks,
    /// Sums by state version.
    pub(crate) versions: [OfVersion; 2],
    /// Real states that were compared.
    pub(crate) known_states: usize,
    /// The first blocks that differ.
    pub(crate) failures: Vec<Failed>,
    /// Real states that differ.
    pub(crate) known_failures: Vec<KnownFailed>,
    /// Measured rounds.
    pub(crate) rounds: usize,
    /// Cost of an update.
    pub(crate) rows: Vec<RootRow>,
    /// Cost of hashing the new nodes of an update.
    pub(crate) hashing: Vec<HashRow>,
}

impl CommandResult for RootReport {
    const COMMAND: &'static str = "compare root";
    const WHAT: &'static str = "root";
    const SCHEMA: u64 = 1;
}

impl fmt::Display for RootReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cases, seed, .. } = self;
        writeln!(
            f,
            "{cases} random blocks of each state version from seed {seed}, in modes {}",
            self.modes.join(", ")
        )?;
        if !self.missing.is_empty() {
            writeln!(f, "not supported here: {}", self.missing.join(", "))?;
        }
        self.fmt_checks(f)?;
        self.fmt_rows(f)?;
        self.fmt_hashing(f)
    }
}

impl RootReport {
    fn fmt_checks(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new(["<", "blocks", "changes", "inserted", "removed"]);
        for of in &self.versions {
            table.row([
                format!("version {}", of.state_version),
                of.blocks.to_string(),
                of.changes.to_string(),
                of.inserted.to_string(),
                of.removed.to_string(),
            ]);
        }
        let checks = &self.checks;
        let differ = checks.updates_differ;
        writeln!(
            f,
            "\n{table}\n\n{}{UPDATES_AGREE}: roots and nodes are sp-state-machine's in all modes ({differ} \
             blocks differ)",
            verdict(differ == 0)
        )?;
        let (states, differ) = (self.known_states, checks.known_states_differ);
        match states {
            0 => writeln!(
                f,
                "no data {STATES_AGREE}: the same for 0 real states; set POVMETER_DATA to compare some"
            )?,
            _ => writeln!(
                f,
                "{}{STATES_AGREE}: the same for {states} real states ({differ} differ)",
                verdict(differ == 0)
            )?,
        }
        for failed in &self.failures {
            writeln!(
                f,
                "  {} block {}, state version {}: {}",
                failed.flavour, failed.seed, failed.state_version, failed.mismatch
            )?;
        }
        let mut failed = self.known_failures.iter();
        failed.try_for_each(|failed| writeln!(f, "  {}: {}", failed.state, failed.mismatch))
    }

    fn fmt_rows(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "\nus per update (cpu time; wall time on threads), medians of {}; peer_plain, peer_node: \
             how many times as long sp-state-machine takes",
            counted(self.rounds as u64, "round")
        )?;
        let mut table = Table::new([
            "keys",
            "changes",
            "<",
            "us",
            "peer_plain",
            "peer_node",
            "allocs/change",
        ])
        .keyed_by(3);
        for row in &self.rows {
            let allocations = row.allocations_per_change;
            table.row([
                row.keys.to_string(),
                row.changes.to_string(),
                row.mode.clone(),
                format!("{:.1}", row.us),
                format!("{:.2}", row.ratio_to_peer_plain),
                format!("{:.2}", row.ratio_to_peer_node),
                or_dash(allocations.map(|count| format!("{count:.3}"))),
            ]);
        }
        writeln!(f, "{table}")
    }

    fn fmt_hashing(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\nus of hashing alone, for all new nodes of an update")?;
        let mut table = Table::new([
            "keys",
            "changes",
            "<",
            "us",
            "nodes",
            "compressions",
            "ns per compression",
        ])
        .keyed_by(3);
        for row in &self.hashing {
            let each = row.us * 1_000.0 / row.compressions.max(1) as f64;
            table.row([
                row.keys.to_string(),
                row.changes.to_string(),
                row.mode.clone(),
                format!("{:.1}", row.us),
                row.nodes.to_string(),
                row.compressions.to_string(),
                format!("{each:.1}"),
            ]);
        }
        writeln!(f, "{table}\n")?;
        let lines = MODES.map(|(name, meaning)| format!("{name:<10}  {meaning}"));
        f.write_str(&lines.join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use povmeter_delta_root::HashMode;

    #[test]
    fn each_mode_is_explained() {
        let of_hashing = HashMode::ALL.map(HashMode::name);
        let others = [RootRow::COLD, RootRow::PEER_PLAIN, RootRow::PEER_NODE];
        for name in of_hashing.into_iter().chain(others) {
            assert!(MODES.iter().any(|(mode, _)| *mode == name), "{name}");
        }
    }

    #[test]
    fn every_difference_fails_a_check() {
        let fine = Checks {
            updates_differ: 0,
            known_states_differ: 0,
        };
        assert!(fine.failed().is_empty());
        let updates_differ = 1;
        let failed = Checks {
            updates_differ,
            ..fine
        };
        assert_eq!(failed.failed(), ["updates agree"]);
        let known_states_differ = 3;
        let failed = Checks {
            known_states_differ,
            ..fine
        };
        assert_eq!(failed.failed(), ["real states agree"]);
    }
}
