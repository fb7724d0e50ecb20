//! Decides when a block is executed in parallel, and when in order.
//!
//! ```text
//! probe:     the first 32 transactions in order; the last 16 give the time in order; 96 more if it is below 8 us
//! below 2 us? 512 transactions in order, then measure again; then 1,024; then in order to the end
//! trial:     96 transactions in parallel, after 32 that do not count
//! check:     32 transactions in order, after those that were already executed ahead; the last 16 give the time in
//!            order. Only the first check is needed while transactions on the block take much longer than in parallel
//! faster?    continue in parallel, and compare every 256 transactions; check again after 512, 2,048, 8,192, ... of
//!            them, or when they have become an eighth faster
//! slower?    far slower at any time, or in the first trial slower by a sixteenth of the time left; or much slower in
//!            a comparison; or slower in two in a row, or in the trial; or the first 32 of the trial much slower; or
//!            its first 64 slower, and none of them of use ahead:
//!            512 transactions in order, then another trial if the transactions left are worth it; after a second
//!            such trial in a row 1,024; after the third in order to the end
//! ```
//! So a block that can gain nothing loses a few trials. A block that gains recovers after a time in which something
//! else had its cores. Transactions that take less than 2 us are not tried, because they gain nothing in parallel.
//! The first ones of a block take longer, because they load nodes.
//!
//! A block with the experience of the block before it begins as that block ended: in parallel, with a comparison
//! after 128 transactions, or half of a small block; or in order, until another trial is worth it. At most sixteen
//! blocks in a row begin like this before one measures from its start; fewer at first, after it was found that nothing
//! is gained. So does the next block if the last comparison was slower, or if transactions take much less time than
//! those that were measured.
//!
//! The time of a transaction is that of the middle part of its phase, because a part in which a table grows, a thread
//! wakes, or something else has the core, says nothing about the rest. Checks exist because the first transactions of
//! a block load nodes that later ones find in memory: those that only read and write some accounts take a tenth of
//! the time later. When transactions become cheaper in order, they also become cheaper in parallel, if not as much.
//! So checks at any other time are rare: threads have to stop and start again, so one takes 0.6 ms of a block of 105
//! ms, whose transactions take 10 us on two threads. In parallel, too, the committer executes some transactions on
//! the block. Beside other threads these take longer than in order, and a check finds out how much longer. If their
//! time without that excess is still more than the time in parallel, parallel execution gains, and the next check
//! need not stop the threads.
//!
//! The measured times decide only how transactions are executed; the outcome is the same.

use std::{
    mem::take,
    time::{Duration, Instant},
};

/// Transactions in order before those whose time counts, so that these find nodes in memory, as later ones will.
const SETTLE: u32 = 16;
const PROBE: u32 = 16;
/// The length of a second probe, for transactions that took less than [`PERHAPS_SHORT`] in the first one: they may
/// have loaded nodes that later ones find in memory, and in parallel they gain little.
const LONG_PROBE: u32 = 96;
const PERHAPS_SHORT: Duration = Duration::from_micros(8);
/// Shorter transactions gain nothing. On two threads, transactions that only read and write 100 accounts are faster
/// from 2 to 3 us on, and committing one that was executed ahead takes one thread half of that.
const SHORT: Duration = Duration::from_micros(2);
const WARM: u32 = 32;
const TRIAL: u32 = 96;
const CHECK: u32 = 16;
/// A check is worth its transactions in order only if more than this many times as many follow.
const CHECKED: u32 = 8;
/// The most transactions of a part of a phase; see [`Pace::parts`].
const PART: u32 = 32;
/// The fewest parts of a phase.
const PARTS: u32 = 4;
/// Transactions in parallel between the first check, at the end of the trial, and the second.
const UNCHECKED: u32 = 512;
/// The factor by which each later interval between checks grows.
const LONGER_UNCHECKED: u32 = 4;
/// A check is due sooner if transactions in parallel take less than this share of their time before the last check,
/// in percent.
const CHEAPER_PERCENT: u32 = 88;
/// The least time of a transaction on the block beside other threads, in percent of its time in order. A fifth more
/// was measured with two threads and transactions that compute; more if transactions mostly wait for memory.
const BESIDE_PERCENT: u32 = 125;
/// A margin on the share that a check finds out, in percent of the time in order.
const BESIDE_MARGIN: u32 = 10;
/// The fewest transactions on the block whose time is used.
const FEWEST_BESIDE: usize = 8;
/// Transactions in parallel between comparisons.
const PERIOD: u32 = 256;
/// Transactions in order after the first trial that gained nothing; doubles after each further one.
const REST: u32 = 512;
/// The most such trials in a row.
const TRIALS: u32 = 3;
/// The fewest transactions that are worth a thread.
const SMALL: u32 = 64;
/// The least work that is worth a thread, as the time of all transactions left.
const LITTLE: Duration = Duration::from_micros(300);
/// Parallel execution gains if it takes less than this share of the time in order, in percent.
const GAIN_PERCENT: u32 = 97;
/// The time in order is measured again in the next block if that of the block before is above this share of the time
/// that transactions on the block take beside other threads, in percent.
const OUTDATED_PERCENT: u32 = 150;
/// A phase in parallel ends as soon as it has taken this many times the time in order of all its transactions. On a
/// machine whose cores are busy with something else, each transaction may wait for a thread that waits for its core.
const FAR: u32 = 2;
/// The first trial of a block also ends as soon as it has lost the time in order of all transactions left, divided by
/// this.
const FIRST_LOSS: u32 = 16;
/// A trial ends early, and one slower comparison is enough, above this share of the time in order, in percent.
const MUCH_PERCENT: u32 = 125;
/// Another trial takes place only if the transactions left take more than this many times its expected loss.
const WORTH: u32 = 32;
/// The least expected loss of a trial is its time divided by this. A smaller loss of the last trial may be chance.
const LEAST_LOSS: u32 = 4;

