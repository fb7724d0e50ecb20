//! A backend over trie nodes.

use crate::{
    backend::{AsTrieBackend, Backend, BackendTransaction, IterArgs, StorageIterator},
    database::Database,
    essence::{Original, TrieBackendEssence},
    machine::fail,
    nodes::{Nodes, NodesOf},
    storage::OriginalsStorage,
    wrapped, DefaultError, Error, ExecutionError, MemoryDB, StateMachineStats, StorageKey,
    StorageProof, StorageValue, TrieBackendStorage, TrieCacheProvider, UsageInfo,
};
use codec::Codec;
use core::{fmt, marker::PhantomData};
use hash_db::{HashDB, Hasher, Prefix, EMPTY_PREFIX};
use povmeter_substrate::out_of;
use sp_core::{
    hexdisplay::HexDisplay,
    storage::{ChildInfo, StateVersion},
};
use sp_trie::{
    cache::LocalTrieCache, recorder::Recorder, MerkleValue, PrefixedMemoryDB, TrieRecorderProvider,
};
use std::{borrow::Cow, collections::BTreeMap, sync::Arc};
use trie_db::{RecordedForKey, TrieAccess, TrieRecorder};

/// What the original's backend and this crate's both use: a recorder, which also gets the reads of the block, or a
/// cache.
#[derive(Debug)]
pub struct Shared<T>(Arc<T>);

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<H: Hasher, R: TrieRecorderProvider<H>> TrieRecorderProvider<H> for Shared<R> {
    type Recorder<'a>
        = R::Recorder<'a>
    where
        Self: 'a;

    fn drain_storage_proof(self) -> Option<StorageProof> {
        Arc::into_inner(self.0)?.drain_storage_proof()
    }

    fn as_trie_recorder(&self, storage_root: H::Out) -> Self::Recorder<'_> {
        self.0.as_trie_recorder(storage_root)
    }
}

impl<H: Hasher, C: TrieCacheProvider<H>> TrieCacheProvider<H> for Shared<C> {
    type Cache<'a>
        = C::Cache<'a>
    where
        Self: 'a;

    fn as_trie_db_cache(&self, storage_root: H::Out) -> Self::Cache<'_> {
        self.0.as_trie_db_cache(storage_root)
    }

    fn as_trie_db_mut_cache(&self) -> Self::Cache<'_> {
        self.0.as_trie_db_mut_cache()
    }

    fn merge<'a>(&'a self, other: Self::Cache<'a>, new_root: H::Out) {
        self.0.merge(other, new_root);
    }
}

/// Builds a [`TrieBackend`].
pub struct TrieBackendBuilder<
    S: TrieBackendStorage<H>,
    H: Hasher,
    C = LocalTrieCache<H>,
    R = Recorder<H>,
> {
    storage: S,
    root: H::Out,
    cache: Option<Shared<C>>,
    recorder: Option<Shared<R>>,
}

impl<S: TrieBackendStorage<H>, H: Hasher> TrieBackendBuilder<S, H> {
    /// A backend on the state of `root`.
    pub fn new(storage: S, root: H::Out) -> Self {
        Self {
            storage,
            root,
            cache: None,
            recorder: None,
        }
    }
}

impl<S: TrieBackendStorage<H>, H: Hasher, C, R> TrieBackendBuilder<S, H, C, R> {
    /// A backend on the state of `root`, with a cache.
    pub fn new_with_cache(storage: S, root: H::Out, cache: C) -> Self {
        Self {
            storage,
            root,
            cache: Some(Shared(Arc::new(cache))),
            recorder: None,
        }
    }

    /// A backend over the nodes and the cache of another one, without its recorder.
    pub fn wrap(other: &TrieBackend<S, H, C, R>) -> TrieBackendBuilder<&S, H, &C, R>
    where
        C: TrieCacheProvider<H> + Send + Sync,
        R: TrieRecorderProvider<H> + Send + Sync,
        H::Out: Codec,
    {
        let cache = other.cache.as_ref();
        TrieBackendBuilder {
            storage: other.backend_storage(),
            root: *other.root(),
            cache: cache.map(|cache| Shared(Arc::new(&*cache.0))),
            recorder: None,
        }
    }

    /// With a recorder, if there is one.
    #[must_use]
    pub fn with_optional_recorder(self, recorder: Option<R>) -> Self {
        Self {
            recorder: recorder.map(|recorder| Shared(Arc::new(recorder))),
            ..self
        }
    }

    /// With a recorder.
    #[must_use]
    pub fn with_recorder(self, recorder: R) -> Self {
        self.with_optional_recorder(Some(recorder))
    }

