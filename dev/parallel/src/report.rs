//! What was measured.

use crate::{ModelRow, Settings, Shape, Target, Workload};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a block is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// On a plain block, one transaction after the other. The other modes are compared with this.
    Sequential,
    /// By povmeter-parallel, in parallel only while that is faster. This is the default of the crate.
    Adaptive,
    /// By povmeter-parallel, always in parallel. The committer also executes transactions on the block.
    Always,
    /// By povmeter-parallel, with each transaction executed ahead of its turn, also with one worker.
    EachAhead,
}

impl Mode {
    /// The name, as in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sequential => "sequential",
            Self::Adaptive => "adaptive",
            Self::Always => "always",
            Self::EachAhead => "each-ahead",
        }
    }
}

/// The cost of a block, executed in one mode.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Row {
    /// The workload.
    pub workload: Workload,
    /// The computing time of a transaction, in microseconds of one processor.
    pub cost_us: u32,
    /// The number of threads.
    pub workers: u32,
    /// How the block is executed.
    pub mode: Mode,
    /// Wall-clock time of the block in milliseconds, without its seal: the median of the rounds.
    pub ms: f64,
    /// Bytes allocated for the block, including those freed. 0 if they are not counted.
    pub bytes: u64,
    /// Number of allocations. 0 if they are not counted.
    pub allocations: u64,
    /// Executions of a transaction, on average, including those that stopped before their end.
    pub executions_per_tx: f64,
    /// Comparisons of a transaction's reads before its turn, on average.
    pub validations_per_tx: f64,
    /// Whether root and proof size of each round are those of the plain block.
    pub same_as_sequential: bool,
}

/// The cost of a multi-version store alone: reads and writes of one thread, without execution or commits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ShapeRow {
    /// The workload.
    pub workload: Workload,
    /// The kind of store.
    pub shape: Shape,
    /// Wall-clock time of all transactions in milliseconds: the median of the rounds.
    pub ms: f64,
    /// Bytes allocated for them, including those freed. 0 if they are not counted.
    pub bytes: u64,
    /// Number of allocations. 0 if they are not counted.
    pub allocations: u64,
}

/// Blocks on several threads, multi-version stores alone, and a model of the scheduler.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// The settings of the measurement.
    pub options: Settings,
    /// The number of processors that the program may use.
    pub cores: u32,
    /// The measured blocks.
    pub rows: Vec<Row>,
    /// The measured multi-version stores.
    pub shapes: Vec<ShapeRow>,
    /// Curves by a model of the scheduler, computed from the costs in the rows. These are not measurements.
    pub model: Vec<ModelRow>,
    /// Measured values beside their limits.
    pub targets: Vec<Target>,
}

impl Report {
    /// The row of a workload, if it was measured.
    pub fn row(&self, workload: Workload, cost_us: u32, workers: u32, mode: Mode) -> Option<&Row> {
        let wanted = (workload, cost_us, workers, mode);
        let of = |row: &&Row| (row.workload, row.cost_us, row.workers, row.mode) == wanted;
        self.rows.iter().find(of)
    }

    /// The row of a store, if it was measured.
    pub fn shape(&self, workload: Workload, shape: Shape) -> Option<&ShapeRow> {
        let wanted = |row: &&ShapeRow| (row.workload, row.shape) == (workload, shape);
        self.shapes.iter().find(wanted)
    }

    /// How many times as fast as the plain block `row` is.
    pub fn speedup(&self, row: &Row) -> Option<f64> {
        let plain = self.row(row.workload, row.cost_us, 1, Mode::Sequential)?;
        Some(plain.ms / row.ms)
    }

    /// Whether every block has the root and the proof size of the plain block.
    pub fn same_as_sequential(&self) -> bool {
        self.rows.iter().all(|row| row.same_as_sequential)
    }
}
