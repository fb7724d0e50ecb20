//! Decides which thread executes and validates which transaction, and when.
//!
//! Block-STM, with a commit in order that validates once more. So nothing here decides what is right: a validation
//! that comes too late, or not at all, costs an execution at the transaction's turn.
//!
//! ```text
//! ready --take--> executing --finish--> executed --claim--> committed
//!   ^                |  |                  |
//!   |                |  +-- halt: waits for a transaction, or is left to its turn
//!   +--- wake -------+                     |
//!   +------------- abort ------------------+     its writes become estimates
//!
//! a worker:    a transaction to validate, below the next one to execute?  take it
//!              else the next one to execute, at most `window` above the last committed one, or `waiting` if
//!                   transactions wait for their turns; but if none is left to the block, leave it this one and
//!                   some after it, and take the one after those
//!              else one of those that are left to the block
//!              else wait for the bell
//! finish(i):   has a transaction above i looked for a key that i writes differently now?  validate from i + 1 on
//!              has another transaction made such a change since i began?  validate i, too
//!              wake the transactions that wait for i
//! committer:   i = next to commit.  executed: compare its reads with the block, apply its writes
//!                                   executing elsewhere: work as a worker
//!                                   else: execute it on the block; if it is the last one that was left, let
//!                                         workers leave others
//! wait for turn(i): all below i are committed?  now
//!                   the lowest uncommitted one was executed?  commit it for the committer
//!                   it is being executed?  wait
//!                   else only the committer executes it: if this thread is the committer, give up
//! ```
//!
//! Executing a transaction on the block costs less than executing it ahead and committing it: 16 us and 22, if it
//! computes 10 and loads some nodes. So workers leave some transactions to the committer, which has time left if
//! there are few workers. When they leave it transactions, they have begun all earlier ones, so it need not wait for
//! them. The more workers there are, the more it has to commit in between, and the fewer it executes. Transactions
//! are left in groups, because each thread then works on memory that other threads do not write meanwhile. Near
//! transactions that wait for their turns, none are left, because an execution on the block would make these wait;
//! and none is begun that would be too far ahead to wait, because its execution would be of no use.
//!
//! Faults of earlier implementations of the algorithm, and why they are impossible here:
//! - *An index advanced before the task was counted as active, so the block ended too early.* The block ends
//!   when the last transaction is committed, and no task is counted.
//! - *A cancelled block left threads waiting for a dependency.* A transaction waits for another one, and its thread
//!   continues with other transactions. A thread waits only for its turn, and thus for transactions that do not wait
//!   for a higher one; and the end of the block wakes it.
//! - *A lost wake-up.* A transaction that waits is still executed at its turn.
//! - *A lost validation.* It would cost an execution at the turn; and none is lost, see [`Validation`].

mod execution;
mod validation;
mod window;

pub(crate) use self::window::Window;
use self::{
    execution::{Execution, Position},
    validation::Validation,
};
use crate::{
    bell::Bell,
    store::{index, MultiVersion},
    sync::{
        atomic::{AtomicBool, AtomicU32, Ordering},
        lock, Apart, Mutex,
    },
};
use smallvec::SmallVec;

/// The index of no transaction: above all that a block may have.
const NOTHING: u32 = MOST_TRANSACTIONS + 1;
/// The most transactions of a block.
pub(crate) const MOST_TRANSACTIONS: u32 = 1 << 30;

