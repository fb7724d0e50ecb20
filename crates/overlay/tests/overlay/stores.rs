//! The top store and child stores.

use povmeter_overlay::{
    Base, Branch, Frozen, Lookup, Overlay, StoreId::Child, StoreId::Top, Writes,
};
use std::sync::Barrier;

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

/// Many threads touch the same stores for the first time at once, each in a branch of its own.
#[test]
fn first_touch_from_several_threads() {
    let mut overlay = Overlay::new();
    for child in 0..21_u8 {
        overlay.set(Child(&[child]), b"key", &[child]);
    }
    overlay.with_branches(|base| {
        let start = Barrier::new(4);
        let work = &|thread: u8| {
            let mut branch = base.branch();
            start.wait();
            for child in (0..42_u8).filter(|child| child % 2 == thread % 2) {
                let before = branch.get(Child(&[child]), b"key");
                let expected = [child];
                let expected = match child {
                    0..21 => Lookup::Value(&expected),
                    _ => Lookup::Untouched,
                };
                assert_eq!(before, expected);
                branch.set(Child(&[child]), &[thread], &[child]);
                let next = branch.next_after(Child(&[child]), &[]);
                assert_eq!(next, Some((&[thread][..], Some(&[child][..]))));
            }
            assert_eq!(branch.own().children().len(), 21);
            assert_eq!(
                branch.children().len(),
                if thread.is_multiple_of(2) { 31 } else { 32 }
            );
            branch.finish().unwrap()
        };
        std::thread::scope(|scope| {
            let threads = [0, 1, 2, 3].map(|thread| scope.spawn(move || work(thread)));
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect()
        })
    });
    assert_eq!(overlay.children().len(), 42);
    for child in 0..42_u8 {
        for thread in 0..4_u8 {
            let its = child % 2 == thread % 2;
            let expected = if its {
                Lookup::Value(&[child][..])
            } else {
                Lookup::Untouched
            };
            assert_eq!(overlay.get(Child(&[child]), &[thread]), expected);
        }
    }
}

#[test]
fn may_cross_threads() {
    fn assert<T: Send + Sync>() {}
    assert::<Overlay>();
    assert::<Frozen>();
    assert::<Base<'_>>();
    assert::<Branch<'_>>();
    assert::<Writes<'_>>();
}