/// The most blocks between one that measures from its start and the next.
const RELEARN: u32 = 16;
/// The same after it was first found out that nothing is gained, because chance may have decided; doubles each time.
const DOUBTED: u32 = 2;

/// What a block measured of the speed of its transactions, for the block after it:
/// [`Parallel::with_experience`](crate::Parallel::with_experience). Holds only times, so it changes no outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Experience {
    /// The time of a transaction in order.
    in_order: Duration,
    /// The time of a transaction in parallel.
    parallel: Duration,
    gains: bool,
    /// Blocks since the last one that measured from its start.
    age: u32,
    /// How many times in a row it was found out that nothing is gained.
    losses: u32,
}

impl Experience {
    /// Whether transactions take less time in parallel than in order.
    pub const fn gains(&self) -> bool {
        self.gains
    }

    /// Whether the next block has to measure from its start.
    fn is_old(&self) -> bool {
        let most = match self.losses.checked_sub(1) {
            Some(doublings) => DOUBTED.saturating_mul(1 << doublings.min(8)).min(RELEARN),
            None => RELEARN,
        };
        self.age >= most
    }
}

/// How far the block is after a transaction was committed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    /// The transactions that are left.
    pub(crate) left: u32,
    /// The committed transactions that were executed ahead of their turn, at least in part.
    pub(crate) ahead: u64,
    /// How many of the next transactions may be executed ahead already.
    pub(crate) begun: u32,
}

/// See the top of the file.
#[derive(Debug)]
pub(crate) struct Pace {
    phase: Phase,
    /// The transactions of the phase, and how many of them are left.
    length: u32,
    left: u32,
    since: Instant,
    /// The times of the parts of the phase that are over, and when the last of them ended.
    parts: Vec<Duration>,
    part_since: Instant,
    /// The last measured times of a transaction in order and in parallel.
    in_order: Duration,
    parallel: Duration,
    /// The time that handing over the changes took last, per transaction executed in order.
    handing_over: Duration,
    /// Transactions executed in order whose changes are not published yet.
    unknown: u32,
    /// Transactions in parallel since the last check, and after how many of them the next one is due.
    unchecked: u32,
    check_after: u32,
    /// The time of a transaction in parallel before the last check.
    checked: Duration,
    /// When the current transaction began on the block, in a parallel phase.
    beside_since: Option<Instant>,
    /// The times of the phase's transactions on the block beside other threads.
    beside: Vec<Duration>,
    /// The middle one of these times before the check that is in progress, if it is known.
    beside_before: Option<Duration>,
    /// The time of a transaction beside other threads, in percent of its time in order, as of the last check.
    beside_percent: Option<u32>,
    /// Trials since parallel execution was faster, and measurements that found transactions too short for one.
    trials: u32,
    /// Whether the trial may begin again if none of its first transactions was of use: other threads may not run yet.
    warm_again: bool,
    /// How many transactions had been executed ahead and committed when the phase began.
    ahead: u64,
    /// Whether parallel execution was faster in the last comparison that decided.
    gains: Option<bool>,
    /// Whether the time in order, which is that of the block before, is far above what transactions take now.
    outdated: bool,
    /// Whether the last comparison, or the block before, gained. Then one slower comparison is no reason to stop.
    gained: bool,
    /// Blocks since the last one that measured from its start; 0 in such a block.
    age: u32,
    losses: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Settle,
    Probe,
    Warm,
    Parallel,
    /// In order, after the transactions that were already executed ahead. These do not count.
    Drain,
    Check,
    Rest,
    /// In parallel to the end, whatever time it takes.
    Always,
    /// In order, to the end.
    Never,
}

