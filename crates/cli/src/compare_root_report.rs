//! The report on root updates, as text and as JSON.

use crate::{
    output::{self, verdict, Heading},
    table::{or_dash, Table},
};
use povmeter_dev_measure::RootSpeedReport;
use serde::Serialize;
use std::fmt;

/// The result of the comparison with the peer.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Checks {
    /// Random blocks whose update is not the peer's in some mode.
    pub(crate) updates_differ: usize,
    /// Real states whose update from the empty state is not the peer's in some mode, or whose root is
    /// not the known one.
    pub(crate) known_states_differ: usize,
}

impl Checks {
    /// The names of the checks that failed.
    pub(crate) fn failed(&self) -> Vec<&'static str> {
        output::failed([
            ("updates_differ", self.updates_differ == 0),
            ("known_states_differ", self.known_states_differ == 0),
        ])
    }
}

/// Sums over the blocks of one state version that agree.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct OfVersion {
    pub(crate) state_version: u8,
    pub(crate) blocks: u64,
    pub(crate) changes: u64,
    pub(crate) inserted: u64,
    pub(crate) removed: u64,
}

/// A block that did not agree with the peer.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Failed {
    pub(crate) flavour: &'static str,
    pub(crate) seed: u64,
    pub(crate) state_version: u8,
    pub(crate) mismatch: String,
}

/// A real state that did not agree.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct KnownFailed {
    pub(crate) state: String,
    pub(crate) mismatch: String,
}

/// Correctness and cost of root updates.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct RootReport {
    #[serde(flatten)]
    pub(crate) heading: Heading,
    pub(crate) cases: u64,
    pub(crate) seed: u64,
    /// The modes compared.
    pub(crate) modes: Vec<&'static str>,
    /// The modes that this machine does not support.
    pub(crate) missing: Vec<&'static str>,
    pub(crate) checks: Checks,
    pub(crate) versions: [OfVersion; 2],
    pub(crate) known_states: usize,
    pub(crate) failures: Vec<Failed>,
    pub(crate) known_failures: Vec<KnownFailed>,
    pub(crate) rounds: usize,
    #[serde(flatten)]
    pub(crate) speed: RootSpeedReport,
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
            "\n{table}\n\n{}updates_differ: roots and nodes are sp-state-machine's in all modes ({differ} blocks)",
            verdict(differ == 0)
        )?;
        let (states, differ) = (self.known_states, checks.known_states_differ);
        writeln!(
            f,
            "{}known_states_differ: the same for {states} real states ({differ} states)",
            match states {
                0 => "no data ",
                _ => verdict(differ == 0),
            }
        )?;
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
            "\nus per update (cpu time; wall time on threads), medians of {} rounds; peer_plain, peer_node: \
             how many times as long sp-state-machine takes",
            self.rounds
        )?;
        let mut table = Table::new([
            "keys",
            "changes",
            "<",
            "us",
            "peer_plain",
            "peer_node",
            "allocs/change",
        ]);
        for row in &self.speed.rows {
            let allocations = row.allocations_per_change;
            table.row([
                row.keys.to_string(),
                row.changes.to_string(),
                row.mode.to_owned(),
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
        ]);
        for row in &self.speed.hashing {
            let each = row.us * 1_000.0 / row.compressions.max(1) as f64;
            table.row([
                row.keys.to_string(),
                row.changes.to_string(),
                row.mode.to_owned(),
                format!("{:.1}", row.us),
                row.nodes.to_string(),
                row.compressions.to_string(),
                format!("{each:.1}"),
            ]);
        }
        write!(f, "{table}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(failed.failed(), ["updates_differ"]);
        let known_states_differ = 3;
        let failed = Checks {
            known_states_differ,
            ..fine
        };
        assert_eq!(failed.failed(), ["known_states_differ"]);
    }
}
