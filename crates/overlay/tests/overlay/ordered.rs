//! Calls that need the keys in order.

use povmeter_overlay::{Lookup, Overlay, TrieId::Top};

#[test]
fn clear_prefix_counts_values_and_takes_nothing_else() {
    let mut overlay = Overlay::new();
    for key in ["a", "ab", "abc", "ac", "b"] {
        overlay.set(Top, key.as_bytes(), b"v");
    }
    overlay.remove(Top, b"abd");
    overlay.start_transaction();
    overlay.set(Top, b"abe", b"v");
    overlay.rollback_transaction().unwrap();
    assert_eq!(overlay.clear_prefix(Top, b"ab"), 2);
    assert_eq!(overlay.clear_prefix(Top, b"ab"), 0);
    assert_eq!(overlay.get(Top, b"abe"), Lookup::Untouched);
    let held: Vec<_> = overlay
        .changes(Top)
        .into_iter()
        .filter(|(_, v)| v.is_some())
        .collect();
    assert_eq!(
        held.iter().map(|(k, _)| *k).collect::<Vec<_>>(),
        [&b"a"[..], b"ac", b"b"]
    );
    overlay.set(Top, b"abf", b"added after the index was built");
    assert_eq!(overlay.clear_prefix(Top, b"ab"), 1);
}

#[test]
fn a_prefix_of_ff_bytes_has_an_end() {
    let mut overlay = Overlay::new();
    for key in [&b"\xfe"[..], b"\xff", b"\xff\xff", b"\xff\xff\xff"] {
        overlay.set(Top, key, b"v");
    }
    overlay.start_transaction();
    assert_eq!(overlay.clear_prefix(Top, b"\xff\xff"), 2);
    overlay.rollback_transaction().unwrap();
    assert_eq!(overlay.clear_prefix(Top, b""), 4);
}

#[test]
fn next_after_tells_deletions_from_values() {
    let mut overlay = Overlay::new();
    overlay.set(Top, b"b", b"v");
    overlay.remove(Top, b"a");
    assert_eq!(overlay.next_after(Top, b""), Some((&b"a"[..], None)));
    assert_eq!(
        overlay.next_after(Top, b"a"),
        Some((&b"b"[..], Some(&b"v"[..])))
    );
    overlay.set(Top, b"aa", b"w");
    assert_eq!(
        overlay.next_after(Top, b"a"),
        Some((&b"aa"[..], Some(&b"w"[..])))
    );
    assert_eq!(overlay.next_after(Top, b"b"), None);
}

/// How a caller merges the overlay with the parent's keys.
#[test]
fn a_walk_over_parent_and_overlay() {
    let parent = ["a", "c", "d", "f"];
    let mut overlay = Overlay::new();
    overlay.remove(Top, b"a");
    overlay.set(Top, b"b", b"v");
    overlay.set(Top, b"d", b"v");
    overlay.remove(Top, b"e");
    overlay.remove(Top, b"f");
    let mut walked = Vec::new();
    let mut at = String::new();
    loop {
        let in_parent = parent
            .iter()
            .map(|key| key.as_bytes())
            .find(|key| *key > at.as_bytes());
        let in_overlay = overlay.next_after(Top, at.as_bytes());
        let (key, exists) = match (in_parent, in_overlay) {
            (Some(parent), Some((key, value))) if key <= parent => (key, value.is_some()),
            (Some(parent), _) => (parent, true),
            (None, Some((key, value))) => (key, value.is_some()),
            (None, None) => break,
        };
        at = String::from_utf8(key.to_vec()).unwrap();
        if exists {
            walked.push(at.clone());
        }
    }
    assert_eq!(walked, ["b", "c", "d"]);
}
