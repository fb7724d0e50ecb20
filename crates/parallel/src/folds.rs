//! The last computed values of keys with updates, so that each update is applied once and not again for each
//! transaction above it.
//!
//! ```text
//! value(key, base, chain):     chain: the write sets whose updates are applied, from the lowest up
//!     the last value of key has the same base, and its chain is the beginning of this chain:
//!         apply the rest of the chain to that value
//!     else apply the whole chain to the base
//! ```
//! Write sets are compared by address. A fold keeps its write sets alive, so that no other write set gets such an
//! address.

use crate::store::{KeyId, WriteSet};
use std::sync::Arc;

/// The base of a chain of updates: where the value below them comes from.
#[derive(Clone, Debug)]
pub(crate) enum Base {
    /// The parent state.
    Parent,
    /// The value of the key in this write set.
    Written(Arc<WriteSet>),
    /// Nothing: the key was deleted.
    Deleted,
}

impl Base {
    fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Parent, Self::Parent) | (Self::Deleted, Self::Deleted) => true,
            (Self::Written(writes), Self::Written(other)) => Arc::ptr_eq(writes, other),
            _ => false,
        }
    }
}

/// A part of a chain: the updates `first..first + count` of a write set.
pub(crate) type Link = (Arc<WriteSet>, u32, u32);

/// See the top of the file. Each thread has its own.
#[derive(Debug, Default)]
pub(crate) struct Folds {
    folds: Vec<Fold>,
    /// The fold that was replaced last; the next one follows it.
    oldest: usize,
    spare: Vec<u8>,
}

#[derive(Debug)]
struct Fold {
    key: KeyId,
    base: Base,
    chain: Vec<Arc<WriteSet>>,
    value: Vec<u8>,
    present: bool,
}

/// The most folds that are kept. Few keys are updated by all transactions of a block.
const KEPT: usize = 16;
/// Longer values are not kept: they are lists, which are rarely read again.
const KEPT_BYTES: usize = 1024;

impl Folds {
    /// Returns the value of `key`: applies the updates of `chain`, whose highest link is first, to `value`, the value
    /// of `base`.
    pub(crate) fn value(
        &mut self,
        key: KeyId,
        base: &Base,
        value: Option<&[u8]>,
        chain: &[Link],
    ) -> Option<&[u8]> {
        let at = self.place_of(key);
        let Self { folds, spare, .. } = self;
        let fold = &mut folds[at];
        let from_below = || chain.iter().rev();
        let mut known = fold.chain.iter().zip(from_below());
        let goes_on = fold.key == key
            && fold.base.is(base)
            && fold.chain.len() <= chain.len()
            && known.all(|(known, (writes, ..))| Arc::ptr_eq(known, writes));
        if !goes_on {
            fold.key = key;
            fold.base = base.clone();
            fold.chain.clear();
            fold.value.clear();
            fold.value.extend_from_slice(value.unwrap_or_default());
            fold.present = value.is_some();
        }
        for (writes, first, count) in from_below().skip(fold.chain.len()) {
            for update in writes.updates(*first, *count) {
                let operand = writes.bytes(update.operand);
                let memory = (&mut fold.value, &mut *spare);
                update.kind.apply_to(&mut fold.present, memory, operand);
            }
            fold.chain.push(writes.clone());
        }
        if fold.value.len() > KEPT_BYTES {
            // Assigned to no key, so that the next value is computed from its base. This releases the write sets.
            fold.key = KeyId::NONE;
            fold.chain.clear();
        }
        fold.present.then_some(fold.value.as_slice())
    }

    /// Returns the place of the fold of `key`; else that of a fold without a key; else one that may be replaced.
    fn place_of(&mut self, key: KeyId) -> usize {
        let place_of = |key| self.folds.iter().position(|fold| fold.key == key);
        if let Some(place) = place_of(key).or_else(|| place_of(KeyId::NONE)) {
            return place;
        }
        if self.folds.len() < KEPT {
            self.folds.push(Fold {
                key: KeyId::NONE,
                base: Base::Deleted,
                chain: Vec::new(),
                value: Vec::new(),
                present: false,
            });
            return self.folds.len() - 1;
        }
        self.oldest = (self.oldest + 1) % KEPT;
        self.oldest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        store::{Content, Keys, WriteSetBuilder},
        update::Kind,
    };
    use povmeter::TrieId::Top;
    use rand::{rngs::SmallRng, Rng, SeedableRng};

    /// Appends the operand. Refuses if the value is long, unless the operand is above 250.
    fn add(current: Option<&[u8]>, operand: &[u8], new: &mut Vec<u8>) -> bool {
        let current = current.unwrap_or_default();
        new.extend_from_slice(current);
        new.extend_from_slice(operand);
        current.len() < 12 || operand[0] > 250
    }

