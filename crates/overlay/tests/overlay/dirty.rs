//! Dirty keys and snapshots.

use povmeter_overlay::{Dirty, Fate, Overlay, Reader, TrieId::Child, TrieId::Top};
use rand::{rngs::SmallRng, Rng, SeedableRng};

fn dirty(overlay: &Overlay) -> Vec<(&[u8], Fate)> {
    overlay
        .dirty()
        .map(|dirty| (dirty.key, dirty.fate))
        .collect()
}

fn write(overlay: &mut Overlay, key: &[u8]) {
    overlay.set(Top, key, b"value");
}

const A: &[u8] = b"a";
const B: &[u8] = b"b";
const C: &[u8] = b"c";

#[test]
fn each_key_once_until_it_is_seen() {
    let mut overlay = Overlay::new();
    write(&mut overlay, A);
    overlay.remove(Child(b"child"), B);
    write(&mut overlay, A);
    let child = Dirty {
        trie: Child(b"child"),
        key: B,
        index: 0,
        fate: Fate::Deleted,
    };
    let top = Dirty {
        trie: Top,
        key: A,
        index: 0,
        fate: Fate::Written,
    };
    assert!(overlay.dirty().eq([top, child]));
    overlay.snapshot();
    assert_eq!(dirty(&overlay), []);
    overlay.remove(Top, A);
    assert_eq!(dirty(&overlay), [(A, Fate::Deleted)]);
}

#[test]
fn without_a_snapshot_a_rollback_leaves_no_trace() {
    let mut overlay = Overlay::new();
    write(&mut overlay, A);
    overlay.snapshot();
    write(&mut overlay, B);
    overlay.start_transaction();
    overlay.remove(Top, A);
    overlay.remove(Top, B);
    write(&mut overlay, C);
    overlay.rollback_transaction().unwrap();
    assert_eq!(dirty(&overlay), [(B, Fate::Written)]);
}

#[test]
fn after_a_snapshot_a_rollback_tells_again_what_was_told() {
    let mut overlay = Overlay::new();
    write(&mut overlay, A);
    overlay.start_transaction();
    write(&mut overlay, B);
    overlay.snapshot();
    write(&mut overlay, C); // never reported
    overlay.rollback_transaction().unwrap();
    assert_eq!(dirty(&overlay), [(A, Fate::Written), (B, Fate::Untouched)]);
}

#[test]
fn a_key_told_of_twice_is_dirty_once() {
    let mut overlay = Overlay::new();
    overlay.start_transaction();
    write(&mut overlay, A);
    overlay.snapshot();
    write(&mut overlay, B);
    overlay.remove(Top, A);
    overlay.snapshot();
    write(&mut overlay, A);
    overlay.rollback_transaction().unwrap();
    assert_eq!(
        dirty(&overlay),
        [(A, Fate::Untouched), (B, Fate::Untouched)]
    );
    write(&mut overlay, B);
    assert_eq!(dirty(&overlay), [(A, Fate::Untouched), (B, Fate::Written)]);
}

/// The log has the same length and the same seen part as when the outer transaction started; only the
/// number of snapshots differs.
#[test]
fn a_snapshot_of_nothing_is_a_snapshot() {
    let mut overlay = Overlay::new();
    overlay.start_transaction();
    write(&mut overlay, A);
    overlay.start_transaction();
    overlay.snapshot();
    overlay.rollback_transaction().unwrap();
    assert_eq!(dirty(&overlay), [(A, Fate::Written)]);
    overlay.rollback_transaction().unwrap();
    assert_eq!(dirty(&overlay), [(A, Fate::Untouched)]);
}

#[test]
fn commit_of_the_inner_then_rollback_of_the_outer() {
    let mut overlay = Overlay::new();
    write(&mut overlay, A);
    overlay.snapshot();
    overlay.start_transaction();
    overlay.start_transaction();
    overlay.remove(Top, A);
    overlay.snapshot();
    overlay.commit_transaction().unwrap();
    assert_eq!(dirty(&overlay), []);
    write(&mut overlay, B);
    overlay.rollback_transaction().unwrap();
    assert_eq!(dirty(&overlay), [(A, Fate::Written)]);
}

#[test]
fn rollback_of_the_inner_then_of_the_outer() {
    let mut overlay = Overlay::new();
    write(&mut overlay, A);
    overlay.start_transaction();
    write(&mut overlay, B);
    overlay.start_transaction();
    write(&mut overlay, C);
    overlay.snapshot();
    overlay.rollback_transaction().unwrap();
    let all = [(A, Fate::Written), (B, Fate::Written), (C, Fate::Untouched)];
    assert_eq!(dirty(&overlay), all);
    overlay.rollback_transaction().unwrap();
    let all = [
        (A, Fate::Written),
        (B, Fate::Untouched),
        (C, Fate::Untouched),
    ];
    assert_eq!(dirty(&overlay), all);
    overlay.snapshot();
    assert_eq!(dirty(&overlay), []);
}

