//! Loads the nodes that the block will need for transactions that were executed ahead, before their turns.
//!
//! The block looks up one key after the other, and waits for memory or for the store each time. The keys of
//! transactions that were executed ahead are known, so they are looked up together, each key once, because loaded
//! nodes stay in memory.

use crate::{
    record::{Record, Seen},
    store::{KeyId, Keys, WriteSet},
};
use povmeter::{Accounting, Block, NodeSource};
use std::ops::Range;

/// See the top of the file. Belongs to the holder of the block.
#[derive(Debug, Default)]
pub(crate) struct Fetch {
    /// One above the highest transaction whose keys were noted.
    next: u32,
    /// What was noted of each key, by the key's number.
    noted: Vec<Noted>,
    /// Noted keys that are not loaded yet: those whose value is needed, and those whose path is enough.
    values: Vec<KeyId>,
    paths: Vec<KeyId>,
}

/// How much of a key is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Noted {
    Nothing,
    Path,
    Value,
}

/// The most transactions whose keys are loaded together.
const TOGETHER: u32 = 8;

impl Fetch {
    /// Returns the transactions to note when the turn of `transaction` has come; none if `transaction` was noted
    /// before.
    pub(crate) fn due(&self, transaction: u32) -> Range<u32> {
        if transaction < self.next {
            return 0..0;
        }
        transaction..transaction.saturating_add(TOGETHER)
    }

    /// Notes the keys of `transaction`, whose nodes it will count or change.
    pub(crate) fn note(
        &mut self,
        keys: &Keys,
        transaction: u32,
        record: &Record,
        writes: &WriteSet,
    ) {
        self.next = self.next.max(transaction.saturating_add(1));
        for read in &record.reads {
            match read.seen {
                Seen::Next(_) | Seen::Ask(_) => {}
                // A lower transaction wrote the key, so the block need not look into the parent state.
                Seen::Absent | Seen::Value(_) | Seen::Large(_) | Seen::Exists(_)
                    if !read.of_parent => {}
                Seen::Exists(_) => self.note_key(keys, read.key, Noted::Path),
                _ => self.note_key(keys, read.key, Noted::Value),
            }
        }
        for entry in writes.entries() {
            self.note_key(keys, entry.key, Noted::Path);
        }
    }

    fn note_key(&mut self, keys: &Keys, key: KeyId, needed: Noted) {
        let number = key.index();
        if number >= self.noted.len() {
            self.noted.resize(number + 1, Noted::Nothing);
        }
        let noted = &mut self.noted[number];
        if *noted < needed {
            let parent = keys.key(key).parent.get();
            if parent.is_some_and(|parent| parent.in_block) {
                *noted = Noted::Value;
                return;
            }
            *noted = needed;
            match needed {
                Noted::Value => self.values.push(key),
                _ => self.paths.push(key),
            }
        }
    }

