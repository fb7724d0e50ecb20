//! The cost of calls: allocations, and times in a test that is ignored by default.

#![allow(clippy::unwrap_used)]

use povmeter_dev_allocations::{calls_of, live_bytes, Counting};
use povmeter_overlay::{Lookup, Overlay, TrieId::Child, TrieId::Top};
use std::{hint::black_box, time::Instant};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Keys as long and as alike as those of a runtime's maps.
fn keys(count: u32) -> Vec<Vec<u8>> {
    (0..count)
        .map(|i| {
            [
                &[b'p'; 32][..],
                &i.wrapping_mul(0x9e37_79b9).to_be_bytes(),
                &[b's'; 28],
            ]
            .concat()
        })
        .collect()
}

fn filled(keys: &[Vec<u8>]) -> Overlay {
    let mut overlay = Overlay::new();
    keys.iter().for_each(|key| overlay.set(Top, key, &[1; 80]));
    overlay
}

/// About the calls of a transfer, in a transaction of the host and one of the runtime.
fn extrinsic(overlay: &mut Overlay, keys: &[Vec<u8>], events: &[u8]) {
    overlay.snapshot();
    overlay.start_transaction();
    overlay.enter_runtime().unwrap();
    overlay.start_transaction();
    for key in keys {
        assert!(matches!(overlay.get(Top, key), Lookup::Value(_)));
        overlay.set(Top, key, &[2; 80]);
        overlay.set(Top, key, &[3; 16]);
    }
    overlay
        .append(Top, events, &[4; 40], || Ok::<Option<&[u8]>, ()>(None))
        .unwrap();
    overlay.remove(Top, &keys[0]);
    overlay.commit_transaction().unwrap();
    overlay.exit_runtime().unwrap();
    assert_eq!(overlay.dirty().len(), keys.len() + 1);
    overlay.snapshot();
    overlay.commit_transaction().unwrap();
    overlay.set(Top, &keys[0], &[1; 80]);
    overlay.snapshot();
}

#[test]
fn an_extrinsic_over_known_keys_allocates_only_for_growing_lists() {
    let keys = keys(14);
    let mut overlay = filled(&keys);
    overlay.snapshot();
    overlay.set(Top, b"events", &[0; 1]);
    let mut run = || extrinsic(&mut overlay, &keys, b"events");
    run();
    run();
    // 40,000 bytes of events are ten doublings of their buffer.
    let total = calls_of(|| (0..1_000).for_each(|_| run()));
    assert!(total <= 10, "{total}");
}

#[test]
fn reads_and_empty_transactions_allocate_nothing() {
    let keys = keys(100);
    let mut overlay = filled(&keys);
    overlay.start_transaction();
    overlay.start_transaction();
    overlay.commit_transaction().unwrap();
    let counted = calls_of(|| {
        for key in &keys {
            black_box(overlay.get(Top, key));
            black_box(overlay.get(Top, &key[1..]));
            overlay.start_transaction();
            overlay.rollback_transaction().unwrap();
        }
    });
    assert_eq!(counted, 0);
}

/// Reading a child store that nobody wrote to does not make one.
#[test]
fn reading_a_child_store_makes_none() {
    let mut overlay = Overlay::new();
    let child = |at: u32| at.to_le_bytes();
    for at in 0..21 {
        overlay.set(Child(&child(at)), b"key", b"value");
    }
    overlay.start_transaction();
    overlay.commit_transaction().unwrap();
    let reads = calls_of(|| {
        for at in 0..1_000 {
            black_box(overlay.get(Child(&child(at)), b"other"));
            black_box(overlay.has_values(Child(&child(at))));
            overlay.start_transaction();
            black_box(overlay.next_after(Child(&child(at + 21)), b""));
            black_box(overlay.clear_prefix(Child(&child(at + 21)), b""));
            overlay.rollback_transaction().unwrap();
        }
    });
    assert_eq!(reads, 0);
}

/// Values of changing lengths and a list, in transactions that are committed and rolled back.
#[test]
fn a_key_written_a_million_times_takes_no_more_memory() {
    let mut overlay = Overlay::new();
    let value = [7; 200];
    let mut round = |at: usize| {
        overlay.start_transaction();
        overlay.set(Top, b"key", &value[..at * 7 % 200]);
        overlay.start_transaction();
        overlay.set(Top, b"key", &value[..at * 11 % 200]);
        let nothing = || Ok::<Option<&[u8]>, ()>(None);
        overlay
            .append(Top, b"list", &value[..at % 50], nothing)
            .unwrap();
        if at.is_multiple_of(3) {
            overlay.rollback_transaction().unwrap();
        } else {
            overlay.commit_transaction().unwrap();
        }
        overlay.set(Top, b"list", &[0]);
        overlay.commit_transaction().unwrap();
        overlay.snapshot();
    };
    (0..10_000).for_each(&mut round);
    assert_eq!(calls_of(|| (10_000..500_000).for_each(&mut round)), 0);
}

