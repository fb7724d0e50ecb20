//! Roots that a backend computes without a block.

use hash_db::{HashDB, Hasher, EMPTY_PREFIX};
use sp_core::{
    storage::{ChildInfo, StateVersion},
    Blake2Hasher, H256,
};
use sp_state_machine::{backend::Backend, TrieBackend, TrieBackendBuilder};
use sp_trie::{trie_types::TrieDBMutBuilderV1, KeySpacedDBMut, PrefixedMemoryDB, TrieMut};
use std::panic::{catch_unwind, AssertUnwindSafe};

type Nodes = PrefixedMemoryDB<Blake2Hasher>;
type State = TrieBackend<Nodes, Blake2Hasher>;
type Delta<'a> = Vec<(&'a [u8], Option<&'a [u8]>)>;

const VERSION: StateVersion = StateVersion::V1;
const KEYS: [&[u8]; 3] = [b"alice", b"bobby", b"carol"];

fn child() -> ChildInfo {
    ChildInfo::new_default(b"child")
}

/// The names with values of 40 bytes, in the top trie and in a child trie.
fn state() -> (Nodes, H256) {
    let mut nodes = Nodes::default();
    let (mut root, mut child_root) = (H256::default(), H256::default());
    {
        let mut spaced = KeySpacedDBMut::new(&mut nodes, b"child");
        let mut trie =
            TrieDBMutBuilderV1::<Blake2Hasher>::new(&mut spaced, &mut child_root).build();
        for key in KEYS {
            trie.insert(key, &[1; 40]).unwrap();
        }
    }
    {
        let mut trie = TrieDBMutBuilderV1::<Blake2Hasher>::new(&mut nodes, &mut root).build();
        for key in KEYS {
            trie.insert(key, &[1; 40]).unwrap();
        }
        trie.insert(&child().prefixed_storage_key(), child_root.as_ref())
            .unwrap();
    }
    (nodes, root)
}

fn on((nodes, root): (Nodes, H256)) -> State {
    TrieBackendBuilder::new(nodes, root).build()
}

/// The message of a call that must panic.
fn failure<R>(call: impl FnOnce() -> R) -> String {
    let Err(panic) = catch_unwind(AssertUnwindSafe(call)) else {
        panic!("expected that there is no root, found one")
    };
    *panic.downcast::<String>().unwrap()
}

/// The state without one of its nodes, for each of them.
fn without_each() -> impl Iterator<Item = State> {
    let (nodes, root) = state();
    let keys: Vec<Vec<u8>> = nodes.clone().drain().into_keys().collect();
    keys.into_iter().map(move |missing| {
        let mut left = Nodes::default();
        for (key, (node, _)) in nodes.clone().drain() {
            let (prefix, hash) = key.split_at(key.len() - 32);
            if key != missing {
                assert_eq!(Blake2Hasher::hash(&node).as_bytes(), hash);
                left.emplace(H256::from_slice(hash), (prefix, None), node);
            }
        }
        on((left, root))
    })
}

#[test]
fn roots_are_the_originals() {
    let state = on(state());
    let same: Delta<'_> = vec![(b"alice", Some(&[1; 40])), (b"dora", None)];
    assert_eq!(
        state.storage_root(same.into_iter(), VERSION).0,
        *state.root()
    );
    // The last change of a key counts.
    let twice: Delta<'_> = vec![(b"alice", None), (b"alice", Some(&[1; 40]))];
    assert_eq!(
        state.storage_root(twice.into_iter(), VERSION).0,
        *state.root()
    );
    let (root, _) = state.storage_root(std::iter::empty(), VERSION);
    assert_eq!(root, *state.root());
    let other: Delta<'_> = vec![(b"alice", Some(&[2; 40]))];
    assert_ne!(
        state.storage_root(other.clone().into_iter(), VERSION).0,
        *state.root()
    );
    let (one, is_empty, _) = state.child_storage_root(&child(), other.into_iter(), VERSION);
    let none = KEYS.map(|key| (key, None));
    let (empty, all_gone, _) = state.child_storage_root(&child(), none.into_iter(), VERSION);
    assert!(!is_empty && all_gone && one != empty);
    let absent = ChildInfo::new_default(b"absent");
    let (root, is_empty, _) = state.child_storage_root(&absent, none.into_iter(), VERSION);
    assert!(is_empty && root == empty);
}

