//! The state below a transaction: what the transactions before it write, on top of the parent state.

use crate::{
    record::{Record, Seen},
    store::{Content, KeyId, MultiVersion, Nearest, Span, TrieNumber, WriteSet},
};
use povmeter_delta_root::{LoadError, NodeSource, Root, ShadowState, ValuePlace};
use std::sync::Arc;

/// Reads of one thread, none of which is counted.
#[derive(Debug)]
pub(crate) struct Below<P> {
    parent: ShadowState<P>,
    found: Found,
    /// The value, where it had to be computed.
    folded: Vec<u8>,
    other: Vec<u8>,
    /// Updates above the value, from the highest writer down.
    chain: Vec<(Arc<WriteSet>, u32, u32)>,
}

#[derive(Debug)]
enum Found {
    Absent,
    Parent(ValuePlace),
    Written(Arc<WriteSet>, Span),
    Folded,
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum Miss {
    /// The transaction at this position will likely write the key.
    Estimate(u32),
    /// The parent state has no answer; the block will say why.
    Load,
}

impl From<LoadError> for Miss {
    fn from(_: LoadError) -> Self {
        Self::Load
    }
}

impl<P: NodeSource> Below<P> {
    pub(crate) fn new(source: P, root: Root) -> Self {
        Self {
            parent: ShadowState::new(source, root),
            found: Found::Absent,
            folded: Vec::new(),
            other: Vec::new(),
            chain: Vec::new(),
        }
    }

    /// Finds the value of `key` below `position`. [`Self::value`] returns it then.
    pub(crate) fn find(
        &mut self,
        store: &MultiVersion,
        position: u32,
        key: KeyId,
    ) -> Result<(), Miss> {
        self.find_of(store, position, key, false)
    }

    /// As [`Self::find`]. If only a `likely` value is needed, estimates are values.
    pub(crate) fn find_of(
        &mut self,
        store: &MultiVersion,
        position: u32,
        key: KeyId,
        likely: bool,
    ) -> Result<(), Miss> {
        self.chain.clear();
        self.found = Found::Absent;
        let mut below = position;
        self.found = loop {
            match store.nearest_of(below, key, likely) {
                Nearest::Estimate(writer) => return Err(Miss::Estimate(writer)),
                Nearest::Parent => {
                    let named = store.keys.key(key);
                    let trie = store.keys.trie(named.trie);
                    let place = self.parent.value(trie, &named.bytes, &mut ())?;
                    break place.map_or(Found::Absent, Found::Parent);
                }
                Nearest::Written(writer, writes, content) => match content {
                    Content::Value(span) => break Found::Written(writes, span),
                    Content::Deleted => break Found::Absent,
                    Content::Updated { first, count } => {
                        self.chain.push((writes, first, count));
                        below = writer;
                    }
                },
            }
        };
        if !self.chain.is_empty() {
            self.fold();
        }
        Ok(())
    }

    /// Applies the updates of the chain to what was found.
    fn fold(&mut self) {
        let mut folded = std::mem::take(&mut self.folded);
        folded.clear();
        let mut present = self
            .value()
            .map(|value| folded.extend_from_slice(value))
            .is_some();
        for (writes, first, count) in self.chain.drain(..).rev() {
            for update in writes.updates(first, count) {
                let memory = (&mut folded, &mut self.other);
                update
                    .kind
                    .apply_to(&mut present, memory, writes.bytes(update.operand));
            }
        }
        self.folded = folded;
        self.found = if present {
            Found::Folded
        } else {
            Found::Absent
        };
    }

    /// The value that was found last.
    pub(crate) fn value(&self) -> Option<&[u8]> {
        match &self.found {
            Found::Absent => None,
            Found::Parent(place) => Some(place.bytes(self.parent.table())),
            Found::Written(writes, span) => Some(writes.bytes(*span)),
            Found::Folded => Some(&self.folded),
        }
    }

