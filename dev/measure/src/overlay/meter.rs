//! A meter of one side's time and allocations.

use crate::measure::median;
use povmeter_dev_allocations::Allocated;
use povmeter_dev_runtime::Spent;
use std::hint::black_box;

/// Collects the cost of operations on one side.
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

    /// Returns the result of `work`, and measures its cost. `work` does `operations` operations.
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

    /// Nanoseconds per operation, the median over all calls of [`Self::during`].
    pub(super) fn ns(&mut self) -> f64 {
        median(&mut self.ns)
    }

    /// Allocations per operation.
    pub(super) fn allocations(&self) -> f64 {
        self.calls as f64 / self.operations.max(1) as f64
    }
}
