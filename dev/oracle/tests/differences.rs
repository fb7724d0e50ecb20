//! The intended differences from the peer: the behaviour of each side. See `docs/differences.md`.
//!
//! If a test fails in the peer's half, the peer has changed and the difference is gone.

#![allow(clippy::unwrap_used)]

use bytes::Bytes;
use povmeter::{
    Block, BlockError, LoadError, NodeHash, NodePrefix, NodeSource, Root, RootUpdate, SourceError,
    StateVersion::V0 as OUR_V0,
    TrieId::{Child, Top},
};
use povmeter_delta_root::{child_root_key, Blake2b256};
use povmeter_dev_oracle::{ParentNodes, ParentState, TrieEntries};
use povmeter_dev_runtime::{runtime::Hashing, NodeStore};
use povmeter_parallel::Parallel;
use povmeter_substrate::{Calls, SizeSource, StateMachine, StorageRules};
use sp_core::{
    storage::{ChildInfo, StateVersion::V0, TrackedStorageKey},
    H256,
};
use sp_externalities::{with_externalities, Extension, Extensions, Externalities, TransactionType};
use sp_state_machine::{Backend, Ext, OverlayedChanges, Storage, TrieBackend, TrieBackendBuilder};
use sp_trie::{cache::LocalTrieCache, recorder::Recorder};
use std::{
    any::{Any, TypeId},
    collections::{BTreeMap, BTreeSet},
    io,
    num::NonZeroUsize,
    panic::{catch_unwind, AssertUnwindSafe},
    sync::Arc,
};

const POOL: &[u8] = b"pool";
const NULL_NODE: &[u8] = &[0];

pub(crate) type PeerBackend =
    TrieBackend<NodeStore, Hashing, LocalTrieCache<Hashing>, Recorder<Hashing>>;

fn entries(keys: &[&[u8]]) -> TrieEntries {
    let values = (1..).map(|byte| vec![byte; 40]);
    keys.iter().map(|key| key.to_vec()).zip(values).collect()
}

/// A state with 40 bytes under each of these keys, in the top trie and in child `pool`, written in
/// version 0.
pub(crate) fn state(top: &[&[u8]], pool: &[&[u8]]) -> ParentNodes {
    let mut children = BTreeMap::from([(POOL.to_vec(), entries(pool))]);
    children.retain(|_, entries| !entries.is_empty());
    ParentNodes::new(&ParentState {
        top: entries(top),
        children,
        version: V0,
        ..ParentState::default()
    })
}

pub(crate) fn pool() -> ChildInfo {
    ChildInfo::new_default(POOL)
}

/// The peer on `nodes`, and its recorder.
fn peer_on(nodes: NodeStore, root: Root) -> (PeerBackend, Recorder<Hashing>) {
    let recorder = Recorder::default();
    let root = H256(*root.as_bytes());
    let backend = TrieBackendBuilder::new(nodes, root).with_recorder(recorder.clone());
    (backend.build(), recorder)
}

pub(crate) fn peer(nodes: &ParentNodes) -> (PeerBackend, Recorder<Hashing>) {
    peer_on(nodes.parent().nodes, nodes.root())
}

fn recorded_by_peer(recorder: &Recorder<Hashing>) -> BTreeSet<Vec<u8>> {
    recorder.to_storage_proof().into_nodes()
}

fn ours(nodes: &ParentNodes) -> Block<ParentNodes> {
    Block::new(nodes.clone(), nodes.root())
}

fn recorded_by_ours<S: NodeSource>(block: &Block<S>) -> BTreeSet<Vec<u8>> {
    let proof = block.recorded_proof();
    proof.nodes().iter().map(|node| node.to_vec()).collect()
}

/// Returns the result of `call` on our machine.
pub(crate) fn under_ours<R>(
    machine: &mut StateMachine<ParentNodes>,
    call: impl FnOnce(&mut dyn Externalities) -> R,
) -> R {
    machine
        .execute(|| with_externalities(call).unwrap())
        .unwrap()
}

