//! Measurements of estimates: povmeter's shadow trie beside trie-db, on the same keys in one run.
//!
//! Our side is an [`Estimator`](povmeter_pov_estimate::Estimator) and a
//! [`Recorder`](povmeter_pov_estimate::Recorder) over a [`ShadowState`](povmeter_delta_root::ShadowState),
//! without the overlay. The peer's side is that of the open proposal for sp-state-machine: a trie
//! opened on the parent state at each boundary, with a recorder, `get` for a written key and `remove`
//! for a deleted one. The peer gets sorted keys, ours are in random order.
//!
//! ```text
//! our blocks use the memory of earlier blocks again, as with a pool
//! for each round: random keys; for each case: the peer and ours, in the next round the other one first
//! a row:          medians over rounds of processor time of the thread, divided by the keys
//! ```
//!
//! [`measure_roots`] measures root updates.

mod measure;
mod overlay;
mod peer_trie;
mod pool;
mod roots;
mod shadow;
mod state;
mod transfers;
mod turns;

pub use measure::{measure, SpeedError, SpeedOptions};
pub use overlay::{measure_overlay, OverlayMemory, OverlayOptions, OverlayReport, OverlayRow};
pub use pool::{measure_pool, PoolError, PoolReport, PoolRow};
pub use turns::Turns;

pub use roots::{
    measure_roots, HashRow, RootRow, RootSpeedError, RootSpeedOptions, RootSpeedReport,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The measured case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SpeedCase {
    /// Keys whose values were read before. trie-db opens a new trie, so it cannot reuse the reads, but its recorder has
    /// the nodes.
    Loaded,
    /// Keys that were not read before.
    Cold,
    /// Keys that an earlier boundary counted.
    Counted,
    /// Keys of balance transfers, read before, with a boundary after each transfer.
    Transfer,
    /// Counts that are rolled back. trie-db has none.
    Rollback,
}

impl SpeedCase {
    /// Name of the case.
    pub fn name(self) -> &'static str {
        match self {
            Self::Loaded => "loaded",
            Self::Cold => "cold",
            Self::Counted => "counted",
            Self::Transfer => "transfer",
            Self::Rollback => "rollback",
        }
    }
}

/// The cost of one case per changed key.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SpeedRow {
    /// What was measured.
    pub case: SpeedCase,
    /// Accounts in the parent state.
    pub keys: usize,
    /// Processor time of trie-db in nanoseconds, median; null if trie-db has no such operation.
    // `Option::deserialize`, here and elsewhere: null is a value, a missing field is an error.
    #[serde(deserialize_with = "Option::deserialize")]
    pub peer_ns: Option<f64>,
    /// Processor time of povmeter in nanoseconds, median.
    pub ours_ns: f64,
    /// Allocations of povmeter.
    pub allocations_per_key: f64,
}

/// Whether estimates get slower as a block grows.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Flatness {
    /// Accounts in the parent state.
    pub keys: usize,
    /// Nanoseconds of an estimate after the 50th transfer, over 50 transfers.
    pub after_50_ns: f64,
    /// Nanoseconds of an estimate after the 5,000th transfer, for accounts that the block touched before.
    pub after_5000_ns: f64,
    /// `after_5000_ns` divided by `after_50_ns`.
    pub ratio: f64,
}

/// Memory of the shadow trie of a block of transfers.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ShadowMemory {
    /// Accounts in the parent state.
    pub keys: usize,
    /// Nodes loaded, including inlined ones.
    pub loaded_nodes: usize,
    /// Bytes of memory of the loaded nodes, without the encoded nodes.
    pub arena_bytes: usize,
    /// Bytes of memory for each loaded node, without the encoded node.
    pub arena_bytes_per_node: f64,
}

/// The cost of estimates.
#[derive(Clone, Debug, Default)]
pub struct SpeedReport {
    /// A row for each case and size of the parent state.
    pub rows: Vec<SpeedRow>,
    /// An entry for each size of the parent state.
    pub flatness: Vec<Flatness>,
    /// An entry for each size of the parent state.
    pub memory: Vec<ShadowMemory>,
}
