//! Overlays whose changes the original keeps: what they list after each change, and the extrinsics that they
//! collect.

use codec::Encode;
use hash_db::Hasher;
use sp_core::{
    storage::{well_known_keys::EXTRINSIC_INDEX, ChildInfo},
    Blake2Hasher, KeccakHasher,
};
use sp_state_machine::{IndexOperation, OverlayedChanges};

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

/// A step of a history that both overlays take.
#[derive(Clone, Copy, Debug)]
enum Step {
    Set(u8),
    Delete(u8),
    SetChild(u8),
    Append(u8),
    ClearPrefix(u8),
    SetOffchain(u8),
    DeleteOffchain(u8),
    Index(u8),
    Begin(u8),
    Start,
    Commit,
    RollBack,
    Enter,
    Exit,
}

impl Step {
    fn of(number: u64) -> Self {
        let key = u8::try_from((number >> 8) % 6).unwrap();
        match number % 24 {
            0..4 => Self::Set(key),
            4 => Self::Delete(key),
            5..7 => Self::SetChild(key),
            7..9 => Self::Append(key),
            9 => Self::ClearPrefix(key),
            10 => Self::SetOffchain(key),
            11 => Self::DeleteOffchain(key),
            12 => Self::Index(key),
            13 => Self::Begin(key),
            14..18 => Self::Start,
            18..20 => Self::Commit,
            20..22 => Self::RollBack,
            22 => Self::Enter,
            _ => Self::Exit,
        }
    }
}

/// Takes a step, and returns whether it was allowed. The two overlays have no trait in common.
macro_rules! take {
    ($overlay:expr, $step:expr, $value:expr) => {{
        let (overlay, value) = ($overlay, $value.to_vec());
        match $step {
            Step::Set(key) => overlay.set_storage(vec![1, key], Some(value)),
            Step::Delete(key) => overlay.set_storage(vec![1, key], None),
            Step::SetChild(key) => {
                let child = ChildInfo::new_default(&[key / 3]);
                overlay.set_child_storage(&child, vec![key], Some(value));
            }
            Step::Append(key) => overlay.append_storage(vec![2, key], vec![key], Vec::new),
            Step::ClearPrefix(key) => drop(overlay.clear_prefix(&[1 + key % 2])),
            Step::SetOffchain(key) => overlay.set_offchain_storage(&[key], Some(&value)),
            Step::DeleteOffchain(key) => overlay.set_offchain_storage(&[key], None),
            Step::Index(key) => overlay.add_transaction_index(IndexOperation::Renew {
                extrinsic: u32::from(key),
                hash: value,
            }),
            Step::Begin(key) => {
                let index = u32::from(key).encode();
                overlay.set_storage(EXTRINSIC_INDEX.to_vec(), Some(index));
            }
            Step::Start => overlay.start_transaction(),
            Step::Commit | Step::RollBack | Step::Enter | Step::Exit => {}
        }
        match $step {
            Step::Commit => overlay.commit_transaction().is_ok(),
            Step::RollBack => overlay.rollback_transaction().is_ok(),
            Step::Enter => overlay.enter_runtime().is_ok(),
            Step::Exit => overlay.exit_runtime().is_ok(),
            _ => true,
        }
    }};
}

/// All that an overlay shows.
macro_rules! shown {
    ($overlay:expr) => {{
        // The original shows the values of lists that were appended to only of a mutable overlay.
        let mut overlay = $overlay.clone();
        let mut shown = Vec::new();
        for (key, value) in overlay.changes_mut() {
            let extrinsics = value.extrinsics();
            shown.push(format!("{key:?} {:?} {extrinsics:?}", value.value()));
        }
        for (changes, info) in overlay.children_mut() {
            for (key, value) in changes {
                let value = (
                    info.storage_key(),
                    key,
                    value.value().cloned(),
                    value.extrinsics(),
                );
                shown.push(format!("{value:?}"));
            }
        }
        // The original's order is that of a hash map.
        shown.sort();
        for change in overlay.offchain().clone().into_iter() {
            shown.push(format!("{change:?}"));
        }
        shown.push(format!("{:?}", overlay.transaction_index_ops()));
        shown.push(format!("{} open", overlay.transaction_depth()));
        shown
    }};
}

#[test]
fn extrinsics_are_collected_from_any_step_on() {
    let mut number = 1_u64;
    let mut next = || {
        // Xorshift: any sequence will do.
        number ^= number << 13;
        number ^= number >> 7;
        number ^= number << 17;
        number
    };
    let (mut within, mut in_runtime) = (0, 0);
    for _ in 0..800 {
        let mut overlay = OverlayedChanges::<Blake2Hasher>::default();
        let mut expected = original::OverlayedChanges::<Blake2Hasher>::default();
        let begins = next() % 40;
        let mut entered = false;
        for step in 0..begins + 30 {
            if step == begins {
                overlay.set_collect_extrinsics(true);
                expected.set_collect_extrinsics(true);
                within += usize::from(overlay.transaction_depth() > 1);
                in_runtime += usize::from(entered && overlay.transaction_depth() > 1);
            }
            let (of, value) = (Step::of(next()), next().to_le_bytes());
            let value = &value[..usize::from(value[7] % 3)];
            let allowed = take!(&mut overlay, of, value);
            assert_eq!(allowed, take!(&mut expected, of, value), "{of:?}");
            entered = match of {
                Step::Enter => true,
                Step::Exit => false,
                _ => entered,
            };
            assert_eq!(
                shown!(overlay),
                shown!(expected),
                "after step {step}, {of:?}"
            );
        }
    }
    assert!(within > 200 && in_runtime > 40, "{within} {in_runtime}");
}

#[test]
fn collecting_ends_when_it_is_taken_back() {
    let mut overlay = OverlayedChanges::<Blake2Hasher>::default();
    overlay.start_transaction();
    begin(&mut overlay, 1);
    overlay.set_collect_extrinsics(true);
    overlay.set_collect_extrinsics(false);
    overlay.commit_transaction().unwrap();
    overlay.set_storage(vec![1], Some(vec![1]));
    assert_eq!(extrinsics(&overlay, &[1]), [0_u32; 0]);
}
