//! Tests of what every store does, run for each store.
#![allow(clippy::unwrap_used)]

#[macro_use]
mod common;

use bytes::Bytes;
use common::stores::TestStore;
use common::{change, changes, encoded, hash, read, root, step, Change};
use povmeter_delta_root::{
    Blake2b256, NodeBatch, NodeChanges, NodeHash, NodeRequest, NodeSource, Root, RootUpdate,
};
use povmeter_store::StoreError;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;

fn a_new_store_holds_the_empty_state<S: TestStore>() {
    let (home, store) = S::make();
    assert_eq!(store.root(), Root::EMPTY);
    assert_eq!(read(&store, "a"), None);
    assert_eq!(store.settle(&home).root(), Root::EMPTY);
}

fn a_commit_can_be_read_at_once_and_later<S: TestStore>() {
    let (home, mut store) = S::make();
    store
        .commit(&step(&store, "first", vec![change("a", &[1], 1)]))
        .unwrap();
    let assert_committed = |store: &S| {
        assert_eq!(store.root(), root("first"));
        assert_eq!(read(store, "first"), Some(encoded("first")));
        assert_eq!(read(store, "a"), Some(encoded("a")));
        assert_eq!(read(store, "b"), None);
    };
    assert_committed(&store);
    assert_committed(&store.settle(&home));
}

fn an_update_may_change_nothing<S: TestStore>() {
    let (home, mut store) = S::make();
    store
        .commit(&RootUpdate {
            parent: Root::EMPTY,
            root: Root::EMPTY,
            children: vec![],
            nodes: NodeChanges::default(),
        })
        .unwrap();
    store.commit(&step(&store, "first", vec![])).unwrap();
    store
        .commit(&RootUpdate {
            parent: root("first"),
            root: root("first"),
            children: vec![],
            nodes: NodeChanges::default(),
        })
        .unwrap();
    assert_eq!(store.settle(&home).root(), root("first"));
}

fn a_node_stays_until_its_last_place_is_gone<S: TestStore>() {
    let (home, mut store) = S::make();
    let two_places = vec![change("shared", &[1], 1), change("shared", &[2], 1)];
    store.commit(&step(&store, "r1", two_places)).unwrap();
    store
        .commit(&step(&store, "r2", vec![change("shared", &[1], -1)]))
        .unwrap();
    let mut store = store.settle(&home);
    assert_eq!(read(&store, "shared"), Some(encoded("shared")));
    store
        .commit(&step(&store, "r3", vec![change("shared", &[2], -1)]))
        .unwrap();
    assert_eq!(read(&store.settle(&home), "shared"), None);
}

fn references_of_one_change_count_each<S: TestStore>() {
    let (home, mut store) = S::make();
    store
        .commit(&step(&store, "r1", vec![change("shared", &[1], 3)]))
        .unwrap();
    store
        .commit(&step(&store, "r2", vec![change("shared", &[1], -2)]))
        .unwrap();
    let mut store = store.settle(&home);
    assert_eq!(read(&store, "shared"), Some(encoded("shared")));
    store
        .commit(&step(&store, "r3", vec![change("shared", &[2], 1)]))
        .unwrap();
    store
        .commit(&step(&store, "r4", vec![change("shared", &[1], -2)]))
        .unwrap();
    assert_eq!(read(&store.settle(&home), "shared"), None);
}

fn a_node_that_moves_stays<S: TestStore>() {
    let (home, mut store) = S::make();
    store
        .commit(&step(&store, "r1", vec![change("moved", &[9], 1)]))
        .unwrap();
    let moved = vec![change("moved", &[1], 1), change("moved", &[9], -1)];
    store.commit(&step(&store, "r2", moved)).unwrap();
    let back = vec![change("moved", &[1], -1), change("moved", &[9], 1)];
    store.commit(&step(&store, "r3", back)).unwrap();
    assert_eq!(read(&store.settle(&home), "moved"), Some(encoded("moved")));
}

fn a_node_that_was_lost_can_come_back<S: TestStore>() {
    let (home, mut store) = S::make();
    for round in 0..3 {
        store
            .commit(&step(
                &store,
                &format!("in {round}"),
                vec![change("a", &[1], 1)],
            ))
            .unwrap();
        store
            .commit(&step(
                &store,
                &format!("out {round}"),
                vec![change("a", &[1], -1)],
            ))
            .unwrap();
    }
    store
        .commit(&step(&store, "in", vec![change("a", &[1], 1)]))
        .unwrap();
    assert_eq!(read(&store, "a"), Some(encoded("a")));
    assert_eq!(read(&store.settle(&home), "a"), Some(encoded("a")));
}

