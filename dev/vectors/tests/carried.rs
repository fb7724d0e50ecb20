//! A block that finds what earlier blocks loaded has the results of a new one: every answer, size, root,
//! proof and attribution, over chains of random blocks with forks, blocks that are executed twice, blocks
//! that are dropped, and sources that fail.

#![allow(clippy::unwrap_used)]

use bytes::Bytes;
use povmeter::{
    Accounting, Advisory, Attributed, Block, BlockPool, Consensus, NodeHash, NodePrefix,
    NodeSource, Root, RootUpdate, SealedBlock, SourceError,
    StateVersion::{self, V0, V1},
    TrieId::Top,
    Why,
};
use povmeter_vectors::random_calls;
use rand::{rngs::SmallRng, Rng, SeedableRng};
use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    thread,
    time::{Duration, Instant},
};

/// All nodes of all states.
#[derive(Default)]
struct Archive {
    nodes: RefCell<HashMap<NodeHash, Bytes>>,
    asked: Cell<usize>,
    /// Fails after this many more answers.
    fails_after: Cell<Option<usize>>,
}

impl NodeSource for Archive {
    fn node(&self, hash: &NodeHash, _: NodePrefix<'_>) -> Result<Option<Bytes>, SourceError> {
        self.asked.set(self.asked.get() + 1);
        if let Some(left) = self.fails_after.get() {
            self.fails_after.set(Some(left.saturating_sub(1)));
            if left == 0 {
                return Err(SourceError::new(std::fmt::Error));
            }
        }
        Ok(self.nodes.borrow().get(hash).cloned())
    }
}

impl Archive {
    fn commit(&self, update: &RootUpdate) {
        let mut nodes = self.nodes.borrow_mut();
        for node in update.inserted() {
            nodes.insert(node.hash, Bytes::copy_from_slice(node.encoded));
        }
    }
}

/// The answers to the calls of `seed`, and the sealed block.
fn fresh<A: Accounting>(
    archive: &Archive,
    parent: Root,
    seed: u64,
    version: StateVersion,
) -> (Vec<u8>, SealedBlock) {
    let mut told = Vec::new();
    let mut block = Block::with_accounting(archive, parent, A::default());
    random_calls(&mut block, seed, version, &mut told).unwrap();
    (told, block.seal(version).unwrap())
}

/// What needs each node, sorted, because the entries are in the order of loading. Without merges, because
/// a node at several places is merged only at the loaded ones.
fn needs(sealed: &SealedBlock) -> Vec<String> {
    let Some(attribution) = sealed.attribution() else {
        return Vec::new();
    };
    let entry = |entry: povmeter::RecordedEntry<'_>| {
        let wants = entry.wants().filter(|want| want.why != Why::Merge);
        let wants: Vec<_> = wants.collect();
        format!("{:?} {} {wants:?}", entry.hash(), entry.bytes())
    };
    let mut all: Vec<_> = attribution.entries().map(entry).collect();
    all.sort_unstable();
    all
}

#[track_caller]
fn assert_same(found: &SealedBlock, expected: &SealedBlock, case: &str) {
    assert_eq!(found.update(), expected.update(), "{case}");
    assert_eq!(found.size(), expected.size(), "{case}");
    assert_eq!(found.proof(), expected.proof(), "{case}");
    assert!(found.top_changes().eq(expected.top_changes()), "{case}");
    assert_eq!(needs(found), needs(expected), "{case}");
}

/// The numbers of nodes asked for, without and with a pool.
#[derive(Default)]
struct Asked {
    fresh: usize,
    carried: usize,
}

/// Executes a chain of blocks on a pool with `most` bytes, and compares each with a new block.
fn chain<A: Accounting>(seed: u64, most: usize, asked: &mut Asked) {
    let archive = Archive::default();
    let pool = BlockPool::carrying(most);
    let version = if seed.is_multiple_of(2) { V0 } else { V1 };
    let mut roots = vec![Root::EMPTY];
    for number in 0..24_u64 {
        let choice = seed.wrapping_mul(31).wrapping_add(number * 7) % 11;
        // Mostly the last state, sometimes one before it.
        let back = [0, 0, 0, 0, 0, 0, 0, 1, 2, 1, 5][choice as usize];
        let parent = roots[roots.len().saturating_sub(1 + back)];
        let calls = seed.wrapping_mul(1_000).wrapping_add(number);
        archive.asked.set(0);
        let (told, sealed) = fresh::<A>(&archive, parent, calls, version);
        asked.fresh += archive.asked.replace(0);
        if choice == 3 {
            // A block of other calls that is thrown away, and one whose source fails.
            let mut other = pool.block_with(&archive, parent, A::default());
            random_calls(&mut other, calls ^ 77, version, &mut Vec::new()).unwrap();
            drop(other);
            archive.fails_after.set(Some((number % 5) as usize));
            let mut failing = pool.block_with(&archive, parent, A::default());
            let _ = random_calls(&mut failing, calls ^ 99, version, &mut Vec::new());
            archive.fails_after.set(None);
        }
        // Proposed, and sometimes imported once more.
        for _ in 0..=u8::from(choice % 4 == 1) {
            let mut block = pool.block_with(&archive, parent, A::default());
            let mut again = Vec::new();
            random_calls(&mut block, calls, version, &mut again).unwrap();
            assert!(
                again == told,
                "answers of block {number}, seed {seed}, {most} bytes"
            );
            let again = block.seal(version).unwrap();
            assert_same(
                &again,
                &sealed,
                &format!("block {number}, seed {seed}, {most} bytes"),
            );
            archive.commit(again.update());
            pool.recycle(again);
        }
        asked.carried += archive.asked.get();
        assert!(
            pool.carried_bytes() <= most,
            "{} bytes",
            pool.carried_bytes()
        );
        roots.push(sealed.update().root);
    }
}

