//! The calls of a runtime to its host.

use sp_core::storage::StateVersion;
use std::{
    fmt,
    time::{Duration, Instant},
};

/// Number of differences that are kept in full; further ones are only counted.
const KEPT: usize = 8;

/// Counts of the calls of a runtime to its host, and the differences between both sides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// Calls that read a value, a hash, the existence of a key, or the next key.
    pub reads: u64,
    /// Calls that set or delete a value, append an element, or remove a prefix.
    pub writes: u64,
    /// Questions for the proof size.
    pub sizes: u64,
    /// All calls: reads, writes, sizes, transactions, roots and others.
    pub all: u64,
    /// The time spent in calls of our side, if they are timed; includes the cost of the clock, see
    /// [`clock_cost`].
    pub time: Duration,
    /// The processor time of the thread in roots of the top trie, on both sides, if calls are
    /// timed.
    pub root_time: Duration,
    /// State version of the last root computation.
    pub root_version: Option<StateVersion>,
    /// Number of results that differ between both sides.
    pub differences: u64,
    /// The first differences, at most 8.
    pub first: Vec<Difference>,
}

/// A call with different results on two state machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Number of the call; the first one is 1.
    pub at: u64,
    /// The call.
    pub call: String,
    /// The peer's result.
    pub expected: String,
    /// Our result.
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
    /// Notes a result that differs from the peer's.
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

/// Measures the cost of timing one call.
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
