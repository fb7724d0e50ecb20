//! A transaction executed ahead of its turn.

use crate::{
    below::{Below, Miss},
    executor::{Executor, Stopped},
    record::{Ask, NextRead, Record, Seen},
    store::{KeyId, MultiVersion, Span, TooLong, WriteSet, WriteSetBuilder},
    turns::{AtTurn, Turns},
    update::{Kind, Rule},
    view::Access,
};
use povmeter::{
    NodeHash, NodeSource, ProofSize, Removal, Root, StateVersion, TransactionError, TrieId,
};
use povmeter_overlay::{Fate, Lookup, Overlay};
use std::mem::take;

/// The memory of one thread for its speculations.
#[derive(Debug)]
pub(crate) struct Scratch<P> {
    /// What the transaction changed.
    overlay: Overlay,
    /// Updates of keys that the overlay did not know. They have no effect on keys that it knows now.
    pending: Vec<Pending>,
    operands: Vec<u8>,
    /// How many updates were pending at the start of each open transaction.
    open: Vec<usize>,
    record: Record,
    pub(crate) below: Below<P>,
    builder: WriteSetBuilder,
    value: Vec<u8>,
    other: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
struct Pending {
    key: KeyId,
    kind: Kind,
    operand: Span,
}

/// Overlays with more memory than this are not kept, because emptying one costs a pass over it.
const KEPT_BYTES: usize = 1 << 20;

impl<P> Scratch<P> {
    pub(crate) fn new(below: Below<P>) -> Self {
        Self {
            overlay: Overlay::new(),
            pending: Vec::new(),
            operands: Vec::new(),
            open: Vec::new(),
            record: Record::default(),
            below,
            builder: WriteSetBuilder::default(),
            value: Vec::new(),
            other: Vec::new(),
        }
    }

    /// Begins a transaction, with the memory of `record`.
    fn begin(&mut self, record: Record) {
        if self.overlay.memory() > KEPT_BYTES {
            self.overlay = Overlay::new();
        } else {
            self.overlay.reset();
        }
        self.pending.clear();
        self.operands.clear();
        self.open.clear();
        self.builder.clear();
        self.record = record;
        self.record.clear();
    }
}

/// Why a speculation stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Halt {
    /// It needs what the transaction at this position will likely write.
    Wait(u32),
    /// Only the block can answer.
    InOrder,
}

impl From<Miss> for Halt {
    fn from(miss: Miss) -> Self {
        match miss {
            Miss::Estimate(position) => Self::Wait(position),
            Miss::Load => Self::InOrder,
        }
    }
}

impl From<TooLong> for Halt {
    fn from(_: TooLong) -> Self {
        Self::InOrder
    }
}

impl From<TransactionError> for Halt {
    fn from(_: TransactionError) -> Self {
        Self::InOrder
    }
}

/// What all speculations of a thread share.
pub(crate) struct Common<'c, E: Executor> {
    pub(crate) store: &'c MultiVersion,
    pub(crate) executor: &'c E,
    /// The size after the last transaction that was committed.
    pub(crate) last_size: ProofSize,
    pub(crate) turns: &'c dyn Turns<E::Output>,
    /// Whether the thread is that of the block.
    pub(crate) of_block: bool,
}

/// One transaction, executed ahead of its turn. See [`Access`].
pub(crate) struct Speculation<'s, P, E: Executor> {
    scratch: &'s mut Scratch<P>,
    common: Common<'s, E>,
    /// Its index; its position in the store is one more.
    index: u32,
    halt: Option<Halt>,
    /// The block, once the speculation has waited for its turn.
    at_turn: Option<Box<dyn AtTurn<E::Output> + 's>>,
}

/// A speculation that went to its end.
pub(crate) struct Speculated {
    pub(crate) record: Record,
    pub(crate) writes: WriteSet,
}