pub(crate) fn machine(nodes: &ParentNodes) -> StateMachine<ParentNodes> {
    StateMachine::new(nodes.clone(), nodes.root(), SizeSource::Estimate)
}

/// The root of the state with these entries, from nothing.
fn root_of(top: TrieEntries) -> Vec<u8> {
    let state = ParentState {
        top,
        version: V0,
        ..ParentState::default()
    };
    ParentNodes::new(&state).root().as_bytes().to_vec()
}

fn panics(call: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(call)).is_err()
}

#[test]
fn the_way_to_a_childs_root_is_recorded_again_after_a_host_rollback() {
    let nodes = state(&[&[0x1a], &[0x1b]], &[&[0x1a]]);
    let (backend, recorder) = peer(&nodes);
    let read = || backend.child_storage(&pool(), &[0x1a]).unwrap().unwrap();
    recorder.start_transaction();
    read();
    let all = recorded_by_peer(&recorder);
    recorder.rollback_transaction().unwrap();
    read();
    let rest = recorded_by_peer(&recorder);
    assert!(rest.is_subset(&all) && rest.len() < all.len());
    let root_node = |node: &Vec<u8>| Blake2b256::hash(node) == nodes.root().node_hash();
    assert!(!rest.iter().any(root_node), "no proof of anything");

    let mut block = ours(&nodes);
    block.start_transaction();
    block.get(Child(POOL), &[0x1a]).unwrap().unwrap();
    block.rollback_transaction().unwrap();
    assert!(recorded_by_ours(&block).is_empty());
    block.get(Child(POOL), &[0x1a]).unwrap().unwrap();
    assert_eq!(recorded_by_ours(&block), all);
}

#[test]
fn a_child_touched_in_a_transaction_left_open_is_forgotten() {
    let nodes = state(&[&[0x1a], &[0x1b]], &[&[0x1a]]);
    let (backend, recorder) = peer(&nodes);
    let mut overlay = OverlayedChanges::<Hashing>::default();
    overlay.enter_runtime().unwrap();
    overlay.start_transaction();
    overlay.set_child_storage(&pool(), vec![0x1b], Some(vec![1]));
    overlay.exit_runtime().unwrap();
    assert_eq!(overlay.children().count(), 1);
    let (root, _) = overlay.storage_root(&backend, V0);
    assert_eq!(root.0, *nodes.root().as_bytes());
    assert!(!recorded_by_peer(&recorder).is_empty());

    let mut block = ours(&nodes);
    block.enter_runtime().unwrap();
    block.start_transaction();
    block.set(Child(POOL), &[0x1b], &[1]).unwrap();
    assert_eq!(block.exit_runtime().unwrap(), 1);
    assert_eq!(block.root(OUR_V0).unwrap().root, nodes.root());
    assert!(recorded_by_ours(&block).is_empty());
}

/// A store that cannot read the node `only`, or any node if `only` is `None`.
#[derive(Clone)]
struct Broken {
    nodes: ParentNodes,
    only: Option<NodeHash>,
}

impl NodeSource for Broken {
    fn node(&self, hash: &NodeHash, prefix: NodePrefix<'_>) -> Result<Option<Bytes>, SourceError> {
        if self.only.is_none_or(|only| only == *hash) {
            return Err(SourceError::new(io::Error::other("the disk is gone")));
        }
        self.nodes.node(hash, prefix)
    }
}

impl Storage<Hashing> for Broken {
    fn get(&self, key: &H256, prefix: hash_db::Prefix<'_>) -> Result<Option<Vec<u8>>, String> {
        let node = self.node(&NodeHash::from(key.0), prefix);
        node.map(|node| node.map(Vec::from))
            .map_err(|error| error.to_string())
    }
}