    /// Loads the nodes of the noted keys. An error is left to the call that needs the node.
    pub(crate) fn load<S: NodeSource, A: Accounting>(
        &mut self,
        keys: &Keys,
        block: &mut Block<S, A>,
    ) {
        let Self {
            noted: _,
            next: _,
            values,
            paths,
        } = self;
        let trie_of = |id: &KeyId| keys.key(*id).trie;
        let bytes_of = |id: &KeyId| &keys.key(*id).bytes[..];
        // Nearly always, all keys are of one trie.
        values.sort_by_key(trie_of);
        paths.sort_by_key(trie_of);
        let (mut read, mut changed) = (Vec::new(), Vec::new());
        while let Some(trie) = values.iter().chain(&*paths).map(trie_of).max() {
            let take = |ids: &mut Vec<KeyId>, of_trie: &mut Vec<_>| {
                let first = ids.partition_point(|id| trie_of(id) < trie);
                of_trie.clear();
                of_trie.extend(ids.drain(first..).map(|id| bytes_of(&id)));
            };
            take(values, &mut read);
            take(paths, &mut changed);
            let _ = block.prefetch_for(keys.trie(trie), &read, &changed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{ParentValue, WriteSetBuilder};
    use bytes::Bytes;
    use povmeter::{
        NodeBatch, NodeHash, NodePrefix, Root, SourceError, StateVersion::V1, TrieId::Top,
    };
    use povmeter_store::{MemoryStore, NodeStore};
    use std::{
        cell::{Cell, RefCell},
        collections::BTreeSet,
    };

    /// A store that counts calls and notes the requested nodes.
    struct Noting<'s> {
        store: &'s MemoryStore,
        calls: Cell<usize>,
        nodes: RefCell<BTreeSet<NodeHash>>,
    }

    impl<'s> Noting<'s> {
        fn new(store: &'s MemoryStore) -> Self {
            Self {
                store,
                calls: Cell::new(0),
                nodes: RefCell::default(),
            }
        }

        fn take(&self) -> (usize, BTreeSet<NodeHash>) {
            (self.calls.take(), self.nodes.take())
        }
    }

    impl NodeSource for &Noting<'_> {
        fn node(
            &self,
            hash: &NodeHash,
            prefix: NodePrefix<'_>,
        ) -> Result<Option<Bytes>, SourceError> {
            self.store.node(hash, prefix)
        }

        fn nodes(&self, batch: &mut NodeBatch<'_>) {
            self.calls.set(self.calls.get() + 1);
            let asked = batch.open().map(|index| batch.request(index).hash);
            self.nodes.borrow_mut().extend(asked);
            self.store.nodes(batch);
        }
    }

    fn key(number: u32) -> [u8; 8] {
        u64::from(number)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .to_be_bytes()
    }

    const LONG: [u8; 40] = [7; 40];

    /// A state in which each value is a node of its own.
    fn state() -> MemoryStore {
        let mut store = MemoryStore::new();
        let mut block = Block::new(&store, Root::EMPTY);
        for number in 0..400_u32 {
            let value = [&LONG[..], &number.to_le_bytes()].concat();
            block.set(Top, &key(number), &value).unwrap();
        }
        store.commit(block.seal(V1).unwrap().update()).unwrap();
        store
    }

    /// The record and the writes of transaction `index`: it has read key `3 * index`, asked whether `3 * index + 1`
    /// exists, and written `3 * index + 2`.
    fn executed(keys: &Keys, index: u32) -> (Record, WriteSet) {
        let id = |number| keys.number(Top, &key(3 * index + number));
        let mut record = Record::default();
        let value = [&LONG[..], &(3 * index).to_le_bytes()].concat();
        record.push_value(id(0), Some(&value), None, true).unwrap();
        record.push_of(id(1), Seen::Exists(true), true);
        let mut writes = WriteSetBuilder::default();
        writes.write(id(2), Some(b"new")).unwrap();
        (record, writes.finish())
    }

    fn in_order(block: &mut Block<&Noting<'_>>) {
        for index in 0..TOGETHER {
            assert!(block.get(Top, &key(3 * index)).unwrap().is_some());
            assert!(block.exists(Top, &key(3 * index + 1)).unwrap());
            block.set(Top, &key(3 * index + 2), b"new").unwrap();
            block.proof_size().unwrap();
        }
    }

    #[test]
    fn nodes_of_several_transactions_are_loaded_in_few_calls() {
        let store = state();
        let (plain, together) = (Noting::new(&store), Noting::new(&store));
        in_order(&mut Block::new(&plain, store.root()));
        let (plain_calls, plain_nodes) = plain.take();

        let mut block = Block::new(&together, store.root());
        let (keys, mut fetch) = (Keys::default(), Fetch::default());
        assert_eq!(fetch.due(0), 0..TOGETHER);
        for index in 0..TOGETHER {
            let (record, writes) = executed(&keys, index);
            fetch.note(&keys, index, &record, &writes);
        }
        assert!(fetch.due(TOGETHER - 1).is_empty());
        fetch.load(&keys, &mut block);
        let (calls, nodes) = together.take();
        assert_eq!(nodes, plain_nodes);
        assert!(calls * 4 < plain_calls, "{calls}, {plain_calls} in order");
        in_order(&mut block);
        assert_eq!(together.take().0, 0);
    }

    #[test]
    fn what_the_block_has_read_itself_is_not_looked_for() {
        let store = state();
        let noting = Noting::new(&store);
        let mut block = Block::new(&noting, store.root());
        let (keys, mut fetch) = (Keys::default(), Fetch::default());
        let (record, writes) = executed(&keys, 5);
        let read_by = |in_block| ParentValue {
            value: None,
            in_block,
        };
        for (read, in_block) in record.reads.iter().zip([true, false]) {
            let known = keys.key(read.key).parent.set(read_by(in_block));
            known.unwrap();
        }
        fetch.note(&keys, 5, &record, &writes);
        assert_eq!(fetch.values, []);
        assert_eq!(fetch.paths.len(), 2);
        // A write of a key that was read needs no second look-up.
        let mut again = WriteSetBuilder::default();
        again.write(record.reads[0].key, None).unwrap();
        fetch.note(&keys, 6, &Record::default(), &again.finish());
        assert_eq!(fetch.paths.len(), 2);
        fetch.load(&keys, &mut block);
        assert!(noting.take().0 > 0);
    }
}
