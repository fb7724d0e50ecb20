//! A pool of the memory of blocks.

use crate::{scratch::Scratch, Accounting, Block, Consensus, SealError, SealedBlock};
use core::{
    borrow::Borrow,
    ops::{Deref, DerefMut},
};
use povmeter_delta_root::{NodeSource, Root, StateVersion};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The memory of blocks that are over, for blocks to come: for whoever builds one block after the other,
/// or several at once.
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
/// However a block ends, sealed, dropped, or by a panic above it, its memory comes back, emptied. What a
/// block hands out is never in memory that comes back, until it is handed back itself
/// ([`BlockPool::recycle`]).
#[derive(Debug, Default)]
pub struct BlockPool {
    spare: Mutex<Vec<Scratch>>,
}

/// Blocks that are built at once, as a rule: more memory than theirs is not kept.
const MOST_SPARE: usize = 8;

impl BlockPool {
    /// A pool without memory.
    pub fn new() -> Self {
        Self::default()
    }

    /// A block on top of the state that `parent` commits and `source` holds; as [`Block::new`], in the
    /// memory of an earlier block if there is one.
    pub fn block<S: NodeSource>(
        &self,
        source: S,
        parent: Root,
    ) -> PooledBlock<S, Consensus, &Self> {
        self.block_with(source, parent, Consensus)
    }

    /// The same with the accounting of choice.
    pub fn block_with<S: NodeSource, A: Accounting>(
        &self,
        source: S,
        parent: Root,
        accounting: A,
    ) -> PooledBlock<S, A, &Self> {
        PooledBlock::new(self, source, parent, accounting)
    }

    /// How many blocks could start now without memory of their own.
    pub fn spare_blocks(&self) -> usize {
        self.spare().len()
    }

    /// Bytes of memory that they have for keys and values to be written.
    pub fn spare_bytes(&self) -> usize {
        self.spare()
            .iter()
            .map(|spare| spare.overlay.memory())
            .sum()
    }

    /// Nothing is done under the lock that can be left half done.
    fn spare(&self) -> MutexGuard<'_, Vec<Scratch>> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the memory of a sealed block, once nobody has a use for it any more: after its update was
    /// committed to the store, and its proof sent.
    ///
    /// Nodes that somebody shares, such as a store in memory that has taken them, stay theirs. It is not
    /// needed to call this: a sealed block that is dropped costs the next one some megabytes of new
    /// memory.
    pub fn recycle(&self, sealed: SealedBlock) {
        let mut scratch = self.spare().pop().unwrap_or_default();
        scratch.recycle(sealed);
        self.give_back(scratch);
    }

    fn give_back(&self, scratch: Scratch) {
        let mut spare = self.spare();
        if spare.len() < MOST_SPARE {
            spare.push(scratch);
        }
    }
}

/// A [`Block`] whose memory goes back to a [`BlockPool`] when it is over: to one that it borrows, or
/// shares.
#[derive(Debug)]
pub struct PooledBlock<S, A = Consensus, P = Arc<BlockPool>>
where
    A: Accounting,
    P: Borrow<BlockPool>,
{
    /// Always there until the block is dropped.
    block: Option<Block<S, A>>,
    pool: P,
}

impl<S: NodeSource, A: Accounting, P: Borrow<BlockPool>> PooledBlock<S, A, P> {
    /// A block on top of the state that `parent` commits to and `source` holds; as
    /// [`Block::with_accounting`], in the memory of an earlier block of `pool` if there is one.
    pub fn new(pool: P, source: S, parent: Root, _accounting: A) -> Self {
        let scratch = pool.borrow().spare().pop().unwrap_or_default();
        Self {
            block: Some(Block::in_scratch(source, parent, scratch)),
            pool,
        }
    }

    /// As [`Block::seal`].
    ///
    /// # Errors
    /// As [`Block::seal`]: the block that is handed back still belongs to its pool.
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
            self.pool.borrow().give_back(block.into_scratch());
        }
    }
}
