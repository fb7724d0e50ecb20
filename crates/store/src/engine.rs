//! The common part of all stores: it checks updates and keeps the history of states. A database needs
//! to offer only the few calls of [`Engine`].

use crate::history::{KeptState, KeptStates, StateId};
use crate::journal::{diff_key, history_record, state_key, state_record, StateDiff, HISTORY_KEY};
use crate::net::{net_changes, net_references, NetChange};
use crate::StoreError;
use povmeter_delta_root::{NodeHash, Root, RootUpdate};
use std::collections::{BTreeMap, BTreeSet};

/// A database under a store. Its records are few; a journal is as large as the changes of its block,
/// the others are small.
pub(crate) trait Engine {
    /// The most references that the engine can count for one node.
    const REFERENCE_LIMIT: u64;

    /// The kept states after the last write.
    fn kept(&self) -> &KeptStates;

    /// The same, to change them after a write. A set of them is not part of a write, because a copy would cost more
    /// than a block if there are many states.
    fn kept_mut(&mut self) -> &mut KeptStates;

    /// What the engine knows of the references to `hash`, earlier writes included.
    fn held(&self, hash: &NodeHash) -> Result<Held, StoreError>;

    /// The record with the key `key`, if there is one.
    fn record(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;

    /// Applies `batch` as a whole or not at all, after all earlier writes. The caller has checked the batch, and
    /// changes the kept states after it.
    fn write(&mut self, batch: Batch) -> Result<(), StoreError>;
}

/// How many references to a node an engine holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Held {
    /// Exactly this many.
    Count(u64),
    /// At least one; the engine counts them but does not return the count.
    #[cfg_attr(not(feature = "parity-db"), allow(dead_code, reason = "others tell"))]
    Some,
}

/// One write of an engine.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// Changes of nodes, each hash once.
    pub(crate) nodes: Vec<NetChange>,
    /// Records to set, or to remove where the value is `None`; each key once.
    pub(crate) records: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

impl Batch {
    /// Makes a write of `nodes` that also sets the record about all states, which have the base `base` and give the
    /// name `next` to the next one.
    fn new(nodes: Vec<NetChange>, base: &KeptState, next: u64) -> Self {
        let records = vec![(HISTORY_KEY.to_vec(), Some(history_record(base, next)))];
        Self { nodes, records }
    }

    /// Makes a write of that record alone, about the states `kept`.
    pub(crate) fn of_states(kept: &KeptStates) -> Self {
        Self::new(Vec::new(), kept.base(), kept.next())
    }

    /// Bytes of the nodes and records, for the check of the free disk space.
    #[cfg(any(feature = "parity-db", feature = "rocksdb"))]
    pub(crate) fn bytes(&self) -> usize {
        let nodes: usize = self.nodes.iter().map(NetChange::bytes).sum();
        let records = self.records.iter().filter_map(|(_, value)| value.as_ref());
        nodes + records.map(Vec::len).sum::<usize>()
    }

    /// Removes the records of the state `id`.
    fn forget(&mut self, id: StateId) {
        self.records.push((state_key(id), None));
        self.records.push((diff_key(id), None));
    }
}

/// The write that makes an empty database a store at the state without entries.
pub(crate) fn first_write() -> (Batch, KeptStates) {
    let kept = KeptStates::only(0, 0, Root::EMPTY);
    (Batch::of_states(&kept), kept)
}

/// The journal of the kept state `id`.
pub(crate) fn diff(engine: &impl Engine, id: StateId) -> Result<StateDiff, StoreError> {
    let kept = engine.kept();
    kept.expect(id)?;
    if id == kept.base().id {
        return Err(StoreError::BaseState { id });
    }
    let found = engine.record(&diff_key(id))?;
    let diff = found.as_deref().and_then(StateDiff::read);
    diff.ok_or_else(|| StoreError::DamagedRecord {
        key: format!("diff {id}"),
        bytes: found.map_or(0, |found| found.len()),
    })
}

