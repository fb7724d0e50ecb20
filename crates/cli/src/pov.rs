//! The whole PoV of a block, and the limit on it.

use crate::{error::CliError, report::ByteCount};
use clap::Args;
use povmeter_dev_runtime::PovSizes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Percent of a limit up to which collators of cumulus fill their blocks.
pub(crate) const COLLATOR_PERCENT: u64 = 85;

/// The limit on the PoV.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct LimitArg {
    /// Limit on the PoV as in 10MiB; exit code 3 above it
    #[arg(long, value_name = "BYTES")]
    pov_limit: Option<ByteCount>,
}

impl LimitArg {
    /// The limit in bytes.
    pub(crate) fn bytes(self) -> Option<u64> {
        self.pov_limit.map(|limit| limit.0)
    }

    /// Compares a block with the limit, if there is one. The block's proof has `recorded` bytes.
    pub(crate) fn judge(self, pov: &PovRow, recorded: u64) -> Option<LimitRow> {
        self.bytes()
            .map(|limit| LimitRow::new(limit, pov, recorded))
    }
}

/// The PoV of a block in bytes: what a collator sends to validators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct PovRow {
    /// The header.
    pub(crate) header: u64,
    /// The extrinsics.
    pub(crate) extrinsics: u64,
    /// The compact proof.
    pub(crate) compact_proof: u64,
    /// Mark, version and number of blocks, as ParachainBlockData has them.
    pub(crate) framing: u64,
    /// The sum of header, extrinsics, compact proof and framing.
    pub(crate) total: u64,
    /// The PoV compressed with zstd as collators do, with its length: what a relay chain limits.
    pub(crate) compressed: u64,
}

impl From<PovSizes> for PovRow {
    fn from(sizes: PovSizes) -> Self {
        let total = sizes.total();
        let PovSizes {
            header,
            extrinsics,
            compact_proof,
            framing,
            compressed,
        } = sizes;
        Self {
            header,
            extrinsics,
            compact_proof,
            framing,
            total,
            compressed,
        }
    }
}

/// A block beside the limit on its PoV, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct LimitRow {
    /// The limit.
    pub(crate) limit: u64,
    /// Whether the compressed PoV is within the limit.
    pub(crate) fits: bool,
    /// The count at which collators stop adding extrinsics: 85 percent of the limit.
    pub(crate) collator_limit: u64,
    /// What collators count for the block: header, extrinsics and recorded proof, not compressed.
    pub(crate) collator_count: u64,
    /// Whether this count is within the collators' limit.
    pub(crate) collator_fits: bool,
}

/// The count at which collators with this `limit` stop adding extrinsics.
pub(crate) fn collator_limit(limit: u64) -> u64 {
    // In 128 bits, because a limit can be any number; the result is smaller than the limit.
    let part = u128::from(limit) * u128::from(COLLATOR_PERCENT) / 100;
    u64::try_from(part).unwrap_or(limit)
}

impl LimitRow {
    pub(crate) fn new(limit: u64, pov: &PovRow, recorded: u64) -> Self {
        let collator_count = pov.header + pov.extrinsics + recorded;
        let collator_limit = collator_limit(limit);
        Self {
            limit,
            fits: pov.compressed <= limit,
            collator_limit,
            collator_count,
            collator_fits: collator_count <= collator_limit,
        }
    }
}

/// Checks that each block is within its limit, if it has one. A block has a number unless the command built it.
///
/// # Errors
/// [`CliError::OverLimit`] if one of these blocks is above its limit.
pub(crate) fn expect_within<'a>(
    blocks: impl IntoIterator<Item = (Option<u32>, &'a PovRow, Option<&'a LimitRow>)>,
) -> Result<(), CliError> {
    let limited = blocks
        .into_iter()
        .filter_map(|(block, pov, limit)| Some((block, pov, limit?)));
    let over: Vec<_> = limited.filter(|(_, _, limit)| !limit.fits).collect();
    match over.iter().max_by_key(|(_, pov, _)| pov.compressed) {
        None => Ok(()),
        Some((block, pov, limit)) => Err(CliError::OverLimit {
            block: *block,
            limit: limit.limit,
            found: pov.compressed,
            over: over.len(),
        }),
    }
}

