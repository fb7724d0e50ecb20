//! Reads of a transaction executed ahead that reach below its own changes.

use super::{Halt, Scratch, Speculation};
use crate::{
    executor::Executor,
    record::{NextRead, Seen},
    store::{KeyId, TooLong},
};
use povmeter::{NodeSource, TrieId};

/// Where the value of a key is that the overlay does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum At {
    Below,
    Computed,
    /// In the record, by the number of an earlier read.
    Known(u32),
    Nowhere,
}

/// The most steps of an execution ahead through its own updates, and through keys that it deleted itself. A read of an
/// updated key applies all updates of it again, and a next key looks at each deleted key, so a transaction that asks again
/// and again is left to its turn, where neither is so.
const MOST_OWN_STEPS: usize = 1 << 20;
/// How much a deleted key between two keys counts: up to 4,096 of them are looked at.
const STEPS_OF_QUESTION: usize = 256;

impl<P: NodeSource, E: Executor> Speculation<'_, '_, P, E> {
    /// Counts steps through the transaction's own changes.
    fn count_own_steps(&mut self, steps: usize) -> Result<(), Halt> {
        let counted = &mut self.scratch.own_steps;
        *counted = counted.saturating_add(steps);
        match *counted > MOST_OWN_STEPS {
            true => Err(Halt::InOrder),
            false => Ok(()),
        }
    }

    /// Finds the value of a key that the overlay does not hold, with the transaction's own updates. If `noted`, notes
    /// the read; otherwise a likely value is enough.
    pub(super) fn find(&mut self, trie: TrieId<'_>, key: &[u8], noted: bool) -> Result<At, Halt> {
        let asker = self.asker();
        let id = self.scratch.keys.number(trie, key);
        let updated = self.scratch.has_pending(id);
        let Scratch {
            record,
            first_reads,
            below,
            value,
            ..
        } = &mut *self.scratch;
        let known = match noted {
            true => first_reads.find(id),
            false => None,
        };
        if let Some(read) = known.filter(|_| !updated) {
            return Ok(At::Known(read));
        }
        let reads = record.reads.len();
        value.clear();
        let predicted = self.common.executor.predict(self.index, trie, key, value);
        let mut at = if predicted { At::Computed } else { At::Below };
        if predicted {
            if noted {
                record.push_predicted(id, value)?;
            }
        } else {
            below.find_of(asker, id, !noted)?;
            if noted {
                let (shared, of_parent) = (below.shared(), below.of_parent());
                let is_known = known.is_some_and(|read| record.known_value(read) == below.value());
                if !is_known {
                    record.push_value(id, below.value(), shared, of_parent)?;
                }
            }
        }
        if noted && known.is_none() && record.reads.len() > reads {
            first_reads.add_last(record, id);
        }
        if updated {
            if noted && !self.scratch.record.asks.is_empty() {
                // At the turn, the block would compare the value after it has applied the updates before the ask.
                return Err(Halt::InOrder);
            }
            self.count_own_steps(self.scratch.pending.len())?;
            at = self.fold_pending(id, at);
        }
        Ok(at)
    }

    /// Applies the transaction's own updates of `key` to the value below.
    fn fold_pending(&mut self, key: KeyId, at: At) -> At {
        let Scratch {
            pending,
            operands,
            below,
            value,
            other,
            ..
        } = &mut *self.scratch;
        let mut present = true;
        if at == At::Below {
            value.clear();
            present = below
                .value()
                .map(|found| value.extend_from_slice(found))
                .is_some();
        }
        for update in pending.iter().filter(|update| update.key == key) {
            let operand = update.operand.of(operands);
            update.kind.apply_to(&mut present, (value, other), operand);
        }
        if present {
            At::Computed
        } else {
            At::Nowhere
        }
    }

    pub(super) fn value_at(&self, at: At) -> Option<&[u8]> {
        match at {
            At::Below => self.scratch.below.value(),
            At::Computed => Some(&self.scratch.value),
            At::Known(read) => self.scratch.record.known_value(read),
            At::Nowhere => None,
        }
    }

    /// Returns the next key that the transaction itself changed, and whether it has a value.
    fn next_own(
        &mut self,
        trie: TrieId<'_>,
        after: &[u8],
    ) -> Result<Option<(Vec<u8>, bool)>, Halt> {
        self.count_own_steps(self.scratch.updated_count())?;
        let keys = &self.common.store.keys;
        let number = keys.trie_number(trie);
        let changed = self.scratch.overlay.next_after(trie, after);
        let changed = changed.map(|(key, value)| (key, Some(value.is_some())));
        let updated = self.scratch.updated_keys().map(|id| keys.key(id));
        let updated = updated
            .filter(|key| key.trie == number && *key.bytes > *after)
            .map(|key| (&key.bytes[..], None));
        // If a key was updated and later changed, the change counts.
        let next = updated.chain(changed).min_by(|one, other| {
            one.0
                .cmp(other.0)
                .then(other.1.is_some().cmp(&one.1.is_some()))
        });
        let Some((key, valued)) = next.map(|(key, valued)| (key.to_vec(), valued)) else {
            return Ok(None);
        };
        let valued = match valued {
            Some(valued) => valued,
            None => {
                let at = self.find(trie, &key, true)?;
                self.value_at(at).is_some()
            }
        };
        Ok(Some((key, valued)))
    }

    /// Returns the next key below the transaction, after `after` and before `before`, and notes the question.
    fn next_below(
        &mut self,
        trie: TrieId<'_>,
        after: &[u8],
        before: Option<&[u8]>,
    ) -> Result<Option<Vec<u8>>, Halt> {
        let asker = self.asker();
        let trie = asker.store.keys.trie_number(trie);
        let Scratch { record, below, .. } = &mut *self.scratch;
        let found = below.next_key(asker, trie, after, before)?;
        let after = record.copy(after)?;
        let before = before.map(|before| record.copy(before)).transpose()?;
        let noted = found
            .as_deref()
            .map(|found| record.copy(found))
            .transpose()?;
        let number = u32::try_from(record.nexts.len()).map_err(|_| TooLong)?;
        record.nexts.push(NextRead {
            trie,
            after,
            before,
            found: noted,
        });
        record.push(KeyId::NONE, Seen::Next(number));
        Ok(found)
    }

    pub(super) fn find_next(
        &mut self,
        trie: TrieId<'_>,
        key: &[u8],
    ) -> Result<Option<Vec<u8>>, Halt> {
        let mut after = key.to_vec();
        loop {
            let own = self.next_own(trie, &after)?;
            let before = own.as_ref().map(|(key, _)| key.as_slice());
            if let Some(found) = self.next_below(trie, &after, before)? {
                return Ok(Some(found));
            }
            match own {
                None => return Ok(None),
                Some((key, true)) => return Ok(Some(key)),
                // Each notes a question, and takes memory.
                Some((key, false)) => {
                    self.count_own_steps(STEPS_OF_QUESTION)?;
                    after = key;
                }
            }
        }
    }
}
