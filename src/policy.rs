//! When an author's block estimates.

use crate::{Advisory, Block, BlockError};
use povmeter_delta_root::{compact_bytes, NodeSource};
use povmeter_pov_estimate::ProofSize;

/// When to estimate exactly, for authors that ask after each extrinsic and care only near a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum EstimatePolicy {
    /// At every question.
    #[default]
    EveryBoundary,
    /// Only when an upper bound, for which no trie is walked, reaches `limit_bytes`.
    NearLimit {
        /// Proof size below which the caller needs no exact number.
        limit_bytes: u64,
        /// Bytes of the largest trie node the state has. One written in state version 1 has 566
        /// and its partial key at most; one written in version 0 holds its value, of any length.
        largest_node_bytes: u64,
    },
}

/// What is known of the proof size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizeBound {
    /// The size itself, as [`Block::proof_size`] says it.
    Exact(ProofSize),
    /// The size is this or less, and less than the policy's limit.
    AtMost {
        /// Bytes.
        bytes: u64,
    },
}

/// Nodes that one changed key of `key_bytes` bytes can make the root computation read: one for each
/// nibble of the way and the last, and one to merge with.
fn most_nodes(key_bytes: usize) -> u64 {
    (key_bytes as u64).saturating_mul(2).saturating_add(2)
}

impl<S: NodeSource> Block<S, Advisory> {
    /// The proof size if the block ended now, as exactly as `policy` wants it: never less than it
    /// is. Keys that are not estimated now are when a later call estimates, each once.
    ///
    /// The bound costs a look at each key changed since the last estimate. It is crude, some tens of
    /// kilobytes for each key: useful while the limit is far away.
    ///
    /// Only for [`Advisory`] blocks: what the runtime is told must not depend on an author's policy.
    ///
    /// # Errors
    /// [`BlockError::Load`] where it estimates exactly.
    pub fn proof_size_within(&mut self, policy: EstimatePolicy) -> Result<SizeBound, BlockError> {
        if let EstimatePolicy::NearLimit {
            limit_bytes,
            largest_node_bytes,
        } = policy
        {
            let node = largest_node_bytes.saturating_add(compact_bytes(largest_node_bytes));
            let unknown = self.overlay.dirty().map(|dirty| {
                let child_root = match dirty.store {
                    povmeter_overlay::StoreId::Top => 0,
                    povmeter_overlay::StoreId::Child(key) => {
                        most_nodes(crate::CHILD_ROOT_PREFIX.len() + key.len())
                    }
                };
                most_nodes(dirty.key.len())
                    .saturating_add(child_root)
                    .saturating_mul(node)
            });
            let counted = self.recorded_size().total_bytes();
            let bytes = unknown.fold(counted, u64::saturating_add);
            if bytes < limit_bytes {
                return Ok(SizeBound::AtMost { bytes });
            }
        }
        self.proof_size().map(SizeBound::Exact)
    }
}
