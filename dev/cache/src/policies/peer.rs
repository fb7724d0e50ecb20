//! The shared trie cache of sp-trie, as a block that records a proof uses it.
//!
//! It keeps decoded nodes by hash. Its values are found by key and state root, and only where the block has
//! recorded the key already, so a first read of a value in a block always goes to the store.

use super::{Found, Policy, View};
use crate::trace::{Kind, NodeNumber, Trace, TracedBlock};
use foldhash::{HashMap, HashMapExt};
use povmeter::RootUpdate;
use sp_core::{Blake2Hasher, H256};
use sp_trie::{
    cache::{CacheSize, LocalTrieCache, SharedTrieCache},
    NodeCodec,
};
use std::sync::{Mutex, PoisonError};
use trie_db::{
    node::NodeOwned, node::Value, ChildReference, NodeCodec as _, TrieCache as _, TrieError,
};

type Codec = NodeCodec<Blake2Hasher>;
type Owned = NodeOwned<H256>;

pub(crate) struct Peer {
    shared: SharedTrieCache<Blake2Hasher>,
    /// A node of each form that occurs, by kind and length.
    forms: Mutex<HashMap<(bool, u32), Owned>>,
}

impl Peer {
    pub(crate) fn new(bytes: usize) -> Self {
        Self {
            shared: SharedTrieCache::new(CacheSize::new(bytes), None),
            forms: Mutex::new(HashMap::new()),
        }
    }

    /// A decoded node that takes as much memory as this one.
    fn form(&self, is_leaf: bool, length: u32) -> Option<Owned> {
        let mut forms = self.forms.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(form) = forms.get(&(is_leaf, length)) {
            return Some(form.clone());
        }
        let length_bytes = length as usize;
        let hash = H256::repeat_byte(7);
        let encoded = if is_leaf {
            let partial = vec![0x11; length_bytes.saturating_sub(34)];
            let nibbles = partial.len() * 2;
            Codec::leaf_node(partial.into_iter(), nibbles, Value::Node(hash.as_bytes()))
        } else {
            let count = (length_bytes / 33).clamp(2, 16);
            let child = |index| (index < count).then_some(ChildReference::Hash(hash));
            Codec::branch_node_nibbled(std::iter::empty(), 0, (0..16).map(child), None)
        };
        let form = Codec::decode(&encoded)
            .ok()?
            .to_owned_node::<sp_trie::LayoutV1<Blake2Hasher>>()
            .ok()?;
        forms.insert((is_leaf, length), form.clone());
        Some(form)
    }
}

impl Policy for Peer {
    fn view(&self) -> Box<dyn View + '_> {
        Box::new(PeerView {
            peer: self,
            local: self.shared.local_cache_trusted(),
        })
    }

    fn entries(&self) -> Option<usize> {
        None
    }
}

struct PeerView<'a> {
    peer: &'a Peer,
    local: LocalTrieCache<Blake2Hasher>,
}

impl PeerView<'_> {
    fn put(&mut self, trace: &Trace, node: NodeNumber) {
        let of = trace.node(node);
        if of.kind == Kind::Value {
            return;
        }
        if let Some(form) = self.peer.form(of.kind == Kind::Leaf, of.length) {
            let hash = H256(*of.hash.as_bytes());
            let mut cache = self.local.as_trie_db_cache(H256::zero());
            let _ = cache.get_or_insert_node(hash, &mut || Ok(form.clone()));
        }
    }
}

impl View for PeerView<'_> {
    fn look_up(&mut self, trace: &Trace, node: NodeNumber) -> Found {
        let of = trace.node(node);
        if of.kind == Kind::Value {
            return Found::Miss;
        }
        let hash = H256(*of.hash.as_bytes());
        let mut cache = self.local.as_trie_db_cache(H256::zero());
        let mut missing = || Err(Box::new(TrieError::IncompleteDatabase(hash)));
        let found = cache.get_or_insert_node(hash, &mut missing);
        if found.is_ok() {
            Found::Hit
        } else {
            Found::Miss
        }
    }

    fn fill(&mut self, trace: &Trace, node: NodeNumber, _: &[u8]) {
        self.put(trace, node);
    }

    fn update(&mut self, trace: &Trace, block: &TracedBlock, _: &RootUpdate) {
        for &node in &block.inserted {
            self.put(trace, node);
        }
    }
}
