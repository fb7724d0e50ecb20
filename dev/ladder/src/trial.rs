//! Trial tries: they are changed only to find out which nodes the changes need.

use crate::snapshot::Changes;
use hash_db::{AsHashDB, HashDB, Hasher, Prefix};
use povmeter_dev_runtime::{runtime::Hashing, HostError, NodeStore, Parent, SplitRecorder};
use sp_core::{
    storage::{ChildInfo, StateVersion},
    H256,
};
use sp_trie::{
    cache::LocalTrieCache, DBValue, KeySpacedDBMut, LayoutV0, LayoutV1, NodeCodec,
    PrefixedMemoryDB, TrieCache, TrieDBMutBuilder, TrieLayout, TrieMut,
};
use std::{collections::HashMap, sync::Mutex};

/// Trial tries: they apply changes to note the nodes that these need.
pub trait Trial {
    /// Whether the values of written keys matter.
    fn wants_values(&self) -> bool;

    /// Changes a child trie whose root in the parent state is `parent`. Returns the new root, or any
    /// `Some` if the trial computes no roots; `None` if the child trie is now empty.
    fn child(
        &mut self,
        child: &ChildInfo,
        parent: Option<H256>,
        changes: &Changes,
    ) -> Result<Option<H256>, HostError>;

    /// Changes the top trie.
    fn top(&mut self, changes: &Changes) -> Result<(), HostError>;
}

/// The nodes of the parent state and the new ones, with a recorder for the former.
struct TrialNodes<'a, H: Hasher> {
    parent: &'a NodeStore,
    made: &'a mut PrefixedMemoryDB<H>,
    /// Notes nodes of the parent state; `None` if the trie has its own recorder.
    notes: Option<&'a SplitRecorder>,
    null: H256,
    failure: Mutex<Option<String>>,
}

impl<'a, H: Hasher<Out = H256>> TrialNodes<'a, H> {
    fn new(
        parent: &'a NodeStore,
        made: &'a mut PrefixedMemoryDB<H>,
        notes: Option<&'a SplitRecorder>,
    ) -> Self {
        Self {
            parent,
            made,
            notes,
            null: H::hash(&NULL_NODE),
            failure: Mutex::new(None),
        }
    }

    fn note(&self, hash: H256, node: &[u8]) {
        if let Some(notes) = self.notes {
            notes.note_estimated(hash, node);
        }
    }
}

/// The node of an empty trie.
const NULL_NODE: [u8; 1] = [0];

impl<H: Hasher<Out = H256>> HashDB<H, DBValue> for TrialNodes<'_, H> {
    fn get(&self, key: &H256, prefix: Prefix<'_>) -> Option<DBValue> {
        if *key == self.null {
            // In a proof the null node has its Blake2 hash, whatever the trial's hasher.
            self.note(Hashing::hash(&NULL_NODE), &NULL_NODE);
            return Some(NULL_NODE.to_vec());
        }
        if let Some(node) = HashDB::get(self.made, key, prefix) {
            return Some(node);
        }
        match self.parent.get(key, prefix) {
            Ok(Some(node)) => {
                self.note(*key, &node);
                Some(node)
            }
            Ok(None) => None,
            Err(error) => {
                // To the trie the node is missing. Keep the reason for the caller.
                if let Ok(mut failure) = self.failure.lock() {
                    *failure = Some(error);
                }
                None
            }
        }
    }

    fn contains(&self, key: &H256, prefix: Prefix<'_>) -> bool {
        HashDB::get(self, key, prefix).is_some()
    }

    fn insert(&mut self, prefix: Prefix<'_>, value: &[u8]) -> H256 {
        HashDB::insert(self.made, prefix, value)
    }

    fn emplace(&mut self, key: H256, prefix: Prefix<'_>, value: DBValue) {
        HashDB::emplace(self.made, key, prefix, value);
    }

    fn remove(&mut self, key: &H256, prefix: Prefix<'_>) {
        HashDB::remove(self.made, key, prefix);
    }
}

impl<H: Hasher<Out = H256>> AsHashDB<H, DBValue> for TrialNodes<'_, H> {
    fn as_hash_db(&self) -> &dyn HashDB<H, DBValue> {
        self
    }

    fn as_hash_db_mut<'b>(&'b mut self) -> &'b mut (dyn HashDB<H, DBValue> + 'b) {
        self
    }
}

/// Calls `f` with the nodes of the trie in `keyspace`; an empty one is that of the top trie.
fn in_keyspace<H: Hasher<Out = H256>, T>(
    mut nodes: TrialNodes<'_, H>,
    keyspace: &[u8],
    f: impl FnOnce(&mut dyn HashDB<H, DBValue>) -> Result<T, String>,
) -> Result<T, HostError> {
    let result = if keyspace.is_empty() {
        f(&mut nodes)
    } else {
        f(&mut KeySpacedDBMut::new(&mut nodes, keyspace))
    };
    let failure = nodes.failure.into_inner().unwrap_or_default();
    result.map_err(|error| HostError::state(failure.unwrap_or(error)))
}

/// Trial tries that continue from boundary to boundary: each commits to memory, with the hasher `H`.
pub(crate) struct Committing<H: Hasher> {
    parent: Parent,
    version: StateVersion,
    notes: SplitRecorder,
    made: PrefixedMemoryDB<H>,
    top: H256,
    children: HashMap<Vec<u8>, H256>,
}

impl<H: Hasher<Out = H256>> Committing<H> {
    pub(crate) fn new(parent: Parent, version: StateVersion, notes: SplitRecorder) -> Self {
        let top = parent.root;
        let made = PrefixedMemoryDB::default();
        Self {
            parent,
            version,
            notes,
            made,
            top,
            children: HashMap::new(),
        }
    }