impl Pace {
    /// Returns the pace of a block that measures. `before` is the experience of the block before.
    pub(crate) fn adaptive(transactions: u32, before: Option<Experience>) -> Self {
        match before {
            _ if transactions < SMALL => Self::begin(Phase::Never, 0),
            Some(before) if !before.is_old() => Self::after(before, transactions),
            _ => Self {
                losses: before.map_or(0, |before| before.losses),
                ..Self::begin(Phase::Settle, SETTLE)
            },
        }
    }

    fn after(before: Experience, transactions: u32) -> Self {
        let Experience {
            in_order, parallel, ..
        } = before;
        let rest = transactions.saturating_sub(REST);
        let (phase, left) = if in_order.saturating_mul(transactions) < LITTLE {
            (Phase::Never, 0)
        } else if before.gains {
            // A small block compares, too.
            (Phase::Parallel, (WARM + TRIAL).min(transactions / 2))
        } else if is_worth(lost_in_trial(parallel, in_order), in_order, rest) {
            (Phase::Rest, REST)
        } else {
            (Phase::Never, 0)
        };
        Self {
            in_order,
            parallel,
            check_after: UNCHECKED,
            checked: parallel,
            trials: 1,
            gains: Some(before.gains),
            gained: before.gains,
            age: before.age + 1,
            losses: before.losses,
            ..Self::begin(phase, left)
        }
    }

    /// Returns what the block found out, or what the block before it did. `None` if neither compared anything.
    pub(crate) fn experience(&self) -> Option<Experience> {
        let gains = self.gains?;
        // The last comparison was slower, or the time in order may have changed since it was measured.
        let cheaper = self.parallel < self.checked.saturating_mul(CHEAPER_PERCENT) / 100;
        let is_doubted = gains && (!self.gained || cheaper || self.outdated);
        Some(Experience {
            in_order: self.in_order,
            parallel: self.parallel,
            gains,
            age: if is_doubted { RELEARN } else { self.age },
            losses: match self.gains {
                Some(false) if self.age == 0 => self.losses.saturating_add(1),
                Some(false) => self.losses.max(1),
                _ => 0,
            },
        })
    }

    pub(crate) fn always() -> Self {
        Self::begin(Phase::Always, 0)
    }

    pub(crate) fn never() -> Self {
        Self::begin(Phase::Never, 0)
    }

    fn begin(phase: Phase, length: u32) -> Self {
        let now = Instant::now();
        Self {
            phase,
            length,
            left: length,
            since: now,
            parts: Vec::new(),
            part_since: now,
            in_order: Duration::MAX,
            parallel: Duration::MAX,
            handing_over: Duration::ZERO,
            unknown: 0,
            unchecked: 0,
            check_after: TRIAL,
            checked: Duration::ZERO,
            beside_since: None,
            beside: Vec::new(),
            beside_before: None,
            beside_percent: None,
            trials: 0,
            warm_again: false,
            ahead: 0,
            gains: None,
            outdated: false,
            gained: false,
            age: 0,
            losses: 0,
        }
    }

    pub(crate) fn is_parallel(&self) -> bool {
        matches!(self.phase, Phase::Warm | Phase::Parallel | Phase::Always)
    }

    /// Whether the block is parallel or may still become so.
    pub(crate) fn is_open(&self) -> bool {
        self.phase != Phase::Never
    }

    /// Notes that a transaction begins on the block.
    pub(crate) fn begin_on_block(&mut self) {
        self.begin_on_block_at(Instant::now);
    }

    fn begin_on_block_at(&mut self, now: impl FnOnce() -> Instant) {
        self.beside_since = (self.phase == Phase::Parallel).then(now);
    }

    /// Notes that a transaction was committed.
    pub(crate) fn committed(&mut self, progress: Progress) {
        if !matches!(self.phase, Phase::Always | Phase::Never) {
            self.committed_at(Instant::now, progress);
        }
    }

    /// Notes that all changes made in order are published, so that the time in parallel begins now.
    pub(crate) fn handed_over(&mut self) {
        if !matches!(self.phase, Phase::Always | Phase::Never) {
            self.handed_over_at(Instant::now());
        }
    }

