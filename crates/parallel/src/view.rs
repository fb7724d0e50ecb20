//! The state as a transaction sees it.

use crate::{executor::Stopped, update::Rule, Addition};
use povmeter::{NodeHash, ProofSize, Removal, Root, StateVersion, TrieId};

/// The calls of a view, on a block and in an execution ahead.
pub(crate) trait Access {
    /// Returns the access that answers from here on: the block, if an execution ahead has waited for its turn.
    fn current(&mut self) -> &mut dyn Access;
    fn get(&mut self, trie: TrieId<'_>, key: &[u8]) -> Result<Option<&[u8]>, Stopped>;
    fn guess(&mut self, trie: TrieId<'_>, key: &[u8]) -> Result<Option<&[u8]>, Stopped>;
    fn exists(&mut self, trie: TrieId<'_>, key: &[u8]) -> Result<bool, Stopped>;
    fn value_hash(&mut self, trie: TrieId<'_>, key: &[u8]) -> Result<Option<NodeHash>, Stopped>;
    fn next_key(&mut self, trie: TrieId<'_>, key: &[u8]) -> Result<Option<Vec<u8>>, Stopped>;
    fn write(&mut self, trie: TrieId<'_>, key: &[u8], value: Option<&[u8]>) -> Result<(), Stopped>;
    fn append(&mut self, trie: TrieId<'_>, key: &[u8], element: &[u8]) -> Result<(), Stopped>;
    /// If `told`, returns whether the rule changed the value, and the transaction depends on that answer.
    fn update(
        &mut self,
        trie: TrieId<'_>,
        key: &[u8],
        rule: (Rule, &[u8]),
        told: bool,
    ) -> Result<bool, Stopped>;
    fn clear_prefix(
        &mut self,
        trie: TrieId<'_>,
        prefix: &[u8],
        limit: Option<u32>,
        cursor: Option<&[u8]>,
    ) -> Result<Removal, Stopped>;
    fn proof_size(&mut self) -> Result<ProofSize, Stopped>;
    fn proof_size_at_most(&mut self, bytes: u64) -> Result<bool, Stopped>;
    fn recorded_size(&mut self) -> Result<ProofSize, Stopped>;
    /// Returns the root of the top trie, or of a child trie.
    fn root(&mut self, child: Option<&[u8]>, version: StateVersion) -> Result<Root, Stopped>;
    fn is_ahead(&self) -> bool;
    fn is_alone(&self) -> bool;
    fn leave_to_turn(&mut self) -> Result<(), Stopped>;
    fn wait_for_turn(&mut self) -> Result<(), Stopped>;
    fn start_transaction(&mut self) -> Result<(), Stopped>;
    fn commit_transaction(&mut self) -> Result<(), Stopped>;
    fn rollback_transaction(&mut self) -> Result<(), Stopped>;
}

/// The state as one transaction of a block sees it: with the effects of all transactions before it, and its own.
///
/// The calls are those of [`Block`](povmeter::Block), and count the same. Each may return [`Stopped`]: ahead of the
/// turn, if the answer is not known yet; at the transaction's turn, if the block fails or refuses the call. Then the
/// execution must end. All later calls return it too.
pub struct View<'v>(&'v mut dyn Access);

impl<'v> View<'v> {
    pub(crate) fn new(access: &'v mut dyn Access) -> Self {
        Self(access)
    }
}

impl View<'_> {
    /// Returns the value at `key`.
    ///
    /// # Errors
    /// [`Stopped`], as all calls.
    #[inline]
    pub fn get(&mut self, trie: TrieId<'_>, key: &[u8]) -> Result<Option<&[u8]>, Stopped> {
        self.0.current().get(trie, key)
    }

    /// Returns a likely value at `key`: ahead of the turn, the value at the turn may be another one, and the
    /// transaction does not depend on it. At the turn, returns the value. Counts what [`Self::get`] counts. For a
    /// value that the transaction only changes, by [`Self::update`] or [`Self::try_update`], in a way that does not
    /// depend on the value.
    ///
    /// # Errors
    /// [`Stopped`].
    #[inline]
    pub fn guess(&mut self, trie: TrieId<'_>, key: &[u8]) -> Result<Option<&[u8]>, Stopped> {
        self.0.current().guess(trie, key)
    }

    /// Returns whether there is a value at `key`. The transaction depends on that alone: a transaction before it may
    /// change the value.
    ///
    /// # Errors
    /// [`Stopped`].
    #[inline]
    pub fn exists(&mut self, trie: TrieId<'_>, key: &[u8]) -> Result<bool, Stopped> {
        self.0.current().exists(trie, key)
    }

    /// Returns the Blake2b-256 hash of the value at `key`. [Waits for the turn](Self::wait_for_turn).
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn value_hash(
        &mut self,
        trie: TrieId<'_>,
        key: &[u8],
    ) -> Result<Option<NodeHash>, Stopped> {
        self.0.current().value_hash(trie, key)
    }

    /// Returns the first key after `key` that has a value.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn next_key(&mut self, trie: TrieId<'_>, key: &[u8]) -> Result<Option<Vec<u8>>, Stopped> {
        self.0.current().next_key(trie, key)
    }

    /// Calls `look` with the keys that begin with `prefix`, except `prefix` itself, in order, until it returns
    /// `false`. Counts as the calls of [`Self::next_key`], including the call that passes the last key.
    ///
    /// `look` gets the view, so that it can make calls of its own, and the key. It returns whether to go on, or the
    /// [`Stopped`] of a call that it made:
    ///
    /// ```
    /// # use povmeter::TrieId::Top;
    /// # use povmeter_parallel::{Stopped, View};
    /// # fn sum(view: &mut View<'_>) -> Result<usize, Stopped> {
    /// let mut bytes = 0;
    /// view.for_each_key(Top, b"account/", |view, key| {
    ///     bytes += view.get(Top, key)?.map_or(0, <[u8]>::len);
    ///     Ok(bytes < 1_000_000)
    /// })?;
    /// # Ok(bytes)
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn for_each_key(
        &mut self,
        trie: TrieId<'_>,
        prefix: &[u8],
        mut look: impl FnMut(&mut Self, &[u8]) -> Result<bool, Stopped>,
    ) -> Result<(), Stopped> {
        let mut next = self.next_key(trie, prefix)?;
        while let Some(key) = next.filter(|key| key.starts_with(prefix)) {
            if !look(self, &key)? {
                break;
            }
            next = self.next_key(trie, &key)?;
        }
        Ok(())
    }

    /// Sets the value at `key`.
    ///
    /// # Errors
    /// [`Stopped`], also for a key of the top trie that holds the root of a child trie.
    #[inline]
    pub fn set(&mut self, trie: TrieId<'_>, key: &[u8], value: &[u8]) -> Result<(), Stopped> {
        self.0.current().write(trie, key, Some(value))
    }

    /// Deletes the value at `key`, if there is one.
    ///
    /// # Errors
    /// As [`Self::set`].
    #[inline]
    pub fn remove(&mut self, trie: TrieId<'_>, key: &[u8]) -> Result<(), Stopped> {
        self.0.current().write(trie, key, None)
    }

    /// Appends the encoded `element` to the SCALE list at `key`. Appends of several transactions do not
    /// conflict.
    ///
    /// # Errors
    /// As [`Self::set`].
    #[inline]
    pub fn append(&mut self, trie: TrieId<'_>, key: &[u8], element: &[u8]) -> Result<(), Stopped> {
        self.0.current().append(trie, key, element)
    }

    /// Changes the value at `key` by a rule, as a read and a write would. If the rule refuses, nothing changes.
    /// Updates of several transactions do not conflict.
    ///
    /// # Errors
    /// As [`Self::set`].
    #[inline]
    pub fn update(
        &mut self,
        trie: TrieId<'_>,
        key: &[u8],
        rule: Rule,
        operand: &[u8],
    ) -> Result<(), Stopped> {
        self.0
            .current()
            .update(trie, key, (rule, operand), false)
            .map(drop)
    }

    /// As [`Self::update`], and returns whether the rule changed the value. The transaction then depends on this
    /// answer, but not on the value.
    ///
    /// # Errors
    /// As [`Self::set`].
    #[inline]
    pub fn try_update(
        &mut self,
        trie: TrieId<'_>,
        key: &[u8],
        rule: Rule,
        operand: &[u8],
    ) -> Result<bool, Stopped> {
        self.0.current().update(trie, key, (rule, operand), true)
    }

    /// Adds to the counter at `key` if the sum is within the bounds, and returns whether it is. As
    /// [`Self::try_update`].
    ///
    /// # Errors
    /// As [`Self::set`].
    pub fn try_add(
        &mut self,
        trie: TrieId<'_>,
        key: &[u8],
        addition: Addition,
    ) -> Result<bool, Stopped> {
        let (rule, operand) = addition.as_update();
        self.try_update(trie, key, rule, &operand)
    }

    /// Adds to the counter at `key` if the sum is within the bounds. As [`Self::update`].
    ///
    /// # Errors
    /// As [`Self::set`].
    pub fn add(&mut self, trie: TrieId<'_>, key: &[u8], addition: Addition) -> Result<(), Stopped> {
        let (rule, operand) = addition.as_update();
        self.update(trie, key, rule, &operand)
    }

    /// Deletes the keys that begin with `prefix`, as [`Block::clear_prefix`](povmeter::Block::clear_prefix)
    /// does. [Waits for the turn](Self::wait_for_turn).
    ///
    /// # Errors
    /// [`Stopped`], also for a prefix of the top trie that covers the roots of child tries.
    pub fn clear_prefix(
        &mut self,
        trie: TrieId<'_>,
        prefix: &[u8],
        limit: Option<u32>,
        cursor: Option<&[u8]>,
    ) -> Result<Removal, Stopped> {
        self.0.current().clear_prefix(trie, prefix, limit, cursor)
    }

    /// Returns the size of the storage proof if the block ended here. [Waits for the turn](Self::wait_for_turn),
    /// because the size depends on all reads of earlier transactions.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn proof_size(&mut self) -> Result<ProofSize, Stopped> {
        self.0.current().proof_size()
    }

    /// Returns whether the size of the storage proof would be at most `bytes` if the block ended here. An execution
    /// ahead continues with the answer for the last known size, and is repeated at its turn if the answer differs
    /// then. Inside a transaction of the view, it is left to its turn, and so is a transaction that asks again and again:
    /// each question holds all writes before it.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn proof_size_at_most(&mut self, bytes: u64) -> Result<bool, Stopped> {
        self.0.current().proof_size_at_most(bytes)
    }

    /// Returns the size of the nodes recorded so far, without those that the root computation would add. [Waits for
    /// the turn](Self::wait_for_turn).
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn recorded_size(&mut self) -> Result<ProofSize, Stopped> {
        self.0.current().recorded_size()
    }

    /// Returns the root of the state after the changes so far. [Waits for the turn](Self::wait_for_turn).
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn root(&mut self, version: StateVersion) -> Result<Root, Stopped> {
        self.0.current().root(None, version)
    }

    /// Returns the root of the child trie `child` after the changes so far; [`Root::EMPTY`] if there is no such trie.
    /// [Waits for the turn](Self::wait_for_turn).
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn child_root(&mut self, child: &[u8], version: StateVersion) -> Result<Root, Stopped> {
        self.0.current().root(Some(child), version)
    }

    /// Waits until all transactions before this one are committed. If all reads so far still have the same answers,
    /// the execution then continues on the block itself, and [`Self::is_ahead`] returns `false`. For questions that
    /// only the block can answer; the calls of a view that ask them wait by themselves. Does nothing at the turn.
    ///
    /// An execution ahead stops, and the transaction is executed at its turn, if it is far ahead of its turn, has an
    /// open transaction of the view, or has read other values than the block has.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn wait_for_turn(&mut self) -> Result<(), Stopped> {
        self.0.current().wait_for_turn()
    }

    /// Stops an execution ahead; the transaction is executed again at its turn. For work that an executor cannot do
    /// ahead. Does nothing at the turn.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn leave_to_turn(&mut self) -> Result<(), Stopped> {
        self.0.current().leave_to_turn()
    }

