//! Commits transactions to the block, in order.
//!
//! ```text
//! the thread of the block, for the transaction whose turn it is:
//!     executed ahead, and the block gives the same answers:   apply its writes
//!     another thread executes it:                             work as a worker until it is done
//!     else:                                                   execute it on the block
//! any thread, if its transaction asks a question that only the block can answer:
//!     wait for the turn, and meanwhile commit transactions that were executed ahead
//!     the block gives the same answers so far:                apply the writes so far, and continue on the block
//!     else:                                                   leave it to the thread of the block
//! ```

use crate::{
    attempts::Attempt,
    commits::{Applied, By, Commits},
    executor::{Executor, Trap},
    in_order::InOrder,
    pace::Progress,
    parallel::EndOnDrop,
    record::Record,
    scheduler::{Claim, Turn},
    shared::{Ended, Shared, Worker},
    store::WriteSet,
    sync::{lock, Mutex, MutexGuard},
    turns::{AtTurn, LoadedParent, Turns},
    view::{Access, View},
};
use povmeter::{Accounting, BlockError, KeptValue, NodeSource, TrieId};
use std::{
    any::Any,
    mem::forget,
    panic::{catch_unwind, AssertUnwindSafe},
};

/// See the top of the file. All threads of a block share it.
pub(crate) struct Committer<'c, 'a, S, A: Accounting, P, E: Executor> {
    pub(crate) shared: &'c Shared<'a, P, E>,
    pub(crate) transactions: u32,
    /// Whether each transaction is executed ahead first, even if its turn has come.
    pub(crate) speculate_first: bool,
    pub(crate) commits: Mutex<Commits<'c, S, A, E::Output>>,
    /// The panic of the host's code while a transaction waited for its turn, or came to it.
    pub(crate) panic: Mutex<Option<Box<dyn Any + Send>>>,
}

type Guard<'t, 'c, S, A, T> = MutexGuard<'t, Commits<'c, S, A, T>>;

