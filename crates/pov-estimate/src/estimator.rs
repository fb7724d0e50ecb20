//! The estimate: counts the nodes that the root will need for dirty keys.
//!
//! The rule itself is [`RootNeeds`]. The estimator also remembers keys: each distinct key of the block
//! costs one walk through the trie the first time, and a look-up after that.

use alloc::vec::Vec;
use povmeter_delta_root::{
    Fate, LoadError, NodeSource, Observer, PathCache, RootError, RootNeeds, Search, ShadowNode,
    ShadowState, TrieHandle,
};

/// What the estimator knows about a key.
#[derive(Clone, Copy, Debug, Default)]
struct KnownKey {
    /// Where the key's entry is in the parent trie, if it has one and the key was ever counted.
    entry: Option<ShadowNode>,
    /// Whether the path to the key is counted.
    counted: bool,
    marked: LastMark,
}

/// How an entry was last marked in the shadow trie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum LastMark {
    /// Not at all: a written entry needs no mark, because it is as live as an untouched one.
    #[default]
    Never,
    /// As deleted, at this number of rollbacks. Until the next rollback, the merges that follow from the
    /// mark stay counted.
    Deleted(u32),
    /// As live again.
    Restored,
}

impl KnownKey {
    /// Notes the mark for `fate` at the number `rollbacks`, and returns the entry to mark; `None` if the
    /// key has no entry, or its mark is up to date.
    #[inline]
    fn take_mark(&mut self, fate: Fate, rollbacks: u32) -> Option<ShadowNode> {
        let entry = self.entry?;
        let marked = match (self.marked, fate) {
            (LastMark::Never, Fate::Written | Fate::Untouched) => return None,
            (_, Fate::Written | Fate::Untouched) => LastMark::Restored,
            (_, Fate::Deleted) => LastMark::Deleted(rollbacks),
        };
        // The number of rollbacks saturates, so at its maximum equal numbers prove nothing.
        let same = self.marked == marked && fate == Fate::Deleted && rollbacks != u32::MAX;
        self.marked = marked;
        (!same).then_some(entry)
    }
}

/// A key of the top trie or of a child: its trie, and its index there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeyId {
    Key(TrieHandle, u32),
    /// The key of the top trie under which the root of this child trie lies.
    RootOf(TrieHandle),
}

impl KeyId {
    /// The trie that the key is in.
    fn trie(self) -> TrieHandle {
        match self {
            Self::Key(trie, _) => trie,
            Self::RootOf(_) => TrieHandle::TOP,
        }
    }
}

/// The keys of one trie that a boundary has seen, by index, and the key of the trie's root.
#[derive(Debug, Default)]
struct TrieKeys {
    known: Vec<KnownKey>,
    root: KnownKey,
}

/// Finds the nodes that the root computation will need for changed keys, each once.
#[derive(Debug, Default)]
pub struct Estimator {
    tries: Vec<TrieKeys>,
    needs: RootNeeds,
    counted: Vec<KeyId>,
    /// Where the last boundary began.
    began: EstimatorMark,
    /// Whether the last boundary was neither settled nor taken back.
    is_open: bool,
    /// How often counts were taken back.
    rollbacks: u32,
    /// Whether there was a boundary.
    used: bool,
}

/// A point to which an estimator's counts can be rolled back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EstimatorMark {
    counted: usize,
    left_out: usize,
}

/// A changed key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangedKey<'k> {
    /// The trie it is in.
    pub trie: TrieHandle,
    /// The number that the caller gives the key within its trie: always the same, and dense from zero,
    /// because it is an index into a table.
    pub index: u32,
    /// The key itself.
    pub key: &'k [u8],
    /// What the block's changes do to it now.
    pub fate: Fate,
}

/// A boundary in progress; see [`Estimator::boundary`].
#[derive(Debug)]
#[must_use = "what the keys need is counted by `settle`"]
pub struct Boundary<'e, 'k> {
    estimator: &'e mut Estimator,
    search: Option<Search<'k, (KeyId, Fate)>>,
}

/// The fewest keys for which a joint search is worth its memory.
const MANY_KEYS: usize = 24;

impl Estimator {
    /// Forgets everything; keeps memory for up to `most` keys of the top trie.
    pub fn reset(&mut self, most: usize) {
        let Self {
            tries,
            needs,
            counted,
            began,
            is_open,
            rollbacks,
            used,
        } = self;
        tries.truncate(TrieHandle::TOP.index() + 1);
        for TrieKeys { known, root } in tries {
            known.clear();
            known.shrink_to(most);
            *root = KnownKey::default();
        }
        needs.reset(most);
        counted.clear();
        counted.shrink_to(most);
        *began = EstimatorMark::default();
        *is_open = false;
        *rollbacks = 0;
        *used = false;
    }