/// The peer and a block of ours on such a store.
fn on_broken(nodes: &ParentNodes, only: Option<NodeHash>) -> (PeerBackend, Block<Broken>) {
    let nodes = nodes.clone();
    let root = nodes.root();
    let broken = Broken { nodes, only };
    let (backend, _) = peer_on(Arc::new(broken.clone()), root);
    (backend, Block::new(broken, root))
}

#[track_caller]
fn assert_unreadable<T>(result: Result<T, BlockError>) {
    let error = result.map(drop).unwrap_err();
    let unreadable = matches!(error, BlockError::Load(_));
    assert!(
        unreadable && error.to_string().contains("the disk is gone"),
        "{error}"
    );
}

#[test]
fn a_failing_store_yields_no_root() {
    let nodes = state(&[&[0x1a], &[0x1b]], &[]);
    let (backend, mut block) = on_broken(&nodes, None);
    let delta: [(&[u8], Option<&[u8]>); 1] = [(&[0x1a], Some(&[9]))];
    let (root, written) = backend.storage_root(delta.into_iter(), V0);
    assert_eq!(root.0, *nodes.root().as_bytes(), "the old root");
    assert!(written.keys().is_empty());

    block.set(Top, &[0x1a], &[9]).unwrap();
    assert_unreadable(block.root(OUR_V0).map(drop));
    assert_unreadable(block.seal(OUR_V0).map_err(BlockError::from));
}

#[test]
fn a_childs_root_that_cannot_be_read_is_not_taken_for_no_child() {
    let nodes = state(&[&[0x1a], &[0x1b]], &[&[0x1a], &[0x1b]]);
    let (backend, mut block) = on_broken(&nodes, None);
    let delta: [(&[u8], Option<&[u8]>); 1] = [(&[0x1c], Some(&[9]))];
    let (root, empty, _) = backend.child_storage_root(&pool(), delta.into_iter(), V0);
    let alone = TrieEntries::from([(vec![0x1c], vec![9])]);
    assert_eq!(root.0.to_vec(), root_of(alone), "as if the child were new");
    assert!(!empty);

    block.set(Child(POOL), &[0x1c], &[9]).unwrap();
    assert_unreadable(block.root(OUR_V0).map(drop));
}

#[test]
fn a_prefix_that_cannot_be_read_is_not_cleared() {
    let nodes = state(&[&[0x1a], &[0x1b]], &[]);
    let (backend, mut block) = on_broken(&nodes, None);
    let mut overlay = OverlayedChanges::default();
    let mut ext = Ext::new(&mut overlay, &backend, None);
    let cleared = ext.clear_prefix(&[0x1a], None, None);
    assert_eq!((cleared.maybe_cursor, cleared.loops), (None, 0), "all done");
    assert_unreadable(block.clear_prefix(Top, &[0x1a], None, None));

    // The second key cannot be read: the peer deletes the first and reports that none is left.
    let keys: [&[u8]; 2] = [&[0x1a, 1], &[0x1a, 2]];
    let nodes = state(&keys, &[]);
    let mut read = ours(&nodes);
    let mut ways_so_far = |key: &[u8]| {
        read.exists(Top, key).unwrap();
        recorded_by_ours(&read)
    };
    let [first, both] = keys.map(&mut ways_so_far);
    let second = both.difference(&first).next().unwrap();
    let (backend, mut block) = on_broken(&nodes, Some(Blake2b256::hash(second)));
    let mut overlay = OverlayedChanges::default();
    let mut ext = Ext::new(&mut overlay, &backend, None);
    let cleared = ext.clear_prefix(&[0x1a], None, None);
    assert_eq!((cleared.maybe_cursor, cleared.loops), (None, 1));
    assert_unreadable(block.clear_prefix(Top, &[0x1a], None, None));
}

