//! Random transactions, executed through a view and on a plain block.

#![allow(clippy::unwrap_used, dead_code, unreachable_pub)]

pub mod plain;
pub mod program;

use plain::Sequential;
use povmeter::{Block, NodeSource, ProofSize, Root, StateVersion::V1, TrieId};
use povmeter_parallel::{Batch, Ending, Parallel};
use povmeter_store::{MemoryStore, NodeStore};
use program::{Programs, CHILD, KEYS};
use std::sync::Once;

/// The outcome of a block, which must be equal for all executions.
#[derive(Debug, PartialEq, Eq)]
pub struct Outcome {
    /// What became of each transaction, and the size after it.
    pub transactions: Vec<(String, ProofSize)>,
    pub root: Root,
    pub changes: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    pub child_changes: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    pub proof: Vec<Vec<u8>>,
}

/// Hides the messages of panics that are part of the tests: of transactions, and of sources. Other panics have theirs.
pub fn quiet() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let text = panic.payload().downcast_ref::<String>();
            let expected = |text: &String| {
                ["transaction ", "source "]
                    .iter()
                    .any(|of| text.starts_with(of))
            };
            if !text.is_some_and(expected) {
                usual(panic);
            }
        }));
    });
}

/// A state with values of several lengths under every second key, in the top trie and in a child trie.
pub fn parent_state() -> MemoryStore {
    let mut store = MemoryStore::new();
    let mut block = Block::new(&store, Root::EMPTY);
    for key in (0..KEYS).step_by(2) {
        let name = program::key(key);
        let value = vec![key.to_le_bytes()[0]; [4, 16, 40, 300][key % 4]];
        for trie in [TrieId::Top, TrieId::Child(CHILD)] {
            block.set(trie, &name, &value).unwrap();
        }
    }
    for counter in 0..3 {
        let name = program::counter(counter);
        block
            .set(TrieId::Top, &name, &1_000_u128.to_le_bytes())
            .unwrap();
    }
    let sealed = block.seal(V1).unwrap();
    store.commit(sealed.update()).unwrap();
    store
}

/// Returns a block with changes made before its first transaction.
fn begun(store: &MemoryStore) -> Block<&MemoryStore> {
    let mut block = Block::new(store, store.root());
    block
        .set(TrieId::Top, &program::key(0), b"set before")
        .unwrap();
    block.remove(TrieId::Top, &program::key(2)).unwrap();
    block.append(TrieId::Top, b"events", b"begun").unwrap();
    block
        .set(TrieId::Top, program::POSITION, &0_u32.to_le_bytes())
        .unwrap();
    block.proof_size().unwrap();
    block
}

fn outcome(transactions: Vec<(String, ProofSize)>, block: Block<&MemoryStore>) -> Outcome {
    let sealed = block.seal(V1).unwrap();
    let owned = |(key, value): povmeter::Change<'_>| (key.to_vec(), value.map(<[u8]>::to_vec));
    Outcome {
        transactions,
        root: sealed.update().root,
        changes: sealed.top_changes().map(owned).collect(),
        child_changes: sealed
            .child_changes()
            .flat_map(|(_, changes)| changes.map(owned))
            .collect(),
        proof: sealed
            .proof()
            .nodes()
            .iter()
            .map(|node| node.to_vec())
            .collect(),
    }
}

/// Executes `programs` on a plain block, one after the other.
pub fn sequential(store: &MemoryStore, programs: &Programs) -> Outcome {
    let mut block = begun(store);
    let transactions = Sequential(&mut block).run(programs);
    outcome(transactions, block)
}

/// Executes `programs` in parallel, and gives `parallel` the experience of this block.
pub fn parallel(store: &MemoryStore, programs: &Programs, parallel: &mut Parallel) -> Outcome {
    parallel_beside(store, store, programs, parallel)
}

/// As [`parallel`], but the other threads read from `source`.
pub fn parallel_beside(
    store: &MemoryStore,
    source: &(impl NodeSource + Sync),
    programs: &Programs,
    parallel: &mut Parallel,
) -> Outcome {
    let mut block = begun(store);
    let count = u32::try_from(programs.len()).unwrap();
    let decide = |decided: povmeter_parallel::Decided<'_, u64>| {
        programs.verdict(decided.index, decided.size)
    };
    let batch = parallel
        .execute_if(&mut block, source, programs, count, decide)
        .unwrap();
    *parallel = parallel.with_experience(batch.experience);
    outcome(described(batch), block)
}

fn described(batch: Batch<u64>) -> Vec<(String, ProofSize)> {
    let ending = |ending: Ending<u64>| match ending {
        Ending::Kept(output) => format!("kept {output}"),
        Ending::LeftOut(output) => format!("left out {output}"),
        Ending::Trapped(trap) => format!("trapped: {trap}"),
    };
    let transactions = batch.transactions.into_iter();
    transactions
        .map(|executed| (ending(executed.ending), executed.size))
        .collect()
}
