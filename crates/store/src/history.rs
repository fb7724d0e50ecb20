//! Several states in one store: the set of kept states, and its changes.
//!
//! The kept states form a tree. Its root is the *base*, the oldest state; every other state is a
//! block on its parent. With `c(X, n)` for the number of places of node `n` in state `X`, and `gain`
//! and `loss` for the places that a block adds to and removes from its parent:
//!
//! ```text
//! store holds of n    c(base, n) + sum of gain(X, n) over all other kept states X
//! keep X on P         add gain(X); write X's gains and losses into its journal
//! discard X           discard X's children; subtract gain(X); drop its journal
//! prune to X, P base  discard P's other children; subtract loss(X); X is the base, without a journal
//! ```
//! A gain is a place in its state, so the store holds exactly the nodes of the kept states. All steps
//! of one call, journals included, are one write of the engine.

use crate::StoreError;
use povmeter_delta_root::{NodeSource, Root, RootUpdate};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Names a state that a store keeps. Unlike a root it is unique: two forks may arrive at one root. A
/// store does not give a name twice, and a name stays valid when the store is opened again. But if a crash loses
/// commits, the names of their states are given again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StateId(pub(crate) u64);

impl StateId {
    /// Returns the number of the name. Later states have larger numbers.
    pub const fn number(self) -> u64 {
        self.0
    }

    /// The name with this number, for a caller that has kept the number. Whether a store keeps such a state is known
    /// when the name is used. Keep the root of the state, too, and compare it: after a crash that lost commits, the
    /// number may name another state.
    pub const fn from_number(number: u64) -> Self {
        Self(number)
    }
}

impl fmt::Display for StateId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A state that a store keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeptState {
    /// Name of the state.
    pub id: StateId,
    /// State on which it was committed; `None` for the base, whose parent is no longer kept.
    pub parent: Option<StateId>,
    /// Root of the state.
    pub root: Root,
    /// Number of commits between the state without entries and this state. A store of format 1 did
    /// not record it, so there the count starts at the state with which the store was upgraded.
    pub height: u64,
}

/// The states that a store keeps, in the order in which they were committed. The first is the base.
/// There is always one.
///
/// A chain may have many states, if no block is final for long. So adding, finding and dropping a state costs the
/// logarithm of their number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptStates {
    base: KeptState,
    /// All states but the base. Later states have larger names.
    others: BTreeMap<StateId, KeptState>,
    /// The parent and the name of each of `others`.
    children: BTreeSet<(StateId, StateId)>,
    /// Name of the next state.
    next: u64,
}

impl KeptStates {
    /// Makes the set of one state, which is the base.
    pub(crate) fn only(id: u64, height: u64, root: Root) -> Self {
        let base = KeptState {
            id: StateId(id),
            parent: None,
            root,
            height,
        };
        Self {
            base,
            others: BTreeMap::new(),
            children: BTreeSet::new(),
            next: id + 1,
        }
    }

    /// Makes the same set with `next` as the name of the next state.
    pub(crate) fn with_next(self, next: u64) -> Self {
        Self { next, ..self }
    }

    /// Name of the next state.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// The oldest state, of which all others are descendants.
    pub fn base(&self) -> &KeptState {
        &self.base
    }

    /// The state that was committed last.
    pub fn newest(&self) -> &KeptState {
        let newest = self.others.last_key_value();
        newest.map_or(&self.base, |(_, state)| state)
    }

