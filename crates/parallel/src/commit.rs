//! Commits transactions to the block, in order.

use crate::{
    executor::{Executor, Trap},
    in_order::{InOrder, WriteLog},
    outcome::{Decided, Ending, Executed, ParallelError, Statistics, Verdict},
    pace::Pace,
    parallel::SizeAfter,
    record::{Ask, Record, Seen, SizeAnswer},
    scheduler::Claim,
    shared::{Attempt, Ended, Shared, Worker},
    store::{index as index_of, Content, WriteSet, WriteSetBuilder},
    sync::{
        atomic::{AtomicU64, Ordering},
        lock,
    },
    update::Kind,
    view::View,
};
use povmeter::{Accounting, Block, BlockError, NodeSource, ProofSize};
use std::{mem::take, sync::Arc};

/// The thread that owns the block. It works as the others do whenever it can commit nothing.
pub(crate) struct Committer<'c, 'a, S, A: Accounting, P, E: Executor> {
    pub(crate) block: &'c mut Block<S, A>,
    pub(crate) shared: &'c Shared<'a, P, E>,
    pub(crate) worker: Worker<'a, P, E>,
    pub(crate) transactions: u32,
    pub(crate) pace: Pace,
    /// Executes each transaction ahead of its turn first, also where its turn has come.
    pub(crate) speculate_first: bool,
    pub(crate) sizes: SizeAfter,
    pub(crate) log: WriteLog,
    pub(crate) statistics: Statistics,
}

/// What a commit did.
struct Committed<T> {
    executed: Executed<T>,
    /// Whether transactions above may have read something else.
    changed: bool,
}

/// What decides whether a transaction stays.
pub(crate) type Decide<'d, T> = dyn FnMut(Decided<'_, T>) -> Verdict + 'd;

/// The result of a transaction whose effects are on the block, in an open transaction of the host.
type Applied<T> = Result<T, Trap>;

/// Updates are replaced by their values at each transaction whose position is a multiple of this, so that
/// a read passes few of them.
const COLLAPSED: u32 = 16;

impl<S: NodeSource, A: Accounting, P: NodeSource, E: Executor> Committer<'_, '_, S, A, P, E> {
    /// Commits all transactions, or those before the verdict that stops the block. `start` starts the
    /// other threads.
    pub(crate) fn run(
        &mut self,
        start: &mut dyn FnMut(),
        decide: &mut Decide<'_, E::Output>,
    ) -> Result<Vec<Executed<E::Output>>, ParallelError> {
        if !self.pace.is_open() {
            return self.run_in_order(decide);
        }
        let shared = self.shared;
        let mut started = false;
        let mut done = Vec::with_capacity(shared.attempts.len());
        for (attempt, index) in shared.attempts.iter().zip(0..) {
            self.follow_pace(&mut started, start, index)?;
            let claim = self.claim(index);
            let error = |error| ParallelError::Block { index, error };
            let attempt = match claim {
                Claim::Executed => lock(attempt).take(),
                Claim::ToExecute | Claim::Busy => None,
            };
            let committed = self.commit(index, attempt, decide).map_err(error)?;
            let Some(Committed { executed, changed }) = committed else {
                break;
            };
            *lock(&shared.last_size) = executed.size;
            shared.scheduler.commit(index, changed);
            done.push(executed);
            let left = shared.attempts.len() - done.len();
            self.pace.committed(left, self.statistics.ahead);
        }
        Ok(done)
    }

    /// As [`Self::run`], where nothing will ever be executed ahead.
    fn run_in_order(
        &mut self,
        decide: &mut Decide<'_, E::Output>,
    ) -> Result<Vec<Executed<E::Output>>, ParallelError> {
        let mut done = Vec::with_capacity(index_of(self.transactions));
        for index in 0..self.transactions {
            let committed = self.commit(index, None, decide);
            match committed.map_err(|error| ParallelError::Block { index, error })? {
                Some(Committed { executed, .. }) => done.push(executed),
                None => break,
            }
        }
        Ok(done)
    }

