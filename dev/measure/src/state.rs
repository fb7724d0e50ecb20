//! A parent state with a chosen number of accounts.

use povmeter::Root;
use povmeter_dev_runtime::{commit_state, Entries, Parent, Plan, SharedNodes, StateError};
use povmeter_store::MemoryStore;
use rand::{rngs::SmallRng, RngCore, SeedableRng};
use sp_core::H256;
use std::collections::BTreeMap;

/// Length of the prefix of `System.Account`: the hashes of the two names.
const MAP_BYTES: usize = 32;
/// Length of the rest of a key: the hash of the account id, and the account id.
const ACCOUNT_BYTES: usize = 16 + 32;

/// The parent state of a plan, filled with accounts that its block does not touch.
pub(super) struct BigState {
    pub(super) nodes: SharedNodes,
    pub(super) root: Root,
    /// Keys of the accounts, sorted.
    pub(super) keys: Vec<Vec<u8>>,
    /// Length of each value in bytes.
    pub(super) value_bytes: usize,
}

impl BigState {
    /// Makes the state with `accounts` accounts, or with the plan's if those are more. A million
    /// accounts need some seconds and 2 GiB of memory.
    pub(super) fn new(plan: &Plan, accounts: usize) -> Result<Self, StateError> {
        let mut top: Entries = plan.genesis().top.clone();
        let map = account_map(&top);
        let like = top.iter().find(|(key, _)| is_account(key, &map));
        let value = like.map_or_else(Vec::new, |(_, value)| value.clone());
        let mut known = top.keys().filter(|key| is_account(key, &map)).count();
        let mut dice = SmallRng::seed_from_u64(plan.options().seed);
        while known < accounts {
            let mut key = map.clone();
            key.resize(MAP_BYTES + ACCOUNT_BYTES, 0);
            dice.fill_bytes(&mut key[MAP_BYTES..]);
            known += usize::from(top.insert(key, value.clone()).is_none());
        }
        let mut store = MemoryStore::new();
        let version = plan.options().state_version;
        let root = commit_state(&mut store, &top, &BTreeMap::new(), version, None)?;
        let keys = top.into_keys().filter(|key| is_account(key, &map));
        Ok(Self {
            keys: keys.collect(),
            value_bytes: value.len(),
            nodes: SharedNodes::new(store),
            root,
        })
    }

    /// The state as a parent state of the peer.
    pub(super) fn parent(&self) -> Parent {
        self.nodes.parent(H256(*self.root.as_bytes()))
    }
}

/// The prefix of the accounts: that of the largest map of the state.
fn account_map(top: &Entries) -> Vec<u8> {
    let mut counts: BTreeMap<&[u8], usize> = BTreeMap::new();
    for key in top
        .keys()
        .filter(|key| key.len() == MAP_BYTES + ACCOUNT_BYTES)
    {
        *counts.entry(&key[..MAP_BYTES]).or_default() += 1;
    }
    let largest = counts.into_iter().max_by_key(|(_, count)| *count);
    largest.map_or_else(|| vec![0; MAP_BYTES], |(map, _)| map.to_vec())
}

fn is_account(key: &[u8], map: &[u8]) -> bool {
    key.len() == MAP_BYTES + ACCOUNT_BYTES && key.starts_with(map)
}