    /// With a cache, if there is one.
    pub fn with_optional_cache<LC>(self, cache: Option<LC>) -> TrieBackendBuilder<S, H, LC, R> {
        TrieBackendBuilder {
            storage: self.storage,
            root: self.root,
            cache: cache.map(|cache| Shared(Arc::new(cache))),
            recorder: self.recorder,
        }
    }

    /// With a cache.
    pub fn with_cache<LC>(self, cache: LC) -> TrieBackendBuilder<S, H, LC, R> {
        self.with_optional_cache(Some(cache))
    }

    /// The backend.
    pub fn build(self) -> TrieBackend<S, H, C, R> {
        let Self {
            storage,
            root,
            cache,
            recorder,
        } = self;
        // The only constructor of the original that leaves the types of cache and recorder open.
        let inner =
            original::TrieBackendBuilder::new_with_cache(OriginalsStorage(storage), root, ());
        TrieBackend {
            essence: TrieBackendEssence {
                backend: inner
                    .with_optional_cache(cache.clone())
                    .with_optional_recorder(recorder.clone())
                    .build(),
            },
            cache,
            recorder,
        }
    }
}

/// The original's backend. A block also reads nodes through it, and records each.
pub struct TrieBackend<S: TrieBackendStorage<H>, H: Hasher, C = LocalTrieCache<H>, R = Recorder<H>>
{
    essence: TrieBackendEssence<S, H, C, R>,
    cache: Option<Shared<C>>,
    recorder: Option<Shared<R>>,
}

impl<S, H, C, R> TrieBackend<S, H, C, R>
where
    S: TrieBackendStorage<H>,
    H: Hasher,
    C: TrieCacheProvider<H> + Send + Sync,
    R: TrieRecorderProvider<H> + Send + Sync,
    H::Out: Codec,
{
    /// The nodes as a hash database.
    pub fn essence(&self) -> &TrieBackendEssence<S, H, C, R> {
        &self.essence
    }

    /// Where nodes come from.
    pub fn backend_storage(&self) -> &S {
        self.essence.backend_storage()
    }

    /// Where nodes come from.
    pub fn backend_storage_mut(&mut self) -> &mut S {
        &mut self.essence.backend.backend_storage_mut().0
    }

    /// Moves to the state of `root`.
    pub fn set_root(&mut self, root: H::Out) {
        self.essence.backend.set_root(root);
    }

    /// The root of the state.
    pub fn root(&self) -> &H::Out {
        self.essence.root()
    }

    /// Returns the storage of the nodes.
    pub fn into_storage(self) -> S {
        self.essence.backend.into_storage().0
    }

    /// The proof that was recorded; `None` without a recorder.
    pub fn extract_proof(self) -> Option<StorageProof> {
        let Self {
            essence, recorder, ..
        } = self;
        drop(recorder);
        essence.backend.extract_proof()
    }
}

impl<S, H, C, R> fmt::Debug for TrieBackend<S, H, C, R>
where
    S: TrieBackendStorage<H>,
    H: Hasher,
    C: TrieCacheProvider<H>,
    R: TrieRecorderProvider<H>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TrieBackend")
    }
}

impl<S: TrieBackendStorage<H>, H: Hasher, C> AsTrieBackend<H, C> for TrieBackend<S, H, C> {
    type TrieBackendStorage = S;

    fn as_trie_backend(&self) -> &TrieBackend<S, H, C> {
        self
    }
}

/// An iterator over keys and values of a [`TrieBackend`].
pub struct RawIter<S: TrieBackendStorage<H>, H: Hasher, C, R>
where
    Original<S, H, C, R>: original::Backend<H>,
{
    inner: <Original<S, H, C, R> as original::Backend<H>>::RawIter,
    backend: PhantomData<(S, C, R)>,
}

impl<S, H, C, R> Default for RawIter<S, H, C, R>
where
    S: TrieBackendStorage<H>,
    H: Hasher,
    C: TrieCacheProvider<H> + Send + Sync,
    R: TrieRecorderProvider<H> + Send + Sync,
    H::Out: Ord + Codec,
{
    fn default() -> Self {
        Self {
            inner: Default::default(),
            backend: PhantomData,
        }
    }
}

impl<S, H, C, R> StorageIterator<H> for RawIter<S, H, C, R>
where
    S: TrieBackendStorage<H>,
    H: Hasher,
    C: TrieCacheProvider<H> + Send + Sync,
    R: TrieRecorderProvider<H> + Send + Sync,
    H::Out: Ord + Codec,
{
    type Backend = TrieBackend<S, H, C, R>;
    type Error = DefaultError;

    fn next_key(&mut self, backend: &Self::Backend) -> Option<Result<StorageKey, DefaultError>> {
        self.inner.next_key(&backend.essence.backend)
    }

    fn next_pair(
        &mut self,
        backend: &Self::Backend,
    ) -> Option<Result<(StorageKey, StorageValue), DefaultError>> {
        self.inner.next_pair(&backend.essence.backend)
    }

    fn was_complete(&self) -> bool {
        self.inner.was_complete()
    }
}

