//! The nodes that trie-db reads if it applies the deletions of a block before its insertions.
//!
//! The counting rule of docs/proof-size.md counts these nodes, whatever is inserted beside the
//! deleted keys. The peer applies changes in key order and may need fewer.

use crate::{peer::NodeStore, peer::Parent, runtime::Hashing};
use hash_db::{AsHashDB, HashDB, HashDBRef, Prefix};
use sp_core::{
    storage::{ChildInfo, StateVersion},
    H256,
};
use sp_state_machine::{ChildStorageCollection, DBValue, StorageCollection};
use sp_trie::{
    empty_trie_root, recorder::Recorder, LayoutV0, LayoutV1, PrefixedMemoryDB, TrieConfiguration,
    TrieDBBuilder, TrieDBMutBuilder,
};
use std::collections::BTreeSet;
use trie_db::{Trie, TrieLayout, TrieMut};

/// The encoding of a trie without entries.
pub const NULL_NODE: [u8; 1] = [0];

/// The nodes that the root of a block needs if deletions come first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeletionsFirst {
    /// The encoded nodes.
    pub nodes: BTreeSet<Vec<u8>>,
    /// Whether the deletions empty a trie that had entries.
    pub emptied: bool,
}

/// Returns the nodes of `parent` that are read to apply the changes of the top trie and the child
/// tries, deletions first.
///
/// # Errors
/// The message of trie-db if a node is missing or corrupt.
pub fn deletions_first(
    parent: &Parent,
    version: StateVersion,
    top: &StorageCollection,
    children: &ChildStorageCollection,
) -> Result<DeletionsFirst, String> {
    let recorder = Recorder::<Hashing>::default();
    let apply = match version {
        StateVersion::V0 => apply_all::<LayoutV0<Hashing>>,
        StateVersion::V1 => apply_all::<LayoutV1<Hashing>>,
    };
    let emptied = apply(parent, &recorder, top, children)?;
    let nodes = recorder.to_storage_proof().into_nodes();
    Ok(DeletionsFirst { nodes, emptied })
}

/// Applies the changes of all tries. Returns whether the deletions emptied one.
fn apply_all<L>(
    parent: &Parent,
    recorder: &Recorder<Hashing>,
    top: &StorageCollection,
    children: &ChildStorageCollection,
) -> Result<bool, String>
where
    L: TrieLayout<Hash = Hashing> + TrieConfiguration,
{
    let top_nodes = Nodes::new(parent, Vec::new());
    let mut changes = top.clone();
    let mut any_emptied = false;
    for (storage_key, child_changes) in children {
        let child = ChildInfo::new_default(storage_key);
        let root_key = child.prefixed_storage_key().into_inner();
        let old = get::<L>(&top_nodes, parent.root, recorder, &root_key)?;
        let old = old.map_or_else(empty_trie_root::<L>, |root| H256::from_slice(&root));
        let nodes = Nodes::new(parent, child.keyspace().to_vec());
        let (root, emptied) = apply::<L>(nodes, old, recorder, child_changes)?;
        any_emptied |= emptied;
        changes.retain(|(key, _)| *key != root_key);
        let is_left = root != empty_trie_root::<L>();
        changes.push((root_key, is_left.then(|| root.as_bytes().to_vec())));
    }
    let (_, emptied) = apply::<L>(top_nodes, parent.root, recorder, &changes)?;
    Ok(any_emptied || emptied)
}

/// Returns the root of one trie after `changes`, and whether the deletions emptied it.
fn apply<L>(
    mut nodes: Nodes<'_>,
    old: H256,
    recorder: &Recorder<Hashing>,
    changes: &StorageCollection,
) -> Result<(H256, bool), String>
where
    L: TrieLayout<Hash = Hashing> + TrieConfiguration,
{
    // For an absent key only read the path: the rule does not count its removal as a deletion, and
    // trie-db fails at it for some shapes.
    let mut deletions = Vec::new();
    for (key, _) in changes.iter().filter(|(_, value)| value.is_none()) {
        match get::<L>(&nodes, old, &Recorder::default(), key)? {
            Some(_) => deletions.push(key),
            None => drop(get::<L>(&nodes, old, recorder, key)?),
        }
    }
    let mut root = old;
    let mut touched = recorder.as_trie_recorder(old);
    let builder = TrieDBMutBuilder::<L>::from_existing(&mut nodes, &mut root);
    let mut trie = builder.with_recorder(&mut touched).build();
    for key in deletions {
        trie.remove(key).map_err(|error| error.to_string())?;
    }
    let emptied = old != empty_trie_root::<L>() && trie.is_empty();
    for (key, value) in changes {
        if let Some(value) = value {
            trie.insert(key, value).map_err(|error| error.to_string())?;
        }
    }
    trie.commit();
    drop(trie);
    drop(touched);
    Ok((root, emptied))
}

/// Returns the value of `key`; records the path in `recorder`.
fn get<L>(
    nodes: &Nodes<'_>,
    root: H256,
    recorder: &Recorder<Hashing>,
    key: &[u8],
) -> Result<Option<DBValue>, String>
where
    L: TrieLayout<Hash = Hashing> + TrieConfiguration,
{
    let mut touched = recorder.as_trie_recorder(root);
    let trie = TrieDBBuilder::<L>::new(nodes, &root);
    let trie = trie.with_recorder(&mut touched).build();
    trie.get(key).map_err(|error| error.to_string())
}

