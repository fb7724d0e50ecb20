//! The overlay itself: reads and writes.

use crate::{
    dirty::{ChangeLog, Dirty, Fate},
    journal::Journal,
    key_table::KeyTable,
    spare::Spare,
    store::{Entry, EntryId, Slot, Store, StoreId},
    transaction::Frame,
    value::Value,
    Change,
};
use alloc::vec::Vec;
use core::mem;

/// What a block changed so far. See the [crate page](crate).
#[derive(Clone, Debug)]
pub struct Overlay {
    /// The top store, then the child stores in the order of their first write. They stay when all
    /// of their changes are rolled back, so that ids stay valid.
    pub(crate) stores: Vec<Store>,
    /// Child storage key to index in `stores`.
    children: KeyTable,
    pub(crate) journal: Journal,
    pub(crate) log: ChangeLog,
    pub(crate) frames: Vec<Frame>,
    /// While the runtime is in control: how many transactions the host had open when it handed
    /// over.
    pub(crate) host_frames: Option<usize>,
    pub(crate) spare: Spare,
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

const TOP: usize = 0;

impl Default for Overlay {
    fn default() -> Self {
        Self::new()
    }
}

impl Overlay {
    /// An overlay without changes, with the host in control and no transaction open.
    pub fn new() -> Self {
        Self {
            stores: Vec::from([Store::default()]),
            children: KeyTable::default(),
            journal: Journal::default(),
            log: ChangeLog::default(),
            frames: Vec::new(),
            host_frames: None,
            spare: Spare::default(),
            revision: 0,
        }
    }

