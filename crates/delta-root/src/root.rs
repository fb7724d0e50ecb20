//! The root update: what a block's net changes make of the parent state.
//!
//! Children first, each new child root then goes into the top trie, or leaves it with the child's
//! last entry.

use crate::{
    child_root_key, codec::LayoutV0, codec::LayoutV1, decode::NULL_NODE, table::KeyPath,
    Blake2b256, DecodeError, Fate, LoadError, NodeChange, NodeHash, NodePrefix, NodeSource,
    NodeTable, Observer, Root, RootNeeds, RootUpdate, ShadowState, StateVersion, TrieHandle,
    TrieId,
};
use alloc::{boxed::Box, collections::BTreeMap, vec::Vec};
use bytes::Bytes;
use hash_db::{AsHashDB, HashDB};
use trie_db::{TrieDBMutBuilder, TrieError, TrieLayout, TrieMut};

/// Changes of one trie, ordered by key, each key once; `None` deletes.
pub type KeyChanges<'a> = Vec<(&'a [u8], Option<&'a [u8]>)>;

/// Net changes of a state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes<'a> {
    /// Of the top trie. Roots of child tries are not among them.
    pub top: KeyChanges<'a>,
    /// Of child tries by storage key, ordered by it. A child without changes has its root in the
    /// top trie looked at but not changed.
    pub children: Vec<(&'a [u8], KeyChanges<'a>)>,
}

/// What kept a root from being computed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RootError {
    /// A node of the parent state can't be had.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A node was not loaded before the computation: the changes are not those that were marked.
    #[error("expected node {hash} to be loaded for the root of {trie}, found it missing")]
    NotLoaded {
        /// Hash of the node.
        hash: NodeHash,
        /// The trie: the child's storage key, empty for the top trie.
        trie: KeyPath,
    },
    /// A loaded node turned out not to be one.
    #[error("node {hash} is no trie node: {error}")]
    Corrupt {
        /// Hash of the node.
        hash: NodeHash,
        /// What is wrong with its bytes.
        error: DecodeError,
    },
    /// A trie that contradicts itself.
    #[error("trie {trie} is inconsistent: entry at odd path or reference of a wrong length")]
    Inconsistent {
        /// The trie: the child's storage key, empty for the top trie.
        trie: KeyPath,
    },
}

/// The update that `changes` make to the state, in layout `version`, with every node that it needs
/// loaded and observed first.
///
/// # Errors
/// [`RootError`]; there is no root then, and nothing has changed but what is loaded.
pub fn state_update<S: NodeSource>(
    state: &mut ShadowState<S>,
    changes: &Changes<'_>,
    version: StateVersion,
    observer: &mut impl Observer,
) -> Result<RootUpdate, RootError> {
    let mut needs = RootNeeds::default();
    for (storage_key, entries) in &changes.children {
        let handle = state.open(TrieId::Child(storage_key), observer)?;
        mark_all(state, handle, entries, &mut needs, observer)?;
        let kept = !state.is_bare(handle) || entries.iter().any(|(_, value)| value.is_some());
        let fate = if kept { Fate::Written } else { Fate::Deleted };
        mark_one(
            state,
            TrieHandle::TOP,
            &child_root_key(storage_key),
            fate,
            &mut needs,
            observer,
        )?;
    }
    mark_all(state, TrieHandle::TOP, &changes.top, &mut needs, observer)?;
    needs.settle(state, observer)?;
    state_update_of_loaded(state, changes, version)
}

fn mark_all<S: NodeSource>(
    state: &mut ShadowState<S>,
    handle: TrieHandle,
    entries: &KeyChanges<'_>,
    needs: &mut RootNeeds,
    observer: &mut impl Observer,
) -> Result<(), LoadError> {
    for (key, value) in entries {
        let fate = if value.is_some() {
            Fate::Written
        } else {
            Fate::Deleted
        };
        mark_one(state, handle, key, fate, needs, observer)?;
    }
    Ok(())
}