#[test]
fn a_root_of_zeros_is_no_empty_state() {
    let nodes = state(&[&[0x1a]], &[]);
    let zero = Root::from([0; 32]);
    let (backend, _) = peer_on(nodes.parent().nodes, zero);
    let mut overlay = OverlayedChanges::default();
    let cleared = Ext::new(&mut overlay, &backend, None).clear_prefix(&[1], None, None);
    assert_eq!((cleared.maybe_cursor, cleared.loops), (None, 0));
    let mut block = Block::new(nodes, zero);
    let error = block.clear_prefix(Top, &[1], None, None).unwrap_err();
    assert!(matches!(error, BlockError::Load(_)), "{error}");
}

#[test]
fn what_is_no_root_of_a_child_is_an_error() {
    let mut top = entries(&[&[0x1a]]);
    top.insert(child_root_key(POOL), vec![7; 5]);
    let state = ParentState {
        top,
        ..ParentState::default()
    };
    let nodes = ParentNodes::new(&state);
    let (backend, _) = peer(&nodes);
    assert!(panics(|| drop(backend.child_storage(&pool(), &[1]))));
    let error = ours(&nodes).get(Child(POOL), &[1]).map(drop).unwrap_err();
    let BlockError::Load(LoadError::ChildRoot { key, found }) = error else {
        panic!("{error}");
    };
    assert_eq!((key.as_slice(), found), (POOL, 5));
    let error = ours(&nodes).child_root(POOL, povmeter::StateVersion::V1);
    assert!(
        matches!(
            &error,
            Err(BlockError::Load(LoadError::ChildRoot { found: 5, .. }))
        ),
        "{error:?}"
    );
}

#[test]
fn a_root_follows_an_append() {
    let nodes = state(&[&[0x1a]], &[]);
    let (backend, _) = peer(&nodes);
    let mut overlay = OverlayedChanges::default();
    let mut ext = Ext::new(&mut overlay, &backend, None);
    ext.set_storage(vec![0x1b], vec![1]);
    let before = ext.storage_root(V0);
    ext.storage_append(vec![0x2a], vec![9]);
    assert_eq!(
        ext.storage_root(V0),
        before,
        "the appended list is not in it"
    );

    let mut machine = machine(&nodes);
    let (ours_before, ours_after) = under_ours(&mut machine, |ext| {
        ext.set_storage(vec![0x1b], vec![1]);
        let before = ext.storage_root(V0);
        ext.storage_append(vec![0x2a], vec![9]);
        (before, ext.storage_root(V0))
    });
    assert_eq!(ours_before, before);
    let mut all = entries(&[&[0x1a]]);
    all.extend([(vec![0x1b], vec![1]), (vec![0x2a], vec![4, 9])]);
    assert_eq!(ours_after, root_of(all));
}

#[test]
fn nothing_is_appended_to_the_root_of_a_child() {
    let nodes = state(&[&[0x1a]], &[&[0x1a]]);
    let key = child_root_key(POOL);
    let calls = |ext: &mut dyn Externalities| {
        let before = ext.storage(&key);
        ext.set_storage(key.clone(), vec![1]);
        ext.clear_storage(&key);
        let cleared = ext.clear_prefix(&key, None, None);
        assert_eq!((cleared.unique, cleared.maybe_cursor), (0, None));
        assert_eq!(ext.storage(&key), before, "either side refuses");
        ext.storage_append(key.clone(), vec![9]);
        ext.storage(&key) == before
    };
    let (backend, _) = peer(&nodes);
    let mut overlay = OverlayedChanges::default();
    let kept = calls(&mut Ext::new(&mut overlay, &backend, None));
    assert!(!kept, "the peer appends");
    let mut machine = machine(&nodes);
    assert!(under_ours(&mut machine, calls));
    let mut block = ours(&nodes);
    let refused = [
        block.set(Top, &key, &[1]),
        block.remove(Top, &key),
        block.append(Top, &key, &[9]),
    ];
    for refused in refused {
        let error = refused.unwrap_err();
        assert!(matches!(error, BlockError::ChildRootKey { .. }), "{error}");
    }
    let error = block.clear_prefix(Top, &key, None, None).unwrap_err();
    assert!(
        matches!(error, BlockError::ChildRootPrefix { .. }),
        "{error}"
    );
}