/// An author that drops one transaction after the other, and asks for the size in each.
#[test]
fn transactions_rolled_back_in_a_row_cost_what_they_change() {
    let mut overlay = Overlay::new();
    let key = |number: u32| number.to_be_bytes();
    (0..100).for_each(|number| write(&mut overlay, &key(number)));
    overlay.snapshot();
    // Dirty at the start of each of them, and told only inside of them.
    write(&mut overlay, A);
    for number in 0..100 {
        overlay.start_transaction();
        // A key that all of them change, one that the block has changed before, and a new one.
        overlay.remove(Top, B);
        overlay.remove(Top, &key(number));
        write(&mut overlay, &key(1_000 + number));
        assert!(overlay.dirty().len() <= 6, "{number}");
        overlay.snapshot();
        overlay.rollback_transaction().unwrap();
        let left = [
            (A, Fate::Written),
            (B, Fate::Untouched),
            (&key(number), Fate::Written),
            (&key(1_000 + number), Fate::Untouched),
        ];
        assert_eq!(dirty(&overlay), left);
    }
    // Without a question inside, there is nothing to tell.
    overlay.start_transaction();
    overlay.remove(Top, &key(0));
    overlay.rollback_transaction().unwrap();
    assert_eq!(overlay.dirty().len(), 4);
    let tell_in_vain = |overlay: &mut Overlay| {
        overlay.start_transaction();
        overlay.snapshot();
        overlay.rollback_transaction().unwrap();
    };
    let mut starts_anew = overlay.clone();
    tell_in_vain(&mut overlay);
    assert_eq!(dirty(&overlay), [(A, Fate::Written)]);
    starts_anew.forget_snapshots();
    let all = starts_anew.dirty().len();
    tell_in_vain(&mut starts_anew);
    assert_eq!(starts_anew.dirty().len(), all);
    // What a rolled back transaction has told of a change that stays is told again.
    let last = key(99);
    write(&mut overlay, &last);
    for _ in 0..3 {
        tell_in_vain(&mut overlay);
        let changed = [A, &last].map(|key| (key, Fate::Written));
        assert_eq!(dirty(&overlay)[..2], changed);
    }
}

/// Several transactions in one that is rolled back as a whole, some of them rolled back before, with questions between.
#[test]
fn nested_transactions_rolled_back_in_a_row_cost_what_they_change() {
    for seed in 0..500 {
        let rng = &mut SmallRng::seed_from_u64(seed);
        let mut overlay = Overlay::new();
        let mut number = 0_u32;
        for round in 0..12 {
            let first = number;
            overlay.start_transaction();
            for _ in 0..rng.random_range(0..12) {
                match rng.random_range(0..8) {
                    0..3 => {
                        write(&mut overlay, &number.to_be_bytes());
                        number += 1;
                    }
                    3..5 => overlay.start_transaction(),
                    5 if overlay.depth() > 1 => overlay.commit_transaction().unwrap(),
                    6 if overlay.depth() > 1 => overlay.rollback_transaction().unwrap(),
                    _ => overlay.snapshot(),
                }
            }
            // All is told of before the last rollback, so that only this round can leave something.
            overlay.snapshot();
            while overlay.depth() > 0 {
                overlay.rollback_transaction().unwrap();
            }
            let first = &first.to_be_bytes()[..];
            assert!(
                overlay.dirty().all(|dirty| dirty.key >= first),
                "{seed}, {round}"
            );
        }
    }
}

/// Also inside of a transaction that stays open, whose own changes are told again.
#[test]
fn known_keys_are_those_that_no_open_transaction_has_changed() {
    let mut overlay = Overlay::new();
    write(&mut overlay, A);
    overlay.snapshot();
    overlay.start_transaction();
    write(&mut overlay, B);
    overlay.snapshot();
    for _ in 0..3 {
        overlay.start_transaction();
        for key in [A, B, C] {
            overlay.remove(Top, key);
        }
        overlay.snapshot();
        overlay.rollback_transaction().unwrap();
        assert_eq!(overlay.dirty().len(), 3);
        overlay.start_transaction();
        overlay.snapshot();
        overlay.rollback_transaction().unwrap();
        assert_eq!(dirty(&overlay), [(B, Fate::Written)]);
    }
    overlay.rollback_transaction().unwrap();
    assert_eq!(dirty(&overlay), [(B, Fate::Untouched)]);
    // The mention of a dropped key that an outer transaction finds again.
    write(&mut overlay, C);
    overlay.start_transaction();
    overlay.snapshot();
    for _ in 0..2 {
        overlay.start_transaction();
        overlay.remove(Top, C);
        overlay.snapshot();
        overlay.rollback_transaction().unwrap();
        overlay.start_transaction();
        overlay.snapshot();
        overlay.rollback_transaction().unwrap();
        assert_eq!(dirty(&overlay), []);
    }
    overlay.rollback_transaction().unwrap();
    assert_eq!(dirty(&overlay), [(B, Fate::Untouched), (C, Fate::Written)]);
}

