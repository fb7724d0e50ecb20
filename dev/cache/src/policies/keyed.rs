//! Caches of bytes by a key, and the two kinds of keys.

use super::{Found, Policy, View};
use crate::trace::{NodeNumber, Trace, TracedBlock};
use povmeter::{NodeHash, RootUpdate};
use std::{
    collections::HashSet,
    hash::Hash,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// A key.
pub(crate) trait Key: Hash + Eq + Copy + Send + Sync + 'static {
    /// Bits that differ from key to key.
    fn bits(&self) -> u64;
}

/// The hash of a node.
pub(crate) type HashKey = [u8; 32];
/// A number for a path.
pub(crate) type PathKey = u64;

impl Key for HashKey {
    fn bits(&self) -> u64 {
        let mut first = [0; 8];
        first.copy_from_slice(&self[..8]);
        u64::from_le_bytes(first)
    }
}

impl Key for PathKey {
    fn bits(&self) -> u64 {
        *self
    }
}

/// The key of a path, mixed as a hash of its bytes would be.
fn path_key(path: u32) -> PathKey {
    let mut bits = (u64::from(path) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb)
}

fn hash_key(hash: &NodeHash) -> HashKey {
    *hash.as_bytes()
}

/// A cache that threads share.
pub(crate) trait Cache<K>: Sync {
    /// Hands the bytes under `key` to `read`, if there are any.
    fn get(&self, key: &K, read: &mut dyn FnMut(&[u8]));
    fn insert(&self, key: K, value: Box<[u8]>);
    fn remove(&self, key: &K);
    fn len(&self) -> usize;
    /// Does the work that was put off.
    fn settle(&self) {}
}

/// A cache for one thread.
pub(crate) trait Unshared<K>: Send {
    fn get(&mut self, key: &K) -> Option<&[u8]>;
    fn insert(&mut self, key: K, value: Box<[u8]>);
    fn remove(&mut self, key: &K);
    fn len(&self) -> usize;
}

/// Several caches for one thread, each behind a lock.
pub(crate) struct Sharded<C>(Box<[Mutex<C>]>);

const SHARDS: usize = 8;

impl<C> Sharded<C> {
    pub(crate) fn with(bytes: usize, new: impl Fn(usize) -> C) -> Self {
        Self(
            (0..SHARDS)
                .map(|_| Mutex::new(new(bytes / SHARDS)))
                .collect(),
        )
    }

    fn of(&self, bits: u64) -> MutexGuard<'_, C> {
        // Use the last bits, because libraries use the first ones.
        let shard = usize::try_from(bits % SHARDS as u64).unwrap_or(0);
        self.0[shard].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Key, C: Unshared<K>> Cache<K> for Sharded<C> {
    fn get(&self, key: &K, read: &mut dyn FnMut(&[u8])) {
        if let Some(value) = self.of(key.bits()).get(key) {
            read(value);
        }
    }

    fn insert(&self, key: K, value: Box<[u8]>) {
        self.of(key.bits()).insert(key, value);
    }

    fn remove(&self, key: &K) {
        self.of(key.bits()).remove(key);
    }

    fn len(&self) -> usize {
        let shards = self.0.iter();
        shards
            .map(|shard| shard.lock().unwrap_or_else(PoisonError::into_inner).len())
            .sum()
    }
}

/// A cache by hash, which keeps the nodes that an update removes.
pub(crate) struct ByHash<C>(pub(crate) C);

/// A cache by path: its values are the hash of a node and its bytes.
pub(crate) struct ByPath<C>(pub(crate) C);

impl<C: Cache<HashKey>> Policy for ByHash<C> {
    fn view(&self) -> Box<dyn View + '_> {
        Box::new(self)
    }

    fn entries(&self) -> Option<usize> {
        self.0.settle();
        Some(self.0.len())
    }
}

impl<C: Cache<HashKey>> View for &ByHash<C> {
    fn look_up(&mut self, trace: &Trace, node: NodeNumber) -> Found {
        let mut found = Found::Miss;
        self.0.get(&hash_key(&trace.node(node).hash), &mut |value| {
            found = told(trace.is_content(node, value));
        });
        found
    }

    fn fill(&mut self, trace: &Trace, node: NodeNumber, content: &[u8]) {
        self.0
            .insert(hash_key(&trace.node(node).hash), content.into());
    }

    fn update(&mut self, _: &Trace, _: &TracedBlock, update: &RootUpdate) {
        for node in update.inserted() {
            self.0.insert(hash_key(&node.hash), node.encoded.into());
        }
        self.0.settle();
    }
}

fn told(right: bool) -> Found {
    if right {
        Found::Hit
    } else {
        Found::Stale
    }
}

impl<C: Cache<PathKey>> Policy for ByPath<C> {
    fn view(&self) -> Box<dyn View + '_> {
        Box::new(self)
    }

    fn entries(&self) -> Option<usize> {
        self.0.settle();
        Some(self.0.len())
    }
}

fn named(hash: &NodeHash, content: &[u8]) -> Box<[u8]> {
    [hash.as_bytes(), content].concat().into()
}

impl<C: Cache<PathKey>> View for &ByPath<C> {
    fn look_up(&mut self, trace: &Trace, node: NodeNumber) -> Found {
        let mut found = Found::Miss;
        let of = trace.node(node);
        self.0.get(&path_key(of.path), &mut |value| {
            if let Some(content) = value.strip_prefix(of.hash.as_bytes()) {
                found = told(trace.is_content(node, content));
            }
        });
        found
    }

    fn fill(&mut self, trace: &Trace, node: NodeNumber, content: &[u8]) {
        let of = trace.node(node);
        self.0.insert(path_key(of.path), named(&of.hash, content));
    }

    fn update(&mut self, trace: &Trace, block: &TracedBlock, update: &RootUpdate) {
        let mut replaced = HashSet::new();
        for (&number, node) in block.inserted.iter().zip(update.inserted()) {
            let path = trace.node(number).path;
            replaced.insert(path);
            self.0
                .insert(path_key(path), named(&node.hash, node.encoded));
        }
        for &number in &block.removed {
            let path = trace.node(number).path;
            if !replaced.contains(&path) {
                self.0.remove(&path_key(path));
            }
        }
        self.0.settle();
    }
}
