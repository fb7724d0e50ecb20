//! Tests of what only the store in memory does: numbers, clones, reading without a copy.
#![allow(clippy::unwrap_used)]

mod common;

use bytes::Bytes;
use common::{change, encoded, hash, read, root, step};
use povmeter_delta_root::{NodeBatch, NodeRequest, NodeSource};
use povmeter_store::{MemoryStore, NodeStore, Verified};

#[test]
fn counts_distinct_nodes_and_their_bytes() {
    let mut store = MemoryStore::new();
    assert_eq!((store.node_count(), store.byte_count()), (0, 0));
    store
        .commit(&step(
            &store,
            "r1",
            vec![change("a", &[1], 2), change("b", &[2], 1)],
        ))
        .unwrap();
    store
        .commit(&step(
            &store,
            "r2",
            vec![change("a", &[3], 1), change("b", &[2], -1)],
        ))
        .unwrap();
    let bytes = encoded("r1").len() + encoded("r2").len() + encoded("a").len();
    assert_eq!((store.node_count(), store.byte_count()), (3, bytes));
    let gone = vec![
        change("a", &[1], -2),
        change("a", &[3], -1),
        change("r1", &[], -1),
    ];
    store.commit(&step(&store, "r3", gone)).unwrap();
    let bytes = encoded("r2").len() + encoded("r3").len();
    assert_eq!((store.node_count(), store.byte_count()), (2, bytes));
}

#[test]
fn a_clone_goes_its_own_way() {
    let mut store = MemoryStore::new();
    store.commit(&step(&store, "r1", vec![])).unwrap();
    let before = store.clone();
    store
        .commit(&step(&store, "r2", vec![change("r1", &[], -1)]))
        .unwrap();
    assert_eq!(before.root(), root("r1"));
    assert_eq!(read(&before, "r1"), Some(encoded("r1")));
    assert_eq!(read(&before, "r2"), None);
    assert_eq!(read(&store, "r1"), None);
}

#[test]
fn reading_copies_nothing() {
    let mut store = MemoryStore::new();
    let update = step(&store, "r1", vec![]);
    store.commit(&update).unwrap();
    assert_eq!(
        read(&store, "r1").unwrap().as_ptr(),
        update.inserted().next().unwrap().encoded.as_ptr()
    );
}

#[test]
fn a_node_of_another_hash_is_found_out_when_verified() {
    let mut store = MemoryStore::new();
    let mut wrong = change("a", &[1], 1);
    wrong.encoded = Bytes::from_static(b"not a");
    store.commit(&step(&store, "r1", vec![wrong])).unwrap();
    assert_eq!(read(&store, "a").unwrap(), &b"not a"[..]);
    let store = Verified::new(store);
    let error = store.node(&hash("a"), (&[], None)).unwrap_err();
    let found = povmeter_delta_root::Blake2b256::hash(b"not a");
    let text = error.to_string();
    assert!(
        text.contains(&hash("a").to_string()) && text.contains(&found.to_string()),
        "{text}"
    );
    assert_eq!(read(&store, "r1"), Some(encoded("r1")));

    // The same holds in a batch. An answer that is already there is not checked.
    let request = |name| NodeRequest {
        hash: hash(name),
        ..NodeRequest::default()
    };
    let requests = ["r1", "a", "b", "c"].map(request);
    let mut batch = NodeBatch::of(&requests).next().unwrap();
    batch.answer_with_copy(3, b"not c");
    store.nodes(&mut batch);
    assert_eq!(batch.get(0).unwrap(), Some(&encoded("r1")[..]));
    assert_eq!(batch.get(1).unwrap_err().to_string(), text);
    assert_eq!(batch.get(2).unwrap(), None);
    assert_eq!(batch.get(3).unwrap(), Some(&b"not c"[..]));
    assert_eq!(batch.open().collect::<Vec<_>>(), [2]);
}
