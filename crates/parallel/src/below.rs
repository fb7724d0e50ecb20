//! The state below a transaction: what the transactions before it write, on top of the parent state.

use crate::{
    caught::Caught,
    folds::{Base, Folds, Link},
    record::{Record, Seen},
    store::{
        Content, KeyId, MultiVersion, Nearest, ParentValue, TrieNumber, WriteSet, LARGE_BYTES,
    },
    turns::LoadedParent,
};
use bytes::Bytes;
use povmeter_delta_root::{LoadError, NodeSource, Root, ShadowState};
use std::sync::Arc;

/// Reads the state below a transaction, for one thread. Its reads do not count.
#[derive(Debug)]
pub(crate) struct Below<P> {
    parent: ShadowState<Caught<P>>,
    found: Found,
    /// Whether the last answer is that of the parent state, unchanged by the transactions below.
    of_parent: bool,
    /// The value, if it was computed or copied.
    copied: Vec<u8>,
    /// Updates above the value, from the highest writer down.
    chain: Vec<Link>,
    folds: Folds,
}

#[derive(Debug)]
enum Found {
    Absent,
    Shared(Bytes),
    /// A value of this write set.
    Written(Arc<WriteSet>, Content),
    Copied,
}

/// The transaction that asks, and where it looks.
#[derive(Clone, Copy)]
pub(crate) struct Asker<'r> {
    /// The position of the transaction. It reads what lower positions write.
    pub(crate) position: u32,
    pub(crate) store: &'r MultiVersion,
    /// The block, for the thread that owns it: the block need not load again what this thread reads through it.
    /// `None` for other threads. These load nodes themselves, because memory that moves from core to core costs as
    /// much as a second load.
    pub(crate) block: Option<&'r dyn LoadedParent>,
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum Miss {
    /// The transaction at this position will likely write the key.
    Estimate(u32),
    /// The parent state could not be read: an error or a panic of the source. The block will report it, if it cannot
    /// read the state either.
    Load,
}

impl From<LoadError> for Miss {
    fn from(_: LoadError) -> Self {
        Self::Load
    }
}

impl<P: NodeSource> Below<P> {
    pub(crate) fn new(source: P, root: Root) -> Self {
        Self {
            parent: ShadowState::new(Caught(source), root),
            found: Found::Absent,
            of_parent: false,
            copied: Vec::new(),
            chain: Vec::new(),
            folds: Folds::default(),
        }
    }

    /// Finds the value of `key` below the transaction, for [`Self::value`] to return.
    pub(crate) fn find(&mut self, asker: Asker<'_>, key: KeyId) -> Result<(), Miss> {
        self.find_of(asker, key, false)
    }

    /// As [`Self::find`]. If a `likely` value is enough, an estimate is taken for the value.
    pub(crate) fn find_of(
        &mut self,
        asker: Asker<'_>,
        key: KeyId,
        likely: bool,
    ) -> Result<(), Miss> {
        let Asker {
            position, store, ..
        } = asker;
        self.chain.clear();
        self.found = Found::Absent;
        self.of_parent = false;
        let mut below = position;
        self.found = loop {
            match store.nearest_of(below, key, likely) {
                Nearest::Estimate(writer) => return Err(Miss::Estimate(writer)),
                Nearest::Parent => {
                    let found = self.find_in_parent(asker, key)?;
                    self.of_parent = true;
                    break found;
                }
                Nearest::Written(writer, writes, content) => match content {
                    Content::Value(_) | Content::Large(_) => {
                        break Found::Written(writes, content);
                    }
                    Content::Deleted => break Found::Absent,
                    Content::Updated { first, count } => {
                        self.chain.push((writes, first, count));
                        below = writer;
                    }
                },
            }
        };
        if !self.chain.is_empty() {
            self.fold(key);
        }
        Ok(())
    }

    /// Finds the value of `key` in the parent state.
    fn find_in_parent(&mut self, asker: Asker<'_>, key: KeyId) -> Result<Found, Miss> {
        let keys = &asker.store.keys;
        let named = keys.key(key);
        let parent = match named.parent.get() {
            Some(parent) => parent,
            None => {
                let trie = keys.trie(named.trie);
                let peeked = asker.block.and_then(|block| block.peek(trie, &named.bytes));
                let in_block = peeked.is_some();
                let value = match peeked {
                    Some(value) => value.map_err(|_| Miss::Load)?,
                    None => self.parent.read_once(trie, &named.bytes)?,
                };
                let found = ParentValue { value, in_block };
                // If another thread has stored a value meanwhile, it is the same.
                named.parent.get_or_init(|| found)
            }
        };
        Ok(match &parent.value {
            None => Found::Absent,
            Some(value) => match value.shared() {
                Some(shared) if shared.len() > LARGE_BYTES => Found::Shared(shared.clone()),
                // Copied, because threads that share a value would all write to its reference count.
                _ => {
                    self.copied.clear();
                    self.copied.extend_from_slice(value);
                    Found::Copied
                }
            },
        })
    }

