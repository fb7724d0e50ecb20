//! Overlays whose changes the original keeps: what they list after each change, and the extrinsics that they
//! collect.
#![allow(clippy::unwrap_used)]

use codec::Encode;
use hash_db::Hasher;
use sp_core::{
    storage::{well_known_keys::EXTRINSIC_INDEX, ChildInfo},
    Blake2Hasher, KeccakHasher,
};
use sp_state_machine::OverlayedChanges;
use std::collections::BTreeSet;

type Listed = Vec<(Vec<u8>, Option<Vec<u8>>)>;

fn child() -> ChildInfo {
    ChildInfo::new_default(b"child")
}

/// The changes of the top trie and of the child trie.
fn listed<H: Hasher>(overlay: &OverlayedChanges<H>) -> [Listed; 2] {
    let value = |value: &sp_state_machine::OverlayedValue| {
        let option = value.clone().to_option();
        // The type of these cannot be named, as that of the original.
        let shown = option
            .as_ref()
            .map_or("Remove".to_owned(), |value| format!("Set({value:?})"));
        assert_eq!(format!("{:?}", value.value_ref()), shown);
        assert_eq!(format!("{:?}", value.clone().into_value()), shown);
        option
    };
    let top = overlay.changes().map(|(key, of)| (key.clone(), value(of)));
    let below = overlay.child_changes(b"child");
    let below = below.into_iter().flat_map(|(changes, _)| changes);
    let below: Listed = below.map(|(key, of)| (key.clone(), value(of))).collect();
    let all = overlay.children().flat_map(|(changes, _)| changes);
    let all: Listed = all.map(|(key, of)| (key.clone(), value(of))).collect();
    assert_eq!(all, below);
    [top.collect(), below]
}

fn lists_what_is_cleared<H: Hasher>(collects: bool) {
    let mut overlay = OverlayedChanges::<H>::default();
    overlay.set_collect_extrinsics(collects);
    let set = |key: &[u8]| (key.to_vec(), Some(vec![7]));
    let cleared = |key: &[u8]| (key.to_vec(), None);
    for key in [b"ab", b"ac", b"bb"] {
        overlay.set_storage(key.to_vec(), Some(vec![7]));
        overlay.set_child_storage(&child(), key.to_vec(), Some(vec![7]));
    }
    let all = vec![set(b"ab"), set(b"ac"), set(b"bb")];
    assert_eq!(listed(&overlay), [all.clone(), all.clone()]);
    assert_eq!(overlay.clear_prefix(b"a"), 2);
    let rest = vec![cleared(b"ab"), cleared(b"ac"), set(b"bb")];
    assert_eq!(listed(&overlay), [rest.clone(), all]);
    assert_eq!(overlay.clear_child_prefix(&child(), b"a"), 2);
    assert_eq!(listed(&overlay), [rest.clone(), rest.clone()]);
    assert_eq!(overlay.clear_child_storage(&child()), 1);
    let none = vec![cleared(b"ab"), cleared(b"ac"), cleared(b"bb")];
    assert_eq!(listed(&overlay), [rest, none]);
    let text = format!("{overlay:?}");
    assert_eq!(text.matches("value: Remove").count(), 5, "{text}");
}

#[test]
fn cleared_values_are_listed_as_deleted() {
    lists_what_is_cleared::<Blake2Hasher>(false);
    lists_what_is_cleared::<Blake2Hasher>(true);
    lists_what_is_cleared::<KeccakHasher>(false);
}

/// What an overlay lists as the extrinsics that changed `key`.
fn extrinsics(overlay: &OverlayedChanges<Blake2Hasher>, key: &[u8]) -> Vec<u32> {
    let mut changes = overlay.changes();
    let (_, value) = changes.find(|(changed, _)| *changed == key).unwrap();
    value.extrinsics().into_iter().collect()
}

fn begin(overlay: &mut OverlayedChanges<Blake2Hasher>, extrinsic: u32) {
    overlay.set_storage(EXTRINSIC_INDEX.to_vec(), Some(extrinsic.encode()));
}

#[test]
fn extrinsics_are_collected_in_a_transaction_without_changes() {
    let mut overlay = OverlayedChanges::default();
    overlay.start_transaction();
    overlay.set_storage(vec![9], Some(vec![9]));
    overlay.start_transaction();
    overlay.rollback_transaction().unwrap();
    overlay.rollback_transaction().unwrap();
    overlay.start_transaction();
    overlay.set_collect_extrinsics(true);
    begin(&mut overlay, 3);
    overlay.set_storage(vec![1], Some(vec![1]));
    assert_eq!(extrinsics(&overlay, &[1]), [3]);
    overlay.start_transaction();
    begin(&mut overlay, 4);
    overlay.set_storage(vec![1], Some(vec![2]));
    overlay.commit_transaction().unwrap();
    assert_eq!(extrinsics(&overlay, &[1]), [3, 4]);
    overlay.rollback_transaction().unwrap();
    assert_eq!(overlay.changes().count(), 0);
}

/// Closes the transactions of an overlay, and returns whether its changes stay.
type Close = fn(&mut OverlayedChanges<Blake2Hasher>) -> bool;

#[test]
fn extrinsics_are_collected_from_the_end_of_the_outermost_transaction_on() {
    let ways: [Close; 3] = [
        |overlay| {
            overlay.commit_transaction().unwrap();
            overlay.commit_transaction().is_ok()
        },
        |overlay| {
            overlay.commit_transaction().unwrap();
            overlay.rollback_transaction().is_err()
        },
        |overlay| overlay.exit_runtime().is_err(),
    ];
    for (way, close) in ways.into_iter().enumerate() {
        let mut overlay = OverlayedChanges::<Blake2Hasher>::default();
        begin(&mut overlay, 1);
        overlay.set_storage(vec![1], Some(vec![1]));
        overlay.set_child_storage(&child(), vec![1], Some(vec![1]));
        overlay.enter_runtime().unwrap();
        overlay.start_transaction();
        overlay.start_transaction();
        overlay.set_storage(vec![2], Some(vec![2]));
        overlay.set_collect_extrinsics(true);
        overlay.set_storage(vec![3], Some(vec![3]));
        let before = listed(&overlay);
        let stays = close(&mut overlay);
        let (kept, [_, below]) = (way == 0, listed(&overlay));
        assert_eq!(stays, kept);
        assert_eq!(overlay.storage(&[3]).is_some(), kept, "way {way}");
        assert_eq!(overlay.storage(&[1]), Some(Some(&[1][..])));
        assert_eq!(below, before[1]);
        // What was changed before has no extrinsics.
        assert_eq!(extrinsics(&overlay, &[1]), [0_u32; 0]);
        begin(&mut overlay, 5);
        overlay.set_storage(vec![1], Some(vec![6]));
        assert_eq!(extrinsics(&overlay, &[1]), [5]);
        overlay.set_child_storage(&child(), vec![1], Some(vec![6]));
        let (mut changes, _) = overlay.child_changes(b"child").unwrap();
        let of_child = changes.next().unwrap().1.extrinsics();
        assert_eq!(of_child, BTreeSet::from([5]));
    }
}

#[test]
fn what_was_put_off_can_be_taken_back() {
    let mut overlay = OverlayedChanges::<Blake2Hasher>::default();
    overlay.start_transaction();
    begin(&mut overlay, 1);
    overlay.set_collect_extrinsics(true);
    overlay.set_collect_extrinsics(false);
    overlay.commit_transaction().unwrap();
    overlay.set_storage(vec![1], Some(vec![1]));
    assert_eq!(extrinsics(&overlay, &[1]), [0_u32; 0]);
}