    /// Notes that the other threads were started, so that the time in parallel begins now.
    pub(crate) fn started(&mut self) {
        let now = Instant::now();
        (self.since, self.part_since) = (now, now);
    }

    fn handed_over_at(&mut self, now: Instant) {
        self.handing_over = (now - self.since) / take(&mut self.unknown).max(1);
        (self.since, self.part_since) = (now, now);
    }

    fn committed_at(&mut self, now: impl FnOnce() -> Instant, progress: Progress) {
        self.left = self.left.saturating_sub(1);
        let done = self.length - self.left;
        if !self.is_parallel() {
            self.unknown = self.unknown.saturating_add(1);
            if self.left > 0 && !done.is_multiple_of(self.part()) {
                // Reading the clock takes a tenth of the time of the shortest transactions.
                return;
            }
        }
        let now = now();
        if let Some(since) = self.beside_since.take() {
            self.beside.push(now - since);
        }
        let taken = now - self.since;
        if done.is_multiple_of(self.part()) {
            self.parts.push(now - self.part_since);
            self.part_since = now;
        }
        let far = self.is_parallel() && taken > self.most(done, progress.left);
        if !far && self.left > 0 {
            return;
        }
        let each = match self.middle_part() {
            Some(part) => part / self.part(),
            None => taken / done.max(1),
        };
        if self.is_parallel() {
            self.parallel = each;
        }
        let (phase, length) = match far {
            true => self.slower(),
            false => self.next(each, progress),
        };
        (self.phase, self.length, self.left) = (phase, length, length);
        (self.since, self.part_since) = (now, now);
        self.parts.clear();
        self.beside.clear();
        self.ahead = progress.ahead;
    }

    /// Returns the most time that a phase in parallel may take, after `done` of its transactions, with `left`
    /// transactions after them in the block.
    fn most(&self, done: u32, left: u32) -> Duration {
        let most = self
            .in_order
            .saturating_mul(self.length.saturating_mul(FAR));
        if self.gains.is_some() {
            return most;
        }
        // Nothing says yet that a trial is worth its time.
        let lost = self.in_order.saturating_mul(left) / FIRST_LOSS;
        most.min(self.in_order.saturating_mul(done).saturating_add(lost))
    }

    /// Returns the number of transactions of a part of the phase.
    fn part(&self) -> u32 {
        (self.length / PARTS).clamp(1, PART)
    }

    fn middle_part(&mut self) -> Option<Duration> {
        self.parts.sort_unstable();
        self.parts.get(self.parts.len() / 2).copied()
    }

    /// Returns the phase that follows one whose transactions took `each`, and its length.
    fn next(&mut self, each: Duration, progress: Progress) -> (Phase, u32) {
        let Progress { left, ahead, begun } = progress;
        match self.phase {
            Phase::Settle => (Phase::Probe, PROBE),
            Phase::Probe => {
                self.in_order = each;
                if each < PERHAPS_SHORT && self.length < LONG_PROBE {
                    return (Phase::Probe, LONG_PROBE);
                }
                // The least time, because nodes that are loaded make only the first parts longer.
                let least = self.parts.first().map_or(each, |part| *part / self.part());
                self.try_parallel(least, left)
            }
            Phase::Rest => {
                self.in_order = each;
                let pays = match self.parallel {
                    // There was no trial yet, because transactions were short. If they still are, there will be none.
                    Duration::MAX => {
                        each < SHORT || is_worth(SHORT.saturating_mul(self.unknown), each, left)
                    }
                    parallel => {
                        let handing_over = self.handing_over.saturating_mul(self.unknown);
                        // A trial that is far slower ends early. That it was so may have been chance.
                        let parallel = parallel.min(each.saturating_mul(FAR));
                        let lost = lost_in_trial(parallel, each).saturating_add(handing_over);
                        is_worth(lost, each, left)
                    }
                };
                match pays {
                    true => self.try_parallel(each, left),
                    false => (Phase::Never, 0),
                }
            }
            Phase::Warm if self.parallel > self.in_order * MUCH_PERCENT / 100 => self.slower(),
            // Executions ahead that are dropped may still help, because they load nodes.
            Phase::Warm if ahead == self.ahead && self.parallel > self.in_order => {
                match take(&mut self.warm_again) {
                    true => (Phase::Warm, WARM),
                    false => self.slower(),
                }
            }
            Phase::Warm => (Phase::Parallel, TRIAL),
            Phase::Parallel => {
                self.unchecked = self.unchecked.saturating_add(self.length);
                // Beside other threads a transaction takes longer than in order, unless it is a repetition, which finds
                // its nodes loaded.
                let beside = self.middle_beside().filter(|_| self.age > 0);
                let is_far_above = |beside| self.in_order > beside * OUTDATED_PERCENT / 100;
                self.outdated |= beside.is_some_and(is_far_above);
                // Near the end, a check would cost more than it could save.
                let saves = left / CHECKED > begun.saturating_add(SETTLE + CHECK);
                let due = self.unchecked >= self.check_after;
                let cheaper = self.parallel < self.checked.saturating_mul(CHEAPER_PERCENT) / 100;
                if saves && (due || cheaper) {
                    self.unchecked = 0;
                    self.checked = self.parallel;
                    if due {
                        let longer = self.check_after.saturating_mul(LONGER_UNCHECKED);
                        self.check_after = longer.max(UNCHECKED);
                    }
                    self.beside_before = self.middle_beside();
                    if !self.surely_gains() {
                        return (Phase::Drain, begun.saturating_add(SETTLE));
                    }
                }
                self.go_on()
            }
            Phase::Drain => (Phase::Check, CHECK),
            Phase::Check => {
                self.in_order = each;
                self.outdated = false;
                self.beside_percent = self.beside_before.map(|beside| {
                    let percent = beside.as_nanos() * 100 / each.as_nanos().max(1);
                    let percent = u32::try_from(percent).unwrap_or(u32::MAX);
                    percent.saturating_add(BESIDE_MARGIN).max(BESIDE_PERCENT)
                });
                self.go_on()
            }
            phase @ (Phase::Always | Phase::Never) => (phase, 0),
        }
    }