    /// Goes on in parallel, or in order, as the pace says.
    fn follow_pace(
        &mut self,
        started: &mut bool,
        start: &mut dyn FnMut(),
        index: u32,
    ) -> Result<(), ParallelError> {
        let shared = self.shared;
        let parallel = self.pace.is_parallel();
        if parallel && !self.log.is_empty() {
            let writes = self.log.take(&shared.store.keys, self.block);
            let writes = writes.map_err(|error| ParallelError::Block { index, error })?;
            // What was committed since the last transaction of the store, as if the last one wrote it.
            shared.store.publish(index, Arc::new(writes));
        }
        shared.scheduler.pause(!parallel);
        if parallel && !*started {
            *started = true;
            start();
        }
        Ok(())
    }

    /// Claims `index`, at its turn. Works as other threads do as long as one of them executes it.
    fn claim(&mut self, index: u32) -> Claim {
        let scheduler = &self.shared.scheduler;
        loop {
            let first = self.speculate_first && self.pace.is_parallel();
            let due = !first || scheduler.is_due(index);
            if due {
                match scheduler.claim(index) {
                    Claim::Busy => {}
                    claim => return claim,
                }
            }
            match scheduler.next_task() {
                Some(task) => self.shared.perform(task, &mut self.worker),
                None if first && !scheduler.is_busy(index) && !scheduler.is_due(index) => {
                    // Nobody will execute it ahead.
                    match scheduler.claim(index) {
                        Claim::Busy => {}
                        claim => return claim,
                    }
                }
                None => scheduler.wait_unless(|| !scheduler.is_busy(index)),
            }
        }
    }

    /// Commits `index`: as it was executed ahead, if the block gives it the same answers, else executes it.
    fn commit(
        &mut self,
        index: u32,
        attempt: Option<Attempt<E::Output>>,
        decide: &mut Decide<'_, E::Output>,
    ) -> Result<Option<Committed<E::Output>>, BlockError> {
        if let Some(attempt) = attempt {
            let Attempt {
                record,
                writes,
                result,
            } = attempt;
            self.block.start_transaction();
            let alike = self.replay(&record, &writes);
            let alike = self.or_roll_back(alike)?;
            self.shared.give_back(record);
            if alike {
                self.statistics.ahead += 1;
                let parallel = self.pace.is_parallel();
                if !parallel && self.pace.is_open() {
                    self.log.note_set(&writes);
                }
                let collapse = parallel && result.is_ok() && (index + 1).is_multiple_of(COLLAPSED);
                return self.end(index, result, (false, decide), |this| {
                    if collapse {
                        this.collapse(index, &writes)?;
                    }
                    Ok(false)
                });
            }
            self.block.rollback_transaction()?;
            if !self.pace.is_parallel() {
                self.withdraw(index);
            }
        }
        self.statistics.in_order += 1;
        self.block.start_transaction();
        let result = self.execute(index);
        let result = self.or_roll_back(result)?;
        let parallel = self.pace.is_parallel();
        self.end(index, result, (parallel, decide), |this| match parallel {
            true => this.publish_log(index),
            false => Ok(false),
        })
    }