/// Moves a store with one state to the state after `update`.
pub(crate) fn commit(engine: &mut impl Engine, update: &RootUpdate) -> Result<(), StoreError> {
    let kept = engine.kept();
    if kept.len() > 1 {
        let kept = kept.len();
        return Err(StoreError::SeveralStates { kept });
    }
    let parent = *kept.base();
    if update.parent != parent.root {
        return Err(StoreError::ParentRoot {
            expected: parent.root,
            found: update.parent,
        });
    }
    let next = KeptStates::only(kept.next(), parent.height + 1, update.root);
    let changes = net_changes(update)?;
    check(engine, &changes)?;
    check_root(engine, update.root, &changes)?;
    engine.write(Batch::new(changes, next.base(), next.next()))?;
    *engine.kept_mut() = next;
    Ok(())
}

/// Commits `update` on the kept state `parent`.
pub(crate) fn keep(
    engine: &mut impl Engine,
    parent: StateId,
    update: &RootUpdate,
) -> Result<StateId, StoreError> {
    let parent = *engine.kept().expect(parent)?;
    if update.parent != parent.root {
        return Err(StoreError::KeptRoot {
            state: parent.id,
            expected: parent.root,
            found: update.parent,
        });
    }
    let changes = net_changes(update)?;
    check(engine, &changes)?;
    check_root(engine, update.root, &changes)?;
    let kept = engine.kept();
    let state = KeptState {
        id: StateId(kept.next()),
        parent: Some(parent.id),
        root: update.root,
        height: parent.height + 1,
    };
    let diff = StateDiff::of(&changes).record();
    let mut changes = changes;
    changes.retain(|change| matches!(change, NetChange::Gain { .. }));
    let mut batch = Batch::new(changes, kept.base(), kept.next() + 1);
    let named = state_record(parent.id, state.height, state.root);
    batch.records.push((state_key(state.id), Some(named)));
    batch.records.push((diff_key(state.id), Some(diff)));
    engine.write(batch)?;
    engine.kept_mut().add(state);
    Ok(state.id)
}

/// Drops all states but `base` and its descendants.
pub(crate) fn prune(engine: &mut impl Engine, base: StateId) -> Result<Vec<KeptState>, StoreError> {
    let kept = engine.kept();
    let base = *kept.expect(base)?;
    let old_base = *kept.base();
    // From the old base to the new one.
    let mut path: Vec<_> = kept.ancestry(base.id).copied().collect();
    path.reverse();
    let on_path: BTreeSet<_> = path.iter().map(|state| state.id).collect();
    let above = &path[..path.len() - 1];
    let forks = above.iter().flat_map(|state| kept.children(state.id));
    let forks = forks.filter(|state| !on_path.contains(&state.id));
    let off_path: Vec<_> = forks.flat_map(|fork| kept.descendants(fork.id)).collect();
    let mut gone = [above, off_path.as_slice()].concat();
    if gone.is_empty() {
        return Ok(gone);
    }
    gone.sort_unstable_by_key(|state| state.id);
    let mut lost = Lost::default();
    // The old base has no journal.
    for state in &path[1..] {
        lost.add(diff(engine, state.id)?.losses);
    }
    for state in &off_path {
        lost.add(diff(engine, state.id)?.gains);
    }
    let mut batch = Batch::new(lost.changes(), &base, kept.next());
    check(engine, &batch.nodes)?;
    let without_records = gone.iter().map(|state| state.id).chain([base.id]);
    for id in without_records.filter(|id| *id != old_base.id) {
        batch.forget(id);
    }
    engine.write(batch)?;
    let kept = engine.kept_mut();
    kept.drop_others(&gone);
    kept.set_base(base);
    Ok(gone)
}

/// Drops `state` and its descendants.
pub(crate) fn discard(
    engine: &mut impl Engine,
    state: StateId,
) -> Result<Vec<KeptState>, StoreError> {
    let kept = engine.kept();
    kept.expect(state)?;
    if state == kept.base().id {
        return Err(StoreError::BaseState { id: state });
    }
    let gone = kept.descendants(state);
    let mut lost = Lost::default();
    for state in &gone {
        lost.add(diff(engine, state.id)?.gains);
    }
    let mut batch = Batch::new(lost.changes(), kept.base(), kept.next());
    check(engine, &batch.nodes)?;
    gone.iter().for_each(|state| batch.forget(state.id));
    engine.write(batch)?;
    engine.kept_mut().drop_others(&gone);
    Ok(gone)
}

