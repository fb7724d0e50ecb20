//! The places of keys in an overlay.

use crate::{overlay::Overlay, Lookup};
use povmeter_primitives::TrieId;

/// Where an overlay has a key: the same until the overlay is reset. Keys have places in the order of their first change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyPlace(u32);

/// A key that an open transaction has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangedInTransaction {
    /// Where the overlay has the key.
    pub place: KeyPlace,
    /// Whether the transaction did nothing to it but append to a list that the overlay had before.
    pub only_appended: bool,
}

impl Overlay {
    /// The keys that the innermost open transaction has changed so far, each once, by first change; none if no
    /// transaction is open. Nested transactions that are committed count, those rolled back do not.
    ///
    /// For a caller that keeps a list of changes, because it costs no look-up of a key.
    pub fn changed_in_transaction(&self) -> impl Iterator<Item = ChangedInTransaction> + '_ {
        let start = match self.transactions.last() {
            Some(transaction) => transaction.journal_start,
            None => self.journal.len(),
        };
        let changed = self.journal.changed_from(start);
        changed.map(|(id, only_appended)| ChangedInTransaction {
            place: KeyPlace(id),
            only_appended,
        })
    }

    /// The places of all keys, also of those whose changes were rolled back.
    pub fn places(&self) -> impl ExactSizeIterator<Item = KeyPlace> {
        (0..self.entries.len()).map(KeyPlace)
    }

    /// The key at `place`, its trie, and what the overlay knows about it; `None` if the overlay has no such place.
    ///
    /// Costs no look-up.
    pub fn at(&self, place: KeyPlace) -> Option<(TrieId<'_>, &[u8], Lookup<'_>)> {
        if place.0 >= self.entries.len() {
            return None;
        }
        let entry = self.entries.at(place.0);
        let lookup = entry.slot.lookup(&self.heap);
        Some((
            self.stores.id(entry.store),
            self.entries.key(place.0),
            lookup,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TrieId::{Child, Top};
    use alloc::vec::Vec;

    fn changed(overlay: &Overlay) -> Vec<(TrieId<'_>, &[u8], Lookup<'_>, bool)> {
        let changed = overlay.changed_in_transaction();
        let found = changed.filter_map(|changed| {
            let (trie, key, lookup) = overlay.at(changed.place)?;
            Some((trie, key, lookup, changed.only_appended))
        });
        found.collect()
    }

    fn append(overlay: &mut Overlay, element: u8) {
        let parent = || Ok::<Option<&[u8]>, core::convert::Infallible>(None);
        let appended = overlay.append(Top, b"list", &[element], parent);
        appended.unwrap_or_else(|never| match never {});
    }

    #[test]
    fn a_transaction_knows_what_it_changed() -> Result<(), crate::TransactionError> {
        let mut overlay = Overlay::new();
        overlay.set(Top, b"before", b"1");
        append(&mut overlay, 1);
        assert_eq!(changed(&overlay), []);
        overlay.start_transaction();
        overlay.set(Child(b"child"), b"key", b"2");
        overlay.set(Child(b"child"), b"key", b"3");
        append(&mut overlay, 2);
        overlay.start_transaction();
        overlay.remove(Top, b"before");
        let deleted = (Top, &b"before"[..], Lookup::Deleted, false);
        assert_eq!(changed(&overlay), [deleted]);
        overlay.commit_transaction()?;
        overlay.start_transaction();
        overlay.set(Top, b"rolled back", b"4");
        append(&mut overlay, 3);
        overlay.rollback_transaction()?;
        let key = (Child(b"child"), &b"key"[..], Lookup::Value(b"3"), false);
        let list = |value, only| (Top, &b"list"[..], Lookup::Value(value), only);
        assert_eq!(changed(&overlay), [key, list(&[8, 1, 2], true), deleted]);
        // Replaced, and so no longer only appended to.
        overlay.set(Top, b"list", &[4, 9]);
        append(&mut overlay, 4);
        let appended = list(&[8, 9, 4], false);
        assert_eq!(changed(&overlay), [key, appended, deleted]);
        overlay.commit_transaction()?;
        assert_eq!(changed(&overlay), []);

        let all: Vec<_> = overlay
            .places()
            .filter_map(|place| overlay.at(place))
            .collect();
        let keys: Vec<_> = all.iter().map(|(_, key, _)| *key).collect();
        assert_eq!(keys, [&b"before"[..], b"list", b"key", b"rolled back"]);
        assert_eq!(all[3].2, Lookup::Untouched);
        assert_eq!(Overlay::new().at(KeyPlace(0)), None);
        Ok(())
    }
}