/// Writes a line with a name, a number of bytes and a note.
pub(crate) fn size_line<N: fmt::Display>(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    bytes: N,
    note: &str,
) -> fmt::Result {
    let text = format!("{name:<24} {bytes:>12} {note}");
    writeln!(f, "{}", text.trim_end())
}

impl PovRow {
    /// Writes the sizes as lines.
    pub(crate) fn lines(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            header,
            extrinsics,
            compact_proof,
            framing,
            ..
        } = self;
        let parts = format!(
            "bytes: header {header}, extrinsics {extrinsics}, compact proof {compact_proof}, framing {framing}"
        );
        size_line(f, "PoV", self.total, &parts)?;
        let note = "bytes, as it is sent to validators";
        size_line(f, "PoV compressed", self.compressed, note)
    }
}

impl LimitRow {
    /// Writes the limit as lines, for a block with this `pov`.
    pub(crate) fn lines(&self, f: &mut fmt::Formatter<'_>, pov: &PovRow) -> fmt::Result {
        // Exact, because sizes of blocks are far below 2^52.
        let used = 100.0 * pov.compressed as f64 / self.limit.max(1) as f64;
        let verdict = if self.fits {
            "fits"
        } else {
            "the PoV is larger"
        };
        let note = format!("bytes: {verdict}, {used:.1} % of it used");
        size_line(f, "PoV limit", self.limit, &note)?;
        let verdict = if self.collator_fits {
            "would not stop"
        } else {
            "would have stopped before the end"
        };
        let note = format!(
            "bytes ({COLLATOR_PERCENT} %): a collator counts {}, of header, extrinsics and recorded proof, and {verdict}",
            self.collator_count
        );
        size_line(f, "  collators fill up to", self.collator_limit, &note)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn pov(compressed: u64) -> PovRow {
        PovRow {
            header: 100,
            extrinsics: 200,
            compact_proof: 600,
            framing: 14,
            total: 914,
            compressed,
        }
    }

    #[test]
    fn the_compressed_pov_is_what_is_limited() {
        let limit = LimitRow::new(1_000, &pov(1_000), 550);
        assert!(limit.fits && limit.collator_fits);
        assert_eq!((limit.collator_limit, limit.collator_count), (850, 850));
        let limit = LimitRow::new(1_000, &pov(1_001), 551);
        assert!(!limit.fits && !limit.collator_fits);
        // The largest number does not overflow.
        let limit = LimitRow::new(u64::MAX, &pov(1), 1);
        assert_eq!(limit.collator_limit, 15_679_732_462_653_118_872);
    }

    #[test]
    fn the_largest_block_above_its_limit_is_named() {
        let [small, large, larger] = [pov(900), pov(1_100), pov(1_200)];
        let of = |pov: &PovRow| LimitRow::new(1_000, pov, 0);
        let limits = [&small, &large, &larger].map(of);
        let blocks = || {
            let povs = [(5, &small), (6, &large), (7, &larger)].into_iter();
            povs.zip(&limits)
                .map(|((number, pov), limit)| (Some(number), pov, Some(limit)))
        };
        let error = |blocks: Vec<_>| expect_within(blocks).unwrap_err().to_string();
        let expected = "expected a PoV of at most 1000 bytes, found one of 1200";
        let most = format!("block 7: {expected}, the largest of 2 that are too large");
        assert_eq!(error(blocks().collect()), most);
        let last = error(blocks().skip(2).collect());
        assert_eq!(last, format!("block 7: {expected}"));
        let built = (None, &larger, Some(&limits[2]));
        assert_eq!(error(vec![built]), expected);
        expect_within(blocks().take(1)).unwrap();
        expect_within([(Some(6), &large, None)]).unwrap();
    }
}
