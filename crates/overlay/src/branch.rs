//! Branches of an overlay: what is tried out on top of it and may never be kept.

use crate::{
    dirty::Fate, overlay::Overlay, store::StoreId, transaction::TransactionError, Change, Lookup,
};
use alloc::vec::Vec;
use core::marker::PhantomData;

/// Makes `'b` the name of one [`Overlay::with_branches`] call: it can be neither longer nor shorter.
type Brand<'b> = PhantomData<fn(&'b ()) -> &'b ()>;

/// An overlay while branches of it exist. It can be copied, and shared between threads.
#[derive(Clone, Copy, Debug)]
pub struct Base<'b> {
    overlay: &'b Overlay,
    brand: Brand<'b>,
}

/// Changes on top of a [`Base`], which are nobody's as long as they are not kept.
///
/// A branch makes nothing when it is made: its first write makes a store, and a child store is there
/// from its own first write on. Reads of what it did not write are those of the base.
#[derive(Clone, Debug)]
pub struct Branch<'b> {
    base: Base<'b>,
    own: Overlay,
}

/// The writes of a branch, to be handed back to the overlay that it is a branch of.
#[derive(Debug)]
pub struct Writes<'b> {
    own: Overlay,
    brand: Brand<'b>,
}

impl Overlay {
    /// Lets `work` make branches of this overlay, and keeps the writes that it returns, one after the
    /// other, as if they had been made here.
    ///
    /// That is the only way for a branch to be kept: all of it, child stores included, by the overlay
    /// that it is a branch of. Which branches are worth keeping is for `work` to decide; the others
    /// leave no trace.
    ///
    /// ```
    /// use povmeter_overlay::{Lookup, Overlay, StoreId::Top};
    ///
    /// let mut overlay = Overlay::new();
    /// overlay.set(Top, b"alice", b"10");
    /// overlay.with_branches(|base| {
    ///     let (mut paid, mut refused) = (base.branch(), base.branch());
    ///     paid.set(Top, b"alice", b"7");
    ///     refused.remove(Top, b"alice");
    ///     assert_eq!(base.overlay().get(Top, b"alice"), Lookup::Value(b"10"));
    ///     paid.finish().into_iter().collect()
    /// });
    /// assert_eq!(overlay.get(Top, b"alice"), Lookup::Value(b"7"));
    /// ```
    ///
    /// Another overlay does not take them:
    /// ```compile_fail
    /// # use povmeter_overlay::Overlay;
    /// let (mut overlay, mut other) = (Overlay::new(), Overlay::new());
    /// overlay.with_branches(|base| {
    ///     let writes = base.branch().finish();
    ///     other.with_branches(|_| writes.into_iter().collect());
    ///     Vec::new()
    /// });
    /// ```
    ///
    /// Costs the writes kept.
    pub fn with_branches(&mut self, work: impl for<'b> FnOnce(Base<'b>) -> Vec<Writes<'b>>) {
        let base = Base {
            overlay: self,
            brand: PhantomData,
        };
        let kept: Vec<Overlay> = work(base).into_iter().map(|writes| writes.own).collect();
        kept.iter().for_each(|writes| self.take_over(writes));
    }

    /// Makes the changes of `other` here, in the order of its first writes.
    fn take_over(&mut self, other: &Self) {
        for id in other.entries.ids() {
            let entry = other.entries.at(id);
            let (store, key) = (other.stores.id(entry.store), other.entries.key(id));
            match entry.slot.lookup(&other.heap) {
                Lookup::Untouched => {}
                Lookup::Deleted => {
                    self.remove(store, key);
                }
                Lookup::Value(value) => self.set(store, key, value),
            }
        }
    }
}

impl<'b> Base<'b> {
    /// A new branch. Allocates nothing.
    pub fn branch(self) -> Branch<'b> {
        Branch {
            base: self,
            own: Overlay::new(),
        }
    }

    /// The overlay that the branches are on top of.
    pub fn overlay(self) -> &'b Overlay {
        self.overlay
    }
}

impl<'b> Branch<'b> {
    /// What the branch, or else the overlay below it, knows about `key`. Costs as [`Overlay::get`],
    /// twice for a key that the branch has not written.
    pub fn get(&self, store: StoreId<'_>, key: &[u8]) -> Lookup<'_> {
        match self.own.get(store, key) {
            Lookup::Untouched => self.base.overlay.get(store, key),
            known => known,
        }
    }

    /// As [`Overlay::set`].
    pub fn set(&mut self, store: StoreId<'_>, key: &[u8], value: &[u8]) {
        self.own.set(store, key, value);
    }

    /// As [`Overlay::remove`].
    pub fn remove(&mut self, store: StoreId<'_>, key: &[u8]) -> bool {
        self.get(store, key) != Lookup::Deleted && self.own.remove(store, key)
    }

    /// As [`Overlay::append`]. Costs a copy of a list that the overlay below has.
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
        let below = self.base.overlay.get(store, key);
        self.own.append(store, key, element, || match below {
            Lookup::Value(list) => Ok(Some(List::Below(list))),
            Lookup::Deleted => Ok(None),
            Lookup::Untouched => Ok(parent()?.map(List::OfParent)),
        })
    }

