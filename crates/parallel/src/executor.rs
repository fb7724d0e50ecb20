//! The executor of transactions, which the caller implements.

use crate::view::View;
use povmeter::{BlockError, TrieId};
use std::{any::Any, error::Error};

/// Executes the transactions of a block, on any thread, in any order, and as often as necessary.
///
/// A transaction must depend only on its index and on what the [`View`] returns. It makes all changes through the
/// view. Executions ahead of the turn may see values that no sequential execution sees, such as a balance without the
/// nonce that belongs to it. The result of such an execution is dropped, but the execution must end.
pub trait Executor: Sync {
    /// The state of one thread, such as an instance of a runtime.
    type Worker;
    /// What a transaction returns.
    type Output: Send;

    /// Makes the worker of the calling thread. Also called after a transaction of a worker has panicked.
    fn worker(&self) -> Self::Worker;

    /// Executes transaction `index`.
    ///
    /// # Errors
    /// [`Interrupt::Stopped`] if a call of the view returned [`Stopped`]: return it at once, as `?` does.
    /// [`Interrupt::Failed`] if the transaction cannot be part of the block: then its changes are undone and its
    /// reads do not count. A panic at the transaction's turn has the same effect; after a panic ahead of it, the
    /// transaction is executed again at its turn. A transaction that fails but is part of the block, such as a failed
    /// dispatch, returns its own [`Self::Output`].
    fn execute(
        &self,
        worker: &mut Self::Worker,
        index: u32,
        view: &mut View<'_>,
    ) -> Result<Self::Output, Interrupt>;

    /// Does work that [`Self::execute`] of transaction `index` will need, such as the check of its signature, and
    /// remembers the result in the executor. Called only with [`Strategy::Prepare`], at most once for each
    /// transaction, on a thread other than the block's. It usually begins before the block executes the transaction,
    /// and may still run afterwards. Changes no outcome. By default, executes the beginning of the transaction.
    ///
    /// `view` shows the state before the first transaction of the call. It stops at a change of the state, and at a
    /// question that only the block can answer.
    ///
    /// Returns whether the preparation was of use. A thread makes no more after 32 useless preparations in a row. A
    /// panic counts as a useless preparation, and has no other effect.
    ///
    /// [`Strategy::Prepare`]: crate::Strategy::Prepare
    fn prepare(&self, worker: &mut Self::Worker, index: u32, view: &mut View<'_>) -> bool {
        let _ = self.execute(worker, index, view);
        true
    }

    /// Predicts the value that transaction `index` finds at `key`: appends it to `value`, which is empty, and returns
    /// `true`. An execution ahead then depends on no earlier transaction for this key. For values that every
    /// transaction changes and that follow from the index, such as the index of the current extrinsic. A wrong
    /// prediction costs an execution.
    fn predict(&self, index: u32, trie: TrieId<'_>, key: &[u8], value: &mut Vec<u8>) -> bool {
        let _ = (index, trie, key, value);
        false
    }
}

/// The error of a view that cannot answer: the execution must end. Only views make it.
#[derive(Debug, thiserror::Error)]
#[error("the execution cannot go on; it may be repeated")]
pub struct Stopped(pub(crate) ());

/// Why an execution ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Interrupt {
    /// The view could not answer.
    #[error(transparent)]
    Stopped(#[from] Stopped),
    /// The transaction cannot be part of the block.
    #[error(transparent)]
    Failed(Box<dyn Error + Send + Sync>),
}

impl Interrupt {
    /// [`Self::Failed`] because of `error`.
    pub fn failed(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Failed(error.into())
    }
}

/// Why a transaction is not part of the block.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Trap {
    /// The executor refused it.
    #[error("the transaction failed: {0}")]
    Failed(Box<dyn Error + Send + Sync>),
    /// The executor panicked, at the transaction's turn.
    #[error("the transaction panicked: {message}")]
    Panicked {
        /// The text of the panic; empty if the panic had none.
        message: String,
    },
    /// The block refused a call: a write to a child trie's root, or a transaction that was not open.
    #[error("the transaction made a call that a block refuses: {0}")]
    Refused(Box<BlockError>),
}

impl Trap {
    /// The trap of an executor that returned a [`Stopped`] of another view.
    pub(crate) fn of_other_view() -> Self {
        Self::Failed("expected an error of this view, found one of another".into())
    }

    pub(crate) fn panicked(payload: &(dyn Any + Send)) -> Self {
        let text = payload
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned());
        let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
        Self::Panicked {
            message: text.unwrap_or_default(),
        }
    }
}