fn the_null_node_is_always_there<S: TestStore>() {
    let (home, mut store) = S::make();
    let null = Root::EMPTY.node_hash();
    let null_node = |references, encoded| Change {
        path: Vec::new(),
        odd_nibble: None,
        hash: null,
        references,
        encoded: Bytes::from_static(encoded),
    };
    let assert_there = |store: &S| {
        let node = store.node(&null, (&[], None)).unwrap();
        assert_eq!(node.unwrap(), &[0][..]);
    };
    assert_there(&store);
    store
        .commit(&step(&store, "first", vec![null_node(-1, &[])]))
        .unwrap();
    assert_there(&store);
    let nodes = vec![change("first", &[], -1), null_node(1, &[0])];
    store
        .commit(&RootUpdate {
            parent: store.root(),
            root: Root::EMPTY,
            children: vec![],
            nodes: changes(&nodes),
        })
        .unwrap();
    let store = store.settle(&home);
    assert_there(&store);
    assert_eq!(store.root(), Root::EMPTY);
    assert_eq!(read(&store, "first"), None);
}

fn nodes_may_be_large<S: TestStore>() {
    let (home, mut store) = S::make();
    // Lengths around those where parity-db moves to another table or splits the entry.
    let sizes = [1, 31, 32, 33, 1_000, 32_767, 32_768, 100_000, 2_000_000];
    let nodes: Vec<_> = (1..)
        .zip(sizes)
        .map(|(fill, size)| Bytes::from(vec![fill; size]))
        .collect();
    let changes = nodes.iter().map(|encoded| Change {
        path: Vec::new(),
        odd_nibble: Some(0x30),
        hash: Blake2b256::hash(encoded),
        references: 1,
        encoded: encoded.clone(),
    });
    store
        .commit(&step(&store, "first", changes.collect()))
        .unwrap();
    let assert_there = |store: &S| {
        for encoded in &nodes {
            let found = store.node(&Blake2b256::hash(encoded), (&[], None)).unwrap();
            assert_eq!(found.as_ref(), Some(encoded), "{} bytes", encoded.len());
        }
    };
    assert_there(&store);
    assert_there(&store.settle(&home));
}

fn a_batch_is_answered_as_single_reads_are<S: TestStore>() {
    let (home, mut store) = S::make();
    let large = |length| Bytes::from(vec![7; length]);
    let large_nodes = [1024, 1025, 100_000].map(large);
    let mut nodes = vec![change("a", &[1], 1), change("b", &[2], 3)];
    nodes.extend(large_nodes.iter().map(|encoded| Change {
        hash: Blake2b256::hash(encoded),
        encoded: encoded.clone(),
        ..change("large", &[3], 1)
    }));
    store.commit(&step(&store, "first", nodes)).unwrap();
    let mut hashes = ["a", "absent", "b", "first", "a", "given"]
        .map(hash)
        .to_vec();
    hashes.push(Root::EMPTY.node_hash());
    hashes.extend(large_nodes.iter().map(|node| Blake2b256::hash(node)));
    let request = |hash: &NodeHash| NodeRequest {
        hash: *hash,
        ..NodeRequest::default()
    };
    let requests: Vec<_> = hashes.iter().map(request).collect();
    let assert_answered = |store: &S| {
        let mut batch = NodeBatch::of(&requests).next().unwrap();
        // An answer that is already there stays.
        batch.answer_with_copy(5, b"given");
        store.nodes(&mut batch);
        for (index, hash) in hashes.iter().enumerate().filter(|(index, _)| *index != 5) {
            let alone = store.node(hash, (&[], None)).unwrap();
            assert_eq!(batch.get(index).unwrap(), alone.as_deref(), "{index}");
        }
        assert_eq!(batch.get(5).unwrap(), Some(&b"given"[..]));
        assert_eq!(batch.open().collect::<Vec<_>>(), [1]);
        // Nothing is left to ask for.
        batch.answer_with_copy(1, b"given, too");
        store.nodes(&mut batch);
        assert_eq!(batch.open().count(), 0);
    };
    assert_answered(&store);
    assert_answered(&store.settle(&home));
}

/// Checks that the store refuses the update `bad`, is unchanged, and takes a good update afterwards.
fn refuses<S: TestStore>(bad: impl Fn(Root) -> RootUpdate, expected: impl Fn(&StoreError) -> bool) {
    let (home, mut store) = S::make();
    store
        .commit(&step(&store, "first", vec![change("a", &[1], 1)]))
        .unwrap();
    let mut store = store.settle(&home);
    let error = store.commit(&bad(store.root())).unwrap_err();
    assert!(expected(&error), "{error:?}");
    let mut store = store.settle(&home);
    assert_eq!(store.root(), root("first"));
    assert_eq!(read(&store, "a"), Some(encoded("a")));
    assert_eq!(read(&store, "new"), None);
    assert_eq!(read(&store, "second"), None);
    store
        .commit(&step(&store, "second", vec![change("a", &[1], -1)]))
        .unwrap();
    assert_eq!(read(&store.settle(&home), "a"), None);
}

/// A good update plus the changes `nodes`, which make it bad.
fn second(parent: Root, nodes: Vec<Change>) -> RootUpdate {
    let good = [
        change("a", &[2], 1),
        change("new", &[3], 1),
        change("second", &[], 1),
    ];
    let nodes: Vec<_> = good.into_iter().chain(nodes).collect();
    RootUpdate {
        parent,
        root: root("second"),
        children: vec![],
        nodes: changes(&nodes),
    }
}

