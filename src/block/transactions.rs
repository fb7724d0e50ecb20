//! Transactions of a block: changes, and the counts that are rolled back with them.

use super::{number::BlockNumber, Block};
use crate::{accounting::Accounting, attribution::Notes, error::BlockError};
use povmeter_delta_root::NodeSource;
use povmeter_overlay::Reader;
use povmeter_pov_estimate::{EstimatorMark, ProofSize, RecorderMark};

/// Counts at the start of an open transaction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TransactionMark {
    by_host: bool,
    /// The number of the transaction among all that were opened, from 1 on.
    number: u64,
    recorder: RecorderMark,
    estimator: EstimatorMark,
}

impl<S: NodeSource, A: Accounting> Block<S, A> {
    /// Opens a transaction inside the open ones: the runtime's while the runtime executes, else the
    /// host's.
    pub fn start_transaction(&mut self) {
        self.overlay.start_transaction();
        self.open_counts(!self.in_runtime);
    }

    fn open_counts(&mut self, by_host: bool) {
        self.notes.opened();
        self.opened = self.opened.saturating_add(1);
        self.open_transactions.push(TransactionMark {
            by_host,
            number: self.opened,
            recorder: self.recorder.mark(),
            estimator: self.estimator.mark(),
        });
    }

    /// The number of the innermost open transaction; 0 if none is open.
    pub(super) fn open_transaction(&self) -> u64 {
        self.open_transactions.last().map_or(0, |mark| mark.number)
    }

    /// Closes the innermost transaction and keeps its changes.
    ///
    /// # Errors
    /// [`BlockError::Transaction`] if none is open, or if it is the host's while the runtime executes.
    pub fn commit_transaction(&mut self) -> Result<(), BlockError> {
        self.overlay.commit_transaction()?;
        self.notes.committed();
        self.open_transactions.pop();
        Ok(())
    }

    /// Closes the innermost transaction and undoes its changes. What it read stays in the proof if the
    /// transaction was the runtime's, and leaves the proof if it was the host's.
    ///
    /// # Errors
    /// [`BlockError::Transaction`] if none is open, or if it is the host's while the runtime executes.
    pub fn rollback_transaction(&mut self) -> Result<(), BlockError> {
        let by_host = self.open_transactions.last().is_some_and(|of| of.by_host);
        let reader = Self::reader_of_rollback(by_host);
        self.overlay.rollback_transaction_for(reader)?;
        self.roll_back_counts();
        Ok(())
    }

    /// What the estimator does when a transaction is rolled back: [`Self::roll_back_counts`]. A transaction that asks
    /// for the size and is rolled back then costs later sizes only what it changed.
    fn reader_of_rollback(by_host: bool) -> Reader {
        match A::PROVEN && !by_host {
            true => Reader::Keeps,
            false => Reader::Forgets,
        }
    }

    fn roll_back_counts(&mut self) {
        let Some(mark) = self.open_transactions.pop() else {
            return;
        };
        let before = self.recorded_counts();
        self.notes.rolled_back(mark.by_host);
        // The cached root is dropped, because its nodes may be rolled back with the counts.
        if let Some((_, _, update)) = self.root.take() {
            self.state.recycle(update);
        }
        let table = self.state.table();
        if mark.by_host {
            self.recorder.roll_back_reads(mark.recorder, table);
            // A rollback by the runtime keeps what a root counted, with either accounting.
            self.estimator.forget_left_out(mark.estimator);
        }
        if mark.by_host || !A::PROVEN {
            self.recorder.roll_back_roots(mark.recorder, table);
            self.estimator.roll_back(mark.estimator);
        }
        self.note_cut(before);
    }

    /// Hands control to the runtime. Until [`Self::exit_runtime`], new transactions belong to the
    /// runtime, and those of the host can't be closed.
    ///
    /// # Errors
    /// [`BlockError::Transaction`] if the runtime executes already.
    pub fn enter_runtime(&mut self) -> Result<(), BlockError> {
        self.overlay.enter_runtime()?;
        self.in_runtime = true;
        Ok(())
    }

    /// Takes control back, rolls back the runtime's open transactions, and returns how many they were.
    ///
    /// # Errors
    /// [`BlockError::Transaction`] if the runtime does not execute.
    pub fn exit_runtime(&mut self) -> Result<usize, BlockError> {
        let reader = Self::reader_of_rollback(false);
        let open = self.overlay.exit_runtime_for(reader)?;
        (0..open).for_each(|_| self.roll_back_counts());
        self.in_runtime = false;
        Ok(open)
    }

    /// Replaces the changes and the open transactions of this block by those of `other`, which may be on
    /// another parent state. Reads and sizes start anew: nothing is counted or [ignored](Self::ignore), and all
    /// changes are dirty.
    ///
    /// With [`Attributed`](crate::Attributed) accounting the changes taken over have no owner, and the block is in no
    /// part.
    pub fn copy_changes<T, B: Accounting>(&mut self, other: &Block<T, B>) {
        // A peek leaves no count, but the estimator remembers the keys of the overlay that it has marked.
        let used = self.estimator.is_used()
            || self.overlay.places().len() > 0
            || self.recorder.size() != ProofSize::default()
            || self.recorder.ignored() > 0
            || !self.open_transactions.is_empty()
            || self.root.is_some();
        if used {
            self.rebase(self.parent_root(), |_| ());
        }
        // Even a block that is otherwise unused may be in a part, and may have been marked.
        self.notes = A::Notes::default();
        self.number = BlockNumber::new();
        self.overlay.clone_from(&other.overlay);
        self.overlay.forget_snapshots();
        self.in_runtime = other.in_runtime;
        for mark in &other.open_transactions {
            self.open_counts(mark.by_host);
        }
    }

    /// Number of open transactions.
    pub fn transaction_depth(&self) -> usize {
        self.overlay.depth()
    }
}