fn mark_one<S: NodeSource>(
    state: &mut ShadowState<S>,
    handle: TrieHandle,
    key: &[u8],
    fate: Fate,
    needs: &mut RootNeeds,
    observer: &mut impl Observer,
) -> Result<(), LoadError> {
    if let Some(at) = state.find(handle, key, observer)? {
        needs.mark(state, handle, at, fate);
    }
    Ok(())
}

/// As [`state_update`], for changes whose needs were marked and settled before.
///
/// # Errors
/// [`RootError`]; there is no root then.
pub fn state_update_of_loaded<S: NodeSource>(
    state: &mut ShadowState<S>,
    changes: &Changes<'_>,
    version: StateVersion,
) -> Result<RootUpdate, RootError> {
    let mut writes = Writes::default();
    let mut children = Vec::with_capacity(changes.children.len());
    for (storage_key, entries) in &changes.children {
        let handle = state.open(TrieId::Child(storage_key), &mut ())?;
        let parent = state
            .child_root(storage_key, &mut ())?
            .unwrap_or(Root::EMPTY);
        let entries = present(state, handle, entries)?;
        let root = trie_root(
            state.table(),
            storage_key,
            parent,
            &entries,
            version,
            &mut writes,
        )?;
        children.push((storage_key.to_vec(), root));
    }
    let root_keys: Vec<_> = children
        .iter()
        .map(|(key, _)| child_root_key(key))
        .collect();
    let child_roots = children.iter().zip(&root_keys).map(|((_, root), key)| {
        (
            key.as_slice(),
            (*root != Root::EMPTY).then_some(root.as_bytes().as_slice()),
        )
    });
    let mut entries: KeyChanges<'_> = changes.top.iter().copied().chain(child_roots).collect();
    entries.sort_by_key(|(key, _)| *key);
    let entries = present(state, TrieHandle::TOP, &entries)?;
    let parent = state.root();
    let root = trie_root(state.table(), &[], parent, &entries, version, &mut writes)?;
    Ok(RootUpdate {
        parent,
        root,
        children,
        nodes: writes.into_changes(),
    })
}

/// `entries` without deletions of keys that the parent does not have. They change nothing; handed to
/// trie-db, one that ends where a branch's partial key begins would take that branch's value.
fn present<'a, S: NodeSource>(
    state: &mut ShadowState<S>,
    handle: TrieHandle,
    entries: &KeyChanges<'a>,
) -> Result<KeyChanges<'a>, LoadError> {
    let mut kept = Vec::with_capacity(entries.len());
    for &(key, value) in entries {
        if value.is_some() || state.find(handle, key, &mut ())?.is_some() {
            kept.push((key, value));
        }
    }
    Ok(kept)
}

fn trie_root(
    table: &NodeTable,
    keyspace: &[u8],
    parent: Root,
    entries: &KeyChanges<'_>,
    version: StateVersion,
    writes: &mut Writes,
) -> Result<Root, RootError> {
    let mut nodes = LoadedNodes {
        table,
        keyspace,
        writes,
    };
    let applied = match version {
        StateVersion::V0 => apply::<LayoutV0>(&mut nodes, parent, entries),
        StateVersion::V1 => apply::<LayoutV1>(&mut nodes, parent, entries),
    };
    let trie = || KeyPath::new((keyspace, None));
    applied.map_err(|error| match *error {
        TrieError::IncompleteDatabase(hash) | TrieError::InvalidStateRoot(hash) => {
            RootError::NotLoaded { hash, trie: trie() }
        }
        TrieError::DecoderError(hash, error) => RootError::Corrupt { hash, error },
        TrieError::ValueAtIncompleteKey(..) | TrieError::InvalidHash(..) => {
            RootError::Inconsistent { trie: trie() }
        }
    })
}

