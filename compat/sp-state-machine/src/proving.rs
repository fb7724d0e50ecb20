//! Proofs of reads and of calls into the runtime.
//!
//! Functions that only read use the original's code, on a backend over the same nodes without a cache.

use crate::{
    backend::AsTrieBackend, overlayed_changes::OverlayedChanges, state_machine::StateMachine,
    trie_backend::create_proof_check_backend, Error, KeyValueStates, MemoryDB, StorageProof,
    TrieBackend, TrieBackendBuilder, TrieBackendStorage,
};
use codec::Codec;
use hash_db::Hasher;
use sp_core::{
    storage::ChildInfo,
    traits::{CallContext, CodeExecutor, RuntimeCode},
};
use sp_externalities::Extensions;

/// Keys, values and whether the range ends with them.
type RangeRead = (Vec<(Vec<u8>, Vec<u8>)>, bool);

/// The original's backend over the same nodes.
fn original<S: TrieBackendStorage<H>, H: Hasher>(
    backend: &TrieBackend<S, H>,
) -> original::TrieBackend<&S, H>
where
    H::Out: Codec,
{
    original::TrieBackendBuilder::new(backend.backend_storage(), *backend.root()).build()
}

/// A call's result, with the proof of what it read.
///
/// # Errors
/// The error of the executor.
pub fn prove_execution<B, H, Exec>(
    backend: &mut B,
    overlay: &mut OverlayedChanges<H>,
    exec: &Exec,
    method: &str,
    call_data: &[u8],
    runtime_code: &RuntimeCode<'_>,
) -> Result<(Vec<u8>, StorageProof), Box<dyn Error>>
where
    B: AsTrieBackend<H>,
    H: Hasher,
    H::Out: Ord + 'static + Codec,
    Exec: CodeExecutor + Clone + 'static,
{
    prove_execution_on_trie_backend(
        backend.as_trie_backend(),
        overlay,
        exec,
        method,
        call_data,
        runtime_code,
        &mut Extensions::default(),
    )
}

/// As [`prove_execution`], with extensions for the runtime.
///
/// # Errors
/// The error of the executor.
pub fn prove_execution_on_trie_backend<S, H, Exec>(
    trie_backend: &TrieBackend<S, H>,
    overlay: &mut OverlayedChanges<H>,
    exec: &Exec,
    method: &str,
    call_data: &[u8],
    runtime_code: &RuntimeCode<'_>,
    extensions: &mut Extensions,
) -> Result<(Vec<u8>, StorageProof), Box<dyn Error>>
where
    S: TrieBackendStorage<H>,
    H: Hasher,
    H::Out: Ord + 'static + Codec,
    Exec: CodeExecutor + 'static + Clone,
{
    let proving = TrieBackendBuilder::wrap(trie_backend)
        .with_recorder(Default::default())
        .build();
    let result = StateMachine::<_, H, Exec>::new(
        &proving,
        overlay,
        exec,
        method,
        call_data,
        extensions,
        runtime_code,
        CallContext::Offchain,
    )
    .execute()?;
    let proof = proving.extract_proof().expect("it has a recorder");
    Ok((result, proof))
}

/// The result of the call that [`prove_execution`] made, from the proof alone.
///
/// # Errors
/// If the proof is not one of `root`, or the call fails on it.
pub fn execution_proof_check<H, Exec>(
    root: H::Out,
    proof: StorageProof,
    overlay: &mut OverlayedChanges<H>,
    exec: &Exec,
    method: &str,
    call_data: &[u8],
    runtime_code: &RuntimeCode<'_>,
) -> Result<Vec<u8>, Box<dyn Error>>
where
    H: Hasher + 'static,
    Exec: CodeExecutor + Clone + 'static,
    H::Out: Ord + 'static + Codec,
{
    let backend = create_proof_check_backend::<H>(root, proof)?;
    execution_proof_check_on_trie_backend(&backend, overlay, exec, method, call_data, runtime_code)
}

