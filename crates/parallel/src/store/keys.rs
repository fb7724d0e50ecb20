//! The keys that the transactions of a block touch, each with a number.

use super::writers::{index, Writers};
use crate::sync::{
    atomic::{AtomicU32, Ordering},
    lock, read, write, Apart, Mutex, RwLock,
};
use hashbrown::HashTable;
use povmeter::KeptValue;
use povmeter_primitives::{QualityState, ShortHash, TrieId};
use smallvec::SmallVec;
use std::{hash::BuildHasher, ops::Range, sync::OnceLock};

/// The number of a key in one [`Keys`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct KeyId(u32);

impl KeyId {
    /// The number of no key, for entries that concern none.
    pub(crate) const NONE: Self = Self(u32::MAX);

    /// Returns the number, for tables: numbers begin at zero and have few gaps.
    pub(crate) fn index(self) -> usize {
        index(self.0)
    }

    /// Returns a hash of the number, for hash tables.
    pub(crate) fn hash(self) -> u64 {
        ShortHash::of_number(self.0).spread()
    }
}

/// The number of a trie: 0 for the top trie, then child tries by first use.
pub(crate) type TrieNumber = u32;

/// A key, the transactions that write it, and its value in the parent state.
#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) trie: TrieNumber,
    /// The highest position that has asked for the key.
    asked: AtomicU32,
    pub(crate) bytes: KeyBytes,
    pub(crate) writers: Mutex<Writers>,
    /// The value in the parent state, once a thread has read it, so that others need not walk to it.
    pub(crate) parent: OnceLock<ParentValue>,
}

/// The bytes of a key. Up to 80 lie in the entry and need no allocation. That is the length of the key of an account
/// in a map of a runtime: two hashed names of 16 bytes, a hash of 16, and the account.
pub(crate) type KeyBytes = SmallVec<[u8; 80]>;

/// The value of a key in the parent state.
#[derive(Debug)]
pub(crate) struct ParentValue {
    pub(crate) value: Option<KeptValue>,
    /// Whether the block has loaded the nodes for it.
    pub(crate) in_block: bool,
}

/// A key, and its hash in one [`Keys`].
#[derive(Clone, Copy, Debug)]
pub(super) struct HashedKey<'k> {
    pub(super) trie: TrieNumber,
    pub(super) bytes: &'k [u8],
    pub(super) hash: ShortHash,
}

impl Key {
    fn new(trie: TrieNumber, key: &[u8]) -> Self {
        Self {
            trie,
            asked: AtomicU32::new(0),
            bytes: KeyBytes::from_slice(key),
            writers: Mutex::new(Writers::None),
            parent: OnceLock::new(),
        }
    }

    /// Notes that `position` is about to look for writers of the key below it.
    #[inline]
    pub(crate) fn ask(&self, position: u32) {
        if self.asked.load(Ordering::Relaxed) < position {
            self.asked.fetch_max(position, Ordering::Relaxed);
        }
    }

    /// Changes the set of writers. Returns `true` if a transaction above `position` may have looked before.
    ///
    /// A reader that takes the lock before this change was noted before; one that takes it afterwards finds the
    /// change.
    pub(crate) fn change(&self, position: u32, change: impl FnOnce(&mut Writers)) -> bool {
        change(&mut lock(&self.writers));
        self.asked.load(Ordering::Relaxed) > position
    }

    fn is(&self, other: HashedKey<'_>) -> bool {
        self.trie == other.trie && *self.bytes == *other.bytes
    }
}

/// Numbers keys. Any thread may call it. A key stays at its place in memory, so that no thread needs a lock to read
/// its bytes.
#[derive(Debug)]
pub(crate) struct Keys {
    /// Keys by number, in groups. A thread takes one group at a time and fills it. With one counter for all threads,
    /// each new key would wait for the core that made the last one.
    groups: boxcar::Vec<Group>,
    by_key: [Shard; SHARDS],
    /// Numbers for threads that bring none of their own.
    unused: Mutex<UnusedNumbers>,
    children: boxcar::Vec<Box<[u8]>>,
    by_name: RwLock<HashTable<TrieNumber>>,
    hashing: QualityState,
}

type Group = Box<[OnceLock<Key>]>;

/// The number of keys in a group.
const GROUP: u32 = 32;

/// The numbers that a thread gives out next: the rest of its group. Empty at first.
#[derive(Debug, Default)]
pub(super) struct UnusedNumbers(Range<u32>);

/// One of the tables of keys.
type Shard = Apart<Mutex<HashTable<Numbered>>>;

/// A key in a table: its number, and its hash, so that a table that grows need not look at the key.
#[derive(Clone, Copy, Debug)]
struct Numbered {
    id: KeyId,
    hash: ShortHash,
}

