//! What is compared of caches.

use crate::{
    cache::Report,
    diff::{
        kind::Comparable,
        measure::{ALLOCATIONS, SPEED, TIME},
        parts::{facts, numbers, Parts},
    },
};
use povmeter_dev_cache::{CacheOptions, CacheReport, CacheRow};

impl Comparable for Report {
    const HAS_ROWS: bool = true;

    fn parts(&self) -> Result<Parts, serde_json::Error> {
        // The extremes follow from the rows.
        let CacheReport {
            options,
            state_nodes,
            state_bytes,
            rows,
            least_lead_points: _,
            least_fifo_ratio: _,
            most_memory_ratio: _,
        } = &self.0;
        // The names of the rows contain loads and sizes.
        let CacheOptions {
            accounts,
            blocks,
            touched,
            seed,
            accesses: _,
            write_shares: _,
            bytes_percents: _,
        } = options;
        let mut parts = Parts::default();
        parts.option("accounts", accounts)?;
        parts.option("blocks", blocks)?;
        parts.option("touched", touched)?;
        parts.option("seed", seed)?;
        let named = self.named_checks();
        parts.checks(named.each_ref().map(|(name, holds, _)| (*name, *holds)));
        let mut top = parts.top();
        facts!(top, ""; state_nodes, state_bytes);
        for row in rows {
            let CacheRow {
                policy,
                about: _,
                keying,
                access,
                write_share,
                bytes_percent,
                hit_percent,
                leaf_hit_percent,
                entries: _,
                memory_bytes: _,
                bytes_per_entry,
                memory_ratio,
                ns,
                ns_two_threads,
                stale_reads,
            } = row;
            let name = format!(
                "{policy} by {} {} {write_share} {bytes_percent}",
                keying.name(),
                access.name()
            );
            let mut row = parts.row(name);
            facts!(row, ""; stale_reads);
            // Not judged, because the content of a cache depends on the secret of its hash table, and times
            // depend on the machine.
            numbers!(row, SPEED.shown(), ""; hit_percent, leaf_hit_percent);
            numbers!(row, ALLOCATIONS.shown(), ""; bytes_per_entry, memory_ratio);
            numbers!(row, TIME.shown(), ""; ns, ns_two_threads);
        }
        Ok(parts)
    }
}
