//! The end of the block.

use crate::append;
use povmeter_overlay::{Overlay, TransactionError, TrieId::Child, TrieId::Top};

#[test]
fn frozen_changes_are_sorted_and_owned() {
    let mut overlay = Overlay::new();
    append(&mut overlay, Top, b"list", &[7]);
    overlay.set(Top, b"b", b"v");
    overlay.remove(Top, b"a");
    overlay.remove(Child(b"y"), b"k");
    overlay.set(Child(b"x"), b"2", b"");
    overlay.set(Child(b"x"), b"1", b"v");
    overlay.start_transaction();
    overlay.set(Child(b"w"), b"k", b"v");
    overlay.rollback_transaction().unwrap();
    let changes = overlay.to_owned_changes().unwrap();
    assert!(changes.children().eq([b"x", b"y"]));
    assert_eq!(changes.changes(Child(b"x")).len(), 2);
    assert_eq!(changes.changes(Child(b"w")).len(), 0);
    assert_eq!(changes.changes(Top).next(), Some((&b"a"[..], None)));

    let owned = |key: &[u8], value: Option<&[u8]>| (key.to_vec(), value.map(<[u8]>::to_vec));
    let (top, children) = changes.into_parts();
    assert_eq!(
        top,
        [
            owned(b"a", None),
            owned(b"b", Some(b"v")),
            owned(b"list", Some(&[4, 7]))
        ]
    );
    let x = vec![owned(b"1", Some(b"v")), owned(b"2", Some(b""))];
    assert_eq!(
        children,
        [(b"x".to_vec(), x), (b"y".to_vec(), vec![owned(b"k", None)])]
    );
}

#[test]
fn an_open_transaction_is_an_error() {
    let mut overlay = Overlay::new();
    overlay.start_transaction();
    overlay.start_transaction();
    assert_eq!(
        overlay.to_owned_changes(),
        Err(TransactionError::StillOpen { open: 2 })
    );
}

#[test]
fn nothing_changed() {
    let changes = Overlay::new().to_owned_changes().unwrap();
    assert_eq!(changes.changes(Top).len(), 0);
    assert_eq!(changes.children().len(), 0);
}
