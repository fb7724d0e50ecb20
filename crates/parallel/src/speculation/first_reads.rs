//! Which keys a transaction executed ahead has read already.

use crate::{
    record::Record,
    store::{HashedKey, KeyId, Keys},
};
use hashbrown::HashTable;
use povmeter_primitives::ShortHash;

/// The first read of each value, as its number in the record, by the hash of its key.
#[derive(Debug, Default)]
pub(super) struct FirstReads(HashTable<(ShortHash, u32)>);

impl FirstReads {
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// The number in `record` of the first read of the value of `key`, and that of the key, if it was read.
    pub(super) fn find(
        &self,
        record: &Record,
        keys: &Keys,
        key: HashedKey<'_>,
    ) -> Option<(u32, KeyId)> {
        let id = |read: u32| record.reads[read as usize].key;
        let same =
            |(hash, read): &(ShortHash, u32)| *hash == key.hash && keys.key(id(*read)).is(key);
        let (_, read) = self.0.find(key.hash.spread(), same)?;
        Some((*read, id(*read)))
    }

    /// The last read of `record` is the first one of the value of `key`.
    pub(super) fn add_last(&mut self, record: &Record, key: HashedKey<'_>) {
        let last = record.reads.len().checked_sub(1);
        if let Some(read) = last.and_then(|last| u32::try_from(last).ok()) {
            self.0
                .insert_unique(key.hash.spread(), (key.hash, read), |(hash, _)| {
                    hash.spread()
                });
        }
    }
}
