//! A pool that reuses the memory of finished blocks.

use crate::{
    carrier::Carrier, scratch::Scratch, Accounting, Block, Consensus, SealError, SealedBlock,
};
use core::{
    borrow::Borrow,
    ops::{Deref, DerefMut},
};
use povmeter_delta_root::{Hashing, NodeSource, Root, StateVersion};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A pool of the memory of finished blocks, for callers that build one block after the other, or
/// several at once.
///
/// ```
/// use povmeter::{BlockPool, Root, StateVersion::V1, TrieId::Top};
/// use povmeter_store::{MemoryStore, NodeStore};
///
/// let mut store = MemoryStore::new();
/// let pool = BlockPool::new();
/// for number in 0..3_u8 {
///     let mut block = pool.block(&store, store.root());
///     block.set(Top, b"number", &[number])?;
///     let sealed = block.seal(V1)?;
///     store.commit(sealed.update())?;
///     pool.recycle(sealed);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// The pool gets the memory of a block back, however the block ends: sealed, dropped, or by a panic.
/// The memory of the sealed block comes back only when the sealed block is given to
/// [`BlockPool::recycle`].
///
/// # What blocks loaded
/// A pool made by [`BlockPool::carrying`] also keeps the nodes that its blocks loaded, decoded and
/// linked. The next block finds them if it is
/// - on the same parent: one that is executed again, proposed and then imported, or a fork;
/// - on the state after a recycled block, whose new nodes take the place of those that they replace.
///
/// Sizes, proofs, roots and errors are those of a new block, because a block counts what it needs, not
/// what it loads. A fork that nobody builds on costs nothing. Two blocks at once on one state are
/// possible: one of them finds the nodes, the other loads them.
#[derive(Debug, Default)]
pub struct BlockPool {
    spare: Mutex<Vec<Scratch>>,
    carrier: Option<Carrier>,
}

/// The most blocks whose memory is kept; more are rarely built at once.
const MOST_SPARE: usize = 8;

impl BlockPool {
    /// An empty pool.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty pool that keeps what its blocks loaded, in at most about `bytes` of memory.
    ///
    /// All its blocks must be on one store, or on stores with the same nodes: a block does not ask its
    /// source for a node that an earlier block loaded. To test whether a proof is complete, use another
    /// pool.
    ///
    /// When the memory is full, nodes are dropped until half of it is free: first those that were
    /// replaced, then those that no block has needed for the longest time, among equals the deeper ones.
    /// Above some megabytes a thread does this: meanwhile blocks load what they need, and the copies use
    /// up to half of `bytes` more.
    /// A block that a panic drops, or whose source returned bytes that are no node, leaves nothing. One that is dropped
    /// later, because a panic of its source was caught, leaves its nodes as any other: a source is called only while
    /// all loaded nodes are whole.
    pub fn carrying(bytes: usize) -> Self {
        Self {
            carrier: Some(Carrier::new(bytes)),
            ..Self::default()
        }
    }

    /// Bytes of memory of the nodes that blocks loaded and no block uses now; zero unless the pool is
    /// [carrying](Self::carrying).
    pub fn carried_bytes(&self) -> usize {
        self.carrier.as_ref().map_or(0, Carrier::memory)
    }

    /// A block on top of the state that `parent` commits to and `source` holds: as [`Block::new`], in
    /// the memory of an earlier block if there is one.
    pub fn block<S: NodeSource>(
        &self,
        source: S,
        parent: Root,
    ) -> PooledBlock<S, Consensus, &Self> {
        self.block_with(source, parent, Consensus)
    }

    /// As [`Self::block`], with the given accounting.
    pub fn block_with<S: NodeSource, A: Accounting>(
        &self,
        source: S,
        parent: Root,
        accounting: A,
    ) -> PooledBlock<S, A, &Self> {
        PooledBlock::new(self, source, parent, accounting)
    }

    /// Number of blocks that can start without new memory.
    pub fn spare_blocks(&self) -> usize {
        self.spare().len()
    }

    /// Bytes of memory that [spare blocks](Self::spare_blocks) hold for keys and values to be written.
    pub fn spare_bytes(&self) -> usize {
        self.spare()
            .iter()
            .map(|spare| spare.overlay.memory())
            .sum()
    }

