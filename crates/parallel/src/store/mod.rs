//! The multi-version store: the writes of each transaction of a block, for the transactions above it.
//!
//! ```text
//! position:       0 = changes of the block before its first transaction, 1 = the first transaction, ...
//! slot:           position -> the write set of its last execution, whether it is an estimate
//! key:            number -> positions that write it (one inline, some sorted, many as bits)
//! read(p, key):   w = the nearest writer of the key below p; none: ask the parent state
//!                 slot w is an estimate: the reader waits
//!                 slot w does not have the key any more: continue with the nearest writer below w
//! publish(p, s):  replace the slot, then add and remove p at keys that only one of the two sets has
//! asked:          key -> the highest position that has read it: a write by p matters only if that is above p
//! ```
//! A reader may see writers of a key that are ahead of a slot, or behind it. It then gets an older value, as if it
//! had read earlier. That is harmless, because every read is compared with the committed value before its transaction
//! is committed.

mod keys;
mod last_keys;
mod ordered;
mod write_set;
mod writers;

pub(crate) use keys::{KeyId, Keys, ParentValue, TrieNumber};
pub(crate) use last_keys::LastKeys;
pub(crate) use write_set::{
    same_bytes, Content, Span, TooLong, WriteSet, WriteSetBuilder, LARGE_BYTES,
};
pub(crate) use writers::index;

use crate::sync::{lock, read, write, RwLock};
use ordered::Ordered;
use std::sync::Arc;
use write_set::Presence;

/// See the top of the file.
#[derive(Debug)]
pub(crate) struct MultiVersion {
    pub(crate) keys: Keys,
    ordered: Ordered,
    slots: Box<[RwLock<Slot>]>,
}

#[derive(Debug, Default)]
struct Slot {
    writes: Option<Arc<WriteSet>>,
    /// The execution was aborted, and the next one will likely write the same keys.
    estimate: bool,
}

/// The outcome of [`MultiVersion::publish`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Published {
    /// The writes differ from those before.
    pub(crate) changed: bool,
    /// A transaction above may have read a value that is no longer right: it asked for a key whose writes differ.
    pub(crate) seen: bool,
}

/// The nearest writer of a key below a position.
#[derive(Debug)]
pub(crate) enum Nearest {
    /// No transaction below writes the key.
    Parent,
    /// The transaction at this position will likely write the key.
    Estimate(u32),
    /// The transaction at this position writes the key.
    Written(u32, Arc<WriteSet>, Content),
}

impl MultiVersion {
    /// Returns a store for the positions `0..positions`.
    pub(crate) fn new(positions: u32) -> Self {
        Self {
            keys: Keys::default(),
            ordered: Ordered::default(),
            slots: (0..positions)
                .map(|_| RwLock::new(Slot::default()))
                .collect(),
        }
    }

    fn positions(&self) -> u32 {
        u32::try_from(self.slots.len()).unwrap_or(u32::MAX)
    }

    /// Replaces the writes of `position`. They are no estimate then.
    ///
    /// Only the thread that executes or commits the transaction may call it.
    pub(crate) fn publish(&self, position: u32, writes: Arc<WriteSet>) -> Published {
        let before = {
            let mut slot = write(&self.slots[index(position)]);
            slot.estimate = false;
            slot.writes.replace(writes.clone())
        };
        let nothing = WriteSet::default();
        let before = before.as_deref().unwrap_or(&nothing);
        let mut published = Published::default();
        writes.compare(before, |id, presence| {
            let key = self.keys.key(id);
            let seen = key.change(position, |writers| match presence {
                Presence::Both => {}
                Presence::Theirs => writers.remove(position),
                Presence::Ours => {
                    if writers.is_empty() {
                        // A transaction that has stepped over the place of the key has looked for it, too.
                        key.ask(self.ordered.add(&self.keys, id, position));
                    }
                    writers.insert(position, self.positions());
                }
            });
            published.changed = true;
            published.seen |= seen;
        });
        published
    }

    /// Marks the writes of `position` as an estimate. Returns `false` if there are none.
    pub(crate) fn mark_estimate(&self, position: u32) -> bool {
        let mut slot = write(&self.slots[index(position)]);
        slot.estimate = slot.writes.is_some();
        slot.estimate
    }

