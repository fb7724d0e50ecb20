//! What passed between a runtime and its host.

use sp_core::storage::StateVersion;
use std::{
    fmt,
    time::{Duration, Instant},
};

/// Differences that are kept word for word; of others only their number is.
const KEPT: usize = 8;

/// What passed between a runtime and its host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// Values, hashes, existence and next keys asked for.
    pub reads: u64,
    /// Values set and deleted, elements appended, prefixes removed.
    pub writes: u64,
    /// Questions for the proof size.
    pub sizes: u64,
    /// All calls: these, transactions, roots and others.
    pub all: u64,
    /// Time spent in calls, if that was asked for, the clock's own included; see [`clock_cost`].
    pub time: Duration,
    /// Processor time of the thread in which roots were computed, by all sides, if it was asked for.
    pub root_time: Duration,
    /// State version of the root last asked for.
    pub root_version: Option<StateVersion>,
    /// Results that were not the same on both sides.
    pub differences: u64,
    /// The first of them.
    pub first: Vec<Difference>,
}

/// A call that two state machines answered differently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Which of all calls it was, the first being 1.
    pub at: u64,
    /// The call.
    pub call: String,
    /// The peer's answer.
    pub expected: String,
    /// Ours.
    pub found: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            at,
            call,
            expected,
            found,
        } = self;
        write!(f, "call {at}, {call}: expected {expected}, found {found}")
    }
}

impl Calls {
    /// Notes an answer that is not the peer's.
    pub(super) fn note(&mut self, call: String, expected: &dyn fmt::Debug, found: &dyn fmt::Debug) {
        self.differences += 1;
        if self.first.len() < KEPT {
            self.first.push(Difference {
                at: self.all,
                call,
                expected: format!("{expected:?}"),
                found: format!("{found:?}"),
            });
        }
    }
}

/// What timing one call costs.
pub fn clock_cost() -> Duration {
    const TIMES: u32 = 10_000;
    let started = Instant::now();
    let mut spent = Duration::ZERO;
    for _ in 0..TIMES {
        spent += Instant::now().elapsed();
    }
    std::hint::black_box(spent);
    started.elapsed() / TIMES
}
