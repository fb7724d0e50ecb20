//! Turns: how an execution ahead goes on on the block, and what it may see of it before.
//!
//! Traits, because an execution ahead knows neither the source nor the accounting of the block.

use crate::{record::Record, shared::Ended, store::WriteSet, view::Access};
use povmeter::{BlockError, KeptValue, TrieId};

/// The parent state through the block, which loads what it lacks.
pub(crate) trait LoadedParent: Sync {
    /// The value at `key`; `None` if another thread has the block.
    fn peek(&self, trie: TrieId<'_>, key: &[u8]) -> Option<Result<Option<KeptValue>, BlockError>>;
}

/// Gives a transaction the block when its turn has come.
pub(crate) trait Turns<T>: LoadedParent {
    /// Waits for the turn of `index`, which the caller executes, and compares what it read with the block. From
    /// then on it goes on on the block. `None` if it has to be executed again, at its turn. `of_block` for
    /// the thread of the block.
    fn take<'t>(
        &'t self,
        index: u32,
        of_block: bool,
        record: &Record,
        writes: &WriteSet,
    ) -> Option<Box<dyn AtTurn<T> + 't>>;
}

/// A transaction that goes on on the block. No other one is committed before its end.
pub(crate) trait AtTurn<T> {
    /// The block.
    fn access(&mut self) -> &mut dyn Access;

    /// Commits the transaction, which has returned `result`.
    fn end(self: Box<Self>, result: Result<T, Ended>);
}