impl<'c, 'a, S, A, P, E> Committer<'c, 'a, S, A, P, E>
where
    S: NodeSource + Send,
    A: Accounting,
    P: NodeSource + Sync,
    E: Executor,
{
    /// Commits all transactions, or those up to the end of the block. Called by the thread of the block, which owns
    /// `worker`. `start` starts the other threads.
    pub(crate) fn run(&self, worker: &mut Worker<'_, P, E>, start: impl FnOnce()) {
        let scheduler = &self.shared.scheduler;
        if !self.open() {
            return self.run_in_order(0, worker);
        }
        let mut start = Some(start);
        while !scheduler.is_over() {
            let index = scheduler.committed();
            if index >= self.transactions {
                break;
            }
            if scheduler.is_paused() {
                if scheduler.reserve_from(index) {
                    self.run_in_order(index, worker);
                    continue;
                }
            } else if let Some(start) = start.take() {
                start();
                // The time to start threads is not part of the time in parallel.
                lock(&self.commits).pace.started();
            }
            let claim = self.claim(index, worker);
            if matches!(claim, Claim::Busy | Claim::Over) {
                continue;
            }
            let mut commits = lock(&self.commits);
            let attempt = match claim {
                Claim::Executed => self.take_attempt(&mut commits, index),
                _ => None,
            };
            let done = match attempt {
                Some(attempt) => self.commit_ahead(&mut commits, index, attempt),
                None => Ok(None),
            };
            let done = match done {
                Ok(Some(changed)) => Ok(changed),
                Ok(None) => self.execute(&mut commits, index, &mut worker.executor),
                Err(error) => Err(error),
            };
            let Some(changed) = self.end_turn(commits, index, done) else {
                break;
            };
            scheduler.commit(index, changed);
        }
    }

    /// Publishes what the block changed before its first transaction. Returns `false` if no transaction will ever be
    /// executed ahead.
    fn open(&self) -> bool {
        let commits = &mut *lock(&self.commits);
        let open = commits.pace.is_open();
        if open {
            let Shared {
                store, scheduler, ..
            } = self.shared;
            let parallel = commits.pace.is_parallel();
            commits.log.note_all(commits.block.overlay());
            if !parallel {
                scheduler.pause();
            } else if !commits.log.is_empty() {
                commits.publish_log(store, 0);
            }
        }
        open
    }

    /// Publishes, for preparations, what the block changed before its first transaction.
    pub(crate) fn open_preparations(&self) {
        let commits = &mut *lock(&self.commits);
        commits.log.note_all(commits.block.overlay());
        commits.publish_log(&self.shared.store, 0);
    }

    /// Executes transactions in order, from `first` on, until the block continues in parallel. No thread has begun
    /// any of them, and the other threads have no work meanwhile.
    fn run_in_order(&self, first: u32, worker: &mut Worker<'_, P, E>) {
        let scheduler = &self.shared.scheduler;
        let mut commits = lock(&self.commits);
        for index in first..self.transactions {
            if !commits.pace.is_open() && !scheduler.is_over() {
                scheduler.end();
            }
            self.shared.preparations.begin(index);
            let done = self.execute(&mut commits, index, &mut worker.executor);
            if done.is_err() || commits.ended.is_some() || commits.pace.is_parallel() {
                if let Some(changed) = self.end_turn(commits, index, done) {
                    scheduler.commit(index, changed);
                }
                return;
            }
        }
        scheduler.end();
    }

    /// Claims `index`, whose turn it is. While another thread executes it, works as a worker.
    fn claim(&self, index: u32, worker: &mut Worker<'_, P, E>) -> Claim {
        let scheduler = &self.shared.scheduler;
        loop {
            if scheduler.is_over() || scheduler.committed() != index {
                return Claim::Over;
            }
            let first = self.speculate_first && !scheduler.is_paused();
            let due = !first || scheduler.is_due(index);
            if due {
                match scheduler.claim(index) {
                    Claim::Busy => {}
                    claim => return claim,
                }
            }
            match scheduler.next_task(true) {
                Some(task) => self.shared.perform(task, worker, self),
                None if first && !scheduler.is_busy(index) && !scheduler.is_due(index) => {
                    // No thread will execute it ahead.
                    match scheduler.claim(index) {
                        Claim::Busy => {}
                        claim => return claim,
                    }
                }
                None => scheduler.wait_while_busy(index),
            }
        }
    }

    /// Takes the execution ahead of `index`, whose turn has come. Loads the nodes that the block will need for it and
    /// for the transactions after it.
    fn take_attempt(
        &self,
        commits: &mut Commits<'c, S, A, E::Output>,
        index: u32,
    ) -> Option<Attempt<E::Output>> {
        let Shared {
            attempts, store, ..
        } = self.shared;
        let due = commits.fetch.due(index);
        if !due.is_empty() {
            let fetch = &mut commits.fetch;
            for number in due {
                // Do not wait for one that another thread executes or compares.
                let noted = attempts.try_look(number, |Attempt { record, writes, .. }| {
                    fetch.note(&store.keys, number, record, writes);
                });
                if noted.is_none() {
                    break;
                }
            }
            commits.fetch.load(&store.keys, commits.block);
        }
        attempts.take(index)
    }

    /// Commits `index` as it was executed ahead. Returns whether transactions above may have read other values, or
    /// `None` if the block gives other answers. Then the execution has left no trace.
    fn commit_ahead(
        &self,
        commits: &mut Commits<'c, S, A, E::Output>,
        index: u32,
        attempt: Attempt<E::Output>,
    ) -> Result<Option<bool>, BlockError> {
        let Attempt {
            index: _,
            record,
            writes,
            result,
        } = attempt;
        let store = &self.shared.store;
        commits.block.start_transaction();
        let alike = commits.replay(&store.keys, &record, &writes);
        let alike = commits.or_roll_back(alike)?;
        self.shared.attempts.give_back(index, record);
        self.shared.scheduler.compared(alike);
        if !alike {
            commits.block.rollback_transaction()?;
            if !commits.pace.is_parallel() {
                commits.withdraw(store, index);
            }
            return Ok(None);
        }
        commits.statistics.ahead += 1;
        self.end(commits, index, result, By::Ahead(&writes))
            .map(Some)
    }

    /// Executes `index` on the block and commits it. Returns what [`Self::end`] returns.
    fn execute(
        &self,
        commits: &mut Commits<'c, S, A, E::Output>,
        index: u32,
        executor: &mut E::Worker,
    ) -> Result<bool, BlockError> {
        commits.statistics.in_order += 1;
        commits.pace.begin_on_block();
        commits.block.start_transaction();
        let entered = self.enter(commits);
        commits.or_roll_back(entered)?;
        let among_others = commits.pace.is_open();
        let mut access = InOrder::new(&mut *commits, among_others);
        let result = self
            .shared
            .run(executor, index, &mut View::new(&mut access));
        let (commits, failure) = access.into_parts();
        self.finish(commits, index, result, failure)
    }

    /// Prepares the block for a call into the runtime.
    fn enter(&self, commits: &mut Commits<'c, S, A, E::Output>) -> Result<(), BlockError> {
        let parallel = commits.pace.is_parallel();
        commits.log.keep_elements(parallel);
        commits.block.enter_runtime()
    }

    /// Commits `index`, whose execution ended on the block. Returns what [`Self::end`] returns.
    fn finish(
        &self,
        commits: &mut Commits<'c, S, A, E::Output>,
        index: u32,
        result: Result<E::Output, Ended>,
        failure: Option<BlockError>,
    ) -> Result<bool, BlockError> {
        let exited = commits.block.exit_runtime().map(drop);
        let applied = exited.and_then(|()| applied(result, failure));
        let applied = commits.or_roll_back(applied)?;
        self.end(commits, index, applied, By::Execution)
    }

    /// Commits `index`, whose effects are on the block in an open transaction of the host. Returns whether
    /// transactions above may have read other values.
    fn end(
        &self,
        commits: &mut Commits<'c, S, A, E::Output>,
        index: u32,
        applied: Applied<E::Output>,
        by: By<'_>,
    ) -> Result<bool, BlockError> {
        let Shared {
            store,
            scheduler,
            last_size,
            ..
        } = self.shared;
        let changed = commits.end(store, index, applied, by)?;
        let progress = Progress {
            left: self.transactions - (index + 1),
            ahead: commits.statistics.begun_ahead(),
            begun: scheduler.begun_above(index),
        };
        let was_parallel = commits.pace.is_parallel();
        commits.pace.committed(progress);
        let parallel = commits.pace.is_parallel();
        if parallel {
            if let Some(done) = commits.done.last() {
                *lock(last_size) = done.size;
            }
            if !commits.log.is_empty() {
                // All changes that were committed in order since the last publication, as if this transaction wrote
                // them.
                commits.publish_log(store, index + 1);
            }
            if !was_parallel {
                store.sort_keys();
                commits.pace.handed_over();
            }
        }
        match (was_parallel, parallel) {
            (true, false) => scheduler.pause(),
            (false, true) => scheduler.resume(index),
            _ => {}
        }
        Ok(changed)
    }

    /// Ends the turn of `index`, and ends the block if it could not be committed. Returns whether later transactions
    /// may have read other values, or `None` if the block is over.
    ///
    /// Releases the lock before the scheduler counts the commit. Otherwise the thread whose turn is next would find
    /// the block locked, and sleep.
    fn end_turn(
        &self,
        mut commits: Guard<'_, 'c, S, A, E::Output>,
        index: u32,
        done: Result<bool, BlockError>,
    ) -> Option<bool> {
        let changed = match done {
            Ok(changed) => commits.ended.is_none().then_some(changed),
            Err(error) => {
                commits.fail(index, error);
                None
            }
        };
        drop(commits);
        if changed.is_none() {
            self.shared.scheduler.end();
        }
        changed
    }

    /// As [`Self::commit_claimed`], called inside the executor of a waiting transaction. A panic of the host's code
    /// ends the block. It must not unwind through that executor, because it would become a trap of the waiting
    /// transaction.
    fn help(&self, index: u32) {
        let commit = || self.commit_claimed(index);
        if let Err(panic) = catch_unwind(AssertUnwindSafe(commit)) {
            self.end_by(panic);
        }
    }

    /// Ends the block by a panic of the host's code, with which the call of [`Parallel`](crate::Parallel) ends.
    fn end_by(&self, panic: Box<dyn Any + Send>) {
        lock(&self.panic).get_or_insert(panic);
        self.shared.scheduler.end();
    }

    /// Commits `index`, which the caller has claimed, as it was executed ahead. If that is not possible, leaves it to
    /// the thread of the block.
    fn commit_claimed(&self, index: u32) {
        let mut commits = lock(&self.commits);
        let attempt = self.take_attempt(&mut commits, index);
        let done = match attempt {
            Some(attempt) => self.commit_ahead(&mut commits, index, attempt),
            None => Ok(None),
        };
        let scheduler = &self.shared.scheduler;
        let Some(done) = done.transpose() else {
            drop(commits);
            return scheduler.leave_to_turn(index);
        };
        if let Some(changed) = self.end_turn(commits, index, done) {
            scheduler.commit(index, changed);
        }
    }

    /// Repeats on the block what a transaction read and wrote before its turn. Returns `false` if the block gives
    /// other answers. Then the transaction has left no trace.
    fn resume(
        &self,
        commits: &mut Commits<'c, S, A, E::Output>,
        record: &Record,
        writes: &WriteSet,
    ) -> Result<bool, BlockError> {
        commits.block.start_transaction();
        let alike = commits.replay(&self.shared.store.keys, record, writes);
        if !commits.or_roll_back(alike)? {
            commits.block.rollback_transaction()?;
            return Ok(false);
        }
        let entered = self.enter(commits);
        commits.or_roll_back(entered)?;
        commits.log.note_appends_of(writes);
        Ok(true)
    }
}