    /// As [`Overlay::clear_prefix`]. Costs a look at every key of the store in the overlay below as
    /// long as their order is not known there.
    pub fn clear_prefix(&mut self, store: StoreId<'_>, prefix: &[u8]) -> u32 {
        let below = self.base.overlay;
        let mut cleared = 0_u32;
        for id in below.written_with_prefix(store, prefix) {
            let key = below.entries.key(id);
            if self.own.get(store, key) == Lookup::Untouched && self.own.remove(store, key) {
                cleared = cleared.saturating_add(1);
            }
        }
        cleared.saturating_add(self.own.clear_prefix(store, prefix))
    }

    /// As [`Overlay::next_after`]. Costs a look at every key of the store in the overlay below as
    /// long as their order is not known there.
    pub fn next_after(&mut self, store: StoreId<'_>, key: &[u8]) -> Option<Change<'_>> {
        let below = self.base.overlay.peek_next(store, key);
        let own = self.own.next_after(store, key);
        match (own, below) {
            // The branch knows better of a key that both have.
            (Some(own), Some(below)) if own.0 > below.0 => Some(below),
            (own, below) => own.or(below),
        }
    }

    /// The child storage keys of the child stores with a value or a deletion, sorted: those that the
    /// branch wrote, and those of the overlay below that it did not touch.
    pub fn children(&self) -> impl ExactSizeIterator<Item = &[u8]> + '_ {
        let mut keys: Vec<&[u8]> = self.base.overlay.children().collect();
        keys.extend(self.own.children());
        keys.sort_unstable();
        keys.dedup();
        keys.into_iter()
    }

    /// Opens a transaction of the branch.
    pub fn start_transaction(&mut self) {
        self.own.start_transaction();
    }

    /// Closes the innermost transaction of the branch and keeps its changes, in the branch.
    ///
    /// # Errors
    /// [`TransactionError::NoneOpen`]. The transactions of the overlay below are not the branch's.
    pub fn commit_transaction(&mut self) -> Result<(), TransactionError> {
        self.own.commit_transaction()
    }

    /// Closes the innermost transaction of the branch and takes its changes back.
    ///
    /// # Errors
    /// As [`Self::commit_transaction`].
    pub fn rollback_transaction(&mut self) -> Result<(), TransactionError> {
        self.own.rollback_transaction()
    }

    /// What the branch itself wrote.
    pub fn own(&self) -> &Overlay {
        &self.own
    }

    /// The writes of the branch, for [`Overlay::with_branches`] to keep.
    ///
    /// # Errors
    /// [`TransactionError::StillOpen`] if a transaction of the branch is open.
    pub fn finish(self) -> Result<Writes<'b>, TransactionError> {
        match self.own.depth() {
            0 => Ok(Writes {
                own: self.own,
                brand: PhantomData,
            }),
            open => Err(TransactionError::StillOpen { open }),
        }
    }
}

/// A list to append to: of the overlay below, or of the parent state.
enum List<'a, B> {
    Below(&'a [u8]),
    OfParent(B),
}

impl<B: AsRef<[u8]>> AsRef<[u8]> for List<'_, B> {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Below(list) => list,
            Self::OfParent(list) => list.as_ref(),
        }
    }
}

/// The order without putting anything into it: what several branches may ask for at once.
impl Overlay {
    fn peek_next(&self, store: StoreId<'_>, key: &[u8]) -> Option<Change<'_>> {
        let order = &self.store(store)?.order;
        let later = |id: &u32| self.entries.key(*id) > key;
        let holds = |id: &u32| self.entries.at(*id).slot.fate() != Fate::Untouched;
        let ordered = order
            .from(order.find(key, false, &self.entries))
            .find(holds);
        let waiting = order.unordered(&self.entries).filter(holds).filter(later);
        let id = waiting
            .chain(ordered)
            .min_by_key(|&id| self.entries.key(id))?;
        self.entries.change(id, &self.heap)
    }

    /// In key order.
    fn written_with_prefix(&self, store: StoreId<'_>, prefix: &[u8]) -> Vec<u32> {
        let Some(store) = self.store(store) else {
            return Vec::new();
        };
        let order = &store.order;
        let has_prefix = |id: &u32| self.entries.key(*id).starts_with(prefix);
        let start = order.find(prefix, true, &self.entries);
        let ordered = order.from(start).take_while(has_prefix);
        let waiting = order.unordered(&self.entries).filter(has_prefix);
        let written = |id: &u32| self.entries.at(*id).slot.fate() == Fate::Written;
        let mut ids: Vec<u32> = ordered.chain(waiting).filter(written).collect();
        ids.sort_unstable_by(|&a, &b| self.entries.key(a).cmp(self.entries.key(b)));
        ids
    }
}