/// The references that nodes lose, added up.
#[derive(Default)]
struct Lost(BTreeMap<NodeHash, u64>);

impl Lost {
    fn add(&mut self, references: Vec<(NodeHash, u64)>) {
        for (hash, references) in references {
            let lost = self.0.entry(hash).or_default();
            *lost = lost.saturating_add(references);
        }
    }

    fn changes(self) -> Vec<NetChange> {
        let losses = self.0.into_iter();
        losses
            .map(|(hash, references)| NetChange::Loss { hash, references })
            .collect()
    }
}

/// Checks that `engine` can apply `changes`.
fn check<E: Engine>(engine: &E, changes: &[NetChange]) -> Result<(), StoreError> {
    for change in changes {
        if let Held::Count(held) = engine.held(change.hash())? {
            change.count_after(held, E::REFERENCE_LIMIT)?;
        }
    }
    Ok(())
}

/// Checks that the store has the node of `root` after `changes`, as far as the engine knows.
fn check_root(engine: &impl Engine, root: Root, changes: &[NetChange]) -> Result<(), StoreError> {
    let hash = root.node_hash();
    let net = net_references(changes, &hash);
    let stays = match engine.held(&hash)? {
        _ if root == Root::EMPTY => true,
        Held::Count(held) => i128::from(held) + net > 0,
        Held::Some => true,
    };
    stays.then_some(()).ok_or(StoreError::MissingRoot { root })
}

