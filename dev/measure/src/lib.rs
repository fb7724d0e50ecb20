//! What an estimate costs: povmeter's shadow trie beside trie-db, on the same keys in the same run.
//!
//! Ours are [`Estimator`](povmeter_pov_estimate::Estimator) and
//! [`Recorder`](povmeter_pov_estimate::Recorder) over a [`ShadowState`](povmeter_delta_root::ShadowState), without
//! the overlay; the peer's is a trie opened on the parent state at each boundary, with `get` for a
//! written key and `remove` for a deleted one, its recorder attached, as the open proposal for
//! sp-state-machine has it. The peer is handed sorted keys, ours come in no order.
//!
//! ```text
//! blocks of ours are in the memory of those before, as a pool hands it out
//! for each round: keys by chance; for each case: the peer and ours in turns, the other one first
//! a row:          medians over rounds of processor time of the thread, divided by the keys
//! ```
//!
//! [`measure_roots`] does the same for root updates.

mod measure;
mod overlay;
mod peer_trie;
mod pool;
mod roots;
mod shadow;
mod state;
mod transfers;

pub use measure::{measure, SpeedError, SpeedOptions};
pub use overlay::{
    measure_overlay, Allocated, OverlayMemory, OverlayOptions, OverlayReport, OverlayRow,
};
pub use pool::{measure_pool, PoolError, PoolReport, PoolRow};

pub use roots::{
    measure_roots, HashRow, RootRow, RootSpeedError, RootSpeedOptions, RootSpeedReport,
};

use serde::Serialize;

/// What was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SpeedCase {
    /// Keys whose values were read before. trie-db can't keep what was read: its trie is a new one.
    Loaded,
    /// Keys that nobody has read.
    Cold,
    /// Keys that an earlier boundary counted.
    Counted,
    /// Keys of balance transfers, read before, a boundary after each transfer.
    Transfer,
    /// Counts that are taken back. trie-db has none.
    Rollback,
}

impl SpeedCase {
    /// Its name.
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

/// What one case costs, per dirty key.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct SpeedRow {
    /// What was measured.
    pub case: SpeedCase,
    /// Accounts in the parent state.
    pub keys: usize,
    /// Nanoseconds of the peer, if it does such a thing at all.
    pub peer_ns: Option<f64>,
    /// Nanoseconds of ours.
    pub ours_ns: f64,
    /// Allocations of ours.
    pub allocations_per_key: f64,
}

/// Whether estimates get slower as a block grows.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Flatness {
    /// Accounts in the parent state.
    pub keys: usize,
    /// Nanoseconds of an estimate, on average over the 50 transfers after the 50th.
    pub after_50_ns: f64,
    /// The same after the 5,000th, of accounts that the block has met before.
    pub after_5000_ns: f64,
    /// How much more the latter is.
    pub ratio: f64,
}

/// What the shadow trie of a block of transfers holds in memory.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ShadowMemory {
    /// Accounts in the parent state.
    pub keys: usize,
    /// Trie nodes loaded, those inside their parents included.
    pub loaded_nodes: usize,
    /// Bytes of the arenas, without the encoded nodes themselves.
    pub arena_bytes: usize,
    /// Bytes of the arenas for each node.
    pub arena_bytes_per_node: f64,
}

/// What estimates cost.
#[derive(Clone, Debug, Default, Serialize)]
pub struct SpeedReport {
    /// One row for each case and size of the parent state.
    pub rows: Vec<SpeedRow>,
    /// One for each size.
    pub flatness: Vec<Flatness>,
    /// One for each size.
    pub memory: Vec<ShadowMemory>,
}