    /// Whether the times of transactions on the block show that parallel execution gains. If so, derives the time in
    /// order from them.
    fn surely_gains(&mut self) -> bool {
        let (Some(most), Some(percent)) = (self.beside_before, self.beside_percent) else {
            return false;
        };
        let least = most * 100 / percent;
        let gains = self.is_faster_than(least);
        if gains {
            self.in_order = self.in_order.clamp(least, most);
        }
        gains
    }

    /// Returns the middle time of the phase's transactions on the block, if there are enough.
    fn middle_beside(&mut self) -> Option<Duration> {
        self.beside.sort_unstable();
        let middle = self.beside.get(self.beside.len() / 2).copied();
        middle.filter(|_| self.beside.len() >= FEWEST_BESIDE)
    }

    fn is_faster_than(&self, in_order: Duration) -> bool {
        self.parallel < in_order * GAIN_PERCENT / 100
    }

    /// Continues in parallel if that is faster, or if this is the first slower comparison after a faster one.
    fn go_on(&mut self) -> (Phase, u32) {
        let faster = self.is_faster_than(self.in_order);
        // One slower comparison may be chance.
        let much_slower = self.parallel > self.in_order * MUCH_PERCENT / 100;
        let doubted = take(&mut self.gained) && !much_slower;
        if !faster && !doubted {
            return self.slower();
        }
        if faster {
            self.gains = Some(true);
            self.gained = true;
            self.trials = 0;
        }
        (Phase::Parallel, PERIOD)
    }

    fn slower(&mut self) -> (Phase, u32) {
        self.gains = Some(false);
        self.rest()
    }

    fn rest(&mut self) -> (Phase, u32) {
        if self.trials >= TRIALS {
            return (Phase::Never, 0);
        }
        (Phase::Rest, REST << self.trials.saturating_sub(1))
    }

    /// Begins a trial, unless the transactions left, which take `each` in order, are too few or too short.
    fn try_parallel(&mut self, each: Duration, left: u32) -> (Phase, u32) {
        if left < SMALL || self.in_order.saturating_mul(left) < LITTLE {
            return (Phase::Never, 0);
        }
        self.trials += 1;
        self.warm_again = true;
        match each < SHORT {
            true => self.rest(),
            false => (Phase::Warm, WARM),
        }
    }
}

/// Returns the expected loss of a trial that gains nothing.
fn lost_in_trial(parallel: Duration, in_order: Duration) -> Duration {
    let each = parallel.saturating_sub(in_order).max(parallel / LEAST_LOSS);
    each.saturating_mul(WARM + TRIAL)
}

/// Whether `lost` is a small part of the time that `left` transactions take in order.
fn is_worth(lost: Duration, in_order: Duration, left: u32) -> bool {
    lost.saturating_mul(WORTH) < in_order.saturating_mul(left)
}

#[cfg(all(test, not(any(povmeter_loom, povmeter_shuttle))))]
mod tests;