fn an_update_of_another_state_is_refused<S: TestStore>() {
    let (expected, found) = (root("first"), root("other"));
    let says = |error: &StoreError| {
        let text = error.to_string();
        text.contains(&expected.to_string()) && text.contains(&found.to_string())
    };
    refuses::<S>(
        |_| second(found, vec![]),
        |error| {
            matches!(error, StoreError::ParentRoot { expected: e, found: f } if (*e, *f) == (expected, found))
                && says(error)
        },
    );
}

fn removing_a_node_that_is_not_there_is_refused<S: TestStore>() {
    let absent = hash("absent");
    let says = |error: &StoreError| error.to_string().contains(&absent.to_string());
    refuses::<S>(
        |parent| second(parent, vec![change("absent", &[4], -2)]),
        |error| {
            matches!(error, StoreError::MissingReferences { hash, lost: 2, held: 0 } if *hash == absent)
                && says(error)
        },
    );
}

fn a_node_without_its_encoding_is_refused<S: TestStore>() {
    let bare = Change {
        encoded: Bytes::new(),
        ..change("bare", &[4], 1)
    };
    refuses::<S>(
        |parent| second(parent, vec![bare.clone()]),
        |error| matches!(error, StoreError::MissingEncoding { hash: h } if *h == hash("bare")),
    );
}

fn a_root_without_its_node_is_refused<S: TestStore>() {
    refuses::<S>(
        |parent| RootUpdate {
            root: root("rootless"),
            ..second(parent, vec![])
        },
        |error| matches!(error, StoreError::MissingRoot { root: r } if *r == root("rootless")),
    );
}

/// Compares the store with a map from node name to reference count, over random updates.
fn agrees_with_a_map<S: TestStore>() {
    let mut rng = SmallRng::seed_from_u64(7);
    let (home, mut store) = S::make();
    let mut model = BTreeMap::<String, i32>::new();
    for round in 0..40 {
        let mut nodes = vec![];
        for _ in 0..30 {
            let name = rng.random_range(0..40).to_string();
            let places = model.entry(name.clone()).or_default();
            let references = rng.random_range(-*places..4);
            if references != 0 {
                *places += references;
                nodes.push(change(&name, &[rng.random()], references));
            }
        }
        store
            .commit(&step(&store, &format!("root {round}"), nodes))
            .unwrap();
        if round % 5 != 4 {
            continue;
        }
        store = store.settle(&home);
        for (name, places) in &model {
            assert_eq!(
                read(&store, name),
                (*places > 0).then(|| encoded(name)),
                "{name}: {places}"
            );
        }
    }
    assert!(
        model.values().any(|places| *places == 0),
        "some node should be gone at the end"
    );
}

fn can_be_shared_between_threads<S: TestStore>() {
    fn assert_source(_: &(impl NodeSource + Send + Sync)) {}
    let (_home, mut store) = S::make();
    store.commit(&step(&store, "first", vec![])).unwrap();
    assert_source(&store);
    let asked: NodeHash = hash("first");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert!(store.node(&asked, (&[], None)).unwrap().is_some()));
        }
    });
}

macro_rules! suites {
    ($($(#[$attribute:meta])* $module:ident: $store:ty;)*) => {
        $($(#[$attribute])*
        cases! {
            $module, $store:
            a_new_store_holds_the_empty_state
            a_commit_can_be_read_at_once_and_later
            an_update_may_change_nothing
            a_node_stays_until_its_last_place_is_gone
            references_of_one_change_count_each
            a_node_that_moves_stays
            a_node_that_was_lost_can_come_back
            the_null_node_is_always_there
            nodes_may_be_large
            a_batch_is_answered_as_single_reads_are
            an_update_of_another_state_is_refused
            removing_a_node_that_is_not_there_is_refused
            a_node_without_its_encoding_is_refused
            a_root_without_its_node_is_refused
            agrees_with_a_map
            can_be_shared_between_threads
        })*
    };
}

suites! {
    memory: povmeter_store::MemoryStore;
    verified_memory: povmeter_store::Verified<povmeter_store::MemoryStore>;
    #[cfg(feature = "parity-db")]
    parity_db: povmeter_store::ParityDbStore;
    #[cfg(feature = "parity-db")]
    verified_parity_db: povmeter_store::Verified<povmeter_store::ParityDbStore>;
    #[cfg(all(feature = "parity-db", feature = "parallel"))]
    parallel_parity_db: povmeter_store::ParallelReads<povmeter_store::ParityDbStore>;
    #[cfg(feature = "rocksdb")]
    rocksdb: povmeter_store::RocksDbStore;
    #[cfg(feature = "rocksdb")]
    verified_rocksdb: povmeter_store::Verified<povmeter_store::RocksDbStore>;
    #[cfg(all(feature = "rocksdb", feature = "parallel"))]
    parallel_rocksdb: povmeter_store::ParallelReads<povmeter_store::RocksDbStore>;
}
