//! Turns: how an execution ahead continues on the block, and what it may see of the block before.
//!
//! These are traits, because an execution ahead knows neither the source nor the accounting of the block.

use crate::{record::Record, shared::Ended, store::WriteSet, view::Access};
use povmeter::{BlockError, KeptValue, TrieId};

/// The parent state, read through the block, which loads missing nodes.
pub(crate) trait LoadedParent: Sync {
    /// Returns the value at `key`, or `None` if another thread holds the block.
    fn peek(&self, trie: TrieId<'_>, key: &[u8]) -> Option<Result<Option<KeptValue>, BlockError>>;
}

/// Gives a transaction the block when its turn has come.
pub(crate) trait Turns<T>: LoadedParent {
    /// Waits for the turn of `index`, which the caller executes, and compares its reads with the block. From then on
    /// the transaction continues on the block. `None` if it has to be executed again at its turn. `of_block` is
    /// `true` for the thread of the block.
    fn take<'t>(
        &'t self,
        index: u32,
        of_block: bool,
        record: &Record,
        writes: &WriteSet,
    ) -> Option<Box<dyn AtTurn<T> + 't>>;
}

/// A transaction that continues on the block. No other transaction is committed before it ends.
pub(crate) trait AtTurn<T> {
    /// Returns the block.
    fn access(&mut self) -> &mut dyn Access;

    /// Commits the transaction, which has returned `result`.
    fn end(self: Box<Self>, result: Result<T, Ended>);
}
