//! What the measured values should be.
//!
//! A target that is missed is no error: times depend on the machine and on what else it does.

use crate::{Mode, Report, Shape, Workload};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A measured value beside its limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Target {
    /// The name of the value.
    pub name: String,
    /// The workload on which it was measured.
    pub workload: Workload,
    /// The measured value.
    pub found: f64,
    /// On which side of the limit the value should be.
    pub bound: Bound,
    /// The limit.
    pub limit: f64,
    /// Whether the value is on that side.
    pub met: bool,
}

/// The side of its limit on which a value should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// At the limit or below it.
    AtMost,
    /// At the limit or above it.
    AtLeast,
}

use Workload::{Iterate, NoConflict, Random100, Random10000, Worst};

/// The most bytes of our store alone, divided by those of a tree for each key, which has two forms.
const STORE_BYTES: [(Workload, f64); 5] = [
    (Random100, 0.36),
    (Random10000, 0.36),
    (Worst, 0.28),
    (Iterate, 0.49),
    (NoConflict, 0.94),
];

/// The most bytes and allocations of a transaction beyond those of a plain block: those of the best
/// published implementation of the scheme.
const EXTRA: [(Workload, f64, f64); 5] = [
    (Random100, 2_298.0, 29.0),
    (Random10000, 2_298.0, 29.0),
    (NoConflict, 6_692.0, 85.0),
    (Worst, 2_143.0, 27.0),
    (Iterate, 5_679.0, 53.0),
];

/// The workloads on which the cost of threads has a limit.
const ONE_THREAD: [Workload; 3] = [Random100, Random10000, Iterate];

impl Report {
    /// The targets whose rows were measured.
    pub(crate) fn evaluate(&self) -> Vec<Target> {
        let mut targets = Vec::new();
        let mut add = |name: &str, workload, found: Option<f64>, bound, limit| {
            let Some(found) = found.filter(|found| found.is_finite()) else {
                return;
            };
            let met = match bound {
                Bound::AtMost => found <= limit,
                Bound::AtLeast => found >= limit,
            };
            targets.push(Target {
                name: name.to_owned(),
                workload,
                found,
                bound,
                limit,
                met,
            });
        };
        let most = Bound::AtMost;
        for (workload, limit) in STORE_BYTES {
            let found = |shape| self.store_bytes(workload, shape);
            let name = "bytes of the store, of a padded tree per key";
            add(name, workload, found(Shape::PaddedTreePerKey), most, limit);
            let name = "bytes of the store, of a tree per key";
            add(name, workload, found(Shape::TreePerKey), most, limit);
        }
        for (workload, bytes, allocations) in EXTRA {
            let extra = self.extra(workload).unzip();
            let name = "extra bytes per transaction, one worker, 0 us";
            add(name, workload, extra.0, most, bytes);
            let name = "extra allocations per transaction, one worker, 0 us";
            add(name, workload, extra.1, most, allocations);
        }
        for workload in ONE_THREAD {
            let one_worker = |mode| self.one_worker(workload, mode);
            let name = "time of one worker, of sequential, 0 us";
            add(name, workload, one_worker(Mode::Adaptive), most, 3.0);
            let name = "time of one worker that executes each ahead, of sequential, 0 us";
            add(name, workload, one_worker(Mode::EachAhead), most, 3.0);
            let name = "time of 10 workers, of one that executes each ahead, 0 us";
            add(name, workload, self.ten_workers(workload), most, 1.7);
        }
        let name = "times as fast as sequential, 2 workers, 10 us";
        for (workload, limit) in [(NoConflict, 1.7), (Worst, 0.9)] {
            let found = self.row(workload, 10, 2, Mode::Adaptive);
            let found = found.and_then(|row| self.speedup(row));
            add(name, workload, found, Bound::AtLeast, limit);
        }
        targets
    }

    /// Bytes of our store, divided by those of `shape`.
    fn store_bytes(&self, workload: Workload, shape: Shape) -> Option<f64> {
        let bytes = |shape| self.shape(workload, shape).map(|row| number(row.bytes));
        Some(bytes(Shape::Writers)? / bytes(shape)?)
    }

    /// Bytes and allocations of a transaction beyond those of a plain block, if they were counted.
    fn extra(&self, workload: Workload) -> Option<(f64, f64)> {
        let plain = self.row(workload, 0, 1, Mode::Sequential)?;
        let ahead = self.row(workload, 0, 1, Mode::EachAhead)?;
        let transactions = f64::from(self.options.transactions.max(1));
        let extra = |of, than| (number(of) - number(than)) / transactions;
        let both = (
            extra(ahead.bytes, plain.bytes),
            extra(ahead.allocations, plain.allocations),
        );
        (plain.allocations > 0).then_some(both)
    }

    fn one_worker(&self, workload: Workload, mode: Mode) -> Option<f64> {
        let row = self.row(workload, 0, 1, mode)?;
        self.speedup(row).map(|speedup| 1.0 / speedup)
    }

    fn ten_workers(&self, workload: Workload) -> Option<f64> {
        let one = self.row(workload, 0, 1, Mode::EachAhead)?;
        let ten = self.row(workload, 0, 10, Mode::Always)?;
        Some(ten.ms / one.ms)
    }
}

/// A count as a number to divide: exact, because it is below 2^52.
#[allow(clippy::cast_precision_loss)]
pub(crate) fn number(count: u64) -> f64 {
    count as f64
}
