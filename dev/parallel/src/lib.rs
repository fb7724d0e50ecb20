//! What blocks on several threads cost.
//!
//! ```
//! use povmeter_dev_parallel::{measure, Settings, Workload};
//!
//! let settings = Settings {
//!     transactions: 60,
//!     workloads: vec![Workload::Random100],
//!     costs_us: vec![0],
//!     workers: vec![1, 2],
//!     rounds: 1,
//! };
//! let report = measure(&settings, None)?;
//! assert!(report.rows.iter().all(|row| row.same_as_sequential));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | type | what it is |
//! |---|---|
//! | [`Workload`], [`Transfers`] | transactions over accounts, and their executor with a cost per transaction |
//! | [`measure`], [`Settings`], [`Report`], [`Row`], [`Mode`] | blocks, measured |
//! | [`compare_shapes`], [`ShapeRow`], [`Shape`] | the multi-version store beside stores of other shapes |
//! | [`Model`], [`Modelled`] | a model of the scheduler, for more processors than the machine has |
//! | [`Allocated`], [`CountAllocations`] | what a program's allocator counts, if it does |

mod measure;
mod model;
mod report;
mod shapes;
mod transfers;
mod workload;

pub use measure::{measure, MeasureError, Settings};
pub use model::{Model, Modelled};
pub use report::{Mode, Report, Row, ShapeRow};
pub use shapes::{compare_shapes, Shape};
pub use transfers::Transfers;
pub use workload::{Touched, Workload};

/// What a program has allocated since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allocated {
    /// Bytes of all allocations, freed ones included.
    pub bytes: u64,
    /// How many allocations there were.
    pub allocations: u64,
}

/// Returns what was allocated so far.
pub type CountAllocations = fn() -> Allocated;
