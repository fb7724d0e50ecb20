//! The guarantees of [`povmeter::Block`], tested through its public calls.
#![allow(clippy::unwrap_used)]

mod child_roots;
mod errors;
mod guarantees;
mod left_over;
mod marks;
mod moved;
mod pool;
mod prefetch;
mod proof_size_page;
mod reads;
mod sealing;
mod transactions;

use povmeter::{Block, Root, StateVersion, TrieId::Top};
use povmeter_store::{MemoryStore, NodeStore};

/// A store with these entries in the top trie.
fn store_with<K: AsRef<[u8]>, V: AsRef<[u8]>>(
    version: StateVersion,
    entries: impl IntoIterator<Item = (K, V)>,
) -> MemoryStore {
    let mut store = MemoryStore::new();
    let mut genesis = Block::new(&store, Root::EMPTY);
    for (key, value) in entries {
        genesis.set(Top, key.as_ref(), value.as_ref()).unwrap();
    }
    let genesis = genesis.seal(version).unwrap();
    store.commit(genesis.update()).unwrap();
    store
}

/// Key of `account`, spread as a hashed map spreads its keys.
fn key(account: u32) -> [u8; 32] {
    povmeter_delta_root::Blake2b256::hash(&account.to_le_bytes()).into()
}

/// A store of `count` accounts with 40 bytes each.
fn accounts(count: u32) -> MemoryStore {
    store_with(
        StateVersion::V1,
        (0..count).map(|account| (key(account), [7; 40])),
    )
}
