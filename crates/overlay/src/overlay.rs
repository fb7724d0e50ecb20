//! The overlay itself: reads and writes.

use crate::{
    dirty::{ChangeLog, Dirty, Fate},
    entries::{Entries, Entry},
    heap::Heap,
    journal::Journal,
    key_table::Near,
    slot::Slot,
    store::{Store, StoreId, Stores, TOP},
    transaction::Frame,
    value::Value,
    Change,
};
use alloc::vec::Vec;

/// What a block changed so far. See the [crate page](crate).
#[derive(Clone, Debug, Default)]
pub struct Overlay {
    pub(crate) entries: Entries,
    pub(crate) stores: Stores,
    pub(crate) heap: Heap,
    pub(crate) journal: Journal,
    pub(crate) log: ChangeLog,
    pub(crate) frames: Vec<Frame>,
    /// While the runtime is in control: how many transactions the host had open when it handed
    /// over.
    pub(crate) host_frames: Option<usize>,
    pub(crate) revision: u64,
}

/// What the overlay knows about a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup<'a> {
    /// Nothing; the parent state knows.
    Untouched,
    /// The key is deleted, whatever the parent state says.
    Deleted,
    /// The key has this value, whatever the parent state says.
    Value(&'a [u8]),
}

/// What [`Overlay::reset`] keeps memory for, at most.
const KEPT_KEYS: usize = 1 << 15;
const KEPT_KEY_BYTES: usize = 4 << 20;
const KEPT_VALUE_BYTES: usize = 16 << 20;
const KEPT_FRAMES: usize = 1 << 10;

impl Overlay {
    /// An overlay without changes, with the host in control and no transaction open. Allocates
    /// nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes the overlay as good as new, in whatever state it is, but keeps memory for the next block:
    /// as much as a block of some ten thousand changes needs.
    ///
    /// Costs a pass over the hash table, whose seeds are drawn anew.
    pub fn reset(&mut self) {
        let Self {
            entries,
            stores,
            heap,
            journal,
            log,
            frames,
            host_frames,
            revision,
        } = self;
        entries.reset(KEPT_KEYS, KEPT_KEY_BYTES);
        stores.reset(KEPT_KEYS, KEPT_KEY_BYTES);
        heap.reset(KEPT_VALUE_BYTES);
        journal.reset(KEPT_KEYS);
        log.reset(KEPT_KEYS);
        frames.clear();
        frames.shrink_to(KEPT_FRAMES);
        *host_frames = None;
        // On and on: what was tagged with a revision before must not be taken for the new content.
        *revision += 1;
    }

    /// Bytes of memory that the overlay holds for keys, values and transactions, used or not; without
    /// those of the order and of child stores.
    pub fn memory(&self) -> usize {
        let frames = self.frames.capacity() * size_of::<Frame>();
        self.entries.memory()
            + self.heap.memory()
            + self.journal.memory()
            + self.log.memory()
            + frames
    }

    /// What the overlay knows about `key`.
    ///
    /// Costs one look-up at any depth of transactions, and never allocates or copies.
    #[inline]
    pub fn get(&self, store: StoreId<'_>, key: &[u8]) -> Lookup<'_> {
        match store {
            StoreId::Top => self.get_in(TOP, key),
            StoreId::Child(_) => self.get_in_child(store, key),
        }
    }

    /// Calls nothing on the way, so that nothing has to be put aside for a call.
    #[inline(always)]
    fn get_in(&self, store: u32, key: &[u8]) -> Lookup<'_> {
        match self.entries.near(store, key) {
            Near::Nothing => Lookup::Untouched,
            Near::Likely(id) => self.entries.at(id).slot.lookup(&self.heap),
            Near::Unclear => self.get_on(store, key),
        }
    }

    #[inline(never)]
    fn get_in_child(&self, store: StoreId<'_>, key: &[u8]) -> Lookup<'_> {
        match self.stores.find(store) {
            Some(store) => self.get_in(store, key),
            None => Lookup::Untouched,
        }
    }

    #[cold]
    #[inline(never)]
    fn get_on(&self, store: u32, key: &[u8]) -> Lookup<'_> {
        match self.entries.find_on(store, key) {
            None => Lookup::Untouched,
            Some(id) => self.entries.at(id).slot.lookup(&self.heap),
        }
    }