/// See the top of the file.
#[derive(Debug)]
pub(crate) struct Scheduler {
    fixed: Apart<Fixed>,
    execution: Execution,
    /// One above the highest transaction that was ever begun, left or committed. `execution` goes back when a lower
    /// transaction becomes ready again, but the transactions above it were executed all the same, and may need a
    /// validation.
    reached: AtomicU32,
    validation: Validation,
    committed: AtomicU32,
    window: Window,
    /// Transactions below this index likely wait for their turns, because one of the transactions before them,
    /// within the least window, has waited. None is left to the block there, and none is begun that would be too far
    /// ahead to wait.
    waiting_below: AtomicU32,
    /// How many publications changed a key that a transaction above had looked for.
    changes: AtomicU32,
    over: AtomicBool,
    paused: AtomicBool,
    /// For threads that wait for a task.
    bell: Apart<Bell>,
    /// For threads that wait for a turn, including the committer. Each commit rings it, even while the scheduler is
    /// paused.
    turn: Apart<Bell>,
}

/// The part that does not change. The rest is read all the time, and fits in one cache line.
#[derive(Debug)]
struct Fixed {
    transactions: Box<[Mutex<Scheduled>]>,
    /// The farthest ahead that a transaction waits for its turn.
    waiting: u32,
}

/// The number of transactions, and limits on those executed ahead.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// All transactions of the block.
    pub(crate) transactions: u32,
    /// The most transactions that are executed ahead of the last committed one, while executions are in vain.
    pub(crate) window: u32,
    /// A transaction waits for its turn only if fewer than this many are before it.
    pub(crate) waiting: u32,
    /// How many transactions in a row are left to the committer; 0 for none.
    pub(crate) left_to_block: u32,
}

#[derive(Debug, Default)]
struct Scheduled {
    stage: Stage,
    /// Transactions that wait for this one.
    waiting: SmallVec<[u32; 2]>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Ready,
    Executing,
    Executed,
    Waiting,
    /// Left to its turn.
    InOrder,
    Committed,
}

/// The next task of a worker, with its transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    Execute(u32),
    Validate(u32),
}

/// The answer to a claim of a transaction at its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// It was executed ahead. The caller owns it now.
    Executed,
    /// It was not executed ahead, or the execution was of no use. The caller owns it now.
    ToExecute,
    /// Another thread executes or commits it.
    Busy,
    /// It is committed, or the block is over.
    Over,
}

/// The answer to a transaction that waits for its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// All transactions before are committed.
    Now,
    /// This transaction was executed ahead and can be committed. The caller owns it now.
    Commit(u32),
    /// The turn is not worth waiting for, or the block is over.
    Never,
}

impl Scheduler {
    pub(crate) fn new(limits: Limits) -> Self {
        let scheduled = |_| Mutex::new(Scheduled::default());
        Self {
            fixed: Apart(Fixed {
                transactions: (0..limits.transactions).map(scheduled).collect(),
                waiting: limits.waiting,
            }),
            execution: Execution::new(limits.left_to_block),
            reached: AtomicU32::new(0),
            validation: Validation::none(),
            committed: AtomicU32::new(0),
            window: Window::new(limits.window),
            waiting_below: AtomicU32::new(0),
            changes: AtomicU32::new(0),
            over: AtomicBool::new(false),
            paused: AtomicBool::new(false),
            bell: Apart::default(),
            turn: Apart::default(),
        }
    }

    fn transaction(&self, index_of: u32) -> &Mutex<Scheduled> {
        &self.fixed.transactions[index(index_of)]
    }

    /// Returns how many transactions the block has.
    fn count(&self) -> u32 {
        u32::try_from(self.fixed.transactions.len()).unwrap_or(u32::MAX)
    }

    /// Returns the end of the transactions that may be begun ahead for now, if `next` is the next one.
    fn horizon(&self, next: u32) -> u32 {
        let waits = next < self.waiting_below.load(Ordering::SeqCst);
        let window = if waits {
            self.fixed.waiting.min(self.window.now())
        } else {
            self.window.now()
        };
        let committed = self.committed.load(Ordering::SeqCst);
        committed.saturating_add(window).min(self.count())
    }

