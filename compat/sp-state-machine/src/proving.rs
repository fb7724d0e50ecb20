//! Proofs of calls into the runtime.

use crate::{
    backend::AsTrieBackend, overlayed_changes::OverlayedChanges, state_machine::StateMachine,
    trie_backend::create_proof_check_backend, Error, MemoryDB, StorageProof, TrieBackend,
    TrieBackendBuilder, TrieBackendStorage,
};
use codec::Codec;
use hash_db::Hasher;
use sp_core::traits::{CallContext, CodeExecutor, RuntimeCode};
use sp_externalities::Extensions;

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
