//! When an author's block computes exact sizes.

use crate::{Block, BlockError, Untold};
use povmeter_delta_root::{compact_bytes, NodeSource};
use povmeter_pov_estimate::ProofSize;
use povmeter_primitives::{TrieId, CHILD_ROOT_PREFIX};

/// When to estimate exactly.
///
/// For an author that asks after each extrinsic whether the block still fits, and needs no exact size
/// while the block is far from its limit. It helps on a chain of large blocks and small extrinsics, and
/// on a slow disk, where an estimate loads nodes that otherwise only the root would load.
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
    /// At every call.
    #[default]
    EveryBoundary,
    /// Only when an upper bound reaches `limit_bytes`. The bound needs no walk through a trie. It holds only as far as
    /// `largest_node_bytes` does: no node of the parent state may be larger.
    NearLimit {
        /// Proof size below which the caller needs no exact number.
        limit_bytes: u64,
        /// Upper bound on the bytes of a trie node of the state. [`EstimatePolicy::LARGEST_NODE_BYTES`]
        /// if all of its values were written in state version 1, and no key has more than 457 bytes.
        largest_node_bytes: u64,
    },
}

impl EstimatePolicy {
    /// Upper bound on the bytes of a trie node written in state version 1, with keys of up to 457
    /// bytes: in the largest branch, 16 hashes of children, a value of 32 bytes, header, bitmap and lengths
    /// are 568 bytes, the partial key 456. Version 0 has no bound, because a node holds its value.
    pub const LARGEST_NODE_BYTES: u64 = 1024;

    /// [`Self::NearLimit`] for a state whose values were all written in state version 1, with keys of up to 457 bytes.
    /// A chain that began with version 0 and has not migrated each value is no such state: a node of it can be as large
    /// as its largest value. Neither is a state on which users choose longer keys.
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
    /// The size itself, as [`Block::proof_size`] returns it.
    Exact(ProofSize),
    /// The size is at most `bytes`, which is less than the policy's limit, if no node of the parent state is larger than
    /// the policy says.
    AtMost {
        /// The bound in bytes.
        bytes: u64,
    },
}

/// Upper bound on the nodes that the root computation reads for one changed key of `key_bytes` bytes:
/// one for each nibble of the path, one at its end, and one to merge with.
fn most_nodes(key_bytes: usize) -> u64 {
    (key_bytes as u64).saturating_mul(2).saturating_add(2)
}

impl<S: NodeSource, A: Untold> Block<S, A> {
    /// The proof size if the block ended now, or an upper bound, as `policy` says; never less than the size, if the
    /// parent state has no larger node than the policy says. Keys not estimated now are estimated by a later call, each
    /// once.
    ///
    /// The bound costs a step for each key changed since the last estimate. It is crude, some tens of
    /// kilobytes for each key, so it is useful only far from the limit.
    ///
    /// Only for blocks with [`Advisory`](crate::Advisory) accounting: sizes that a runtime sees must not depend on an
    /// author's policy.
    ///
    /// # Errors
    /// [`BlockError::Load`] if it estimates exactly and a node can't be loaded.
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