/// The nodes of one trie: those of the parent state and the new ones.
struct Nodes<'a> {
    parent: &'a NodeStore,
    keyspace: Vec<u8>,
    new: PrefixedMemoryDB<Hashing>,
}

impl<'a> Nodes<'a> {
    fn new(parent: &'a Parent, keyspace: Vec<u8>) -> Self {
        Self {
            parent: &parent.nodes,
            keyspace,
            new: PrefixedMemoryDB::default(),
        }
    }
}

impl HashDBRef<Hashing, DBValue> for Nodes<'_> {
    fn get(&self, hash: &H256, (path, odd_nibble): Prefix<'_>) -> Option<DBValue> {
        HashDB::get(&self.new, hash, (path, odd_nibble)).or_else(|| {
            let path = [&self.keyspace[..], path].concat();
            // A store error becomes a missing node, because trie-db then names the node.
            self.parent.get(hash, (&path, odd_nibble)).ok().flatten()
        })
    }

    fn contains(&self, hash: &H256, prefix: Prefix<'_>) -> bool {
        HashDBRef::get(self, hash, prefix).is_some()
    }
}

impl HashDB<Hashing, DBValue> for Nodes<'_> {
    fn get(&self, hash: &H256, prefix: Prefix<'_>) -> Option<DBValue> {
        HashDBRef::get(self, hash, prefix)
    }

    fn contains(&self, hash: &H256, prefix: Prefix<'_>) -> bool {
        HashDBRef::contains(self, hash, prefix)
    }

    fn insert(&mut self, prefix: Prefix<'_>, node: &[u8]) -> H256 {
        self.new.insert(prefix, node)
    }

    fn emplace(&mut self, hash: H256, prefix: Prefix<'_>, node: DBValue) {
        self.new.emplace(hash, prefix, node);
    }

    fn remove(&mut self, hash: &H256, prefix: Prefix<'_>) {
        self.new.remove(hash, prefix);
    }
}

impl AsHashDB<Hashing, DBValue> for Nodes<'_> {
    fn as_hash_db(&self) -> &dyn HashDB<Hashing, DBValue> {
        self
    }

    fn as_hash_db_mut<'b>(&'b mut self) -> &'b mut (dyn HashDB<Hashing, DBValue> + 'b) {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sp_core::storage::{Storage, StorageChild};

    /// The keys `1a`, `1b`, `1c` and `2d` of the top trie and of the child trie `c`.
    fn parent() -> Parent {
        let entries = [0x1a, 0x1b, 0x1c, 0x2d].map(|key| (vec![key], vec![key; 40]));
        let child = StorageChild {
            data: entries.clone().into(),
            child_info: ChildInfo::new_default(b"c"),
        };
        let storage = Storage {
            top: entries.into(),
            children_default: [(b"c".to_vec(), child)].into(),
        };
        Parent::in_memory(&storage, StateVersion::V0)
    }

    fn removed(keys: &[u8]) -> StorageCollection {
        keys.iter().map(|key| (vec![*key], None)).collect()
    }

    fn holds(needed: &DeletionsFirst, key: u8) -> bool {
        needed.nodes.iter().any(|node| node.ends_with(&[key; 40]))
    }

    #[test]
    fn a_sibling_is_read_whatever_is_inserted() {
        let changes = [
            vec![(vec![0x10], Some(vec![9; 40]))],
            removed(&[0x1a, 0x1b]),
        ]
        .concat();
        let (none, child) = (Vec::new(), vec![(b"c".to_vec(), changes.clone())]);
        for (top, children) in [(&changes, &Vec::new()), (&none, &child)] {
            let needed = deletions_first(&parent(), StateVersion::V0, top, children).unwrap();
            assert!(holds(&needed, 0x1c) && !holds(&needed, 0x2d));
            assert!(!needed.emptied);
        }
    }

    #[test]
    fn a_trie_without_entries_was_emptied() {
        let all = removed(&[0x1a, 0x1b, 0x1c, 0x2d]);
        let set_again = [all.clone(), vec![(vec![7], Some(vec![7]))]].concat();
        for changes in [all, set_again] {
            let child = vec![(b"c".to_vec(), changes)];
            let needed = deletions_first(&parent(), StateVersion::V0, &Vec::new(), &child);
            assert!(needed.unwrap().emptied);
        }
        let absent = removed(&[0x1d]);
        let needed = deletions_first(&parent(), StateVersion::V0, &absent, &Vec::new()).unwrap();
        assert!(!needed.emptied && !needed.nodes.is_empty() && !holds(&needed, 0x1c));
    }

    #[test]
    fn a_missing_node_is_an_error() {
        let root = H256::repeat_byte(3);
        let parent = Parent { root, ..parent() };
        let changes = removed(&[0x1a]);
        assert!(deletions_first(&parent, StateVersion::V1, &changes, &Vec::new()).is_err());
    }
}
