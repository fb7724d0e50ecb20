//! Executes the transactions of a block.

use crate::{
    commit::Committer,
    commits::{BlockEnd, Commits},
    executor::Executor,
    fetch::Fetch,
    outcome::{Batch, Decided, FailedBatch, ParallelError, Statistics, Verdict},
    pace::{Experience, Pace},
    preparations::Preparations,
    scheduler::{Limits, Scheduler, Window, MOST_TRANSACTIONS},
    shared::Shared,
    store::index as index_of,
    sync::{spawn, thread, Mutex},
    write_log::WriteLog,
};
use povmeter::{Accounting, Block, NodeSource};
use std::{mem::forget, num::NonZeroUsize, panic::resume_unwind, sync::PoisonError};

/// Executes transactions on several threads. See the [crate page](crate) for an example.
#[derive(Clone, Copy, Debug)]
pub struct Parallel {
    workers: NonZeroUsize,
    strategy: Strategy,
    sizes: SizeAfter,
    window: u32,
    experience: Option<Experience>,
    stack: Option<usize>,
}

/// When transactions are executed ahead of their turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// While measurements show that this is faster than in order.
    #[default]
    Adaptive,
    /// Always, if there are several workers. The thread of the block executes a transaction whose turn has come and
    /// that no thread has begun; the other threads leave some transactions to it.
    Always,
    /// Always, even with one worker, and each transaction at least once. For tests and measurements: it costs more.
    EachAhead,
    /// Never: the block executes all transactions in order, while the other threads [prepare](Executor::prepare)
    /// them. For executors that remember the slow part of a transaction if it depends on no state, such as a check of
    /// signatures.
    Prepare,
}

/// Which size is returned for each transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SizeAfter {
    /// [`Block::proof_size`]: with [`Consensus`](povmeter::Consensus) accounting, this question is part of the block.
    #[default]
    Counted,
    /// The size without a trace: [`Block::peek_proof_size`] with `Consensus` accounting. For runtimes that ask for
    /// sizes themselves, because asking costs a walk for each key that was changed since the last question.
    Peeked,
    /// [`Block::recorded_size`]: without an estimate. For callers that need no sizes.
    Recorded,
}

/// The default window, in transactions for each worker.
const WINDOW: u32 = 6;
/// How far ahead a transaction may wait for its turn, in transactions for each worker. One that is farther ahead
/// would keep its thread from work.
const WAITING: u32 = 2;
/// The most transactions that wait for their turns. Each may hold what a runtime has few of: sc-executor makes no more
/// than 64 instances of one, and a call that needs another one waits until some call ends.
const MOST_WAITING: u32 = 16;
/// The smallest default window.
const LEAST_WINDOW: u32 = 12;
/// How many transactions in a row two workers leave to the thread of the block. With one at a time, blocks whose
/// transactions touch different keys took 3 % longer on a machine of 2026-11-25, and 1 to 3 % on another one. More
/// workers leave one: in a model they gain nothing with more, and they take 15 % longer if transactions conflict,
/// because more of the transactions above have missed the writes of those that are left.
const LEFT_BY_TWO: u32 = 4;

impl Parallel {
    /// Uses `workers` threads, including the caller's, and [`Strategy::Adaptive`].
    pub fn new(workers: NonZeroUsize) -> Self {
        let count = u32::try_from(workers.get()).unwrap_or(u32::MAX);
        Self {
            workers,
            strategy: Strategy::default(),
            sizes: SizeAfter::default(),
            window: count.saturating_mul(WINDOW).max(LEAST_WINDOW),
            experience: None,
            stack: None,
        }
    }

    /// Sets the strategy.
    #[must_use]
    pub const fn with_strategy(mut self, strategy: Strategy) -> Self {
        self.strategy = strategy;
        self
    }

    /// Sets which sizes are returned.
    #[must_use]
    pub const fn with_sizes(mut self, sizes: SizeAfter) -> Self {
        self.sizes = sizes;
        self
    }

    /// Makes sizes leave no trace: replaces [`SizeAfter::Counted`] by [`SizeAfter::Peeked`].
    #[must_use]
    pub const fn without_trace(mut self) -> Self {
        if matches!(self.sizes, SizeAfter::Counted) {
            self.sizes = SizeAfter::Peeked;
        }
        self
    }

