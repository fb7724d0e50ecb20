//! Transactions, of the host and of the runtime.

use povmeter_overlay::{Lookup, Overlay, TransactionError, TrieId::Child, TrieId::Top};

#[test]
fn rollback_puts_back_and_commit_keeps() {
    let mut overlay = Overlay::new();
    overlay.set(Top, b"a", b"0");
    overlay.start_transaction();
    overlay.set(Top, b"a", b"1");
    overlay.set(Top, b"a", b"1 again");
    overlay.remove(Top, b"b");
    overlay.start_transaction();
    overlay.remove(Top, b"a");
    overlay.set(Top, b"b", b"2");
    overlay.set(Child(b"c"), b"a", b"2");
    overlay.rollback_transaction().unwrap();
    assert_eq!(overlay.get(Top, b"a"), Lookup::Value(b"1 again"));
    assert_eq!(overlay.get(Top, b"b"), Lookup::Deleted);
    assert_eq!(overlay.get(Child(b"c"), b"a"), Lookup::Untouched);
    overlay.start_transaction();
    overlay.set(Top, b"b", b"3");
    overlay.commit_transaction().unwrap();
    assert_eq!(overlay.get(Top, b"b"), Lookup::Value(b"3"));
    overlay.rollback_transaction().unwrap();
    assert_eq!(overlay.changes(Top), [(&b"a"[..], Some(&b"0"[..]))]);
}

/// After the outermost commit an entry still has its old place in the journal, where a record of another
/// entry lies by now.
#[test]
fn a_forgotten_journal_is_not_mistaken_for_the_new_one() {
    let mut overlay = Overlay::new();
    overlay.start_transaction();
    overlay.set(Top, b"a", b"0");
    overlay.set(Top, b"b", b"0");
    overlay.commit_transaction().unwrap();
    overlay.start_transaction();
    overlay.set(Top, b"b", b"1");
    overlay.set(Top, b"a", b"1");
    overlay.rollback_transaction().unwrap();
    assert_eq!(overlay.get(Top, b"a"), Lookup::Value(b"0"));
    assert_eq!(overlay.get(Top, b"b"), Lookup::Value(b"0"));
}

#[test]
fn closing_what_is_not_open_is_an_error() {
    let mut overlay = Overlay::new();
    assert_eq!(
        overlay.commit_transaction(),
        Err(TransactionError::NoneOpen)
    );
    assert_eq!(
        overlay.rollback_transaction(),
        Err(TransactionError::NoneOpen)
    );
    overlay.enter_runtime().unwrap();
    assert_eq!(
        overlay.commit_transaction(),
        Err(TransactionError::NoneOpen)
    );
}

#[test]
fn the_runtime_cannot_close_what_the_host_opened() {
    let mut overlay = Overlay::new();
    overlay.start_transaction();
    overlay.start_transaction();
    overlay.set(Top, b"a", b"host");
    overlay.enter_runtime().unwrap();
    let refused = Err(TransactionError::OpenedByHost { open: 2 });
    assert_eq!(overlay.rollback_transaction(), refused);
    overlay.start_transaction();
    overlay.commit_transaction().unwrap();
    assert_eq!(overlay.commit_transaction(), refused);
    assert_eq!(overlay.depth(), 2);
    assert_eq!(overlay.get(Top, b"a"), Lookup::Value(b"host"));
    assert_eq!(overlay.exit_runtime(), Ok(0));
    overlay.commit_transaction().unwrap();
    overlay.rollback_transaction().unwrap();
    assert!(overlay.is_empty());
}

#[test]
fn what_the_runtime_leaves_open_is_rolled_back() {
    let mut overlay = Overlay::new();
    overlay.start_transaction();
    overlay.enter_runtime().unwrap();
    overlay.set(Top, b"a", b"kept");
    overlay.start_transaction();
    overlay.set(Top, b"a", b"lost");
    overlay.start_transaction();
    overlay.set(Child(b"c"), b"b", b"lost");
    assert_eq!(overlay.exit_runtime(), Ok(2));
    assert_eq!(overlay.depth(), 1);
    assert_eq!(overlay.get(Top, b"a"), Lookup::Value(b"kept"));
    assert_eq!(overlay.children().len(), 0);
}

#[test]
fn control_is_handed_over_once() {
    let mut overlay = Overlay::new();
    assert_eq!(overlay.exit_runtime(), Err(TransactionError::NotInRuntime));
    overlay.start_transaction();
    overlay.enter_runtime().unwrap();
    assert_eq!(
        overlay.enter_runtime(),
        Err(TransactionError::AlreadyInRuntime { host: 1 })
    );
    overlay.exit_runtime().unwrap();
    assert_eq!(overlay.exit_runtime(), Err(TransactionError::NotInRuntime));
}

#[test]
fn a_thousand_frames() {
    let mut overlay = Overlay::new();
    for depth in 0_u32..1_000 {
        overlay.start_transaction();
        overlay.set(Top, b"every", &depth.to_le_bytes());
        overlay.set(Top, &depth.to_le_bytes(), b"one");
    }
    for depth in (1..1_000).rev() {
        assert_eq!(
            overlay.get(Top, b"every"),
            Lookup::Value(&u32::to_le_bytes(depth))
        );
        overlay.rollback_transaction().unwrap();
        assert_eq!(overlay.get(Top, &depth.to_le_bytes()), Lookup::Untouched);
    }
    overlay.commit_transaction().unwrap();
    assert_eq!(overlay.changes(Top).len(), 2);
}

#[test]
fn no_revision_comes_back_with_the_content_of_another_overlay() {
    for other_writes in [0, 1, 2, 5] {
        let (mut overlay, mut other) = (Overlay::new(), Overlay::new());
        overlay.set(Top, b"a", b"1");
        let first = overlay.revision();
        overlay.set(Top, b"a", b"2");
        let second = overlay.revision();
        (0..other_writes).for_each(|_| other.set(Top, b"b", b"3"));
        overlay.clone_from(&other);
        assert_eq!(overlay.changes(Top), other.changes(Top));
        let third = overlay.revision();
        assert!(third > first.max(second), "after {other_writes} writes");
        overlay.set(Top, b"c", b"4");
        assert!(overlay.revision() > third);
    }
}

#[test]
fn the_revision_follows_the_content() {
    let mut overlay = Overlay::new();
    let mut last = overlay.revision();
    let mut moved =
        |overlay: &Overlay| std::mem::replace(&mut last, overlay.revision()) != overlay.revision();
    overlay.set(Top, b"a", b"1");
    assert!(moved(&overlay));
    overlay.start_transaction();
    overlay.snapshot();
    overlay.next_after(Top, b"");
    assert!(!moved(&overlay));
    overlay.remove(Top, b"a");
    assert!(moved(&overlay));
    overlay.remove(Top, b"a");
    overlay.clear_prefix(Top, b"");
    assert!(!moved(&overlay));
    overlay.rollback_transaction().unwrap();
    assert!(moved(&overlay));
    overlay.start_transaction();
    overlay.rollback_transaction().unwrap();
    assert!(!moved(&overlay));
}