impl<S, H, C, R> Backend<H> for TrieBackend<S, H, C, R>
where
    S: TrieBackendStorage<H>,
    H: Hasher,
    C: TrieCacheProvider<H> + Send + Sync,
    R: TrieRecorderProvider<H> + Send + Sync,
    H::Out: Ord + Codec,
{
    type Error = DefaultError;
    type TrieBackendStorage = S;
    type RawIter = RawIter<S, H, C, R>;

    fn storage(&self, key: &[u8]) -> Result<Option<StorageValue>, DefaultError> {
        original::Backend::storage(&self.essence.backend, key)
    }

    fn storage_hash(&self, key: &[u8]) -> Result<Option<H::Out>, DefaultError> {
        original::Backend::storage_hash(&self.essence.backend, key)
    }

    fn exists_storage(&self, key: &[u8]) -> Result<bool, DefaultError> {
        if H::LENGTH == 32 && wrapped::answer(key, self) {
            return Ok(false);
        }
        original::Backend::exists_storage(&self.essence.backend, key)
    }

    fn closest_merkle_value(
        &self,
        key: &[u8],
    ) -> Result<Option<MerkleValue<H::Out>>, DefaultError> {
        original::Backend::closest_merkle_value(&self.essence.backend, key)
    }

    fn child_closest_merkle_value(
        &self,
        child_info: &ChildInfo,
        key: &[u8],
    ) -> Result<Option<MerkleValue<H::Out>>, DefaultError> {
        original::Backend::child_closest_merkle_value(&self.essence.backend, child_info, key)
    }

    fn child_storage(
        &self,
        child_info: &ChildInfo,
        key: &[u8],
    ) -> Result<Option<StorageValue>, DefaultError> {
        original::Backend::child_storage(&self.essence.backend, child_info, key)
    }

    fn child_storage_hash(
        &self,
        child_info: &ChildInfo,
        key: &[u8],
    ) -> Result<Option<H::Out>, DefaultError> {
        original::Backend::child_storage_hash(&self.essence.backend, child_info, key)
    }

    fn next_storage_key(&self, key: &[u8]) -> Result<Option<StorageKey>, DefaultError> {
        original::Backend::next_storage_key(&self.essence.backend, key)
    }

    fn next_child_storage_key(
        &self,
        child_info: &ChildInfo,
        key: &[u8],
    ) -> Result<Option<StorageKey>, DefaultError> {
        original::Backend::next_child_storage_key(&self.essence.backend, child_info, key)
    }

    fn raw_iter(&self, args: IterArgs<'_>) -> Result<Self::RawIter, DefaultError> {
        Ok(RawIter {
            inner: original::Backend::raw_iter(&self.essence.backend, args)?,
            backend: PhantomData,
        })
    }

    fn storage_root<'a>(
        &self,
        delta: impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)>,
        state_version: StateVersion,
    ) -> (H::Out, BackendTransaction<H>)
    where
        H::Out: Ord,
    {
        let delta: Vec<_> = delta.collect();
        let changes = delta.iter().copied();
        let (root, nodes) =
            original::Backend::storage_root(&self.essence.backend, changes, state_version);
        if root == *self.essence.backend.root() {
            expect_unchanged::<H>(&delta, |key| self.storage_hash(key));
        }
        (root, nodes)
    }

    fn child_storage_root<'a>(
        &self,
        child_info: &ChildInfo,
        delta: impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)>,
        state_version: StateVersion,
    ) -> (H::Out, bool, BackendTransaction<H>)
    where
        H::Out: Ord,
    {
        let root_key = child_info.prefixed_storage_key();
        // The original takes a root that it can't read for that of an empty trie.
        let before = self
            .storage(&root_key)
            .unwrap_or_else(|error| fail(failed_read(&root_key, &error)));
        let delta: Vec<_> = delta.collect();
        let changes = delta.iter().copied();
        let (root, is_empty, nodes) = original::Backend::child_storage_root(
            &self.essence.backend,
            child_info,
            changes,
            state_version,
        );
        let is_same = match &before {
            None => is_empty,
            Some(before) => root.as_ref() == &before[..],
        };
        if is_same {
            expect_unchanged::<H>(&delta, |key| self.child_storage_hash(child_info, key));
        }
        (root, is_empty, nodes)
    }

    fn register_overlay_stats(&self, stats: &StateMachineStats) {
        original::Backend::register_overlay_stats(&self.essence.backend, stats);
    }

    fn usage_info(&self) -> UsageInfo {
        original::Backend::usage_info(&self.essence.backend)
    }

    fn wipe(&self) -> Result<(), DefaultError> {
        original::Backend::wipe(&self.essence.backend)
    }

    fn povmeter_nodes(&self) -> Option<NodesOf<'_, H, Self>> {
        // A block knows only hashes of 32 bytes.
        (H::LENGTH == 32).then(|| NodesOf::direct(self))
    }
}