    /// The write set that holds the value that was found last, if one does.
    pub(crate) fn origin(&self) -> Option<(&Arc<WriteSet>, Span)> {
        match &self.found {
            Found::Written(writes, span) => Some((writes, *span)),
            _ => None,
        }
    }

    /// Whether `key` has a value below `position`. Loads no value of the parent state that is a node.
    pub(crate) fn exists(
        &mut self,
        store: &MultiVersion,
        position: u32,
        key: KeyId,
    ) -> Result<bool, Miss> {
        match store.nearest(position, key) {
            Nearest::Estimate(writer) => Err(Miss::Estimate(writer)),
            Nearest::Parent => {
                let named = store.keys.key(key);
                let trie = store.keys.trie(named.trie);
                Ok(self.parent.exists(trie, &named.bytes, &mut ())?)
            }
            Nearest::Written(_, _, Content::Value(_)) => Ok(true),
            Nearest::Written(_, _, Content::Deleted) => Ok(false),
            Nearest::Written(_, _, Content::Updated { .. }) => {
                self.find(store, position, key)?;
                Ok(self.value().is_some())
            }
        }
    }

    /// The first key of `trie` after `after` that has a value below `position`, if it is before `before`.
    pub(crate) fn next_key(
        &mut self,
        store: &MultiVersion,
        position: u32,
        trie: TrieNumber,
        after: &[u8],
        before: Option<&[u8]>,
    ) -> Result<Option<Vec<u8>>, Miss> {
        let named_trie = store.keys.trie(trie);
        let is_before = |key: &[u8]| before.is_none_or(|before| key < before);
        let mut in_parent = self.parent.next_key(named_trie, after, &mut ())?;
        let mut next = store.next_written(trie, after);
        while let Some(id) = next {
            let key = &store.keys.key(id).bytes[..];
            let past_parent = in_parent.as_deref().is_some_and(|parent| parent < key);
            if past_parent || !is_before(key) {
                break;
            }
            match store.nearest(position, id) {
                // Written by later transactions only: the parent state decides.
                Nearest::Parent if in_parent.as_deref() != Some(key) => {}
                Nearest::Parent => break,
                _ if self.exists(store, position, id)? => return Ok(Some(key.to_vec())),
                _ if in_parent.as_deref() == Some(key) => {
                    in_parent = self.parent.next_key(named_trie, key, &mut ())?;
                }
                _ => {}
            }
            next = store.next_written(trie, key);
        }
        Ok(in_parent.filter(|key| is_before(key)))
    }

    /// Whether every question of `record`, asked again for `position`, has the same answer. Sizes are not
    /// asked for, because only the block knows them. Predicted values are compared if the store is
    /// `complete`, because else they know more than the store.
    pub(crate) fn answers_alike(
        &mut self,
        store: &MultiVersion,
        position: u32,
        record: &Record,
        complete: bool,
    ) -> Result<bool, Miss> {
        for read in &record.reads {
            let alike = match read.seen {
                Seen::Counted | Seen::Ask(_) => true,
                Seen::Predicted(_) if !complete => true,
                Seen::Exists(exists) => self.exists(store, position, read.key)? == exists,
                Seen::Next(number) => {
                    let next = record.nexts[number as usize];
                    let bytes = |span| record.bytes(span);
                    let (after, before) = (bytes(next.after), next.before.map(bytes));
                    let found = self.next_key(store, position, next.trie, after, before)?;
                    found.as_deref() == next.found.map(bytes)
                }
                // Only the block knows what is below an update after an ask.
                Seen::Told(_) if !record.asks.is_empty() => true,
                Seen::Told(number) => {
                    self.find(store, position, read.key)?;
                    record.is_told_right(number, self.value())
                }
                Seen::Absent | Seen::Value(_) | Seen::Predicted(_) | Seen::Large(_) => {
                    self.find(store, position, read.key)?;
                    record.value(read.seen) == Some(self.value())
                }
            };
            if !alike {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
