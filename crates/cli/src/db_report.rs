//! The results of `povmeter db`.

use crate::{
    advice::RESTORE,
    output::{CommandResult, HexHash},
};
use povmeter::Root;
use povmeter_store::{KeptState, KeptStates, StoreStat};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sp_core::H256;
use std::fmt;

/// A state that a store keeps.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct State {
    /// Name of the state in its store.
    pub(crate) id: u64,
    /// Name of the state that it is built on; null for the oldest.
    #[serde(deserialize_with = "Option::deserialize")]
    pub(crate) parent: Option<u64>,
    /// Number of commits between the state without entries and this one.
    pub(crate) height: u64,
    /// Root of the state.
    pub(crate) root: HexHash,
}

impl From<&KeptState> for State {
    fn from(state: &KeptState) -> Self {
        Self {
            id: state.id.number(),
            parent: state.parent.map(|parent| parent.number()),
            height: state.height,
            root: hash(state.root),
        }
    }
}

fn hash(root: Root) -> HexHash {
    H256(root.into()).into()
}

/// Whether a store is intact.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct VerifyReport {
    /// Whether nothing is wrong.
    pub(crate) intact: bool,
    /// Kept states.
    pub(crate) states: usize,
    /// Distinct nodes.
    pub(crate) nodes: u64,
    /// Bytes of these nodes.
    pub(crate) bytes: u64,
    /// Places of nodes that were visited.
    pub(crate) places: u64,
    /// The first 100 problems.
    pub(crate) problems: Vec<String>,
    /// Number of problems.
    pub(crate) problem_count: u64,
}

impl VerifyReport {
    pub(crate) fn of(found: &povmeter_store::VerifyReport) -> Self {
        Self {
            intact: found.is_clean(),
            states: found.states,
            nodes: found.nodes,
            bytes: found.bytes,
            places: found.places,
            problems: found.problems.iter().map(ToString::to_string).collect(),
            problem_count: found.problem_count,
        }
    }
}

impl CommandResult for VerifyReport {
    const COMMAND: &'static str = "db verify";
    const WHAT: &'static str = "db-verify";
    const SCHEMA: u64 = 1;
    const IF_FAILED: &'static str = RESTORE;
}

impl fmt::Display for VerifyReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = |name: &str, number: u64| writeln!(f, "{name:<16} {number}");
        line("kept states", self.states as u64)?;
        line("nodes", self.nodes)?;
        line("bytes", self.bytes)?;
        line("places", self.places)?;
        line("problems", self.problem_count)?;
        for problem in &self.problems {
            writeln!(f, "  {problem}")?;
        }
        let more = self.problem_count - self.problems.len() as u64;
        if more > 0 {
            writeln!(f, "  and {more} more")?;
        }
        write!(f, "{}intact", crate::output::verdict(self.intact))
    }
}

/// Numbers about a store.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct StatReport {
    /// Distinct nodes.
    pub(crate) nodes: u64,
    /// Bytes of these nodes.
    pub(crate) bytes: u64,
    /// References to these nodes.
    pub(crate) references: u64,
    /// Places of nodes in the newest state.
    pub(crate) places: u64,
    /// Nodes on the longest path of the newest state.
    pub(crate) depth: u32,
    /// The kept states, the oldest first.
    pub(crate) states: Vec<State>,
}

impl StatReport {
    pub(crate) fn of(stat: &StoreStat) -> Self {
        Self {
            nodes: stat.nodes,
            bytes: stat.bytes,
            references: stat.references,
            places: stat.places,
            depth: stat.depth,
            states: stat.states.iter().map(State::from).collect(),
        }
    }
}

impl CommandResult for StatReport {
    const COMMAND: &'static str = "db stat";
    const WHAT: &'static str = "db-stat";
    const SCHEMA: u64 = 1;
}

impl fmt::Display for StatReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = |name: &str, number: u64| writeln!(f, "{name:<16} {number}");
        line("nodes", self.nodes)?;
        line("bytes", self.bytes)?;
        line("references", self.references)?;
        line("newest places", self.places)?;
        line("newest depth", u64::from(self.depth))?;
        line("kept states", self.states.len() as u64)?;
        write_states(f, &self.states)
    }
}

/// Writes a line for each state, the last one without a line break.
fn write_states(f: &mut fmt::Formatter<'_>, states: &[State]) -> fmt::Result {
    let mut table = crate::table::Table::new(["state", "on", "height", "<root"]);
    for state in states {
        table.row([
            state.id.to_string(),
            crate::table::or_dash(state.parent),
            state.height.to_string(),
            state.root.to_string(),
        ]);
    }
    write!(f, "{table}")
}

/// What was dropped from a store.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct PruneReport {
    /// States that were dropped.
    pub(crate) dropped: Vec<State>,
    /// States that are kept, the oldest first.
    pub(crate) states: Vec<State>,
}

impl PruneReport {
    pub(crate) fn of(dropped: &[KeptState], kept: &KeptStates) -> Self {
        Self {
            dropped: dropped.iter().map(State::from).collect(),
            states: kept.iter().map(State::from).collect(),
        }
    }
}

impl CommandResult for PruneReport {
    const COMMAND: &'static str = "db prune";
    const WHAT: &'static str = "db-prune";
    const SCHEMA: u64 = 1;
}

impl fmt::Display for PruneReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<16} {}", "dropped states", self.dropped.len())?;
        writeln!(f, "{:<16} {}", "kept states", self.states.len())?;
        write_states(f, &self.states)
    }
}

/// A copy of a store.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct BackupReport {
    /// Distinct nodes copied.
    pub(crate) nodes: u64,
}

impl CommandResult for BackupReport {
    const COMMAND: &'static str = "db backup";
    const WHAT: &'static str = "db-backup";
    const SCHEMA: u64 = 1;
}

impl fmt::Display for BackupReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<16} {}", "nodes copied", self.nodes)
    }
}