/// Checks that `delta` changes nothing, as an unchanged root says. The original also returns the old root if
/// it can't read the nodes that the new one needs. `read` returns the hash of a value.
///
/// # Panics
/// With a message if a key can't be read, or has another value,
/// because the interface for roots has no errors.
fn expect_unchanged<H: Hasher>(
    delta: &[(&[u8], Option<&[u8]>)],
    read: impl Fn(&[u8]) -> Result<Option<H::Out>, DefaultError>,
) {
    // The last of several changes of a key counts.
    let changes: BTreeMap<_, _> = delta.iter().copied().collect();
    for (key, value) in changes {
        let found = read(key).unwrap_or_else(|error| fail(failed_read(key, &error)));
        let expected = value.map(H::hash);
        if found != expected {
            fail(format!(
                "expected another root after a change of {:?}, found the old one, because a node of its trie is \
                 missing",
                HexDisplay::from(&key)
            ));
        }
    }
}

fn failed_read(key: &[u8], error: &str) -> String {
    format!(
        "expected the value of {:?}, found: {error}",
        HexDisplay::from(&key)
    )
}

/// The root under which a recorder keeps the marks of overlays. It is the root of no state.
const MARKS: [u8; 32] = *b"povmeter: marks of the overlays.";

impl<S, H, C, R> Nodes for TrieBackend<S, H, C, R>
where
    S: TrieBackendStorage<H>,
    H: Hasher,
    C: TrieCacheProvider<H> + Send + Sync,
    R: TrieRecorderProvider<H> + Send + Sync,
    H::Out: Ord + Codec,
{
    fn root(&self) -> [u8; 32] {
        let mut root = [0; 32];
        root.copy_from_slice(self.essence.backend.root().as_ref());
        root
    }

    fn node(&self, hash: &[u8; 32], prefix: Prefix<'_>) -> Result<Option<Vec<u8>>, String> {
        self.backend_storage().get(&out_of::<H>(hash), prefix)
    }

    fn records(&self) -> bool {
        self.recorder.is_some()
    }

    fn record(&self, hash: &[u8; 32], node: &[u8]) {
        if let Some(recorder) = &self.recorder {
            let mut recorder = recorder.as_trie_recorder(*self.essence.backend.root());
            recorder.record(TrieAccess::EncodedNode {
                hash: out_of::<H>(hash),
                encoded_node: Cow::Borrowed(node),
            });
        }
    }

    fn is_marked(&self, overlay: u64) -> bool {
        self.recorder.as_ref().is_some_and(|recorder| {
            let recorder = recorder.as_trie_recorder(out_of::<H>(&MARKS));
            let found = recorder.trie_nodes_recorded_for_key(&overlay.to_le_bytes());
            !matches!(found, RecordedForKey::None)
        })
    }

    fn mark(&self, overlay: u64) {
        if let Some(recorder) = &self.recorder {
            let mut recorder = recorder.as_trie_recorder(out_of::<H>(&MARKS));
            recorder.record(TrieAccess::Hash {
                full_key: &overlay.to_le_bytes(),
            });
        }
    }

    fn database(&self) -> Option<Database> {
        // A client without a trie cache wants no other cache either.
        self.cache.as_ref()?;
        self.backend_storage().povmeter_database()
    }
}

/// A backend over the nodes of a proof.
///
/// # Errors
/// [`ExecutionError::InvalidProof`] if the proof lacks the root node.
pub fn create_proof_check_backend<H>(
    root: H::Out,
    proof: StorageProof,
) -> Result<TrieBackend<MemoryDB<H>, H>, Box<dyn Error>>
where
    H: Hasher,
    H::Out: Codec,
{
    let nodes: MemoryDB<H> = proof.into_memory_db();
    if !nodes.contains(&root, EMPTY_PREFIX) {
        return Err(Box::new(ExecutionError::InvalidProof));
    }
    Ok(TrieBackendBuilder::new(nodes, root).build())
}

/// A backend in memory.
pub(crate) type InMemory<H> = TrieBackend<PrefixedMemoryDB<H>, H>;
