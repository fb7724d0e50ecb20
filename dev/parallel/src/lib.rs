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
//! let report = measure(&settings, None, &mut |_, _, _| ())?;
//! assert!(report.same_as_sequential());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | type | what it is |
//! |---|---|
//! | [`Workload`], [`Transfers`] | transactions over accounts, and their executor with a cost per transaction |
//! | [`measure`], [`Settings`], [`Report`], [`Row`], [`Mode`] | blocks, measured |
//! | [`compare_shapes`], [`ShapeRow`], [`Shape`] | the multi-version store beside stores of other shapes |
//! | [`Model`], [`ModelRow`], [`Modelled`] | a model of the scheduler, for more processors than the machine has |
//! | [`Target`], [`Bound`] | what the measured values should be |
//! | [`CountAllocations`] | the counts of a program's allocator, if it counts |

mod measure;
mod model;
mod report;
mod shapes;
mod target;
mod transfers;
mod workload;

pub use measure::{measure, MeasureError, Progress, Settings};
pub use model::{Model, ModelRow, Modelled};
pub use report::{Mode, Report, Row, ShapeRow};
pub use shapes::{compare_shapes, Shape};
pub use target::{Bound, Target};
pub use transfers::Transfers;
pub use workload::{Touched, Workload};

use povmeter_dev_allocations::AllThreads;

/// Calls its argument once, and returns what all threads have allocated in the meantime.
pub type CountAllocations = fn(&mut dyn FnMut()) -> AllThreads;
