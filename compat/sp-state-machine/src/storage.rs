//! Where trie nodes come from.

use crate::{database::Database, DBValue, DefaultError, Storage};
use hash_db::{Hasher, Prefix};
use sp_trie::{GenericMemoryDB, KeyFunction};
use std::sync::Arc;

/// Where the trie nodes of a backend come from. The method `get` is that of the original's trait.
pub trait TrieBackendStorage<H: Hasher>: Send + Sync {
    /// The node with this hash at this place.
    ///
    /// # Errors
    /// The error of the database.
    fn get(&self, key: &H::Out, prefix: Prefix<'_>) -> Result<Option<DBValue>, DefaultError>;

    /// The database that the nodes lie in. `None` for other nodes, such as those of a proof: each read of one
    /// must fail if the node is missing, so none may come from a cache.
    #[doc(hidden)]
    fn povmeter_database(&self) -> Option<Database> {
        None
    }
}

impl<H: Hasher, T: TrieBackendStorage<H>> TrieBackendStorage<H> for &T {
    fn get(&self, key: &H::Out, prefix: Prefix<'_>) -> Result<Option<DBValue>, DefaultError> {
        (**self).get(key, prefix)
    }

    fn povmeter_database(&self) -> Option<Database> {
        (**self).povmeter_database()
    }
}

/// The storage of a client's database.
impl<H: Hasher + 'static> TrieBackendStorage<H> for Arc<dyn Storage<H>> {
    fn get(&self, key: &H::Out, prefix: Prefix<'_>) -> Result<Option<DBValue>, DefaultError> {
        Storage::get(&**self, key, prefix)
    }

    fn povmeter_database(&self) -> Option<Database> {
        Some(Database::of(self))
    }
}

impl<H: Hasher, K: KeyFunction<H> + Send + Sync> TrieBackendStorage<H> for GenericMemoryDB<H, K> {
    fn get(&self, key: &H::Out, prefix: Prefix<'_>) -> Result<Option<DBValue>, DefaultError> {
        original::TrieBackendStorage::get(self, key, prefix)
    }
}

/// A storage of this crate, as one of the original.
#[derive(Debug)]
pub struct OriginalsStorage<S>(pub(crate) S);

impl<H: Hasher, S: TrieBackendStorage<H>> original::TrieBackendStorage<H> for OriginalsStorage<S> {
    fn get(&self, key: &H::Out, prefix: Prefix<'_>) -> Result<Option<DBValue>, DefaultError> {
        self.0.get(key, prefix)
    }
}