fn apply<L: TrieLayout<Hash = Blake2b256, Codec = crate::StateCodec>>(
    nodes: &mut LoadedNodes<'_>,
    parent: Root,
    entries: &KeyChanges<'_>,
) -> Result<Root, Box<TrieError<NodeHash, DecodeError>>> {
    let mut root = parent.node_hash();
    let mut trie = TrieDBMutBuilder::<L>::from_existing(nodes, &mut root)
        // A computation that failed must not leave a root behind.
        .disable_commit_on_drop()
        .build();
    for (key, value) in entries {
        match value {
            Some(value) => trie.insert(key, value)?,
            None => trie.remove(key)?,
        };
    }
    trie.commit();
    drop(trie);
    Ok(Root::from(<[u8; 32]>::from(root)))
}

/// A node's path (whole bytes, last nibble) and hash.
type Place = (Vec<u8>, Option<u8>, NodeHash);

/// References gained and lost by place, and the nodes gained.
#[derive(Default)]
struct Writes(BTreeMap<Place, (i32, Bytes)>);

impl Writes {
    fn into_changes(self) -> Vec<NodeChange> {
        self.0
            .into_iter()
            .filter(|(_, (references, _))| *references != 0)
            .map(
                |((path, odd_nibble, hash), (references, encoded))| NodeChange {
                    path,
                    odd_nibble,
                    hash,
                    references,
                    encoded: if references > 0 {
                        encoded
                    } else {
                        Bytes::new()
                    },
                },
            )
            .collect()
    }
}

/// The loaded nodes as trie-db wants to see them, with what it writes set aside.
struct LoadedNodes<'a> {
    table: &'a NodeTable,
    keyspace: &'a [u8],
    writes: &'a mut Writes,
}

impl LoadedNodes<'_> {
    fn count(&mut self, hash: NodeHash, prefix: NodePrefix<'_>, by: i32, encoded: Bytes) {
        // The null node is nowhere stored.
        if hash == Root::EMPTY.node_hash() {
            return;
        }
        let place = ([self.keyspace, prefix.0].concat(), prefix.1, hash);
        let entry = self.writes.0.entry(place).or_default();
        // Few: one trie has each place once, and of several tries only some places coincide.
        entry.0 = entry.0.saturating_add(by);
        if by > 0 {
            entry.1 = encoded;
        }
    }
}

impl HashDB<Blake2b256, Vec<u8>> for LoadedNodes<'_> {
    fn get(&self, hash: &NodeHash, _: NodePrefix<'_>) -> Option<Vec<u8>> {
        if *hash == Root::EMPTY.node_hash() {
            return Some(NULL_NODE.to_vec());
        }
        self.table
            .find(hash)
            .map(|id| self.table.bytes(id).to_vec())
    }

    fn contains(&self, hash: &NodeHash, prefix: NodePrefix<'_>) -> bool {
        self.get(hash, prefix).is_some()
    }

    fn insert(&mut self, prefix: NodePrefix<'_>, value: &[u8]) -> NodeHash {
        let hash = Blake2b256::hash(value);
        self.count(hash, prefix, 1, Bytes::copy_from_slice(value));
        hash
    }

    fn emplace(&mut self, hash: NodeHash, prefix: NodePrefix<'_>, value: Vec<u8>) {
        self.count(hash, prefix, 1, Bytes::from(value));
    }

    fn remove(&mut self, hash: &NodeHash, prefix: NodePrefix<'_>) {
        self.count(*hash, prefix, -1, Bytes::new());
    }
}

impl AsHashDB<Blake2b256, Vec<u8>> for LoadedNodes<'_> {
    fn as_hash_db(&self) -> &dyn HashDB<Blake2b256, Vec<u8>> {
        self
    }

    fn as_hash_db_mut<'a>(&'a mut self) -> &'a mut (dyn HashDB<Blake2b256, Vec<u8>> + 'a) {
        self
    }
}
