//! Tests of maintenance on real tries: what `verify` finds, numbers, pruning, copies.
#![allow(clippy::unwrap_used)]

mod common;

use bytes::Bytes;
use common::stores::{counts, TestStore};
use common::tries::{block, random_changes, BlockChanges};
use common::{changes, Change};
use povmeter_delta_root::{Blake2b256, NodeHash, Root, RootUpdate};
use povmeter_store::{
    prune_to_last, prune_to_root, stat, verify, BackupError, MemoryStore, NodeFault, NodeStore,
    Problem, PruneError, StateHistory, StateId, StoredNodes, VerifyReport,
};
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;

fn verified(store: &mut dyn StoredNodes) -> VerifyReport {
    let mut last = 0;
    let report = verify(store, &mut |places| {
        assert!(places >= last);
        last = places;
    });
    let report = report.unwrap();
    assert_eq!(last, report.places);
    report
}

fn assert_clean(store: &mut impl StoredNodes) {
    let report = verified(store);
    assert!(report.is_clean(), "{:#?}", report.problems);
    let (mut nodes, mut bytes, mut references) = (0, 0, 0);
    let listed = store.each_node(&mut |node| {
        nodes += 1;
        bytes += node.encoded.len() as u64;
        references += node.references;
        ControlFlow::Continue(())
    });
    listed.unwrap();
    assert_eq!((report.nodes, report.bytes), (nodes, bytes));
    assert_eq!(report.states, store.states().len());
    // Each reference is a place. Later states also visit places whose nodes only moved.
    match report.states {
        1 => assert_eq!(report.places, references),
        _ => assert!(report.places >= references),
    }
}

/// Commits a chain of `blocks` blocks with a fork at each third. Returns the ids of the chain, the
/// base first.
fn chain(store: &mut impl StoredNodes, blocks: u64) -> Vec<StateId> {
    let mut ids = vec![store.states().base().id];
    for height in 1..=blocks {
        let parent = *store.states().get(*ids.last().unwrap()).unwrap();
        if height % 3 == 0 {
            let update = block(store, parent.root, &random_changes(height << 32, 20));
            store.keep(parent.id, &update).unwrap();
        }
        let update = block(store, parent.root, &random_changes(height, 40));
        ids.push(store.keep(parent.id, &update).unwrap());
    }
    ids
}

fn a_history_of_blocks_is_clean<S: TestStore + StoredNodes>(rounds: usize) {
    let mut rng = SmallRng::seed_from_u64(5);
    let (home, mut store) = S::make();
    for round in 0..rounds {
        let states: Vec<_> = store.states().iter().copied().collect();
        let some = states.choose(&mut rng).unwrap();
        match rng.random_range(0..12) {
            0 => drop(store.prune(some.id).unwrap()),
            1 if some.parent.is_some() => drop(store.discard(some.id).unwrap()),
            _ => {
                // Every twentieth block deletes all entries.
                let mut changes = random_changes(rng.random(), 30);
                if round % 20 == 19 {
                    changes = BlockChanges::default();
                }
                let update = block(&store, some.root, &changes);
                store.keep(some.id, &update).unwrap();
            }
        }
        if round % 10 == 9 {
            store = store.settle(&home);
            assert_clean(&mut store);
        }
    }
    let newest = store.states().newest().id;
    store.prune(newest).unwrap();
    assert_clean(&mut store);
}

