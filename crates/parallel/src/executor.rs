//! What executes transactions.

use crate::view::View;
use povmeter::{BlockError, TrieId};
use std::{any::Any, error::Error};

/// Executes the transactions of a block, on any thread, in any order, and as often as necessary.
///
/// A transaction must depend on its index and on what the [`View`] returns, and on nothing else. All
/// that it changes goes through the view. Speculative executions may see values that no sequential
/// execution sees, such as a balance without the nonce that belongs to it; the result of such an execution
/// is dropped, but it must end.
pub trait Executor: Sync {
    /// What one thread needs for itself, such as an instance of a runtime.
    type Worker;
    /// What a transaction returns.
    type Output: Send;

    /// A worker, for the thread that calls. Also called when a worker's transaction panicked.
    fn worker(&self) -> Self::Worker;

    /// Executes transaction `index`.
    ///
    /// # Errors
    /// [`Interrupt::Stopped`] if a call of the view returned [`Stopped`]: return it at once, `?` does that.
    /// [`Interrupt::Failed`] if the transaction cannot be part of the block: nothing that it changed or
    /// read is then. A panic has the same effect. A transaction that fails and is part of the block, as
    /// a failed dispatch is, returns its own [`Self::Output`].
    fn execute(
        &self,
        worker: &mut Self::Worker,
        index: u32,
        view: &mut View<'_>,
    ) -> Result<Self::Output, Interrupt>;

    /// Does what [`Self::execute`] of transaction `index` will need, and remembers it in the executor: checks its
    /// signature, say. Only with [`Strategy::Prepare`], at most once for each transaction, on another thread than the
    /// block's, and before or while the block executes it. Changes no result. By default the beginning of an execution.
    ///
    /// `view` shows the state before the first transaction of the call. It stops at a change of the state, and at what
    /// only the block can answer.
    ///
    /// Returns whether that was of use. A thread whose last 32 were of none makes no others. A panic is of no use, and has
    /// no other effect.
    ///
    /// [`Strategy::Prepare`]: crate::Strategy::Prepare
    fn prepare(&self, worker: &mut Self::Worker, index: u32, view: &mut View<'_>) -> bool {
        let _ = self.execute(worker, index, view);
        true
    }

    /// Predicts the value that transaction `index` finds at `key`: appends it to `value`, which is empty,
    /// and returns `true`. A speculative execution then depends on no earlier transaction for this key. For
    /// values that each transaction changes and that follow from the index, such as the index of the
    /// current extrinsic. A wrong prediction costs an execution.
    fn predict(&self, index: u32, trie: TrieId<'_>, key: &[u8], value: &mut Vec<u8>) -> bool {
        let _ = (index, trie, key, value);
        false
    }
}

/// A view cannot answer; the execution must end. Only a view makes one.
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
    /// The executor panicked.
    #[error("the transaction panicked: {message}")]
    Panicked {
        /// What the panic said; empty if it was no text.
        message: String,
    },
    /// The block refused a call: a write to a child trie's root, or a transaction that was not open.
    #[error("the transaction made a call that a block refuses: {0}")]
    Refused(Box<BlockError>),
}

impl Trap {
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
