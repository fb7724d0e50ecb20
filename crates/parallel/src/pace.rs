//! When a block is executed in parallel, and when in order.
//!
//! ```text
//! probe:     the first 32 transactions in order: time per transaction in order
//! trial:     96 transactions in parallel, after 32 that do not count
//! faster?    on, and compare again every 256 transactions
//! far slower, at any time; slower; or the first 32 much slower, or slower and none of them of use ahead:
//!            512 transactions in order; then a second trial; then in order to the end
//! ```
//! So a block in which nothing can be gained loses a trial or two. Time decides only which way is taken;
//! results are the same.

use std::time::{Duration, Instant};

const PROBE: u32 = 32;
const WARM: u32 = 32;
const TRIAL: u32 = 96;
const PERIOD: u32 = 256;
const REST: u32 = 512;
const TRIALS: u32 = 2;
/// Fewer transactions are not worth a thread.
const SMALL: u32 = 2 * PROBE;
/// Nor is less work in all.
const LITTLE: Duration = Duration::from_micros(300);
/// In parallel has to take less than this part of the time in order, in percent.
const GAIN_PERCENT: u32 = 97;
/// Transactions in parallel end as soon as they have taken so many times the time of all of them in order: on a
/// machine whose cores are busy with something else, each may wait for a thread that waits for its core.
const FAR: u32 = 2;
/// A trial ends early if it takes more than this part of the time in order, in percent.
const MUCH_PERCENT: u32 = 125;

/// See the top of the file.
#[derive(Debug)]
pub(crate) struct Pace {
    phase: Phase,
    left: u32,
    since: Instant,
    in_order: Duration,
    trials: u32,
    /// How many were executed ahead and committed, when the phase began.
    ahead: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Probe,
    Warm,
    Parallel {
        counted: u32,
    },
    Rest,
    /// In parallel, whatever it takes.
    Always,
    /// In order, to the end.
    Never,
}

impl Pace {
    pub(crate) fn adaptive(transactions: u32) -> Self {
        let phase = if transactions < SMALL {
            Phase::Never
        } else {
            Phase::Probe
        };
        Self::begin(phase, PROBE)
    }

    pub(crate) fn always() -> Self {
        Self::begin(Phase::Always, 0)
    }

    pub(crate) fn never() -> Self {
        Self::begin(Phase::Never, 0)
    }

    fn begin(phase: Phase, left: u32) -> Self {
        Self {
            phase,
            left,
            since: Instant::now(),
            in_order: Duration::MAX,
            trials: 0,
            ahead: 0,
        }
    }

    pub(crate) fn is_parallel(&self) -> bool {
        matches!(
            self.phase,
            Phase::Warm | Phase::Parallel { .. } | Phase::Always
        )
    }

    /// Whether it may still become parallel.
    pub(crate) fn is_open(&self) -> bool {
        self.phase != Phase::Never
    }

    /// A transaction was committed, and `left` are left. So far `ahead` were executed ahead, at
    /// least in part, and committed.
    pub(crate) fn committed(&mut self, left: u32, ahead: u64) {
        if matches!(self.phase, Phase::Always | Phase::Never) {
            return;
        }
        self.left = self.left.saturating_sub(1);
        let counted = match self.phase {
            Phase::Warm => WARM,
            Phase::Parallel { counted } => counted,
            _ => 0,
        };
        if counted > 0 && self.since.elapsed() > self.in_order.saturating_mul(counted * FAR) {
            let (phase, length) = self.slower();
            self.begin_phase(phase, length);
        } else if self.left == 0 {
            self.next(left, ahead);
        } else {
            return;
        }
        self.ahead = ahead;
    }

    fn begin_phase(&mut self, phase: Phase, length: u32) {
        (self.phase, self.left, self.since) = (phase, length, Instant::now());
    }

    fn next(&mut self, left: u32, ahead: u64) {
        let now = Instant::now();
        let taken = now - self.since;
        let (phase, length) = match self.phase {
            Phase::Probe => {
                self.in_order = taken / PROBE;
                self.try_parallel(left)
            }
            Phase::Rest => {
                self.in_order = taken / REST;
                self.try_parallel(left)
            }
            // Executions ahead that are dropped may still help, as they load nodes.
            Phase::Warm if ahead == self.ahead && taken / WARM > self.in_order => self.slower(),
            Phase::Warm if taken / WARM > self.in_order * MUCH_PERCENT / 100 => self.slower(),
            Phase::Warm => (Phase::Parallel { counted: TRIAL }, TRIAL),
            Phase::Parallel { counted } => {
                let gained = taken / counted < self.in_order * GAIN_PERCENT / 100;
                match gained {
                    true => (Phase::Parallel { counted: PERIOD }, PERIOD),
                    false => self.slower(),
                }
            }
            phase @ (Phase::Always | Phase::Never) => (phase, 0),
        };
        self.begin_phase(phase, length);
    }

    fn slower(&self) -> (Phase, u32) {
        match self.trials < TRIALS {
            true => (Phase::Rest, REST),
            false => (Phase::Never, 0),
        }
    }

    fn try_parallel(&mut self, left: u32) -> (Phase, u32) {
        if left < SMALL || self.in_order.saturating_mul(left) < LITTLE {
            return (Phase::Never, 0);
        }
        self.trials += 1;
        (Phase::Warm, WARM)
    }
}