    /// Whether the writes of `position` are an estimate.
    pub(crate) fn is_estimate(&self, position: u32) -> bool {
        read(&self.slots[index(position)]).estimate
    }

    /// Returns the nearest writer of `key` below `position`.
    pub(crate) fn nearest(&self, position: u32, key: KeyId) -> Nearest {
        self.nearest_of(position, key, false)
    }

    /// As [`Self::nearest`]. If `likely`, an estimate is taken for the writes of the next execution.
    pub(crate) fn nearest_of(&self, position: u32, key: KeyId, likely: bool) -> Nearest {
        let key_of = self.keys.key(key);
        key_of.ask(position);
        let writers = &key_of.writers;
        let mut below = position;
        loop {
            let Some(writer) = lock(writers).below(below) else {
                return Nearest::Parent;
            };
            let slot = read(&self.slots[index(writer)]);
            if let Some(writes) = &slot.writes {
                if let Some(content) = writes.find(key) {
                    return match slot.estimate && !likely {
                        true => Nearest::Estimate(writer),
                        false => Nearest::Written(writer, writes.clone(), content),
                    };
                }
            }
            below = writer;
        }
    }

    /// Prepares for transactions that ask for next keys, if some have asked. Called after much was published.
    pub(crate) fn sort_keys(&self) {
        self.ordered.sort(&self.keys);
    }

    /// Returns the first key of `trie` after `after` that any transaction has written. Notes that `position` has
    /// asked.
    pub(crate) fn next_written(
        &self,
        position: u32,
        trie: TrieNumber,
        after: &[u8],
    ) -> Option<KeyId> {
        self.ordered.next(&self.keys, position, trie, after)
    }
}