    /// Whether there was a boundary since the estimator was made or reset. Without one there are no marks in the shadow
    /// tries.
    pub fn is_used(&self) -> bool {
        self.used
    }

    /// Returns `error` of the root computation, or if it is about a node that [`Boundary::settle_for_root`] did without,
    /// that the source lacks the node.
    pub fn explained(&self, error: RootError) -> RootError {
        self.needs.explained(error)
    }

    /// Begins a boundary for about this number of `keys`; [`Boundary::settle`] ends it. The paths to many
    /// keys are walked together, because that is faster.
    ///
    /// A boundary that failed has to be [taken back](Self::take_back) before any other call. One that ended in a panic of
    /// the source is taken back here, or its marks in `state` would stay.
    pub fn boundary<'k, S: NodeSource>(
        &mut self,
        state: &mut ShadowState<S>,
        keys: usize,
    ) -> Boundary<'_, 'k> {
        if self.is_open {
            self.take_back(state);
        }
        self.used = true;
        self.is_open = true;
        self.needs.begin();
        self.began = self.mark();
        Boundary {
            estimator: self,
            search: (keys >= MANY_KEYS).then(Search::default),
        }
    }

    #[inline]
    fn known(&mut self, id: KeyId) -> &mut KnownKey {
        let (trie, index) = match id {
            KeyId::Key(trie, index) => (trie, Some(index as usize)),
            KeyId::RootOf(trie) => (trie, None),
        };
        if self.tries.len() <= trie.index() {
            self.tries.resize_with(trie.index() + 1, TrieKeys::default);
        }
        let keys = &mut self.tries[trie.index()];
        let Some(index) = index else {
            return &mut keys.root;
        };
        if keys.known.len() <= index {
            keys.known.resize(index + 1, KnownKey::default());
        }
        &mut keys.known[index]
    }

    /// Marks a key whose entry is known; `false` if the path to it has to be counted first.
    #[inline]
    fn mark_known<S: NodeSource>(
        &mut self,
        state: &mut ShadowState<S>,
        id: KeyId,
        fate: Fate,
    ) -> bool {
        let rollbacks = self.rollbacks;
        let known = self.known(id);
        if !known.counted && fate != Fate::Untouched {
            return false;
        }
        if let Some(at) = known.take_mark(fate, rollbacks) {
            self.needs.mark(state, id.trie(), at, fate);
        }
        true
    }

    fn mark_found<S: NodeSource>(
        &mut self,
        state: &mut ShadowState<S>,
        (id, fate): (KeyId, Fate),
        entry: Option<ShadowNode>,
    ) {
        let rollbacks = self.rollbacks;
        let known = self.known(id);
        known.counted = true;
        known.entry = entry;
        let marked = known.take_mark(fate, rollbacks);
        self.counted.push(id);
        if let Some(at) = marked {
            self.needs.mark(state, id.trie(), at, fate);
        }
    }

    /// The current point, for [`Self::roll_back`].
    pub fn mark(&self) -> EstimatorMark {
        EstimatorMark {
            counted: self.counted.len(),
            left_out: self.needs.left_out(),
        }
    }

    /// Takes back the counts of keys since `mark`. The keys' marks in the shadow trie stay until the caller
    /// hands in the keys again with their fate after the rollback, as it does with the overlay's dirty keys.
    pub fn roll_back(&mut self, mark: EstimatorMark) {
        self.rollbacks = self.rollbacks.saturating_add(1);
        while self.counted.len() > mark.counted {
            if let Some(id) = self.counted.pop() {
                self.known(id).counted = false;
            }
        }
    }

    /// Forgets the nodes that roots since `mark` did without, because what these roots counted was taken back. From then on
    /// no size needs these nodes.
    pub fn forget_left_out(&mut self, mark: EstimatorMark) {
        self.needs.forget_left_out(mark.left_out);
    }

    /// Undoes the last boundary, whether it failed or was only a peek. The caller has to take back what
    /// the observer counted.
    ///
    /// Since that boundary, nothing else may have been done with the estimator, nor anything that leaves marks in
    /// `state`.
    pub fn take_back<S: NodeSource>(&mut self, state: &mut ShadowState<S>) {
        self.is_open = false;
        self.needs.take_back(state);
        self.roll_back(self.began);
    }
}