    /// Returns the next task of a worker, for the caller alone. `of_block` is `true` for the committer.
    pub(crate) fn next_task(&self, of_block: bool) -> Option<Task> {
        let mut leaves = !of_block;
        while !self.over.load(Ordering::SeqCst) && !self.paused.load(Ordering::SeqCst) {
            let (validation, found) = self.validation.load();
            let execution = self.execution.load();
            let next = execution.next;
            let horizon = self.horizon(next);
            if validation < next.min(horizon) {
                // Transactions that begin from now on see all published writes.
                let last = validation + 1 >= self.reached.load(Ordering::SeqCst);
                let after = if last { NOTHING } else { validation + 1 };
                if self.validation.advance(found, after) && self.is_executed(validation) {
                    return Some(Task::Validate(validation));
                }
            } else if next < horizon {
                // Before the transaction is begun, so that no begun transaction is ever above `reached`.
                self.reached.fetch_max(next + 1, Ordering::SeqCst);
                if leaves && self.may_leave(execution) {
                    self.execution.leave(execution);
                } else if self.execution.begin(execution) && self.take(next) {
                    return Some(Task::Execute(next));
                }
            } else if execution.leaves_some() {
                leaves = false;
                if self.execution.take_back(execution) {
                    self.bell.ring();
                }
            } else {
                return None;
            }
        }
        None
    }

    /// Whether the next transaction to execute may be left to the committer.
    fn may_leave(&self, execution: Position) -> bool {
        self.execution.may_leave(execution)
            && self.waiting_below.load(Ordering::SeqCst) <= execution.next
            && lock(self.transaction(execution.next)).stage == Stage::Ready
    }

    fn is_executed(&self, index: u32) -> bool {
        lock(self.transaction(index)).stage == Stage::Executed
    }

    /// Whether [`Self::next_task`] may return a task.
    pub(crate) fn has_task(&self) -> bool {
        let execution = self.execution.load().next;
        let horizon = self.horizon(execution);
        let (validation, _) = self.validation.load();
        !self.paused.load(Ordering::SeqCst)
            && (execution < horizon || validation < execution.min(horizon))
    }

    fn take(&self, index: u32) -> bool {
        let mut scheduled = lock(self.transaction(index));
        let ready = scheduled.stage == Stage::Ready;
        if ready {
            scheduled.stage = Stage::Executing;
        }
        ready
    }

    /// Returns how many publications so far changed a key that a transaction above had looked for. See
    /// [`Self::finish`].
    pub(crate) fn changes(&self) -> u32 {
        self.changes.load(Ordering::SeqCst)
    }

    /// Notes that the execution of `index` is over. `seen`: a transaction above may have looked for a key that
    /// `index` writes differently now. `since`: [`Self::changes`] when the execution began.
    pub(crate) fn finish(&self, index: u32, seen: bool, since: u32) {
        let woken = {
            let mut scheduled = lock(self.transaction(index));
            scheduled.stage = Stage::Executed;
            std::mem::take(&mut scheduled.waiting)
        };
        self.wake(&woken);
        let stale = self.changes() != since;
        if seen {
            self.changes.fetch_add(1, Ordering::SeqCst);
        }
        self.validate_from(index, seen, stale);
        self.ring();
    }

    fn validate_from(&self, index: u32, seen: bool, stale: bool) {
        let first = match (stale, seen) {
            (true, _) => index,
            (false, true) => index + 1,
            (false, false) => return,
        };
        if first < self.reached.load(Ordering::SeqCst) {
            self.validation.go_back(first);
        }
    }

    /// Notes that the execution of `index` stopped because `other` will likely write a key that it needs. `index`
    /// becomes ready again after `other` was executed or left to its turn.
    pub(crate) fn wait_for(&self, index: u32, other: u32, store: &MultiVersion) {
        lock(self.transaction(index)).stage = Stage::Waiting;
        self.window.in_vain();
        let still = {
            let mut scheduled = lock(self.transaction(other));
            let executed = matches!(scheduled.stage, Stage::Executed | Stage::Committed);
            let still = !executed && store.is_estimate(other + 1);
            if still {
                scheduled.waiting.push(index);
            }
            still
        };
        if !still {
            self.wake(&[index]);
        }
        self.ring();
    }