#[cfg(all(test, not(any(povmeter_loom, povmeter_shuttle))))]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use povmeter::TrieId::{Child, Top};
    use rand::{rngs::SmallRng, Rng, SeedableRng};
    use std::collections::BTreeMap;

    fn publish(
        store: &MultiVersion,
        position: u32,
        writes: &[(KeyId, Option<&[u8]>)],
    ) -> Published {
        let mut builder = WriteSetBuilder::default();
        for (key, value) in writes {
            builder.write(*key, *value).unwrap();
        }
        store.publish(position, Arc::new(builder.finish()))
    }

    #[test]
    fn only_who_looked_from_above_has_seen_a_key() {
        let store = MultiVersion::new(10);
        let [key, other] = [&b"key"[..], b"other"].map(|name| store.keys.number(Top, name));
        let result = |changed, seen| Published { changed, seen };
        store.nearest(4, key);
        assert_eq!(
            publish(&store, 7, &[(key, Some(b"1"))]),
            result(true, false)
        );
        assert_eq!(
            publish(&store, 4, &[(key, Some(b"1"))]),
            result(true, false)
        );
        assert_eq!(publish(&store, 3, &[(key, Some(b"1"))]), result(true, true));
        assert_eq!(
            publish(&store, 3, &[(key, Some(b"1"))]),
            result(false, false)
        );
        assert_eq!(publish(&store, 3, &[(key, Some(b"2"))]), result(true, true));
        assert_eq!(publish(&store, 3, &[(key, None)]), result(true, true));
        assert_eq!(publish(&store, 2, &[(other, None)]), result(true, false));
        assert_eq!(publish(&store, 3, &[(other, None)]), result(true, true));
        // A transaction that steps to a key has looked for all keys before it that were not written yet.
        assert_eq!(store.next_written(6, 0, b"a"), Some(key));
        assert_eq!(store.next_written(7, 0, b"p"), None);
        let [before, next, last] =
            [&b"before"[..], b"next", b"z"].map(|name| store.keys.number(Top, name));
        assert_eq!(publish(&store, 6, &[(before, None)]), result(true, false));
        assert_eq!(publish(&store, 5, &[(before, None)]), result(true, true));
        assert_eq!(publish(&store, 1, &[(next, None)]), result(true, false));
        assert_eq!(publish(&store, 0, &[(last, None)]), result(true, true));
        let child = store.keys.trie_number(Child(b"child"));
        assert_eq!(store.next_written(1, 0, b"l"), Some(next));
        assert_eq!(store.next_written(1, child, b""), None);
    }

    /// The writes of each position.
    type Model = [BTreeMap<u8, Option<u8>>];

    /// Returns what the nearest writer of `key` below `position` writes.
    fn value_of(model: &Model, position: u32, key: u8) -> Option<Option<u8>> {
        let mut below = model[..index(position)].iter().rev();
        below.find_map(|writes| writes.get(&key).copied())
    }

    /// Returns the first key after `after` that has a value below `position`, if the parent state is empty.
    fn next_of(model: &Model, position: u32, after: u8) -> Option<u8> {
        (after + 1..=u8::MAX).find(|key| matches!(value_of(model, position, *key), Some(Some(_))))
    }

    fn found(store: &MultiVersion, position: u32, id: KeyId) -> Option<Option<u8>> {
        match store.nearest(position, id) {
            Nearest::Parent => None,
            Nearest::Estimate(_) => panic!("nothing is marked"),
            Nearest::Written(_, writes, content) => {
                Some(writes.value(content).map(|value| value[0]))
            }
        }
    }

    fn found_next(store: &MultiVersion, position: u32, after: u8) -> Option<u8> {
        let mut next = store.next_written(position, 0, &[after]);
        while let Some(id) = next {
            let key = &store.keys.key(id).bytes;
            if matches!(found(store, position, id), Some(Some(_))) {
                return Some(key[0]);
            }
            next = store.next_written(position, 0, key);
        }
        None
    }

    /// A change that makes an answer of a transaction wrong concerns a key that the transaction has looked for.
    #[test]
    fn no_changed_answer_is_unseen() {
        const POSITIONS: u32 = 12;
        const ROUNDS: u32 = if cfg!(miri) { 5 } else { 500 };
        let mut rng = SmallRng::seed_from_u64(11);
        let (mut unseen, mut wrong) = (0, 0);
        for _ in 0..ROUNDS {
            let store = MultiVersion::new(POSITIONS);
            let mut model = vec![BTreeMap::new(); index(POSITIONS)];
            let (mut values, mut nexts) = (Vec::new(), Vec::new());
            for _ in 0..60 {
                let position = rng.random_range(0..POSITIONS);
                let key = rng.random_range(0..6);
                match rng.random_range(0..8) {
                    0 => {
                        let value = value_of(&model, position, key);
                        let id = store.keys.number(Top, &[key]);
                        assert_eq!(found(&store, position, id), value);
                        values.push((position, key, value));
                    }
                    1 => {
                        let next = next_of(&model, position, key);
                        assert_eq!(found_next(&store, position, key), next);
                        nexts.push((position, key, next));
                    }
                    _ => {
                        let writes: BTreeMap<u8, Option<u8>> = (0..rng.random_range(0..3))
                            .map(|_| (rng.random_range(0..6), rng.random_bool(0.7).then_some(1)))
                            .collect();
                        let mut builder = WriteSetBuilder::default();
                        for (key, value) in &writes {
                            let id = store.keys.number(Top, &[*key]);
                            builder
                                .write(id, value.as_ref().map(std::slice::from_ref))
                                .unwrap();
                        }
                        let published = store.publish(position, Arc::new(builder.finish()));
                        assert_eq!(published.changed, model[index(position)] != writes);
                        model[index(position)] = writes;
                        let answers = values.len() + nexts.len();
                        // Transactions with a wrong answer are executed again.
                        values.retain(|(at, key, value)| value_of(&model, *at, *key) == *value);
                        nexts.retain(|(at, after, next)| next_of(&model, *at, *after) == *next);
                        let right = values.len() + nexts.len() == answers;
                        assert!(published.seen || right);
                        unseen += u32::from(published.changed && !published.seen);
                        wrong += u32::from(!right);
                    }
                }
            }
        }
        assert!(
            unseen > 2 * ROUNDS && wrong > 2 * ROUNDS,
            "{unseen}, {wrong}"
        );
    }
}
