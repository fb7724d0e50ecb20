//! A pool of the memory of blocks.

use crate::{Accounting, Block, BlockError, Consensus, Scratch, SealedBlock};
use core::ops::{Deref, DerefMut};
use povmeter_delta_root::{NodeSource, Root, StateVersion};
use std::sync::{Mutex, MutexGuard, PoisonError};

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
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// However a block ends, sealed, dropped, or by a panic above it, its memory comes back, emptied. What a
/// block hands out is never in memory that comes back.
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
    pub fn block<S: NodeSource>(&self, source: S, parent: Root) -> PooledBlock<'_, S> {
        self.block_of(source, parent)
    }

    /// The same with the accounting of choice.
    pub fn block_of<S: NodeSource, A: Accounting>(
        &self,
        source: S,
        parent: Root,
    ) -> PooledBlock<'_, S, A> {
        let scratch = self.spare().pop().unwrap_or_default();
        PooledBlock {
            block: Some(Block::in_scratch(source, parent, scratch)),
            pool: self,
        }
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

    fn give_back(&self, scratch: Scratch) {
        let mut spare = self.spare();
        if spare.len() < MOST_SPARE {
            spare.push(scratch);
        }
    }
}

/// A [`Block`] whose memory goes back to a [`BlockPool`] when it is over.
#[derive(Debug)]
pub struct PooledBlock<'p, S, A = Consensus> {
    /// Always there until the block is dropped.
    block: Option<Block<S, A>>,
    pool: &'p BlockPool,
}

impl<S: NodeSource, A: Accounting> PooledBlock<'_, S, A> {
    /// As [`Block::seal`].
    ///
    /// # Errors
    /// As [`Block::seal`].
    pub fn seal(mut self, version: StateVersion) -> Result<SealedBlock, BlockError> {
        self.seal_in_place(version)
    }
}

/// Why there is a block.
const UNTIL_DROPPED: &str = "only dropping takes the block";

impl<S, A> Deref for PooledBlock<'_, S, A> {
    type Target = Block<S, A>;

    fn deref(&self) -> &Self::Target {
        self.block.as_ref().expect(UNTIL_DROPPED)
    }
}

impl<S, A> DerefMut for PooledBlock<'_, S, A> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        self.block.as_mut().expect(UNTIL_DROPPED)
    }
}

impl<S, A> Drop for PooledBlock<'_, S, A> {
    fn drop(&mut self) {
        if let Some(block) = self.block.take() {
            self.pool.give_back(block.into_scratch());
        }
    }
}