impl<'s, P: NodeSource, E: Executor> Speculation<'s, P, E> {
    pub(crate) fn begin(
        scratch: &'s mut Scratch<P>,
        common: Common<'s, E>,
        index: u32,
        record: Record,
    ) -> Self {
        scratch.begin(record);
        let halt = scratch.overlay.enter_runtime().err().map(Halt::from);
        Self {
            scratch,
            common,
            index,
            halt,
            at_turn: None,
        }
    }

    /// The block and the record, if the speculation has waited for its turn.
    #[allow(clippy::type_complexity, reason = "a pair")]
    pub(crate) fn at_turn(&mut self) -> Option<(Box<dyn AtTurn<E::Output> + 's>, Record)> {
        let at_turn = self.at_turn.take()?;
        Some((at_turn, take(&mut self.scratch.record)))
    }

    /// Waits for the turn, and goes on on the block.
    fn on_block(&mut self) -> Result<&mut dyn Access, Stopped> {
        self.or_halt(|this| {
            if !this.scratch.open.is_empty() {
                return Err(Halt::InOrder);
            }
            let writes = this.writes()?;
            let Common {
                turns, of_block, ..
            } = this.common;
            let taken = turns.take(this.index, of_block, &this.scratch.record, &writes);
            this.at_turn = Some(taken.ok_or(Halt::InOrder)?);
            Ok(())
        })?;
        match &mut self.at_turn {
            Some(at_turn) => Ok(at_turn.access()),
            None => Err(Stopped(())),
        }
    }

    /// What it read and wrote. Without writes, if the transaction is no part of the block.
    pub(crate) fn finish(mut self, part_of_block: bool) -> Result<Speculated, Halt> {
        if let Some(halt) = self.halt {
            return Err(halt);
        }
        let left_open = self.scratch.overlay.exit_runtime()?;
        let kept = self.scratch.open.len().saturating_sub(left_open);
        if let Some(pending) = self.scratch.open.get(kept) {
            self.scratch.pending.truncate(*pending);
        }
        let writes = if part_of_block {
            self.writes()?
        } else {
            WriteSet::default()
        };
        Ok(Speculated {
            record: take(&mut self.scratch.record),
            writes,
        })
    }

    /// What the transaction has written so far.
    fn writes(&mut self) -> Result<WriteSet, TooLong> {
        let Scratch {
            overlay,
            pending,
            operands,
            builder,
            ..
        } = &mut *self.scratch;
        builder.clear();
        let keys = &self.common.store.keys;
        for dirty in overlay.dirty() {
            let key = || keys.number(dirty.trie, dirty.key);
            match overlay.get(dirty.trie, dirty.key) {
                Lookup::Value(value) => builder.write(key(), Some(value))?,
                Lookup::Deleted => builder.write(key(), None)?,
                Lookup::Untouched => debug_assert_eq!(dirty.fate, Fate::Untouched),
            }
        }
        for (update, number) in pending.iter().zip(0..) {
            let key = keys.key(update.key);
            if overlay.get(keys.trie(key.trie), &key.bytes) == Lookup::Untouched {
                builder.update(update.key, update.kind, update.operand.of(operands), number)?;
            }
        }
        Ok(builder.finish())
    }

    fn position(&self) -> u32 {
        self.index + 1
    }

    fn going(&self) -> Result<(), Stopped> {
        match self.halt {
            None => Ok(()),
            Some(_) => Err(Stopped(())),
        }
    }

    /// The result of `call`; stops if there is none.
    fn or_halt<T>(
        &mut self,
        call: impl FnOnce(&mut Self) -> Result<T, Halt>,
    ) -> Result<T, Stopped> {
        self.going()?;
        call(self).map_err(|halt| {
            self.halt = Some(halt);
            Stopped(())
        })
    }

    /// Stops, because only the block can answer.
    fn in_order<T>(&mut self) -> Result<T, Stopped> {
        self.halt.get_or_insert(Halt::InOrder);
        Err(Stopped(()))
    }

    fn changed(&self, trie: TrieId<'_>, key: &[u8]) -> bool {
        self.scratch.overlay.get(trie, key) != Lookup::Untouched
    }