    /// Sets how many transactions are at most executed ahead of the last committed one, while executions ahead are in
    /// vain. While they are of use, up to [`Self::greatest_window`] are. The default is some for each worker. A larger
    /// window keeps workers busy while one transaction takes long, but more executions are in vain. With 0, no
    /// transaction is executed ahead.
    #[must_use]
    pub const fn with_window(mut self, transactions: u32) -> Self {
        self.window = transactions;
        self
    }

    /// Sets how many bytes of stack each thread has that a block starts: 2 MiB by default, or what the environment
    /// variable `RUST_MIN_STACK` says. Any thread may execute any transaction, and may compute a root, which recurses
    /// with the depth of the trie. So give them as much as the caller's thread has, if transactions may need it: a stack
    /// that overflows ends the process. A thread that the system refuses is no error, as everywhere.
    #[must_use]
    pub const fn with_stack_size(mut self, bytes: usize) -> Self {
        self.stack = Some(bytes);
        self
    }

    /// Returns how many transactions are at most executed ahead of the last committed one, while executions ahead are
    /// in vain.
    pub const fn window(&self) -> u32 {
        self.window
    }

    /// Returns how many transactions are ever executed ahead of the last committed one.
    pub const fn greatest_window(&self) -> u32 {
        Window::greatest(self.window)
    }

    /// Returns how many transactions in a row the other threads leave to the thread of the block, while they execute
    /// those above.
    pub const fn left_to_block(&self) -> u32 {
        match self.strategy {
            Strategy::EachAhead | Strategy::Prepare => 0,
            Strategy::Adaptive | Strategy::Always if self.workers.get() <= 2 => LEFT_BY_TWO,
            Strategy::Adaptive | Strategy::Always => 1,
        }
    }

    /// Sets what a block before this one found out: [`Batch::experience`]. [`Strategy::Adaptive`] then need not
    /// measure each block of a chain from its start. If the transactions are different now, the block finds that out;
    /// some blocks in a hundred measure from the start in any case.
    #[must_use]
    pub const fn with_experience(mut self, experience: Option<Experience>) -> Self {
        self.experience = experience;
        self
    }

    /// Executes transactions `0..transactions` on `block`. The result is that of executing them one after the other,
    /// each in a transaction of the host, and asking for the [`Block::proof_size`], or another [`SizeAfter`], after
    /// each.
    ///
    /// `source` holds the parent state of `block` for the other threads. Nodes that they load from it do not count.
    /// `block` may hold changes. If a transaction of the host is open, all of this happens inside of it, and it stays
    /// open. Transactions are no [parts](Block::begin_part) of the block: with `Attributed` accounting, all that they
    /// need belongs to the part that was begun before the call. What a transaction changed, and changed again, counts as a
    /// change there only if the transaction was executed at its turn.
    ///
    /// # Errors
    /// A [`FailedBatch`] holds the transactions before the error, as `block` does. Its error is
    /// [`ParallelError::Block`] if the block fails at a transaction's turn,
    /// [`ParallelError::InRuntime`] if the runtime is in control of the block, so that no transaction of the host can
    /// be opened, and [`ParallelError::TooMany`] if there are more than 2^30 transactions. Under the last two, none is
    /// executed.
    ///
    /// # Panics
    /// If [`Executor::worker`] panics, or if the block's own source does while no executor runs on the block: when the
    /// block loads the nodes of several transactions, repeats reads, or computes a size. While one runs, this is a
    /// [`Trap`](crate::Trap) of its transaction, as any panic of the executor. So the block's source should return
    /// errors. After such a panic of the call, `block` may have an open transaction with a part of the effects, and is
    /// of no further use. A panic of `source` has the effect of an error: the transaction is left to its turn.
    pub fn execute<S, A, P, E>(
        &self,
        block: &mut Block<S, A>,
        source: &P,
        executor: &E,
        transactions: u32,
    ) -> Result<Batch<E::Output>, FailedBatch<E::Output>>
    where
        S: NodeSource + Send,
        A: Accounting,
        P: NodeSource + Sync,
        E: Executor,
    {
        self.execute_if(block, source, executor, transactions, |_| Verdict::Keep)
    }

