//! A transaction executed ahead of its turn.
//!
//! | file | what is in it |
//! |---|---|
//! | `access` | the calls of the transaction |
//! | `reads` | its reads of the state below its own changes |
//! | `updates` | changes that are functions of the value below, and questions for the size |
//! | `first_reads` | which values it has read before |
//! | `scratch` | the memory of a thread |

mod access;
mod first_reads;
mod reads;
mod scratch;
mod updates;

use scratch::Pending;
pub(crate) use scratch::Scratch;

use crate::{
    below::{Asker, Miss},
    executor::{Executor, Stopped},
    record::Record,
    store::{MultiVersion, TooLong, WriteSet, LARGE_BYTES},
    sync::Mutex,
    turns::{AtTurn, LoadedParent, Turns},
    view::Access,
};
use povmeter::{NodeSource, ProofSize, TransactionError, TrieId};
use povmeter_overlay::{Fate, Lookup};
use std::mem::replace;

/// Why an execution ahead stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Halt {
    /// It needs a value that the transaction at this position will likely write.
    Wait(u32),
    /// Only the block can answer its question.
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

/// The state that all executions ahead of a thread share.
pub(crate) struct Common<'c, E: Executor> {
    pub(crate) store: &'c MultiVersion,
    pub(crate) executor: &'c E,
    /// The size after the last committed transaction.
    pub(crate) last_size: &'c Mutex<ProofSize>,
    pub(crate) turns: &'c dyn Turns<E::Output>,
    /// Whether the thread is that of the block.
    pub(crate) of_block: bool,
}

/// One transaction, executed ahead of its turn. See [`Access`].
pub(crate) struct Speculation<'s, 'k, P, E: Executor> {
    scratch: &'s mut Scratch<'k, P>,
    common: Common<'s, E>,
    /// The index of the transaction. Its position in the store is one more.
    index: u32,
    halt: Option<Halt>,
    /// The block, once the execution has waited for its turn.
    at_turn: Option<Box<dyn AtTurn<E::Output> + 's>>,
}

/// An execution ahead that reached its end.
pub(crate) struct Speculated {
    pub(crate) record: Box<Record>,
    pub(crate) writes: WriteSet,
}

impl<'s, 'k, P: NodeSource, E: Executor> Speculation<'s, 'k, P, E> {
    pub(crate) fn begin(
        scratch: &'s mut Scratch<'k, P>,
        common: Common<'s, E>,
        index: u32,
    ) -> Self {
        scratch.begin();
        let halt = scratch.overlay.enter_runtime().err().map(Halt::from);
        Self {
            scratch,
            common,
            index,
            halt,
            at_turn: None,
        }
    }

    /// Takes the block, if the execution has waited for its turn.
    pub(crate) fn at_turn(&mut self) -> Option<Box<dyn AtTurn<E::Output> + 's>> {
        self.at_turn.take()
    }

    /// Waits for the turn, to continue on the block.
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

    /// Returns the reads and writes of the transaction. There are no writes if it is not part of the block.
    pub(crate) fn finish(mut self, part_of_block: bool) -> Result<Speculated, Halt> {
        if let Some(halt) = self.halt {
            return Err(halt);
        }
        let left_open = self.scratch.overlay.exit_runtime()?;
        let kept = self.scratch.open.len().saturating_sub(left_open);
        if let Some(pending) = self.scratch.open.get(kept) {
            let pending = *pending;
            self.scratch.truncate_pending(pending);
        }
        let writes = if part_of_block {
            self.writes()?
        } else {
            WriteSet::default()
        };
        let Scratch { record, spare, .. } = &mut *self.scratch;
        Ok(Speculated {
            record: replace(record, spare.take().unwrap_or_default()),
            writes,
        })
    }

    /// Returns what the transaction has written so far.
    fn writes(&mut self) -> Result<WriteSet, Halt> {
        let Scratch {
            overlay,
            pending,
            operands,
            builder,
            large,
            record,
            first_reads,
            keys: last_keys,
            ..
        } = &mut *self.scratch;
        builder.clear();
        large.clear();
        let keys = &self.common.store.keys;
        for dirty in overlay.dirty() {
            let mut key = || last_keys.number(dirty.trie, dirty.key);
            match overlay.get(dirty.trie, dirty.key) {
                Lookup::Value(value) if value.len() > LARGE_BYTES => {
                    let id = key();
                    let read = first_reads.find(id);
                    match read.and_then(|read| record.shared(read, value)) {
                        // A value that is written as it was read is kept once.
                        Some(read) => builder.write_large(id, read.clone())?,
                        None => large.push(id),
                    }
                }
                Lookup::Value(value) => builder.write(key(), Some(value))?,
                Lookup::Deleted => builder.write(key(), None)?,
                Lookup::Untouched => debug_assert_eq!(dirty.fate, Fate::Untouched),
            }
        }
        for id in &*large {
            let key = keys.key(*id);
            // Comparing reads does not notice a lost write, so never go on without one.
            let Some(Some(value)) = overlay.share(keys.trie(key.trie), &key.bytes) else {
                return Err(Halt::InOrder);
            };
            builder.write_large(*id, value)?;
        }
        for (update, number) in pending.iter().zip(0..) {
            let key = keys.key(update.key);
            if overlay.get(keys.trie(key.trie), &key.bytes) == Lookup::Untouched {
                builder.update(update.key, update.kind, update.operand.of(operands), number)?;
            }
        }
        Ok(builder.finish())
    }

    fn asker(&self) -> Asker<'s> {
        let Common {
            store,
            turns,
            of_block,
            ..
        } = self.common;
        Asker {
            position: self.index + 1,
            store,
            block: of_block.then_some(turns as &dyn LoadedParent),
        }
    }

    fn going(&self) -> Result<(), Stopped> {
        match self.halt {
            None => Ok(()),
            Some(_) => Err(Stopped(())),
        }
    }

    /// Returns the result of `call`. Stops if there is none.
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
        self.give_up();
        Err(Stopped(()))
    }

    /// Leaves the transaction to its turn, unless the execution has stopped for another reason.
    pub(crate) fn give_up(&mut self) {
        self.halt.get_or_insert(Halt::InOrder);
    }

    fn changed(&self, trie: TrieId<'_>, key: &[u8]) -> bool {
        self.scratch.overlay.get(trie, key) != Lookup::Untouched
    }
}