    fn wake(&self, waiting: &[u32]) {
        for &index in waiting {
            let mut scheduled = lock(self.transaction(index));
            if scheduled.stage == Stage::Waiting {
                self.make_ready(index, &mut scheduled);
            }
        }
    }

    /// Makes `index` ready again. The caller holds its lock, so that between the two steps no thread can commit
    /// `index` and reserve the transactions above. Going back would undo the reservation.
    fn make_ready(&self, index: u32, scheduled: &mut Scheduled) {
        scheduled.stage = Stage::Ready;
        self.execution.go_back(index);
    }

    /// Notes that executing `index` before its turn is of no use.
    pub(crate) fn leave_to_turn(&self, index: u32) {
        let woken = {
            let mut scheduled = lock(self.transaction(index));
            scheduled.stage = Stage::InOrder;
            std::mem::take(&mut scheduled.waiting)
        };
        self.wake(&woken);
        self.ring();
    }

    /// Aborts the execution of `index`, whose reads have other answers now. Returns `false` if it is not the last
    /// execution any more.
    pub(crate) fn abort(&self, index: u32, store: &MultiVersion) -> bool {
        {
            let mut scheduled = lock(self.transaction(index));
            if scheduled.stage != Stage::Executed {
                return false;
            }
            store.mark_estimate(index + 1);
            self.make_ready(index, &mut scheduled);
        }
        self.window.in_vain();
        self.ring();
        true
    }

    /// Notes at the turn of a transaction whether its execution ahead was of use.
    pub(crate) fn compared(&self, was_of_use: bool) {
        match was_of_use {
            true => self.window.used(),
            false => self.window.in_vain(),
        }
    }

    /// Returns how many transactions above `index` may have been begun.
    pub(crate) fn begun_above(&self, index: u32) -> u32 {
        let reached = self.reached.load(Ordering::SeqCst);
        reached.saturating_sub(index + 1)
    }

    /// Claims `index` for the committer, at its turn.
    pub(crate) fn claim(&self, index: u32) -> Claim {
        let mut scheduled = lock(self.transaction(index));
        let claim = match scheduled.stage {
            _ if self.is_over() => return Claim::Over,
            Stage::Executed => Claim::Executed,
            // A committed transaction is counted a moment later.
            Stage::Executing | Stage::Committed => return Claim::Busy,
            Stage::Ready | Stage::Waiting | Stage::InOrder => Claim::ToExecute,
        };
        scheduled.stage = Stage::Executing;
        drop(scheduled);
        self.execution.reached_by_block(index);
        claim
    }

    /// Waits for the turn of `index`, which the caller executes. `of_block` is `true` for the committer.
    pub(crate) fn wait_for_turn(&self, index: u32, of_block: bool) -> Turn {
        let far = index.saturating_add(self.window.least());
        self.waiting_below.fetch_max(far, Ordering::SeqCst);
        if index.saturating_sub(self.committed()) >= self.fixed.waiting {
            return Turn::Never;
        }
        loop {
            let lowest = self.committed();
            if self.is_over() {
                return Turn::Never;
            }
            if lowest >= index {
                return Turn::Now;
            }
            let stage = {
                let mut scheduled = lock(self.transaction(lowest));
                if scheduled.stage == Stage::Executed {
                    scheduled.stage = Stage::Executing;
                    return Turn::Commit(lowest);
                }
                scheduled.stage
            };
            // A transaction is marked as committed before it is counted.
            let moves = matches!(stage, Stage::Executing | Stage::Committed);
            if of_block && !moves {
                return Turn::Never;
            }
            self.turn.wait_unless(|| {
                self.is_over()
                    || self.committed() != lowest
                    || lock(self.transaction(lowest)).stage != stage
            });
        }
    }