#[test]
fn a_childs_root_is_the_one_that_the_storage_root_takes_in() {
    let nodes = state(&[&[0x1a], &[0x1b]], &[&[0x1a], &[0x1b]]);
    let old_root = {
        let mut block = ours(&nodes);
        let root = block.get(Top, &child_root_key(POOL)).unwrap();
        root.unwrap().to_vec()
    };
    let mut changed = entries(&[&[0x1a], &[0x1b]]);
    changed.insert(vec![0x1c], vec![9]);
    let new_root = root_of(changed);
    let roots = |ext: &mut dyn Externalities| {
        ext.set_child_storage(&pool(), vec![0x1c], vec![9]);
        ext.storage_root(V0);
        ext.storage_append(vec![0x2a], vec![9]);
        ext.child_storage_root(&pool(), V0)
    };
    let (backend, _) = peer(&nodes);
    let mut overlay = OverlayedChanges::default();
    let after_root = roots(&mut Ext::new(&mut overlay, &backend, None));
    assert_eq!(after_root, old_root, "the peer answers the parent's");
    assert_eq!(under_ours(&mut machine(&nodes), roots), new_root);

    let asked_before = |ext: &mut dyn Externalities| {
        ext.set_child_storage(&pool(), vec![0x1d], vec![9]);
        let first = ext.child_storage_root(&pool(), V0);
        ext.set_child_storage(&pool(), vec![0x1c], vec![9]);
        ext.clear_child_storage(&pool(), &[0x1d]);
        ext.storage_root(V0);
        [first, ext.child_storage_root(&pool(), V0)]
    };
    let mut overlay = OverlayedChanges::default();
    let [first, after_root] = asked_before(&mut Ext::new(&mut overlay, &backend, None));
    assert_eq!(after_root, first, "the peer answers what it wrote");
    assert_eq!(
        under_ours(&mut machine(&nodes), asked_before),
        [first, new_root]
    );
}

/// With sizes by the rule. With [`SizeSource::Reads`], both record the same.
#[test]
fn asking_for_a_childs_root_records_what_all_changes_need() {
    let nodes = state(&[&[0x1a], &[0x1b]], &[&[0x1a], &[0x1b]]);
    let ask = |ext: &mut dyn Externalities| {
        ext.set_storage(vec![0x1b], vec![9]);
        ext.set_child_storage(&pool(), vec![0x1c], vec![9]);
        ext.child_storage_root(&pool(), V0)
    };
    let (backend, recorder) = peer(&nodes);
    let mut overlay = OverlayedChanges::default();
    let expected = ask(&mut Ext::new(&mut overlay, &backend, None));
    let of_child = recorder.estimate_encoded_size() as u64;
    let written: Vec<_> = overlay.changes().map(|(key, _)| key.clone()).collect();
    assert_eq!(written, [vec![0x1b], child_root_key(POOL)]);

    for (sizes, by_rule) in [(SizeSource::Estimate, true), (SizeSource::Reads, false)] {
        let mut machine = StateMachine::new(nodes.clone(), nodes.root(), sizes);
        assert_eq!(under_ours(&mut machine, ask), expected);
        let found = machine.recorded_size().total_bytes();
        let mut block = ours(&nodes);
        block.set(Top, &[0x1b], &[9]).unwrap();
        block.set(Child(POOL), &[0x1c], &[9]).unwrap();
        let of_all = block.proof_size().unwrap().total_bytes();
        assert!(of_all > of_child, "{of_all} {of_child}");
        assert_eq!(found, if by_rule { of_all } else { of_child });
        let sealed = machine.seal(V0).unwrap().block;
        let keys: Vec<_> = sealed.top_changes().map(|(key, _)| key.to_vec()).collect();
        assert_eq!(keys, written);
    }
}

