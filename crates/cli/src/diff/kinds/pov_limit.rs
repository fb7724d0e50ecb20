//! What is compared of a block beside the limit on its PoV.

use crate::{
    diff::parts::{facts, Row},
    pov::LimitRow,
};

/// Adds the limit, and whether the block is within it. That is a check, because a block above its limit fails.
/// The counts follow from other numbers.
pub(super) fn add(row: &mut Row<'_>, limit: &LimitRow) -> Result<(), serde_json::Error> {
    let LimitRow {
        limit,
        fits,
        collator_limit: _,
        collator_count: _,
        collator_fits,
    } = limit;
    facts!(row, "pov_limit/"; limit, fits, collator_fits);
    row.check("pov_limit/", "fits", *limit, *fits);
    Ok(())
}