#[test]
fn results_are_those_of_new_blocks() {
    for most in [0, 10_000, 60_000, 1 << 24] {
        let mut asked = Asked::default();
        for seed in 0..40 {
            chain::<Consensus>(seed, most, &mut asked);
            chain::<Advisory>(seed, most, &mut asked);
            chain::<Attributed<Consensus>>(seed, most, &mut asked);
        }
        let Asked { fresh, carried } = asked;
        println!("{most} bytes: {carried} nodes asked for, {fresh} by new blocks");
        if most == 1 << 24 {
            assert!(
                4 * carried < fresh,
                "{carried} of {fresh}: it loads nearly nothing"
            );
        }
    }
}

/// Entries of the state that is too large for its pool.
const ENTRIES: u32 = 60_000;

/// Reads entries and changes some.
fn use_entries<A: Accounting>(block: &mut Block<&Archive, A>, seed: u64) {
    let mut rng = SmallRng::seed_from_u64(seed);
    for number in 0..2_000 {
        let key = SmallRng::seed_from_u64(rng.random_range(0..ENTRIES).into()).random::<[u8; 32]>();
        block.get(Top, &key).unwrap();
        if number % 8 == 0 {
            block.set(Top, &key, &rng.random::<[u8; 40]>()).unwrap();
        }
    }
}

/// Waits until no thread shrinks the state of a pool, which then carries more than `bytes`.
#[track_caller]
fn wait_until_shrunk(pool: &BlockPool, bytes: usize) {
    let begun = Instant::now();
    while pool.carried_bytes() < bytes {
        assert!(begun.elapsed() < Duration::from_secs(60));
        thread::sleep(Duration::from_millis(5));
    }
}

/// A thread shrinks what is carried, while blocks go on after it, and on a fork.
#[test]
fn a_large_state_is_shrunk_beside_the_blocks() {
    let archive = Archive::default();
    let mut block = Block::new(&archive, Root::EMPTY);
    for entry in 0..ENTRIES {
        let key = SmallRng::seed_from_u64(entry.into()).random::<[u8; 32]>();
        block.set(Top, &key, &[7; 40]).unwrap();
    }
    let sealed = block.seal(V1).unwrap();
    archive.commit(sealed.update());
    let most = 12 << 20;
    let pool = BlockPool::carrying(most);
    // More than the updates of the few blocks that are executed beside the thread, less than what it leaves.
    let left = most / 3;
    let (mut parent, mut before, mut shrunk, mut wait_after) = (sealed.update().root, 0, 0, None);
    for number in 0..80 {
        let mut fresh = Block::new(&archive, parent);
        use_entries(&mut fresh, number);
        let fresh = fresh.seal(V1).unwrap();
        if number % 5 == 1 {
            // Another child, which nobody builds on.
            let mut fork = pool.block(&archive, parent);
            use_entries(&mut fork, number + 1_000);
            pool.recycle(fork.seal(V1).unwrap());
        }
        let mut block = pool.block(&archive, parent);
        use_entries(&mut block, number);
        let sealed = block.seal(V1).unwrap();
        assert_same(&sealed, &fresh, &format!("block {number}"));
        archive.commit(sealed.update());
        parent = sealed.update().root;
        pool.recycle(sealed);
        let carried = pool.carried_bytes();
        assert!(carried <= most, "{carried} bytes");
        if carried < before / 2 {
            shrunk += 1;
            wait_after = Some(number + 3);
        }
        // A thread without a processor would let the updates of all other blocks fill the pool.
        if wait_after == Some(number) {
            wait_until_shrunk(&pool, left);
        }
        before = carried;
    }
    assert!(shrunk > 1, "{shrunk}");
    // Blocks that were executed meanwhile do not make the pool forget what was shrunk.
    wait_until_shrunk(&pool, left);
    let asked = |block: &mut Block<&Archive, Consensus>| {
        archive.asked.set(0);
        use_entries(block, 99);
        archive.asked.get()
    };
    let fresh = asked(&mut Block::new(&archive, parent));
    let carried = asked(&mut pool.block(&archive, parent));
    assert!(carried < fresh * 3 / 4, "{carried} of {fresh}");
}
