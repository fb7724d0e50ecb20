//! Lists.

use crate::{append, append_over};
use codec::{Decode, Encode};
use povmeter_overlay::{Lookup, Overlay, TrieId::Top};

fn list(overlay: &Overlay, key: &[u8]) -> Vec<u8> {
    let Lookup::Value(mut value) = overlay.get(Top, key) else {
        panic!("no value");
    };
    let list = Vec::<u8>::decode(&mut value).unwrap();
    assert!(value.is_empty());
    list
}

#[test]
fn the_first_append_asks_the_parent_and_the_next_does_not() {
    let mut overlay = Overlay::new();
    append_over(&mut overlay, Top, b"k", &[3], Some(&vec![1_u8, 2].encode()));
    assert_eq!(list(&overlay, b"k"), [1, 2, 3]);
    overlay
        .append::<&[u8], ()>(Top, b"k", &[4], || panic!("the overlay knows the key"))
        .unwrap();
    assert_eq!(list(&overlay, b"k"), [1, 2, 3, 4]);
}

#[test]
fn a_failing_parent_changes_nothing() {
    let mut overlay = Overlay::new();
    let failed = overlay.append::<Vec<u8>, _>(Top, b"k", &[1], || Err("node missing"));
    assert_eq!(failed, Err("node missing"));
    assert!(overlay.is_empty());
    assert_eq!(overlay.dirty().len(), 0);
    assert_eq!(overlay.revision(), 0);
    append_over(&mut overlay, Top, b"k", &[2], Some(&vec![1_u8].encode()));
    assert_eq!(list(&overlay, b"k"), [1, 2]);
}

#[test]
fn what_is_no_list_is_replaced() {
    let mut overlay = Overlay::new();
    append(&mut overlay, Top, b"absent", &[7]);
    append_over(&mut overlay, Top, b"empty", &[7], Some(b""));
    append_over(&mut overlay, Top, b"garbage", &[7], Some(b"\x01\0garbage"));
    overlay.set(Top, b"set empty", b"");
    append(&mut overlay, Top, b"set empty", &[7]);
    overlay.set(Top, b"set garbage", b"\xff\xff\xff\xff\xff");
    append(&mut overlay, Top, b"set garbage", &[7]);
    overlay.remove(Top, b"removed");
    append_over(
        &mut overlay,
        Top,
        b"removed",
        &[7],
        Some(&vec![1_u8].encode()),
    );
    let changes = overlay.changes(Top);
    assert_eq!(changes.len(), 6);
    for (key, value) in changes {
        assert_eq!(value, Some(&vec![7_u8].encode()[..]), "{key:?}");
    }
}

#[test]
fn the_prefix_grows_and_shrinks_again() {
    for len in [63_usize, 16_383] {
        let mut overlay = Overlay::new();
        overlay.set(Top, b"k", &vec![1_u8; len].encode());
        overlay.start_transaction();
        append(&mut overlay, Top, b"k", &[2]);
        overlay.start_transaction();
        append(&mut overlay, Top, b"k", &[3]);
        assert_eq!(list(&overlay, b"k"), [vec![1; len], vec![2, 3]].concat());
        overlay.rollback_transaction().unwrap();
        assert_eq!(list(&overlay, b"k"), [vec![1; len], vec![2]].concat());
        overlay.rollback_transaction().unwrap();
        assert_eq!(list(&overlay, b"k"), vec![1; len]);
    }
}

/// The list moves from one transaction to the next without a copy, so overwriting it must leave it to the
/// outer transaction.
#[test]
fn a_list_survives_what_inner_frames_do_to_it() {
    type Write = fn(&mut Overlay);
    let writes: [Write; 4] = [
        |overlay| overlay.set(Top, b"k", b"other"),
        |overlay| assert!(overlay.remove(Top, b"k")),
        |overlay| assert_eq!(overlay.clear_prefix(Top, b""), 1),
        |overlay| append(overlay, Top, b"k", &[9]),
    ];
    for first in writes {
        for second in writes {
            let mut overlay = Overlay::new();
            append(&mut overlay, Top, b"k", &[1]);
            overlay.start_transaction();
            append(&mut overlay, Top, b"k", &[2]);
            overlay.start_transaction();
            append(&mut overlay, Top, b"k", &[3]);
            first(&mut overlay);
            overlay.start_transaction();
            append(&mut overlay, Top, b"k", &[4]);
            if overlay.has_values(Top) {
                second(&mut overlay);
            }
            overlay.commit_transaction().unwrap();
            let mut other = overlay.clone();
            other.commit_transaction().unwrap();
            other.rollback_transaction().unwrap();
            assert_eq!(list(&other, b"k"), [1]);
            overlay.rollback_transaction().unwrap();
            assert_eq!(list(&overlay, b"k"), [1, 2]);
            overlay.rollback_transaction().unwrap();
            assert_eq!(list(&overlay, b"k"), [1]);
        }
    }
}
