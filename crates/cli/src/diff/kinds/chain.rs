//! What is compared of chains of blocks.

use crate::{
    chain_report::{ChainChecks, ChainReport, ChainRow},
    diff::{
        kind::Comparable,
        measure::{ALLOCATIONS, PROOF, TIME},
        parts::{facts, numbers, Parts},
    },
};

impl Comparable for ChainReport {
    const HAS_ROWS: bool = true;

    fn parts(&self) -> Result<Parts, serde_json::Error> {
        let Self {
            options,
            block_ms,
            commit_ms,
            prune_ms,
            nodes_asked,
            checks,
            rows,
        } = self;
        let mut parts = Parts::default();
        parts.options(options)?;
        let ChainChecks {
            again_same,
            carried_within,
            verified,
        } = checks;
        parts.checks(self.named_checks().map(|(name, holds, _)| (name, holds)));
        let mut top = parts.top();
        facts!(top, "checks/"; again_same, carried_within, verified);
        facts!(top, ""; nodes_asked);
        // Not judged, because they are wall times, and there is no ratio to the peer.
        numbers!(top, TIME.shown(), ""; block_ms, commit_ms, prune_ms);
        // The blocks are too many to list. The medians of their times are above.
        let proof_bytes = rows.iter().map(|row| row.proof_bytes);
        // A file may hold any numbers, so that the sum may overflow.
        let proof_bytes = &proof_bytes.fold(0, u64::saturating_add);
        let mut total = parts.row("total");
        numbers!(total, PROOF, ""; proof_bytes);
        if let Some(last) = rows.last() {
            let ChainRow {
                number: _,
                block_ms: _,
                commit_ms: _,
                prune_ms: _,
                nodes_asked: _,
                proof_bytes: _,
                carried_bytes,
                resident_bytes,
                disk_bytes,
            } = last;
            let mut row = parts.row("last block");
            // Not judged, because memory and files grow in steps, when the system or the database wants.
            numbers!(row, ALLOCATIONS.shown(), ""; carried_bytes, resident_bytes, disk_bytes);
        }
        Ok(parts)
    }
}