/// One block after another on the same overlay: new keys, lists, child stores, and the order.
#[test]
fn a_reset_overlay_allocates_nothing_for_a_block_like_the_last() {
    let keys = keys(500);
    let mut overlay = Overlay::new();
    let mut block = || {
        overlay.reset();
        overlay.start_transaction();
        for key in &keys {
            overlay.set(Top, key, &[1; 80]);
            overlay.set(Child(b"child"), key, &[2; 80]);
        }
        extrinsic(&mut overlay, &keys[..14], b"events");
        overlay.rollback_transaction().unwrap();
    };
    block();
    block();
    assert_eq!(calls_of(block), 0);
}

/// Callers decide by its memory whether to keep an overlay for the next block. So it has to be what was allocated.
#[test]
fn the_memory_is_what_was_allocated() {
    let keys = keys(20_000);
    let before = live_bytes();
    let mut overlay = Overlay::new();
    // `left_out` is for the lists of stores and of large blocks, which are not counted.
    let compare = |overlay: &Overlay, left_out: usize, step: &str| {
        let held = usize::try_from(live_bytes() - before).unwrap();
        let memory = overlay.memory();
        assert!(
            (memory..=memory + left_out).contains(&held),
            "{step}: {memory}, but {held} allocated"
        );
    };
    compare(&overlay, 0, "nothing");
    overlay.set(Top, b"key", b"value");
    compare(&overlay, 32, "one key");
    (0..1_000).for_each(|_| overlay.start_transaction());
    compare(&overlay, 32, "transactions");
    for key in &keys {
        overlay.set(Top, key, &[1; 80]);
        overlay.set(Top, key, &[2; 200]);
    }
    overlay.snapshot();
    compare(&overlay, 32, "many keys");
    // A key takes 500 bytes with its two values; arenas and tables have up to twice the room that they need.
    assert!(overlay.memory() < 2 * 500 * keys.len());
    for number in 0..4 {
        overlay.set(Top, &[number], &[3; 100_000]);
        overlay.set(Top, &[number], &[4; 300_000]);
    }
    compare(&overlay, 1_000, "large values");
    // The sorted list of keys keeps the places of the keys that go.
    (0..1_000).for_each(|_| overlay.rollback_transaction().unwrap());
    compare(&overlay, 1_000, "rolled back");
    overlay.reset();
    compare(&overlay, 1_000, "reset");
}

fn report(name: &str, times: u32, mut work: impl FnMut()) {
    let start = Instant::now();
    (0..times).for_each(|_| work());
    println!(
        "{name}: {:.1} ns",
        start.elapsed().as_secs_f64() * 1e9 / f64::from(times)
    );
}

#[test]
#[ignore = "prints times: run it with --release --nocapture"]
fn times_takes_long() {
    let keys = keys(1_653);
    let mut overlay = filled(&keys);
    let mut at = 0;
    let mut next = || {
        at = (at + 1) % keys.len();
        &keys[at]
    };
    report("get hit", 10_000_000, || {
        black_box(overlay.get(Top, next()));
    });
    report("get miss", 10_000_000, || {
        black_box(overlay.get(Top, &next()[1..]));
    });
    report("set at depth 0", 10_000_000, || {
        overlay.set(Top, next(), &[1; 80])
    });
    report("start + commit", 10_000_000, || {
        overlay.start_transaction();
        overlay.commit_transaction().unwrap();
    });
    overlay.start_transaction();
    report("start + set + set + commit, at depth 1", 5_000_000, || {
        overlay.start_transaction();
        let key = next();
        overlay.set(Top, key, &[1; 80]);
        overlay.set(Top, key, &[2; 80]);
        overlay.commit_transaction().unwrap();
    });
    report("start + set + roll back, at depth 1", 5_000_000, || {
        overlay.start_transaction();
        overlay.set(Top, next(), &[1; 80]);
        overlay.rollback_transaction().unwrap();
    });
    report("append", 5_000_000, || {
        overlay
            .append(Top, b"events", &[4; 8], || Ok::<Option<&[u8]>, ()>(None))
            .unwrap();
    });
    (0..998).for_each(|_| overlay.start_transaction());
    report("get hit at depth 1,000", 10_000_000, || {
        black_box(overlay.get(Top, next()));
    });
    report("extrinsic: 14 gets, 30 writes", 100_000, {
        let keys = &keys[..14];
        let mut overlay = filled(keys);
        overlay.snapshot();
        move || extrinsic(&mut overlay, keys, b"events")
    });
    report("1,653 changes, sorted", 1_000, || {
        black_box(filled_changes(&overlay));
    });
    report("1,653 new keys and to_owned_changes", 1_000, || {
        black_box(filled(&keys).to_owned_changes().unwrap());
    });
}

fn filled_changes(overlay: &Overlay) -> usize {
    overlay.changes(Top).len()
}
