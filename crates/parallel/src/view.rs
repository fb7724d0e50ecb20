//! The state as a transaction sees it.

use crate::{executor::Stopped, update::Rule, Addition};
use povmeter::{NodeHash, ProofSize, Removal, Root, StateVersion, TrieId};

/// What a view does, on a block and in a speculation.
pub(crate) trait Access {
    /// What answers from here on: the block, for a speculation that has waited for its turn.
    fn current(&mut self) -> &mut dyn Access;
    fn get(&mut self, trie: TrieId<'_>, key: &[u8]) -> Result<Option<&[u8]>, Stopped>;
    fn guess(&mut self, trie: TrieId<'_>, key: &[u8]) -> Result<Option<&[u8]>, Stopped>;
    fn exists(&mut self, trie: TrieId<'_>, key: &[u8]) -> Result<bool, Stopped>;
    fn value_hash(&mut self, trie: TrieId<'_>, key: &[u8]) -> Result<Option<NodeHash>, Stopped>;
    fn next_key(&mut self, trie: TrieId<'_>, key: &[u8]) -> Result<Option<Vec<u8>>, Stopped>;
    fn write(&mut self, trie: TrieId<'_>, key: &[u8], value: Option<&[u8]>) -> Result<(), Stopped>;
    fn append(&mut self, trie: TrieId<'_>, key: &[u8], element: &[u8]) -> Result<(), Stopped>;
    /// Returns whether the rule changed the value, if it is `told`.
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
    /// The root of the top trie, or of a child.
    fn root(&mut self, child: Option<&[u8]>, version: StateVersion) -> Result<Root, Stopped>;
    fn is_ahead(&self) -> bool;
    fn is_alone(&self) -> bool;
    fn leave_to_turn(&mut self) -> Result<(), Stopped>;
    fn wait_for_turn(&mut self) -> Result<(), Stopped>;
    fn start_transaction(&mut self) -> Result<(), Stopped>;
    fn commit_transaction(&mut self) -> Result<(), Stopped>;
    fn rollback_transaction(&mut self) -> Result<(), Stopped>;
}

/// The state as one transaction of a block sees it: with the effects of all transactions before it, and
/// its own.
///
/// The calls are those of [`Block`](povmeter::Block), and count what they count there. Each may return
/// [`Stopped`]: in a speculation, when the answer is not known yet; at the transaction's turn, when the
/// block has no answer. The execution must end then. All later calls return it too.
pub struct View<'v>(&'v mut dyn Access);

impl<'v> View<'v> {
    pub(crate) fn new(access: &'v mut dyn Access) -> Self {
        Self(access)
    }
}

impl View<'_> {
    /// The value at `key`.
    ///
    /// # Errors
    /// [`Stopped`], as all calls.
    #[inline]
    pub fn get(&mut self, trie: TrieId<'_>, key: &[u8]) -> Result<Option<&[u8]>, Stopped> {
        self.0.current().get(trie, key)
    }

    /// A likely value at `key`: in a speculation one that may be another at the turn, and the transaction
    /// does not depend on it. Counts what [`Self::get`] counts. For a value that the transaction only
    /// changes, in a way that does not depend on it, by [`Self::update`] or [`Self::try_update`]. At the
    /// transaction's turn it is the value.
    ///
    /// # Errors
    /// [`Stopped`].
    #[inline]
    pub fn guess(&mut self, trie: TrieId<'_>, key: &[u8]) -> Result<Option<&[u8]>, Stopped> {
        self.0.current().guess(trie, key)
    }

    /// Whether there is a value at `key`. Depends on that alone: a transaction before may change the value.
    ///
    /// # Errors
    /// [`Stopped`].
    #[inline]
    pub fn exists(&mut self, trie: TrieId<'_>, key: &[u8]) -> Result<bool, Stopped> {
        self.0.current().exists(trie, key)
    }

    /// Blake2b-256 of the value at `key`. [Waits for the turn](Self::wait_for_turn).
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

    /// The first key after `key` that has a value.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn next_key(&mut self, trie: TrieId<'_>, key: &[u8]) -> Result<Option<Vec<u8>>, Stopped> {
        self.0.current().next_key(trie, key)
    }

    /// Calls `look` with the keys that begin with `prefix`, in order, without `prefix` itself, until it
    /// returns `false`. As calls of [`Self::next_key`], the one past the last key included.
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
    /// [`Stopped`], also for a key of the top trie under which a child's root lies.
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

    /// Changes the value at `key` by a rule, as a read and a write would. Updates of several transactions
    /// do not conflict. If the rule refuses, nothing changes.
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

    /// As [`Self::update`], and returns whether the rule changed the value. The transaction then depends
    /// on the answer, and still not on the value.
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

    /// Adds to the counter at `key`, if the sum is within its bounds; returns whether it is. As
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

    /// Adds to the counter at `key`; changes nothing if the sum is not within its bounds. As
    /// [`Self::update`].
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
    /// As [`Self::set`].
    pub fn clear_prefix(
        &mut self,
        trie: TrieId<'_>,
        prefix: &[u8],
        limit: Option<u32>,
        cursor: Option<&[u8]>,
    ) -> Result<Removal, Stopped> {
        self.0.current().clear_prefix(trie, prefix, limit, cursor)
    }

    /// The size of the storage proof if the block ended here. [Waits for the turn](Self::wait_for_turn),
    /// because it depends on all that earlier transactions read.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn proof_size(&mut self) -> Result<ProofSize, Stopped> {
        self.0.current().proof_size()
    }

    /// Whether the size of the storage proof is at most `bytes`, if the block ended here. A speculation goes
    /// on with the answer for the last known size, and is repeated at its turn if the answer is another one
    /// then. Inside a transaction of the view it is left to its turn.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn proof_size_at_most(&mut self, bytes: u64) -> Result<bool, Stopped> {
        self.0.current().proof_size_at_most(bytes)
    }

    /// The size of what was recorded so far, without what the root would add.
    /// [Waits for the turn](Self::wait_for_turn).
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn recorded_size(&mut self) -> Result<ProofSize, Stopped> {
        self.0.current().recorded_size()
    }

    /// The root of the state after the changes so far. [Waits for the turn](Self::wait_for_turn).
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn root(&mut self, version: StateVersion) -> Result<Root, Stopped> {
        self.0.current().root(None, version)
    }

    /// The root of the child trie `child` after the changes so far; [`Root::EMPTY`] if there is none.
    /// [Waits for the turn](Self::wait_for_turn).
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn child_root(&mut self, child: &[u8], version: StateVersion) -> Result<Root, Stopped> {
        self.0.current().root(Some(child), version)
    }

    /// Waits until all transactions before are committed. The execution then goes on with the block itself,
    /// and [`Self::is_ahead`] returns `false`, if all that it read so far still has the same answers. For
    /// questions that only the block can answer; those of a view wait by themselves. Does nothing at the
    /// turn.
    ///
    /// A speculation that is far ahead of its turn, has an open transaction of the view, or read something
    /// else, stops, and the transaction is executed at its turn.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn wait_for_turn(&mut self) -> Result<(), Stopped> {
        self.0.current().wait_for_turn()
    }

    /// Stops an execution ahead; the transaction is executed again, at its turn. For what an executor cannot
    /// do ahead. Does nothing at the turn.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn leave_to_turn(&mut self) -> Result<(), Stopped> {
        self.0.current().leave_to_turn()
    }

    /// Whether this is an execution ahead of the turn. What a transaction does must not depend on it; by
    /// which calls it does it may.
    #[inline]
    pub fn is_ahead(&self) -> bool {
        self.0.is_ahead()
    }

    /// Whether this transaction is executed on the block, and no later one will be executed ahead, so that nobody needs
    /// predictions or updates in place of values. As with [`Self::is_ahead`], an executor may use other calls then.
    #[inline]
    pub fn is_alone(&self) -> bool {
        self.0.is_alone()
    }

    /// Opens a nested transaction. One that is still open in the end is rolled back.
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

    /// Closes the innermost transaction and undoes its changes. What it read stays in the proof.
    ///
    /// # Errors
    /// [`Stopped`], also if none is open.
    #[inline]
    pub fn rollback_transaction(&mut self) -> Result<(), Stopped> {
        self.0.current().rollback_transaction()
    }
}
