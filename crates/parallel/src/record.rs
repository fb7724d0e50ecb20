//! The questions that an execution ahead asked, and the answers that it got.

use crate::{
    store::{same_bytes, KeyId, Span, TooLong, TrieNumber, WriteSet, LARGE_BYTES},
    update::Kind,
};
use bytes::Bytes;

/// The questions of one execution to the state below the transaction, in order. At its turn, the execution is right
/// if the block gives the same answers.
#[derive(Debug, Default)]
pub(crate) struct Record {
    pub(crate) reads: Vec<Read>,
    pub(crate) nexts: Vec<NextRead>,
    pub(crate) asks: Vec<Ask>,
    /// Entries of the writes of all asks.
    asked: usize,
    tolds: Vec<Told>,
    steps: Vec<(Kind, Span)>,
    large: Vec<Bytes>,
    bytes: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Read {
    pub(crate) key: KeyId,
    pub(crate) seen: Seen,
    /// Whether the answer is that of the parent state, because no transaction below had written the key.
    pub(crate) of_parent: bool,
}

/// The answer that the transaction got.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Seen {
    /// There is no value.
    Absent,
    /// The value.
    Value(Span),
    /// The value that the executor predicted.
    Predicted(Span),
    /// A large value, in shared memory.
    Large(u32),
    /// Whether there is a value.
    Exists(bool),
    /// No answer: the transaction changed the value by an update, or read a likely value. The read counts all the
    /// same.
    Counted,
    /// The next key, by its number among [`Record::nexts`].
    Next(u32),
    /// Whether an update changed the value, by its number in the record.
    Told(u32),
    /// A bound of the proof size, by its number among [`Record::asks`].
    Ask(u32),
}

/// A question for the first key of a trie after `after` and before `before`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NextRead {
    pub(crate) trie: TrieNumber,
    pub(crate) after: Span,
    pub(crate) before: Option<Span>,
    pub(crate) found: Option<Span>,
}

/// A question in the middle of the transaction whether the proof size is within a bound.
#[derive(Debug)]
pub(crate) struct Ask {
    /// The writes of the transaction before the question.
    pub(crate) writes: WriteSet,
    /// The number of its updates before the question.
    pub(crate) updates: u32,
    /// Whether the size was at most `bytes`.
    pub(crate) holds: bool,
    pub(crate) bytes: u64,
}

/// The answer to the question whether an update changes the value.
#[derive(Clone, Copy, Debug)]
struct Told {
    /// Its steps: the transaction's own updates of the key since the last [`Ask`], and the update in question.
    first: u32,
    count: u32,
    changed: bool,
}

/// How many of the last reads are searched for an equal one.
const LOOKED_THROUGH: usize = 24;

impl Record {
    pub(crate) fn clear(&mut self) {
        let Self {
            reads,
            nexts,
            asks,
            asked,
            tolds,
            steps,
            large,
            bytes,
        } = self;
        reads.clear();
        nexts.clear();
        asks.clear();
        *asked = 0;
        tolds.clear();
        steps.clear();
        large.clear();
        bytes.clear();
    }

    /// Whether one of the last reads is of `key` and satisfies `is`.
    pub(crate) fn has(&self, key: KeyId, is: impl Fn(Seen) -> bool) -> bool {
        let last = self.reads.iter().rev().take(LOOKED_THROUGH);
        last.into_iter()
            .any(|read| read.key == key && is(read.seen))
    }

    pub(crate) fn push(&mut self, key: KeyId, seen: Seen) {
        self.push_of(key, seen, false);
    }

    /// As [`Self::push`]. `of_parent` tells whether the answer is that of the parent state.
    pub(crate) fn push_of(&mut self, key: KeyId, seen: Seen, of_parent: bool) {
        self.reads.push(Read {
            key,
            seen,
            of_parent,
        });
    }

    /// Returns the value that read `number` saw.
    pub(crate) fn known_value(&self, number: u32) -> Option<&[u8]> {
        self.value(self.reads[number as usize].seen)?
    }

