//! A state of accounts, as a chain's is laid out.

use crate::CacheError;
use povmeter::{Block, BlockError, Root, StateVersion, TrieId};
use povmeter_delta_root::Blake2b256;
use povmeter_store::{MemoryStore, NodeStore};

/// Bytes of a key: the name of a map, 16 bytes of hash, and the account.
pub(crate) const KEY_BYTES: usize = 80;
/// Bytes of the value of an account.
const VALUE_BYTES: usize = 80;
/// Accounts written in one block.
const TOGETHER: usize = 20_000;

pub(crate) const VERSION: StateVersion = StateVersion::V1;

/// Key of an account.
pub(crate) fn key(account: usize) -> [u8; KEY_BYTES] {
    let id = Blake2b256::hash(&account.to_le_bytes());
    let hash = Blake2b256::hash(id.as_bytes());
    let mut key = [0x26; KEY_BYTES];
    key[32..48].copy_from_slice(&hash.as_bytes()[..16]);
    key[48..].copy_from_slice(id.as_bytes());
    key
}

/// The value of an account after its `writes`th write.
pub(crate) fn value(account: usize, writes: usize) -> [u8; VALUE_BYTES] {
    let mut value = [0; VALUE_BYTES];
    value[..8].copy_from_slice(&account.to_le_bytes());
    value[8..16].copy_from_slice(&writes.to_le_bytes());
    value
}

/// A store with this many accounts.
pub(crate) fn state(accounts: usize) -> Result<MemoryStore, CacheError> {
    let mut store = MemoryStore::new();
    for start in (0..accounts).step_by(TOGETHER) {
        let root: Root = store.root();
        let mut block = Block::new(&store, root);
        for account in start..accounts.min(start + TOGETHER) {
            block.set(TrieId::Top, &key(account), &value(account, 0))?;
        }
        let sealed = block.seal(VERSION).map_err(BlockError::from)?;
        store.commit(sealed.update())?;
    }
    Ok(store)
}
