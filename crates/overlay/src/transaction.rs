//! Transactions of an [`Overlay`].

use crate::{dirty::DirtyLogMark, overlay::Overlay};

/// Why a transaction could not be closed, or control not handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TransactionError {
    /// There is no transaction to close.
    #[error("expected an open transaction to close, found none")]
    NoneOpen,
    /// The runtime tried to close a transaction that the host opened.
    #[error("expected a transaction opened by the runtime, found the innermost of {open} open ones opened by the host")]
    OpenedByHost {
        /// How many are open, all by the host.
        open: usize,
    },
    /// The runtime was entered twice.
    #[error("expected the host to be in control, found the runtime, entered with {host} transactions open")]
    AlreadyInRuntime {
        /// How many transactions the host had open when the runtime was entered.
        host: usize,
    },
    /// The runtime was left without having been entered.
    #[error("expected the runtime to be in control, found the host")]
    NotInRuntime,
    /// The block was to be closed with transactions open.
    #[error("expected every transaction to be closed, found {open} open")]
    StillOpen {
        /// How many are open.
        open: usize,
    },
}

/// What the reader of [dirty](Overlay::dirty) keys does when a transaction is rolled back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// It drops what it learned in the transaction. So the keys that it was told of become dirty again, except those of
    /// which it knew the same before.
    Forgets,
    /// It keeps what it learned. So only the keys that the transaction changed become dirty, and keys that were dirty
    /// stay so.
    Keeps,
}

/// An open transaction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenTransaction {
    /// Where its part of the journal starts.
    pub(crate) journal_start: u32,
    /// Where the log of dirty keys stood when the transaction started.
    pub(crate) log_mark: DirtyLogMark,
}

impl Overlay {
    /// Opens a transaction inside the innermost open one.
    ///
    /// Costs the same whatever the overlay holds.
    #[inline]
    pub fn start_transaction(&mut self) {
        self.transactions.push(OpenTransaction {
            journal_start: self.journal.len(),
            log_mark: self.log.mark(),
        });
    }

    /// Closes the innermost transaction and keeps its changes.
    ///
    /// Costs what was changed in it.
    ///
    /// # Errors
    /// [`TransactionError::NoneOpen`], or [`TransactionError::OpenedByHost`] if the runtime is in
    /// control and opened none of the open transactions. Nothing changes then.
    #[inline]
    pub fn commit_transaction(&mut self) -> Result<(), TransactionError> {
        let closed = self.pop_transaction()?;
        let Self {
            transactions,
            journal,
            entries,
            heap,
            log,
            ..
        } = self;
        match transactions.last() {
            Some(parent) => {
                journal.commit(closed.journal_start, parent.journal_start, entries, heap);
            }
            None => {
                journal.forget(heap);
                log.changes_for_good();
                log.drop_seen(entries);
            }
        }
        Ok(())
    }

    /// Closes the innermost transaction and takes its changes back.
    ///
    /// Costs what was changed in it, and the keys that snapshots taken in it reported.
    ///
    /// # Errors
    /// As [`Self::commit_transaction`].
    #[inline]
    pub fn rollback_transaction(&mut self) -> Result<(), TransactionError> {
        self.rollback_transaction_for(Reader::Forgets)
    }

    /// As [`Self::rollback_transaction`], for the `reader` of [dirty](Self::dirty) keys.
    ///
    /// Costs what was changed in the transaction, and if the reader forgets, also the keys that snapshots taken in it
    /// reported, and a step for each open transaction that has started since the snapshot before these.
    ///
    /// # Errors
    /// As [`Self::commit_transaction`].
    #[inline]
    pub fn rollback_transaction_for(&mut self, reader: Reader) -> Result<(), TransactionError> {
        let closed = self.pop_transaction()?;
        self.roll_back(closed, reader);
        Ok(())
    }

    /// Hands control to the runtime, which cannot close the transactions that are open now.
    ///
    /// # Errors
    /// [`TransactionError::AlreadyInRuntime`] if the runtime is in control.
    pub fn enter_runtime(&mut self) -> Result<(), TransactionError> {
        if let Some(host) = self.host_transactions {
            return Err(TransactionError::AlreadyInRuntime { host });
        }
        self.host_transactions = Some(self.transactions.len());
        Ok(())
    }

    /// Returns control to the host, rolls back the transactions that the runtime left open, and returns
    /// how many they were.
    ///
    /// # Errors
    /// [`TransactionError::NotInRuntime`] if the host is in control.
    pub fn exit_runtime(&mut self) -> Result<usize, TransactionError> {
        self.exit_runtime_for(Reader::Forgets)
    }

    /// As [`Self::exit_runtime`], for the `reader` of [dirty](Self::dirty) keys.
    ///
    /// # Errors
    /// As [`Self::exit_runtime`].
    pub fn exit_runtime_for(&mut self, reader: Reader) -> Result<usize, TransactionError> {
        let host = self
            .host_transactions
            .take()
            .ok_or(TransactionError::NotInRuntime)?;
        let mut left_open = 0;
        while self.transactions.len() > host {
            let closed = self.pop_transaction()?;
            self.roll_back(closed, reader);
            left_open += 1;
        }
        Ok(left_open)
    }

    /// How many transactions are open.
    pub fn depth(&self) -> usize {
        self.transactions.len()
    }

    #[inline]
    fn pop_transaction(&mut self) -> Result<OpenTransaction, TransactionError> {
        let open = self.transactions.len();
        if open > 0 && self.host_transactions.is_some_and(|host| open <= host) {
            return Err(TransactionError::OpenedByHost { open });
        }
        self.transactions.pop().ok_or(TransactionError::NoneOpen)
    }

    fn roll_back(&mut self, closed: OpenTransaction, reader: Reader) {
        let Self {
            transactions,
            journal,
            entries,
            stores,
            heap,
            log,
            revision,
            ..
        } = self;
        match reader {
            Reader::Forgets => log.roll_back(closed.log_mark, journal, entries, transactions),
            Reader::Keeps => {
                let restored = journal.restored(closed.journal_start);
                log.roll_back_for_keeper(closed.log_mark, restored, entries);
            }
        }
        if journal.roll_back(closed.journal_start, entries, stores, heap) {
            *revision += 1;
        }
        if transactions.is_empty() {
            log.drop_seen(entries);
        }
    }
}
