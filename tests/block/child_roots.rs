//! Roots of child tries in the middle of a block that counts as sp-state-machine does: whoever has the proof alone gets
//! the same sizes and roots.

use povmeter::{
    Accounting, Attributed, Block, BlockError, Consensus, LoadError, NodeSource, Root,
    StateVersion::V1,
    TrieId::{self, Child, Top},
};
use povmeter_store::{MemoryStore, NodeStore};
use rand::{rngs::SmallRng, Rng, SeedableRng};

const POOLS: [&[u8]; 2] = [b"pool", b"second"];

fn state() -> MemoryStore {
    let mut store = MemoryStore::new();
    let mut block = Block::new(&store, Root::EMPTY);
    for trie in [Top, Child(POOLS[0]), Child(POOLS[1])] {
        for key in [0x1a, 0x1b, 0x1c, 0x2d, 0x2e] {
            block.set(trie, &[key], &[key; 40]).unwrap();
        }
    }
    let sealed = block.seal(V1).unwrap();
    store.commit(sealed.update()).unwrap();
    store
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Get(usize, u8),
    Set(usize, u8),
    Remove(usize, u8),
    Start,
    Commit,
    Rollback,
    Size,
    /// Only by the author.
    Peek,
    ChildRoot(usize),
    Root,
}

fn random_op(rng: &mut SmallRng) -> Op {
    let trie = rng.random_range(0..3);
    let key = [0x1a, 0x1b, 0x1c, 0x1d, 0x2d, 0x2e][rng.random_range(0..6)];
    match rng.random_range(0..20) {
        0..2 => Op::Get(trie, key),
        2..5 => Op::Set(trie, key),
        5..9 => Op::Remove(trie, key),
        9..12 => Op::Start,
        12 => Op::Commit,
        13..15 => Op::Rollback,
        15 => Op::Size,
        16 => Op::Peek,
        17..19 => Op::ChildRoot(trie.min(1)),
        _ => Op::Root,
    }
}

/// Executes `ops` in a call of the runtime. Returns what they answered.
fn execute<S: NodeSource, A: Accounting>(
    block: &mut Block<S, A>,
    ops: &[Op],
    peeks: bool,
) -> Result<Vec<String>, BlockError> {
    let trie = |number: usize| [Top, Child(POOLS[0]), Child(POOLS[1])][number];
    block.count_roots_in_key_order();
    block.enter_runtime()?;
    let mut answers = Vec::new();
    for op in ops {
        match *op {
            Op::Get(at, key) => answers.push(format!("{:?}", block.get(trie(at), &[key])?)),
            Op::Set(at, key) => block.set(trie(at), &[key], b"new")?,
            Op::Remove(at, key) => block.remove(trie(at), &[key])?,
            Op::Start => block.start_transaction(),
            Op::Commit => drop(block.commit_transaction()),
            Op::Rollback => drop(block.rollback_transaction()),
            Op::Size => answers.push(format!("{:?}", block.proof_size()?)),
            Op::Peek if peeks => drop(block.peek_proof_size()?),
            Op::Peek => {}
            Op::ChildRoot(child) => {
                answers.push(format!("{:?}", block.child_root(POOLS[child], V1)?));
            }
            Op::Root => answers.push(format!("{:?}", block.root(V1)?.root)),
        }
    }
    block.exit_runtime()?;
    Ok(answers)
}

fn author_and_validator<A: Accounting>(store: &MemoryStore, ops: &[Op]) {
    let mut block = Block::with_accounting(store, store.root(), A::default());
    let answers = execute(&mut block, ops, true).unwrap();
    let sealed = block.seal(V1).unwrap();
    let source = sealed.proof().to_source();
    let mut block = Block::with_accounting(source, store.root(), A::default());
    let again = execute(&mut block, ops, false).unwrap_or_else(|error| panic!("{error}: {ops:?}"));
    assert_eq!(again, answers, "{ops:?}");
    let again = block.seal(V1).unwrap();
    assert_eq!(again.update().root, sealed.update().root, "{ops:?}");
    assert_eq!(again.size(), sealed.size(), "{ops:?}");
}

/// After a size, the keys of other tries were walked to, which nobody counted, although the root does not need them.
#[test]
fn a_childs_root_loads_nothing_for_other_tries() {
    let store = state();
    for size in [Op::Size, Op::Peek] {
        for other in [Op::Set(0, 0x1a), Op::Set(2, 0x1a)] {
            let ops = [
                size,
                Op::Start,
                other,
                Op::Set(1, 0x1a),
                Op::ChildRoot(0),
                Op::Rollback,
            ];
            author_and_validator::<Consensus>(&store, &ops);
            author_and_validator::<Attributed<Consensus>>(&store, &ops);
        }
    }
}

#[test]
fn the_proof_of_random_blocks_is_enough() {
    let store = state();
    for seed in 0..3_000 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let ops: Vec<_> = (0..rng.random_range(1..30))
            .map(|_| random_op(&mut rng))
            .collect();
        author_and_validator::<Consensus>(&store, &ops);
        author_and_validator::<Attributed<Consensus>>(&store, &ops);
    }
}

/// The parent state has something else than a root at the key of a child.
#[test]
fn a_child_without_a_root_counts_nothing() {
    let mut store = MemoryStore::new();
    let key = [b":child_storage:default:", POOLS[0]].concat();
    let mut state = povmeter_delta_root::ShadowState::new(&store, Root::EMPTY);
    let changes = povmeter_delta_root::Changes {
        top: vec![(&key, Some(&[7; 40])), (b"other", Some(&[8; 40]))],
        children: vec![],
    };
    let update = povmeter_delta_root::state_update(&mut state, &changes, V1, &mut ()).unwrap();
    store.commit(&update).unwrap();
    let mut block = Block::new(&store, store.root());
    let id = TrieId::Child(POOLS[0]);
    for error in [
        block.child_root(POOLS[0], V1).unwrap_err(),
        block.get(id, b"key").map(drop).unwrap_err(),
    ] {
        assert!(
            matches!(
                error,
                BlockError::Load(LoadError::ChildRoot { found: 40, .. })
            ),
            "{error:?}"
        );
    }
    assert_eq!(block.recorded_size().total_bytes(), 0);
    assert_eq!(block.recorded_proof().recorded_bytes(), 0);
}
