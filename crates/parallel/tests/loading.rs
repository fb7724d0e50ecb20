//! Which nodes are loaded for transactions that are executed ahead.

#![allow(clippy::unwrap_used)]

use bytes::Bytes;
use povmeter::{
    Block, BlockError, NodeBatch, NodeHash, NodePrefix, NodeSource, ProofSize, Root, SourceError,
    StateVersion::V1, TrieId::Top,
};
use povmeter_parallel::{Executor, Interrupt, Parallel, ParallelError, Strategy, View};
use povmeter_store::{MemoryStore, NodeStore};
use std::{collections::BTreeSet, num::NonZeroUsize, sync::Mutex};

const TRANSACTIONS: u32 = 64;

fn key(number: u32) -> [u8; 8] {
    u64::from(number)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .to_be_bytes()
}

/// Reads a key that no other transaction touches, and the key that the transaction before has written; writes a key
/// without reading it.
struct Chain;

impl Executor for Chain {
    type Worker = ();
    type Output = ();

    fn worker(&self) {}

    fn execute(&self, (): &mut (), index: u32, view: &mut View<'_>) -> Result<(), Interrupt> {
        assert!(view.get(Top, &key(2 * index))?.is_some());
        if let Some(before) = index.checked_sub(1) {
            let written = view.get(Top, &key(2 * before + 1))?;
            assert_eq!(written, Some(&before.to_le_bytes()[..]));
        }
        Ok(view.set(Top, &key(2 * index + 1), &index.to_le_bytes())?)
    }
}

/// A store that notes which nodes it is asked for, and may lack one node.
struct Noting<'s> {
    store: &'s MemoryStore,
    /// The nodes of each call.
    calls: Mutex<Vec<Vec<NodeHash>>>,
    lost: Option<NodeHash>,
}

impl<'s> Noting<'s> {
    fn new(store: &'s MemoryStore, lost: Option<NodeHash>) -> Self {
        Self {
            store,
            calls: Mutex::default(),
            lost,
        }
    }
}

impl NodeSource for &Noting<'_> {
    fn node(&self, hash: &NodeHash, prefix: NodePrefix<'_>) -> Result<Option<Bytes>, SourceError> {
        match self.lost {
            Some(lost) if lost == *hash => Ok(None),
            _ => self.store.node(hash, prefix),
        }
    }

    fn nodes(&self, batch: &mut NodeBatch<'_>) {
        let asked = batch.open().map(|index| batch.request(index).hash);
        self.calls.lock().unwrap().push(asked.collect());
        for index in batch.open() {
            let request = batch.request(index);
            batch.answer(index, self.node(&request.hash, request.prefix));
        }
    }
}

fn parent_state() -> MemoryStore {
    let mut store = MemoryStore::new();
    let mut block = Block::new(&store, Root::EMPTY);
    for number in 0..2 * TRANSACTIONS {
        // Each value is a node of its own.
        let value = number.to_le_bytes().repeat(10);
        block.set(Top, &key(number), &value).unwrap();
    }
    store.commit(block.seal(V1).unwrap().update()).unwrap();
    store
}

/// Executes all transactions on a block, one after the other.
fn in_order(source: &Noting<'_>) -> Result<(Root, Vec<ProofSize>), (u32, String)> {
    let mut block = Block::new(source, source.store.root());
    let mut sizes = Vec::new();
    for index in 0..TRANSACTIONS {
        block.start_transaction();
        let executed = (|| {
            block.get(Top, &key(2 * index))?;
            if let Some(before) = index.checked_sub(1) {
                block.get(Top, &key(2 * before + 1))?;
            }
            block.set(Top, &key(2 * index + 1), &index.to_le_bytes())?;
            block.commit_transaction()?;
            block.proof_size()
        })();
        sizes.push(executed.map_err(|error: BlockError| (index, error.to_string()))?);
    }
    Ok((block.seal(V1).unwrap().update().root, sizes))
}

/// As [`in_order`], but the thread of the block executes each transaction ahead of its turn. Other threads would read
/// from `others`.
fn ahead<'s>(
    source: &Noting<'s>,
    others: &Noting<'s>,
) -> Result<(Root, Vec<ProofSize>), (u32, String)> {
    let mut block = Block::new(source, source.store.root());
    let parallel = Parallel::new(NonZeroUsize::MIN).with_strategy(Strategy::EachAhead);
    let batch = match parallel.execute(&mut block, &others, &Chain, TRANSACTIONS) {
        Ok(batch) => batch,
        Err(ParallelError::Block { index, error }) => return Err((index, error.to_string())),
        Err(other) => panic!("{other}"),
    };
    assert_eq!(batch.statistics.ahead, u64::from(TRANSACTIONS));
    let sizes = batch.transactions.iter().map(|executed| executed.size);
    let sizes = sizes.collect();
    Ok((block.seal(V1).unwrap().update().root, sizes))
}

#[test]
fn the_thread_of_the_block_loads_each_node_once() {
    let store = parent_state();
    let [plain, block, others] = [0; 3].map(|_| Noting::new(&store, None));
    assert_eq!(ahead(&block, &others), in_order(&plain));
    let nodes = |source: Noting<'_>| {
        let mut nodes = source.calls.into_inner().unwrap().concat();
        nodes.sort_unstable();
        nodes
    };
    assert_eq!(nodes(block), nodes(plain));
    assert_eq!(nodes(others), []);
}

/// Loading ahead causes no error in a transaction that does not need the node.
#[test]
fn a_missing_node_is_an_error_of_the_transaction_that_needs_it() {
    let store = parent_state();
    let all = Noting::new(&store, None);
    in_order(&all).unwrap();
    let nodes = std::mem::take(&mut *all.calls.lock().unwrap()).concat();
    let mut failed = BTreeSet::new();
    for lost in nodes {
        let [plain, block] = [0; 2].map(|_| Noting::new(&store, Some(lost)));
        let expected = in_order(&plain).unwrap_err();
        failed.insert(expected.0);
        assert_eq!(ahead(&block, &all).unwrap_err(), expected);
    }
    assert!(failed.len() > 30, "{failed:?}");
}
