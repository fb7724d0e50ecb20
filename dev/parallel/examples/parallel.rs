//! Measures blocks in parallel, and prints tables, or JSON.
//!
//! ```sh
//! cargo run --release -p povmeter-dev-parallel --example parallel -- 10000 --json
//! ```
//! The number is that of the transactions of a block; by default there are few, and the run is short.

#![allow(unsafe_code)]

use povmeter_dev_parallel::{measure, Allocated, Mode, Model, Report, Row, Settings, Workload};
use std::{
    alloc::{GlobalAlloc, Layout, System},
    error::Error,
    sync::atomic::{AtomicU64, Ordering},
};

static BYTES: AtomicU64 = AtomicU64::new(0);
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

fn allocated() -> Allocated {
    Allocated {
        bytes: BYTES.load(Ordering::Relaxed),
        allocations: ALLOCATIONS.load(Ordering::Relaxed),
    }
}

/// The system's allocator, with counts of all threads.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

impl Counting {
    fn note(&self, bytes: usize) {
        BYTES.fetch_add(bytes as u64, Ordering::Relaxed);
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
    }
}

// SAFETY: every method passes its arguments to `System` unchanged and returns its result, so the contract
// that the caller keeps is the one that `System` needs. Counting neither allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.note(layout.size());
        // SAFETY: see above.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        self.note(layout.size());
        // SAFETY: see above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, old: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        self.note(size);
        // SAFETY: see above.
        unsafe { System.realloc(old, layout, size) }
    }

    unsafe fn dealloc(&self, old: *mut u8, layout: Layout) {
        // SAFETY: see above.
        unsafe { System.dealloc(old, layout) }
    }
}

fn settings() -> Result<(Settings, bool), Box<dyn Error>> {
    let mut settings = Settings {
        transactions: 400,
        costs_us: vec![0, 10],
        workers: vec![1, 2],
        rounds: 1,
        ..Settings::default()
    };
    let mut json = false;
    for argument in std::env::args().skip(1) {
        if argument == "--json" {
            json = true;
        } else {
            settings = Settings {
                transactions: argument.parse()?,
                ..Settings::default()
            };
        }
    }
    Ok((settings, json))
}

fn print(report: &Report) {
    println!("| workload | cost, us | workers | mode | ms | bytes/tx | allocations/tx | executions/tx | validations/tx |");
    println!("|---|--:|--:|---|--:|--:|--:|--:|--:|");
    let transactions = u64::from(report.transactions.max(1));
    for row in &report.rows {
        let Row {
            workload,
            cost_us,
            workers,
            mode,
            ms,
            bytes,
            allocations,
            executions_per_tx,
            validations_per_tx,
            same_as_sequential,
        } = row;
        let wrong = if *same_as_sequential { "" } else { " WRONG" };
        println!(
            "| {workload:?} | {cost_us} | {workers} | {mode:?}{wrong} | {ms:.1} | {} | {} | \
             {executions_per_tx:.2} | {validations_per_tx:.2} |",
            bytes / transactions,
            allocations / transactions,
        );
    }
    println!("\n| store alone | shape | ms | bytes/tx | allocations/tx |\n|---|---|--:|--:|--:|");
    for row in &report.shapes {
        let (bytes, allocations) = (row.bytes / transactions, row.allocations / transactions);
        let (workload, shape, ms) = (row.workload, row.shape, row.ms);
        println!("| {workload:?} | {shape:?} | {ms:.1} | {bytes} | {allocations} |");
    }
}

/// The model, with costs from the rows of one worker.
fn print_model(report: &Report, costs_us: &[u32]) {
    println!("\nA model of the scheduler, not a measurement: times as fast as one after the other");
    for workload in [Workload::NoConflict, Workload::Random10000, Workload::Worst] {
        for &cost_us in costs_us {
            let of = |mode| report.row(workload, cost_us, 1, mode);
            let (Some(plain), Some(ahead)) = (of(Mode::Sequential), of(Mode::EachAhead)) else {
                continue;
            };
            let per_transaction = |ms: f64| ms * 1e3 / f64::from(report.transactions.max(1));
            let (plain, both) = (per_transaction(plain.ms), per_transaction(ahead.ms));
            // A commit repeats what a plain execution does, besides the cost; the rest is done ahead.
            let commit_us = (plain - f64::from(cost_us)).max(0.1);
            let model = Model {
                in_order_us: plain,
                ahead_us: (both - commit_us).max(0.1),
                commit_us,
            };
            let curve = model.curve(workload, report.transactions, &[1, 2, 4, 8, 16]);
            let curve: Vec<String> = curve
                .iter()
                .map(|modelled| format!("{}: {:.1}", modelled.workers, modelled.speedup))
                .collect();
            println!("{workload:?}, {cost_us} us: {}", curve.join(", "));
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let (settings, json) = settings()?;
    let report = measure(&settings, Some(allocated))?;
    if json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print(&report);
        print_model(&report, &settings.costs_us);
    }
    match report.rows.iter().all(|row| row.same_as_sequential) {
        true => Ok(()),
        false => Err("expected the results of sequential execution, found others".into()),
    }
}