/// A reader that keeps what it learned is told only of what the rolled back transaction changed.
#[test]
fn a_reader_that_keeps_is_told_of_little() {
    let mut overlay = Overlay::new();
    overlay.start_transaction();
    write(&mut overlay, A);
    for _ in 0..3 {
        overlay.start_transaction();
        overlay.snapshot();
        overlay.rollback_transaction_for(Reader::Keeps).unwrap();
        assert_eq!(dirty(&overlay), []);
    }
    for key in [B, C] {
        overlay.start_transaction();
        overlay.remove(Top, key);
        overlay.snapshot();
        overlay.rollback_transaction_for(Reader::Keeps).unwrap();
        assert_eq!(dirty(&overlay), [(key, Fate::Untouched)]);
    }
    // What is dirty stays so, even if an outer transaction is rolled back.
    overlay.start_transaction();
    overlay.start_transaction();
    write(&mut overlay, B);
    overlay.snapshot();
    overlay.rollback_transaction_for(Reader::Keeps).unwrap();
    overlay.rollback_transaction_for(Reader::Keeps).unwrap();
    assert_eq!(dirty(&overlay), [(B, Fate::Untouched)]);
    // And without a snapshot a rollback leaves no trace.
    overlay.start_transaction();
    write(&mut overlay, C);
    overlay.rollback_transaction_for(Reader::Keeps).unwrap();
    assert_eq!(dirty(&overlay), [(B, Fate::Untouched)]);
}

/// At depth 0 the log drops what was seen and moves the other keys up; it must still find them.
#[test]
fn keys_are_told_once_after_the_log_was_shortened() {
    let mut overlay = Overlay::new();
    overlay.start_transaction();
    write(&mut overlay, A);
    write(&mut overlay, B);
    overlay.snapshot();
    write(&mut overlay, C);
    overlay.commit_transaction().unwrap();
    overlay.remove(Top, C);
    assert_eq!(dirty(&overlay), [(C, Fate::Deleted)]);
    write(&mut overlay, A);
    assert_eq!(dirty(&overlay), [(C, Fate::Deleted), (A, Fate::Written)]);
}

/// For a reader that starts anew, also in the middle of a transaction.
#[test]
fn after_snapshots_were_forgotten_every_key_is_dirty() {
    let mut overlay = Overlay::new();
    write(&mut overlay, A);
    overlay.snapshot();
    overlay.start_transaction();
    write(&mut overlay, B);
    overlay.start_transaction();
    write(&mut overlay, C);
    overlay.rollback_transaction().unwrap();
    overlay.remove(Top, A);
    overlay.snapshot();
    overlay.forget_snapshots();
    let all = [(A, Fate::Deleted), (B, Fate::Written), (C, Fate::Untouched)];
    assert_eq!(dirty(&overlay), all);
    // Each key knows its new place in the log.
    write(&mut overlay, A);
    write(&mut overlay, C);
    let all = [(A, Fate::Written), (B, Fate::Written), (C, Fate::Written)];
    assert_eq!(dirty(&overlay), all);
    // What the reader was told since then stays dirty after a rollback, and so does what it was not told.
    let mut told = overlay.clone();
    told.snapshot();
    assert_eq!(dirty(&told), []);
    for mut overlay in [overlay, told] {
        overlay.rollback_transaction().unwrap();
        let all = [
            (A, Fate::Written),
            (B, Fate::Untouched),
            (C, Fate::Untouched),
        ];
        assert_eq!(dirty(&overlay), all);
    }
}

/// The numbers are indices for tables of the reader: by store, without gaps, and constant for a key.
#[test]
fn keys_are_numbered_by_store() {
    let mut overlay = Overlay::new();
    let indices = |overlay: &Overlay| overlay.dirty().map(|dirty| dirty.index).collect::<Vec<_>>();
    write(&mut overlay, A);
    overlay.set(Child(b"x"), A, b"value");
    write(&mut overlay, B);
    overlay.set(Child(b"y"), B, b"value");
    overlay.set(Child(b"x"), B, b"value");
    assert_eq!(indices(&overlay), [0, 0, 1, 0, 1]);
    overlay.snapshot();
    overlay.start_transaction();
    write(&mut overlay, C);
    overlay.remove(Child(b"x"), B);
    assert_eq!(indices(&overlay), [2, 1]);
    overlay.rollback_transaction().unwrap();
    overlay.remove(Child(b"x"), C);
    write(&mut overlay, C);
    assert_eq!(indices(&overlay), [2, 2]);
    overlay.reset();
    overlay.set(Child(b"x"), C, b"value");
    assert_eq!(indices(&overlay), [0]);
}
