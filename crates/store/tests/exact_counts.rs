//! Tests of stores that return the count of a node, which parity-db does not. An update that does not fit the
//! count is refused and changes nothing.
#![allow(clippy::unwrap_used)]

mod common;

use common::stores::{counts, TestStore};
use common::{change, encoded, hash, read, root, step};
use povmeter_store::{StoreError, StoredNodes};

fn losing_more_references_than_held_is_refused<S: TestStore + StoredNodes>() {
    let (home, mut store) = S::make();
    store
        .commit(&step(&store, "r1", vec![change("a", &[1], 2)]))
        .unwrap();
    let too_many = vec![
        change("a", &[1], -2),
        change("a", &[2], -1),
        change("b", &[3], 1),
    ];
    let error = store.commit(&step(&store, "r2", too_many)).unwrap_err();
    assert!(
        matches!(error, StoreError::MissingReferences { hash: h, lost: 3, held: 2 } if h == hash("a")),
        "{error:?}"
    );
    let mut store = store.settle(&home);
    assert_eq!(store.root(), root("r1"));
    assert_eq!(read(&store, "b"), None);
    let expected = [(hash("a"), 2), (hash("r1"), 1)].into_iter().collect();
    assert_eq!(counts(&mut store), expected);
}

/// Adds references to a node with one reference, 2^31 - 1 in each commit. A store that counts to `most` takes
/// `commits` such commits and refuses the next.
fn counting_ends_with_an_error<S: TestStore + StoredNodes>(commits: u64, most: u64) {
    let (home, mut store) = S::make();
    let first = vec![change("a", &[1], 1)];
    store.commit(&step(&store, "first", first)).unwrap();
    for round in 0..commits {
        let many = vec![change("a", &[1], i32::MAX)];
        store
            .commit(&step(&store, &format!("r{round}"), many))
            .unwrap();
    }
    let count = 1 + commits * u64::from(i32::MAX.unsigned_abs());
    let many = vec![change("a", &[1], i32::MAX)];
    let error = store.commit(&step(&store, "last", many)).unwrap_err();
    assert!(
        matches!(error, StoreError::TooManyReferences { held, gained: 0x7fff_ffff, limit, .. }
            if (held, limit) == (count, most)),
        "{error:?}"
    );
    let mut store = store.settle(&home);
    assert_eq!(counts(&mut store)[&hash("a")], count);
    assert_eq!(read(&store, "last"), None);
}

fn a_root_that_is_removed_is_refused<S: TestStore + StoredNodes>() {
    let (home, mut store) = S::make();
    store.commit(&step(&store, "r1", vec![])).unwrap();
    let mut update = step(&store, "r2", vec![change("r1", &[], -1)]);
    update.root = root("r1");
    let error = store.commit(&update).unwrap_err();
    assert!(
        matches!(error, StoreError::MissingRoot { root: r } if r == root("r1")),
        "{error:?}"
    );
    let store = store.settle(&home);
    assert_eq!(read(&store, "r1"), Some(encoded("r1")));
    assert_eq!(read(&store, "r2"), None);
}

fn a_removed_node_is_gone_at_once<S: TestStore + StoredNodes>() {
    let (_home, mut store) = S::make();
    store
        .commit(&step(&store, "r1", vec![change("a", &[1], 2)]))
        .unwrap();
    let one = vec![change("a", &[1], -1), change("r1", &[], -1)];
    store.commit(&step(&store, "r2", one)).unwrap();
    let expected = [(hash("a"), 1), (hash("r2"), 1)].into_iter().collect();
    assert_eq!(counts(&mut store), expected);
    assert_eq!(read(&store, "a"), Some(encoded("a")));
    store
        .commit(&step(&store, "r3", vec![change("a", &[1], -1)]))
        .unwrap();
    assert_eq!(read(&store, "a"), None);
    assert_eq!(read(&store, "r1"), None);
}

macro_rules! exact {
    ($module:ident, $store:ident, $commits:expr, $most:expr) => {
        mod $module {
            use povmeter_store::$store;

            #[test]
            fn losing_more_references_than_held_is_refused() {
                super::losing_more_references_than_held_is_refused::<$store>();
            }

            #[test]
            fn counting_ends_with_an_error() {
                super::counting_ends_with_an_error::<$store>($commits, $most);
            }

            #[test]
            fn a_root_that_is_removed_is_refused() {
                super::a_root_that_is_removed_is_refused::<$store>();
            }

            #[test]
            fn a_removed_node_is_gone_at_once() {
                super::a_removed_node_is_gone_at_once::<$store>();
            }
        }
    };
}

exact! { memory, MemoryStore, 0, u64::from(i32::MAX.unsigned_abs()) }

#[cfg(feature = "rocksdb")]
exact! { rocksdb, RocksDbStore, 2, u64::from(u32::MAX) }
