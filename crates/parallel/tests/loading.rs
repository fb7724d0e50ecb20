//! Which nodes are loaded for transactions that are executed ahead.

#![allow(clippy::unwrap_used)]

use bytes::Bytes;
use povmeter::{
    Block, BlockError, NodeBatch, NodeHash, NodePrefix, NodeSource, ProofSize, Root, SourceError,
    StateVersion::V1, TrieId::Top,
};
use povmeter_delta_root::Blake2b256;
use povmeter_parallel::{Executor, Interrupt, Parallel, ParallelError, Strategy, View};
use povmeter_store::{MemoryStore, NodeStore};
use std::{
    collections::BTreeSet,
    num::NonZeroUsize,
    sync::{
        atomic::{AtomicBool, Ordering::Relaxed},
        Mutex,
    },
};

const TRANSACTIONS: u32 = 64;

fn key(number: u32) -> [u8; 8] {
    u64::from(number)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .to_be_bytes()
}

/// Reads a key that no other transaction touches, and the key that the transaction before has written; writes a key
/// without reading it. Begins with the transaction of its number.
struct Chain(u32);

impl Executor for Chain {
    type Worker = ();
    type Output = ();

    fn worker(&self) {}

    fn execute(&self, (): &mut (), index: u32, view: &mut View<'_>) -> Result<(), Interrupt> {
        let index = self.0 + index;
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
    /// Whether the lost node was found again.
    found: AtomicBool,
}

impl<'s> Noting<'s> {
    fn new(store: &'s MemoryStore, lost: Option<NodeHash>) -> Self {
        Self {
            store,
            calls: Mutex::default(),
            lost,
            found: AtomicBool::new(false),
        }
    }
}

impl NodeSource for &Noting<'_> {
    fn node(&self, hash: &NodeHash, prefix: NodePrefix<'_>) -> Result<Option<Bytes>, SourceError> {
        match self.lost {
            Some(lost) if lost == *hash && !self.found.load(Relaxed) => Ok(None),
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
    let batch = match parallel.execute(&mut block, &others, &Chain(0), TRANSACTIONS) {
        Ok(batch) => batch,
        Err(failed) => match failed.into_parts() {
            (before, ParallelError::Block { index, error }) => {
                assert_eq!(before.transactions.len(), index as usize);
                return Err((index, error.to_string()));
            }
            (_, other) => panic!("{other}"),
        },
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

/// The block is as the batch before the error says, so it can go on once its source has the node.
#[test]
fn a_block_continues_after_an_error() {
    const FAILS: u32 = 40;
    let store = parent_state();
    let plain = Noting::new(&store, None);
    let expected = in_order(&plain).unwrap();
    let value = (2 * FAILS).to_le_bytes().repeat(10);
    for (workers, strategy) in [
        (1, Strategy::EachAhead),
        (3, Strategy::Always),
        (3, Strategy::Adaptive),
        (2, Strategy::Prepare),
    ] {
        let source = Noting::new(&store, Some(Blake2b256::hash(&value)));
        let mut block = Block::new(&source, store.root());
        let parallel = Parallel::new(NonZeroUsize::new(workers).unwrap()).with_strategy(strategy);
        let failed = parallel.execute(&mut block, &&source, &Chain(0), TRANSACTIONS);
        let failed = failed.unwrap_err();
        assert_eq!(failed.to_string(), failed.error().to_string());
        assert!(
            format!("{failed:?}").contains("transactions: 40"),
            "{failed:?}"
        );
        let (before, error) = failed.into_parts();
        assert!(
            matches!(error, ParallelError::Block { index: FAILS, .. }),
            "{error}"
        );
        source.found.store(true, Relaxed);
        let rest = parallel.execute(&mut block, &&source, &Chain(FAILS), TRANSACTIONS - FAILS);
        let all = before
            .transactions
            .into_iter()
            .chain(rest.unwrap().transactions);
        let sizes = all.map(|executed| executed.size).collect();
        let root = block.seal(V1).unwrap().update().root;
        assert_eq!((root, sizes), expected, "{strategy:?}");
    }
}

/// A commit would open a transaction of the runtime, whose rollback undoes no counts.
#[test]
fn a_block_within_a_call_of_the_runtime_is_refused() {
    let store = parent_state();
    let source = Noting::new(&store, None);
    for strategy in [Strategy::EachAhead, Strategy::Always, Strategy::Prepare] {
        for transactions in [0, TRANSACTIONS] {
            let mut block = Block::new(&source, store.root());
            block.enter_runtime().unwrap();
            let parallel = Parallel::new(NonZeroUsize::new(2).unwrap()).with_strategy(strategy);
            let refused = parallel.execute(&mut block, &&source, &Chain(0), transactions);
            let (batch, error) = refused.unwrap_err().into_parts();
            assert!(batch.transactions.is_empty());
            assert!(matches!(error, ParallelError::InRuntime(_)), "{error}");
            assert_eq!(block.transaction_depth(), 0);
            block.exit_runtime().unwrap();
            parallel
                .execute(&mut block, &&source, &Chain(0), transactions)
                .unwrap();
        }
    }
}