#[test]
fn a_child_that_was_only_cleared_is_unchanged() {
    let nodes = state(&[&[0x1a]], &[&[0x1a]]);
    let ask = |ext: &mut dyn Externalities| {
        let cleared = ext.clear_child_prefix(&pool(), &[0x77], None, None);
        assert_eq!(cleared.unique, 0);
        ext.child_storage_root(&pool(), V0)
    };
    let (backend, _) = peer(&nodes);
    let mut overlay = OverlayedChanges::default();
    let expected = ask(&mut Ext::new(&mut overlay, &backend, None));
    let written: Vec<_> = overlay.changes().map(|(key, _)| key.clone()).collect();
    assert_eq!(written, [child_root_key(POOL)]);

    let mut machine = machine(&nodes);
    assert_eq!(under_ours(&mut machine, ask), expected);
    let sealed = machine.seal(V0).unwrap().block;
    assert_eq!(sealed.top_changes().len(), 0);
    assert_eq!(sealed.update().root, nodes.root());
}

/// The same on both sides.
#[test]
fn the_root_of_an_unchanged_child_is_read() {
    let nodes = state(&[&[0x1a], &[0x1b]], &[&[0x1a], &[0x1b]]);
    let ask = |ext: &mut dyn Externalities| {
        ext.set_storage(vec![0x1b], vec![9]);
        ext.child_storage_root(&pool(), V0)
    };
    let (backend, recorder) = peer(&nodes);
    let mut overlay = OverlayedChanges::default();
    let expected = ask(&mut Ext::new(&mut overlay, &backend, None));
    let mut machine = machine(&nodes);
    assert_eq!(under_ours(&mut machine, ask), expected);
    let found = machine.recorded_size().total_bytes();
    assert_eq!(found, recorder.estimate_encoded_size() as u64);
}

#[test]
fn an_emptied_trie_counts_the_null_node_whatever_follows() {
    let nodes = state(&[&[0x1a], &[0x1b]], &[]);
    let recorded = |then: Option<&[u8]>| {
        let (backend, recorder) = peer(&nodes);
        let mut delta: Vec<(&[u8], Option<&[u8]>)> = vec![(&[0x1a], None), (&[0x1b], None)];
        delta.extend(then.map(|key| (key, Some(&[9][..]))));
        backend.storage_root(delta.into_iter(), V0);
        recorded_by_peer(&recorder).contains(NULL_NODE)
    };
    assert!(!recorded(None) && recorded(Some(&[0x1c])));
    for then in [None, Some(&[0x1c])] {
        let mut block = ours(&nodes);
        block.remove(Top, &[0x1a]).unwrap();
        block.remove(Top, &[0x1b]).unwrap();
        then.map_or(Ok(()), |key| block.set(Top, key, &[9]))
            .unwrap();
        block.proof_size().unwrap();
        assert!(recorded_by_ours(&block).contains(NULL_NODE), "{then:?}");
    }
}

#[test]
fn a_key_deleted_twice_is_dirty_once() {
    let nodes = state(&[&[0x1a], &[0x1b]], &[]);
    let (backend, _) = peer(&nodes);
    let mut overlay = OverlayedChanges::<Hashing>::default();
    overlay.set_storage(vec![0x1a], None);
    overlay.storage_root(&backend, V0);
    overlay.set_storage(vec![0x1a], None);
    let (_, cached) = overlay.storage_root(&backend, V0);
    assert!(!cached, "the peer computes anew");

    let mut block = ours(&nodes);
    block.remove(Top, &[0x1a]).unwrap();
    let place = |update: &RootUpdate| update.inserted().next().unwrap().encoded.as_ptr();
    let first = place(block.root(OUR_V0).unwrap());
    block.remove(Top, &[0x1a]).unwrap();
    let again = place(block.root(OUR_V0).unwrap());
    assert_eq!(first, again, "ours has the same update still");
}

