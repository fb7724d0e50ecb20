//! What the threads of a block share, and what a worker does with it.

use crate::{
    attempts::{Attempt, Attempts},
    below::{Asker, Below},
    executor::{Executor, Interrupt, Trap},
    outcome::Statistics,
    preparations::{Preparation, Preparations},
    record::Record,
    scheduler::{Limits, Scheduler, Task, Window},
    speculation::{Common, Halt, Scratch, Speculated, Speculation},
    store::MultiVersion,
    sync::{
        atomic::{AtomicU64, Ordering},
        Apart, Mutex,
    },
    turns::Turns,
    view::View,
};
use povmeter::{NodeSource, ProofSize, Root};
use std::{
    panic::{catch_unwind, AssertUnwindSafe},
    sync::Arc,
};

/// A thread makes no more preparations after this many useless ones in a row.
const USELESS: u32 = 32;

pub(crate) struct Shared<'a, P, E: Executor> {
    pub(crate) store: MultiVersion,
    pub(crate) scheduler: Scheduler,
    pub(crate) attempts: Attempts<E::Output>,
    /// Empty, unless the strategy is to prepare.
    pub(crate) preparations: Preparations,
    pub(crate) executor: &'a E,
    pub(crate) last_size: Apart<Mutex<ProofSize>>,
    pub(crate) counts: Apart<Counts>,
    source: &'a P,
    root: Root,
}

/// Counters for [`Statistics`].
#[derive(Debug)]
pub(crate) struct Counts {
    pub(crate) speculations: AtomicU64,
    pub(crate) halts: AtomicU64,
    pub(crate) validations: AtomicU64,
    pub(crate) aborts: AtomicU64,
    pub(crate) preparations: AtomicU64,
}

impl Counts {
    fn new() -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            speculations: zero(),
            halts: zero(),
            validations: zero(),
            aborts: zero(),
            preparations: zero(),
        }
    }
}

pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// The state that one thread of a block owns.
pub(crate) struct Worker<'w, P, E: Executor> {
    pub(crate) executor: E::Worker,
    pub(crate) scratch: Scratch<'w, &'w P>,
    /// Whether the thread is that of the block.
    of_block: bool,
}

impl<'a, P: NodeSource, E: Executor> Shared<'a, P, E> {
    pub(crate) fn new(
        executor: &'a E,
        (source, root): (&'a P, Root),
        limits: Limits,
        preparations: Preparations,
    ) -> Self {
        Self {
            store: MultiVersion::new(limits.transactions + 1),
            scheduler: Scheduler::new(limits),
            attempts: Attempts::new(limits.transactions, Window::greatest(limits.window)),
            preparations,
            executor,
            last_size: Apart::default(),
            counts: Apart(Counts::new()),
            source,
            root,
        }
    }

    pub(crate) fn worker(&self, of_block: bool) -> Worker<'_, P, E> {
        Worker {
            executor: self.executor.worker(),
            scratch: Scratch::new(&self.store.keys, Below::new(self.source, self.root)),
            of_block,
        }
    }

    /// Works until the block is over.
    pub(crate) fn work(&self, turns: &dyn Turns<E::Output>) {
        let mut worker = self.worker(false);
        while !self.scheduler.is_over() {
            match self.scheduler.next_task(false) {
                Some(task) => self.perform(task, &mut worker, turns),
                None => self.scheduler.wait_for_task(),
            }
        }
    }

    /// Prepares transactions, until none is left, or this thread cannot make a worker: the block needs no preparation.
    pub(crate) fn prepare(&self) {
        let mut below = Below::new(self.source, self.root);
        let worker = || catch_unwind(AssertUnwindSafe(|| self.executor.worker())).ok();
        let Some(mut executor) = worker() else { return };
        let mut useless = 0;
        while useless < USELESS {
            let Some(index) = self.preparations.take() else {
                break;
            };
            count(&self.counts.preparations);
            let mut access = Preparation::new(&mut below, &self.store);
            let mut view = View::new(&mut access);
            let prepare = || self.executor.prepare(&mut executor, index, &mut view);
            match catch_unwind(AssertUnwindSafe(prepare)) {
                Ok(true) => useless = 0,
                Ok(false) => useless += 1,
                Err(_) => {
                    useless += 1;
                    let Some(new) = worker() else { return };
                    executor = new;
                }
            }
        }
    }

    pub(crate) fn perform(
        &self,
        task: Task,
        worker: &mut Worker<'_, P, E>,
        turns: &dyn Turns<E::Output>,
    ) {
        match task {
            Task::Execute(index) => self.speculate(index, worker, turns),
            Task::Validate(index) => self.validate(index, worker),
        }
    }

