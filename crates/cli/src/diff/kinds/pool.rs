//! What is compared of blocks that reuse memory.

use crate::{
    diff::{
        kind::Comparable,
        measure::ALLOCATIONS,
        parts::{facts, numbers, Parts},
    },
    pool::Report,
};
use povmeter_dev_measure::{PoolReport, PoolRow};

impl Comparable for Report {
    const HAS_ROWS: bool = false;

    fn parts(&self) -> Result<Parts, serde_json::Error> {
        let Self(PoolReport {
            same_block,
            same_sizes,
            extrinsics,
            fresh,
            pooled,
            kept,
            bytes_percent: _,
            kept_percent: _,
        }) = self;
        let mut parts = Parts::default();
        parts.option("extrinsics", extrinsics)?;
        parts.checks(self.named_checks().map(|(name, holds, _)| (name, holds)));
        let mut top = parts.top();
        facts!(top, ""; same_block, same_sizes);
        for (folder, block) in [("fresh/", fresh), ("pooled/", pooled), ("kept/", kept)] {
            let PoolRow {
                allocations_per_extrinsic,
                allocations,
                bytes,
                bytes_of_sealing,
            } = block;
            numbers!(top, ALLOCATIONS, folder; allocations_per_extrinsic, allocations, bytes, bytes_of_sealing);
        }
        Ok(parts)
    }
}
