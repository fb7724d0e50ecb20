//! The outcome of executing transactions.

use crate::{executor::Trap, pace::Experience};
use povmeter::{BlockError, ProofSize};
use std::{error::Error, fmt};

/// A transaction at its turn, with its effects on the block, before the decision whether it stays.
#[derive(Clone, Copy, Debug)]
pub struct Decided<'a, T> {
    /// The index of the transaction.
    pub index: u32,
    /// The output of the transaction.
    pub output: &'a T,
    /// The size of the storage proof if the block ended with this transaction; see [`SizeAfter`](crate::SizeAfter).
    pub size: ProofSize,
}

/// The decision on a transaction at its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The transaction stays in the block.
    Keep,
    /// The transaction leaves no trace in the block: its changes are undone and its reads do not count.
    LeaveOut,
    /// As [`Self::LeaveOut`], and no later transaction is executed.
    Stop,
}

/// A transaction whose turn is over.
#[derive(Debug)]
pub struct Executed<T> {
    /// What became of the transaction.
    pub ending: Ending<T>,
    /// The size of the storage proof if the block ended after this turn; see [`SizeAfter`](crate::SizeAfter).
    pub size: ProofSize,
}

/// What became of a transaction.
#[derive(Debug)]
pub enum Ending<T> {
    /// The transaction is part of the block. Holds its output.
    Kept(T),
    /// A [`Verdict`] left the transaction out. Holds its output.
    LeftOut(T),
    /// The transaction cannot be part of the block.
    Trapped(Trap),
}

/// The executed transactions, in order, and how they were executed.
#[derive(Debug)]
pub struct Batch<T> {
    /// One for each transaction. If a [`Verdict`] stopped the block, up to the one at which it did, which is left out.
    pub transactions: Vec<Executed<T>>,
    /// How they were executed. Only this and `experience` differ from run to run.
    pub statistics: Statistics,
    /// What the block measured, for the next block: [`Parallel::with_experience`](crate::Parallel::with_experience).
    pub experience: Option<Experience>,
}

/// How transactions were executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Transactions whose turn ended with what they did ahead of it, those that were left out or trapped included.
    pub ahead: u64,
    /// Transactions executed ahead until they asked a question that only the block can answer, and continued on the
    /// block at their turn, those that were left out or trapped included.
    pub resumed: u64,
    /// Executions on the block, at the turn of a transaction, from its beginning.
    pub in_order: u64,
    /// Executions ahead of a turn, including halted ones.
    pub speculations: u64,
    /// Executions ahead that halted: at a key that another transaction will likely write, at a call that only the
    /// block can answer, or at a panic.
    pub halts: u64,
    /// How often the reads of an execution were compared before its turn.
    pub validations: u64,
    /// How often such a comparison dropped an execution.
    pub aborts: u64,
    /// Preparations, made with [`Strategy::Prepare`](crate::Strategy::Prepare).
    pub preparations: u64,
}

impl Statistics {
    /// Returns how many transactions were executed ahead of their turn, at least in part.
    pub const fn begun_ahead(&self) -> u64 {
        self.ahead.saturating_add(self.resumed)
    }
}

/// A batch that ended with an error: the transactions before the error, whose effects the block holds, and the error.
pub struct FailedBatch<T>(Box<Failed<T>>);

struct Failed<T> {
    batch: Batch<T>,
    error: ParallelError,
}

impl<T> FailedBatch<T> {
    pub(crate) fn new(batch: Batch<T>, error: ParallelError) -> Self {
        Self(Box::new(Failed { batch, error }))
    }

    /// The error.
    pub fn error(&self) -> &ParallelError {
        &self.0.error
    }

    /// The transactions whose turns ended before the error, and the error. The next transaction is that of the error;
    /// it can be executed again, because it has left no trace.
    pub fn into_parts(self) -> (Batch<T>, ParallelError) {
        (self.0.batch, self.0.error)
    }
}

/// Without the outputs, which may have no such form.
impl<T> fmt::Debug for FailedBatch<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FailedBatch")
            .field("transactions", &self.0.batch.transactions.len())
            .field("error", &self.0.error)
            .finish_non_exhaustive()
    }
}

impl<T> fmt::Display for FailedBatch<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.error.fmt(f)
    }
}

/// The text is that of the error, so its source is the error's.
impl<T> Error for FailedBatch<T> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.error.source()
    }
}

impl<T> From<FailedBatch<T>> for ParallelError {
    fn from(failed: FailedBatch<T>) -> Self {
        failed.0.error
    }
}

/// Why transactions could not be executed. The block holds the effects of the transactions before the failed one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ParallelError {
    /// The block failed at a transaction's turn.
    #[error("transaction {index} cannot be executed: {error}")]
    Block {
        /// The index of the transaction, which has left no trace in the block.
        index: u32,
        /// The error of the block.
        #[source]
        error: BlockError,
    },
    /// The runtime is in control of the block.
    #[error("expected a block that the host controls: {0}")]
    InRuntime(#[source] BlockError),
    /// Too many transactions for one call.
    #[error("expected at most {most} transactions, found {found}")]
    TooMany {
        /// The most transactions of one call.
        most: u32,
        /// The transactions of this call.
        found: u32,
    },
}
