//! Compares node caches and prints a row for each, with tabs between the columns.
//!
//! ```text
//! cargo run --release -p povmeter-dev-cache --example caches [accounts] [blocks] [access] [written, %] [bytes, %]
//! ```

use povmeter_dev_allocations::{live_bytes, Counting};
use povmeter_dev_cache::{measure_caches, CacheError, CacheOptions};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn main() -> Result<(), CacheError> {
    let mut arguments = std::env::args().skip(1);
    let mut options = CacheOptions::default();
    if let Some(accounts) = arguments.next().and_then(|number| number.parse().ok()) {
        options.accounts = accounts;
    }
    if let Some(blocks) = arguments.next().and_then(|number| number.parse().ok()) {
        options.blocks = blocks;
    }
    if let Some(name) = arguments.next() {
        options.accesses.retain(|access| access.name() == name);
    }
    if let Some(share) = arguments.next().and_then(|number| number.parse().ok()) {
        options.write_shares = vec![share];
    }
    if let Some(percent) = arguments.next().and_then(|number| number.parse().ok()) {
        options.bytes_percents = vec![percent];
    }
    let mut last = String::new();
    let report = measure_caches(&options, &live_bytes, &mut |part, parts, what| {
        if part % 15 == 0 && last != what {
            eprintln!("{part} of {parts}: {what}");
            what.clone_into(&mut last);
        }
    })?;
    println!(
        "{} nodes of {} bytes",
        report.state_nodes, report.state_bytes
    );
    println!("policy\tkeying\taccess\twrites\tbytes %\thits %\tleaves %\tentries\tmemory\tbytes/entry\tratio\tns\tns 2\tstale");
    for row in &report.rows {
        println!(
            "{}\t{}\t{}\t{}\t{}\t{:.1}\t{:.1}\t{}\t{}\t{:.0}\t{:.2}\t{:.0}\t{:.0}\t{}",
            row.policy,
            row.keying.name(),
            row.access.name(),
            row.write_share,
            row.bytes_percent,
            row.hit_percent,
            row.leaf_hit_percent,
            row.entries,
            row.memory_bytes,
            row.bytes_per_entry,
            row.memory_ratio,
            row.ns,
            row.ns_two_threads,
            row.stale_reads,
        );
    }
    println!(
        "least lead {:.2?} points, least ratio to the ring {:.2}, most memory {:.2?}",
        report.least_lead_points, report.least_fifo_ratio, report.most_memory_ratio
    );
    Ok(())
}
