//! The estimate: dirty keys in, nodes that the root will need counted.
//!
//! The rule itself is [`RootNeeds`]; what is added here is memory: each distinct key of the block
//! walks through the trie once, and afterwards costs a look-up.

use alloc::vec::Vec;
use core::hash::BuildHasher;
use foldhash::fast::RandomState;
use hashbrown::HashTable;
use povmeter_delta_root::{
    Fate, LoadError, NodeSource, Observer, RootNeeds, ShadowNode, ShadowState, TrieHandle,
};

/// Where a key's entry is in the parent trie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entry {
    Unknown,
    Absent,
    At(ShadowNode),
}

#[derive(Clone, Copy, Debug)]
struct Key {
    start: usize,
    length: usize,
    entry: Entry,
    /// Whether the way to the key is counted.
    counted: bool,
}

/// The keys of one trie that a boundary has seen, by the whole key.
#[derive(Debug, Default)]
struct Keys {
    bytes: Vec<u8>,
    keys: Vec<Key>,
    index: HashTable<usize>,
}

impl Keys {
    fn slot(&mut self, key: &[u8], hasher: &RandomState) -> usize {
        let hash = hasher.hash_one(key);
        let (bytes, keys) = (&self.bytes, &self.keys);
        let of = |slot: usize| {
            let key: &Key = &keys[slot];
            &bytes[key.start..key.start + key.length]
        };
        if let Some(&slot) = self.index.find(hash, |&slot| of(slot) == key) {
            return slot;
        }
        let slot = keys.len();
        self.index
            .insert_unique(hash, slot, |&slot| hasher.hash_one(of(slot)));
        let start = self.bytes.len();
        self.bytes.extend_from_slice(key);
        self.keys.push(Key {
            start,
            length: key.len(),
            entry: Entry::Unknown,
            counted: false,
        });
        slot
    }
}

/// Finds what the root computation will need for the keys handed to it, each needed node once.
#[derive(Debug, Default)]
pub struct Estimator {
    tries: Vec<Keys>,
    needs: RootNeeds,
    counted: Vec<(TrieHandle, usize)>,
    hasher: RandomState,
}

/// A point in an estimator's history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EstimatorMark(usize);

impl Estimator {
    /// Takes note of what the block's changes do to `key` now, and counts the way to it. Merges are
    /// looked at by [`Self::settle`], after the last key of a boundary.
    ///
    /// # Errors
    /// [`LoadError`] if a node on the way can't be had; the key can be handed in again.
    pub fn mark_key<S: NodeSource>(
        &mut self,
        state: &mut ShadowState<S>,
        handle: TrieHandle,
        key: &[u8],
        fate: Fate,
        observer: &mut impl Observer,
    ) -> Result<(), LoadError> {
        if self.tries.len() <= handle.index() {
            self.tries.resize_with(handle.index() + 1, Keys::default);
        }
        let keys = &mut self.tries[handle.index()];
        let slot = keys.slot(key, &self.hasher);
        let known = &mut keys.keys[slot];
        if fate != Fate::Untouched && !known.counted {
            known.entry = match state.find(handle, key, observer)? {
                Some(at) => Entry::At(at),
                None => Entry::Absent,
            };
            known.counted = true;
            self.counted.push((handle, slot));
        }
        // A key that never had another fate than untouched has nothing to undo.
        if let Entry::At(at) = known.entry {
            self.needs.mark(state, handle, at, fate);
        }
        Ok(())
    }

    /// Counts what the keys marked so far need besides the ways to them.
    ///
    /// # Errors
    /// [`LoadError`] if a node can't be had; a later call goes on where this one stopped.
    pub fn settle<S: NodeSource>(
        &mut self,
        state: &mut ShadowState<S>,
        observer: &mut impl Observer,
    ) -> Result<(), LoadError> {
        self.needs.settle(state, observer)
    }

    /// This point of history.
    pub fn mark(&self) -> EstimatorMark {
        EstimatorMark(self.counted.len())
    }

    /// Forgets that the keys counted since `mark` are. What they did to the trie stays noted until
    /// they are handed in again with their fate after the rollback, as the overlay's dirty keys are.
    pub fn roll_back(&mut self, mark: EstimatorMark) {
        for (handle, slot) in self.counted.drain(mark.0.min(self.counted.len())..) {
            self.tries[handle.index()].keys[slot].counted = false;
        }
    }

    /// Starts a trial: [`Self::end_trial`] takes back all that is marked from now on.
    ///
    /// # Errors
    /// [`LoadError`] if what was marked before can't be settled; there is no trial then.
    pub fn start_trial<S: NodeSource>(
        &mut self,
        state: &mut ShadowState<S>,
        observer: &mut impl Observer,
    ) -> Result<EstimatorMark, LoadError> {
        self.settle(state, observer)?;
        self.needs.start_trial();
        Ok(self.mark())
    }

    /// Ends the trial that began at `mark`, as if it had not been.
    pub fn end_trial<S: NodeSource>(&mut self, state: &mut ShadowState<S>, mark: EstimatorMark) {
        self.needs.end_trial(state);
        self.roll_back(mark);
    }
}