/// The number of tables. A key's table follows from bits of its hash that the table itself does not use.
const SHARDS: usize = 64;

impl UnusedNumbers {
    /// Returns a number that no other key of `keys` has.
    pub(super) fn take(&mut self, keys: &Keys) -> KeyId {
        KeyId(self.0.next().unwrap_or_else(|| self.take_group(keys)))
    }

    #[cold]
    fn take_group(&mut self, keys: &Keys) -> u32 {
        let group = (0..GROUP).map(|_| OnceLock::new()).collect();
        let group = u32::try_from(keys.groups.push(group)).unwrap_or(u32::MAX);
        // Memory ends long before numbers do.
        let first = group.saturating_mul(GROUP);
        self.0 = first.saturating_add(1)..first.saturating_add(GROUP);
        first
    }
}

impl Default for Keys {
    fn default() -> Self {
        Self {
            groups: boxcar::Vec::new(),
            by_key: std::array::from_fn(|_| Shard::default()),
            unused: Mutex::default(),
            children: boxcar::Vec::new(),
            by_name: RwLock::new(HashTable::new()),
            hashing: QualityState::default(),
        }
    }
}

impl Keys {
    /// Returns the number of `key`: a new one if the key was not touched before.
    pub(crate) fn number(&self, trie: TrieId<'_>, key: &[u8]) -> KeyId {
        let unused = || lock(&self.unused).take(self);
        self.number_hashed(self.hashed(trie, key), unused)
    }

    /// Returns the key with its hash, for [`Self::number_hashed`].
    #[inline]
    pub(super) fn hashed<'k>(&self, trie: TrieId<'_>, key: &'k [u8]) -> HashedKey<'k> {
        let trie = self.trie_number(trie);
        HashedKey {
            trie,
            bytes: key,
            hash: self.hash(trie, key),
        }
    }

    /// As [`Self::number`]. A new key gets the number that `unused` returns.
    pub(super) fn number_hashed(
        &self,
        named: HashedKey<'_>,
        unused: impl FnOnce() -> KeyId,
    ) -> KeyId {
        let HashedKey {
            trie,
            bytes: key,
            hash,
        } = named;
        let same = |known: &Numbered| known.hash == hash && self.key(known.id).is(named);
        let mut shard = lock(&self.by_key[(hash.spread() >> 48) as usize % SHARDS]);
        if let Some(known) = shard.find(hash.spread(), same) {
            return known.id;
        }
        let id = unused();
        self.place(id).get_or_init(|| Key::new(trie, key));
        shard.insert_unique(hash.spread(), Numbered { id, hash }, |known| {
            known.hash.spread()
        });
        id
    }

    fn place(&self, id: KeyId) -> &OnceLock<Key> {
        &self.groups[index(id.0 / GROUP)][index(id.0 % GROUP)]
    }

    /// Calls `look` with each key whose number was given out before the call, and perhaps with newer ones.
    pub(crate) fn each(&self, mut look: impl FnMut(KeyId, &Key)) {
        for shard in &self.by_key {
            for known in lock(shard).iter() {
                look(known.id, self.key(known.id));
            }
        }
    }

    /// Returns the key `id`.
    pub(crate) fn key(&self, id: KeyId) -> &Key {
        // The key is in its place before its number is given out, so this makes none.
        self.place(id).get_or_init(|| Key::new(0, &[]))
    }

    /// Returns the trie `number`.
    pub(crate) fn trie(&self, number: TrieNumber) -> TrieId<'_> {
        match number.checked_sub(1) {
            None => TrieId::Top,
            Some(child) => TrieId::Child(&self.children[index(child)]),
        }
    }

    /// Returns the number of `trie`: a new one if no key of it was touched before.
    #[inline]
    pub(crate) fn trie_number(&self, trie: TrieId<'_>) -> TrieNumber {
        match trie {
            TrieId::Top => 0,
            TrieId::Child(name) => self.child_number(name),
        }
    }

    fn child_number(&self, name: &[u8]) -> TrieNumber {
        let trie = TrieId::Child(name);
        let hash = self.hashing.hash_one(name);
        let same = |number: &TrieNumber| self.trie(*number) == trie;
        if let Some(number) = read(&self.by_name).find(hash, same) {
            return *number;
        }
        let mut by_name = write(&self.by_name);
        if let Some(number) = by_name.find(hash, same) {
            return *number;
        }
        let place = self.children.push(name.into());
        let number = u32::try_from(place).unwrap_or(u32::MAX).saturating_add(1);
        by_name.insert_unique(hash, number, |number| match self.trie(*number) {
            TrieId::Top => 0,
            TrieId::Child(name) => self.hashing.hash_one(name),
        });
        number
    }

    fn hash(&self, trie: TrieNumber, key: &[u8]) -> ShortHash {
        ShortHash::of(&self.hashing, (trie, key))
    }
}
