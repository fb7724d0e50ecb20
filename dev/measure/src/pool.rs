//! Measurement of allocations of a recorded block, in fresh memory and in that of the block before.

use povmeter::{Block, BlockError, BlockPool, ProofSize, SealedBlock, StateVersion};
use povmeter_dev_allocations::Allocated;
use povmeter_dev_data::{Trace, TraceRecord};
use povmeter_dev_oracle::{Answer, Op};
use povmeter_dev_runtime::{commit_state, StateError};
use povmeter_store::{MemoryStore, NodeStore};
use povmeter_substrate::state_version;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A block in fresh memory and in that of earlier blocks.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PoolReport {
    /// Whether both have the same root, changes and proof.
    pub same_block: bool,
    /// Whether all sizes on the way are the same.
    pub same_sizes: bool,
    /// Extrinsics that are counted: all but the first, which sets the time.
    pub extrinsics: u32,
    /// Allocations of a block in fresh memory.
    pub fresh: PoolRow,
    /// Allocations of a block in the memory of the block before, which was handed back: the mean of some blocks.
    pub pooled: PoolRow,
    /// As `pooled`, if a store keeps the new nodes, and with them their memory.
    pub kept: PoolRow,
    /// All bytes that the pooled block allocates, in percent of the fresh one's.
    pub bytes_percent: f64,
    /// As `bytes_percent`, if a store keeps the new nodes.
    pub kept_percent: f64,
}

/// What one block allocates.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct PoolRow {
    /// Allocations for each extrinsic, with the estimate after it.
    pub allocations_per_extrinsic: f64,
    /// Allocations until the block is sealed.
    pub allocations: f64,
    /// Bytes until the block is sealed.
    pub bytes: f64,
    /// Bytes of sealing it: root, changes and proof.
    pub bytes_of_sealing: f64,
}

impl PoolRow {
    /// The mean of `rows`.
    fn mean(rows: &[Self]) -> Self {
        let mean = |of: fn(&Self) -> f64| rows.iter().map(of).sum::<f64>() / rows.len() as f64;
        Self {
            allocations_per_extrinsic: mean(|row| row.allocations_per_extrinsic),
            allocations: mean(|row| row.allocations),
            bytes: mean(|row| row.bytes),
            bytes_of_sealing: mean(|row| row.bytes_of_sealing),
        }
    }

    /// Bytes of the whole block, in percent of `fresh`.
    fn percent_of(&self, fresh: &Self) -> f64 {
        let all = |row: &Self| row.bytes + row.bytes_of_sealing;
        all(self) / all(fresh) * 100.0
    }
}

/// Number of blocks before the measurement, which allocate the memory.
const FIRST: usize = 3;
/// Number of measured blocks. Several, because copies of loaded nodes are allocated in large pieces.
const MEASURED: usize = 8;

/// Why the recorded block could not be replayed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PoolError {
    /// The parent state cannot be made.
    #[error("the parent state of the recorded block cannot be made: {0}")]
    State(#[from] StateError),
    /// A call failed.
    #[error("the recorded block cannot be replayed: {0}")]
    Block(#[from] BlockError),
    /// A call had another result than the recorded one.
    #[error("expected the recorded result of `{0}`, found another")]
    Differs(String),
    /// The trace does not ask for a root.
    #[error("expected a recorded block that asks for its root, found none")]
    NoRoot,
    /// The trace has a call that blocks of transfers do not make.
    #[error("expected a block of transfers, found `{0}`")]
    Unknown(String),
}

/// Returns the allocations of the block of `trace`, replayed in fresh memory and in pooled memory.
///
/// # Errors
/// [`PoolError`] if the replay fails or a result differs.
pub fn measure_pool(
    trace: &Trace,
    allocated: &dyn Fn() -> Allocated,
) -> Result<PoolReport, PoolError> {
    let version = trace.version.ok_or(PoolError::NoRoot)?;
    let mut store = MemoryStore::new();
    commit_state(&mut store, &trace.top, &trace.children, version, None)?;
    let recorded = Recorded {
        store,
        records: &trace.records,
        version: state_version(version),
        allocated,
    };
    let fresh = recorded.replay(&BlockPool::new())?;
    let mut report = PoolReport {
        same_block: true,
        same_sizes: true,
        extrinsics: fresh.extrinsics,
        fresh: fresh.row,
        pooled: PoolRow::default(),
        kept: PoolRow::default(),
        bytes_percent: 0.0,
        kept_percent: 0.0,
    };
    let expected = format!("{:?}", fresh.sealed);
    report.pooled = recorded.pooled(|block| {
        report.same_block &= format!("{:?}", block.sealed) == expected;
        report.same_sizes &= block.sizes == fresh.sizes;
    })?;
    let mut nodes = Vec::new();
    report.kept = recorded.pooled(|block| {
        let update = block.sealed.update();
        let first = update.inserted().next();
        nodes.extend(first.map(|node| update.nodes.share(node.encoded)));
    })?;
    report.bytes_percent = report.pooled.percent_of(&report.fresh);
    report.kept_percent = report.kept.percent_of(&report.fresh);
    Ok(report)
}

/// A recorded block and its parent state.
struct Recorded<'a> {
    store: MemoryStore,
    records: &'a [TraceRecord],
    version: StateVersion,
    allocated: &'a dyn Fn() -> Allocated,
}