    /// The spare memory. A poisoned lock does no harm, because no change under it can be left half
    /// done.
    fn spare(&self) -> MutexGuard<'_, Vec<Scratch>> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reuses the memory of a sealed block that is no longer needed: its update is committed to the
    /// store, and its proof is sent.
    ///
    /// Nodes that are shared, for example with a store in memory, stay valid. The call is optional: if
    /// a sealed block is dropped instead, the next one allocates some megabytes of new memory.
    ///
    /// Without this call, a [carrying](Self::carrying) pool has no nodes for a block on top of `sealed`.
    pub fn recycle(&self, sealed: SealedBlock) {
        let mut scratch = self.spare().pop().unwrap_or_default();
        if let Some(update) = scratch.recycle(sealed, self.carrier.is_some()) {
            if let Some(unused) = self.carrier.as_ref().and_then(|all| all.add_update(update)) {
                scratch.state.recycle(unused);
            }
        }
        self.give_back(scratch);
    }

    /// Takes back the memory of a block, and what it loaded.
    fn take_back<S, A: Accounting>(&self, block: Block<S, A>) {
        // The panic may be one of this crate, a fault after which the shadow trie may be half changed.
        let carrier = self.carrier.as_ref().filter(|_| !std::thread::panicking());
        let (scratch, carried) = block.into_scratch(carrier.is_some());
        self.give_back(scratch);
        if let (Some(carrier), Some(carried)) = (carrier, carried) {
            carrier.add(carried);
        }
    }

    fn give_back(&self, scratch: Scratch) {
        let mut spare = self.spare();
        if spare.len() < MOST_SPARE {
            spare.push(scratch);
        }
    }
}

/// A [`Block`] whose memory goes back to its [`BlockPool`] at the end. It borrows the pool, or shares
/// it.
#[derive(Debug)]
pub struct PooledBlock<S, A = Consensus, P = Arc<BlockPool>>
where
    A: Accounting,
    P: Borrow<BlockPool>,
{
    /// `Some` until the block is dropped.
    block: Option<Block<S, A>>,
    pool: P,
}

impl<S: NodeSource, A: Accounting, P: Borrow<BlockPool>> PooledBlock<S, A, P> {
    /// A block on top of the state that `parent` commits to and `source` holds: as
    /// [`Block::with_accounting`], in the memory of an earlier block of `pool` if there is one.
    pub fn new(pool: P, source: S, parent: Root, _accounting: A) -> Self {
        let BlockPool { spare: _, carrier } = pool.borrow();
        let scratch = pool.borrow().spare().pop().unwrap_or_default();
        let carried = carrier.as_ref().and_then(|all| all.take(parent));
        let block = match carried {
            Some(carried) => Block::in_carried(source, carried, scratch),
            None => Block::in_scratch(source, parent, scratch),
        };
        Self {
            block: Some(block),
            pool,
        }
    }

    /// As [`Block::with_hashing`]. The next block of the pool hashes in the fastest mode again.
    #[must_use]
    pub fn with_hashing(mut self, hashing: Hashing) -> Self {
        let block = self.block.take();
        self.block = block.map(|block| block.with_hashing(hashing));
        self
    }

    /// As [`Block::seal`].
    ///
    /// # Errors
    /// As [`Block::seal`]; the block in the error still belongs to its pool.
    pub fn seal(mut self, version: StateVersion) -> Result<SealedBlock, SealError<Self>> {
        let sealed = self.seal_in_place(version);
        sealed.map_err(|error| SealError::new(self, error))
    }
}

/// The invariant of [`PooledBlock::block`].
const UNTIL_DROPPED: &str = "only dropping takes the block";

impl<S, A: Accounting, P: Borrow<BlockPool>> Deref for PooledBlock<S, A, P> {
    type Target = Block<S, A>;

    fn deref(&self) -> &Self::Target {
        self.block.as_ref().expect(UNTIL_DROPPED)
    }
}

impl<S, A: Accounting, P: Borrow<BlockPool>> DerefMut for PooledBlock<S, A, P> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        self.block.as_mut().expect(UNTIL_DROPPED)
    }
}

impl<S, A: Accounting, P: Borrow<BlockPool>> Drop for PooledBlock<S, A, P> {
    fn drop(&mut self) {
        if let Some(block) = self.block.take() {
            self.pool.borrow().take_back(block);
        }
    }
}
