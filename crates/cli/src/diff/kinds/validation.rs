//! What is compared of validations.

use crate::{
    diff::{
        kind::Comparable,
        measure::{ALLOCATIONS, PROOF, TIME},
        parts::{facts, numbers, Parts},
    },
    validation::Report,
};
use povmeter_dev_validation::{ValidationReport, ValidationRow};

impl Comparable for Report {
    const HAS_ROWS: bool = true;

    fn parts(&self) -> Result<Parts, serde_json::Error> {
        let Self(ValidationReport {
            rounds,
            stock_blob_bytes,
            ours_blob_bytes,
            rows,
            same_results,
            roles,
        }) = self;
        let mut parts = Parts::default();
        parts.checks(self.named_checks().map(|(name, holds, _)| (name, holds)));
        let mut top = parts.top();
        facts!(top, ""; rounds, same_results, roles);
        numbers!(top, ALLOCATIONS, ""; ours_blob_bytes);
        numbers!(top, ALLOCATIONS.shown(), ""; stock_blob_bytes);
        for row in rows {
            let ValidationRow {
                case,
                accounts,
                blocks: _,
                pov_bytes,
                stock_ms,
                stock_range_ms: _,
                ours_ms,
                ours_range_ms: _,
                ratio,
                with_root_ms,
                stock_pages,
                ours_pages,
            } = row;
            let mut row = parts.row(format!("{case}, {accounts} accounts"));
            numbers!(row, PROOF, ""; pov_bytes);
            // Our processor time divided by that of the stock function, so less is better.
            numbers!(row, TIME, ""; ratio);
            numbers!(row, TIME.shown(), ""; ours_ms, stock_ms, with_root_ms);
            numbers!(row, ALLOCATIONS, ""; ours_pages);
            numbers!(row, ALLOCATIONS.shown(), ""; stock_pages);
        }
        Ok(parts)
    }
}
