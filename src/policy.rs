//! When an author's block estimates.

use crate::{Advisory, Block, BlockError};
use povmeter_delta_root::{compact_bytes, NodeSource};
use povmeter_pov_estimate::ProofSize;
use povmeter_primitives::{TrieId, CHILD_ROOT_PREFIX};

/// When to estimate exactly.
///
/// For an author that asks after each extrinsic whether the block still fits, and is told nothing by the
/// exact size while the block is far from its limit: a chain of large blocks and small extrinsics, or a
/// node on a slow disk, where the estimate loads nodes that only the root would load otherwise.
///
/// ```
/// use povmeter::{Advisory, Block, EstimatePolicy, Root, SizeBound, TrieId::Top};
/// use povmeter_store::{MemoryStore, NodeStore};
///
/// let store = MemoryStore::new();
/// let mut block = Block::with_accounting(&store, store.root(), Advisory);
/// let policy = EstimatePolicy::near_limit(5 * 1024 * 1024);
/// let mut fits = 0;
/// for extrinsic in 0..100_u8 {
///     block.set(Top, &[extrinsic; 32], b"applied")?;
///     fits += match block.proof_size_within(policy)? {
///         SizeBound::AtMost { .. } => 1,  // far away: no trie was walked
///         SizeBound::Exact(size) => u32::from(size.total_bytes() < 5 * 1024 * 1024),
///     };
/// }
/// assert_eq!(fits, 100);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
        /// Bytes that no trie node of the state exceeds; [`EstimatePolicy::LARGEST_NODE_BYTES`] if
        /// its values were written in state version 1.
        largest_node_bytes: u64,
    },
}

impl EstimatePolicy {
    /// Bytes that no trie node exceeds which was written in state version 1, with keys of up to 458
    /// bytes: 16 hashes of children, one of a value, header, bitmap and lengths take 566, the rest is
    /// for the partial key. A node written in version 0 holds its value, of any length.
    pub const LARGEST_NODE_BYTES: u64 = 1024;

    /// [`Self::NearLimit`] for a state whose values were written in state version 1.
    pub const fn near_limit(limit_bytes: u64) -> Self {
        Self::NearLimit {
            limit_bytes,
            largest_node_bytes: Self::LARGEST_NODE_BYTES,
        }
    }
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
                let child_root = match dirty.trie {
                    TrieId::Top => 0,
                    TrieId::Child(key) => most_nodes(CHILD_ROOT_PREFIX.len() + key.len()),
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
