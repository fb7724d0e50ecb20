//! What is compared of blocks on several threads.

use crate::{
    diff::{
        kind::Comparable,
        measure::{ALLOCATIONS, TIME},
        parts::{facts, numbers, Parts},
    },
    parallel::Report,
};
use povmeter_dev_parallel::{Report as Measured, Row, Settings, ShapeRow};

impl Comparable for Report {
    const HAS_ROWS: bool = true;

    fn parts(&self) -> Result<Parts, serde_json::Error> {
        // The model and the targets follow from the rows.
        let Measured {
            options,
            cores,
            rows,
            shapes,
            model: _,
            targets: _,
        } = &self.0;
        // The names of the rows contain the others.
        let Settings {
            transactions,
            workloads: _,
            costs_us: _,
            workers: _,
            rounds,
        } = options;
        let mut parts = Parts::default();
        parts.option("transactions", transactions)?;
        parts.checks(self.named_checks().map(|(name, holds, _)| (name, holds)));
        let mut top = parts.top();
        facts!(top, ""; cores, rounds);
        for row in rows {
            let Row {
                workload,
                cost_us,
                workers,
                mode,
                ms,
                bytes,
                allocations,
                executions_per_tx: _,
                validations_per_tx: _,
                same_as_sequential,
            } = row;
            let name = format!("{} {cost_us} us {workers} {}", workload.name(), mode.name());
            let mut row = parts.row(name);
            facts!(row, ""; same_as_sequential);
            // Not judged, because hash tables grow by random secrets, and times depend on the machine.
            numbers!(row, ALLOCATIONS.shown(), ""; bytes, allocations);
            numbers!(row, TIME.shown(), ""; ms);
        }
        for row in shapes {
            let ShapeRow {
                workload,
                shape,
                ms,
                bytes,
                allocations,
            } = row;
            let mut row = parts.row(format!("{} store {}", workload.name(), shape.name()));
            numbers!(row, ALLOCATIONS.shown(), ""; bytes, allocations);
            numbers!(row, TIME.shown(), ""; ms);
        }
        Ok(parts)
    }
}