/// The result of a replay.
struct Replayed {
    sealed: SealedBlock,
    sizes: Vec<ProofSize>,
    extrinsics: u32,
    row: PoolRow,
}

impl Recorded<'_> {
    /// Replays blocks, each in the memory of the one before. `look` gets every block; the first [`FIRST`] are
    /// not measured.
    fn pooled(&self, mut look: impl FnMut(&Replayed)) -> Result<PoolRow, PoolError> {
        let pool = BlockPool::new();
        let mut rows = Vec::new();
        for number in 0..FIRST + MEASURED {
            let block = self.replay(&pool)?;
            look(&block);
            if number >= FIRST {
                rows.push(block.row);
            }
            let before = (self.allocated)().bytes;
            pool.recycle(block.sealed);
            if let Some(row) = rows.last_mut() {
                row.bytes_of_sealing += ((self.allocated)().bytes - before) as f64;
            }
        }
        Ok(PoolRow::mean(&rows))
    }

    fn replay(&self, pool: &BlockPool) -> Result<Replayed, PoolError> {
        // Allocate the full length now, so that it is not counted.
        let mut sizes = Vec::with_capacity(self.records.len());
        let start = (self.allocated)();
        let mut block = pool.block(&self.store, self.store.root());
        let (mut extrinsics, mut first, mut last) = (0, start, start);
        for record in self.records {
            match record {
                TraceRecord::Extrinsic(1..) => {
                    if extrinsics == 0 {
                        first = (self.allocated)();
                    }
                    extrinsics += 1;
                }
                TraceRecord::Call(Op::HostCommit, _) => {
                    block.commit_transaction()?;
                    sizes.push(block.proof_size()?);
                    last = (self.allocated)();
                }
                TraceRecord::Call(op, answer) => make(&mut block, op, answer)?,
                _ => {}
            }
        }
        let before = (self.allocated)();
        let sealed = block.seal(self.version).map_err(BlockError::from)?;
        let row = PoolRow {
            allocations_per_extrinsic: (last.calls - first.calls) as f64 / f64::from(extrinsics),
            allocations: (before.calls - start.calls) as f64,
            bytes: (before.bytes - start.bytes) as f64,
            bytes_of_sealing: ((self.allocated)().bytes - before.bytes) as f64,
        };
        Ok(Replayed {
            sealed,
            sizes,
            extrinsics,
            row,
        })
    }
}

/// Makes one call and compares its result with the recorded one, without a copy of it, because that
/// would be an allocation.
fn make(block: &mut Block<&MemoryStore>, op: &Op, answer: &Answer) -> Result<(), PoolError> {
    match op {
        Op::Enter => block.enter_runtime()?,
        Op::Exit => drop(block.exit_runtime()?),
        Op::HostStart | Op::Start => block.start_transaction(),
        Op::HostCommit | Op::Commit => block.commit_transaction()?,
        Op::HostRollback | Op::Rollback => block.rollback_transaction()?,
        Op::Set { trie, key, value } => block.set(trie.id(), key, value)?,
        Op::Remove { trie, key } => block.remove(trie.id(), key)?,
        Op::Append { trie, key, element } => block.append(trie.id(), key, element)?,
        // Not compared, because the trace does not hold our sizes.
        Op::Boundary => drop(block.proof_size()?),
        // Skipped, because sealing computes the root at the end of the block.
        Op::Root => {}
        _ => return read(block, op, answer),
    }
    Ok(())
}

/// [`make`], for the calls that return something.
fn read(block: &mut Block<&MemoryStore>, op: &Op, answer: &Answer) -> Result<(), PoolError> {
    let as_recorded = match (op, answer) {
        (Op::Get { trie, key }, Answer::Value(value)) => {
            block.get(trie.id(), key)? == value.as_deref()
        }
        (Op::Exists { trie, key }, Answer::Exists(exists)) => {
            block.exists(trie.id(), key)? == *exists
        }
        (Op::Next { trie, key }, Answer::Key(next)) => block.next_key(trie.id(), key)? == *next,
        (
            Op::Clear {
                trie,
                prefix,
                limit,
                cursor,
            },
            Answer::Removed {
                cursor: next,
                unique,
                ..
            },
        ) => {
            let found = block.clear_prefix(trie.id(), prefix, *limit, cursor.as_deref())?;
            found.cursor == *next && found.unique == *unique
        }
        _ => return Err(PoolError::Unknown(op.to_string())),
    };
    if as_recorded {
        Ok(())
    } else {
        Err(PoolError::Differs(op.to_string()))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_as_recorded_is_an_error() {
        let replay = |lines: &[&str]| {
            let trace: Trace = lines.join("\n").parse().unwrap();
            measure_pool(&trace, &Allocated::default)
        };
        let root = format!("root 01 {}", "00".repeat(32));
        let block = [
            "genesis 01 02",
            "tx 1",
            "host-start",
            "get 01 02",
            "host-commit",
            &root,
        ];
        let report = replay(&block).unwrap();
        assert!(report.same_block && report.same_sizes);
        assert_eq!(report.extrinsics, 1);
        let wrong = ["genesis 01 02", "get 01 03", &root];
        assert!(matches!(replay(&wrong), Err(PoolError::Differs(call)) if call == "get top 0x01"));
        assert!(matches!(replay(&["get 01 -"]), Err(PoolError::NoRoot)));
    }
}
