//! What comes of a block that is replayed.

use povmeter_attribution::{BlockAttribution, StorageName};
use povmeter_dev_runtime::{BoundarySize, Calls, ExtrinsicTimes, ProofSizes, RuntimeError, Spent};
use sp_core::H256;
use sp_state_machine::StorageCollection;
use sp_trie::StorageProof;
use std::sync::Arc;

/// A block that was executed again, and whose header has the root that came out.
#[derive(Clone, Debug)]
pub struct ReplayedBlock {
    /// Its number.
    pub number: u32,
    /// Its hash.
    pub hash: H256,
    /// The state root after it.
    pub state_root: H256,
    /// Extrinsics in it, inherents included.
    pub extrinsics: usize,
    /// How long it took.
    pub times: BlockTimes,
    /// What its runtime asked for, executing it as a whole.
    pub calls: Calls,
    /// The sizes of its proof.
    pub sizes: ProofSizes,
    /// Its proof.
    pub proof: StorageProof,
    /// The changed keys of the top trie with their new values, ordered by key.
    pub changes: StorageCollection,
    /// The proof sizes that its runtime was told, in order, in bytes.
    pub told: Vec<u64>,
    /// The estimate after the last extrinsic; `None` of the peer's.
    pub estimate: Option<BoundarySize>,
    /// What the peer would have recorded, had the block ended there.
    pub truth: Option<u64>,
    /// Whose the bytes of its proof are, if that was asked for.
    pub attribution: Option<ReplayAttribution>,
    /// Each extrinsic, if that was asked for.
    pub steps: Vec<ReplayedExtrinsic>,
    /// What must hold besides the root.
    pub checks: Vec<Check>,
}

/// Whose the bytes of a proof are, and what the block's runtime calls its storage items.
#[derive(Clone, Debug)]
pub struct ReplayAttribution {
    /// Each recorded node, with who needs it.
    pub block: BlockAttribution,
    /// The names, or why there are none.
    pub names: RuntimeNames,
}

/// What a runtime calls its storage items, or why it does not say so.
pub(super) type RuntimeNames = Arc<Result<Vec<StorageName>, RuntimeError>>;

/// What one extrinsic did to the proof, and how long it took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayedExtrinsic {
    /// The size after it; of the peer's without what the root adds, which is not known there.
    pub size: BoundarySize,
    /// How long it took.
    pub times: ExtrinsicTimes,
}

/// How long the ways to execute a block took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockTimes {
    /// As a whole.
    pub whole: Spent,
    /// Initialized, applied, finalized.
    pub steps: Spent,
}

/// Something that must hold for a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// What.
    pub name: &'static str,
    /// Whether it does.
    pub holds: bool,
    /// Numbers to it.
    pub detail: String,
    /// What differs from sp-state-machine nevertheless, for a reason that docs/differences.md gives.
    pub by_design: Option<String>,
}

impl Check {
    /// A check to which nothing differs by design.
    pub(super) fn new(name: &'static str, holds: bool, detail: String) -> Self {
        Self {
            name,
            holds,
            detail,
            by_design: None,
        }
    }
}