    /// Whether no key has a value or a deletion.
    pub fn is_empty(&self) -> bool {
        let mut children = self.stores.children();
        !self.stores.top().is_touched() && !children.any(|(_, store)| store.is_touched())
    }

    /// Whether a key of `store` has a value or a deletion in the overlay.
    pub fn is_touched(&self, store: StoreId<'_>) -> bool {
        self.store(store).is_some_and(Store::is_touched)
    }

    /// Whether a key of `store` has a value in the overlay.
    pub fn has_values(&self, store: StoreId<'_>) -> bool {
        self.store(store).is_some_and(Store::has_values)
    }

    /// The child storage keys of the child stores with a value or a deletion in the overlay,
    /// sorted.
    ///
    /// A child store whose every change was rolled back is not among them, nor is one that was only
    /// cleared while the overlay had no key of it. (`sp-state-machine` lists the latter until the
    /// next rollback.)
    ///
    /// Costs the sorting.
    pub fn children(&self) -> impl ExactSizeIterator<Item = &[u8]> + '_ {
        let children = self.stores.children();
        let touched = children.filter(|(_, store)| store.is_touched());
        let mut keys: Vec<&[u8]> = touched.map(|(key, _)| key).collect();
        keys.sort_unstable();
        keys.into_iter()
    }

    /// The changes of `store` as they stand, sorted by key: `None` for a deletion.
    ///
    /// Costs a pass over the store and the sorting.
    pub fn changes(&self, store: StoreId<'_>) -> Vec<Change<'_>> {
        self.store(store)
            .map_or_else(Vec::new, |store| store.changes(&self.entries, &self.heap))
    }

    /// A number that goes up whenever the content changes, on rollbacks too.
    ///
    /// Two equal revisions of one overlay mean equal content, so results can be tagged with it.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Sets the value of `key`.
    ///
    /// Takes a slice and copies it into a buffer the overlay keeps. The host side of a runtime sees
    /// values as slices of the runtime's memory; a `Vec` would have to be allocated for every
    /// write, while a place of a value that is gone is mostly at hand.
    pub fn set(&mut self, store: StoreId<'_>, key: &[u8], value: &[u8]) {
        let id = self.find_or_insert(store, key);
        self.change(id, |slot, heap| {
            let written = match slot.value() {
                Some(held) => held.overwrite(value, heap),
                None => Value::new(value, heap),
            };
            Slot::of(written)
        });
    }

    /// Deletes `key`; `false` if the overlay had it as deleted already, and nothing changed.
    ///
    /// A caller that removes keys of the parent state one by one counts the `true`s.
    pub fn remove(&mut self, store: StoreId<'_>, key: &[u8]) -> bool {
        let id = self.find_or_insert(store, key);
        let removed = self.entries.at(id).slot.fate() != Fate::Deleted;
        if removed {
            self.delete(id);
        }
        removed
    }

    /// Appends `element`, an encoded element, to the SCALE list that is the value of `key`.
    ///
    /// `parent` gives the value in the parent state and is only called if the overlay does not know
    /// the key. Where there is no value, or one that is no list because it does not start with
    /// a valid length, the value becomes the list of `element` alone. The elements that are
    /// there are not checked. A list takes 2^32 - 1 elements at most; one more and its length
    /// starts again at 0.
    ///
    /// Costs the copy of the element; the first append to a value set otherwise copies that value
    /// once.
    ///
    /// # Errors
    /// What `parent` returns. Nothing changes then.
    pub fn append<B: AsRef<[u8]>, E>(
        &mut self,
        store: StoreId<'_>,
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

    /// How many keys with `prefix` had a value in the overlay; all of them are deleted now.
    ///
    /// With the empty prefix this is the overlay's part of killing a child store. Keys of the
    /// parent state stay: a caller that wants them gone walks them and calls [`Self::remove`]
    /// for each, up to its limit.
    ///
    /// Costs what matches, plus the sorting of the keys added since the last call that needed the
    /// order.
    pub fn clear_prefix(&mut self, store: StoreId<'_>, prefix: &[u8]) -> u32 {
        let Some(store) = self.stores.find(store) else {
            return 0;
        };
        if !self.stores.at(store).has_values() {
            return 0;
        }
        if self.stores.at_mut(store).order.make(&mut self.entries) {
            self.clear_ordered(store, prefix)
        } else {
            self.clear_unordered(store, prefix)
        }
    }

    /// The first key after `key` that the overlay knows, with its value, or `None` for a value if
    /// it is deleted.
    ///
    /// The parent state's next key is to be merged with it: the smaller of both is the next key,
    /// unless the overlay has it as deleted.
    ///
    /// Costs one search and the keys stepped over whose changes were rolled back, plus the sorting
    /// of the keys added since the last call that needed the order.
    pub fn next_after(&mut self, store: StoreId<'_>, key: &[u8]) -> Option<Change<'_>> {
        let store = self.stores.find(store)?;
        let (entries, order) = (&mut self.entries, &mut self.stores.at_mut(store).order);
        let id = if order.make(entries) {
            order
                .touched_from(order.find(key, false, entries), entries)?
                .0
        } else {
            let holds = |id: &u32| entries.at(*id).slot.fate() != Fate::Untouched;
            let later = |id: &u32| entries.key(*id) > key;
            let candidates = order.unordered(entries).filter(holds).filter(later);
            candidates.min_by_key(|&id| entries.key(id))?
        };
        self.entries.change(id, &self.heap)
    }

    /// The keys that changed since the last snapshot, each once, by first change.
    ///
    /// Made for a reader that keeps what it saw last of every key and that, on a rollback, forgets
    /// what it learned in the transaction rolled back. After a rollback of a transaction in
    /// which a snapshot was taken, the keys that were dirty at its start are dirty again, and
    /// so are the keys that the snapshot told of, as they are now: possibly
    /// [`Fate::Untouched`]. A key that changed and was never told of is not dirty after its change
    /// is rolled back.
    pub fn dirty(&self) -> impl ExactSizeIterator<Item = Dirty<'_>> + '_ {
        self.log.unseen().iter().map(|&id| {
            let entry = self.entries.at(id);
            Dirty {
                store: self.stores.id(entry.store),
                key: self.entries.key(id),
                index: entry.number,
                fate: entry.slot.fate(),
            }
        })
    }

    /// Declares that the reader has seen all dirty keys.
    pub fn snapshot(&mut self) {
        self.log.snapshot();
        if self.frames.is_empty() {
            self.log.drop_seen(&mut self.entries);
        }
    }

    pub(crate) fn store(&self, store: StoreId<'_>) -> Option<&Store> {
        self.stores.find(store).map(|store| self.stores.at(store))
    }

    /// The entry of `key`, if it holds anything.
    #[inline]
    fn find(&self, store: StoreId<'_>, key: &[u8]) -> Option<u32> {
        let id = self.entries.find(self.stores.find(store)?, key)?;
        let holds = self.entries.at(id).slot.fate() != Fate::Untouched;
        holds.then_some(id)
    }

    #[inline(always)]
    fn find_or_insert(&mut self, store: StoreId<'_>, key: &[u8]) -> u32 {
        let store = self.stores.find_or_make(store);
        self.entries.find_or_insert(store, key)
    }

    /// Lets `replace` replace what the entry holds, after what it held is safe.
    #[inline(always)]
    fn change(&mut self, id: u32, replace: impl FnOnce(Slot, &mut Heap) -> Slot) {
        let Self {
            entries,
            stores,
            heap,
            journal,
            log,
            frames,
            ..
        } = self;
        let entry = entries.at_mut(id);
        let before = entry.slot.fate();
        if let Some(frame) = frames.last() {
            journal.before_replacing(frame.journal, id, entry, heap);
        }
        entry.slot = replace(entry.slot, heap);
        if entry.slot.fate() != before {
            note(stores, id, entry, before);
        }
        log.note(id, entry);
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
        if let Some(frame) = self.frames.last() {
            self.journal
                .before_appending(frame.journal, id, entry, mark);
        }
        list.append(element, mark, &mut self.heap);
        entry.slot = Slot::of(list);
        self.log.note(id, entry);
        self.revision += 1;
    }

    fn clear_ordered(&mut self, store: u32, prefix: &[u8]) -> u32 {
        let mut cleared = 0_u32;
        let mut place = self
            .stores
            .at(store)
            .order
            .find(prefix, true, &self.entries);
        loop {
            let (entries, order) = (&mut self.entries, &mut self.stores.at_mut(store).order);
            let Some((id, at)) = order.touched_from(place, entries) else {
                return cleared;
            };
            if !entries.key(id).starts_with(prefix) {
                return cleared;
            }
            place = order.after(at);
            cleared += self.delete_if_written(id);
        }
    }

    fn clear_unordered(&mut self, store: u32, prefix: &[u8]) -> u32 {
        let entries = &self.entries;
        let ids = self.stores.at(store).order.unordered(entries);
        let written = |id: &u32| entries.at(*id).slot.fate() == Fate::Written;
        let cleared = ids
            .filter(written)
            .filter(|id| entries.key(*id).starts_with(prefix));
        let mut cleared: Vec<u32> = cleared.collect();
        cleared.sort_unstable_by(|&a, &b| entries.key(a).cmp(entries.key(b)));
        cleared
            .into_iter()
            .map(|id| self.delete_if_written(id))
            .sum()
    }

    /// How many keys that deleted.
    fn delete_if_written(&mut self, id: u32) -> u32 {
        let written = self.entries.at(id).slot.fate() == Fate::Written;
        if written {
            self.delete(id);
        }
        u32::from(written)
    }
}

/// Most writes overwrite.
#[inline(never)]
fn note(stores: &mut Stores, id: u32, entry: &mut Entry, before: Fate) {
    stores.at_mut(entry.store).note(id, entry, before);
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::StoreId::{Child, Top};

    fn assert_as_new(overlay: &Overlay) {
        let Overlay {
            entries,
            stores,
            heap,
            journal,
            log,
            frames,
            host_frames,
            revision: _,
        } = overlay;
        entries.assert_as_new();
        stores.assert_as_new();
        heap.assert_as_new();
        journal.assert_as_new();
        log.assert_as_new();
        assert!(frames.is_empty());
        assert_eq!(*host_frames, None);
    }

    /// Leaves an overlay in the middle of everything: transactions of the host and of the runtime, half
    /// of the log seen, keys in order and keys that wait to be, blocks freed, lists, children, and
    /// writes of a branch.
    fn unfinished(overlay: &mut Overlay) {
        for i in 0..300_u32 {
            let key = [&[7; 32][..], &i.to_le_bytes(), &i.to_be_bytes()].concat();
            overlay.set(Top, &key, &key);
            overlay.set(Child(&key[..33]), &key, &key[..i as usize % 32]);
        }
        overlay.with_branches(|base| {
            let mut branch = base.branch();
            branch.remove(Top, b"of a branch");
            branch.finish().into_iter().collect()
        });
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

    /// With each field: one that [`Overlay::reset`] forgot would show here.
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

    /// More than memory is kept for.
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

    /// What an earlier block chose by its keys tells nothing of the tables of the next.
    #[test]
    fn a_reset_overlay_has_seeds_of_its_own() {
        let mut overlay = Overlay::new();
        let key = [5; 80];
        let mut tags = Vec::new();
        for _ in 0..3 {
            overlay.set(Top, &key, b"");
            overlay.set(Child(&key), &key, b"");
            tags.push(overlay.entries.tag(&key));
            tags.push(overlay.stores.tag(&key));
            overlay.reset();
        }
        tags.sort_unstable();
        tags.dedup();
        assert_eq!(tags.len(), 6);
    }
}