    /// Closes the transaction of the host, which holds the effects of `index`. `publish` hands them to
    /// other threads; if they are not kept, there are none, which those threads must know if they `may`
    /// have seen some.
    fn end(
        &mut self,
        index: u32,
        result: Applied<E::Output>,
        (executed_now, decide): (bool, &mut Decide<'_, E::Output>),
        publish: impl FnOnce(&mut Self) -> Result<bool, BlockError>,
    ) -> Result<Option<Committed<E::Output>>, BlockError> {
        let output = match result {
            Ok(output) => output,
            Err(trap) => {
                self.block.rollback_transaction()?;
                let size = self.size_after()?;
                let changed = executed_now && self.withdraw(index);
                let ending = Ending::Trapped(trap);
                return Ok(Some(Committed {
                    executed: Executed { ending, size },
                    changed,
                }));
            }
        };
        let size = self.size_after();
        let size = self.or_roll_back(size)?;
        let output_of = Decided {
            index,
            output: &output,
            size,
        };
        match decide(output_of) {
            Verdict::Keep => {
                self.block.commit_transaction()?;
                let ending = Ending::Kept(output);
                let changed = publish(self)?;
                Ok(Some(Committed {
                    executed: Executed { ending, size },
                    changed,
                }))
            }
            Verdict::LeaveOut => {
                self.block.rollback_transaction()?;
                let size = self.size_after()?;
                let changed = self.withdraw(index);
                let ending = Ending::LeftOut(output);
                Ok(Some(Committed {
                    executed: Executed { ending, size },
                    changed,
                }))
            }
            Verdict::Stop => {
                self.block.rollback_transaction()?;
                Ok(None)
            }
        }
    }

    /// The size after a transaction.
    fn size_after(&mut self) -> Result<ProofSize, BlockError> {
        match self.sizes {
            SizeAfter::Counted => self.block.proof_size(),
            SizeAfter::Peeked if A::PROVEN => self.block.peek_proof_size(),
            SizeAfter::Peeked => self.block.proof_size(),
            SizeAfter::Recorded => Ok(self.block.recorded_size()),
        }
    }

    /// The value of `result`. After an error, the open transaction of the host is rolled back.
    fn or_roll_back<T>(&mut self, result: Result<T, BlockError>) -> Result<T, BlockError> {
        if result.is_err() {
            self.block.rollback_transaction()?;
        }
        result
    }

    /// Executes `index` on the block.
    fn execute(&mut self, index: u32) -> Result<Applied<E::Output>, BlockError> {
        self.block.enter_runtime()?;
        let keys = &self.shared.store.keys;
        self.log.keep_elements(self.pace.is_parallel());
        let log = self.pace.is_open().then_some((keys, &mut self.log));
        let mut access = InOrder::new(&mut *self.block, log);
        let executor = &mut self.worker.executor;
        let result = self
            .shared
            .run(executor, index, &mut View::new(&mut access));
        let failure = access.into_failure();
        self.block.exit_runtime()?;
        match (failure, result) {
            (Some(error @ (BlockError::Transaction(_) | BlockError::ChildRootKey { .. })), _) => {
                Ok(Err(Trap::Refused(error)))
            }
            (Some(error), _) => Err(error),
            (None, Ok(output)) => Ok(Ok(output)),
            (None, Err(Ended::Trapped(trap))) => Ok(Err(trap)),
            (None, Err(Ended::Stopped)) => Ok(Err(Trap::Failed(
                "expected an error of this view, found one of another".into(),
            ))),
        }
    }

    /// Asks the block what the transaction asked, and applies what it wrote, in the order in which it
    /// did. `false` if an answer is another one.
    fn replay(&mut self, record: &Record, writes: &WriteSet) -> Result<bool, BlockError> {
        let keys = &self.shared.store.keys;
        let mut applied = 0;
        for read in &record.reads {
            let alike = match read.seen {
                Seen::Ask(number) => {
                    let ask = &record.asks[number as usize];
                    self.apply(&ask.writes, applied)?;
                    applied = ask.updates;
                    self.answers(ask)?
                }
                Seen::Next(number) => {
                    let next = record.nexts[number as usize];
                    let bytes = |span| record.bytes(span);
                    let (after, before) = (bytes(next.after), next.before.map(bytes));
                    let trie = keys.trie(next.trie);
                    let found = self.block.next_key_before(trie, after, before)?;
                    found.as_deref() == next.found.map(bytes)
                }
                seen => {
                    let key = keys.key(read.key);
                    let trie = keys.trie(key.trie);
                    match seen {
                        Seen::Exists(exists) => self.block.exists(trie, &key.bytes)? == exists,
                        _ => {
                            let value = self.block.get(trie, &key.bytes)?;
                            match seen {
                                Seen::Told(number) => record.is_told_right(number, value),
                                seen => record.value(seen).is_none_or(|seen| seen == value),
                            }
                        }
                    }
                }
            };
            if !alike {
                return Ok(false);
            }
        }
        self.apply(writes, applied)?;
        Ok(true)
    }

    fn answers(&mut self, ask: &Ask) -> Result<bool, BlockError> {
        let size = self.block.proof_size()?;
        Ok(match ask.answer {
            SizeAnswer::Size(seen) => seen == size,
            SizeAnswer::AtMost { bytes, holds } => (size.total_bytes() <= bytes) == holds,
        })
    }

    /// Applies `writes` to the block, of their updates those from number `from` on.
    fn apply(&mut self, writes: &WriteSet, from: u32) -> Result<(), BlockError> {
        let keys = &self.shared.store.keys;
        let mut new = Vec::new();
        for entry in writes.entries() {
            let key = keys.key(entry.key);
            let trie = keys.trie(key.trie);
            match entry.content {
                Content::Value(span) => self.block.set(trie, &key.bytes, writes.bytes(span))?,
                Content::Deleted => self.block.remove(trie, &key.bytes)?,
                Content::Updated { first, count } => {
                    let updates = writes.updates(first, count).iter();
                    for update in updates.filter(|update| update.number >= from) {
                        let operand = writes.bytes(update.operand);
                        let Kind::Rule(rule) = update.kind else {
                            self.block.append(trie, &key.bytes, operand)?;
                            continue;
                        };
                        new.clear();
                        if rule(self.block.get(trie, &key.bytes)?, operand, &mut new) {
                            self.block.set(trie, &key.bytes, &new)?;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Replaces updates by rules, at a committed transaction, by the values that they led to.
    fn collapse(&mut self, index: u32, writes: &WriteSet) -> Result<(), BlockError> {
        let is_rule = |content| match content {
            Content::Updated { first, count } => {
                let mut updates = writes.updates(first, count).iter();
                updates.all(|update| matches!(update.kind, Kind::Rule(_)))
            }
            _ => false,
        };
        if !writes.entries().iter().any(|entry| is_rule(entry.content)) {
            return Ok(());
        }
        let keys = &self.shared.store.keys;
        let mut collapsed = WriteSetBuilder::default();
        let mut fits = Ok(());
        for entry in writes.entries() {
            let key = keys.key(entry.key);
            let trie = keys.trie(key.trie);
            match entry.content {
                content if is_rule(content) => {
                    if self.block.is_changed(trie, &key.bytes) {
                        let value = self.block.get(trie, &key.bytes)?;
                        fits = fits.and(collapsed.write(entry.key, value));
                    }
                }
                Content::Value(span) => {
                    fits = fits.and(collapsed.write(entry.key, Some(writes.bytes(span))));
                }
                Content::Deleted => fits = fits.and(collapsed.write(entry.key, None)),
                Content::Updated { first, count } => {
                    for update in writes.updates(first, count) {
                        let operand = writes.bytes(update.operand);
                        let added =
                            collapsed.update(entry.key, update.kind, operand, update.number);
                        fits = fits.and(added);
                    }
                }
            }
        }
        if fits.is_ok() {
            let collapsed = Arc::new(collapsed.finish());
            self.shared.store.publish(index + 1, collapsed);
        }
        Ok(())
    }

    /// Hands what `index` changed on the block to the other threads; `true` if they did not know it.
    fn publish_log(&mut self, index: u32) -> Result<bool, BlockError> {
        let writes = self.log.take(&self.shared.store.keys, self.block)?;
        Ok(self.shared.store.publish(index + 1, Arc::new(writes)))
    }

    /// Tells the other threads that `index` changes nothing; `true` if they did not know it.
    fn withdraw(&mut self, index: u32) -> bool {
        if !self.pace.is_open() {
            return false;
        }
        if self.pace.is_parallel() {
            drop(take(&mut self.log));
        }
        self.shared
            .store
            .publish(index + 1, Arc::new(WriteSet::default()))
    }

    /// How the block was executed.
    pub(crate) fn statistics(&self) -> Statistics {
        let counts = &self.shared.counts;
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Statistics {
            speculations: of(&counts.speculations),
            halts: of(&counts.halts),
            validations: of(&counts.validations),
            aborts: of(&counts.aborts),
            ..self.statistics
        }
    }
}
