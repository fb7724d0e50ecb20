//! The naive model of an overlay: every transaction starts by copying everything.

use codec::{Compact, Decode, Encode};
use povmeter_overlay::{Fate, Reader, TrieId};
use std::collections::{BTreeMap, BTreeSet};

/// The child storage key, if it is a child's, and the key.
pub(crate) type FullKey = (Option<Vec<u8>>, Vec<u8>);

pub(crate) fn full(store: TrieId<'_>, key: &[u8]) -> FullKey {
    match store {
        TrieId::Top => (None, key.to_vec()),
        TrieId::Child(child) => (Some(child.to_vec()), key.to_vec()),
    }
}

#[derive(Clone, Default)]
pub(crate) struct Naive {
    pub(crate) changes: BTreeMap<FullKey, Option<Vec<u8>>>,
    pub(crate) dirty: BTreeSet<FullKey>,
    /// For each open transaction: the state at its start, and what snapshots taken in it reported.
    open: Vec<(Naive, BTreeSet<FullKey>)>,
    /// For each open transaction, what it changed.
    changed: Vec<BTreeSet<FullKey>>,
    host: Option<usize>,
    snapshots: u32,
}

impl Naive {
    pub(crate) fn set(&mut self, key: FullKey, value: Option<Vec<u8>>) {
        if self.changes.get(&key) != Some(&None) || value.is_some() {
            self.dirty.insert(key.clone());
            if let Some(changed) = self.changed.last_mut() {
                changed.insert(key.clone());
            }
        }
        self.changes.insert(key, value);
    }

    pub(crate) fn append(&mut self, key: FullKey, element: &[u8], parent: Option<Vec<u8>>) {
        let old = self
            .changes
            .get(&key)
            .cloned()
            .unwrap_or(parent)
            .unwrap_or_default();
        let mut elements = &old[..];
        let new = match Compact::<u32>::decode(&mut elements) {
            Ok(Compact(count)) => [
                &Compact(count.wrapping_add(1)).encode()[..],
                elements,
                element,
            ]
            .concat(),
            Err(_) => [&Compact(1_u32).encode()[..], element].concat(),
        };
        self.set(key, Some(new));
    }

    pub(crate) fn clear_prefix(&mut self, store: TrieId<'_>, prefix: &[u8]) -> u32 {
        let (store, _) = full(store, &[]);
        let matching = |key: &FullKey| key.0 == store && key.1.starts_with(prefix);
        let held = self
            .changes
            .iter()
            .filter(|(key, value)| matching(key) && value.is_some());
        let keys: Vec<FullKey> = held.map(|(key, _)| key.clone()).collect();
        let count = keys.len();
        keys.into_iter().for_each(|key| self.set(key, None));
        count.try_into().unwrap()
    }

    pub(crate) fn next_after(
        &self,
        store: TrieId<'_>,
        key: &[u8],
    ) -> Option<(&[u8], Option<&[u8]>)> {
        let (store, _) = full(store, &[]);
        let mut later = self
            .changes
            .iter()
            .filter(|((s, k), _)| *s == store && &k[..] > key);
        later
            .next()
            .map(|((_, key), value)| (&key[..], value.as_deref()))
    }

    pub(crate) fn fate(&self, key: &FullKey) -> Fate {
        match self.changes.get(key) {
            None => Fate::Untouched,
            Some(None) => Fate::Deleted,
            Some(Some(_)) => Fate::Written,
        }
    }

    /// Returns the keys that were dirty.
    pub(crate) fn snapshot(&mut self) -> BTreeSet<FullKey> {
        let told = std::mem::take(&mut self.dirty);
        self.snapshots += 1;
        self.open
            .iter_mut()
            .for_each(|(_, told_inside)| told_inside.extend(told.clone()));
        told
    }

    /// What the innermost open transaction changed, and the state at its start.
    pub(crate) fn changed_in_transaction(&self) -> Option<(&BTreeSet<FullKey>, &Naive)> {
        let (start, _) = self.open.last()?;
        Some((self.changed.last()?, start))
    }

    pub(crate) fn depth(&self) -> usize {
        self.open.len()
    }

    pub(crate) fn start(&mut self) {
        let now = Naive {
            open: vec![],
            ..self.clone()
        };
        self.open.push((now, BTreeSet::new()));
        self.changed.push(BTreeSet::new());
    }

    /// Closes the innermost transaction, and keeps its changes, or rolls them back for a reader. `false` if the call
    /// is not allowed now.
    pub(crate) fn close(&mut self, roll_back: Option<Reader>) -> bool {
        if self.open.len() <= self.host.unwrap_or(0) {
            return false;
        }
        let (start, told_inside) = self.open.pop().unwrap();
        let changed = self.changed.pop().unwrap();
        match roll_back {
            None => {
                if let Some(outer) = self.changed.last_mut() {
                    outer.extend(changed);
                }
                return true;
            }
            Some(Reader::Keeps) if self.snapshots > start.snapshots => self.dirty.extend(changed),
            Some(_) => {
                self.dirty = start.dirty;
                self.dirty.extend(told_inside);
            }
        }
        self.changes = start.changes;
        true
    }

    pub(crate) fn enter(&mut self) -> bool {
        let may = self.host.is_none();
        self.host = self.host.or(Some(self.open.len()));
        may
    }

    pub(crate) fn exit(&mut self, reader: Reader) -> Option<usize> {
        let left_open = self.open.len() - self.host?;
        (0..left_open).for_each(|_| assert!(self.close(Some(reader))));
        self.host = None;
        Some(left_open)
    }
}