    /// Returns how many transactions are committed.
    pub(crate) fn committed(&self) -> u32 {
        self.committed.load(Ordering::SeqCst)
    }

    /// Wakes the threads that wait for work or for a turn.
    fn ring(&self) {
        self.bell.ring();
        self.turn.ring();
    }

    /// Whether a thread executes or commits `index`.
    pub(crate) fn is_busy(&self, index: u32) -> bool {
        match lock(self.transaction(index)).stage {
            Stage::Executing => true,
            Stage::Committed => self.committed() <= index,
            _ => false,
        }
    }

    /// Whether each transaction below `index` was executed.
    pub(crate) fn is_executed_below(&self, index: u32) -> bool {
        let committed = self.committed.load(Ordering::SeqCst);
        let stage = |below: u32| lock(self.transaction(below)).stage;
        let executed = |below| matches!(stage(below), Stage::Executed | Stage::Committed);
        (committed..index).all(executed)
    }

    /// Whether `index` was executed, or can only be executed at its turn.
    pub(crate) fn is_due(&self, index: u32) -> bool {
        matches!(
            lock(self.transaction(index)).stage,
            Stage::Executed | Stage::InOrder
        )
    }

    /// Notes that transaction `index`, which was claimed, is committed. `seen` is that of [`Self::finish`].
    pub(crate) fn commit(&self, index: u32, seen: bool) {
        let woken = {
            let mut scheduled = lock(self.transaction(index));
            scheduled.stage = Stage::Committed;
            std::mem::take(&mut scheduled.waiting)
        };
        self.committed.store(index + 1, Ordering::SeqCst);
        self.execution.committed(index);
        self.reached.fetch_max(index + 1, Ordering::SeqCst);
        self.wake(&woken);
        if seen {
            self.changes.fetch_add(1, Ordering::SeqCst);
            self.validate_from(index, seen, false);
        }
        self.turn.ring();
        if !self.is_paused() {
            self.bell.ring();
        }
    }

    /// Stops workers from beginning tasks.
    pub(crate) fn pause(&self) {
        self.paused.store(true, Ordering::SeqCst);
    }

    /// Tries to reserve all transactions from `index` on, the first that is not committed, for the committer. Returns
    /// `false` if one of them was begun. Otherwise no thread begins one until [`Self::resume`], and the caller may
    /// execute and commit them without a claim. Called while the scheduler is paused.
    ///
    /// A pause alone is not enough: a thread that has looked before the pause may begin a transaction after it.
    pub(crate) fn reserve_from(&self, index: u32) -> bool {
        let execution = self.execution.load();
        // If the position went back, transactions above it were begun all the same.
        let reached = || self.reached.load(Ordering::SeqCst);
        execution.next <= index && reached() <= index && self.execution.reserve(execution)
    }

    /// Lets workers begin tasks again. Called when the caller has committed all transactions up to `index`.
    pub(crate) fn resume(&self, index: u32) {
        self.execution.end_reservation(index + 1);
        self.paused.store(false, Ordering::SeqCst);
        self.ring();
    }

    /// Whether the scheduler is paused.
    pub(crate) fn is_paused(&self) -> bool {
        self.paused.load(Ordering::SeqCst)
    }

    /// Ends the block. Workers stop after their current task.
    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::SeqCst);
        self.ring();
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    /// Waits until a task may be available, or the block is over.
    pub(crate) fn wait_for_task(&self) {
        self.bell.wait_unless(|| self.is_over() || self.has_task());
    }

    /// Waits until no thread executes or commits `index` any more, a task may be available, or the block is over.
    /// Called by the committer.
    pub(crate) fn wait_while_busy(&self, index: u32) {
        self.turn
            .wait_unless(|| self.is_over() || self.has_task() || !self.is_busy(index));
    }
}

#[cfg(all(test, not(any(povmeter_loom, povmeter_shuttle))))]
mod tests;
