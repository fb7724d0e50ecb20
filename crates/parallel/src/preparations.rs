//! Preparations of transactions, while the block executes all of them in order.
//!
//! ```text
//! turn      the transaction that the block executes
//! next      one above the highest transaction that was taken
//! take:     the lowest transaction that is at least `next`, and at least `turn + LEAD`
//! ```
//! No transaction waits for a preparation; only the end of the call waits for those that have begun. The executor
//! remembers its result, or has not remembered it yet; nothing else depends on it.

use crate::{
    below::{Asker, Below},
    executor::Stopped,
    store::MultiVersion,
    sync::atomic::{AtomicU32, Ordering},
    update::Rule,
    view::Access,
};
use povmeter::{NodeHash, NodeSource, ProofSize, Removal, Root, StateVersion, TrieId};

/// The transactions that no thread has prepared or begun.
#[derive(Debug)]
pub(crate) struct Preparations {
    turn: AtomicU32,
    next: AtomicU32,
    transactions: u32,
}

/// How far above the block's transaction preparations begin. The very next transaction is not prepared, because the
/// block would reach it before the preparation is done, and do the same work.
const LEAD: u32 = 2;

impl Preparations {
    pub(crate) fn of(transactions: u32) -> Self {
        Self {
            turn: AtomicU32::new(0),
            next: AtomicU32::new(0),
            transactions,
        }
    }

    /// Whether nothing is to be prepared.
    pub(crate) fn are_none(&self) -> bool {
        self.transactions <= LEAD
    }

    /// Notes that the block executes `index` now.
    #[inline]
    pub(crate) fn begin(&self, index: u32) {
        self.turn.store(index, Ordering::Relaxed);
    }

    /// Ends the preparations when the returned value is dropped, even in a panic: no thread takes another one then.
    pub(crate) fn end_on_drop(&self) -> impl Drop + '_ {
        struct End<'p>(&'p Preparations);
        impl Drop for End<'_> {
            fn drop(&mut self) {
                self.0.begin(u32::MAX);
            }
        }
        End(self)
    }

    /// Returns a transaction to prepare, for the caller alone; `None` if none is left.
    pub(crate) fn take(&self) -> Option<u32> {
        let mut next = self.next.load(Ordering::Relaxed);
        loop {
            let turn = self.turn.load(Ordering::Relaxed);
            let index = next.max(turn.saturating_add(LEAD));
            if index >= self.transactions {
                return None;
            }
            // Relaxed, because only the index goes from thread to thread here.
            let relaxed = Ordering::Relaxed;
            match self
                .next
                .compare_exchange(next, index + 1, relaxed, relaxed)
            {
                Ok(_) => return Some(index),
                Err(found) => next = found,
            }
        }
    }
}

/// The state before the first transaction, for a preparation. Stops at a question that it cannot answer, and at a
/// change.
pub(crate) struct Preparation<'p, P> {
    below: &'p mut Below<P>,
    store: &'p MultiVersion,
    /// Open nested transactions.
    open: usize,
    stopped: bool,
}

impl<'p, P: NodeSource> Preparation<'p, P> {
    pub(crate) fn new(below: &'p mut Below<P>, store: &'p MultiVersion) -> Self {
        Self {
            below,
            store,
            open: 0,
            stopped: false,
        }
    }

    /// Returns the answer of `ask`. Stops if there is none.
    fn ask<T, M>(
        &mut self,
        ask: impl FnOnce(&mut Below<P>, Asker<'_>) -> Result<T, M>,
    ) -> Result<T, Stopped> {
        if self.stopped {
            return self.stop();
        }
        let asker = Asker {
            // The position of the first transaction.
            position: 1,
            store: self.store,
            block: None,
        };
        match ask(self.below, asker) {
            Ok(answer) => Ok(answer),
            Err(_) => self.stop(),
        }
    }

    fn stop<T>(&mut self) -> Result<T, Stopped> {
        self.stopped = true;
        Err(Stopped(()))
    }

    /// Closes a nested transaction, which has changed nothing.
    fn close(&mut self) -> Result<(), Stopped> {
        match self.open.checked_sub(1) {
            Some(open) if !self.stopped => {
                self.open = open;
                Ok(())
            }
            _ => self.stop(),
        }
    }
}

impl<P: NodeSource> Access for Preparation<'_, P> {
    fn current(&mut self) -> &mut dyn Access {
        self
    }

    fn get(&mut self, trie: TrieId<'_>, key: &[u8]) -> Result<Option<&[u8]>, Stopped> {
        self.ask(|below, asker| below.find(asker, asker.store.keys.number(trie, key)))?;
        Ok(self.below.value())
    }

    fn guess(&mut self, trie: TrieId<'_>, key: &[u8]) -> Result<Option<&[u8]>, Stopped> {
        self.get(trie, key)
    }

    fn exists(&mut self, trie: TrieId<'_>, key: &[u8]) -> Result<bool, Stopped> {
        self.ask(|below, asker| below.exists(asker, asker.store.keys.number(trie, key)))
    }

    fn next_key(&mut self, trie: TrieId<'_>, key: &[u8]) -> Result<Option<Vec<u8>>, Stopped> {
        self.ask(|below, asker| {
            below.next_key(asker, asker.store.keys.trie_number(trie), key, None)
        })
    }

    fn start_transaction(&mut self) -> Result<(), Stopped> {
        self.ask(|_, _| Ok::<_, Stopped>(()))?;
        self.open += 1;
        Ok(())
    }

    fn commit_transaction(&mut self) -> Result<(), Stopped> {
        self.close()
    }

    fn rollback_transaction(&mut self) -> Result<(), Stopped> {
        self.close()
    }

    fn is_ahead(&self) -> bool {
        true
    }

    fn is_alone(&self) -> bool {
        false
    }

    fn value_hash(&mut self, _: TrieId<'_>, _: &[u8]) -> Result<Option<NodeHash>, Stopped> {
        self.stop()
    }

    fn write(&mut self, _: TrieId<'_>, _: &[u8], _: Option<&[u8]>) -> Result<(), Stopped> {
        self.stop()
    }

    fn append(&mut self, _: TrieId<'_>, _: &[u8], _: &[u8]) -> Result<(), Stopped> {
        self.stop()
    }

    fn update(
        &mut self,
        _: TrieId<'_>,
        _: &[u8],
        _: (Rule, &[u8]),
        _: bool,
    ) -> Result<bool, Stopped> {
        self.stop()
    }

    fn clear_prefix(
        &mut self,
        _: TrieId<'_>,
        _: &[u8],
        _: Option<u32>,
        _: Option<&[u8]>,
    ) -> Result<Removal, Stopped> {
        self.stop()
    }

    fn proof_size(&mut self) -> Result<ProofSize, Stopped> {
        self.stop()
    }

    fn proof_size_at_most(&mut self, _: u64) -> Result<bool, Stopped> {
        self.stop()
    }

    fn recorded_size(&mut self) -> Result<ProofSize, Stopped> {
        self.stop()
    }

    fn root(&mut self, _: Option<&[u8]>, _: StateVersion) -> Result<Root, Stopped> {
        self.stop()
    }

    fn leave_to_turn(&mut self) -> Result<(), Stopped> {
        self.stop()
    }

    fn wait_for_turn(&mut self) -> Result<(), Stopped> {
        self.stop()
    }
}
