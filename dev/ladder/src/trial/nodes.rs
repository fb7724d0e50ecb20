//! The nodes that a trial trie sees.

use hash_db::{AsHashDB, HashDB, Hasher, Prefix};
use povmeter_dev_runtime::{runtime::Hashing, HostError, NodeStore, SplitRecorder};
use sp_core::H256;
use sp_trie::{DBValue, KeySpacedDBMut, PrefixedMemoryDB};
use std::sync::Mutex;

/// The nodes of the parent state and the new ones, with a recorder for the former.
pub(super) struct TrialNodes<'a, H: Hasher> {
    parent: &'a NodeStore,
    made: &'a mut PrefixedMemoryDB<H>,
    /// Notes nodes of the parent state; `None` if the trie has its own recorder.
    notes: Option<&'a SplitRecorder>,
    null: H256,
    failure: Mutex<Option<String>>,
}

impl<'a, H: Hasher<Out = H256>> TrialNodes<'a, H> {
    pub(super) fn new(
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
pub(super) const NULL_NODE: [u8; 1] = [0];

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
pub(super) fn in_keyspace<H: Hasher<Out = H256>, T>(
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