#[test]
fn what_benchmarks_call_is_there() {
    let nodes = state(&[&[0x1a]], &[]);
    let calls: [fn(&mut dyn Externalities); 5] = [
        |ext| _ = ext.proof_size(),
        |ext| ext.commit(),
        |ext| _ = ext.read_write_count(),
        |ext| ext.reset_read_write_count(),
        |ext| _ = ext.get_read_and_written_keys(),
    ];
    for (index, call) in calls.into_iter().enumerate() {
        let (backend, _) = peer(&nodes);
        let mut overlay = OverlayedChanges::default();
        overlay.enter_runtime().unwrap();
        let mut ext = Ext::new(&mut overlay, &backend, None);
        assert!(panics(|| call(&mut ext)), "call {index}");
    }

    let mut machine = machine(&nodes);
    machine.track_accesses();
    under_ours(&mut machine, |ext| {
        ext.storage(&[0x1a]).unwrap();
        ext.set_storage(vec![0x1b], vec![1]);
        assert!(ext.proof_size().unwrap() > 40);
        // A write counts once it is committed. A read of a value that the block holds never counts.
        ext.storage(&[0x1b]).unwrap();
        ext.next_storage_key(&[0x1a]).unwrap();
        assert_eq!(ext.read_write_count(), (1, 1, 0, 0));
        ext.commit();
        assert_eq!(ext.read_write_count(), (1, 1, 1, 0));
        assert_eq!(
            ext.proof_size(),
            Some(0),
            "a new block on what was committed"
        );
        assert_eq!(ext.storage(&[0x1b]), Some(vec![1]));
        ext.set_storage(vec![0x1c], vec![1]);
        ext.wipe();
        assert_eq!(ext.storage(&[0x1b]), None);
        assert_eq!(ext.storage(&[0x1c]), None);
        ext.storage(&[0x1a]).unwrap();
    });
}

#[test]
fn accesses_are_counted_as_benchmarks_count_them() {
    let nodes = state(&[&[0x1a], &[0x1b], &[0x1c; 40]], &[&[0x1a]]);
    let mut machine = machine(&nodes);
    machine.track_accesses();
    under_ours(&mut machine, |ext| {
        ext.storage(&[0x1a]);
        ext.storage_hash(&[0x1a]);
        ext.exists_storage(&[0x1b]);
        ext.storage(&[0x1c; 40]);
        ext.storage(&[[0x1c; 32].as_slice(), &[0x1d; 8]].concat());
        ext.child_storage(&pool(), &[0x1a]);
        assert_eq!(ext.read_write_count(), (5, 1, 0, 0));
        // Appending to a list that the block does not hold reads the list.
        ext.storage_append(vec![0x1d], vec![1]);
        ext.storage_append(vec![0x1d], vec![2]);
        assert_eq!(ext.read_write_count(), (6, 1, 0, 0));
        ext.storage_start_transaction();
        ext.clear_storage(&[0x1b]);
        ext.storage_rollback_transaction().unwrap();
        ext.storage(&[0x1b]);
        assert_eq!(ext.read_write_count(), (6, 2, 0, 0));
        ext.set_child_storage(&pool(), vec![0x1a], vec![1]);
        ext.commit();
        assert_eq!(ext.read_write_count(), (6, 2, 2, 0));
        ext.set_storage(vec![0x1d], vec![1]);
        ext.commit();
        assert_eq!(ext.read_write_count(), (6, 2, 2, 1));
        let prefix = vec![0x1c; 32];
        let expected = vec![
            (vec![0x1a], 1, 0, false),
            (vec![0x1b], 1, 0, false),
            (prefix, 2, 0, false),
            (vec![0x1d], 1, 1, false),
        ];
        let mut rows = ext.get_read_and_written_keys();
        // The child's key of the same name is counted under the same prefix.
        assert_eq!(rows[0], (vec![0x1a], 2, 1, false));
        rows[0] = expected[0].clone();
        assert_eq!(rows, expected);

        // Keys on the whitelist do not count, from the next reset on.
        ext.set_whitelist(vec![TrackedStorageKey::new(vec![0x1a])]);
        assert_eq!(ext.read_write_count(), (6, 2, 2, 1));
        ext.reset_read_write_count();
        ext.storage(&[0x1a]);
        ext.storage(&[0x1b]);
        assert_eq!(ext.read_write_count(), (1, 0, 0, 0));
        assert_eq!(ext.get_whitelist().len(), 1);
        ext.wipe();
        assert_eq!(ext.read_write_count(), (0, 0, 0, 0));
    });
}

