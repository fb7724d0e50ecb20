//! The overlay itself: reads and writes.

use crate::{
    dirty::{Dirty, DirtyLog, Mention},
    entries::Entries,
    heap::Heap,
    journal::Journal,
    slot::Slot,
    store::{Store, Stores, TOP},
    transaction::OpenTransaction,
    value::Value,
    Change,
};
use alloc::vec::Vec;
use bytes::Bytes;
use povmeter_primitives::{Fate, TrieId};

/// What a block changed so far. See the [crate page](crate).
#[derive(Debug, Default)]
pub struct Overlay {
    pub(crate) entries: Entries,
    pub(crate) stores: Stores,
    pub(crate) heap: Heap,
    pub(crate) journal: Journal,
    pub(crate) log: DirtyLog,
    pub(crate) transactions: Vec<OpenTransaction>,
    /// While the runtime is in control: how many transactions the host had open when it handed control
    /// over.
    pub(crate) host_transactions: Option<usize>,
    pub(crate) revision: u64,
}

/// What the overlay knows about a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup<'a> {
    /// The overlay does not know the key; ask the parent state.
    Untouched,
    /// The key is deleted, whether or not the parent state has it.
    Deleted,
    /// The key has this value, whatever it is in the parent state.
    Value(&'a [u8]),
}

/// The most that [`Overlay::reset`] keeps memory for.
const KEPT_KEYS: usize = 1 << 15;
const KEPT_KEY_BYTES: usize = 4 << 20;
const KEPT_VALUE_BYTES: usize = 16 << 20;
const KEPT_TRANSACTIONS: usize = 1 << 10;

impl Overlay {
    /// An overlay without changes, with the host in control and no transaction open. Allocates
    /// nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes an overlay in any state equal to a new one, but keeps memory for the next block: as much
    /// as a block of some ten thousand changes needs.
    ///
    /// Costs a pass over the hash table, which gets a new seed.
    pub fn reset(&mut self) {
        let Self {
            entries,
            stores,
            heap,
            journal,
            log,
            transactions,
            host_transactions,
            revision,
        } = self;
        entries.reset(KEPT_KEYS, KEPT_KEY_BYTES);
        stores.reset(KEPT_KEYS, KEPT_KEY_BYTES);
        heap.reset(KEPT_VALUE_BYTES);
        journal.reset(KEPT_KEYS);
        log.reset(KEPT_KEYS);
        transactions.clear();
        transactions.shrink_to(KEPT_TRANSACTIONS);
        *host_transactions = None;
        // Goes up, so that no result of the old content has the revision of the new content.
        *revision += 1;
    }

    /// Bytes of memory that the overlay holds for keys, values and transactions, used or not. The list of child
    /// stores is not included.
    pub fn memory(&self) -> usize {
        let transactions = self.transactions.capacity() * size_of::<OpenTransaction>();
        self.entries.memory()
            + self.heap.memory()
            + self.journal.memory()
            + self.log.memory()
            + transactions
    }

    /// What the overlay knows about `key`.
    ///
    /// Costs one look-up at any depth of transactions, and never allocates or copies.
    #[inline]
    pub fn get(&self, store: TrieId<'_>, key: &[u8]) -> Lookup<'_> {
        match store {
            TrieId::Top => self.get_in(TOP, key),
            TrieId::Child(_) => self.get_in_child(store, key),
        }
    }

    #[inline(always)]
    fn get_in(&self, store: u32, key: &[u8]) -> Lookup<'_> {
        match self.entries.find(store, key) {
            None => Lookup::Untouched,
            Some(id) => self.entries.at(id).slot.lookup(&self.heap),
        }
    }

