//! What is compared of replayed blocks.

use super::pov_limit;
use crate::{
    diff::{
        kind::Comparable,
        measure::{COMPRESSED, PROOF, TIME},
        parts::{facts, numbers, Parts},
    },
    pov::PovRow,
    replay_report::{Checks, ReplayReport, Row, ALL_REPLAYED},
};

impl Comparable for ReplayReport {
    const HAS_ROWS: bool = false;

    fn parts(&self) -> Result<Parts, serde_json::Error> {
        // `..` leaves out the fields that are not serialized.
        let Self {
            name,
            on,
            sizes,
            blocks,
            checks,
            error,
            ..
        } = self;
        let mut parts = Parts::default();
        parts.option("name", name)?;
        parts.option("on", on)?;
        parts.option("sizes", sizes)?;
        let mut top = parts.top();
        facts!(top, ""; error);
        parts.checks([(ALL_REPLAYED, error.is_none())]);
        for block in blocks {
            let Row {
                number,
                hash,
                state_root,
                extrinsics,
                whole_ms,
                steps_ms,
                reads,
                writes,
                recorded,
                encoded,
                compact,
                nodes,
                estimate_after_last,
                truth_after_last,
                sizes_told,
                pov,
                pov_limit,
                attribution: _,
            } = block;
            let mut row = parts.row(format!("blocks {number}"));
            facts!(row, ""; hash, state_root, extrinsics, reads, writes, sizes_told);
            numbers!(row, PROOF, ""; estimate_after_last, recorded, encoded, compact, nodes);
            // Not judged, because it is sp-state-machine's.
            numbers!(row, PROOF.shown(), ""; truth_after_last);
            if let Some(PovRow {
                total, compressed, ..
            }) = pov
            {
                numbers!(row, PROOF, "pov/"; total);
                // The result may be that of `block --chain-spec`, which signs anew in each run.
                numbers!(row, COMPRESSED, "pov/"; compressed);
            }
            if let Some(limit) = pov_limit {
                pov_limit::add(&mut row, limit)?;
            }
            numbers!(row, TIME.shown(), ""; whole_ms, steps_ms);
            row.total(TIME, "whole_ms", whole_ms);
            row.total(TIME, "steps_ms", steps_ms);
        }
        for check in checks {
            let Checks {
                name,
                holds,
                of,
                by_design: _,
                first_by_design: _,
                first_failure: _,
            } = check;
            let mut row = parts.row(format!("checks {name}"));
            facts!(row, ""; holds);
            parts.checks([(&**name, holds == of)]);
        }
        Ok(parts)
    }
}