    /// All states, in the order in which they were committed.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &KeptState> {
        std::iter::once(&self.base).chain(self.others.values())
    }

    /// Number of states; at least one.
    #[allow(clippy::len_without_is_empty, reason = "there is always a state")]
    pub fn len(&self) -> usize {
        1 + self.others.len()
    }

    /// The state `id`, if it is kept.
    pub fn get(&self, id: StateId) -> Option<&KeptState> {
        if id == self.base.id {
            return Some(&self.base);
        }
        self.others.get(&id)
    }

    /// The newest state with the root `root`, if one is kept.
    pub fn of_root(&self, root: Root) -> Option<&KeptState> {
        self.iter().rev().find(|state| state.root == root)
    }

    /// The states committed on `id`.
    pub fn children(&self, id: StateId) -> impl Iterator<Item = &KeptState> {
        let children = self
            .children
            .range((id, StateId(0))..=(id, StateId(u64::MAX)));
        children.filter_map(|(_, child)| self.others.get(child))
    }

    /// The states from `id` up to the base, both included; none if `id` is not kept.
    pub fn ancestry(&self, id: StateId) -> impl Iterator<Item = &KeptState> {
        let parent = |state: &&KeptState| state.parent.and_then(|parent| self.get(parent));
        std::iter::successors(self.get(id), parent)
    }

    /// The state `id` and its descendants, in the order in which they were committed. Looks at no other states.
    pub(crate) fn descendants(&self, id: StateId) -> Vec<KeptState> {
        let mut found: Vec<KeptState> = self.get(id).copied().into_iter().collect();
        let mut visited = 0;
        while let Some(parent) = found.get(visited).map(|state| state.id) {
            found.extend(self.children(parent));
            visited += 1;
        }
        found.sort_unstable_by_key(|state| state.id);
        found
    }

    /// The state `id`.
    ///
    /// # Errors
    /// [`StoreError::UnknownState`] if it is not kept.
    pub(crate) fn expect(&self, id: StateId) -> Result<&KeptState, StoreError> {
        self.get(id).ok_or(StoreError::UnknownState { id })
    }

    /// Adds a state, which is built on one of these.
    pub(crate) fn add(&mut self, state: KeptState) {
        self.children
            .extend(state.parent.map(|parent| (parent, state.id)));
        self.others.insert(state.id, state);
        self.next = self.next.max(state.id.0 + 1);
    }

    /// Drops the states `gone`.
    pub(crate) fn drop_others(&mut self, gone: &[KeptState]) {
        for state in gone {
            self.others.remove(&state.id);
            if let Some(parent) = state.parent {
                self.children.remove(&(parent, state.id));
            }
        }
    }

    /// Makes the state `base` the base, after all states that are not descendants of it were dropped.
    pub(crate) fn set_base(&mut self, base: KeptState) {
        self.drop_others(&[base]);
        let parent = None;
        self.base = KeptState { parent, ..base };
    }
}

/// A store that keeps several states: forks, and the states before the newest until they are pruned.
///
/// ```
/// use povmeter_delta_root::{Blake2b256, NodeChange, Root, RootUpdate};
/// use povmeter_store::{MemoryStore, StateHistory};
///
/// // Not a node of a trie, but a store does not look.
/// let block = |parent: Root, name: &'static [u8]| {
///     let hash = Blake2b256::hash(name);
///     let node = NodeChange { path: &[], odd_nibble: None, hash, references: 1, encoded: name };
///     let root = Root::from(*hash.as_bytes());
///     RootUpdate { parent, root, children: vec![], nodes: [node].into_iter().collect() }
/// };
/// let mut store = MemoryStore::new();
/// let genesis = store.states().base().id;
/// let update = block(Root::EMPTY, b"one");
/// let one = store.keep(genesis, &update)?;
/// let fork = store.keep(genesis, &block(Root::EMPTY, b"fork"))?;
/// let two = store.keep(one, &block(update.root, b"two"))?;
/// assert_eq!(store.kept_roots().len(), 4);
///
/// // Block one is final: the state before it and the fork are gone.
/// let gone = store.prune(one)?;
/// assert_eq!(gone.iter().map(|state| state.id).collect::<Vec<_>>(), [genesis, fork]);
/// assert_eq!(store.states().newest().id, two);
/// # Ok::<_, povmeter_store::StoreError>(())
/// ```
pub trait StateHistory: NodeSource {
    /// The states that the store keeps.
    fn states(&self) -> &KeptStates;

    /// Commits `update` on the kept state `parent`, which stays. Returns the name of the new state.
    ///
    /// # Errors
    /// If `parent` is not kept, and those of [`NodeStore::commit`](crate::NodeStore::commit). The
    /// store trusts that the update was made from the parent's trie: it compares removed references
    /// only with those of the whole store. After an error the store is unchanged.
    ///
    /// # Cost
    /// That of a commit, plus a journal of 40 bytes for each change.
    fn keep(&mut self, parent: StateId, update: &RootUpdate) -> Result<StateId, StoreError>;

    /// Drops all states but `base` and its descendants, with the nodes that only the dropped states
    /// have. Returns the dropped states. Prune to a block that became final: this drops its ancestors
    /// and their other branches.
    ///
    /// # Errors
    /// If `base` is not kept, the database is damaged or failed, or the disk is nearly full. After an error the store is
    /// unchanged.
    ///
    /// # Cost
    /// Proportional to the changes of the blocks that are dropped, and of `base` and its ancestors, however many
    /// states stay.
    fn prune(&mut self, base: StateId) -> Result<Vec<KeptState>, StoreError>;

    /// Drops `state` and its descendants, with the nodes that only they have. Returns the dropped
    /// states. Discard a block that was abandoned.
    ///
    /// # Errors
    /// If `state` is the base or not kept, the database is damaged or failed, or the disk is nearly full. After an error
    /// the store is unchanged.
    ///
    /// # Cost
    /// Proportional to the changes of the blocks that are dropped, however many states stay.
    fn discard(&mut self, state: StateId) -> Result<Vec<KeptState>, StoreError>;

    /// The roots of the kept states, in the order in which they were committed.
    fn kept_roots(&self) -> Vec<Root> {
        self.states().iter().map(|state| state.root).collect()
    }
}
