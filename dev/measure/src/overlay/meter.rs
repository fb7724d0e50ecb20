//! Time and allocations of one side.

use crate::measure::median;
use povmeter_dev_runtime::Spent;
use std::hint::black_box;

/// What a thread has asked of its allocator so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allocated {
    /// How often it allocated or reallocated.
    pub calls: u64,
    /// Bytes it allocated; of a reallocation those that were added.
    pub bytes: u64,
    /// Bytes it allocated and did not free. Below zero where it freed what other threads allocated.
    pub live_bytes: i64,
}

/// Notes what operations cost one side.
pub(super) struct Meter<'a> {
    allocated: &'a dyn Fn() -> Allocated,
    ns: Vec<f64>,
    calls: u64,
    operations: usize,
}

impl<'a> Meter<'a> {
    pub(super) fn new(allocated: &'a dyn Fn() -> Allocated) -> Self {
        Self {
            allocated,
            ns: Vec::new(),
            calls: 0,
            operations: 0,
        }
    }

    /// What `work` returns, which does `operations` of what is measured.
    pub(super) fn during<R>(&mut self, operations: usize, work: impl FnOnce() -> R) -> R {
        let mut spent = Spent::default();
        let before = (self.allocated)();
        let result = black_box(spent.during(work));
        self.calls += (self.allocated)().calls - before.calls;
        self.operations += operations;
        let ns = spent.cpu.as_secs_f64() * 1e9;
        self.ns.push(ns / operations.max(1) as f64);
        result
    }

    /// Nanoseconds of an operation: the median over what was timed together.
    pub(super) fn ns(&mut self) -> f64 {
        median(&mut self.ns)
    }

    /// Allocations of an operation.
    pub(super) fn allocations(&self) -> f64 {
        self.calls as f64 / self.operations.max(1) as f64
    }
}