    /// Finds the value of a key that the overlay does not know, below the transaction, and notes that it
    /// was read, unless only an update of it is `told`.
    fn find(&mut self, trie: TrieId<'_>, key: &[u8], noted: bool) -> Result<At, Halt> {
        let (position, store) = (self.position(), self.common.store);
        let Scratch {
            record,
            below,
            value,
            pending,
            ..
        } = &mut *self.scratch;
        let named = store.keys.hashed(trie, key);
        let known = match noted {
            true => record.known(&store.keys, named),
            false => None,
        };
        if let Some((read, id)) = known {
            if pending.iter().all(|update| update.key != id) {
                return Ok(At::Known(read));
            }
        }
        let id = store.keys.number_hashed(named);
        let reads = record.reads.len();
        value.clear();
        let predicted = self.common.executor.predict(self.index, trie, key, value);
        let mut at = if predicted { At::Computed } else { At::Below };
        if predicted {
            if noted {
                record.push_predicted(id, value)?;
            }
        } else {
            below.find_of(store, position, id, !noted)?;
            if noted {
                record.push_value(id, below.value(), below.origin())?;
            }
        }
        if noted && known.is_none() && record.reads.len() > reads {
            record.know(named);
        }
        if self.scratch.pending.iter().any(|update| update.key == id) {
            if noted && !self.scratch.record.asks.is_empty() {
                // At its turn, the block would compare the value with the updates before the ask.
                return Err(Halt::InOrder);
            }
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

    fn value_at(&self, at: At) -> Option<&[u8]> {
        match at {
            At::Below => self.scratch.below.value(),
            At::Computed => Some(&self.scratch.value),
            At::Known(read) => self.scratch.record.known_value(read),
            At::Nowhere => None,
        }
    }

    /// Notes that a read of `key` counts, if the record does not say so.
    fn note_counted(&mut self, key: KeyId) {
        let record = &mut self.scratch.record;
        if !record.has(key, |seen| !matches!(seen, Seen::Exists(_))) {
            record.push(key, Seen::Counted);
        }
    }

    /// Adds an update of a key that the overlay does not know.
    fn push_pending(
        &mut self,
        trie: TrieId<'_>,
        key: &[u8],
        kind: Kind,
        operand: &[u8],
    ) -> Result<(), Halt> {
        let id = self.common.store.keys.number(trie, key);
        self.note_counted(id);
        let Scratch {
            pending, operands, ..
        } = &mut *self.scratch;
        let operand = Span::push(operands, operand).ok_or(TooLong)?;
        pending.push(Pending {
            key: id,
            kind,
            operand,
        });
        Ok(())
    }

    /// Whether the rule changes the value of a key that the overlay does not know.
    fn tell(
        &mut self,
        trie: TrieId<'_>,
        key: &[u8],
        (rule, operand): (Rule, &[u8]),
    ) -> Result<bool, Halt> {
        let id = self.common.store.keys.number(trie, key);
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
        record.push_told(id, steps.chain([(Kind::Rule(rule), operand)]), changes)?;
        self.scratch.other = other;
        Ok(changes)
    }

    fn update_own(&mut self, trie: TrieId<'_>, key: &[u8], rule: (Rule, &[u8])) -> bool {
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

    /// The next key that the transaction itself changed, and whether it has a value.
    fn next_own(
        &mut self,
        trie: TrieId<'_>,
        after: &[u8],
    ) -> Result<Option<(Vec<u8>, bool)>, Halt> {
        let keys = &self.common.store.keys;
        let number = keys.trie_number(trie);
        let changed = self.scratch.overlay.next_after(trie, after);
        let changed = changed.map(|(key, value)| (key, Some(value.is_some())));
        let updated = self
            .scratch
            .pending
            .iter()
            .map(|update| keys.key(update.key));
        let updated = updated
            .filter(|key| key.trie == number && *key.bytes > *after)
            .map(|key| (&key.bytes[..], None));
        // Of an update of a key that was changed later, the change counts.
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

    /// The next key below the transaction, after `after` and before `before`.
    fn next_below(
        &mut self,
        trie: TrieId<'_>,
        after: &[u8],
        before: Option<&[u8]>,
    ) -> Result<Option<Vec<u8>>, Halt> {
        let (position, store) = (self.position(), self.common.store);
        let trie = store.keys.trie_number(trie);
        let Scratch { record, below, .. } = &mut *self.scratch;
        let found = below.next_key(store, position, trie, after, before)?;
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

    fn find_next(&mut self, trie: TrieId<'_>, key: &[u8]) -> Result<Option<Vec<u8>>, Halt> {
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
                Some((key, false)) => after = key,
            }
        }
    }

    /// Asks whether the size is at most `bytes`.
    fn ask(&mut self, bytes: u64) -> Result<bool, Halt> {
        if !self.scratch.open.is_empty() {
            return Err(Halt::InOrder);
        }
        let writes = self.writes()?;
        let holds = self.common.last_size.total_bytes() <= bytes;
        let Scratch {
            record, pending, ..
        } = &mut *self.scratch;
        let number = u32::try_from(record.asks.len()).map_err(|_| TooLong)?;
        record.asks.push(Ask {
            writes,
            updates: u32::try_from(pending.len()).map_err(|_| TooLong)?,
            holds,
            bytes,
        });
        record.push(KeyId::NONE, Seen::Ask(number));
        Ok(holds)
    }
}

/// Where a value is that the overlay does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Below,
    Computed,
    /// In the record, by the number of an earlier read.
    Known(u32),
    Nowhere,
}

fn is_child_root(trie: TrieId<'_>, key: &[u8]) -> bool {
    trie == TrieId::Top && key.starts_with(povmeter_primitives::CHILD_ROOT_PREFIX)
}

impl<P: NodeSource, E: Executor> Access for Speculation<'_, P, E> {
    fn current(&mut self) -> &mut dyn Access {
        match self {
            Self {
                at_turn: Some(at_turn),
                ..
            } => at_turn.access(),
            ahead => ahead,
        }
    }

    fn get(&mut self, trie: TrieId<'_>, key: &[u8]) -> Result<Option<&[u8]>, Stopped> {
        self.going()?;
        if self.changed(trie, key) {
            return Ok(match self.scratch.overlay.get(trie, key) {
                Lookup::Value(value) => Some(value),
                Lookup::Deleted | Lookup::Untouched => None,
            });
        }
        let at = self.or_halt(|this| this.find(trie, key, true))?;
        Ok(self.value_at(at))
    }

    fn guess(&mut self, trie: TrieId<'_>, key: &[u8]) -> Result<Option<&[u8]>, Stopped> {
        self.going()?;
        if self.changed(trie, key) {
            return self.get(trie, key);
        }
        let at = self.or_halt(|this| {
            this.note_counted(this.common.store.keys.number(trie, key));
            this.find(trie, key, false)
        })?;
        Ok(self.value_at(at))
    }

    fn exists(&mut self, trie: TrieId<'_>, key: &[u8]) -> Result<bool, Stopped> {
        self.going()?;
        match self.scratch.overlay.get(trie, key) {
            Lookup::Value(_) => return Ok(true),
            Lookup::Deleted => return Ok(false),
            Lookup::Untouched => {}
        }
        self.or_halt(|this| {
            let (position, store) = (this.position(), this.common.store);
            let id = store.keys.number(trie, key);
            if this.scratch.pending.iter().any(|update| update.key == id) {
                // An update of an absent key may refuse. Its read counts already.
                let at = this.find(trie, key, true)?;
                return Ok(this.value_at(at).is_some());
            }
            let Scratch { record, below, .. } = &mut *this.scratch;
            let exists = below.exists(store, position, id)?;
            if !record.has(
                id,
                |seen| matches!(seen, Seen::Exists(same) if same == exists),
            ) {
                record.push_of(id, Seen::Exists(exists), below.of_parent());
            }
            Ok(exists)
        })
    }

    fn value_hash(&mut self, trie: TrieId<'_>, key: &[u8]) -> Result<Option<NodeHash>, Stopped> {
        self.on_block()?.value_hash(trie, key)
    }

    fn next_key(&mut self, trie: TrieId<'_>, key: &[u8]) -> Result<Option<Vec<u8>>, Stopped> {
        self.or_halt(|this| this.find_next(trie, key))
    }

    fn write(&mut self, trie: TrieId<'_>, key: &[u8], value: Option<&[u8]>) -> Result<(), Stopped> {
        self.going()?;
        if is_child_root(trie, key) {
            return self.in_order();
        }
        match value {
            Some(value) => self.scratch.overlay.set(trie, key, value),
            None => _ = self.scratch.overlay.remove(trie, key),
        }
        Ok(())
    }

    fn append(&mut self, trie: TrieId<'_>, key: &[u8], element: &[u8]) -> Result<(), Stopped> {
        self.going()?;
        if is_child_root(trie, key) {
            return self.in_order();
        }
        if self.changed(trie, key) {
            let nothing = || Ok::<Option<&[u8]>, std::convert::Infallible>(None);
            let appended = self.scratch.overlay.append(trie, key, element, nothing);
            return appended.map_err(|never| match never {});
        }
        self.or_halt(|this| this.push_pending(trie, key, Kind::Append, element))
    }

    fn update(
        &mut self,
        trie: TrieId<'_>,
        key: &[u8],
        (rule, operand): (Rule, &[u8]),
        told: bool,
    ) -> Result<bool, Stopped> {
        self.going()?;
        if is_child_root(trie, key) {
            return self.in_order();
        }
        if self.changed(trie, key) {
            return Ok(self.update_own(trie, key, (rule, operand)));
        }
        self.or_halt(|this| {
            let mut changes = false;
            if told {
                changes = this.tell(trie, key, (rule, operand))?;
            }
            this.push_pending(trie, key, Kind::Rule(rule), operand)?;
            Ok(changes)
        })
    }

    fn clear_prefix(
        &mut self,
        trie: TrieId<'_>,
        prefix: &[u8],
        limit: Option<u32>,
        cursor: Option<&[u8]>,
    ) -> Result<Removal, Stopped> {
        self.on_block()?.clear_prefix(trie, prefix, limit, cursor)
    }

    fn proof_size(&mut self) -> Result<ProofSize, Stopped> {
        self.on_block()?.proof_size()
    }

    fn proof_size_at_most(&mut self, bytes: u64) -> Result<bool, Stopped> {
        self.or_halt(|this| this.ask(bytes))
    }

    fn recorded_size(&mut self) -> Result<ProofSize, Stopped> {
        self.on_block()?.recorded_size()
    }

    fn root(&mut self, child: Option<&[u8]>, version: StateVersion) -> Result<Root, Stopped> {
        self.on_block()?.root(child, version)
    }

    fn is_ahead(&self) -> bool {
        self.at_turn.is_none()
    }

    fn is_alone(&self) -> bool {
        false
    }

    fn wait_for_turn(&mut self) -> Result<(), Stopped> {
        self.on_block().map(drop)
    }

    fn leave_to_turn(&mut self) -> Result<(), Stopped> {
        self.in_order()
    }

    fn start_transaction(&mut self) -> Result<(), Stopped> {
        self.going()?;
        self.scratch.overlay.start_transaction();
        self.scratch.open.push(self.scratch.pending.len());
        Ok(())
    }

    fn commit_transaction(&mut self) -> Result<(), Stopped> {
        self.or_halt(|this| {
            this.scratch.overlay.commit_transaction()?;
            this.scratch.open.pop();
            Ok(())
        })
    }

    fn rollback_transaction(&mut self) -> Result<(), Stopped> {
        self.or_halt(|this| {
            this.scratch.overlay.rollback_transaction()?;
            if let Some(pending) = this.scratch.open.pop() {
                this.scratch.pending.truncate(pending);
            }
            Ok(())
        })
    }
}