impl<S, A, P, E> LoadedParent for Committer<'_, '_, S, A, P, E>
where
    S: NodeSource + Send,
    A: Accounting,
    P: NodeSource + Sync,
    E: Executor,
{
    fn peek(&self, trie: TrieId<'_>, key: &[u8]) -> Option<Result<Option<KeptValue>, BlockError>> {
        let mut commits = self.commits.try_lock().ok()?;
        Some(commits.block.peek_parent(trie, key))
    }
}

impl<'c, S, A, P, E> Turns<E::Output> for Committer<'c, '_, S, A, P, E>
where
    S: NodeSource + Send,
    A: Accounting,
    P: NodeSource + Sync,
    E: Executor,
{
    fn take<'t>(
        &'t self,
        index: u32,
        of_block: bool,
        record: &Record,
        writes: &WriteSet,
    ) -> Option<Box<dyn AtTurn<E::Output> + 't>> {
        let scheduler = &self.shared.scheduler;
        loop {
            match scheduler.wait_for_turn(index, of_block) {
                Turn::Now => break,
                Turn::Never => return None,
                Turn::Commit(lower) => self.help(lower),
            }
        }
        let mut commits = lock(&self.commits);
        let resume = || self.resume(&mut commits, record, writes);
        // As in `help`: this is inside of an executor, and a panic of the block's source leaves its transaction open.
        match catch_unwind(AssertUnwindSafe(resume)) {
            Ok(Ok(true)) => {}
            Ok(Ok(false)) => return None,
            Ok(Err(error)) => {
                self.end_turn(commits, index, Err(error));
                return None;
            }
            Err(panic) => {
                self.end_by(panic);
                return None;
            }
        }
        let among_others = commits.pace.is_open();
        Some(Box::new(Resumed {
            committer: self,
            index,
            access: InOrder::new(commits, among_others),
            unfinished: EndOnDrop(scheduler),
        }))
    }
}

