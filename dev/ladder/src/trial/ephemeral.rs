//! Trial tries that are dropped at the end of a boundary.

use super::{
    nodes::{in_keyspace, TrialNodes, NULL_NODE},
    Trial,
};
use crate::snapshot::Changes;
use hash_db::{HashDB, Hasher};
use povmeter_dev_runtime::{runtime::Hashing, HostError, Parent, Peer, SplitRecorder};
use sp_core::{
    storage::{ChildInfo, StateVersion},
    H256,
};
use sp_trie::{
    cache::LocalTrieCache, DBValue, LayoutV0, LayoutV1, NodeCodec, PrefixedMemoryDB, TrieCache,
    TrieDBMutBuilder, TrieLayout, TrieMut,
};

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

    /// As [`Self::new`], on the parent state of `peer`, with a cache if the peer has one.
    pub(crate) fn on(peer: &Peer, notes: &SplitRecorder, writes: Writes) -> Self {
        let (parent, version) = (peer.parent().clone(), peer.version());
        Self::new(parent, version, notes.clone(), writes, peer.local_cache())
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
