//! What is compared of estimates.

use crate::{
    diff::{
        kind::Comparable,
        measure::{ALLOCATIONS, PROOF, TIME},
        parts::{facts, numbers, Parts},
    },
    estimator_report::{Checks, EstimatorReport, OfFlavour},
};
use povmeter_dev_measure::{Flatness, ShadowMemory, SpeedRow};

impl Comparable for EstimatorReport {
    const HAS_ROWS: bool = true;

    fn parts(&self) -> Result<Parts, serde_json::Error> {
        let Self {
            cases,
            seed,
            checks,
            flavours,
            failures: _,
            dirty_keys,
            rounds,
            rows,
            flatness,
            memory,
        } = self;
        let mut parts = Parts::default();
        parts.option("cases", cases)?;
        parts.option("seed", seed)?;
        parts.option("dirty_keys", dirty_keys)?;
        parts.checks(checks.named());
        let mut top = parts.top();
        facts!(top, ""; rounds);
        // The percentages follow from the flavours.
        let Checks {
            boundaries,
            under,
            over_bytes_percent: _,
            over_nodes_percent: _,
            upstream_under,
            roles_differ,
            compact_differs,
            others_differ,
        } = checks;
        facts!(top, "checks/"; boundaries, under, upstream_under, roles_differ, compact_differs, others_differ);
        flavours.iter().try_for_each(|of| flavour(&mut parts, of))?;
        for row in rows {
            let SpeedRow {
                case,
                keys,
                peer_ns,
                ours_ns,
                allocations_per_key,
            } = row;
            let mut row = parts.row(format!("{} {keys}", case.name()));
            numbers!(row, ALLOCATIONS, ""; allocations_per_key);
            // Processor time. Judged in place of a ratio, because the peer has no operation for some rows.
            numbers!(row, TIME, ""; ours_ns);
            numbers!(row, TIME.shown(), ""; peer_ns);
        }
        for flat in flatness {
            let Flatness {
                keys,
                after_50_ns,
                after_5000_ns,
                ratio,
            } = flat;
            let mut row = parts.row(format!("flatness {keys}"));
            numbers!(row, TIME.shown(), ""; after_50_ns, after_5000_ns, ratio);
        }
        for memory in memory {
            let ShadowMemory {
                keys,
                loaded_nodes,
                arena_bytes,
                arena_bytes_per_node,
            } = memory;
            let mut row = parts.row(format!("memory {keys}"));
            facts!(row, ""; loaded_nodes);
            numbers!(row, ALLOCATIONS, ""; arena_bytes);
            numbers!(row, ALLOCATIONS.shown(), ""; arena_bytes_per_node);
        }
        Ok(parts)
    }
}

fn flavour(parts: &mut Parts, of: &OfFlavour) -> Result<(), serde_json::Error> {
    let OfFlavour {
        flavour,
        blocks,
        boundaries,
        over_bytes_percent,
        consensus_over_bytes_percent,
        advisory_over_bytes_percent,
        rule_over_bytes_percent,
        over_nodes_percent,
        left_out,
        upstream_boundaries: _,
        upstream_under: _,
        upstream_under_blocks: _,
    } = of;
    let mut row = parts.row(format!("flavours {flavour}"));
    facts!(row, ""; blocks, boundaries, left_out);
    numbers!(row, PROOF, ""; over_bytes_percent, consensus_over_bytes_percent, advisory_over_bytes_percent,
        rule_over_bytes_percent, over_nodes_percent);
    Ok(())
}
