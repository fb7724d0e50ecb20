//! The multi-version store alone.

use crate::{
    store::{MultiVersion, Nearest, WriteSetBuilder},
    sync::{lock, Mutex},
};
use povmeter::TrieId;
use std::sync::Arc;

/// The store in which [`Parallel`](crate::Parallel) keeps the writes of a block's transactions, alone: for
/// measurements, and for other schedulers. Any thread may call it, but only one at a time may publish or mark the writes
/// of one position; of two that publish at once, readers may find neither. Each key that is read or written takes memory
/// until the store is dropped.
///
/// ```
/// use povmeter_parallel::{VersionRead, VersionStore};
/// use povmeter::TrieId::Top;
///
/// let store = VersionStore::new(3);
/// store.publish(0, [(Top, &b"alice"[..], Some(&b"10"[..]))])?;
/// store.publish(2, [(Top, &b"alice"[..], None)])?;
/// let read = |position| store.read(position, Top, b"alice", |value| value.map(<[u8]>::to_vec));
/// assert_eq!(read(0), VersionRead::Parent);
/// assert_eq!(read(2), VersionRead::Written(0, Some(b"10".to_vec())));
/// assert_eq!(read(3), VersionRead::Written(2, None));
/// # Ok::<(), povmeter_parallel::WritesTooLong>(())
/// ```
#[derive(Debug)]
pub struct VersionStore {
    store: MultiVersion,
    /// Memory in which later calls collect writes.
    builders: Mutex<Vec<WriteSetBuilder>>,
}

/// The answer of [`VersionStore::read`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VersionRead<T> {
    /// No transaction below the position writes the key.
    Parent,
    /// The transaction at this position writes the key. Holds what `look` returned for the value.
    Written(u32, T),
    /// The transaction at this position will likely write the key.
    Estimate(u32),
}

/// The values of up to 256 bytes of a transaction take 4 GiB or more together, which a [`VersionStore`] does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected short values of less than 4 GiB together, found more")]
#[non_exhaustive]
pub struct WritesTooLong {}

impl VersionStore {
    /// Returns a store for transactions at the positions `0..positions`.
    pub fn new(positions: u32) -> Self {
        Self {
            store: MultiVersion::new(positions),
            builders: Mutex::new(Vec::new()),
        }
    }

    /// Replaces the writes of the transaction at `position`: keys, each once, with their values, or `None` for a
    /// deletion. Returns whether they differ from the writes before.
    ///
    /// # Errors
    /// [`WritesTooLong`] if the values of up to 256 bytes take 4 GiB or more. Then the writes before stay.
    ///
    /// # Panics
    /// If there is no such position.
    pub fn publish<'w>(
        &self,
        position: u32,
        writes: impl IntoIterator<Item = (TrieId<'w>, &'w [u8], Option<&'w [u8]>)>,
    ) -> Result<bool, WritesTooLong> {
        let mut builder = lock(&self.builders).pop().unwrap_or_default();
        builder.clear();
        for (trie, key, value) in writes {
            let key = self.store.keys.number(trie, key);
            builder.write(key, value).map_err(|_| WritesTooLong {})?;
        }
        let writes = Arc::new(builder.finish());
        lock(&self.builders).push(builder);
        Ok(self.store.publish(position, writes).changed)
    }

    /// Marks the writes of the transaction at `position` as an estimate, until it publishes again.
    ///
    /// # Panics
    /// If there is no such position.
    pub fn mark_estimate(&self, position: u32) {
        self.store.mark_estimate(position);
    }

    /// Calls `look` with the value of `key` that the nearest transaction below `position` writes; with `None` for a
    /// deletion.
    pub fn read<T>(
        &self,
        position: u32,
        trie: TrieId<'_>,
        key: &[u8],
        look: impl FnOnce(Option<&[u8]>) -> T,
    ) -> VersionRead<T> {
        match self
            .store
            .nearest(position, self.store.keys.number(trie, key))
        {
            Nearest::Parent => VersionRead::Parent,
            Nearest::Estimate(writer) => VersionRead::Estimate(writer),
            // This store is never given updates.
            Nearest::Written(writer, writes, content) => {
                VersionRead::Written(writer, look(writes.value(content)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use povmeter::TrieId::{Child, Top};
    use rand::{rngs::SmallRng, Rng, SeedableRng};
    use std::collections::BTreeMap;

    /// Publishing, publishing again, deleting and estimating, compared with one tree per position.
    #[test]
    fn reads_are_those_of_a_tree_per_position() {
        const POSITIONS: u32 = 200;
        const ROUNDS: u32 = if cfg!(miri) { 300 } else { 3_000 };
        let mut rng = SmallRng::seed_from_u64(7);
        let store = VersionStore::new(POSITIONS);
        type Writes = BTreeMap<(bool, u8), Option<Vec<u8>>>;
        let mut model: Vec<(bool, Writes)> = vec![Default::default(); POSITIONS as usize];
        for _ in 0..ROUNDS {
            let position = rng.random_range(0..POSITIONS);
            let (estimate, written) = &mut model[position as usize];
            if rng.random_bool(0.2) {
                store.mark_estimate(position);
                *estimate = true;
            } else {
                let writes: Writes = (0..rng.random_range(0..8))
                    .map(|_| {
                        let value = rng
                            .random_bool(0.8)
                            .then(|| vec![1; rng.random_range(0..3)]);
                        ((rng.random(), rng.random_range(0..6)), value)
                    })
                    .collect();
                let trie = |child: bool| if child { Child(b"child") } else { Top };
                let keys: Vec<_> = writes
                    .keys()
                    .map(|(child, key)| (trie(*child), [*key]))
                    .collect();
                let listed = keys.iter().zip(writes.values());
                let listed = listed.map(|((trie, key), value)| (*trie, &key[..], value.as_deref()));
                assert_eq!(store.publish(position, listed), Ok(writes != *written));
                *written = writes;
                *estimate = false;
            }
            let (child, key, below) = (
                rng.random(),
                rng.random_range(0..6),
                rng.random_range(0..=POSITIONS),
            );
            let nearest = (0..below).rev().find_map(|position| {
                let (estimate, writes) = &model[position as usize];
                let value = writes.get(&(child, key))?;
                Some(match estimate {
                    true => VersionRead::Estimate(position),
                    false => VersionRead::Written(position, value.clone()),
                })
            });
            let trie = if child { Child(b"child") } else { Top };
            let found = store.read(below, trie, &[key], |value| value.map(<[u8]>::to_vec));
            assert_eq!(found, nearest.unwrap_or(VersionRead::Parent));
        }
    }
}
