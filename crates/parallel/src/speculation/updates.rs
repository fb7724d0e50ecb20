//! Changes of a transaction executed ahead that are functions of the value below it, and its questions for the size.

use super::{Halt, Pending, Scratch, Speculation};
use crate::{
    executor::Executor,
    record::{Ask, Seen},
    store::{KeyId, Span, TooLong},
    sync::lock,
    update::{Kind, Rule},
};
use povmeter::{NodeSource, TrieId};
use povmeter_overlay::Lookup;
use std::mem::take;

/// The most steps of the answers to [`Speculation::tell`] together. Each answer holds the updates of its key before it,
/// so a transaction that asks again and again is left to its turn.
const MOST_STEPS: usize = 4096;

/// The most [steps](crate::store::WriteSet::steps) in the writes of all questions for the size but the last. Each question
/// holds all writes before it, so a transaction that asks again and again is left to its turn.
const MOST_ASKED: usize = 4096;

impl<P: NodeSource, E: Executor> Speculation<'_, '_, P, E> {
    /// Notes that a read of `key` counts, unless the record says so already.
    pub(super) fn note_counted(&mut self, key: KeyId) {
        let record = &mut self.scratch.record;
        if !record.has(key, |seen| !matches!(seen, Seen::Exists(_))) {
            record.push(key, Seen::Counted);
        }
    }

    /// Adds an update of a key that the overlay does not hold.
    pub(super) fn push_pending(
        &mut self,
        trie: TrieId<'_>,
        key: &[u8],
        kind: Kind,
        operand: &[u8],
    ) -> Result<(), Halt> {
        let id = self.scratch.keys.number(trie, key);
        self.note_counted(id);
        let operand = Span::push(&mut self.scratch.operands, operand).ok_or(TooLong)?;
        self.scratch.push_pending(Pending {
            key: id,
            kind,
            operand,
        });
        Ok(())
    }

    /// Returns whether the rule changes the value of a key that the overlay does not hold, and notes the answer.
    pub(super) fn tell(
        &mut self,
        trie: TrieId<'_>,
        key: &[u8],
        (rule, operand): (Rule, &[u8]),
    ) -> Result<bool, Halt> {
        let id = self.scratch.keys.number(trie, key);
        let at = self.find(trie, key, false)?;
        let mut other = take(&mut self.scratch.other);
        other.clear();
        let changes = rule(self.value_at(at), operand, &mut other);
        let Scratch {
            record,
            pending,
            operands,
            ..
        } = &mut *self.scratch;
        let asked = record.asks.last().map_or(0, |ask| ask.updates as usize);
        let own = pending.iter().skip(asked).filter(|update| update.key == id);
        let steps = own.map(|update| (update.kind, update.operand.of(operands)));
        let steps = record.push_told(id, steps.chain([(Kind::Rule(rule), operand)]), changes)?;
        self.scratch.other = other;
        match steps > MOST_STEPS {
            true => Err(Halt::InOrder),
            false => Ok(changes),
        }
    }

    pub(super) fn update_own(&mut self, trie: TrieId<'_>, key: &[u8], rule: (Rule, &[u8])) -> bool {
        let Scratch { overlay, other, .. } = &mut *self.scratch;
        other.clear();
        let current = match overlay.get(trie, key) {
            Lookup::Value(value) => Some(value),
            Lookup::Deleted | Lookup::Untouched => None,
        };
        let (rule, operand) = rule;
        let updated = rule(current, operand, other);
        if updated {
            overlay.set(trie, key, other);
        }
        updated
    }

    /// Answers whether the size is at most `bytes`, by the last known size, and notes the question.
    pub(super) fn ask(&mut self, bytes: u64) -> Result<bool, Halt> {
        if !self.scratch.open.is_empty() {
            return Err(Halt::InOrder);
        }
        let writes = self.writes()?;
        let holds = lock(self.common.last_size).total_bytes() <= bytes;
        let Scratch {
            record, pending, ..
        } = &mut *self.scratch;
        let repeated = record.push_ask(Ask {
            writes,
            updates: u32::try_from(pending.len()).map_err(|_| TooLong)?,
            holds,
            bytes,
        })?;
        match repeated > MOST_ASKED {
            true => Err(Halt::InOrder),
            false => Ok(holds),
        }
    }
}
