//! What executing transactions returns.

use crate::{executor::Trap, pace::Experience};
use povmeter::{BlockError, ProofSize};

/// A transaction whose turn has come, executed on the block, before it is decided whether it stays.
#[derive(Clone, Copy, Debug)]
pub struct Decided<'a, T> {
    /// The index of the transaction.
    pub index: u32,
    /// What it returned.
    pub output: &'a T,
    /// The size of the storage proof if the block ended with it.
    pub size: ProofSize,
}

/// What happens to a transaction whose turn has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It stays in the block.
    Keep,
    /// It leaves no trace in the block: its changes are undone, its reads are not counted.
    LeaveOut,
    /// As [`Self::LeaveOut`], and no later transaction is executed.
    Stop,
}

/// A transaction whose turn is over.
#[derive(Debug)]
pub struct Executed<T> {
    /// What became of it.
    pub ending: Ending<T>,
    /// The size of the storage proof if the block ended after its turn.
    pub size: ProofSize,
}

/// What became of a transaction.
#[derive(Debug)]
pub enum Ending<T> {
    /// It is part of the block, and returned this.
    Kept(T),
    /// It returned this, and a [`Verdict`] left it out.
    LeftOut(T),
    /// It cannot be part of the block.
    Trapped(Trap),
}

/// The transactions that were executed, in order, and how.
#[derive(Debug)]
pub struct Batch<T> {
    /// One for each transaction, or fewer if a [`Verdict`] stopped the block.
    pub transactions: Vec<Executed<T>>,
    /// How they were executed. Differs from run to run, as nothing but this and `experience` does.
    pub statistics: Statistics,
    /// For the block after this one: [`Parallel::with_experience`](crate::Parallel::with_experience).
    pub experience: Option<Experience>,
}

/// How transactions were executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Transactions committed as they were executed ahead of their turn.
    pub ahead: u64,
    /// Transactions executed ahead until they asked what only the block can answer, and from there on at
    /// their turn, on the block.
    pub resumed: u64,
    /// Transactions executed on the block, at their turn, from their beginning.
    pub in_order: u64,
    /// Executions ahead of a turn, halted ones included.
    pub speculations: u64,
    /// Those that halted: at a key that another transaction will likely write, or at a call that only the
    /// block can answer.
    pub halts: u64,
    /// How often the reads of an execution were compared before its turn.
    pub validations: u64,
    /// How often an execution was dropped because of that.
    pub aborts: u64,
    /// Preparations: [`Strategy::Prepare`](crate::Strategy::Prepare).
    pub preparations: u64,
}

impl Statistics {
    /// Transactions committed of which at least the beginning was executed ahead of their turn.
    pub const fn begun_ahead(&self) -> u64 {
        self.ahead.saturating_add(self.resumed)
    }
}

/// Why transactions could not be executed. The block holds the effects of those before.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ParallelError {
    /// The block failed at a transaction's turn.
    #[error("transaction {index} cannot be executed: {error}")]
    Block {
        /// The index of the transaction. It has left no trace in the block.
        index: u32,
        /// What the block says.
        #[source]
        error: BlockError,
    },
    /// Too many transactions for one call.
    #[error("expected at most {most} transactions, found {found}")]
    TooMany {
        /// The most transactions of one call.
        most: u32,
        /// How many there were.
        found: u32,
    },
}
