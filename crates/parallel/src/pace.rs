//! When a block is executed in parallel, and when in order.
//!
//! ```text
//! probe:     the first 32 transactions in order: time per transaction in order, of the last 16; 96 more if that is
//!            below 8 us
//! below 2 us? in order: measured again after 512 transactions, 1,024, 2,048; then to the end
//! trial:     96 transactions in parallel, after 32 that do not count
//! check:     32 transactions in order, after those that were already executed ahead: time in order, once more, of the
//!            last 16; none but the first where transactions on the block took much longer than one did in parallel
//! faster?    on, and compare again every 256 transactions; check again after 512, 2,048, 8,192, ... of them, or where
//!            they have become an eighth faster
//! far slower, at any time; much slower; slower twice, or in the trial; or the first 32 much slower; or the first 64
//! slower, and none of them of use ahead:
//!            512 transactions in order; then another trial, if what is left is worth it; after the second in a row
//!            1,024; after the third in order to the end
//! ```
//! So a block in which nothing can be gained loses a few trials, and one that gains goes on after a time in which
//! something else had its cores. Transactions that take less than 2 us take no less in parallel, so they are not tried;
//! but the first ones of a block take longer, as they load nodes.
//!
//! A block that knows what the one before it found out begins as that one ended: in parallel, and compares after 128
//! transactions; or in order, for as long as another trial is not worth it. After sixteen such blocks one begins from the
//! start; sooner if it is not long known that nothing is gained.
//!
//! The time of a transaction is that of the middle one of a phase's parts, because a part in which a table grows, in
//! which a thread wakes, or in which something else has the core, says nothing about the rest. Checks are there because
//! the first transactions of a block load what later ones find in memory: those that only read and write some accounts
//! take a tenth of the time later. Where transactions become cheaper in order, they do in parallel, too, if not as much. So
//! checks at any other time are rare: threads have to stop and start again, so one takes 0.6 ms of a block of 105, whose
//! transactions take 10 us on two threads. In parallel, too, the committer executes some transactions on the block. Beside
//! other threads these take longer than in order, and a check finds out how much. If what is left without that is still more
//! than one takes in parallel, that gains, and nothing has to stop for the next check.
//! Time decides only which way is taken; results are the same.

use std::{
    mem::take,
    time::{Duration, Instant},
};

/// Transactions in order before those whose time counts, which find in memory what they need, as later ones will.
const SETTLE: u32 = 16;
const PROBE: u32 = 16;
/// Another probe, of transactions that took less than [`PERHAPS_SHORT`] in the first one: they may have loaded nodes that later
/// ones find in memory, and in parallel they gain little.
const LONG_PROBE: u32 = 96;
const PERHAPS_SHORT: Duration = Duration::from_micros(8);
/// Shorter transactions gain nothing: on two threads those that cost nothing but reads and writes of 100 accounts are
/// faster from 2 to 3 us on, and to commit one that was executed ahead takes one thread half of that.
const SHORT: Duration = Duration::from_micros(2);
const WARM: u32 = 32;
const TRIAL: u32 = 96;
const CHECK: u32 = 16;
/// A check is worth its transactions in order if so many times as many follow.
const CHECKED: u32 = 8;
/// The most transactions of a part of a phase; see [`Pace::parts`].
const PART: u32 = 32;
/// The fewest parts of a phase.
const PARTS: u32 = 4;
/// Transactions in parallel from the first check, which is at the end of the trial, to the second; then four times as many
/// each time.
const UNCHECKED: u32 = 512;
const LONGER_UNCHECKED: u32 = 4;
/// A check is due sooner where transactions in parallel take less than this part of their time before the last check, in
/// percent.
const CHEAPER_PERCENT: u32 = 88;
/// On the block, while other threads work, a transaction is taken to need at least this part of its time in order, in
/// percent. A fifth more was measured with two threads and transactions that compute; more where they mostly wait for memory.
const BESIDE_PERCENT: u32 = 125;
/// Added to what a check finds out, in percent of the time in order.
const BESIDE_MARGIN: u32 = 10;
/// Fewer transactions on the block say nothing.
const FEWEST_BESIDE: usize = 8;
const PERIOD: u32 = 256;
/// Transactions in order after the first trial that gained nothing; then twice as many each time.
const REST: u32 = 512;
/// Most such trials, one after the other.
const TRIALS: u32 = 3;
/// Fewer transactions are not worth a thread.
const SMALL: u32 = 64;
/// Nor is less work in all.
const LITTLE: Duration = Duration::from_micros(300);
/// In parallel has to take less than this part of the time in order, in percent.
const GAIN_PERCENT: u32 = 97;
/// Transactions in parallel end as soon as they have taken so many times the time of all of them in order: on a
/// machine whose cores are busy with something else, each may wait for a thread that waits for its core.
const FAR: u32 = 2;
/// A trial ends early if it takes more than this part of the time in order, in percent.
const MUCH_PERCENT: u32 = 125;
/// There is another trial only if what is left would take at least so many times as long, in order, as one like the
/// last trial would lose.
const WORTH: u32 = 32;
/// The least that a trial is taken to lose, as a part of its time: that the last one lost less may be chance.
const LEAST_LOSS: u32 = 4;

