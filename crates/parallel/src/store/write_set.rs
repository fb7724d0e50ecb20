//! The writes of one transaction.

use super::keys::KeyId;
use crate::update::Kind;
use bytes::Bytes;
use smallvec::SmallVec;
use std::{cmp::Ordering, ops::Range};

/// A range of a buffer of less than 4 GiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    at: u32,
    len: u32,
}

impl Span {
    /// Appends `bytes` to `buffer`, and returns their range. `None` if the buffer would get too long.
    pub(crate) fn push(buffer: &mut Vec<u8>, bytes: &[u8]) -> Option<Self> {
        let at = u32::try_from(buffer.len()).ok()?;
        let len = u32::try_from(bytes.len()).ok()?;
        at.checked_add(len)?;
        buffer.extend_from_slice(bytes);
        Some(Self { at, len })
    }

    /// Returns the bytes in `buffer`, the one that [`Self::push`] appended to.
    pub(crate) fn of(self, buffer: &[u8]) -> &[u8] {
        &buffer[self.range()]
    }

    fn range(self) -> Range<usize> {
        let at = self.at as usize;
        at..at + self.len as usize
    }
}

/// What a transaction does to a key.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Content {
    Value(Span),
    /// A value of more than [`LARGE_BYTES`], by its number among the large values of the set.
    Large(u32),
    Deleted,
    /// The updates `first..first + count` of the set.
    Updated {
        first: u32,
        count: u32,
    },
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) key: KeyId,
    pub(crate) content: Content,
}

/// A change of a key that is a function of the value below.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Update {
    pub(crate) key: KeyId,
    pub(crate) kind: Kind,
    pub(crate) operand: Span,
    /// The number among the updates of the transaction.
    pub(crate) number: u32,
}

/// Longer values have memory of their own, which is shared and not copied: with records of reads, with transactions
/// that write the value again, and with the block.
pub(crate) const LARGE_BYTES: usize = 256;

/// Whether both are equal. If they share memory, no bytes are compared.
pub(crate) fn same_bytes(one: &[u8], other: &[u8]) -> bool {
    std::ptr::eq(one, other) || one == other
}

/// Values of up to this many bytes together need no allocation of their own: a nonce and two balances, or three
/// balances.
const FEW_BYTES: usize = 48;

/// The writes of one execution of one transaction, sorted by key.
#[derive(Debug, Default)]
pub(crate) struct WriteSet {
    entries: SmallVec<[Entry; 4]>,
    bytes: SmallVec<[u8; FEW_BYTES]>,
    more: Option<Box<More>>,
}

/// The parts that few write sets have.
#[derive(Debug)]
struct More {
    updates: Vec<Update>,
    large: Vec<Bytes>,
}

static NOTHING_MORE: More = More {
    updates: Vec::new(),
    large: Vec::new(),
};

impl WriteSet {
    /// Returns the content of `key`, if the transaction writes the key.
    pub(crate) fn find(&self, key: KeyId) -> Option<Content> {
        let at = self.entries.binary_search_by_key(&key, |entry| entry.key);
        at.ok().map(|at| self.entries[at].content)
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// How much it has: entries, updates, and pieces of 256 bytes of values that it does not share.
    pub(crate) fn steps(&self) -> usize {
        let More { updates, large } = self.more();
        let large = large.iter().map(Bytes::len).sum::<usize>();
        self.entries.len() + updates.len() + (self.bytes.len().saturating_add(large)) / LARGE_BYTES
    }

    /// Returns the updates `first..first + count`.
    pub(crate) fn updates(&self, first: u32, count: u32) -> &[Update] {
        let first = first as usize;
        &self.more().updates[first..first + count as usize]
    }

    fn more(&self) -> &More {
        self.more.as_deref().unwrap_or(&NOTHING_MORE)
    }

    /// Returns the value of `content`; `None` for a deletion and for updates.
    pub(crate) fn value(&self, content: Content) -> Option<&[u8]> {
        match content {
            Content::Value(span) => Some(self.bytes(span)),
            Content::Large(number) => Some(self.large(number)),
            Content::Deleted | Content::Updated { .. } => None,
        }
    }

    /// Returns the large value `number`.
    pub(crate) fn large(&self, number: u32) -> &Bytes {
        &self.more().large[number as usize]
    }

    pub(crate) fn bytes(&self, span: Span) -> &[u8] {
        span.of(&self.bytes)
    }

    /// Whether both contents have the same effect on a key.
    fn same(&self, content: Content, other: &Self, others: Content) -> bool {
        match (content, others) {
            (Content::Deleted, Content::Deleted) => true,
            // Rules have no identity to compare.
            _ => match (self.value(content), other.value(others)) {
                (Some(value), Some(other)) => same_bytes(value, other),
                _ => false,
            },
        }
    }

    /// Calls `look` with each key on which the two sets have different effects, and with the sets that write it.
    pub(crate) fn compare(&self, other: &Self, mut look: impl FnMut(KeyId, Presence)) {
        let (mut ours, mut theirs) = (
            self.entries.iter().peekable(),
            other.entries.iter().peekable(),
        );
        loop {
            let order = match (ours.peek(), theirs.peek()) {
                (None, None) => return,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(our), Some(their)) => our.key.cmp(&their.key),
            };
            let our = if order.is_le() { ours.next() } else { None };
            let their = if order.is_ge() { theirs.next() } else { None };
            match (our, their) {
                (Some(our), Some(their)) if self.same(our.content, other, their.content) => {}
                (Some(our), Some(_)) => look(our.key, Presence::Both),
                (Some(our), None) => look(our.key, Presence::Ours),
                (None, Some(their)) => look(their.key, Presence::Theirs),
                (None, None) => return,
            }
        }
    }
}