#[test]
fn no_root_is_made_up() {
    let changes: Vec<Delta<'_>> = vec![
        KEYS.map(|key| (key, None)).to_vec(),
        KEYS.map(|key| (key, Some(&[2; 40][..]))).to_vec(),
        vec![(b"alice", None), (b"bobby", None)],
    ];
    let whole = on(state());
    let mut failed = 0;
    for delta in changes {
        let (top, _) = whole.storage_root(delta.clone().into_iter(), VERSION);
        let (below, _, _) = whole.child_storage_root(&child(), delta.clone().into_iter(), VERSION);
        for state in without_each() {
            let found = catch_unwind(AssertUnwindSafe(|| {
                state.storage_root(delta.clone().into_iter(), VERSION).0
            }));
            let found_below = catch_unwind(AssertUnwindSafe(|| {
                let changes = delta.clone().into_iter();
                state.child_storage_root(&child(), changes, VERSION).0
            }));
            failed += usize::from(found.is_err()) + usize::from(found_below.is_err());
            // The right root or none.
            assert!(found.is_err() || found.is_ok_and(|root| root == top));
            assert!(found_below.is_err() || found_below.is_ok_and(|root| root == below));
        }
    }
    assert!(failed >= 12, "{failed}");
    let mut empty = on((Nodes::default(), *whole.root()));
    let said = failure(|| empty.storage_root([(&b"alice"[..], None)].into_iter(), VERSION));
    assert!(said.contains("616c696365"), "{said}");
    let said = failure(|| empty.child_storage_root(&child(), std::iter::empty(), VERSION));
    assert!(said.contains("expected the value of"), "{said}");
    // An empty state has no node that could be missing.
    empty = on((
        Nodes::default(),
        sp_trie::empty_trie_root::<sp_trie::LayoutV1<Blake2Hasher>>(),
    ));
    assert!(
        empty
            .storage_root([(&b"alice"[..], None)].into_iter(), VERSION)
            .0
            == *empty.root()
    );
    assert!(HashDB::get(&Nodes::default(), whole.root(), EMPTY_PREFIX).is_none());
}

/// As with the original, the version of the root that the runtime computed decides.
#[test]
fn a_block_ends_in_the_version_of_its_root() {
    let (nodes, root) = state();
    let versions = [StateVersion::V0, StateVersion::V1];
    // What the caller does between the root and the end.
    macro_rules! ended {
        ($module:ident, $backend:expr, $version:expr, $step:expr) => {{
            let backend = $backend;
            let mut overlay = $module::OverlayedChanges::default();
            overlay.set_storage(b"new".to_vec(), Some(vec![9; 40]));
            overlay.set_storage(b"none".to_vec(), None);
            overlay.storage_root(&backend, $version);
            match $step {
                0 => {}
                1 => {
                    overlay.start_transaction();
                    overlay.rollback_transaction().unwrap();
                }
                2 => overlay.set_storage(b"none".to_vec(), None),
                3 => _ = overlay.clear_prefix(b"nobody"),
                _ => _ = overlay.clear_child_storage(&ChildInfo::new_default(b"nobody")),
            }
            let (_, cached) = overlay.storage_root(&backend, $version);
            if $step > 0 {
                // Without this root, the version of the end would be that of the first one.
                overlay.start_transaction();
                overlay.rollback_transaction().unwrap();
            }
            let other = versions[usize::from($version == StateVersion::V0)];
            let changes = overlay.drain_storage_changes(&backend, other).unwrap();
            (cached, changes.transaction_storage_root)
        }};
    }
    for step in 0..5 {
        let roots = versions.map(|version| {
            let expected = ended!(
                original,
                original::TrieBackendBuilder::<_, Blake2Hasher>::new(nodes.clone(), root).build(),
                version,
                step
            );
            let found = ended!(sp_state_machine, on((nodes.clone(), root)), version, step);
            assert_eq!(found, expected, "{step} {version:?}");
            assert_eq!(expected.0, step == 0);
            expected.1
        });
        assert_ne!(roots[0], roots[1]);
    }
}
