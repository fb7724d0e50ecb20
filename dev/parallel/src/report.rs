//! What was measured.

use crate::{ModelRow, Settings, Shape, Target, Workload};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a block is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// On a plain block, one transaction after the other.
    Sequential,
    /// By povmeter-parallel, in parallel while that is faster.
    Adaptive,
    /// By povmeter-parallel, always in parallel.
    Always,
    /// As `always`, with each transaction executed ahead of its turn: also with one worker.
    EachAhead,
}

impl Mode {
    /// Its name, as in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sequential => "sequential",
            Self::Adaptive => "adaptive",
            Self::Always => "always",
            Self::EachAhead => "each-ahead",
        }
    }
}

/// One kind of block, executed in one way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Row {
    /// What the transactions do.
    pub workload: Workload,
    /// What each computes besides, in microseconds of one processor.
    pub cost_us: u32,
    /// How many threads.
    pub workers: u32,
    /// How the block is executed.
    pub mode: Mode,
    /// Milliseconds of the block on the wall, without its seal: the median of the rounds.
    pub ms: f64,
    /// Bytes allocated for the block, freed ones included. 0 if nothing counts them.
    pub bytes: u64,
    /// How often memory was allocated. 0 if nothing counts it.
    pub allocations: u64,
    /// Executions of a transaction, those halted included, on average.
    pub executions_per_tx: f64,
    /// Comparisons of a transaction's reads before its turn, on average.
    pub validations_per_tx: f64,
    /// Whether root and proof size of each round are those of the plain block.
    pub same_as_sequential: bool,
}

/// Reads and writes of one thread on one multi-version store, without anything else.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ShapeRow {
    /// What the transactions do.
    pub workload: Workload,
    /// The store.
    pub shape: Shape,
    /// Milliseconds of all transactions on the wall: the median of the rounds.
    pub ms: f64,
    /// Bytes allocated for them, freed ones included. 0 if nothing counts them.
    pub bytes: u64,
    /// How often memory was allocated. 0 if nothing counts it.
    pub allocations: u64,
}

/// Blocks on several threads, multi-version stores alone, and a model of the scheduler.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// What was measured.
    pub options: Settings,
    /// Processors of the machine that the program may use.
    pub cores: u32,
    /// Blocks.
    pub rows: Vec<Row>,
    /// Multi-version stores alone.
    pub shapes: Vec<ShapeRow>,
    /// A model of the scheduler, fed with costs from the rows: no measurement.
    pub model: Vec<ModelRow>,
    /// What some of the values should be.
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