    /// Executes `index`, which the caller has taken, ahead of its turn.
    fn speculate(&self, index: u32, worker: &mut Worker<'_, P, E>, turns: &dyn Turns<E::Output>) {
        // If this thread panics outside of the executor, the block must not wait for it.
        let given_back = LeaveOnDrop(Some((&self.scheduler, index)));
        let since = self.scheduler.changes();
        count(&self.counts.speculations);
        let common = Common {
            store: &self.store,
            executor: self.executor,
            last_size: &self.last_size,
            turns,
            of_block: worker.of_block,
        };
        let Worker {
            executor, scratch, ..
        } = worker;
        let mut speculation = Speculation::begin(scratch, common, index);
        let result = self.run(executor, index, &mut View::new(&mut speculation));
        if let Some(at_turn) = speculation.at_turn() {
            given_back.keep();
            at_turn.end(result);
            return;
        }
        if let Err(Ended::Trapped(Trap::Panicked { .. })) = result {
            // The reason may be the thread, or the block's source, and then no read of the record shows it.
            speculation.give_up();
        }
        let result = match result {
            Ok(output) => Ok(output),
            Err(Ended::Trapped(trap)) => Err(trap),
            // If this view has stopped, `finish` returns the halt, and the trap is dropped.
            Err(Ended::Stopped) => Err(Trap::of_other_view()),
        };
        match speculation.finish(result.is_ok()) {
            Ok(Speculated { record, writes }) => {
                let attempt = Attempt {
                    index,
                    record,
                    writes: Arc::new(writes),
                    result,
                };
                given_back.keep();
                scratch.spare = self.publish(attempt, since);
            }
            Err(halt) => {
                given_back.keep();
                count(&self.counts.halts);
                match halt {
                    // A transaction's position is one above its index.
                    Halt::Wait(position) => {
                        self.scheduler.wait_for(index, position - 1, &self.store);
                    }
                    Halt::InOrder => self.scheduler.leave_to_turn(index),
                }
            }
        }
    }

    /// Keeps and publishes `attempt`. Returns a record whose memory can be reused, if there is one.
    fn publish(&self, attempt: Attempt<E::Output>, since: u32) -> Option<Box<Record>> {
        let (index, writes) = (attempt.index, attempt.writes.clone());
        let spent = self.attempts.keep(attempt);
        let published = self.store.publish(index + 1, writes);
        self.scheduler.finish(index, published.seen, since);
        spent
    }

    /// Calls the executor and returns its result. A panic is a trap, for the caller to judge, and the worker is
    /// replaced.
    pub(crate) fn run(
        &self,
        worker: &mut E::Worker,
        index: u32,
        view: &mut View<'_>,
    ) -> Result<E::Output, Ended> {
        let executed = catch_unwind(AssertUnwindSafe(|| {
            self.executor.execute(worker, index, view)
        }));
        match executed {
            Ok(Ok(output)) => Ok(output),
            Ok(Err(Interrupt::Stopped(_))) => Err(Ended::Stopped),
            Ok(Err(Interrupt::Failed(error))) => Err(Ended::Trapped(Trap::Failed(error))),
            Err(payload) => {
                *worker = self.executor.worker();
                Err(Ended::Trapped(Trap::panicked(&*payload)))
            }
        }
    }

    /// Aborts the last execution of `index` if its reads have other answers now.
    fn validate(&self, index: u32, worker: &mut Worker<'_, P, E>) {
        count(&self.counts.validations);
        let below = &mut worker.scratch.below;
        let complete = self.scheduler.is_executed_below(index);
        let asker = Asker {
            position: index + 1,
            store: &self.store,
            block: None,
        };
        let alike = self.attempts.look(index, |attempt| {
            let alike = below.answers_alike(asker, &attempt.record, complete);
            matches!(alike, Ok(true))
        });
        if alike == Some(false) && self.scheduler.abort(index, &self.store) {
            count(&self.counts.aborts);
        }
    }

    /// Returns the statistics of the block: those of the `committed` transactions, and the counters.
    pub(crate) fn statistics(&self, committed: Statistics) -> Statistics {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Statistics {
            speculations: of(&self.counts.speculations),
            halts: of(&self.counts.halts),
            validations: of(&self.counts.validations),
            aborts: of(&self.counts.aborts),
            preparations: of(&self.counts.preparations),
            ..committed
        }
    }
}

/// Why an execution has no output.
pub(crate) enum Ended {
    Stopped,
    Trapped(Trap),
}

/// Leaves a transaction to its turn when it is dropped, unless it is kept.
struct LeaveOnDrop<'s>(Option<(&'s Scheduler, u32)>);

impl LeaveOnDrop<'_> {
    fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for LeaveOnDrop<'_> {
    fn drop(&mut self) {
        if let Some((scheduler, index)) = self.0 {
            scheduler.leave_to_turn(index);
        }
    }
}