/// Most blocks from one that measures from its start to the next.
const RELEARN: u32 = 16;
/// The same after the first such block that gained nothing, as chance may have decided; then twice as many each time.
const DOUBTED: u32 = 2;

/// What a block found out about how fast its transactions are executed, for the block after it:
/// [`Parallel::with_experience`](crate::Parallel::with_experience). Only times, so it changes no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Experience {
    /// Time of a transaction in order.
    in_order: Duration,
    /// Time of a transaction in parallel.
    parallel: Duration,
    gains: bool,
    /// Blocks since one measured from its start.
    age: u32,
    /// How often in a row nothing was gained.
    losses: u32,
}

impl Experience {
    /// Whether transactions take less time in parallel than in order.
    pub const fn gains(&self) -> bool {
        self.gains
    }

    /// Whether a block has to measure from its start.
    fn is_old(&self) -> bool {
        let most = match self.losses.checked_sub(1) {
            Some(doublings) => DOUBTED.saturating_mul(1 << doublings.min(8)).min(RELEARN),
            None => RELEARN,
        };
        self.age >= most
    }
}

/// See the top of the file.
#[derive(Debug)]
pub(crate) struct Pace {
    phase: Phase,
    /// How many transactions the phase has, and how many of them are left.
    length: u32,
    left: u32,
    since: Instant,
    /// What the parts of the phase took that are over, and when the last one ended.
    parts: Vec<Duration>,
    part_since: Instant,
    /// Transactions that may be executed ahead when a phase in order begins.
    window: u32,
    /// Time of a transaction in order, and in parallel, when each was measured last.
    in_order: Duration,
    parallel: Duration,
    /// What it took last to hand over what one transaction in order had changed.
    handing_over: Duration,
    /// Transactions in order that the other threads do not know yet.
    unknown: u32,
    /// Transactions executed in parallel since the last check, and how many of them bring the next one.
    unchecked: u32,
    check_after: u32,
    /// Time of a transaction in parallel before the last check.
    checked: Duration,
    /// When the current transaction was begun on the block, in parallel.
    beside_since: Option<Instant>,
    /// What transactions of the phase took on the block beside other threads.
    beside: Vec<Duration>,
    /// What one of them took before the check that is in progress, if it is known.
    beside_before: Option<Duration>,
    /// What one takes there of its time in order, in percent, as the last check has found.
    beside_percent: Option<u32>,
    /// Trials since transactions in parallel were faster, or times at which transactions were too short for one.
    trials: u32,
    /// None of the first transactions of a trial may be of use ahead once: other threads may not run yet.
    warm_again: bool,
    /// How many were executed ahead and committed, when the phase began.
    ahead: u64,
    /// Whether transactions in parallel were faster when both were compared last.
    gains: Option<bool>,
    /// They gained in the last comparison, or the block before gained; nothing speaks against it yet.
    gained: bool,
    /// Blocks since one measured from its start; 0 in such a block.
    age: u32,
    losses: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Settle,
    Probe,
    Warm,
    Parallel,
    /// In order, but for what is executed already; then in order.
    Drain,
    Check,
    Rest,
    /// In parallel, whatever it takes.
    Always,
    /// In order, to the end.
    Never,
}

