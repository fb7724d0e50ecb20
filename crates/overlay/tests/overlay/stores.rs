//! The top store and child stores.

use povmeter_overlay::{Lookup, Overlay, OwnedChanges, TrieId::Child, TrieId::Top};

#[test]
fn stores_do_not_mix() {
    let mut overlay = Overlay::new();
    overlay.set(Top, b"k", b"top");
    overlay.set(Child(b""), b"k", b"nameless");
    overlay.set(Child(b"k"), b"k", b"child");
    assert_eq!(overlay.get(Top, b"k"), Lookup::Value(b"top"));
    assert_eq!(overlay.get(Child(b""), b"k"), Lookup::Value(b"nameless"));
    assert_eq!(overlay.get(Child(b"k"), b"k"), Lookup::Value(b"child"));
    assert_eq!(overlay.clear_prefix(Child(b"k"), b""), 1);
    assert_eq!(overlay.get(Child(b"k"), b"k"), Lookup::Deleted);
    assert!(overlay.has_values(Top) && overlay.has_values(Child(b"")));
    assert!(!overlay.has_values(Child(b"k")));
}

#[test]
fn a_child_store_is_there_while_it_holds_a_change() {
    let mut overlay = Overlay::new();
    assert_eq!(overlay.get(Child(b"a"), b"k"), Lookup::Untouched);
    assert_eq!(overlay.clear_prefix(Child(b"a"), b""), 0);
    assert_eq!(overlay.next_after(Child(b"a"), b""), None);
    assert_eq!(overlay.children().len(), 0);
    overlay.set(Child(b"c"), b"k", b"1");
    overlay.start_transaction();
    overlay.set(Child(b"b"), b"k", b"1");
    overlay.remove(Child(b"a"), b"k");
    assert!(overlay.children().eq([b"a", b"b", b"c"]));
    overlay.rollback_transaction().unwrap();
    assert!(overlay.children().eq([b"c"]));
    overlay.set(Child(b"b"), b"k", b"2");
    assert!(overlay.children().eq([b"b", b"c"]));
}

#[test]
fn an_empty_value_is_a_value() {
    let mut overlay = Overlay::new();
    overlay.set(Top, b"", b"");
    assert_eq!(overlay.get(Top, b""), Lookup::Value(b""));
    assert!(overlay.has_values(Top));
}

#[test]
fn may_cross_threads() {
    fn assert<T: Send + Sync>() {}
    assert::<Overlay>();
    assert::<OwnedChanges>();
}