/// Counts the opened and the rolled back transactions that are reported to it.
struct Told(Arc<std::sync::Mutex<(u32, u32)>>);

impl Extension for Told {
    fn as_mut_any(&mut self) -> &mut dyn Any {
        self
    }

    fn type_id(&self) -> TypeId {
        TypeId::of::<Self>()
    }

    fn start_transaction(&mut self, _: TransactionType) {
        self.0.lock().unwrap().0 += 1;
    }

    fn rollback_transaction(&mut self, _: TransactionType) {
        self.0.lock().unwrap().1 += 1;
    }
}

#[test]
fn extensions_are_told_of_what_the_runtime_left_open() {
    let nodes = state(&[&[0x1a]], &[]);
    let told = Arc::new(std::sync::Mutex::new((0, 0)));
    let (backend, _) = peer(&nodes);
    let mut overlay = OverlayedChanges::default();
    let mut extensions = Extensions::new();
    extensions.register(Told(told.clone()));
    overlay.enter_runtime().unwrap();
    Ext::new(&mut overlay, &backend, Some(&mut extensions)).storage_start_transaction();
    overlay.exit_runtime().unwrap();
    assert_eq!(*told.lock().unwrap(), (1, 0));

    let told = Arc::new(std::sync::Mutex::new((0, 0)));
    let mut machine = machine(&nodes);
    machine.register_extension(Told(told.clone()));
    under_ours(&mut machine, |ext| ext.storage_start_transaction());
    assert_eq!(*told.lock().unwrap(), (1, 1));
}

/// Calls that hide the extension before or within the transaction that they leave open.
struct Hiding(Arc<std::sync::Mutex<(u32, u32)>>);

impl Hiding {
    fn hide(ext: &mut dyn Externalities) {
        let hidden = ext.deregister_extension_by_type_id(TypeId::of::<Told>());
        assert!(hidden.is_ok());
    }
}

impl Calls for Hiding {
    type Output = ();

    fn call(&self, index: u32) {
        let call = |ext: &mut dyn Externalities| {
            if index == 0 {
                Self::hide(ext);
            }
            ext.storage_start_transaction();
            if index == 1 {
                Self::hide(ext);
            }
        };
        with_externalities(call).unwrap();
    }

    fn extensions(&self) -> Extensions {
        let mut extensions = Extensions::new();
        extensions.register(Told(self.0.clone()));
        extensions
    }
}

#[test]
fn extensions_that_the_runtime_hides_are_told_nothing() {
    let nodes = state(&[&[0x1a]], &[]);
    let told = || Hiding(Arc::new(std::sync::Mutex::new((0, 0))));
    let expected = [(0, 0), (1, 0), (1, 1)];
    for (index, expected) in (0..).zip(expected) {
        let calls = told();
        let mut machine = machine(&nodes);
        machine.register_extension(Told(calls.0.clone()));
        machine.execute(|| calls.call(index)).unwrap();
        assert_eq!(*calls.0.lock().unwrap(), expected, "call {index}");
    }
    let calls = told();
    let one = Parallel::new(NonZeroUsize::MIN);
    let rules = StorageRules::new();
    machine(&nodes)
        .execute_in_parallel(one, &nodes, &rules, &calls, 3)
        .unwrap();
    // Besides, the host opens a transaction for each call, and takes it back, because extensions stay with their thread.
    assert_eq!(*calls.0.lock().unwrap(), (3 + 2, 3 + 1));
}
