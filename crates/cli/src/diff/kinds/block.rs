//! What is compared of a block.

use super::{attribution, pov_limit};
use crate::{
    block_report::{
        BesidePeer, BlockReport, Estimate, Extrinsics, Growth, PerExtrinsic, PhaseTimes, Proof,
        Time,
    },
    checks::Check,
    diff::{
        kind::Comparable,
        measure::{COMPRESSED, PROOF, SPEED, TIME},
        parts::{facts, numbers, Parts},
    },
    options::SignaturesArg,
    pov::PovRow,
};

impl Comparable for BlockReport {
    const HAS_ROWS: bool = false;

    fn parts(&self) -> Result<Parts, serde_json::Error> {
        let Self {
            options,
            parent_root,
            root,
            extrinsics,
            per_extrinsic_us,
            growth_bytes,
            proof_bytes,
            pov,
            pov_limit,
            phases,
            beside_peer,
            estimates: estimate_list,
            told,
            checks,
        } = self;
        let mut parts = Parts::default();
        parts.options(options)?;
        let mut top = parts.top();
        facts!(top, ""; parent_root, root);
        let Extrinsics {
            applied,
            failed,
            refused,
        } = extrinsics;
        facts!(top, "extrinsics/"; applied, failed, refused);
        // Facts, because growth can be below zero. Growth that is too large is in the estimates, which are judged.
        if let Some(Growth {
            first,
            last,
            min,
            max,
        }) = growth_bytes
        {
            facts!(top, "growth_bytes/"; first, last, min, max);
        }
        let Proof {
            estimate_after_last,
            root_adds_after_last,
            recorded,
            encoded,
            compact,
            nodes,
            attribution,
        } = proof_bytes;
        numbers!(top, PROOF, "proof_bytes/"; estimate_after_last, root_adds_after_last, recorded, encoded,
            compact, nodes);
        if let Some(PovRow {
            header,
            extrinsics,
            compact_proof: _,
            framing: _,
            total,
            compressed,
        }) = pov
        {
            numbers!(top, PROOF, "pov/"; header, extrinsics, total);
            let gauge = match options.signatures() {
                SignaturesArg::Sr25519 => COMPRESSED,
                SignaturesArg::Free => PROOF,
            };
            numbers!(top, gauge, "pov/"; compressed);
        }
        if let Some(limit) = pov_limit {
            pov_limit::add(&mut top, limit)?;
        }
        let PerExtrinsic { execute, estimate } = per_extrinsic_us;
        numbers!(top, TIME.shown(), "per_extrinsic_us/"; execute, estimate);
        let PhaseTimes {
            initialize,
            extrinsics,
            estimates,
            finalize,
            seal,
            total,
        } = phases;
        // The ratio to the peer is judged if there is one, otherwise the total. One phase alone is too short,
        // and wall time is too noisy.
        let total_gauge = match beside_peer {
            Some(_) => TIME.shown(),
            None => TIME,
        };
        if let Some(BesidePeer {
            rounds: _,
            ratio,
            ratio_spread,
        }) = beside_peer
        {
            top.number_within(SPEED, "beside_peer/", "ratio", ratio, *ratio_spread);
        }
        for (folder, time, gauge) in [
            ("phases/initialize/", initialize, TIME.shown()),
            ("phases/extrinsics/", extrinsics, TIME.shown()),
            ("phases/estimates/", estimates, TIME.shown()),
            ("phases/finalize/", finalize, TIME.shown()),
            ("phases/seal/", seal, TIME.shown()),
            ("phases/total/", total, total_gauge),
        ] {
            let Time { cpu_ms, wall_ms: _ } = time;
            numbers!(top, gauge, folder; cpu_ms);
        }
        let Time { wall_ms, .. } = total;
        numbers!(top, TIME.shown(), "phases/total/"; wall_ms);
        for check in checks {
            let Check {
                name,
                holds,
                detail: _,
            } = check;
            let mut row = parts.row(format!("checks {name}"));
            facts!(row, ""; holds);
            parts.checks([(&**name, *holds)]);
        }
        add_sizes(&mut parts, estimate_list, told)?;
        if let Some(attribution) = attribution {
            attribution::add(&mut parts, attribution);
        }
        Ok(parts)
    }
}

/// Adds the estimates and the sizes that the runtime got. They are too many to list, but a change of one changes the
/// sum.
fn add_sizes(
    parts: &mut Parts,
    estimates: &[Estimate],
    told: &[u64],
) -> Result<(), serde_json::Error> {
    let totals = estimates.iter().map(|estimate| {
        // The other fields add up to the total, or follow from it and the extrinsics.
        let Estimate {
            recorded: _,
            root_adds: _,
            total,
            block: _,
            pov_bound: _,
        } = estimate;
        *total
    });
    // The maximum is mostly the last estimate, which is judged above. The numbers of a file may overflow a sum.
    let sum = &totals.fold(0, u64::saturating_add);
    let mut row = parts.row("estimates");
    numbers!(row, PROOF, "total "; sum);
    let count = &told.len();
    let sum = &told.iter().copied().fold(0, u64::saturating_add);
    let mut row = parts.row("told");
    // How often the runtime asks says nothing of a proof.
    facts!(row, ""; count);
    row.sum(PROOF, "sum", sum, told.len());
    Ok(())
}
