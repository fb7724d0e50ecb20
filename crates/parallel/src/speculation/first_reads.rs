//! The keys whose values a transaction executed ahead has read already.

use super::scratch::KEPT_KEYS;
use crate::{record::Record, store::KeyId};
use hashbrown::HashTable;

/// The first read of each value, as its number in the record.
#[derive(Debug, Default)]
pub(super) struct FirstReads(HashTable<(KeyId, u32)>);

impl FirstReads {
    pub(super) fn clear(&mut self) {
        if self.0.capacity() > KEPT_KEYS {
            self.0 = HashTable::new();
        } else {
            self.0.clear();
        }
    }

    /// Returns the number in the record of the first read of the value of `key`, if it was read.
    pub(super) fn find(&self, key: KeyId) -> Option<u32> {
        let found = self.0.find(key.hash(), |(other, _)| *other == key)?;
        Some(found.1)
    }

    /// Notes the last read of `record` as the first read of the value of `key`.
    pub(super) fn add_last(&mut self, record: &Record, key: KeyId) {
        let last = record.reads.len().checked_sub(1);
        if let Some(read) = last.and_then(|last| u32::try_from(last).ok()) {
            self.0
                .insert_unique(key.hash(), (key, read), |(key, _)| key.hash());
        }
    }
}
