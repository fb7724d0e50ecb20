//! The comparison.

use crate::{
    policies::{contenders, Contender, Policy},
    replay::{content, look_up_ns, replay},
    report::RowKind,
    state::state,
    trace::Trace,
    Access, CacheReport, CacheRow,
};
use povmeter::{BlockError, RootUpdate, SourceError};
use povmeter_store::StoreError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// The settings of a measurement.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CacheOptions {
    /// Accounts in the state.
    pub accounts: usize,
    /// Blocks of each load. Hits are counted in the second half of them.
    pub blocks: usize,
    /// Accounts that a block touches.
    pub touched: usize,
    /// Seed of the random accounts.
    pub seed: u64,
    /// How the accounts of a block are drawn; one load for each way.
    pub accesses: Vec<Access>,
    /// How many of the touched accounts are written, in percent.
    pub write_shares: Vec<u8>,
    /// Memory of a cache, in percent of the state's bytes.
    pub bytes_percents: Vec<u16>,
}

impl Default for CacheOptions {
    /// 200,000 accounts, 300 blocks that touch 1,000 accounts each, all loads and sizes.
    fn default() -> Self {
        Self {
            accounts: 200_000,
            blocks: 300,
            touched: 1_000,
            seed: 1,
            accesses: Access::ALL.to_vec(),
            write_shares: vec![20, 50, 100],
            bytes_percents: vec![1, 5, 20, 40],
        }
    }
}

/// Why caches could not be compared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CacheError {
    /// There is nothing to measure.
    #[error("expected at least one account, two blocks and one account touched by each")]
    Nothing,
    /// A block failed.
    #[error("a recorded block failed: {0}")]
    Block(#[from] BlockError),
    /// The store refused an update.
    #[error("an update of a recorded block failed: {0}")]
    Store(#[from] StoreError),
    /// The store could not be read.
    #[error("the store of recorded blocks failed: {0}")]
    Source(#[from] SourceError),
}

/// Compares all caches. `live_bytes` returns how many bytes this thread has allocated and not freed;
/// `progress` is told of each part before it begins, with its number and how many there are.
///
/// # Errors
/// [`CacheError`].
pub fn measure_caches(
    options: &CacheOptions,
    live_bytes: &dyn Fn() -> i64,
    progress: &mut dyn FnMut(usize, usize, &str),
) -> Result<CacheReport, CacheError> {
    if options.accounts == 0 || options.blocks < 2 || options.touched == 0 {
        return Err(CacheError::Nothing);
    }
    let contenders = contenders();
    let loads = options.accesses.len() * options.write_shares.len();
    let parts = loads * options.bytes_percents.len() * contenders.len();
    progress(0, parts, "building the state");
    let store = state(options.accounts)?;
    let size = (store.node_count(), store.byte_count());
    let mut bench = Bench {
        live_bytes,
        scales: HashMap::new(),
    };
    let (mut rows, mut part) = (Vec::new(), 0);
    for &access in &options.accesses {
        for &write_share in &options.write_shares {
            progress(part, parts, "recording blocks");
            let trace = Trace::record(store.clone(), access, write_share, options)?;
            let updates: Vec<_> = trace
                .blocks
                .iter()
                .map(|block| trace.update(block))
                .collect();
            for &bytes_percent in &options.bytes_percents {
                let target = size.1 / 100 * usize::from(bytes_percent);
                for contender in &contenders {
                    progress(part, parts, contender.name);
                    part += 1;
                    let load = (access, write_share, bytes_percent);
                    let (row, is_full) = bench.row(contender, &trace, &updates, target, load);
                    rows.push((row, kind(contender, is_full)));
                }
            }
        }
    }
    Ok(CacheReport::new(options.clone(), size, rows))
}

fn kind(contender: &Contender, is_full: bool) -> RowKind {
    if contender.is_ours() {
        RowKind::Ours { is_full }
    } else if contender.is_fifo_ring() {
        RowKind::FifoRing
    } else {
        RowKind::Other
    }
}

/// How accounts are drawn, the share of blocks that write, and the percentage of the state that a cache may hold.
type Load = (Access, u8, u16);

struct Bench<'a> {
    live_bytes: &'a dyn Fn() -> i64,
    /// The limit for each byte of memory, by contender and load.
    scales: HashMap<(&'static str, &'static str, Load), f64>,
}

/// Number of replays that find the limit of a cache.
const FITTINGS: usize = 2;

impl Bench<'_> {
    /// Returns the result of `make`, and the bytes of memory that it holds.
    fn measured<T>(&self, make: impl FnOnce() -> T) -> (T, u64) {
        let before = (self.live_bytes)();
        let made = make();
        let bytes = (self.live_bytes)() - before;
        (made, bytes.max(0).unsigned_abs())
    }

    /// The limit at which the memory of a full cache is `target`.
    fn limit(
        &mut self,
        contender: &Contender,
        trace: &Trace,
        updates: &[RootUpdate],
        target: usize,
        load: Load,
    ) -> usize {
        if contender.is_ours() {
            return target;
        }
        let key = (contender.name, contender.keying.name(), load);
        // Bytes are far below 2^52.
        #[allow(clippy::cast_possible_truncation)]
        let scaled = |scale: f64| (target as f64 * scale) as usize;
        if let Some(scale) = self.scales.get(&key) {
            return scaled(*scale);
        }
        let mut scale = 1.0;
        for _ in 0..FITTINGS {
            let (policy, bytes) = self.measured(|| {
                let policy = contender.make(scaled(scale));
                replay(&*policy, trace, updates);
                policy
            });
            drop(policy);
            // Bound the scale, because the memory of a cache that is never full does not grow with it.
            scale = (scale * target as f64 / bytes.max(1) as f64).min(4.0);
        }
        self.scales.insert(key, scale);
        scaled(scale)
    }

    /// The row, and whether the cache was full, as far as it tells it.
    fn row(
        &mut self,
        contender: &Contender,
        trace: &Trace,
        updates: &[RootUpdate],
        target: usize,
        load: Load,
    ) -> (CacheRow, bool) {
        let (access, write_share, bytes_percent) = load;
        let limit = self.limit(contender, trace, updates, target, load);
        let ((policy, hits), memory_bytes) = self.measured(|| {
            let policy: Box<dyn Policy> = contender.make(limit);
            let hits = replay(&*policy, trace, updates);
            (policy, hits)
        });
        let (counted, payload) = content(&*policy, trace);
        let entries = policy.entries().unwrap_or(counted);
        let row = CacheRow {
            policy: contender.name.to_owned(),
            about: contender.what.to_owned(),
            keying: contender.keying,
            access,
            write_share,
            bytes_percent,
            hit_percent: hits.percent(),
            leaf_hit_percent: hits.leaf_percent(),
            entries,
            memory_bytes,
            bytes_per_entry: memory_bytes as f64 / entries.max(1) as f64,
            memory_ratio: memory_bytes as f64 / payload.max(1) as f64,
            ns: look_up_ns(&*policy, trace, 1),
            ns_two_threads: look_up_ns(&*policy, trace, 2),
            stale_reads: hits.stale,
        };
        (row, policy.has_evicted().unwrap_or(false))
    }
}