impl<'k> Boundary<'_, 'k> {
    /// Marks what the block's changes do to a key now, and counts the path to it.
    ///
    /// # Errors
    /// [`LoadError`] if a node on the path to this key, or to one handed in before, can't be loaded.
    /// The boundary has to be [taken back](Estimator::take_back).
    ///
    /// # Panics
    /// If the trie's handle belongs to another state, which has more tries open.
    #[inline]
    pub fn mark_key<S: NodeSource>(
        &mut self,
        state: &mut ShadowState<S>,
        changed: ChangedKey<'k>,
        observer: &mut impl PathCache,
    ) -> Result<(), LoadError> {
        let id = KeyId::Key(changed.trie, changed.index);
        if self.estimator.mark_known(state, id, changed.fate) {
            return Ok(());
        }
        self.count(state, changed, observer)
    }

    /// Does what [`Self::mark_key`] does, for a key that is not counted.
    #[inline(never)]
    fn count<S: NodeSource>(
        &mut self,
        state: &mut ShadowState<S>,
        changed: ChangedKey<'k>,
        observer: &mut impl PathCache,
    ) -> Result<(), LoadError> {
        let ChangedKey {
            trie,
            index,
            key,
            fate,
        } = changed;
        let tag = (KeyId::Key(trie, index), fate);
        if let Some(entry) = observer.known(trie, key) {
            self.estimator.mark_found(state, tag, entry);
            return Ok(());
        }
        let Some(search) = &mut self.search else {
            let entry = state.find(trie, key, observer)?;
            self.estimator.mark_found(state, tag, entry);
            return Ok(());
        };
        search.push(state, trie, key, tag)?;
        if search.is_full() {
            self.find_waiting(state, observer)?;
        }
        Ok(())
    }

    /// Whether trie `child` has no entry in the parent state, or the keys handed in so far delete all
    /// its entries.
    ///
    /// # Errors
    /// [`LoadError`] if a node on the path to a key handed in before can't be loaded. The boundary has
    /// to be [taken back](Estimator::take_back).
    ///
    /// # Panics
    /// If the handle belongs to another state, which has more tries open.
    pub fn is_bare<S: NodeSource>(
        &mut self,
        state: &mut ShadowState<S>,
        child: TrieHandle,
        observer: &mut impl Observer,
    ) -> Result<bool, LoadError> {
        self.find_waiting(state, observer)?;
        Ok(state.is_bare(child))
    }

    /// Does what [`Self::mark_key`] does, for the key of the top trie that holds the root of `child`.
    ///
    /// # Errors
    /// [`LoadError`] if a node on the path can't be loaded; [take back](Estimator::take_back) the
    /// boundary then.
    ///
    /// # Panics
    /// If the handle belongs to another state, which has more tries open.
    pub fn mark_root_of<S: NodeSource>(
        &mut self,
        state: &mut ShadowState<S>,
        child: TrieHandle,
        fate: Fate,
        observer: &mut impl PathCache,
    ) -> Result<(), LoadError> {
        let id = KeyId::RootOf(child);
        if !self.estimator.mark_known(state, id, fate) {
            let entry = state.find_root_of(child, observer)?;
            self.estimator.mark_found(state, (id, fate), entry);
        }
        Ok(())
    }

    /// Ends the boundary: counts the nodes that the root computation will merge, which it needs besides
    /// the paths to the keys.
    ///
    /// # Errors
    /// [`LoadError`] if a node can't be loaded; [take back](Estimator::take_back) the boundary then.
    pub fn settle<S: NodeSource>(
        mut self,
        state: &mut ShadowState<S>,
        observer: &mut impl Observer,
    ) -> Result<(), LoadError> {
        self.find_waiting(state, observer)?;
        self.estimator.needs.settle(state, observer)?;
        self.estimator.is_open = false;
        Ok(())
    }

    /// As [`Self::settle`], before the root is computed: does without nodes that the source lacks and that the root may
    /// not need. If there are such nodes, no later boundary can be settled, because its counts would lack them.
    ///
    /// # Errors
    /// [`LoadError`] as for [`Self::settle`], except for these nodes.
    pub fn settle_for_root<S: NodeSource>(
        mut self,
        state: &mut ShadowState<S>,
        observer: &mut impl Observer,
    ) -> Result<(), LoadError> {
        self.find_waiting(state, observer)?;
        self.estimator.needs.settle_for_root(state, observer)?;
        self.estimator.is_open = false;
        Ok(())
    }

    /// Ends the boundary after marking all keys, and counts nothing besides the paths to them. The boundary has to be
    /// [taken back](Estimator::take_back) before the next one.
    ///
    /// # Errors
    /// [`LoadError`] as for [`Self::settle`].
    pub fn leave_unsettled<S: NodeSource>(
        mut self,
        state: &mut ShadowState<S>,
        observer: &mut impl Observer,
    ) -> Result<(), LoadError> {
        self.find_waiting(state, observer)
    }

    fn find_waiting<S: NodeSource>(
        &mut self,
        state: &mut ShadowState<S>,
        observer: &mut impl Observer,
    ) -> Result<(), LoadError> {
        if let Some(search) = &mut self.search {
            while let Some((tag, entry)) = search.next_found(state, observer)? {
                self.estimator.mark_found(state, tag, entry);
            }
        }
        Ok(())
    }
}