/// Nodes of many sizes are in many tables of a database, and a listing ends in the first.
fn a_listing_ends_where_it_is_told<S: TestStore + StoredNodes>() {
    let (_home, mut store) = S::make();
    let base = *store.states().base();
    let mut changes = BlockChanges::default();
    for length in [40, 200, 1_000, 5_000, 20_000, 100_000] {
        let value = vec![u8::try_from(length % 251).unwrap(); length];
        changes
            .top
            .insert(length.to_be_bytes().to_vec(), Some(value));
    }
    let update = block(&store, base.root, &changes);
    store.commit(&update).unwrap();
    for wanted in 1..4 {
        let mut calls = 0;
        let listed = store.each_node(&mut |_| {
            calls += 1;
            match calls < wanted {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        });
        listed.unwrap();
        assert_eq!(calls, wanted);
    }
}

#[test]
fn listings_end_where_they_are_told() {
    a_listing_ends_where_it_is_told::<MemoryStore>();
    #[cfg(feature = "parity-db")]
    a_listing_ends_where_it_is_told::<povmeter_store::ParityDbStore>();
    #[cfg(feature = "rocksdb")]
    a_listing_ends_where_it_is_told::<povmeter_store::RocksDbStore>();
}

#[test]
fn histories_of_blocks_are_clean() {
    a_history_of_blocks_is_clean::<MemoryStore>(400);
    #[cfg(feature = "parity-db")]
    a_history_of_blocks_is_clean::<povmeter_store::ParityDbStore>(100);
    #[cfg(feature = "rocksdb")]
    a_history_of_blocks_is_clean::<povmeter_store::RocksDbStore>(100);
}

#[test]
fn a_state_without_entries_is_clean() {
    let mut store = MemoryStore::new();
    let report = verified(&mut store);
    assert!(report.is_clean());
    assert_eq!((report.states, report.nodes, report.places), (1, 0, 0));
}

/// An update that changes only the references to one node, which no block does.
fn tampering(root: Root, hash: NodeHash, references: i32, encoded: &[u8]) -> RootUpdate {
    let change = Change {
        path: vec![],
        odd_nibble: None,
        hash,
        references,
        encoded: Bytes::copy_from_slice(encoded),
    };
    RootUpdate {
        parent: root,
        root,
        children: vec![],
        nodes: changes(&[change]),
    }
}

/// A store with one state and the hashes of its nodes.
fn one_state() -> (MemoryStore, Vec<NodeHash>) {
    let mut store = MemoryStore::new();
    let update = block(&store, Root::EMPTY, &random_changes(3, 200));
    store.commit(&update).unwrap();
    assert_clean(&mut store);
    let nodes = counts(&mut store).into_keys().collect();
    (store, nodes)
}

#[test]
fn each_missing_node_is_found() {
    let (store, nodes) = one_state();
    let root = store.root();
    assert!(nodes.len() > 40, "{}", nodes.len());
    for hash in nodes.into_iter().filter(|hash| *hash != root.node_hash()) {
        let mut store = store.clone();
        let held = counts(&mut store)[&hash];
        let lost = i32::try_from(held).unwrap();
        store.commit(&tampering(root, hash, -lost, &[])).unwrap();
        let report = verified(&mut store);
        let names = |problem: &Problem| {
            matches!(problem,
            Problem::Node { hash: h, fault: NodeFault::Missing, .. } if *h == hash)
        };
        assert!(
            report.problems.iter().any(names),
            "{hash}: {:?}",
            report.problems
        );
        let counts = |problem: &Problem| {
            matches!(problem,
            Problem::Count { hash: h, found: 0, expected } if (*h, *expected) == (hash, held))
        };
        assert!(
            report.problems.iter().any(counts),
            "{hash}: {:?}",
            report.problems
        );
    }
}

#[test]
fn a_report_lists_the_first_problems_and_counts_all() {
    const STRAY: u32 = 250;
    let (mut store, _) = one_state();
    let root = store.root();
    for number in 0..STRAY {
        let stray = number.to_be_bytes();
        let hash = Blake2b256::hash(&stray);
        store.commit(&tampering(root, hash, 1, &stray)).unwrap();
    }
    let report = verified(&mut store);
    assert!(!report.is_clean());
    assert_eq!(report.problem_count, u64::from(STRAY));
    assert_eq!(report.problems.len(), 100);
}

#[test]
fn each_corrupt_node_is_found() {
    let (store, nodes) = one_state();
    let root = store.root();
    for hash in nodes.into_iter().filter(|hash| *hash != root.node_hash()) {
        let mut store = store.clone();
        let held = i32::try_from(counts(&mut store)[&hash]).unwrap();
        store.commit(&tampering(root, hash, -held, &[])).unwrap();
        store
            .commit(&tampering(root, hash, held, b"not the node"))
            .unwrap();
        let wrong = Blake2b256::hash(b"not the node");
        let names = |problem: &Problem| {
            matches!(problem,
            Problem::Node { hash: h, fault: NodeFault::Hash { found }, .. } if (*h, *found) == (hash, wrong))
        };
        let report = verified(&mut store);
        assert!(
            report.problems.iter().any(names),
            "{hash}: {:?}",
            report.problems
        );
        let text = report.problems[0].to_string();
        assert!(
            text.contains(&hash.to_string()) && text.contains(&wrong.to_string()),
            "{text}"
        );
    }
}

#[test]
fn each_wrong_count_is_found() {
    let (store, nodes) = one_state();
    let root = store.root();
    for hash in nodes {
        let mut store = store.clone();
        let held = counts(&mut store)[&hash];
        store
            .commit(&tampering(root, hash, 1, b"the bytes are not replaced"))
            .unwrap();
        let report = verified(&mut store);
        assert_eq!(report.problem_count, 1, "{:?}", report.problems);
        let Problem::Count {
            hash: h,
            expected,
            found,
        } = report.problems[0]
        else {
            panic!("{:?}", report.problems);
        };
        assert_eq!((h, expected, found), (hash, held, held + 1));
    }
    // A node that no state has.
    let mut store = store;
    let stray = b"a stray node";
    store
        .commit(&tampering(root, Blake2b256::hash(stray), 2, stray))
        .unwrap();
    let text = verified(&mut store).problems[0].to_string();
    assert!(
        text.ends_with("is counted 2 times, the kept states have it 0 times"),
        "{text}"
    );
}

#[test]
fn a_journal_that_is_not_the_difference_is_found() {
    let (mut store, nodes) = one_state();
    let base = *store.states().base();
    let mut update = block(&store, base.root, &random_changes(9, 30));
    // A loss of a node that stays in the trie.
    let still_there = |hash: &&NodeHash| update.nodes.iter().all(|node| node.hash != **hash);
    let hash = *nodes.iter().find(still_there).unwrap();
    let owned = update.nodes.iter().map(|node| Change {
        path: node.path.to_vec(),
        odd_nibble: node.odd_nibble,
        hash: node.hash,
        references: node.references,
        encoded: Bytes::copy_from_slice(node.encoded),
    });
    let lost = Change {
        path: vec![],
        odd_nibble: None,
        hash,
        references: -1,
        encoded: Bytes::new(),
    };
    let owned: Vec<_> = owned.chain([lost]).collect();
    update.nodes = changes(&owned);
    let id = store.keep(base.id, &update).unwrap();
    let report = verified(&mut store);
    assert_eq!(report.problem_count, 1, "{:?}", report.problems);
    let Problem::Journal {
        state,
        hash: h,
        expected,
        found,
    } = report.problems[0]
    else {
        panic!("{:?}", report.problems);
    };
    assert_eq!((state, h, expected, found), (id, hash, 0, -1));
}

#[test]
fn numbers_are_those_of_the_nodes() {
    let mut store = MemoryStore::new();
    let empty = stat(&mut store, &mut |_| ()).unwrap();
    assert_eq!((empty.nodes, empty.places, empty.depth), (0, 0, 0));
    chain(&mut store, 5);
    let mut steps = 0;
    let found = stat(&mut store, &mut |step| steps = step).unwrap();
    assert_eq!(steps, found.nodes + found.places);
    assert_eq!(found.nodes, store.node_count() as u64);
    assert_eq!(found.bytes, store.byte_count() as u64);
    assert_eq!(found.references, counts(&mut store).into_values().sum());
    assert_eq!(
        found.states,
        store.states().iter().copied().collect::<Vec<_>>()
    );
    let newest = store.states().newest().id;
    store.prune(newest).unwrap();
    let alone = stat(&mut store, &mut |_| ()).unwrap();
    assert_eq!(
        alone.references, found.places,
        "of one state, each place is a reference"
    );
    assert_eq!((alone.places, alone.depth), (found.places, found.depth));
    assert!((2..20).contains(&alone.depth), "{}", alone.depth);
}

#[test]
fn pruning_by_number_keeps_the_last() {
    let mut store = MemoryStore::new();
    let ids = chain(&mut store, 12);
    let mut steps = vec![];
    let four = NonZeroUsize::new(4).unwrap();
    let gone = prune_to_last(&mut store, four, &mut |step| steps.push(step)).unwrap();
    assert_eq!(steps.last(), Some(&(gone.len() as u64)));
    assert!(steps.is_sorted() && steps.len() > 8, "{steps:?}");
    assert_eq!(store.states().base().id, ids[9]);
    assert_eq!(store.states().newest().id, ids[12]);
    let gone: BTreeSet<_> = gone.iter().map(|state| state.id).collect();
    assert!(ids[..9].iter().all(|id| gone.contains(id)));
    assert_clean(&mut store);
    // More states than the store has.
    let gone = prune_to_last(&mut store, NonZeroUsize::MAX, &mut |_| ()).unwrap();
    assert_eq!(gone, []);
    prune_to_last(&mut store, NonZeroUsize::MIN, &mut |_| ()).unwrap();
    assert_eq!(store.kept_roots().len(), 1);
    assert_clean(&mut store);
}

/// So many states that a look at each pair of them would take minutes.
#[test]
fn a_long_chain_is_kept_and_pruned() {
    const BLOCKS: usize = 50_000;
    let mut store = MemoryStore::new();
    let update = RootUpdate {
        parent: Root::EMPTY,
        root: Root::EMPTY,
        children: vec![],
        nodes: changes(&[]),
    };
    let first = store.states().base().id;
    let mut newest = first;
    for _ in 0..BLOCKS {
        newest = store.keep(newest, &update).unwrap();
    }
    assert_eq!(store.states().len(), 1 + BLOCKS);
    let mut steps = 0;
    let two = NonZeroUsize::new(2).unwrap();
    let gone = prune_to_last(&mut store, two, &mut |_| steps += 1).unwrap();
    assert_eq!(gone.len(), BLOCKS - 1);
    assert_eq!(gone[0].id, first);
    assert!(gone.is_sorted_by_key(|state| state.id));
    // One for each base on the way, the first one included.
    assert_eq!(steps, BLOCKS);
    let kept: Vec<_> = store.states().iter().map(|state| state.id).collect();
    assert_eq!(kept, [store.states().base().id, newest]);
}

#[test]
fn pruning_to_a_root_keeps_it() {
    let mut store = MemoryStore::new();
    let ids = chain(&mut store, 8);
    let root = store.states().get(ids[5]).unwrap().root;
    prune_to_root(&mut store, root, &mut |_| ()).unwrap();
    assert_eq!(store.states().base().root, root);
    assert_clean(&mut store);
    let error = prune_to_root(&mut store, Root::EMPTY, &mut |_| ()).unwrap_err();
    assert!(
        matches!(error, PruneError::NoSuchRoot { root: Root::EMPTY }),
        "{error:?}"
    );
}

/// Copies a store with a history, and checks that the copy is equal and goes its own way.
#[cfg(any(feature = "parity-db", feature = "rocksdb"))]
fn backups<S: common::stores::DiskStore<Home = tempfile::TempDir>>() {
    let (home, mut store) = S::make();
    chain(&mut store, 6);
    let to = tempfile::tempdir().unwrap();
    let path = to.path().join("made").join("copy");
    let mut copied = 0;
    store.backup_to(&path, &mut |nodes| copied = nodes).unwrap();
    let mut copy = S::open_at(&path).unwrap();
    let expected = counts(&mut store);
    assert_eq!(copied, expected.len() as u64);
    assert_eq!(counts(&mut copy), expected);
    assert_eq!(copy.states(), store.states());
    assert_clean(&mut copy);
    prune_to_last(&mut copy, NonZeroUsize::MIN, &mut |_| ()).unwrap();
    assert_clean(&mut copy);
    drop(copy);
    // A copy in the folder of the store would be lost with it.
    let folder = store.folder().to_owned();
    let name = folder.file_name().unwrap();
    let inside = [
        folder.join("copy"),
        folder.join("absent").join("..").join("copy"),
        folder.join("../absent/..").join(name).join("copy"),
    ];
    for path in inside {
        let error = store.backup_to(&path, &mut |_| ()).unwrap_err();
        assert!(matches!(error, BackupError::Inside { .. }), "{error}");
        assert!(!path.exists() && !folder.join("copy").exists());
    }
    // A copy goes only into an empty folder.
    for taken in [&path, &home.path().to_owned()] {
        let error = store.backup_to(taken, &mut |_| ()).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("expected nothing or an empty folder"),
            "{error}"
        );
    }
    assert_clean(&mut store.settle(&home));
}

#[cfg(feature = "parity-db")]
#[test]
fn a_copy_of_a_parity_db_is_equal() {
    backups::<povmeter_store::ParityDbStore>();
}

#[cfg(feature = "rocksdb")]
#[test]
fn a_copy_of_a_rocksdb_is_equal() {
    backups::<povmeter_store::RocksDbStore>();
}
