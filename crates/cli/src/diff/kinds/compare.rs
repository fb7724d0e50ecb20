//! What is compared of ways to build a block.

use crate::{
    compare_report::{Checks, CompareReport, Row},
    compare_threads::ThreadsRow,
    diff::{
        kind::Comparable,
        measure::{ALLOCATIONS, PROOF, SPEED, TIME},
        parts::{facts, numbers, Parts},
    },
};

/// Rows that are not judged: the peer and the strategies that are built on it.
const NOT_JUDGED: [&str; 9] = [
    "peer-none",
    "none",
    "root-each-tx",
    "incremental",
    "fake-hasher",
    "each-key-once",
    "forget",
    "get-for-writes",
    "upstream",
];

impl Comparable for CompareReport {
    const HAS_ROWS: bool = true;

    fn parts(&self) -> Result<Parts, serde_json::Error> {
        let Self {
            options,
            cache,
            rounds,
            rows,
            threads,
            checks,
        } = self;
        let mut parts = Parts::default();
        parts.options(options)?;
        parts.option("cache", cache)?;
        let named = self.named_checks().into_iter();
        parts.checks(named.map(|(name, holds, _)| (name, holds)));
        let mut top = parts.top();
        facts!(top, ""; rounds);
        let Checks {
            roots_equal,
            estimates_complete,
            threads_equal,
        } = checks;
        facts!(top, "checks/"; roots_equal, estimates_complete, threads_equal);
        for row in threads {
            let ThreadsRow {
                workers: _,
                asks_for_sizes: _,
                wall_ms,
                extrinsics_wall_ms,
                times_as_fast,
                times_as_fast_spread,
                percent_of_peer_none: _,
                ahead: _,
            } = row;
            let asks = if row.asks_for_sizes {
                ", asks for sizes"
            } else {
                ""
            };
            let mut part = parts.row(format!("{}{asks}", row.name()));
            // Not judged, because it is of wall times, and because it gets worse if one thread gets faster.
            part.number_within(
                SPEED.shown(),
                "",
                "times_as_fast",
                times_as_fast,
                *times_as_fast_spread,
            );
            numbers!(part, TIME.shown(), ""; wall_ms, extrinsics_wall_ms);
        }
        for row in rows {
            let Row {
                name,
                median_ms,
                percent_of_peer_none,
                percent_spread,
                estimate_after_last,
                recorded,
                encoded,
                compact,
                nodes,
                allocations_per_extrinsic,
                median_wall_ms,
                per_extrinsic_us,
                finalize_ms,
                root_ms,
                state_machine_percent: _,
                rounds: _,
                claims_complete: _,
                estimate_under_bytes,
            } = row;
            let judged = !NOT_JUDGED.contains(&&**name);
            let mut row = parts.row(name).judged(judged);
            numbers!(row, PROOF, ""; estimate_after_last, estimate_under_bytes, recorded, encoded, compact,
                nodes);
            numbers!(row, ALLOCATIONS, ""; allocations_per_extrinsic);
            row.number_within(
                SPEED,
                "",
                "percent_of_peer_none",
                percent_of_peer_none,
                *percent_spread,
            );
            numbers!(row, TIME.shown(), ""; median_ms, median_wall_ms, per_extrinsic_us, finalize_ms, root_ms);
        }
        Ok(parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contender::Contender;
    use std::collections::BTreeSet;

    /// `NOT_JUDGED` names exactly the peer and the ladder's strategies.
    #[test]
    fn what_is_not_judged_is_the_peers() {
        let all = Contender::all().into_iter();
        let theirs = all.filter(|contender| {
            !matches!(contender, Contender::Povmeter | Contender::PovmeterNone)
        });
        let theirs: BTreeSet<_> = theirs.map(Contender::name).collect();
        assert_eq!(BTreeSet::from(NOT_JUDGED), theirs);
    }
}