    #[inline(never)]
    fn get_in_child(&self, store: TrieId<'_>, key: &[u8]) -> Lookup<'_> {
        match self.stores.find(store) {
            Some(store) => self.get_in(store, key),
            None => Lookup::Untouched,
        }
    }

    /// The value of `key` in memory that the caller may keep: `Some(None)` for a deletion, `None` if the overlay
    /// does not know the key.
    ///
    /// Costs one look-up, and a copy unless the value is large, that is, has memory of its own. The next write
    /// to a large value copies it if the caller still keeps it.
    #[inline]
    pub fn share(&mut self, store: TrieId<'_>, key: &[u8]) -> Option<Option<Bytes>> {
        let id = self.entries.find(self.stores.find(store)?, key)?;
        let slot = self.entries.at(id).slot;
        match slot.value() {
            Some(value) => Some(Some(value.share(&mut self.heap))),
            None => (slot.fate() == Fate::Deleted).then_some(None),
        }
    }

    /// Whether no key has a value or a deletion.
    pub fn is_empty(&self) -> bool {
        let mut children = self.stores.children();
        !self.stores.top().is_touched() && !children.any(|(_, store)| store.is_touched())
    }

    /// Whether a key of `store` has a value or a deletion in the overlay.
    pub fn is_touched(&self, store: TrieId<'_>) -> bool {
        self.store(store).is_some_and(Store::is_touched)
    }

    /// Whether a key of `store` has a value in the overlay.
    pub fn has_values(&self, store: TrieId<'_>) -> bool {
        self.store(store).is_some_and(Store::has_values)
    }

    /// The child storage keys of the child stores with a value or a deletion in the overlay,
    /// sorted.
    ///
    /// A child store whose every change was rolled back is not among them, nor is one that was only
    /// cleared while the overlay had no key of it. (`sp-state-machine` lists the latter until the
    /// next rollback.)
    ///
    /// Costs a pass over the child stores, and sorting them.
    pub fn children(&self) -> impl ExactSizeIterator<Item = &[u8]> + '_ {
        let children = self.stores.children();
        let touched = children.filter(|(_, store)| store.is_touched());
        let mut keys: Vec<&[u8]> = touched.map(|(key, _)| key).collect();
        keys.sort_unstable();
        keys.into_iter()
    }

