//! How long a batch of 32 nodes takes over a source that sleeps 0 or 100 microseconds in each
//! look-up, by the number of threads. The system adds some 50 microseconds to a sleep.
//!
//! ```text
//! cargo run --release -p povmeter-store --example parallel_reads
//! ```

use bytes::Bytes;
use povmeter_delta_root::{
    Blake2b256, NodeBatch, NodeHash, NodePrefix, NodeRequest, NodeSource, SourceError,
};
use povmeter_store::ParallelReads;
use std::error::Error;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// A source that has every node, and waits before each answer.
#[derive(Default)]
struct SlowSource {
    wait: Duration,
    calls: AtomicUsize,
}

impl NodeSource for SlowSource {
    fn node(&self, hash: &NodeHash, _: NodePrefix<'_>) -> Result<Option<Bytes>, SourceError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        thread::sleep(self.wait);
        Ok(Some(Bytes::copy_from_slice(hash.as_bytes())))
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    const ROUNDS: u32 = 200;
    let request = |number: u8| NodeRequest {
        hash: Blake2b256::hash(&[number]),
        ..NodeRequest::default()
    };
    let requests: Vec<_> = (0..32).map(request).collect();
    println!("wait us  threads  calls  us a batch");
    for wait in [0, 100].map(Duration::from_micros) {
        let alone = SlowSource {
            wait,
            ..SlowSource::default()
        };
        print_row(&alone, &alone.calls, wait, "none", &requests, ROUNDS)?;
        for threads in [1, 2, 8, 16] {
            let source = SlowSource {
                wait,
                ..SlowSource::default()
            };
            let count = NonZeroUsize::new(threads).ok_or("no threads")?;
            let parallel = ParallelReads::new(source, count)?;
            let calls = &parallel.get_ref().calls;
            print_row(
                &parallel,
                calls,
                wait,
                &threads.to_string(),
                &requests,
                ROUNDS,
            )?;
        }
    }
    Ok(())
}

fn print_row(
    source: &impl NodeSource,
    calls: &AtomicUsize,
    wait: Duration,
    threads: &str,
    requests: &[NodeRequest<'_>],
    rounds: u32,
) -> Result<(), Box<dyn Error>> {
    let start = Instant::now();
    for _ in 0..rounds {
        for mut batch in NodeBatch::of(requests) {
            source.nodes(&mut batch);
            if batch.open().len() > 0 {
                return Err("a request without an answer".into());
            }
        }
    }
    let micros = start.elapsed().as_secs_f64() * 1e6 / f64::from(rounds);
    let calls = calls.load(Ordering::Relaxed) / rounds as usize;
    println!(
        "{:>7}  {threads:>7}  {calls:>5}  {micros:>10.1}",
        wait.as_micros()
    );
    Ok(())
}
