//! Whole blocks, with every lock and atomic of the crate.

use super::try_orders;
use crate::{Addition, CounterWidth, Ending, Executor, Interrupt, Parallel, Strategy, View};
use povmeter::{Block, ProofSize, Root, StateVersion::V1, TrieId::Top};
use povmeter_store::{MemoryStore, NodeStore};
use std::{num::NonZeroUsize, sync::OnceLock};

/// Six transactions: reads and writes of a key that others change, additions, a list, a step through the keys, a
/// deletion, a failure, and questions for the size, which wait for the turn.
struct Program;

const TRANSACTIONS: u32 = 6;

impl Executor for Program {
    type Worker = ();
    type Output = Vec<u8>;

    fn worker(&self) {}

    fn execute(&self, (): &mut (), index: u32, view: &mut View<'_>) -> Result<Vec<u8>, Interrupt> {
        let seen = view.get(Top, b"shared")?.unwrap_or_default().to_vec();
        view.add(Top, b"count", Addition::new(CounterWidth::U32, 1))?;
        view.append(Top, b"events", &[index.to_le_bytes()[0]])?;
        if index.is_multiple_of(2) {
            view.proof_size()?;
        }
        match index {
            0 | 3 => view.set(Top, b"shared", &[seen.as_slice(), b"+"].concat())?,
            1 => view.remove(Top, b"key 2")?,
            2 => {
                let next = view.next_key(Top, b"key 1")?;
                return Ok(next.unwrap_or_default());
            }
            4 => return Err(Interrupt::failed("expected")),
            _ => {
                let count = view.get(Top, b"count")?.unwrap_or_default().to_vec();
                return Ok(count);
            }
        }
        Ok(seen)
    }
}

type Outcome = (Vec<(Option<Vec<u8>>, ProofSize)>, Root, ProofSize);

fn store() -> &'static MemoryStore {
    static STORE: OnceLock<MemoryStore> = OnceLock::new();
    STORE.get_or_init(|| {
        let mut store = MemoryStore::new();
        let mut block = Block::new(&store, Root::EMPTY);
        for key in ["key 1", "key 2", "key 3", "shared"] {
            block.set(Top, key.as_bytes(), &[7; 40]).unwrap();
        }
        let sealed = block.seal(V1).unwrap();
        store.commit(sealed.update()).unwrap();
        store
    })
}

fn execute(parallel: Parallel) -> Outcome {
    let store = store();
    let mut block = Block::new(store, store.root());
    let batch = parallel.execute(&mut block, store, &Program, TRANSACTIONS);
    let transactions = batch.unwrap().transactions.into_iter();
    let endings = transactions.map(|executed| match executed.ending {
        Ending::Kept(output) => (Some(output), executed.size),
        Ending::LeftOut(_) | Ending::Trapped(_) => (None, executed.size),
    });
    let endings = endings.collect();
    let sealed = block.seal(V1).unwrap();
    (endings, sealed.update().root, sealed.size())
}

fn compare(workers: usize, strategy: Strategy) {
    static IN_ORDER: OnceLock<Outcome> = OnceLock::new();
    let parallel = Parallel::new(NonZeroUsize::new(workers).unwrap()).with_strategy(strategy);
    let found = execute(parallel);
    let in_order = IN_ORDER.get_or_init(|| execute(Parallel::new(NonZeroUsize::MIN)));
    assert_eq!(found, *in_order);
}

#[test]
fn two_workers() {
    try_orders(1_000, || compare(2, Strategy::Always));
}

#[test]
fn three_workers() {
    try_orders(500, || compare(3, Strategy::Always));
    try_orders(500, || compare(3, Strategy::EachAhead));
    try_orders(500, || compare(3, Strategy::Prepare));
}
