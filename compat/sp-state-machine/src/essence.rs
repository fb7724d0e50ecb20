//! The nodes of a backend as a hash database.

use crate::{
    storage::OriginalsStorage, trie_backend::Shared, DBValue, TrieBackendStorage, TrieCacheProvider,
};
use codec::Codec;
use hash_db::{HashDBRef, Hasher, Prefix};
use sp_trie::TrieRecorderProvider;

/// The original's backend, over a storage of this crate.
pub(crate) type Original<S, H, C, R> =
    original::TrieBackend<OriginalsStorage<S>, H, Shared<C>, Shared<R>>;

/// What [`TrieBackend::essence`](crate::TrieBackend::essence) returns: the root of a state, and the nodes below it, such
/// as a `TrieDB` reads. Like the original's, it can be named by no other crate, and its reads are not recorded.
///
/// The original's also reads values and computes roots. Those are methods of the backend, so they are not repeated here.
pub struct TrieBackendEssence<S: TrieBackendStorage<H>, H: Hasher, C, R> {
    pub(crate) backend: Original<S, H, C, R>,
}

impl<S, H, C, R> TrieBackendEssence<S, H, C, R>
where
    S: TrieBackendStorage<H>,
    H: Hasher,
    C: TrieCacheProvider<H> + Send + Sync,
    R: TrieRecorderProvider<H> + Send + Sync,
    H::Out: Codec,
{
    /// Where nodes come from.
    pub fn backend_storage(&self) -> &S {
        &self.backend.backend_storage().0
    }

    /// The root of the state.
    pub fn root(&self) -> &H::Out {
        self.backend.root()
    }
}

impl<S, H, C, R> HashDBRef<H, DBValue> for TrieBackendEssence<S, H, C, R>
where
    S: TrieBackendStorage<H>,
    H: Hasher,
    C: TrieCacheProvider<H> + Send + Sync,
    R: TrieRecorderProvider<H> + Send + Sync,
    H::Out: Codec,
{
    fn get(&self, key: &H::Out, prefix: Prefix<'_>) -> Option<DBValue> {
        HashDBRef::get(self.backend.essence(), key, prefix)
    }

    fn contains(&self, key: &H::Out, prefix: Prefix<'_>) -> bool {
        HashDBRef::contains(self.backend.essence(), key, prefix)
    }
}
