//! What is compared of the overlay.

use crate::{
    diff::{
        kind::Comparable,
        measure::{ALLOCATIONS, SPEED, TIME},
        parts::{facts, numbers, Parts},
    },
    overlay::Report,
};
use povmeter_dev_measure::{OverlayMemory, OverlayRow};

impl Comparable for Report {
    const HAS_ROWS: bool = true;

    fn parts(&self) -> Result<Parts, serde_json::Error> {
        let Self {
            rounds,
            seed,
            rows,
            memory,
        } = self;
        let mut parts = Parts::default();
        parts.option("seed", seed)?;
        let mut top = parts.top();
        facts!(top, ""; rounds);
        let OverlayMemory {
            keys: _,
            peer_bytes_per_key,
            ours_bytes_per_key,
        } = memory;
        numbers!(top, ALLOCATIONS, "memory/"; ours_bytes_per_key);
        numbers!(top, ALLOCATIONS.shown(), "memory/"; peer_bytes_per_key);
        for row in rows {
            let OverlayRow {
                operation,
                peer_ns,
                ours_ns,
                ratio,
                peer_allocations,
                ours_allocations,
            } = row;
            let mut row = parts.row(operation);
            numbers!(row, ALLOCATIONS, ""; ours_allocations);
            numbers!(row, ALLOCATIONS.shown(), ""; peer_allocations);
            numbers!(row, SPEED, ""; ratio);
            numbers!(row, TIME.shown(), ""; ours_ns, peer_ns);
        }
        Ok(parts)
    }
}
