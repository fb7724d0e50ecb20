//! A reader above a transaction finds the published value, or the publication reports that a transaction has looked
//! before.

use super::try_orders;
use crate::store::{MultiVersion, Nearest, WriteSet, WriteSetBuilder};
#[cfg(povmeter_loom)]
use loom::thread;
use povmeter::TrieId::Top;
#[cfg(povmeter_shuttle)]
use shuttle::thread;
use std::sync::Arc;

const KEY: &[u8] = b"key";

fn writes(store: &MultiVersion, value: Option<&[u8]>) -> Arc<WriteSet> {
    let mut writes = WriteSetBuilder::default();
    writes.write(store.keys.number(Top, KEY), value).unwrap();
    Arc::new(writes.finish())
}

/// Whether a transaction finds `value`.
fn finds(store: &MultiVersion, value: Option<&[u8]>) -> bool {
    match store.nearest(2, store.keys.number(Top, KEY)) {
        Nearest::Written(1, writes, content) => writes.value(content) == value,
        _ => false,
    }
}

/// The number of reading threads. With loom, each adds many orders.
const READERS: usize = if cfg!(povmeter_loom) { 1 } else { 2 };

/// One thread publishes `value` after `before`, and others look for it.
fn publish(
    before: Option<&'static [u8]>,
    value: Option<&'static [u8]>,
    finds: fn(&MultiVersion, Option<&[u8]>) -> bool,
) {
    let store = Arc::new(MultiVersion::new(3));
    if before.is_some() {
        store.publish(1, writes(&store, before));
    }
    let readers = [(); READERS].map(|()| {
        let store = store.clone();
        thread::spawn(move || finds(&store, value))
    });
    let published = store.publish(1, writes(&store, value));
    let found = readers.map(|reader| reader.join().unwrap());
    assert!(published.changed);
    assert!(published.seen || found == [true; READERS]);
}

#[test]
fn a_key_is_found_or_was_asked_for() {
    try_orders(2_000, || publish(None, Some(b"new"), finds));
    try_orders(2_000, || publish(Some(b"old"), Some(b"new"), finds));
    try_orders(2_000, || publish(Some(b"old"), None, finds));
}

#[cfg(povmeter_shuttle)]
fn finds_next(store: &MultiVersion, value: Option<&[u8]>) -> bool {
    store.next_written(2, 0, b"").is_some() && finds(store, value)
}

/// The first transaction that asks looks at all tables of keys. These are more orders than loom tries in a minute.
#[cfg(povmeter_shuttle)]
#[test]
fn a_next_key_is_found_or_was_asked_for() {
    try_orders(2_000, || publish(None, Some(b"new"), finds_next));
}

/// A transaction above writes the same key, and may be the one that adds it; a transaction has asked before, or none
/// has.
#[cfg(povmeter_shuttle)]
#[test]
fn a_next_key_of_two_writers_is_found_or_was_asked_for() {
    fn publish_twice(asked: bool) {
        let store = Arc::new(MultiVersion::new(4));
        if asked {
            store.next_written(0, 0, b"");
        }
        let (above, reader) = (store.clone(), store.clone());
        let above = thread::spawn(move || above.publish(3, writes(&above, None)));
        let reader = thread::spawn(move || finds_next(&reader, Some(b"new")));
        let published = store.publish(1, writes(&store, Some(b"new")));
        let found = reader.join().unwrap();
        assert!(above.join().unwrap().changed && (published.seen || found));
    }
    try_orders(10_000, || publish_twice(false));
    try_orders(10_000, || publish_twice(true));
}