    /// Returns the root after `changes` of the trie with `root` in `keyspace`.
    fn commit(
        &mut self,
        keyspace: &[u8],
        root: H256,
        changes: &Changes,
    ) -> Result<H256, HostError> {
        let nodes = TrialNodes::new(&self.parent.nodes, &mut self.made, Some(&self.notes));
        in_keyspace(nodes, keyspace, |db| match self.version {
            StateVersion::V0 => commit::<LayoutV0<H>>(db, root, changes),
            StateVersion::V1 => commit::<LayoutV1<H>>(db, root, changes),
        })
    }
}

/// Returns the root after `changes`; puts the new nodes into `db`.
fn commit<L: TrieLayout<Hash: Hasher<Out = H256>>>(
    db: &mut dyn HashDB<L::Hash, DBValue>,
    mut root: H256,
    changes: &Changes,
) -> Result<H256, String> {
    let mut trie = TrieDBMutBuilder::<L>::from_existing(db, &mut root).build();
    for (key, value) in changes {
        match value {
            Some(value) => trie.insert(key, value),
            None => trie.remove(key),
        }
        .map_err(|error| error.to_string())?;
    }
    // Dropping the trie commits it.
    drop(trie);
    Ok(root)
}

impl<H: Hasher<Out = H256>> Trial for Committing<H> {
    fn wants_values(&self) -> bool {
        true
    }

    fn child(
        &mut self,
        child: &ChildInfo,
        parent: Option<H256>,
        changes: &Changes,
    ) -> Result<Option<H256>, HostError> {
        let null = H::hash(&NULL_NODE);
        let last = self
            .children
            .get(child.storage_key())
            .copied()
            .or(parent)
            .unwrap_or(null);
        let root = self.commit(child.keyspace(), last, changes)?;
        self.children.insert(child.storage_key().to_vec(), root);
        Ok((root != null).then_some(root))
    }

    fn top(&mut self, changes: &Changes) -> Result<(), HostError> {
        self.top = self.commit(&[], self.top, changes)?;
        Ok(())
    }
}

/// How a trial applies a written key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writes {
    /// Inserts it with an empty value, because the nodes it needs do not depend on the value.
    Insert,
    /// Looks it up.
    Get,
}

/// Trial tries that are opened on the parent state at each boundary, and dropped.
pub struct Ephemeral {
    parent: Parent,
    version: StateVersion,
    notes: SplitRecorder,
    writes: Writes,
    cache: Option<LocalTrieCache<Hashing>>,
}

impl Ephemeral {
    /// Makes trial tries on `parent` that note the nodes they read in `notes`.
    pub fn new(
        parent: Parent,
        version: StateVersion,
        notes: SplitRecorder,
        writes: Writes,
        cache: Option<LocalTrieCache<Hashing>>,
    ) -> Self {
        Self {
            parent,
            version,
            notes,
            writes,
            cache,
        }
    }

    /// Applies `changes` to the trie with `root` in `keyspace`. Returns whether they empty it.
    fn look(&self, keyspace: &[u8], root: H256, changes: &Changes) -> Result<bool, HostError> {
        let mut made = PrefixedMemoryDB::default();
        let nodes = TrialNodes::new(&self.parent.nodes, &mut made, None);
        in_keyspace(nodes, keyspace, |db| match self.version {
            StateVersion::V0 => self.look_as::<LayoutV0<Hashing>>(db, root, changes),
            StateVersion::V1 => self.look_as::<LayoutV1<Hashing>>(db, root, changes),
        })
    }

    fn look_as<L: TrieLayout<Hash = Hashing, Codec = NodeCodec<Hashing>>>(
        &self,
        db: &mut dyn HashDB<Hashing, DBValue>,
        root: H256,
        changes: &Changes,
    ) -> Result<bool, String> {
        // Use a copy, because removing the last key writes the null root even without a commit.
        let mut scratch = root;
        let mut recorder = self.notes.estimates();
        let mut cache = self
            .cache
            .as_ref()
            .map(LocalTrieCache::as_trie_db_mut_cache);
        let cache = cache
            .as_mut()
            .map(|cache| cache as &mut dyn TrieCache<NodeCodec<Hashing>>);
        let mut trie = TrieDBMutBuilder::<L>::from_existing(db, &mut scratch)
            .with_recorder(&mut recorder)
            .with_optional_cache(cache)
            .disable_commit_on_drop()
            .build();
        for (key, value) in changes {
            match (value, self.writes) {
                (Some(_), Writes::Get) => trie.get(key).map(drop),
                (Some(value), Writes::Insert) => trie.insert(key, value).map(drop),
                (None, _) => trie.remove(key).map(drop),
            }
            .map_err(|error| error.to_string())?;
        }
        Ok(trie.is_empty())
    }
}

impl Trial for Ephemeral {
    fn wants_values(&self) -> bool {
        false
    }

    fn child(
        &mut self,
        child: &ChildInfo,
        parent: Option<H256>,
        changes: &Changes,
    ) -> Result<Option<H256>, HostError> {
        let root = parent.unwrap_or(Hashing::hash(&NULL_NODE));
        let empty = self.look(child.keyspace(), root, changes)?;
        let written = changes.iter().any(|(_, value)| value.is_some());
        Ok((!empty || written).then_some(root))
    }

    fn top(&mut self, changes: &Changes) -> Result<(), HostError> {
        self.look(&[], self.parent.root, changes).map(drop)
    }
}