    /// Applies the updates of the chain to the found value.
    fn fold(&mut self, key: KeyId) {
        let base = match &self.found {
            _ if self.of_parent => Base::Parent,
            Found::Written(writes, _) => Base::Written(writes.clone()),
            Found::Absent | Found::Shared(_) | Found::Copied => Base::Deleted,
        };
        self.of_parent = false;
        let mut folds = std::mem::take(&mut self.folds);
        let folded = folds.value(key, &base, self.value(), &self.chain);
        self.found = if folded.is_some() {
            Found::Copied
        } else {
            Found::Absent
        };
        self.copied.clear();
        self.copied.extend_from_slice(folded.unwrap_or_default());
        self.folds = folds;
        self.chain.clear();
    }

    /// Returns the value that was found last.
    pub(crate) fn value(&self) -> Option<&[u8]> {
        match &self.found {
            Found::Absent => None,
            Found::Shared(value) => Some(value),
            Found::Written(writes, content) => writes.value(*content),
            Found::Copied => Some(&self.copied),
        }
    }

    /// Returns the value that was found last if it is a large one in shared memory.
    pub(crate) fn shared(&self) -> Option<&Bytes> {
        match &self.found {
            Found::Shared(value) => Some(value),
            Found::Written(writes, Content::Large(number)) => Some(writes.large(*number)),
            _ => None,
        }
    }

    /// Whether the last answer (a value, or existence) is that of the parent state.
    pub(crate) fn of_parent(&self) -> bool {
        self.of_parent
    }

    /// Whether `key` has a value below the transaction. Does not load a value of the parent state that is a node of
    /// its own.
    pub(crate) fn exists(&mut self, asker: Asker<'_>, key: KeyId) -> Result<bool, Miss> {
        let Asker {
            position, store, ..
        } = asker;
        self.of_parent = false;
        match store.nearest(position, key) {
            Nearest::Estimate(writer) => Err(Miss::Estimate(writer)),
            Nearest::Parent => {
                self.of_parent = true;
                let named = store.keys.key(key);
                if let Some(parent) = named.parent.get() {
                    return Ok(parent.value.is_some());
                }
                let trie = store.keys.trie(named.trie);
                Ok(self.parent.exists(trie, &named.bytes, &mut ())?)
            }
            Nearest::Written(_, _, Content::Value(_) | Content::Large(_)) => Ok(true),
            Nearest::Written(_, _, Content::Deleted) => Ok(false),
            Nearest::Written(_, _, Content::Updated { .. }) => {
                self.find(asker, key)?;
                Ok(self.value().is_some())
            }
        }
    }

    /// The first key of `trie` after `after` that has a value below the transaction, if it is before `before`.
    pub(crate) fn next_key(
        &mut self,
        asker: Asker<'_>,
        trie: TrieNumber,
        after: &[u8],
        before: Option<&[u8]>,
    ) -> Result<Option<Vec<u8>>, Miss> {
        let Asker {
            position, store, ..
        } = asker;
        let named_trie = store.keys.trie(trie);
        let is_before = |key: &[u8]| before.is_none_or(|before| key < before);
        let mut in_parent = self.parent.next_key(named_trie, after, &mut ())?;
        let mut next = store.next_written(position, trie, after);
        while let Some(id) = next {
            let key = &store.keys.key(id).bytes[..];
            let past_parent = in_parent.as_deref().is_some_and(|parent| parent < key);
            if past_parent || !is_before(key) {
                break;
            }
            match store.nearest(position, id) {
                // Written by later transactions only: the parent state decides.
                Nearest::Parent if in_parent.as_deref() != Some(key) => {}
                Nearest::Parent => break,
                _ if self.exists(asker, id)? => return Ok(Some(key.to_vec())),
                _ if in_parent.as_deref() == Some(key) => {
                    in_parent = self.parent.next_key(named_trie, key, &mut ())?;
                }
                _ => {}
            }
            next = store.next_written(position, trie, key);
        }
        Ok(in_parent.filter(|key| is_before(key)))
    }