    fn link(key: KeyId, operands: &[u8]) -> Link {
        let mut writes = WriteSetBuilder::default();
        for (operand, number) in operands.iter().zip(0..) {
            writes
                .update(key, Kind::Rule(add), &[*operand], number)
                .unwrap();
        }
        let writes = writes.finish();
        match writes.find(key) {
            Some(Content::Updated { first, count }) => (Arc::new(writes), first, count),
            other => panic!("{other:?}"),
        }
    }

    /// Chains grow, lose links, change in the middle, and get another base, for more keys than are kept.
    #[test]
    fn a_value_is_that_of_all_its_updates() {
        let mut rng = SmallRng::seed_from_u64(3);
        let keys = Keys::default();
        let ids: Vec<_> = (0..KEPT + 4)
            .map(|key| keys.number(Top, &key.to_le_bytes()))
            .collect();
        let mut chains: Vec<(Base, Option<Vec<u8>>, Vec<Link>)> =
            vec![(Base::Parent, Some(vec![7]), Vec::new()); ids.len()];
        let (mut folds, mut spare) = (Folds::default(), Vec::new());
        let rounds = if cfg!(miri) { 500 } else { 50_000_usize };
        for round in 0..rounds {
            // Some keys are asked for again and again.
            let most = if round.is_multiple_of(3) {
                ids.len()
            } else {
                4
            };
            let at = rng.random_range(0..most);
            let (key, (base, value, chain)) = (ids[at], &mut chains[at]);
            let operands: Vec<u8> = (0..rng.random_range(1..4)).map(|_| rng.random()).collect();
            match rng.random_range(0..12) {
                0 if !chain.is_empty() => _ = chain.remove(rng.random_range(0..chain.len())),
                1 if !chain.is_empty() => {
                    let changed = rng.random_range(0..chain.len());
                    chain[changed] = link(key, &operands);
                }
                2 => (*base, *value) = (Base::Deleted, None),
                3 => {
                    *value = Some(operands.clone());
                    *base = Base::Written(Arc::default());
                }
                4 => chain.clear(),
                5 => {}
                _ => chain.insert(0, link(key, &operands)),
            }
            let mut present = value.is_some();
            let mut expected = value.clone().unwrap_or_default();
            for (writes, first, count) in chain.iter().rev() {
                for update in writes.updates(*first, *count) {
                    let operand = writes.bytes(update.operand);
                    let memory = (&mut expected, &mut spare);
                    update.kind.apply_to(&mut present, memory, operand);
                }
            }
            let found = folds.value(key, base, value.as_deref(), chain);
            assert_eq!(found, present.then_some(expected.as_slice()), "{round}");
        }
    }

    /// A long value is computed again each time, and replaces no other fold.
    #[test]
    fn a_long_value_is_not_kept() {
        let keys = Keys::default();
        let [short, long] = [b"short", b"long "].map(|key| keys.number(Top, key));
        let mut folds = Folds::default();
        let value = vec![3; 2 * KEPT_BYTES];
        let (of_short, of_long) = ([link(short, &[9])], [link(long, &[251])]);
        for _ in 0..2 * KEPT {
            let found = folds.value(short, &Base::Parent, None, &of_short);
            assert_eq!(found, Some(&[9][..]));
            let found = folds.value(long, &Base::Parent, Some(&value), &of_long);
            assert_eq!(found.map(<[u8]>::len), Some(value.len() + 1));
        }
        assert_eq!(folds.folds.len(), 2);
        assert_eq!(Arc::strong_count(&of_short[0].0), 2);
        assert_eq!(Arc::strong_count(&of_long[0].0), 1);
    }

    #[test]
    fn each_update_is_applied_once() {
        use std::cell::Cell;
        thread_local!(static APPLIED: Cell<u32> = const { Cell::new(0) });
        fn count(_: Option<&[u8]>, _: &[u8], new: &mut Vec<u8>) -> bool {
            APPLIED.set(APPLIED.get() + 1);
            new.push(1);
            true
        }
        let keys = Keys::default();
        let key = keys.number(Top, b"key");
        let (mut folds, mut chain) = (Folds::default(), Vec::new());
        for _ in 0..20 {
            let mut writes = WriteSetBuilder::default();
            writes.update(key, Kind::Rule(count), &[], 0).unwrap();
            chain.insert(0, (Arc::new(writes.finish()), 0, 1));
            for _ in 0..2 {
                assert!(folds.value(key, &Base::Parent, None, &chain).is_some());
            }
        }
        assert_eq!(APPLIED.get(), 20);
    }
}