impl Pace {
    /// At most `window` transactions are executed ahead at a time. `before` is what the block before found out.
    pub(crate) fn adaptive(transactions: u32, window: u32, before: Option<Experience>) -> Self {
        let pace = match before {
            _ if transactions < SMALL => Self::begin(Phase::Never, 0),
            Some(before) if !before.is_old() => Self::after(before, transactions),
            _ => Self {
                losses: before.map_or(0, |before| before.losses),
                ..Self::begin(Phase::Settle, SETTLE)
            },
        };
        Self { window, ..pace }
    }

    fn after(before: Experience, transactions: u32) -> Self {
        let Experience {
            in_order, parallel, ..
        } = before;
        let rest = transactions.saturating_sub(REST);
        let (phase, left) = if before.gains {
            (Phase::Parallel, WARM + TRIAL)
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

    /// What the block found out, or the block before it. `None` if neither compared anything.
    pub(crate) fn experience(&self) -> Option<Experience> {
        Some(Experience {
            in_order: self.in_order,
            parallel: self.parallel,
            gains: self.gains?,
            age: self.age,
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
            window: 0,
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
            gained: false,
            age: 0,
            losses: 0,
        }
    }

    pub(crate) fn is_parallel(&self) -> bool {
        matches!(self.phase, Phase::Warm | Phase::Parallel | Phase::Always)
    }

    /// Whether it may still become parallel.
    pub(crate) fn is_open(&self) -> bool {
        self.phase != Phase::Never
    }

    /// A transaction is begun on the block.
    pub(crate) fn begin_on_block(&mut self) {
        self.begin_on_block_at(Instant::now);
    }

    fn begin_on_block_at(&mut self, now: impl FnOnce() -> Instant) {
        self.beside_since = (self.phase == Phase::Parallel).then(now);
    }

    /// A transaction was committed, and `left` are left. So far `ahead` were executed ahead, at
    /// least in part, and committed.
    pub(crate) fn committed(&mut self, left: u32, ahead: u64) {
        if !matches!(self.phase, Phase::Always | Phase::Never) {
            self.committed_at(Instant::now, left, ahead);
        }
    }

    /// All that was changed in order was handed to the other threads, so that transactions in parallel begin now.
    pub(crate) fn handed_over(&mut self) {
        if !matches!(self.phase, Phase::Always | Phase::Never) {
            self.handed_over_at(Instant::now());
        }
    }

    /// The other threads were started, so that transactions in parallel begin now.
    pub(crate) fn started(&mut self) {
        let now = Instant::now();
        (self.since, self.part_since) = (now, now);
    }

    fn handed_over_at(&mut self, now: Instant) {
        self.handing_over = (now - self.since) / take(&mut self.unknown).max(1);
        (self.since, self.part_since) = (now, now);
    }

    fn committed_at(&mut self, now: impl FnOnce() -> Instant, left: u32, ahead: u64) {
        self.left = self.left.saturating_sub(1);
        let done = self.length - self.left;
        if !self.is_parallel() {
            self.unknown = self.unknown.saturating_add(1);
            if self.left > 0 && !done.is_multiple_of(self.part()) {
                // To look at the clock takes a tenth of the shortest transactions.
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
        let in_order = self.in_order.saturating_mul(self.length);
        let far = self.is_parallel() && taken > in_order.saturating_mul(FAR);
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
            false => self.next(each, left, ahead),
        };
        (self.phase, self.length, self.left) = (phase, length, length);
        (self.since, self.part_since) = (now, now);
        self.parts.clear();
        self.beside.clear();
        self.ahead = ahead;
    }

    /// Transactions of a part of the phase.
    fn part(&self) -> u32 {
        (self.length / PARTS).clamp(1, PART)
    }

    fn middle_part(&mut self) -> Option<Duration> {
        self.parts.sort_unstable();
        self.parts.get(self.parts.len() / 2).copied()
    }

    /// The phase after one whose transactions took `each`, and its length.
    fn next(&mut self, each: Duration, left: u32, ahead: u64) -> (Phase, u32) {
        match self.phase {
            Phase::Settle => (Phase::Probe, PROBE),
            Phase::Probe => {
                self.in_order = each;
                if each < PERHAPS_SHORT && self.length < LONG_PROBE {
                    return (Phase::Probe, LONG_PROBE);
                }
                // What is loaded only makes the first parts longer.
                let least = self.parts.first().map_or(each, |part| *part / self.part());
                self.try_parallel(least, left)
            }
            Phase::Rest => {
                self.in_order = each;
                let pays = match self.parallel {
                    // Nothing was tried yet, because they were short. If they still are, there will be no trial.
                    Duration::MAX => {
                        each < SHORT || is_worth(SHORT.saturating_mul(self.unknown), each, left)
                    }
                    parallel => {
                        let handing_over = self.handing_over.saturating_mul(self.unknown);
                        // It ends when it is far slower, which may have been chance.
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
            // Executions ahead that are dropped may still help, as they load nodes.
            Phase::Warm if ahead == self.ahead && self.parallel > self.in_order => {
                match take(&mut self.warm_again) {
                    true => (Phase::Warm, WARM),
                    false => self.slower(),
                }
            }
            Phase::Warm => (Phase::Parallel, TRIAL),
            Phase::Parallel => {
                self.unchecked = self.unchecked.saturating_add(self.length);
                // A check of the last transactions would cost more than it could save.
                let saves = left / CHECKED > self.window.saturating_add(SETTLE + CHECK);
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
                        return (Phase::Drain, self.window.saturating_add(SETTLE));
                    }
                }
                self.go_on()
            }
            Phase::Drain => (Phase::Check, CHECK),
            Phase::Check => {
                self.in_order = each;
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

    /// Whether transactions in parallel take less time than in order, as far as those on the block tell. Then the time in
    /// order is what they say.
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

    /// What a transaction of the phase took on the block, if enough were executed there.
    fn middle_beside(&mut self) -> Option<Duration> {
        self.beside.sort_unstable();
        let middle = self.beside.get(self.beside.len() / 2).copied();
        middle.filter(|_| self.beside.len() >= FEWEST_BESIDE)
    }

    fn is_faster_than(&self, in_order: Duration) -> bool {
        self.parallel < in_order * GAIN_PERCENT / 100
    }

    /// In parallel, if that is faster.
    fn go_on(&mut self) -> (Phase, u32) {
        let faster = self.is_faster_than(self.in_order);
        // Once may be chance.
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

    /// In parallel, unless the transactions that are left, which will take `each` in order, are too few or too short.
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

/// What a trial loses, if it gains nothing.
fn lost_in_trial(parallel: Duration, in_order: Duration) -> Duration {
    let each = parallel.saturating_sub(in_order).max(parallel / LEAST_LOSS);
    each.saturating_mul(WARM + TRIAL)
}

/// Whether what is `lost` is a small part of what `left` transactions take in order.
fn is_worth(lost: Duration, in_order: Duration, left: u32) -> bool {
    lost.saturating_mul(WORTH) < in_order.saturating_mul(left)
}

#[cfg(all(test, not(any(povmeter_loom, povmeter_shuttle))))]
mod tests;
