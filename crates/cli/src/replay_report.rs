//! The report on replayed blocks.

use crate::{
    attribution_report::AttributionReport,
    output::{CommandResult, HexHash},
    pov::{LimitRow, PovRow},
};
#[cfg(feature = "wasm")]
use povmeter_attribution::ByteTally;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The state machines that execute blocks: povmeter, the peer, both.
pub(crate) const STATE_MACHINES: [&str; 3] = ["povmeter", "sp-state-machine", "both in lockstep"];
/// The sources of the proof size that runtimes are told: reads, estimates, a record.
pub(crate) const SIZES: [&str; 3] = ["reads", "estimate", "record"];

/// What is checked if a replay ended early.
pub(crate) const ALL_REPLAYED: &str = "all blocks replayed";

/// Blocks of a chain, executed again. `povmeter block --chain-spec` has the same result.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct ReplayReport {
    /// Name of the chain, as the file has it.
    pub(crate) name: String,
    /// Which state machine executed them.
    #[schemars(extend("enum" = STATE_MACHINES))]
    pub(crate) on: String,
    /// What runtimes were told of the proof size.
    #[schemars(extend("enum" = SIZES))]
    pub(crate) sizes: String,
    /// The blocks, in their order.
    pub(crate) blocks: Vec<Row>,
    /// What must hold for each block.
    pub(crate) checks: Vec<Checks>,
    /// Why the replay ended before its last block; null if it did not, and in results of earlier versions.
    #[serde(default)]
    pub(crate) error: Option<String>,
    // The attribution of the bytes of all proofs.
    #[cfg(feature = "wasm")]
    #[serde(skip)]
    pub(crate) tally: ByteTally,
    #[cfg(feature = "wasm")]
    #[serde(skip)]
    pub(crate) attribution: Option<AttributionReport>,
}

impl CommandResult for ReplayReport {
    const COMMAND: &'static str = "replay";
    const WHAT: &'static str = "replay";
    const SCHEMA: u64 = 1;
}

/// One block. Times are processor time of the thread, sizes are bytes.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Row {
    /// Number of the block.
    pub(crate) number: u32,
    /// Its hash.
    pub(crate) hash: HexHash,
    /// The state root after it.
    pub(crate) state_root: HexHash,
    /// Extrinsics in it, inherents included.
    pub(crate) extrinsics: usize,
    /// Processor time in milliseconds, executed as a whole.
    pub(crate) whole_ms: f64,
    /// Processor time in milliseconds, executed in steps: initialized, applied and finalized.
    pub(crate) steps_ms: f64,
    /// Reads of the runtime; null where they are not counted.
    #[serde(deserialize_with = "Option::deserialize")]
    pub(crate) reads: Option<u64>,
    /// Writes of the runtime; null where they are not counted.
    #[serde(deserialize_with = "Option::deserialize")]
    pub(crate) writes: Option<u64>,
    /// Bytes of the proof, each node with the prefix of its length.
    pub(crate) recorded: u64,
    /// Bytes of the proof, encoded.
    pub(crate) encoded: u64,
    /// Bytes of the compact proof, encoded.
    pub(crate) compact: u64,
    /// Number of nodes.
    pub(crate) nodes: u64,
    /// The whole PoV in bytes, as if the chain was a parachain; null in results of earlier versions.
    #[serde(default)]
    pub(crate) pov: Option<PovRow>,
    /// The block beside its limit; null without one.
    #[serde(default)]
    pub(crate) pov_limit: Option<LimitRow>,
    /// The estimate after the last extrinsic in bytes; null on sp-state-machine.
    #[serde(deserialize_with = "Option::deserialize")]
    pub(crate) estimate_after_last: Option<u64>,
    /// What sp-state-machine would have recorded, had the block ended there; null if this was not measured.
    #[serde(deserialize_with = "Option::deserialize")]
    pub(crate) truth_after_last: Option<u64>,
    /// How often the runtime asked for the proof size, executing the block as a whole.
    pub(crate) sizes_told: usize,
    /// What the bytes belong to; missing with --no-attribute, --peer and --lockstep, unless --attribute asks for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "AttributionReport")]
    pub(crate) attribution: Option<AttributionReport>,
}

/// One kind of check, over all blocks.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Checks {
    /// Name of the check.
    pub(crate) name: String,
    /// Blocks for which it holds.
    pub(crate) holds: usize,
    /// Blocks for which it was checked.
    pub(crate) of: usize,
    /// Checked blocks in which something differs from sp-state-machine by design.
    pub(crate) by_design: usize,
    /// The first block that differs by design, and what differs; null if there is none.
    #[serde(deserialize_with = "Option::deserialize")]
    pub(crate) first_by_design: Option<String>,
    /// The first block for which it fails, and why; null if there is none.
    #[serde(deserialize_with = "Option::deserialize")]
    pub(crate) first_failure: Option<String>,
}