    /// As [`Self::execute`], and calls `decide` for each transaction at its turn, in order, unless it trapped: for
    /// authors, who leave out transactions that do not fit. Any thread may make the call.
    ///
    /// # Errors
    /// As [`Self::execute`].
    ///
    /// # Panics
    /// As [`Self::execute`], and if `decide` panics.
    pub fn execute_if<S, A, P, E>(
        &self,
        block: &mut Block<S, A>,
        source: &P,
        executor: &E,
        transactions: u32,
        mut decide: impl FnMut(Decided<'_, E::Output>) -> Verdict + Send,
    ) -> Result<Batch<E::Output>, FailedBatch<E::Output>>
    where
        S: NodeSource + Send,
        A: Accounting,
        P: NodeSource + Sync,
        E: Executor,
    {
        let refused = |error| {
            let batch = Batch {
                transactions: Vec::new(),
                statistics: Statistics::default(),
                experience: self.experience,
            };
            FailedBatch::new(batch, error)
        };
        if transactions > MOST_TRANSACTIONS {
            return Err(refused(ParallelError::TooMany {
                most: MOST_TRANSACTIONS,
                found: transactions,
            }));
        }
        // Commits of what was executed ahead would otherwise open transactions of the runtime, which undo no counts.
        let entered = block.enter_runtime();
        if let Err(error) = entered.and_then(|()| block.exit_runtime()) {
            return Err(refused(ParallelError::InRuntime(error)));
        }
        let pace = self.pace(transactions);
        let parent = (source, block.parent_root());
        // Without executions ahead, no slots are needed.
        let slots = if pace.is_open() { transactions } else { 0 };
        let workers = u32::try_from(self.workers.get()).unwrap_or(u32::MAX);
        let limits = Limits {
            transactions: slots,
            window: self.window,
            waiting: workers.saturating_mul(WAITING).min(MOST_WAITING),
            left_to_block: self.left_to_block(),
        };
        let prepared = match self.strategy {
            Strategy::Prepare if workers > 1 => transactions,
            _ => 0,
        };
        let shared = Shared::new(executor, parent, limits, Preparations::of(prepared));
        let committer = Committer {
            shared: &shared,
            transactions,
            speculate_first: self.strategy == Strategy::EachAhead,
            commits: Mutex::new(Commits {
                block,
                log: WriteLog::new(&shared.store.keys),
                pace,
                fetch: Fetch::default(),
                sizes: self.sizes,
                decide: &mut decide,
                done: Vec::with_capacity(index_of(transactions)),
                statistics: Statistics::default(),
                ended: None,
            }),
            panic: Mutex::new(None),
        };
        thread::scope(|scope| {
            let _end = EndOnDrop(&shared.scheduler);
            let _prepared = shared.preparations.end_on_drop();
            if !shared.preparations.are_none() {
                committer.open_preparations();
                start_threads(self.workers, || {
                    spawn(scope, self.stack, || shared.prepare())
                });
            }
            let start = || {
                let work = || {
                    // If this thread panics, no other thread may wait for the transaction that it has begun.
                    let unfinished = EndOnDrop(&shared.scheduler);
                    shared.work(&committer);
                    forget(unfinished);
                };
                start_threads(self.workers, || spawn(scope, self.stack, work));
            };
            committer.run(&mut shared.worker(true), start);
        });
        let panic = committer.panic.into_inner();
        if let Some(panic) = panic.unwrap_or_else(PoisonError::into_inner) {
            resume_unwind(panic);
        }
        let commits = committer.commits.into_inner();
        let commits = commits.unwrap_or_else(PoisonError::into_inner);
        let batch = Batch {
            experience: commits.pace.experience().or(self.experience),
            transactions: commits.done,
            statistics: shared.statistics(commits.statistics),
        };
        match commits.ended {
            Some(BlockEnd::Failed(error)) => Err(FailedBatch::new(batch, error)),
            Some(BlockEnd::Stopped) | None => Ok(batch),
        }
    }

    fn pace(&self, transactions: u32) -> Pace {
        let alone = self.workers.get() == 1;
        match self.strategy {
            Strategy::EachAhead => Pace::always(),
            Strategy::Prepare => Pace::never(),
            _ if alone => Pace::never(),
            Strategy::Always => Pace::always(),
            Strategy::Adaptive => Pace::adaptive(transactions, self.experience),
        }
    }
}

/// Starts the threads beside that of the caller. If the system refuses one, fewer execute the block, because the
/// outcome does not depend on their number.
fn start_threads(workers: NonZeroUsize, mut start: impl FnMut() -> bool) {
    let _ = (1..workers.get()).all(|_| start());
}

/// Ends the block when it is dropped, even in a panic, so that no thread waits for ever.
pub(crate) struct EndOnDrop<'s>(pub(crate) &'s Scheduler);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}