/// As [`execution_proof_check`], on a backend over the proof.
///
/// # Errors
/// If the call fails.
pub fn execution_proof_check_on_trie_backend<H, Exec>(
    trie_backend: &TrieBackend<MemoryDB<H>, H>,
    overlay: &mut OverlayedChanges<H>,
    exec: &Exec,
    method: &str,
    call_data: &[u8],
    runtime_code: &RuntimeCode<'_>,
) -> Result<Vec<u8>, Box<dyn Error>>
where
    H: Hasher,
    H::Out: Ord + 'static + Codec,
    Exec: CodeExecutor + Clone + 'static,
{
    StateMachine::<_, H, Exec>::new(
        trie_backend,
        overlay,
        exec,
        method,
        call_data,
        &mut Extensions::default(),
        runtime_code,
        CallContext::Offchain,
    )
    .execute()
}

/// The proof of reads of `keys`.
///
/// # Errors
/// If a node is missing or damaged.
pub fn prove_read<B, H, I>(backend: B, keys: I) -> Result<StorageProof, Box<dyn Error>>
where
    B: AsTrieBackend<H>,
    H: Hasher,
    H::Out: Ord + Codec,
    I: IntoIterator,
    I::Item: AsRef<[u8]>,
{
    prove_read_on_trie_backend(backend.as_trie_backend(), keys)
}

/// As [`prove_read`].
///
/// # Errors
/// If a node is missing or damaged.
pub fn prove_read_on_trie_backend<S, H, I>(
    trie_backend: &TrieBackend<S, H>,
    keys: I,
) -> Result<StorageProof, Box<dyn Error>>
where
    S: TrieBackendStorage<H>,
    H: Hasher,
    H::Out: Ord + Codec,
    I: IntoIterator,
    I::Item: AsRef<[u8]>,
{
    original::prove_read_on_trie_backend(&original(trie_backend), keys)
}

/// The proof of reads of `keys` of a child trie.
///
/// # Errors
/// If a node is missing or damaged.
pub fn prove_child_read<B, H, I>(
    backend: B,
    child_info: &ChildInfo,
    keys: I,
) -> Result<StorageProof, Box<dyn Error>>
where
    B: AsTrieBackend<H>,
    H: Hasher,
    H::Out: Ord + Codec,
    I: IntoIterator,
    I::Item: AsRef<[u8]>,
{
    prove_child_read_on_trie_backend(backend.as_trie_backend(), child_info, keys)
}

/// As [`prove_child_read`].
///
/// # Errors
/// If a node is missing or damaged.
pub fn prove_child_read_on_trie_backend<S, H, I>(
    trie_backend: &TrieBackend<S, H>,
    child_info: &ChildInfo,
    keys: I,
) -> Result<StorageProof, Box<dyn Error>>
where
    S: TrieBackendStorage<H>,
    H: Hasher,
    H::Out: Ord + Codec,
    I: IntoIterator,
    I::Item: AsRef<[u8]>,
{
    original::prove_child_read_on_trie_backend(&original(trie_backend), child_info, keys)
}

/// The proof of a range of keys, child tries included, of about `size_limit` bytes, and how many keys it has.
///
/// # Errors
/// If a node is missing or damaged, or `start_at` names no place.
pub fn prove_range_read_with_child_with_size<B, H>(
    backend: B,
    size_limit: usize,
    start_at: &[Vec<u8>],
) -> Result<(StorageProof, u32), Box<dyn Error>>
where
    B: AsTrieBackend<H>,
    H: Hasher,
    H::Out: Ord + Codec,
{
    let backend = backend.as_trie_backend();
    prove_range_read_with_child_with_size_on_trie_backend(backend, size_limit, start_at)
}

/// As [`prove_range_read_with_child_with_size`].
///
/// # Errors
/// If a node is missing or damaged, or `start_at` names no place.
pub fn prove_range_read_with_child_with_size_on_trie_backend<S, H>(
    trie_backend: &TrieBackend<S, H>,
    size_limit: usize,
    start_at: &[Vec<u8>],
) -> Result<(StorageProof, u32), Box<dyn Error>>
where
    S: TrieBackendStorage<H>,
    H: Hasher,
    H::Out: Ord + Codec,
{
    let backend = original(trie_backend);
    original::prove_range_read_with_child_with_size_on_trie_backend(&backend, size_limit, start_at)
}