    /// Whether every question of `record`, asked again, has the same answer. Sizes are skipped, because only the
    /// block knows them. Predicted values are compared only if the store is `complete`; otherwise a prediction knows
    /// more than the store. An answer of the parent state is the same as long as no transaction writes the key, so it
    /// is not looked up again: the walk could load nodes that this thread does not have.
    pub(crate) fn answers_alike(
        &mut self,
        asker: Asker<'_>,
        record: &Record,
        complete: bool,
    ) -> Result<bool, Miss> {
        let Asker {
            position, store, ..
        } = asker;
        for read in &record.reads {
            let of_parent = || matches!(store.nearest(position, read.key), Nearest::Parent);
            let alike = match read.seen {
                _ if read.of_parent && of_parent() => true,
                Seen::Counted | Seen::Ask(_) => true,
                Seen::Predicted(_) if !complete => true,
                Seen::Exists(exists) => self.exists(asker, read.key)? == exists,
                Seen::Next(number) => {
                    let next = record.nexts[number as usize];
                    let bytes = |span| record.bytes(span);
                    let (after, before) = (bytes(next.after), next.before.map(bytes));
                    let found = self.next_key(asker, next.trie, after, before)?;
                    found.as_deref() == next.found.map(bytes)
                }
                // Only the block knows the value below an update that follows a question for the size.
                Seen::Told(_) if !record.asks.is_empty() => true,
                Seen::Told(number) => {
                    self.find(asker, read.key)?;
                    record.is_told_right(number, self.value())
                }
                Seen::Absent | Seen::Value(_) | Seen::Predicted(_) | Seen::Large(_) => {
                    self.find(asker, read.key)?;
                    record.is(read.seen, self.value())
                }
            };
            if !alike {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{store::WriteSetBuilder, sync::atomic::AtomicUsize};
    use bytes::Bytes;
    use povmeter::{Block, NodeHash, NodePrefix, SourceError, StateVersion::V1, TrieId::Top};
    use povmeter_store::{MemoryStore, NodeStore};
    use std::sync::atomic::Ordering::Relaxed;

    struct Counting<'s>(&'s MemoryStore, AtomicUsize);

    impl NodeSource for &Counting<'_> {
        fn node(
            &self,
            hash: &NodeHash,
            prefix: NodePrefix<'_>,
        ) -> Result<Option<Bytes>, SourceError> {
            self.1.fetch_add(1, Relaxed);
            self.0.node(hash, prefix)
        }
    }

    /// Publishes that the transaction at `position` writes `value`, and nothing else.
    fn write(store: &MultiVersion, position: u32, key: KeyId, value: Option<&[u8]>) {
        let mut writes = WriteSetBuilder::default();
        writes.write(key, value).unwrap();
        store.publish(position, Arc::new(writes.finish()));
    }

    #[test]
    fn answers_of_the_parent_state_are_compared_only_where_somebody_writes() {
        let mut nodes = MemoryStore::new();
        let mut block = Block::new(&nodes, Root::EMPTY);
        block.set(Top, b"there", &[7; 40]).unwrap();
        nodes.commit(block.seal(V1).unwrap().update()).unwrap();

        let store = MultiVersion::new(4);
        let counting = Counting(&nodes, AtomicUsize::new(0));
        let below = || Below::new(&counting, nodes.root());
        let asker = Asker {
            position: 3,
            store: &store,
            block: None,
        };
        let [there, absent] = [&b"there"[..], b"absent"].map(|name| store.keys.number(Top, name));

        let (mut values, mut existence) = (Record::default(), Record::default());
        let mut reader = below();
        for key in [there, absent] {
            reader.find(asker, key).unwrap();
            values
                .push_value(key, reader.value(), reader.shared(), reader.of_parent())
                .unwrap();
            let exists = reader.exists(asker, key).unwrap();
            existence.push_of(key, Seen::Exists(exists), reader.of_parent());
        }
        assert!(counting.1.swap(0, Relaxed) > 0);

        let alike = |record| below().answers_alike(asker, record, true).unwrap();
        assert!(alike(&values) && alike(&existence));
        assert_eq!(counting.1.load(Relaxed), 0, "nodes were loaded again");
        // By a higher transaction: not seen.
        write(&store, 3, there, Some(b"other"));
        assert!(alike(&values) && alike(&existence));
        // A write of the value that is already there, then of another value, then a deletion.
        write(&store, 2, there, Some(&[7; 40]));
        assert!(alike(&values) && alike(&existence));
        write(&store, 2, there, Some(b"other"));
        assert!(!alike(&values) && alike(&existence));
        write(&store, 2, there, None);
        assert!(!alike(&values) && !alike(&existence));
        write(&store, 2, absent, Some(b"new"));
        assert!(!alike(&values) && !alike(&existence));

        // A value that a transaction wrote is not one of the parent state.
        let mut of_other = Record::default();
        reader.find(asker, absent).unwrap();
        let of_parent = reader.of_parent();
        of_other
            .push_value(absent, reader.value(), reader.shared(), of_parent)
            .unwrap();
        assert!(!of_other.reads[0].of_parent && alike(&of_other));
        store.publish(2, Arc::new(WriteSet::default()));
        assert!(!alike(&of_other));
    }
}
