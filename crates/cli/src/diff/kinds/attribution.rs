//! What is compared of the attribution of a proof's bytes.

use crate::{
    attribution_report::{AttributionReport, ItemRow, PartRow},
    diff::{measure::PROOF, parts::numbers, parts::Parts},
};

/// Adds the bytes of parts and items. They are not judged, because their sum is judged elsewhere. Nodes
/// and causes are too many to list.
pub(super) fn add(parts: &mut Parts, attribution: &AttributionReport) {
    for part in &attribution.by_extrinsic {
        let PartRow {
            index,
            phase,
            bytes,
            ..
        } = part;
        let mut row = parts.row(match index {
            Some(index) => format!("{phase} {index}"),
            None => phase.clone(),
        });
        numbers!(row, PROOF.shown(), ""; bytes);
    }
    for item in &attribution.by_item {
        let ItemRow { name, bytes, .. } = item;
        let mut row = parts.row(name);
        numbers!(row, PROOF.shown(), ""; bytes);
    }
}
