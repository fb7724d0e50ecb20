//! The outcome of executing transactions.

use crate::{executor::Trap, pace::Experience};
use povmeter::{BlockError, ProofSize};

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
pub struct Statistics {
    /// Transactions committed as they were executed ahead of their turn.
    pub ahead: u64,
    /// Transactions executed ahead until they asked a question that only the block can answer, and continued on the
    /// block at their turn.
    pub resumed: u64,
    /// Transactions executed on the block, at their turn, from their beginning.
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
    /// Returns how many committed transactions were executed ahead of their turn, at least in part.
    pub const fn begun_ahead(&self) -> u64 {
        self.ahead.saturating_add(self.resumed)
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
    /// Too many transactions for one call.
    #[error("expected at most {most} transactions, found {found}")]
    TooMany {
        /// The most transactions of one call.
        most: u32,
        /// The transactions of this call.
        found: u32,
    },
}