    /// Returns whether this is an execution ahead of the turn. The effects of a transaction must not depend on it;
    /// the choice of calls that have the same effects may.
    #[inline]
    pub fn is_ahead(&self) -> bool {
        self.0.is_ahead()
    }

    /// Returns whether this transaction is executed on the block and no later one will be executed ahead. Then no
    /// transaction needs predictions, or updates in place of values. As with [`Self::is_ahead`], an executor may use
    /// other calls then.
    #[inline]
    pub fn is_alone(&self) -> bool {
        self.0.is_alone()
    }

    /// Opens a nested transaction. If it is still open at the end, it is rolled back.
    ///
    /// # Errors
    /// [`Stopped`].
    #[inline]
    pub fn start_transaction(&mut self) -> Result<(), Stopped> {
        self.0.current().start_transaction()
    }

    /// Closes the innermost transaction and keeps its changes.
    ///
    /// # Errors
    /// [`Stopped`], also if none is open.
    #[inline]
    pub fn commit_transaction(&mut self) -> Result<(), Stopped> {
        self.0.current().commit_transaction()
    }

    /// Closes the innermost transaction and undoes its changes. Nodes that it read stay in the proof.
    ///
    /// # Errors
    /// [`Stopped`], also if none is open.
    #[inline]
    pub fn rollback_transaction(&mut self) -> Result<(), Stopped> {
        self.0.current().rollback_transaction()
    }
}