    /// Notes that the value of `key` was read. A large value is copied unless it is `shared`.
    ///
    /// A second read with another answer is noted too. Such a record is right for no state.
    pub(crate) fn push_value(
        &mut self,
        key: KeyId,
        value: Option<&[u8]>,
        shared: Option<&Bytes>,
        of_parent: bool,
    ) -> Result<(), TooLong> {
        if self.has(key, |seen| self.is(seen, value)) {
            return Ok(());
        }
        let seen = match (value, shared) {
            (None, _) => Seen::Absent,
            (Some(value), Some(shared)) if value.len() > LARGE_BYTES => {
                let number = u32::try_from(self.large.len()).map_err(|_| TooLong)?;
                self.large.push(shared.clone());
                Seen::Large(number)
            }
            (Some(value), _) => Seen::Value(self.copy(value)?),
        };
        self.push_of(key, seen, of_parent);
        Ok(())
    }

    /// Returns the large value that read `number` saw, if it equals `value`.
    pub(crate) fn shared(&self, number: u32, value: &[u8]) -> Option<&Bytes> {
        match self.reads[number as usize].seen {
            Seen::Large(number) => {
                let large = &self.large[number as usize];
                same_bytes(large, value).then_some(large)
            }
            _ => None,
        }
    }

    /// Notes a question for the size. Returns how much the writes of the questions before it have: entries, updates, and
    /// 256 bytes of values each.
    pub(crate) fn push_ask(&mut self, ask: Ask) -> Result<usize, TooLong> {
        let number = u32::try_from(self.asks.len()).map_err(|_| TooLong)?;
        let before = self.asked;
        self.asked += ask.writes.steps();
        self.asks.push(ask);
        self.push(KeyId::NONE, Seen::Ask(number));
        Ok(before)
    }

    /// Notes that the value of `key` was read as the executor predicted it.
    pub(crate) fn push_predicted(&mut self, key: KeyId, value: &[u8]) -> Result<(), TooLong> {
        if !self.has(key, |seen| self.is(seen, Some(value))) {
            let seen = Seen::Predicted(self.copy(value)?);
            self.push(key, seen);
        }
        Ok(())
    }

    /// Notes the answer to the question whether the last of `steps`, which apply to the value of `key` one after the
    /// other, has `changed` the value. Returns how many steps there are in the record.
    pub(crate) fn push_told<'o>(
        &mut self,
        key: KeyId,
        steps: impl Iterator<Item = (Kind, &'o [u8])>,
        changed: bool,
    ) -> Result<usize, TooLong> {
        let first = self.steps.len();
        for (kind, operand) in steps {
            let operand = self.copy(operand)?;
            self.steps.push((kind, operand));
        }
        let number = u32::try_from(self.tolds.len()).map_err(|_| TooLong)?;
        self.tolds.push(Told {
            first: u32::try_from(first).map_err(|_| TooLong)?,
            count: u32::try_from(self.steps.len() - first).map_err(|_| TooLong)?,
            changed,
        });
        self.push(key, Seen::Told(number));
        Ok(self.steps.len())
    }

    /// Whether answer `number` is right if the value below is `current`.
    pub(crate) fn is_told_right(&self, number: u32, current: Option<&[u8]>) -> bool {
        let told = self.tolds[number as usize];
        let mut value = current.unwrap_or_default().to_vec();
        let (mut present, mut spare, mut changed) = (current.is_some(), Vec::new(), false);
        let first = told.first as usize;
        for (kind, operand) in &self.steps[first..first + told.count as usize] {
            let memory = (&mut value, &mut spare);
            changed = kind.apply_to(&mut present, memory, self.bytes(*operand));
        }
        changed == told.changed
    }

    /// Copies `bytes` into the record.
    pub(crate) fn copy(&mut self, bytes: &[u8]) -> Result<Span, TooLong> {
        Span::push(&mut self.bytes, bytes).ok_or(TooLong)
    }

    pub(crate) fn bytes(&self, span: Span) -> &[u8] {
        span.of(&self.bytes)
    }

    /// Returns the value that a read of a value saw, or `None` for other reads.
    pub(crate) fn value(&self, seen: Seen) -> Option<Option<&[u8]>> {
        match seen {
            Seen::Absent => Some(None),
            Seen::Value(span) | Seen::Predicted(span) => Some(Some(self.bytes(span))),
            Seen::Large(number) => Some(Some(&self.large[number as usize])),
            Seen::Exists(_) | Seen::Counted | Seen::Next(_) | Seen::Told(_) | Seen::Ask(_) => None,
        }
    }

    /// Whether a read of a value saw `value`.
    pub(crate) fn is(&self, seen: Seen, value: Option<&[u8]>) -> bool {
        match (self.value(seen), value) {
            (Some(Some(seen)), Some(value)) => same_bytes(seen, value),
            (seen, value) => seen == Some(value),
        }
    }
}
