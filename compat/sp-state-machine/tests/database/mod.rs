//! A database, as a client has one.

use hash_db::{HashDB, Prefix};
use sp_core::{Blake2Hasher, H256};
use sp_state_machine::{DBValue, Storage};
use sp_trie::PrefixedMemoryDB;
use std::sync::{Arc, RwLock};

/// The nodes that a database holds.
pub(crate) type Nodes = PrefixedMemoryDB<Blake2Hasher>;

/// Its nodes can be changed, as by a commit.
pub(crate) struct Database(pub(crate) RwLock<Nodes>);

impl Database {
    pub(crate) fn new(nodes: Nodes) -> Arc<Self> {
        Arc::new(Self(RwLock::new(nodes)))
    }
}

impl Storage<Blake2Hasher> for Database {
    fn get(&self, hash: &H256, prefix: Prefix<'_>) -> Result<Option<DBValue>, String> {
        Ok(HashDB::get(&*self.0.read().unwrap(), hash, prefix))
    }
}
