//! Changes taken over by a block on another parent state, and recorded nodes handed to a host.

use crate::{accounts, key};
use povmeter::{
    Accounting, Advisory, Block, BlockPool, Consensus, NodeSource, Root, SealedBlock, SeenNodes,
    StateVersion, TrieId,
};
use povmeter_store::NodeStore;
use rand::{rngs::SmallRng, Rng, SeedableRng};
use std::collections::HashSet;

const TOP: TrieId<'_> = TrieId::Top;
const CHILD: TrieId<'_> = TrieId::Child(b"child");

/// One write or one step of transactions.
#[derive(Clone, Copy, Debug)]
enum Step {
    Set(TrieId<'static>, u32),
    Remove(TrieId<'static>, u32),
    Start,
    Commit,
    RollBack,
    Size,
}

fn step(random: &mut SmallRng) -> Step {
    let trie = if random.random_bool(0.7) { TOP } else { CHILD };
    match random.random_range(0..10) {
        0..=2 => Step::Set(trie, random.random_range(0..300)),
        3..=5 => Step::Remove(trie, random.random_range(0..300)),
        6 => Step::Start,
        7 => Step::Commit,
        8 => Step::RollBack,
        _ => Step::Size,
    }
}

fn take<S: NodeSource>(block: &mut Block<S>, step: Step, ask: bool) {
    match step {
        Step::Set(trie, number) => block.set(trie, &key(number), &[9; 40]).unwrap(),
        Step::Remove(trie, number) => block.remove(trie, &key(number)).unwrap(),
        Step::Start => block.start_transaction(),
        // There may be none to close.
        Step::Commit => drop(block.commit_transaction()),
        Step::RollBack => drop(block.rollback_transaction()),
        Step::Size if ask => drop(block.proof_size().unwrap()),
        Step::Size => {}
    }
}

#[test]
fn changes_taken_over_are_as_if_made_here() {
    let (small, large) = (accounts(50), accounts(250));
    let pool = BlockPool::new();
    for seed in 0..300 {
        let mut random = SmallRng::seed_from_u64(seed);
        let steps: Vec<Step> = (0..60).map(|_| step(&mut random)).collect();
        let (before, after) = steps.split_at(random.random_range(0..60));
        let mut first = Block::new(&small, small.root());
        let mut expected = pool.block(&large, large.root());
        if seed % 2 == 0 {
            first.enter_runtime().unwrap();
            expected.enter_runtime().unwrap();
        }
        let mut found = Block::new(&large, large.root());
        match seed % 3 {
            0 => {
                found.set(TOP, b"left over", b"x").unwrap();
                found.proof_size().unwrap();
                found.start_transaction();
            }
            1 => {
                (0..20).for_each(|_| take(&mut found, step(&mut random), false));
                found.peek_proof_size().unwrap();
            }
            _ => {}
        }
        for step in before {
            take(&mut first, *step, true);
            // Sizes computed on the other state leave no trace here.
            take(&mut expected, *step, false);
        }
        found.copy_changes(&first);
        assert_eq!(found.transaction_depth(), expected.transaction_depth());
        for step in after {
            take(&mut found, *step, true);
            take(&mut expected, *step, true);
            if matches!(step, Step::Size) {
                let (found, expected) = (found.recorded_size(), expected.recorded_size());
                assert_eq!(found, expected, "seed {seed}");
            }
        }
        let (size, expected_size) = (found.proof_size(), expected.proof_size());
        assert_eq!(size.unwrap(), expected_size.unwrap(), "seed {seed}");
        let version = StateVersion::V1;
        let root = expected.root(version).unwrap().clone();
        assert_eq!(*found.root(version).unwrap(), root, "seed {seed}");
    }
}

/// Keys whose changes were rolled back are taken over, too. The new block loads no node for their child trie, so a validator
/// can repeat this with the proof alone.
#[test]
fn rolled_back_changes_load_nothing() {
    let mut store = accounts(250);
    let mut block = Block::new(&store, store.root());
    block.set(CHILD, &key(1), &[7; 40]).unwrap();
    let sealed = block.seal(StateVersion::V1).unwrap();
    store.commit(sealed.update()).unwrap();

    let empty = accounts(0);
    let mut rolled_back = Block::new(&empty, empty.root());
    rolled_back.start_transaction();
    rolled_back.set(CHILD, &key(2), &[9; 40]).unwrap();
    rolled_back.rollback_transaction().unwrap();
    fn on<S: NodeSource>(source: S, root: Root, other: &Block<impl NodeSource>) -> SealedBlock {
        let mut block = Block::new(source, root);
        block.copy_changes(other);
        block.set(TOP, &key(3), &[9; 40]).unwrap();
        block.proof_size().unwrap();
        block.seal(StateVersion::V1).unwrap()
    }
    let author = on(&store, store.root(), &rolled_back);
    let compact = author.proof().to_compact(store.root()).unwrap();
    let source = compact.to_source(store.root()).unwrap();
    let validator = on(&source, store.root(), &rolled_back);
    assert_eq!(validator.size(), author.size());
    assert_eq!(validator.update().root, author.update().root);
}

/// A recorder of a host, with its own rollbacks.
struct HostRecorder {
    seen: SeenNodes,
    nodes: Vec<HashSet<Vec<u8>>>,
}

impl HostRecorder {
    fn new() -> Self {
        Self {
            seen: SeenNodes::default(),
            nodes: vec![HashSet::new()],
        }
    }

    fn take<S: NodeSource, A: Accounting>(&mut self, block: &mut Block<S, A>, step: Step) {
        match step {
            Step::Start => {
                block.start_transaction();
                self.nodes.push(self.nodes.last().unwrap().clone());
            }
            Step::RollBack if block.rollback_transaction().is_ok() => {
                block.forget_rolled_back(&mut self.seen);
                self.nodes.pop();
            }
            Step::Set(trie, number) => drop(block.get(trie, &key(number)).unwrap()),
            Step::Remove(trie, number) => block.remove(trie, &key(number)).unwrap(),
            Step::Size => drop(block.proof_size().unwrap()),
            Step::Commit | Step::RollBack => {}
        }
        let nodes = self.nodes.last_mut().unwrap();
        block.for_each_recorded(&mut self.seen, |hash, node| {
            assert_eq!(povmeter_delta_root::Blake2b256::hash(node), *hash);
            nodes.insert(node.to_vec());
        });
    }

    /// Bytes of the nodes, each with its length before it.
    fn bytes(&self) -> u64 {
        let nodes = self.nodes.last().unwrap().iter();
        let bytes = nodes.map(|node| node.len() + if node.len() < 64 { 1 } else { 2 });
        bytes.sum::<usize>() as u64
    }
}

#[test]
fn each_recorded_node_comes_and_none_else() {
    let store = accounts(300);
    for seed in 0..200 {
        let mut random = SmallRng::seed_from_u64(seed);
        let mut consensus = Block::with_accounting(&store, store.root(), Consensus);
        let mut advisory = Block::with_accounting(&store, store.root(), Advisory);
        let (mut all, mut reads) = (HostRecorder::new(), HostRecorder::new());
        for _ in 0..60 {
            let step = step(&mut random);
            all.take(&mut consensus, step);
            reads.take(&mut advisory, step);
            assert_eq!(
                all.bytes(),
                consensus.recorded_size().total_bytes(),
                "seed {seed}"
            );
            assert_eq!(
                reads.bytes(),
                advisory.recorded_size().read_bytes,
                "seed {seed}"
            );
        }
        let proof = consensus.recorded_proof();
        let proof: HashSet<_> = proof.nodes().iter().map(|node| node.to_vec()).collect();
        assert_eq!(*all.nodes.last().unwrap(), proof, "seed {seed}");
    }
}