/// Implements the traits of a store for an engine, by the functions above.
macro_rules! engine_store {
    ($store:ident) => {
        impl $crate::NodeStore for $store {
            fn root(&self) -> povmeter_delta_root::Root {
                self.kept.newest().root
            }

            fn commit(
                &mut self,
                update: &povmeter_delta_root::RootUpdate,
            ) -> Result<(), $crate::StoreError> {
                $crate::engine::commit(self, update)
            }
        }

        impl $crate::StateHistory for $store {
            fn states(&self) -> &$crate::KeptStates {
                &self.kept
            }

            fn keep(
                &mut self,
                parent: $crate::StateId,
                update: &povmeter_delta_root::RootUpdate,
            ) -> Result<$crate::StateId, $crate::StoreError> {
                $crate::engine::keep(self, parent, update)
            }

            fn prune(
                &mut self,
                base: $crate::StateId,
            ) -> Result<Vec<$crate::KeptState>, $crate::StoreError> {
                $crate::engine::prune(self, base)
            }

            fn discard(
                &mut self,
                state: $crate::StateId,
            ) -> Result<Vec<$crate::KeptState>, $crate::StoreError> {
                $crate::engine::discard(self, state)
            }
        }
    };
}
pub(crate) use engine_store;

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(crate) mod tests {
    use super::*;
    use std::cell::Cell;

    /// So many that a look at each pair of states would take minutes.
    const MANY: u64 = 300_000;

    #[cfg(any(feature = "parity-db", feature = "rocksdb"))]
    #[test]
    fn a_batch_has_the_bytes_of_what_it_writes() {
        let hash = NodeHash::from([1; 32]);
        let gain = NetChange::Gain {
            hash,
            references: 1,
            encoded: vec![0; 10].into(),
        };
        let record = |value| (b"key".to_vec(), value);
        let batch = Batch {
            nodes: vec![gain],
            records: vec![record(Some(vec![0; 5])), record(None)],
        };
        assert_eq!(batch.bytes(), 32 + 10 + 5);
    }

    /// An engine without nodes, whose states all have the same root.
    struct Chain {
        kept: KeptStates,
        /// Journals read, writes, and records removed.
        read: Cell<usize>,
        writes: usize,
        forgotten: usize,
    }

    impl Chain {
        /// A chain of `length` states after the base, and as many forks on the base.
        fn with_forks(length: u64) -> Self {
            let mut kept = KeptStates::only(0, 0, Root::EMPTY);
            for id in 1..=2 * length {
                kept.add(KeptState {
                    id: StateId(id),
                    parent: Some(StateId(if id <= length { id - 1 } else { 0 })),
                    root: Root::EMPTY,
                    height: if id <= length { id } else { 1 },
                });
            }
            Self {
                kept,
                read: Cell::new(0),
                writes: 0,
                forgotten: 0,
            }
        }
    }

    impl Engine for Chain {
        const REFERENCE_LIMIT: u64 = 1;

        fn kept(&self) -> &KeptStates {
            &self.kept
        }

        fn kept_mut(&mut self) -> &mut KeptStates {
            &mut self.kept
        }

        fn held(&self, _: &NodeHash) -> Result<Held, StoreError> {
            Ok(Held::Count(0))
        }

        fn record(&self, _: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
            self.read.set(self.read.get() + 1);
            Ok(Some(StateDiff::default().record()))
        }

        fn write(&mut self, batch: Batch) -> Result<(), StoreError> {
            let removed = batch.records.iter().filter(|(_, value)| value.is_none());
            self.forgotten += removed.count();
            self.writes += 1;
            Ok(())
        }
    }

    /// Keeps a state on each of `parents`, in this order.
    pub(crate) fn keep_on(engine: &mut impl Engine, parents: impl IntoIterator<Item = u64>) {
        for parent in parents {
            let update = RootUpdate {
                parent: Root::EMPTY,
                root: Root::EMPTY,
                children: Vec::new(),
                nodes: std::iter::empty::<povmeter_delta_root::NodeChange<'_>>().collect(),
            };
            keep(engine, StateId(parent), &update).unwrap();
        }
    }

    #[test]
    fn many_states_are_pruned() {
        let mut chain = Chain::with_forks(MANY);
        let gone = prune(&mut chain, StateId(MANY)).unwrap();
        assert_eq!(gone.len() as u64, 2 * MANY);
        assert_eq!(chain.kept.len(), 1);
        assert_eq!(chain.kept.base().id, StateId(MANY));
        // All but the old base have two records.
        assert_eq!(chain.forgotten as u64, 4 * MANY);
    }

    /// Each block is kept, and becomes the base later, with a fork beside it.
    #[test]
    fn many_states_are_kept_and_pruned_one_by_one() {
        let mut chain = Chain::with_forks(0);
        // State `2 n + 1` and its fork `2 n + 2` are on state `2 n - 1`.
        let parents = (0..MANY).map(|block| (2 * block).saturating_sub(1));
        keep_on(&mut chain, parents.flat_map(|parent| [parent; 2]));
        assert_eq!(chain.writes as u64, 2 * MANY);
        assert_eq!(chain.read.get(), 0);
        for block in 0..MANY {
            let gone = prune(&mut chain, StateId(2 * block + 1)).unwrap();
            // The parent, and the fork beside this block.
            assert_eq!(gone.len(), 2);
        }
        assert_eq!(chain.kept.len(), 1);
        assert_eq!(chain.writes as u64, 3 * MANY);
        // A journal of each block and each fork, which is removed with the record that names the state.
        assert_eq!(chain.read.get() as u64, 2 * MANY);
        assert_eq!(chain.forgotten as u64, 4 * MANY);
    }

    #[test]
    fn many_states_are_discarded() {
        let mut chain = Chain::with_forks(MANY);
        let gone = discard(&mut chain, StateId(1)).unwrap();
        let ids: Vec<_> = gone.iter().map(|state| state.id.0).collect();
        assert_eq!(ids, (1..=MANY).collect::<Vec<_>>());
        assert_eq!(chain.kept.len() as u64, 1 + MANY);
        assert_eq!(chain.kept.iter().nth(1).unwrap().id, StateId(MANY + 1));
        assert_eq!(chain.forgotten as u64, 2 * MANY);
    }

    #[test]
    fn many_states_stay_when_few_are_dropped() {
        let mut chain = Chain::with_forks(MANY);
        assert_eq!(discard(&mut chain, StateId(2 * MANY)).unwrap().len(), 1);
        let gone = prune(&mut chain, StateId(1)).unwrap();
        // The base and the other forks.
        assert_eq!(gone.len() as u64, MANY);
        assert_eq!(chain.kept.len() as u64, MANY);
        assert!(chain.kept.iter().map(|state| state.id.0).eq(1..=MANY));
    }
}
