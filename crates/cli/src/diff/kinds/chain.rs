//! What is compared of chains of blocks.

use crate::{
    chain_report::{ChainChecks, ChainReport},
    diff::{
        kind::Comparable,
        measure::TIME,
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
            // Too many to list; their medians are above.
            rows: _,
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
        Ok(parts)
    }
}