    /// What the overlay knows about `key`.
    ///
    /// Costs one hash and one probe at any depth of transactions, and never allocates or copies.
    #[inline]
    pub fn get(&self, store: StoreId<'_>, key: &[u8]) -> Lookup<'_> {
        match self.find_store(store) {
            Some(at) => self.stores[at].get(key),
            None => Lookup::Untouched,
        }
    }

    /// Whether no key has a value or a deletion.
    pub fn is_empty(&self) -> bool {
        !self.stores.iter().any(Store::is_touched)
    }

    /// Whether a key of `store` has a value or a deletion in the overlay.
    pub fn is_touched(&self, store: StoreId<'_>) -> bool {
        self.find_store(store)
            .is_some_and(|at| self.stores[at].is_touched())
    }

    /// Whether a key of `store` has a value in the overlay.
    pub fn has_values(&self, store: StoreId<'_>) -> bool {
        self.find_store(store)
            .is_some_and(|at| self.stores[at].has_values())
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
        let children = self
            .stores
            .iter()
            .skip(1)
            .filter(|store| store.is_touched());
        let mut keys: Vec<&[u8]> = children.map(|store| &*store.key).collect();
        keys.sort_unstable();
        keys.into_iter()
    }

    /// The changes of `store` as they stand, sorted by key: `None` for a deletion.
    ///
    /// Costs a pass over the store and the sorting.
    pub fn changes(&self, store: StoreId<'_>) -> Vec<Change<'_>> {
        self.find_store(store)
            .map_or_else(Vec::new, |at| self.stores[at].changes())
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
    /// write, while a buffer of a value that is gone is mostly at hand.
    pub fn set(&mut self, store: StoreId<'_>, key: &[u8], value: &[u8]) {
        let id = self.find_or_insert(store, key);
        self.replace_value(id, |slot| slot.write(value));
    }

    /// Deletes `key`; `false` if the overlay had it as deleted already, and nothing changed.
    ///
    /// A caller that removes keys of the parent state one by one counts the `true`s.
    pub fn remove(&mut self, store: StoreId<'_>, key: &[u8]) -> bool {
        let id = self.find_or_insert(store, key);
        let removed = self.stores[id.store].entry(id.entry).slot.fate() != Fate::Deleted;
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
                self.replace_value(id, |slot| slot.write_list(list, element));
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
        let Some(store) = self.find_store(store) else {
            return 0;
        };
        let mut cleared = 0_u32;
        for entry in self.stores[store].valued_with_prefix(prefix) {
            self.delete(EntryId { store, entry });
            cleared = cleared.saturating_add(1);
        }
        cleared
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
        let at = self.find_store(store)?;
        self.stores[at].next_after(key)
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
        self.log.unseen().iter().map(|id| {
            let store = &self.stores[id.store];
            let Entry { key, slot, .. } = store.entry(id.entry);
            let store = if id.store == TOP {
                StoreId::Top
            } else {
                StoreId::Child(&store.key)
            };
            Dirty {
                store,
                key,
                // Four billion keys do not fit into memory.
                index: u32::try_from(id.entry).unwrap_or(u32::MAX),
                fate: slot.fate(),
            }
        })
    }

    /// Declares that the reader has seen all dirty keys.
    pub fn snapshot(&mut self) {
        self.log.snapshot();
        if self.frames.is_empty() {
            self.log.drop_seen(&mut self.stores);
        }
    }

    #[inline]
    fn find_store(&self, store: StoreId<'_>) -> Option<usize> {
        match store {
            StoreId::Top => Some(TOP),
            StoreId::Child(key) => self.children.find(key, |at| &self.stores[at].key),
        }
    }

    /// The entry of `key`, if it holds anything.
    fn find(&self, store: StoreId<'_>, key: &[u8]) -> Option<EntryId> {
        let store = self.find_store(store)?;
        let entry = self.stores[store].find(key)?;
        let holds = self.stores[store].entry(entry).slot.fate() != Fate::Untouched;
        holds.then_some(EntryId { store, entry })
    }

    fn find_or_insert(&mut self, store: StoreId<'_>, key: &[u8]) -> EntryId {
        let store = match store {
            StoreId::Top => TOP,
            StoreId::Child(child) => {
                let stores = &self.stores;
                let at = self
                    .children
                    .find_or_insert(child, stores.len(), |at| &stores[at].key);
                if at == self.stores.len() {
                    self.stores.push(Store::new(child));
                }
                at
            }
        };
        EntryId {
            store,
            entry: self.stores[store].find_or_insert(key),
        }
    }

    /// Replaces what the entry holds by the value that `write` writes over another.
    fn replace_value(&mut self, id: EntryId, write: impl FnOnce(&mut Value)) {
        self.change(id, |entry, spare| {
            let mut value = match mem::take(&mut entry.slot) {
                Slot::Value(value) => value,
                Slot::Untouched | Slot::Deleted => spare.take(),
            };
            write(&mut value);
            entry.slot = Slot::Value(value);
        });
    }

    fn delete(&mut self, id: EntryId) {
        self.change(id, |entry, spare| {
            if let Slot::Value(value) = mem::replace(&mut entry.slot, Slot::Deleted) {
                spare.give(value);
            }
        });
    }

    /// Lets `replace` replace what the entry holds, after what it held is safe.
    #[inline]
    fn change(&mut self, id: EntryId, replace: impl FnOnce(&mut Entry, &mut Spare)) {
        let Self {
            stores,
            journal,
            log,
            frames,
            spare,
            ..
        } = self;
        stores[id.store].change_entry(id.entry, |entry| {
            if let Some(frame) = frames.last() {
                journal.before_replacing(frame.journal, id, entry);
            }
            replace(entry, spare);
            log.note(id, entry);
        });
        self.revision += 1;
    }

    fn append_to_known(&mut self, id: EntryId, element: &[u8]) {
        let entry = self.stores[id.store].entry_mut(id.entry);
        let mark = match &mut entry.slot {
            Slot::Value(value) => value.open_list(),
            Slot::Untouched | Slot::Deleted => None,
        };
        let Some(mark) = mark else {
            return self.replace_value(id, |slot| slot.write_list(&[], element));
        };
        if let Some(frame) = self.frames.last() {
            self.journal
                .before_appending(frame.journal, id, entry, mark);
        }
        if let Slot::Value(list) = &mut entry.slot {
            list.append(element, mark);
        }
        self.log.note(id, entry);
        self.revision += 1;
    }
}