    /// The changes of `store` as they stand, sorted by key: `None` for a deletion.
    ///
    /// Costs a pass over the changes.
    pub fn changes(&self, store: TrieId<'_>) -> Vec<Change<'_>> {
        let Some(index) = self.stores.find(store) else {
            return Vec::new();
        };
        let mut changes = Vec::with_capacity(self.stores.at(index).touched());
        let ids = self.entries.ids_from(index, &[], false);
        changes.extend(ids.filter_map(|id| self.entries.change(id, &self.heap)));
        changes
    }

    /// A number that goes up whenever the content changes, also by a rollback, [`Self::reset`] or
    /// [`clone_from`](Clone::clone_from).
    ///
    /// Two equal revisions of one overlay mean equal content, so results can be tagged with it. A clone begins with the
    /// revision of its original, so results for an overlay can't be told from those for one that is assigned in its
    /// place.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Sets the value of `key`.
    ///
    /// Takes a slice, because the host sees values as slices of the runtime's memory: a `Vec` would cost an
    /// allocation for every write, while the overlay has memory of old values at hand.
    pub fn set(&mut self, store: TrieId<'_>, key: &[u8], value: &[u8]) {
        let id = self.find_or_insert(store, key);
        self.change(id, |slot, heap| {
            let written = match slot.value() {
                Some(held) => held.overwrite(value, heap),
                None => Value::new(value, heap),
            };
            Slot::of(written)
        });
    }

    /// As [`Self::set`]. A value of 32 KiB or more shares memory with `value`; the next write to it copies it if
    /// somebody still has it.
    pub fn set_bytes(&mut self, store: TrieId<'_>, key: &[u8], value: &Bytes) {
        let id = self.find_or_insert(store, key);
        self.change(id, |slot, heap| {
            slot.free(heap);
            Slot::of(Value::of_bytes(value, heap))
        });
    }

    /// Deletes `key`; `false` if the overlay had it as deleted already, and nothing changed.
    ///
    /// A caller that removes keys of the parent state one by one counts the `true`s.
    pub fn remove(&mut self, store: TrieId<'_>, key: &[u8]) -> bool {
        let id = self.find_or_insert(store, key);
        let removed = self.entries.at(id).slot.fate() != Fate::Deleted;
        if removed {
            self.delete(id);
        }
        removed
    }

    /// Appends `element`, an encoded element, to the SCALE list that is the value of `key`.
    ///
    /// `parent` returns the value in the parent state and is only called if the overlay does not know the
    /// key. If there is no value, or one that does not start with a valid length, the value becomes the
    /// list of `element` alone. The elements of an existing list are not checked. A list has 2^32 - 1
    /// elements at most; with one more its length starts again at 0.
    ///
    /// Costs the copy of the element; the first append to a value set otherwise copies that value
    /// once.
    ///
    /// # Errors
    /// What `parent` returns. Nothing changes then.
    pub fn append<B: AsRef<[u8]>, E>(
        &mut self,
        store: TrieId<'_>,
        key: &[u8],
        element: &[u8],
        parent: impl FnOnce() -> Result<Option<B>, E>,
    ) -> Result<(), E> {
        match self.find(store, key) {
            Some(id) => self.append_to_known(id, element),
            None => {
                let list = parent()?;
                let list = list.as_ref().map_or(&[][..], AsRef::as_ref);
                let id = self.find_or_insert(store, key);
                self.replace_by_list(id, list, element);
            }
        }
        Ok(())
    }

    /// Deletes the keys with `prefix` that have a value in the overlay, and returns how many.
    ///
    /// With the empty prefix this is the overlay's part of killing a child store. Keys of the parent state
    /// stay: a caller that wants to delete them too calls [`Self::remove`] for each, up to its limit.
    ///
    /// Costs one search and the keys with `prefix`.
    pub fn clear_prefix(&mut self, store: TrieId<'_>, prefix: &[u8]) -> u32 {
        let Some(store) = self.stores.find(store) else {
            return 0;
        };
        if !self.stores.at(store).has_values() {
            return 0;
        }
        let entries = &self.entries;
        let ids = entries.ids_from(store, prefix, false);
        let cleared = ids
            .take_while(|id| entries.key(*id).starts_with(prefix))
            .filter(|id| entries.at(*id).slot.fate() == Fate::Written);
        let cleared: Vec<u32> = cleared.collect();
        cleared.iter().for_each(|id| self.delete(*id));
        u32::try_from(cleared.len()).unwrap_or(u32::MAX)
    }

    /// The first key after `key` that the overlay knows, with its value, or `None` for a value if
    /// it is deleted.
    ///
    /// The next key is the smaller of this one and the parent state's next key, unless the overlay has it
    /// as deleted.
    ///
    /// Costs one look-up if the overlay has a value or a deletion of `key`, otherwise one search.
    pub fn next_after(&self, store: TrieId<'_>, key: &[u8]) -> Option<Change<'_>> {
        let store = self.stores.find(store)?;
        let id = self.entries.id_behind(store, key)?;
        self.entries.change(id, &self.heap)
    }

    /// The keys that changed since the last snapshot, each once, by first change.
    ///
    /// For a reader that stores what it saw last of every key and that, on a rollback, drops what it
    /// learned in the transaction that is rolled back; for one that keeps it, see [`Reader`](crate::Reader).
    /// After a rollback of a transaction in which a snapshot was taken, two kinds of keys are dirty: those
    /// that were dirty at the start of the transaction, and those that were dirty at the snapshot, with what
    /// the overlay holds for them now, possibly [`Fate::Untouched`]. A key whose change no snapshot reported
    /// is not dirty after that change is rolled back. Nor is a key that was dirty because of an earlier rollback alone,
    /// if the reader was told of it again since, and no open transaction has changed it. So each of many transactions
    /// that are rolled back in a row costs the reader its own changes and those of the one before.
    pub fn dirty(&self) -> impl ExactSizeIterator<Item = Dirty<'_>> + '_ {
        self.log.dirty().iter().map(|&Mention { id, .. }| {
            let entry = self.entries.at(id);
            Dirty {
                trie: self.stores.id(entry.store),
                key: self.entries.key(id),
                index: entry.number,
                fate: entry.slot.fate(),
            }
        })
    }

    /// Marks all dirty keys as seen by the reader.
    pub fn snapshot(&mut self) {
        self.log.snapshot();
        if self.transactions.is_empty() {
            self.log.drop_seen(&mut self.entries);
        }
    }

    /// Makes all keys that the overlay knows dirty, for a reader that has seen none of them, as if no
    /// snapshot had been taken. Keys whose changes were rolled back become dirty, too, with
    /// [`Fate::Untouched`]. A later rollback of an open transaction leaves the keys that it restores dirty.
    ///
    /// Costs a pass over all keys and open transactions.
    pub fn forget_snapshots(&mut self) {
        let known = 0..self.entries.len();
        self.log.relist(known, &mut self.entries);
        let mark = self.log.mark();
        for transaction in &mut self.transactions {
            transaction.log_mark = mark;
        }
    }

    pub(crate) fn store(&self, store: TrieId<'_>) -> Option<&Store> {
        self.stores.find(store).map(|store| self.stores.at(store))
    }

    /// The entry of `key`, if it holds anything.
    #[inline]
    fn find(&self, store: TrieId<'_>, key: &[u8]) -> Option<u32> {
        let id = self.entries.find(self.stores.find(store)?, key)?;
        let holds = self.entries.at(id).slot.fate() != Fate::Untouched;
        holds.then_some(id)
    }

    #[inline(always)]
    fn find_or_insert(&mut self, store: TrieId<'_>, key: &[u8]) -> u32 {
        let store = self.stores.find_or_add(store);
        self.entries.find_or_insert(store, key)
    }

    /// Replaces what the entry holds by what `replace` returns, after the journal recorded it.
    #[inline(always)]
    fn change(&mut self, id: u32, replace: impl FnOnce(Slot, &mut Heap) -> Slot) {
        let Self {
            entries,
            stores,
            heap,
            journal,
            log,
            transactions,
            ..
        } = self;
        let entry = entries.at_mut(id);
        let before = entry.slot.fate();
        match transactions.last() {
            Some(transaction) => {
                journal.before_replacing(transaction.journal_start, id, entry, heap);
            }
            None => log.changes_for_good(),
        }
        entry.slot = replace(entry.slot, heap);
        log.note(id, entry);
        if entry.slot.fate() != before {
            note(stores, entries, id, before);
        }
        self.revision += 1;
    }

    fn delete(&mut self, id: u32) {
        self.change(id, |slot, heap| {
            slot.free(heap);
            Slot::DELETED
        });
    }

    fn replace_by_list(&mut self, id: u32, list: &[u8], element: &[u8]) {
        self.change(id, |slot, heap| {
            slot.free(heap);
            Slot::of(Value::new_list(list, element, heap))
        });
    }

    #[inline]
    fn append_to_known(&mut self, id: u32, element: &[u8]) {
        let entry = self.entries.at_mut(id);
        let list = entry.slot.value();
        let Some((mut list, mark)) = list.and_then(|list| list.open_list(&mut self.heap)) else {
            return self.replace_by_list(id, &[], element);
        };
        match self.transactions.last() {
            Some(transaction) => {
                self.journal
                    .before_appending(transaction.journal_start, id, entry, mark);
            }
            None => self.log.changes_for_good(),
        }
        list.append(element, mark, &mut self.heap);
        entry.slot = Slot::of(list);
        self.log.note(id, entry);
        self.revision += 1;
    }
}

impl Clone for Overlay {
    /// A copy that counts on from the revision of its original, and has the same hash seeds until it is reset.
    fn clone(&self) -> Self {
        let Self {
            entries,
            stores,
            heap,
            journal,
            log,
            transactions,
            host_transactions,
            revision,
        } = self;
        Self {
            entries: entries.clone(),
            stores: stores.clone(),
            heap: heap.clone(),
            journal: journal.clone(),
            log: log.clone(),
            transactions: transactions.clone(),
            host_transactions: *host_transactions,
            revision: *revision,
        }
    }

    /// Replaces the content by that of `source`. The revision becomes larger than both were.
    fn clone_from(&mut self, source: &Self) {
        let revision = self.revision.max(source.revision) + 1;
        *self = Self {
            revision,
            ..source.clone()
        };
    }
}

/// Not inlined, because most writes overwrite a value and do not need it.
#[inline(never)]
fn note(stores: &mut Stores, entries: &mut Entries, id: u32, before: Fate) {
    stores.note(entries, id, before);
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::TrieId::{Child, Top};

    fn assert_as_new(overlay: &Overlay) {
        let Overlay {
            entries,
            stores,
            heap,
            journal,
            log,
            transactions,
            host_transactions,
            revision: _,
        } = overlay;
        entries.assert_as_new();
        stores.assert_as_new();
        heap.assert_as_new();
        journal.assert_as_new();
        log.assert_as_new();
        assert!(transactions.is_empty());
        assert_eq!(*host_transactions, None);
    }

    /// Leaves an overlay unfinished: open transactions of the host and of the runtime, half of the log
    /// seen, freed values, lists, and child stores.
    fn unfinished(overlay: &mut Overlay) {
        for i in 0..300_u32 {
            let key = [&[7; 32][..], &i.to_le_bytes(), &i.to_be_bytes()].concat();
            overlay.set(Top, &key, &key);
            overlay.set(Child(&key[..33]), &key, &key[..i as usize % 32]);
        }
        overlay.snapshot();
        overlay.start_transaction();
        overlay.snapshot();
        overlay.set(Top, b"list", b"\x04x");
        overlay.enter_runtime().unwrap();
        for depth in 0..3_u32 {
            overlay.start_transaction();
            let nothing = || Ok::<Option<&[u8]>, ()>(None);
            overlay.append(Top, b"list", b"y", nothing).unwrap();
            overlay.set(Top, &depth.to_le_bytes(), &[1; 100]);
            overlay.set(Top, &depth.to_le_bytes(), &[2; 300]);
            for _ in 0..6 {
                overlay.next_after(Top, &[8]);
                overlay.next_after(Child(&[7; 33]), b"");
            }
            overlay.set(Top, &[9, 9, 1], b"waits");
        }
        assert!(overlay.depth() == 4 && overlay.dirty().len() > 1);
    }

    /// Checks each field, so that one that [`Overlay::reset`] leaves out is found.
    #[test]
    fn a_reset_overlay_is_as_new() {
        let mut overlay = Overlay::new();
        assert_as_new(&overlay);
        for _ in 0..3 {
            unfinished(&mut overlay);
            let revision = overlay.revision();
            overlay.reset();
            assert_as_new(&overlay);
            assert!(overlay.revision() > revision);
        }
    }

    /// An overlay of more keys and values than memory is kept for.
    #[test]
    fn a_large_overlay_keeps_little() {
        let mut overlay = Overlay::new();
        for i in 0..100_000_u32 {
            overlay.set(Top, &[&[1; 32][..], &i.to_le_bytes()].concat(), &[2; 200]);
        }
        let before = overlay.memory();
        overlay.reset();
        assert_as_new(&overlay);
        assert!(overlay.memory() < before.min(KEPT_VALUE_BYTES + 2 * KEPT_KEY_BYTES));
    }

    /// So an earlier block teaches an attacker nothing about the tables of the next.
    #[test]
    fn a_reset_overlay_has_new_seeds() {
        let mut overlay = Overlay::new();
        let key = [5; 80];
        let mut hashes = Vec::new();
        for _ in 0..3 {
            overlay.set(Top, &key, b"");
            overlay.set(Child(&key), &key, b"");
            hashes.push(overlay.entries.hash(&key));
            hashes.push(overlay.stores.hash(&key));
            overlay.reset();
        }
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), 6);
    }
}
