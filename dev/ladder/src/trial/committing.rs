//! Trial tries that keep their nodes.

use super::{
    nodes::{in_keyspace, TrialNodes, NULL_NODE},
    Trial,
};
use crate::snapshot::Changes;
use hash_db::{HashDB, Hasher};
use povmeter_dev_runtime::{HostError, Parent, Peer, SplitRecorder};
use sp_core::{
    storage::{ChildInfo, StateVersion},
    H256,
};
use sp_trie::{
    DBValue, LayoutV0, LayoutV1, PrefixedMemoryDB, TrieDBMutBuilder, TrieLayout, TrieMut,
};
use std::collections::HashMap;

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
    /// Makes trial tries on the parent state of `peer` that note the nodes they read in `notes`.
    pub(crate) fn new(peer: &Peer, notes: &SplitRecorder) -> Self {
        let parent = peer.parent().clone();
        let top = parent.root;
        Self {
            parent,
            version: peer.version(),
            notes: notes.clone(),
            made: PrefixedMemoryDB::default(),
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
