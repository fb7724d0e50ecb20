//! The result of replaying a block.

use povmeter_attribution::{BlockAttribution, StorageName};
use povmeter_dev_runtime::{
    BoundarySize, Calls, ExtrinsicTimes, PovSizes, ProofSizes, RuntimeError, Spent,
};
use sp_core::H256;
use sp_state_machine::StorageCollection;
use sp_trie::StorageProof;
use std::sync::Arc;

/// A block that was executed again and has the root in its header.
#[derive(Clone, Debug)]
pub struct ReplayedBlock {
    /// Number of the block.
    pub number: u32,
    /// Hash of the block.
    pub hash: H256,
    /// State root after the block.
    pub state_root: H256,
    /// Number of extrinsics, inherents included.
    pub extrinsics: usize,
    /// Times of the executions.
    pub times: BlockTimes,
    /// Calls of the runtime to its host when the block is executed as a whole.
    pub calls: Calls,
    /// Sizes of the proof.
    pub sizes: ProofSizes,
    /// Sizes of the whole PoV, as if the block was one of a parachain.
    pub pov: PovSizes,
    /// The proof.
    pub proof: StorageProof,
    /// The changed keys of the top trie with their new values, ordered by key.
    pub changes: StorageCollection,
    /// The proof sizes that its runtime was told, in order, in bytes.
    pub told: Vec<u64>,
    /// The estimate after the last extrinsic; `None` on the peer.
    pub estimate: Option<BoundarySize>,
    /// The bytes that the peer would have recorded if the block had ended after the last extrinsic;
    /// only in the mode `Ours`.
    pub truth: Option<u64>,
    /// The attribution of the proof's bytes, if asked for.
    pub attribution: Option<ReplayAttribution>,
    /// The sizes and times of each extrinsic; empty unless asked for.
    pub steps: Vec<ReplayedExtrinsic>,
    /// Checks beyond the root.
    pub checks: Vec<Check>,
}

/// The attribution of a proof's bytes, and the names of the runtime's storage items.
#[derive(Clone, Debug)]
pub struct ReplayAttribution {
    /// The recorded nodes with the parts that need them.
    pub block: BlockAttribution,
    /// The names, or why there are none.
    pub names: RuntimeNames,
}

/// The names of a runtime's storage items, or why there are none.
pub(super) type RuntimeNames = Arc<Result<Vec<StorageName>, RuntimeError>>;

/// The proof size and time of one extrinsic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayedExtrinsic {
    /// Size after the extrinsic; on the peer without the root computation.
    pub size: BoundarySize,
    /// Time of the extrinsic.
    pub times: ExtrinsicTimes,
    /// Bytes of the header and of the extrinsics up to this one.
    pub block_bytes: u64,
}

/// Times of the two ways to execute a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockTimes {
    /// As a whole, as an importer does.
    pub whole: Spent,
    /// In steps, as an author does.
    pub steps: Spent,
}

/// A condition that a block must meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// Name of the condition.
    pub name: &'static str,
    /// Whether the block meets it.
    pub holds: bool,
    /// The numbers behind the result.
    pub detail: String,
    /// A difference from sp-state-machine that docs/differences.md explains.
    pub by_design: Option<String>,
}

impl Check {
    /// Makes a check without a difference by design.
    pub(super) fn new(name: &'static str, holds: bool, detail: String) -> Self {
        Self {
            name,
            holds,
            detail,
            by_design: None,
        }
    }
}