/// Which of two write sets have a key on which their effects differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    Ours,
    Theirs,
    Both,
}

/// Collects a [`WriteSet`], and reuses its memory for the next one.
#[derive(Debug, Default)]
pub(crate) struct WriteSetBuilder {
    entries: Vec<Entry>,
    updates: Vec<Update>,
    bytes: Vec<u8>,
    large: Vec<Bytes>,
}

/// A write set or a record is too long: 4 GiB of values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TooLong;

impl WriteSetBuilder {
    /// Adds a value, or a deletion. Each key may be added once.
    pub(crate) fn write(&mut self, key: KeyId, value: Option<&[u8]>) -> Result<(), TooLong> {
        let content = match value {
            Some(value) if value.len() > LARGE_BYTES => {
                return self.write_large(key, Bytes::copy_from_slice(value));
            }
            Some(value) => Content::Value(Span::push(&mut self.bytes, value).ok_or(TooLong)?),
            None => Content::Deleted,
        };
        self.entries.push(Entry { key, content });
        Ok(())
    }

    /// As [`Self::write`], of a value of more than [`LARGE_BYTES`].
    pub(crate) fn write_large(&mut self, key: KeyId, value: Bytes) -> Result<(), TooLong> {
        let number = u32::try_from(self.large.len()).map_err(|_| TooLong)?;
        self.large.push(value);
        let content = Content::Large(number);
        self.entries.push(Entry { key, content });
        Ok(())
    }

    /// Adds an update, after the earlier ones of the same key.
    pub(crate) fn update(
        &mut self,
        key: KeyId,
        kind: Kind,
        operand: &[u8],
        number: u32,
    ) -> Result<(), TooLong> {
        let operand = Span::push(&mut self.bytes, operand).ok_or(TooLong)?;
        self.updates.push(Update {
            key,
            kind,
            operand,
            number,
        });
        Ok(())
    }

    /// Returns the writes that were added, and empties the builder. Allocates for values of more than [`FEW_BYTES`]
    /// together, for many keys, for updates, and for large values.
    pub(crate) fn finish(&mut self) -> WriteSet {
        // A stable sort, so that the updates of a key keep their order.
        self.updates.sort_by_key(|update| update.key);
        let mut first = 0_u32;
        for updates in self.updates.chunk_by(|one, next| one.key == next.key) {
            let count = u32::try_from(updates.len()).unwrap_or(u32::MAX);
            let content = Content::Updated { first, count };
            self.entries.extend(updates.first().map(|update| Entry {
                key: update.key,
                content,
            }));
            first = first.saturating_add(count);
        }
        self.entries.sort_unstable_by_key(|entry| entry.key);
        let set = WriteSet {
            entries: SmallVec::from_slice(&self.entries),
            bytes: SmallVec::from_slice(&self.bytes),
            more: (!self.updates.is_empty() || !self.large.is_empty()).then(|| {
                Box::new(More {
                    updates: self.updates.clone(),
                    large: self.large.drain(..).collect(),
                })
            }),
        };
        self.clear();
        set
    }

    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.updates.clear();
        self.bytes.clear();
        self.large.clear();
    }
}
