//! A block over a store that takes 100 microseconds for each node: how long it waits, with and without
//! caches and keys that are known ahead. The system adds some 50 microseconds to each wait.
//!
//! ```text
//! cargo run --release -p povmeter-dev-cache --example slow_source [accounts] [transfers]
//! ```

use povmeter_dev_cache::{measure_slow_source, SlowError, SlowOptions};

fn main() -> Result<(), SlowError> {
    let mut arguments = std::env::args().skip(1);
    let mut options = SlowOptions::default();
    for option in [&mut options.accounts, &mut options.transfers] {
        if let Some(number) = arguments.next().and_then(|number| number.parse().ok()) {
            *option = number;
        }
    }
    let SlowOptions {
        accounts,
        transfers,
        wait,
        threads,
        ..
    } = options;
    println!("{accounts} accounts, {transfers} transfers, {wait:?} a node, {threads} threads");
    let rows = measure_slow_source(&options)?;
    let first = rows.first().map_or(1.0, |row| row.ms);
    println!("{:>9}  {:>6}  {:>6}", "ms", "%", "nodes");
    for row in &rows {
        let percent = row.ms / first * 100.0;
        println!(
            "{:>9.1}  {percent:>6.1}  {:>6}  {}",
            row.ms, row.asked, row.what
        );
    }
    Ok(())
}