/// A transaction that has waited for its turn and continues on the block.
struct Resumed<'t, 'c, 'a, S, A: Accounting, P, E: Executor> {
    committer: &'t Committer<'c, 'a, S, A, P, E>,
    index: u32,
    access: InOrder<Guard<'t, 'c, S, A, E::Output>>,
    /// Ends the block if the thread panics before the end of the transaction.
    unfinished: EndOnDrop<'t>,
}

impl<S, A, P, E> AtTurn<E::Output> for Resumed<'_, '_, '_, S, A, P, E>
where
    S: NodeSource + Send,
    A: Accounting,
    P: NodeSource + Sync,
    E: Executor,
{
    fn access(&mut self) -> &mut dyn Access {
        &mut self.access
    }

    fn end(self: Box<Self>, result: Result<E::Output, Ended>) {
        let Self {
            committer,
            index,
            access,
            unfinished,
        } = *self;
        let (mut commits, failure) = access.into_parts();
        commits.statistics.resumed += 1;
        // As in `help`, so that the call of `Parallel` ends with the same panic on any thread.
        let finish = || committer.finish(&mut commits, index, result, failure);
        match catch_unwind(AssertUnwindSafe(finish)) {
            Ok(done) => {
                if let Some(changed) = committer.end_turn(commits, index, done) {
                    committer.shared.scheduler.commit(index, changed);
                }
            }
            Err(panic) => {
                drop(commits);
                committer.end_by(panic);
            }
        }
        forget(unfinished);
    }
}

/// Returns the outcome of a transaction that was executed on the block.
fn applied<T>(
    result: Result<T, Ended>,
    failure: Option<BlockError>,
) -> Result<Applied<T>, BlockError> {
    match (failure, result) {
        (
            Some(
                error @ (BlockError::Transaction(_)
                | BlockError::ChildRootKey { .. }
                | BlockError::ChildRootPrefix { .. }),
            ),
            _,
        ) => Ok(Err(Trap::Refused(error.into()))),
        (Some(error), _) => Err(error),
        (None, Ok(output)) => Ok(Ok(output)),
        (None, Err(Ended::Trapped(trap))) => Ok(Err(trap)),
        (None, Err(Ended::Stopped)) => Ok(Err(Trap::of_other_view())),
    }
}
