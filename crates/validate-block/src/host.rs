//! The host functions that validators do not have, answered by the [`Session`] that runs; and [`ordered_root`],
//! which validators have.
//!
//! [`Session`]: crate::session::Session

use crate::session::with;
use alloc::vec::Vec;
use bytes::Bytes;
use cumulus_primitives_proof_size_hostfunction::storage_proof_size as first_version;
use povmeter::TrieId;
#[cfg(feature = "rooted-size")]
use povmeter_proof_size::storage_proof_size as both_versions;
use sp_core::{storage::StateVersion, H256};
use sp_io::{default_child_storage as child, offchain_index, storage as top, KillStorageResult};
use sp_runtime::traits::BlakeTwo256;
use sp_trie::{LayoutV0, LayoutV1, TrieConfiguration};

/// Puts the functions of this module in place of the host's, until the returned value is dropped.
#[must_use = "dropping it gives the host's functions back"]
pub(crate) fn replace() -> impl Sized {
    (
        (
            top::host_read.replace_implementation(read),
            top::host_set.replace_implementation(set),
            top::host_get.replace_implementation(get),
            top::host_exists.replace_implementation(exists),
            top::host_clear.replace_implementation(clear),
            top::host_root.replace_implementation(root),
            top::host_clear_prefix.replace_implementation(clear_prefix),
            top::host_append.replace_implementation(append),
            top::host_next_key.replace_implementation(next_key),
            top::host_start_transaction.replace_implementation(start_transaction),
            top::host_rollback_transaction.replace_implementation(roll_back_transaction),
            top::host_commit_transaction.replace_implementation(commit_transaction),
        ),
        (
            child::host_get.replace_implementation(child_get),
            child::host_read.replace_implementation(child_read),
            child::host_set.replace_implementation(child_set),
            child::host_clear.replace_implementation(child_clear),
            child::host_storage_kill.replace_implementation(child_kill),
            child::host_exists.replace_implementation(child_exists),
            child::host_clear_prefix.replace_implementation(child_clear_prefix),
            child::host_root.replace_implementation(child_root),
            child::host_next_key.replace_implementation(child_next_key),
        ),
        (
            offchain_index::host_set.replace_implementation(ignore_offchain_set),
            offchain_index::host_clear.replace_implementation(ignore_offchain_clear),
            first_version::host_storage_proof_size.replace_implementation(size),
            sp_io::trie::host_blake2_256_ordered_root.replace_implementation(ordered_root),
            // The blob imports each function that is replaced, because the host's is put back in the end, and nodes
            // refuse a runtime that imports a function they lack. So each that some nodes lack has a feature.
            #[cfg(feature = "rooted-size")]
            both_versions::host_storage_proof_size.replace_implementation(size_with_root),
            #[cfg(feature = "transaction-index")]
            sp_io::transaction_index::host_index.replace_implementation(ignore_index),
            #[cfg(feature = "transaction-index")]
            sp_io::transaction_index::host_renew.replace_implementation(ignore_renewal),
        ),
    )
}

/// The root of a trie of `items` by index, such as the extrinsics of a block.
///
/// The host's function gets the items encoded, in memory that doubles until it holds all of them, and decodes
/// them again. This function hashes the items where they lie.
fn ordered_root(items: Vec<Vec<u8>>, version: StateVersion) -> H256 {
    match version {
        StateVersion::V0 => LayoutV0::<BlakeTwo256>::ordered_trie_root(items),
        StateVersion::V1 => LayoutV1::<BlakeTwo256>::ordered_trie_root(items),
    }
}

fn version(version: StateVersion) -> povmeter::StateVersion {
    match version {
        StateVersion::V0 => povmeter::StateVersion::V0,
        StateVersion::V1 => povmeter::StateVersion::V1,
    }
}

fn read(key: &[u8], out: &mut [u8], offset: u32) -> Option<u32> {
    with(|session| session.read(TrieId::Top, key, out, offset))
}

fn get(key: &[u8]) -> Option<Bytes> {
    with(|session| session.get_bytes(TrieId::Top, key))
}

fn set(key: &[u8], value: &[u8]) {
    with(|session| session.place(TrieId::Top, key, Some(value)));
}

fn exists(key: &[u8]) -> bool {
    with(|session| session.exists(TrieId::Top, key))
}

fn clear(key: &[u8]) {
    with(|session| session.place(TrieId::Top, key, None));
}

fn clear_prefix(prefix: &[u8], limit: Option<u32>) -> KillStorageResult {
    with(|session| session.clear_prefix(TrieId::Top, prefix, limit))
}

fn append(key: &[u8], element: Vec<u8>) {
    with(|session| session.append(key, &element));
}

fn next_key(key: &[u8]) -> Option<Vec<u8>> {
    with(|session| session.next_key(TrieId::Top, key))
}

fn root(of: StateVersion) -> Vec<u8> {
    with(|session| session.root(version(of)).as_bytes().to_vec())
}

fn start_transaction() {
    with(|session| session.block().start_transaction());
}

fn roll_back_transaction() {
    let result = with(|session| session.block().rollback_transaction());
    result.expect("the runtime rolls back a transaction that is not open");
}

fn commit_transaction() {
    let result = with(|session| session.block().commit_transaction());
    result.expect("the runtime commits a transaction that is not open");
}

fn child_get(child: &[u8], key: &[u8]) -> Option<Vec<u8>> {
    with(|session| session.get(TrieId::Child(child), key).map(<[u8]>::to_vec))
}

fn child_read(child: &[u8], key: &[u8], out: &mut [u8], offset: u32) -> Option<u32> {
    with(|session| session.read(TrieId::Child(child), key, out, offset))
}

fn child_set(child: &[u8], key: &[u8], value: &[u8]) {
    with(|session| session.place(TrieId::Child(child), key, Some(value)));
}

fn child_clear(child: &[u8], key: &[u8]) {
    with(|session| session.place(TrieId::Child(child), key, None));
}

fn child_kill(child: &[u8], limit: Option<u32>) -> KillStorageResult {
    with(|session| session.clear_prefix(TrieId::Child(child), &[], limit))
}

fn child_exists(child: &[u8], key: &[u8]) -> bool {
    with(|session| session.exists(TrieId::Child(child), key))
}

fn child_clear_prefix(child: &[u8], prefix: &[u8], limit: Option<u32>) -> KillStorageResult {
    with(|session| session.clear_prefix(TrieId::Child(child), prefix, limit))
}

fn child_root(child: &[u8], of: StateVersion) -> Vec<u8> {
    with(|session| session.child_root(child, version(of)).as_bytes().to_vec())
}

fn child_next_key(child: &[u8], key: &[u8]) -> Option<Vec<u8>> {
    with(|session| session.next_key(TrieId::Child(child), key))
}

fn size() -> u64 {
    with(|session| session.size())
}

#[cfg(feature = "rooted-size")]
fn size_with_root() -> u64 {
    with(|session| session.size_with_root())
}

// A validator has no database beside the state.

fn ignore_offchain_set(_: &[u8], _: &[u8]) {}

fn ignore_offchain_clear(_: &[u8]) {}

#[cfg(feature = "transaction-index")]
fn ignore_index(_: u32, _: u32, _: [u8; 32]) {}

#[cfg(feature = "transaction-index")]
fn ignore_renewal(_: u32, _: [u8; 32]) {}
