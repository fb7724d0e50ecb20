//! Transactions of an [`Overlay`].

use crate::{dirty::LogMark, overlay::Overlay};

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

/// An open transaction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    /// Where its part of the journal starts.
    pub(crate) journal: u32,
    /// Where the change log stood at its start.
    pub(crate) log: LogMark,
}

impl Overlay {
    /// Opens a transaction inside the innermost open one.
    ///
    /// Costs the same whatever the overlay holds.
    #[inline]
    pub fn start_transaction(&mut self) {
        self.frames.push(Frame {
            journal: self.journal.len(),
            log: self.log.mark(),
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
        let frame = self.close_frame()?;
        let Self {
            frames,
            journal,
            entries,
            heap,
            log,
            ..
        } = self;
        match frames.last() {
            Some(parent) => journal.commit(frame.journal, parent.journal, entries, heap),
            None => {
                journal.forget(heap);
                log.drop_seen(entries);
            }
        }
        Ok(())
    }

    /// Closes the innermost transaction and takes its changes back.
    ///
    /// Costs what was changed in it, and what snapshots taken in it told of.
    ///
    /// # Errors
    /// As [`Self::commit_transaction`].
    #[inline]
    pub fn rollback_transaction(&mut self) -> Result<(), TransactionError> {
        let frame = self.close_frame()?;
        self.roll_back(frame);
        Ok(())
    }

    /// Hands control to the runtime, which cannot close the transactions that are open now.
    ///
    /// # Errors
    /// [`TransactionError::AlreadyInRuntime`] if the runtime is in control.
    pub fn enter_runtime(&mut self) -> Result<(), TransactionError> {
        if let Some(host) = self.host_frames {
            return Err(TransactionError::AlreadyInRuntime { host });
        }
        self.host_frames = Some(self.frames.len());
        Ok(())
    }

    /// How many transactions the runtime left open, which were rolled back; control is with the
    /// host again.
    ///
    /// # Errors
    /// [`TransactionError::NotInRuntime`] if the host is in control.
    pub fn exit_runtime(&mut self) -> Result<usize, TransactionError> {
        let host = self
            .host_frames
            .take()
            .ok_or(TransactionError::NotInRuntime)?;
        let mut left_open = 0;
        while self.frames.len() > host {
            let frame = self.close_frame()?;
            self.roll_back(frame);
            left_open += 1;
        }
        Ok(left_open)
    }

    /// How many transactions are open.
    pub fn depth(&self) -> usize {
        self.frames.len()
    }

    #[inline]
    fn close_frame(&mut self) -> Result<Frame, TransactionError> {
        let open = self.frames.len();
        if open > 0 && self.host_frames.is_some_and(|host| open <= host) {
            return Err(TransactionError::OpenedByHost { open });
        }
        self.frames.pop().ok_or(TransactionError::NoneOpen)
    }

    fn roll_back(&mut self, frame: Frame) {
        let Self {
            frames,
            journal,
            entries,
            stores,
            heap,
            log,
            revision,
            ..
        } = self;
        if journal.roll_back(frame.journal, entries, stores, heap) {
            *revision += 1;
        }
        log.roll_back(frame.log, entries);
        if frames.is_empty() {
            log.drop_seen(entries);
        }
    }
}