/// The proof of a range of keys of one trie, of about `size_limit` bytes, and how many keys it has.
///
/// # Errors
/// If a node is missing or damaged.
pub fn prove_range_read_with_size<B, H>(
    backend: B,
    child_info: Option<&ChildInfo>,
    prefix: Option<&[u8]>,
    size_limit: usize,
    start_at: Option<&[u8]>,
) -> Result<(StorageProof, u32), Box<dyn Error>>
where
    B: AsTrieBackend<H>,
    H: Hasher,
    H::Out: Ord + Codec,
{
    let backend = backend.as_trie_backend();
    prove_range_read_with_size_on_trie_backend(backend, child_info, prefix, size_limit, start_at)
}

/// As [`prove_range_read_with_size`].
///
/// # Errors
/// If a node is missing or damaged.
pub fn prove_range_read_with_size_on_trie_backend<S, H>(
    trie_backend: &TrieBackend<S, H>,
    child_info: Option<&ChildInfo>,
    prefix: Option<&[u8]>,
    size_limit: usize,
    start_at: Option<&[u8]>,
) -> Result<(StorageProof, u32), Box<dyn Error>>
where
    S: TrieBackendStorage<H>,
    H: Hasher,
    H::Out: Ord + Codec,
{
    let backend = original(trie_backend);
    original::prove_range_read_with_size_on_trie_backend(
        &backend, child_info, prefix, size_limit, start_at,
    )
}

/// The original's backend over the nodes of a proof.
fn original_proof<H: Hasher>(
    backend: &TrieBackend<MemoryDB<H>, H>,
) -> original::TrieBackend<MemoryDB<H>, H>
where
    H::Out: Codec,
{
    let nodes = backend.backend_storage().clone();
    original::TrieBackendBuilder::new(nodes, *backend.root()).build()
}

/// The value at `key`, from a proof.
///
/// # Errors
/// If the proof lacks a node.
pub fn read_proof_check_on_proving_backend<H>(
    proving_backend: &TrieBackend<MemoryDB<H>, H>,
    key: &[u8],
) -> Result<Option<Vec<u8>>, Box<dyn Error>>
where
    H: Hasher,
    H::Out: Ord + Codec,
{
    use crate::backend::Backend;
    let value = proving_backend.storage(key);
    value.map_err(|error| Box::new(error) as Box<dyn Error>)
}

/// The value at `key` of a child trie, from a proof.
///
/// # Errors
/// If the proof lacks a node.
pub fn read_child_proof_check_on_proving_backend<H>(
    proving_backend: &TrieBackend<MemoryDB<H>, H>,
    child_info: &ChildInfo,
    key: &[u8],
) -> Result<Option<Vec<u8>>, Box<dyn Error>>
where
    H: Hasher,
    H::Out: Ord + Codec,
{
    use crate::backend::Backend;
    let value = proving_backend.child_storage(child_info, key);
    value.map_err(|error| Box::new(error) as Box<dyn Error>)
}

/// Up to `count` keys of a range with their values, from a proof, and whether the range ends with them.
///
/// # Errors
/// If a node is damaged.
pub fn read_range_proof_check_on_proving_backend<H>(
    proving_backend: &TrieBackend<MemoryDB<H>, H>,
    child_info: Option<&ChildInfo>,
    prefix: Option<&[u8]>,
    count: Option<u32>,
    start_at: Option<&[u8]>,
) -> Result<RangeRead, Box<dyn Error>>
where
    H: Hasher,
    H::Out: Ord + Codec,
{
    let backend = original_proof(proving_backend);
    original::read_range_proof_check_on_proving_backend(
        &backend, child_info, prefix, count, start_at,
    )
}

/// The keys of a range with their values, child tries included, from a proof, and at which depth the proof ends.
///
/// # Errors
/// If a node is damaged, or `start_at` names no place.
pub fn read_range_proof_check_with_child_on_proving_backend<H>(
    proving_backend: &TrieBackend<MemoryDB<H>, H>,
    start_at: &[Vec<u8>],
) -> Result<(KeyValueStates, usize), Box<dyn Error>>
where
    H: Hasher,
    H::Out: Ord + Codec,
{
    let backend = original_proof(proving_backend);
    original::read_range_proof_check_with_child_on_proving_backend(&backend, start_at)
}
