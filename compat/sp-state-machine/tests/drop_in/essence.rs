//! The nodes of a backend as a hash database, as tools read them that look at tries and not at keys: the number of
//! long values inside of nodes, say, which a change of the state version would move.

use hash_db::HashDBRef;
use sp_core::{
    storage::{ChildInfo, StateVersion},
    Blake2Hasher, Hasher,
};
use sp_state_machine::{backend::AsTrieBackend, new_in_mem, DBValue, TrieBackendBuilder};
use sp_trie::{trie_types::TrieDBBuilder, KeySpacedDB, Trie};
use std::collections::BTreeMap;

type Entries = BTreeMap<Vec<u8>, Vec<u8>>;

fn entries<H: Hasher>(nodes: &dyn HashDBRef<H, DBValue>, root: &H::Out) -> Entries {
    let trie = TrieDBBuilder::<H>::new(nodes, root).build();
    let entries = trie.iter().unwrap().map(Result::unwrap);
    entries.collect()
}

/// The entries of the top trie and of the child trie `child`. As generic as such a tool is.
fn read<H, B>(state: &B, child: &ChildInfo) -> [Entries; 2]
where
    H: Hasher,
    H::Out: codec::Codec,
    B: AsTrieBackend<H>,
{
    let essence = state.as_trie_backend().essence();
    let top = entries(essence, essence.root());
    let mut root = H::Out::default();
    root.as_mut()
        .copy_from_slice(&top[&child.prefixed_storage_key().into_inner()]);
    let below = KeySpacedDB::new(essence, child.keyspace());
    let below = entries::<H>(&below, &root);
    [top, below]
}

#[test]
fn tries_are_read_from_their_nodes() {
    let child = ChildInfo::new_default(b"child");
    let values = |count: u8| (0..count).map(|key| (vec![key; 4], vec![key; 40]));
    let some = |values: Vec<(Vec<u8>, Vec<u8>)>| {
        let values = values.into_iter();
        values.map(|(key, value)| (key, Some(value))).collect()
    };
    let state = new_in_mem::<Blake2Hasher>().update(
        vec![
            (None, some(values(200).collect())),
            (Some(child.clone()), some(values(90).collect())),
        ],
        StateVersion::V1,
    );
    let [mut top, below] = read(&state, &child);
    assert!(top
        .remove(&child.prefixed_storage_key().into_inner())
        .is_some());
    assert_eq!(top, values(200).collect());
    assert_eq!(below, values(90).collect());
}

/// As a read of a database is that a client makes for itself.
#[test]
fn reads_of_nodes_are_not_recorded() {
    let values = (0..90_u8).map(|key| (vec![key; 4], Some(vec![key; 40])));
    let state =
        new_in_mem::<Blake2Hasher>().update(vec![(None, values.collect())], StateVersion::V1);
    let backend = TrieBackendBuilder::wrap(&state)
        .with_recorder(Default::default())
        .build();
    let essence = backend.essence();
    assert_eq!(entries(essence, essence.root()).len(), 90);
    let proof = backend.extract_proof().unwrap();
    assert_eq!(proof.into_nodes().len(), 0);
}
