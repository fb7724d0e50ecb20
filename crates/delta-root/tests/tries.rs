//! Compares shadow tries and root updates with plain maps and trie-db.

#![allow(clippy::unwrap_used)]

use bytes::Bytes;
use hash_db::{AsHashDB, HashDB};
use memory_db::{HashKey, MemoryDB};
use povmeter_delta_root::{
    child_root, child_root_in_key_order, child_root_key, child_root_of_loaded, state_update,
    state_update_in_key_order, state_update_of_loaded, Blake2b256, Changes, DecodeError,
    KeyChanges, LayoutV0, LayoutV1, LoadError, NodeChange, NodeHash, NodeId, NodePrefix,
    NodeSource, Observer, PathCache, Root, RootError, RootUpdate, ShadowState, SourceError,
    StateVersion, TrieId,
};
use rand::{rngs::SmallRng, Rng, SeedableRng};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Mutex,
};
use trie_db::{TrieDBMutBuilder, TrieMut};

type Entries = BTreeMap<Vec<u8>, Vec<u8>>;

/// Nodes by hash with reference counts.
#[derive(Clone, Debug, Default, PartialEq)]
struct Nodes(BTreeMap<NodeHash, (Bytes, i32)>);

impl NodeSource for Nodes {
    fn node(&self, hash: &NodeHash, _: NodePrefix<'_>) -> Result<Option<Bytes>, SourceError> {
        Ok(self.0.get(hash).map(|(node, _)| node.clone()))
    }
}

impl Nodes {
    fn commit(&mut self, update: &RootUpdate) {
        let place = |change: NodeChange<'_>| (change.hash, change.path.to_vec(), change.odd_nibble);
        let neighbours = update.nodes.iter().zip(update.nodes.iter().skip(1));
        let mut neighbours = neighbours.map(|(a, b)| (place(a), place(b)));
        assert!(
            neighbours.all(|(a, b)| a < b),
            "by hash and place, each once"
        );
        for change in update.nodes.iter() {
            let entry = self.0.entry(change.hash).or_default();
            entry.1 += change.references;
            assert!(
                entry.1 >= 0,
                "{change:?} takes more references than there are"
            );
            if change.references > 0 {
                assert_eq!(Blake2b256::hash(change.encoded), change.hash);
                entry.0 = update.nodes.share(change.encoded);
            }
        }
        self.0.retain(|_, (_, references)| *references > 0);
    }
}

/// One of the two versions, in turn.
fn version(seed: u64) -> StateVersion {
    match seed % 2 {
        0 => StateVersion::V0,
        _ => StateVersion::V1,
    }
}

/// A key of few different nibbles. Many of these keys are prefixes of others, and some are long.
fn key(rng: &mut SmallRng) -> Vec<u8> {
    let bytes = [0x00, 0x01, 0x10, 0x11, 0xf0];
    let length = [0, 1, 2, 3, 4, 16, 32, 33][rng.random_range(0..8)];
    (0..length)
        .map(|_| bytes[rng.random_range(0..bytes.len())])
        .collect()
}

fn value(rng: &mut SmallRng) -> Vec<u8> {
    vec![rng.random_range(0..3); [0, 1, 31, 32, 33, 100][rng.random_range(0..6)]]
}

fn update(
    nodes: &Nodes,
    root: Root,
    changes: &BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    version: StateVersion,
) -> RootUpdate {
    let top: KeyChanges<'_> = changes
        .iter()
        .map(|(key, value)| (key.as_slice(), value.as_deref()))
        .collect();
    let changes = Changes {
        top,
        children: Vec::new(),
    };
    state_update(
        &mut ShadowState::new(nodes, root),
        &changes,
        version,
        &mut (),
    )
    .unwrap()
}

fn all(entries: &Entries) -> BTreeMap<Vec<u8>, Option<Vec<u8>>> {
    entries
        .iter()
        .map(|(key, value)| (key.clone(), Some(value.clone())))
        .collect()
}

/// trie-db's root of `entries`.
fn reference_root(entries: &Entries, version: StateVersion) -> Root {
    let mut db = MemoryDB::<Blake2b256, HashKey<_>, Vec<u8>>::default();
    let mut root = NodeHash::default();
    macro_rules! insert_all {
        ($layout:ty) => {{
            let mut trie = TrieDBMutBuilder::<$layout>::new(&mut db, &mut root).build();
            for (key, value) in entries {
                trie.insert(key, value).unwrap();
            }
        }};
    }
    match version {
        StateVersion::V0 => insert_all!(LayoutV0),
        StateVersion::V1 => insert_all!(LayoutV1),
    }
    Root::from(<[u8; 32]>::from(root))
}

/// One step of random changes to `entries`: overwrites, insertions, and deletions of present and of absent
/// keys.
fn step(rng: &mut SmallRng, entries: &mut Entries) -> BTreeMap<Vec<u8>, Option<Vec<u8>>> {
    let deletes = [0.1, 0.5, 0.9][rng.random_range(0..3)];
    let known: Vec<_> = entries.keys().cloned().collect();
    let mut changes = BTreeMap::new();
    for _ in 0..rng.random_range(0..12) {
        let key = match known.len() {
            0 => key(rng),
            _ if rng.random_bool(0.4) => key(rng),
            count => known[rng.random_range(0..count)].clone(),
        };
        let value = (!rng.random_bool(deletes)).then(|| value(rng));
        match &value {
            Some(value) => entries.insert(key.clone(), value.clone()),
            None => entries.remove(&key),
        };
        changes.insert(key, value);
    }
    changes
}

#[test]
fn updates_lead_from_state_to_state_as_if_made_anew() {
    for seed in 0..400 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let version = version(seed);
        let (mut entries, mut nodes, mut root) = (Entries::new(), Nodes::default(), Root::EMPTY);
        for _ in 0..12 {
            let changes = step(&mut rng, &mut entries);
            let update = update(&nodes, root, &changes, version);
            assert_eq!(
                update.root,
                reference_root(&entries, version),
                "seed {seed}"
            );
            nodes.commit(&update);
            root = update.root;
            // The state made at once from all entries has equal nodes with equal reference counts.
            let mut anew = Nodes::default();
            anew.commit(&self::update(
                &Nodes::default(),
                Root::EMPTY,
                &all(&entries),
                version,
            ));
            assert_eq!(nodes, anew, "seed {seed}");
        }
    }
}

#[test]
fn reads_answer_as_a_map_does() {
    for seed in 0..100 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let entries: Entries = (0..rng.random_range(0..40))
            .map(|_| (key(&mut rng), value(&mut rng)))
            .collect();
        let mut nodes = Nodes::default();
        let version = version(seed);
        let update = update(&nodes, Root::EMPTY, &all(&entries), version);
        nodes.commit(&update);
        let mut state = ShadowState::new(&nodes, update.root);
        let mut once = ShadowState::new(&nodes, update.root);
        for _ in 0..200 {
            let key = key(&mut rng);
            let top = TrieId::Top;
            // Once in a state where only such reads load nodes, and once before other reads load the path.
            for state in [&mut once, &mut state] {
                let read = state.read_once(top, &key).unwrap();
                assert_eq!(read.as_deref(), entries.get(&key).map(Vec::as_slice));
            }
            let found = state.value(top, &key, &mut ()).unwrap();
            let found = found.map(|place| place.bytes(state.table()).to_vec());
            assert_eq!(found.as_ref(), entries.get(&key));
            let hash = state.value_hash(top, &key, &mut ()).unwrap();
            assert_eq!(hash, entries.get(&key).map(|value| Blake2b256::hash(value)));
            assert_eq!(state.exists(top, &key, &mut ()).unwrap(), found.is_some());
            let mut after = entries
                .range(key.clone()..)
                .filter(|(next, _)| **next != key);
            let next = state.next_key(top, &key, &mut ()).unwrap();
            assert_eq!(next.as_ref(), after.next().map(|(next, _)| next));
            let prefix = &key[..rng.random_range(0..=key.len().min(3))];
            let mut within = entries
                .range(key.clone()..)
                .filter(|(next, _)| next.starts_with(prefix));
            let first = state.first_key_from(top, prefix, &key, &mut ()).unwrap();
            assert_eq!(
                first.as_ref(),
                within.next().map(|(next, _)| next),
                "{key:?} {prefix:?}"
            );
        }
    }
}

/// If an absent key ends where a branch's partial key begins, trie-db 0.32 removes the branch's value
/// instead, or panics. Here the removal changes nothing.
#[test]
fn removing_an_absent_key_changes_nothing() {
    let keys: [&[u8]; 4] = [
        &[0x10, 0x01],
        &[0x10, 0x01, 0x22],
        &[0x10, 0x01, 0x33],
        &[0x1f],
    ];
    let entries: Entries = keys.iter().map(|key| (key.to_vec(), vec![7; 40])).collect();
    let absent = vec![0x10];
    let mut nodes = Nodes::default();
    let before = update(&nodes, Root::EMPTY, &all(&entries), StateVersion::V0);
    nodes.commit(&before);
    let changes = BTreeMap::from([(absent.clone(), None)]);
    let after = update(&nodes, before.root, &changes, StateVersion::V0);
    assert_eq!((after.root, after.nodes.len()), (before.root, 0));

    let by_trie_db = std::panic::catch_unwind(|| {
        let mut db = MemoryDB::<Blake2b256, HashKey<_>, Vec<u8>>::default();
        let mut root = NodeHash::default();
        let mut trie = TrieDBMutBuilder::<LayoutV0>::new(&mut db, &mut root).build();
        for (key, value) in &entries {
            trie.insert(key, value).unwrap();
        }
        trie.remove(&absent).unwrap();
        *trie.root()
    });
    let kept = matches!(by_trie_db, Ok(root) if root == before.root.node_hash());
    assert!(!kept, "trie-db got it right: the difference can go");
}

#[derive(Default)]
struct Touched(BTreeSet<usize>);

impl PathCache for Touched {}

impl Observer for Touched {
    fn touched(&mut self, node: NodeId, _: usize) {
        self.0.insert(node.index());
    }
}

#[test]
fn changes_out_of_order_are_an_error() {
    fn of_children(names: &[&'static [u8]]) -> Changes<'static> {
        let entry = || vec![(&b"key"[..], Some(&b"1"[..]))];
        Changes {
            top: Vec::new(),
            children: names.iter().map(|name| (*name, entry())).collect(),
        }
    }

    let root_key = child_root_key(b"child");
    fn one(key: &[u8]) -> (&[u8], Option<&[u8]>) {
        (key, Some(b"1"))
    }
    let cases: [(Changes<'_>, &str); 7] = [
        (top(vec![one(b"a"), one(b"a")]), "0x61"),
        (
            Changes {
                top: Vec::new(),
                children: vec![(b"child", vec![one(b"b"), one(b"a")])],
            },
            "0x6368696c6461",
        ),
        // Between the roots of children lie keys that are shorter than any.
        (top(vec![one(&root_key), one(b"b"), one(&root_key)]), "0x3a"),
        (
            Changes {
                top: vec![one(&root_key), one(b""), one(&root_key)],
                children: vec![(b"a", vec![]), (b"child", vec![one(b"a")])],
            },
            "the root after",
        ),
        // The roots of child tries are put among the changes of the top trie, but do not sort these.
        (
            Changes {
                top: vec![one(b"b"), one(b"a")],
                children: vec![(b"child", vec![one(b"a")])],
            },
            "0x61",
        ),
        // Child tries, which are named by the keys of their roots.
        (
            of_children(&[b"b", b"a"]),
            "0x3a6368696c645f73746f726167653a64656661756c743a61",
        ),
        (
            of_children(&[b"a", b"a"]),
            "0x3a6368696c645f73746f726167653a64656661756c743a61",
        ),
    ];
    for (changes, key) in cases {
        let mut state = ShadowState::new(Nodes::default(), Root::EMPTY);
        let any_order = state_update(&mut state, &changes, StateVersion::V1, &mut ());
        let key_order = state_update_in_key_order(&mut state, &changes, StateVersion::V1, &mut ());
        let loaded = state_update_of_loaded(&mut state, &changes, StateVersion::V1);
        let is_refused = |error: &RootError| {
            assert!(matches!(error, RootError::Unordered { .. }), "{error}");
            assert!(error.to_string().contains(key), "{error}");
        };
        for update in [any_order, key_order, loaded] {
            is_refused(&update.unwrap_err());
        }
        // The root of a child trie needs no order in the top trie.
        if changes.top.is_empty() {
            let name = changes.children[0].0;
            for root in child_roots(&mut state, &changes, name) {
                is_refused(&root.unwrap_err());
            }
        }
    }
}

/// A child trie may have the empty storage key, as the top trie has none.
#[test]
fn a_node_that_is_not_loaded_is_named_with_its_trie() {
    let all = |value: &'static [u8]| -> KeyChanges<'static> {
        vec![(&[0x11], Some(value)), (&[0x22], Some(value))]
    };
    let (old, new) = (&[7; 40], &[8; 40]);
    let state_of = |changes: &Changes<'_>| {
        let mut nothing = ShadowState::new(Nodes::default(), Root::EMPTY);
        let update = state_update(&mut nothing, changes, StateVersion::V0, &mut ()).unwrap();
        let mut nodes = Nodes::default();
        nodes.commit(&update);
        ShadowState::new(nodes, update.root)
    };
    let top = |value| Changes {
        top: all(value),
        children: Vec::new(),
    };
    let child = |value| Changes {
        top: Vec::new(),
        children: vec![(&b""[..], all(value))],
    };
    for (parent, changes, name) in [
        (top(old), top(new), "root of the top trie"),
        (
            child(old),
            child(new),
            "root of the child trie with its root at 0x3a6368696c645f73746f726167653a64656661756c743a,",
        ),
    ] {
        let mut state = state_of(&parent);
        let update = state_update_of_loaded(&mut state, &changes, StateVersion::V0);
        let error = update.unwrap_err().to_string();
        assert!(error.contains(name), "{error}");
    }
}

/// The root of a child trie, computed in each way.
fn child_roots(
    state: &mut ShadowState<Nodes>,
    changes: &Changes<'_>,
    child: &[u8],
) -> [Result<Root, RootError>; 3] {
    const V1: StateVersion = StateVersion::V1;
    [
        child_root(state, changes, child, V1, &mut ()),
        child_root_in_key_order(state, changes, child, V1, &mut ()),
        child_root_of_loaded(state, changes, child, V1),
    ]
}

/// A change of a child's root sets nothing, because the child's changes decide.
#[test]
fn the_root_of_a_changed_child_follows_from_its_changes() {
    let root_key = child_root_key(b"child");
    fn one(key: &[u8]) -> (&[u8], Option<&[u8]>) {
        (key, Some(b"1"))
    }
    let with_top = |top: KeyChanges<'_>| {
        let changes = Changes {
            top,
            children: vec![(b"child", vec![one(b"a")]), (b"other", vec![one(b"a")])],
        };
        let mut state = ShadowState::new(Nodes::default(), Root::EMPTY);
        state_update(&mut state, &changes, StateVersion::V1, &mut ()).unwrap()
    };
    let expected = with_top(vec![one(b"a"), one(b"b")]);
    for root in [Some(&[7; 32][..]), None] {
        let top = vec![(&root_key[..], root), one(b"a"), one(b"b")];
        assert_eq!(with_top(top), expected);
    }
    // That of a child without changes is a change as any other.
    let unchanged = child_root_key(b"unchanged");
    let top = vec![(&unchanged[..], Some(&[7; 32][..])), one(b"a"), one(b"b")];
    assert_ne!(with_top(top).root, expected.root);
}

fn top(top: KeyChanges<'_>) -> Changes<'_> {
    Changes {
        top,
        children: Vec::new(),
    }
}

/// A state of `count` entries with hashed keys, as runtimes have them.
fn hashed_state(count: u32) -> (Entries, Nodes, Root) {
    let entry = |index: u32| {
        (
            Blake2b256::hash(&index.to_le_bytes()).as_bytes().to_vec(),
            index.to_le_bytes().to_vec(),
        )
    };
    let entries: Entries = (0..count).map(entry).collect();
    let mut nodes = Nodes::default();
    let update = update(&nodes, Root::EMPTY, &all(&entries), StateVersion::V1);
    nodes.commit(&update);
    (entries, nodes, update.root)
}

#[test]
fn what_is_observed_does_not_depend_on_what_was_loaded() {
    let (entries, nodes, root) = hashed_state(500);
    let mut warm = ShadowState::new(&nodes, root);
    for key in entries.keys() {
        warm.value(TrieId::Top, key, &mut ()).unwrap();
    }
    for key in entries.keys().take(50) {
        let mut cold = ShadowState::new(&nodes, root);
        let (mut by_cold, mut by_warm) = (Touched::default(), Touched::default());
        cold.next_key(TrieId::Top, key, &mut by_cold).unwrap();
        warm.next_key(TrieId::Top, key, &mut by_warm).unwrap();
        let hashes = |touched: &Touched, table: &povmeter_delta_root::NodeTable| -> BTreeSet<_> {
            // Compares by hash, because ids depend on the order of loading.
            (0..table.len())
                .filter(|index| touched.0.contains(index))
                .map(|index| *table.hash(table.ids().nth(index).unwrap()))
                .collect()
        };
        assert_eq!(
            hashes(&by_cold, cold.table()),
            hashes(&by_warm, warm.table())
        );
    }
}

/// The hashes of nodes that an observer was told of, in order.
#[derive(Default)]
struct Told(Vec<NodeId>);

impl Observer for Told {
    fn touched(&mut self, node: NodeId, _: usize) {
        self.0.push(node);
    }
}

impl PathCache for Told {}

/// Asks for the key after `from`, or for the first key that is not before it. Returns the answer or the
/// error, and the hashes of the nodes that the search needed.
fn next_of(
    state: &mut ShadowState<&Nodes>,
    (prefix, from, inclusive): (&[u8], &[u8], bool),
) -> (Result<Option<Vec<u8>>, String>, Vec<NodeHash>) {
    let mut told = Told::default();
    let next = match inclusive {
        true => state.first_key_from(TrieId::Top, prefix, from, &mut told),
        false => state.next_key_in(TrieId::Top, prefix, from, &mut told),
    };
    let hashes = told.0.iter().map(|node| *state.table().hash(*node));
    let hashes = hashes.collect();
    (next.map_err(|error| error.to_string()), hashes)
}

/// Most questions start from the answer to the last question.
#[test]
fn a_step_from_the_last_key_is_as_any_other() {
    for seed in 0..200 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut entries: Entries = (0..rng.random_range(0..60))
            .map(|_| (key(&mut rng), value(&mut rng)))
            .collect();
        let (mut nodes, version) = (Nodes::default(), version(seed));
        let made = update(&nodes, Root::EMPTY, &all(&entries), version);
        nodes.commit(&made);
        let mut root = made.root;
        let mut carried = None;
        let mut last: Option<Vec<u8>> = None;
        for _ in 0..4 {
            // A node that some questions need is missing.
            let mut damaged = nodes.clone();
            if rng.random_bool(0.3) {
                let hashes: Vec<_> = damaged.0.keys().copied().collect();
                hashes
                    .get(rng.random_range(0..hashes.len().max(1)))
                    .map(|hash| damaged.0.remove(hash));
            }
            let mut state = match carried.take() {
                Some(carried) => ShadowState::in_carried(&damaged, carried, Default::default()),
                None => ShadowState::new(&damaged, root),
            };
            for _ in 0..60 {
                let goes_on = rng.random_bool(0.8);
                let from = last.take().filter(|_| goes_on);
                let from = from.unwrap_or_else(|| key(&mut rng));
                let prefix = &from[..rng.random_range(0..=from.len().min(2))];
                let question = (prefix, &from[..], rng.random_bool(0.1));
                if rng.random_bool(0.1) {
                    let _ = state.value(TrieId::Top, &key(&mut rng), &mut ());
                }
                let found = next_of(&mut state, question);
                // The missing node may have been loaded before; then the answer is that of the whole state.
                let source = if found.0.is_ok() { &nodes } else { &damaged };
                let expected = next_of(&mut ShadowState::new(source, root), question);
                assert_eq!(found, expected, "seed {seed}");
                last = found.0.ok().flatten();
            }
            let changes = step(&mut rng, &mut entries);
            let update = update(&nodes, root, &changes, version);
            nodes.commit(&update);
            root = update.root;
            let (kept, _) = state.into_carried([]);
            carried = kept.filter(|_| rng.random_bool(0.8));
            if let Some(carried) = &mut carried {
                assert!(carried.advance(&update));
            }
        }
    }
}

/// A store for trie-db that notes which nodes are read.
#[derive(Default)]
struct Noting {
    db: MemoryDB<Blake2b256, HashKey<Blake2b256>, Vec<u8>>,
    read: Mutex<BTreeSet<NodeHash>>,
}

impl HashDB<Blake2b256, Vec<u8>> for Noting {
    fn get(&self, hash: &NodeHash, prefix: NodePrefix<'_>) -> Option<Vec<u8>> {
        self.read.lock().unwrap().insert(*hash);
        HashDB::get(&self.db, hash, prefix)
    }

    fn contains(&self, hash: &NodeHash, prefix: NodePrefix<'_>) -> bool {
        HashDB::contains(&self.db, hash, prefix)
    }

    fn insert(&mut self, prefix: NodePrefix<'_>, node: &[u8]) -> NodeHash {
        self.db.insert(prefix, node)
    }

    fn emplace(&mut self, hash: NodeHash, prefix: NodePrefix<'_>, node: Vec<u8>) {
        self.db.emplace(hash, prefix, node);
    }

    fn remove(&mut self, hash: &NodeHash, prefix: NodePrefix<'_>) {
        self.db.remove(hash, prefix);
    }
}

impl AsHashDB<Blake2b256, Vec<u8>> for Noting {
    fn as_hash_db(&self) -> &dyn HashDB<Blake2b256, Vec<u8>> {
        self
    }

    fn as_hash_db_mut<'a>(&'a mut self) -> &'a mut (dyn HashDB<Blake2b256, Vec<u8>> + 'a) {
        self
    }
}

/// trie-db's root after `changes`, applied in the order of their keys, and the nodes that it reads for it.
fn by_trie_db(
    nodes: &Nodes,
    root: Root,
    changes: &BTreeMap<Vec<u8>, Option<Vec<u8>>>,
) -> (Root, BTreeSet<NodeHash>) {
    let mut store = Noting::default();
    for (hash, (node, _)) in &nodes.0 {
        store.db.emplace(*hash, (&[], None), node.to_vec());
    }
    let mut root = root.node_hash();
    let mut trie = TrieDBMutBuilder::<LayoutV0>::from_existing(&mut store, &mut root).build();
    for (key, value) in changes {
        match value {
            Some(value) => trie.insert(key, value).unwrap(),
            None => trie.remove(key).unwrap(),
        };
    }
    drop(trie);
    let read = store.read.into_inner().unwrap();
    (Root::from(<[u8; 32]>::from(root)), read)
}

/// The update, computed in the order of the keys or in any order, and the nodes that were needed for it.
fn by_shadow_state(
    nodes: &Nodes,
    root: Root,
    changes: &BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    in_key_order: bool,
) -> (RootUpdate, BTreeSet<NodeHash>) {
    let changes = changes.iter();
    let changes = top(changes
        .map(|(key, value)| (key.as_slice(), value.as_deref()))
        .collect());
    let (mut state, mut told) = (ShadowState::new(nodes, root), Told::default());
    let update = match in_key_order {
        true => state_update_in_key_order(&mut state, &changes, StateVersion::V0, &mut told),
        false => state_update(&mut state, &changes, StateVersion::V0, &mut told),
    };
    let hashes = told.0.iter().map(|node| *state.table().hash(*node));
    (update.unwrap(), hashes.collect())
}

/// Of the nodes that the changes need in any order, some are needed only in another order than that of the keys.
#[test]
fn changes_in_the_order_of_their_keys_need_the_nodes_that_trie_db_reads() {
    let mut fewer = 0;
    for seed in 0..600 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let (mut entries, mut nodes, mut root) = (Entries::new(), Nodes::default(), Root::EMPTY);
        for _ in 0..8 {
            let before = entries.clone();
            let mut changes = step(&mut rng, &mut entries);
            // Sometimes the state is emptied, and sometimes all that was in it is replaced.
            if rng.random_bool(0.2) {
                let gone: Vec<_> = entries.keys().cloned().collect();
                entries.clear();
                changes.extend(gone.into_iter().map(|key| (key, None)));
                if rng.random() {
                    let (key, value) = (key(&mut rng), value(&mut rng));
                    entries.insert(key.clone(), value.clone());
                    changes.insert(key, Some(value));
                }
            }
            // Below some removed keys a new one comes, and below some an absent one is removed, which is later.
            let removed = changes.iter().filter(|(_, value)| value.is_none());
            let removed: Vec<_> = removed.map(|(key, _)| key.clone()).collect();
            for key in removed {
                let [new, absent] = [0x01, 0xf0].map(|end| [&key[..], &[end]].concat());
                if rng.random_bool(0.3) {
                    let value = value(&mut rng);
                    entries.insert(new.clone(), value.clone());
                    changes.insert(new, Some(value));
                }
                if rng.random_bool(0.3) {
                    entries.remove(&absent);
                    changes.insert(absent, None);
                }
            }
            // trie-db may remove something else in place of an absent key.
            let all = changes.clone();
            changes.retain(|key, value| value.is_some() || before.contains_key(key));
            let (update, needed) = by_shadow_state(&nodes, root, &changes, true);
            let expected = by_trie_db(&nodes, root, &changes);
            assert_eq!((update.root, &needed), (expected.0, &expected.1), "{seed}");

            let (again, in_any_order) = by_shadow_state(&nodes, root, &changes, false);
            assert_eq!(again, update, "{seed}");
            assert!(in_any_order.is_superset(&needed), "{seed}");
            fewer += usize::from(in_any_order != needed);

            // The removal of an absent key needs the path to it, and if it is the first after the last entry went,
            // the null node.
            let (again, mut found) = by_shadow_state(&nodes, root, &all, true);
            assert_eq!(again, update, "{seed}");
            let (mut state, mut told) = (ShadowState::new(&nodes, root), Told::default());
            for absent in all.keys().filter(|key| !changes.contains_key(*key)) {
                state.exists(TrieId::Top, absent, &mut told).unwrap();
            }
            let paths = told.0.iter().map(|node| *state.table().hash(*node));
            let mut expected: BTreeSet<_> = needed.into_iter().chain(paths).collect();
            for hashes in [&mut found, &mut expected] {
                hashes.remove(&Root::EMPTY.node_hash());
            }
            assert_eq!(found, expected, "{seed}");
            nodes.commit(&update);
            root = update.root;
        }
    }
    assert!(fewer > 100, "{fewer}");
}

/// The root of a child trie is deleted from the top trie if no entry is left, or for a moment if the changes delete it;
/// then a branch there may be merged with what lies beside it.
#[test]
fn only_the_changes_that_empty_a_child_trie_need_what_lies_beside_its_root() {
    let [one, two, three] = [&[0x10][..], &[0x20], &[0x30]];
    let entries = |value: &'static [u8]| vec![(one, Some(value)), (two, Some(value))];
    let changes = Changes {
        top: Vec::new(),
        children: vec![(b"a", entries(&[1; 40])), (b"b", entries(&[2; 40]))],
    };
    let mut nodes = Nodes::default();
    let mut state = ShadowState::new(&nodes, Root::EMPTY);
    let made = state_update(&mut state, &changes, StateVersion::V0, &mut ()).unwrap();
    drop(state);
    nodes.commit(&made);
    let mut state = ShadowState::new(&nodes, made.root);
    let mut told = Told::default();
    let found = state.exists(TrieId::Top, &child_root_key(b"b"), &mut told);
    assert!(found.unwrap());
    let beside = *state.table().hash(*told.0.last().unwrap());

    let new = Some(&[3; 40][..]);
    let root_key = child_root_key(b"a");
    let cases: [(KeyChanges<'_>, Option<&[u8]>, bool); 6] = [
        (vec![(one, new)], Some(&[7; 32]), false),
        (vec![(one, new)], None, true),
        (vec![(one, None)], Some(&[7; 32]), false),
        (vec![(one, None), (two, None)], Some(&[7; 32]), true),
        (vec![(one, None), (two, None)], None, true),
        (vec![(one, None), (two, None), (three, new)], None, true),
    ];
    let without = cases.iter().map(|(of_child, root, expected)| {
        let expected = *expected && (root.is_some() || of_child.len() == 2);
        (of_child.clone(), Vec::new(), expected)
    });
    let with = cases.iter().map(|(of_child, root, expected)| {
        let top = vec![(root_key.as_slice(), *root)];
        (of_child.clone(), top, *expected)
    });
    for (of_child, top, expected) in without.chain(with) {
        let changes = Changes {
            top,
            children: vec![(b"a", of_child)],
        };
        for in_key_order in [false, true] {
            let mut state = ShadowState::new(&nodes, made.root);
            let (version, mut told) = (StateVersion::V0, Told::default());
            let update = match in_key_order {
                true => state_update_in_key_order(&mut state, &changes, version, &mut told),
                false => state_update(&mut state, &changes, version, &mut told),
            };
            update.unwrap();
            let mut needed = told.0.iter().map(|node| *state.table().hash(*node));
            let is_needed = needed.any(|hash| hash == beside);
            assert_eq!(is_needed, expected, "{changes:?}, {in_key_order}");
        }
    }
}

/// A state with equal entries in the top trie and in a child trie. The long values are nodes of their own.
fn with_child() -> (Entries, Nodes, Root) {
    let mut entries = Entries::new();
    for index in 0..200_u32 {
        let key = Blake2b256::hash(&index.to_le_bytes()).as_bytes().to_vec();
        entries.insert(key, vec![7; [4, 40][index as usize % 2]]);
    }
    let keys = || -> KeyChanges<'_> {
        let all = entries.iter();
        all.map(|(key, value)| (key.as_slice(), Some(value.as_slice())))
            .collect()
    };
    let changes = Changes {
        top: keys(),
        children: vec![(b"child", keys())],
    };
    let mut nodes = Nodes::default();
    let mut state = ShadowState::new(&nodes, Root::EMPTY);
    let update = state_update(&mut state, &changes, StateVersion::V1, &mut ()).unwrap();
    drop(state);
    nodes.commit(&update);
    (entries, nodes, update.root)
}

#[test]
fn what_is_read_once_is_not_kept() {
    let (entries, nodes, root) = with_child();
    for trie in [TrieId::Top, TrieId::Child(b"child")] {
        let mut all = ShadowState::new(&nodes, root);
        let mut once = ShadowState::new(&nodes, root);
        for (key, value) in &entries {
            assert!(all.value(trie, key, &mut ()).unwrap().is_some());
            let read = once.read_once(trie, key).unwrap();
            assert_eq!(read.as_deref(), Some(value.as_slice()));
            let absent = [&key[..31], &[!key[31]]].concat();
            assert_eq!(once.read_once(trie, &absent).unwrap(), None);
            assert_eq!(once.read_once(trie, &key[..31]).unwrap(), None);
        }
        let is_branch = |bytes: &Bytes| bytes[0] >> 7 == 1;
        let branches = |state: &ShadowState<&Nodes>| {
            let table = state.table();
            table.ids().filter(|id| is_branch(table.bytes(*id))).count()
        };
        assert_eq!(branches(&once), branches(&all));
        // One more leaf of the top trie is loaded if the child is read: the one with the child's root.
        let leaves = once.table().len() - branches(&once);
        assert!(leaves <= 1, "{leaves}");
        assert!(all.table().len() > branches(&all) + entries.len() / 2);
    }
}

#[test]
fn preloaded_nodes_are_read_once_too() {
    let (entries, nodes, root) = with_child();
    let empty = Nodes::default();
    let mut state = ShadowState::new(&empty, root);
    let all = nodes.0.iter();
    let all = all.map(|(hash, (node, _))| (*hash, node.clone()));
    state.preload(all).unwrap();
    for trie in [TrieId::Top, TrieId::Child(b"child")] {
        for (key, value) in &entries {
            let read = state.read_once(trie, key).unwrap();
            assert_eq!(read.as_deref(), Some(value.as_slice()));
        }
    }
}

#[test]
fn who_reads_once_gets_the_same_errors() {
    let (entries, nodes, root) = with_child();
    let trie = TrieId::Child(b"child");
    for key in entries.keys().take(20) {
        let mut whole = ShadowState::new(&nodes, root);
        whole.value(trie, key, &mut ()).unwrap();
        let path: Vec<_> = whole
            .table()
            .ids()
            .map(|id| *whole.table().hash(id))
            .collect();
        let value = whole.value_hash(trie, key, &mut ()).unwrap();
        for hash in path {
            for damage in [None, Some(&[0x02][..])] {
                // Any bytes are a value.
                if damage.is_some() && value == Some(hash) {
                    continue;
                }
                let mut damaged = nodes.clone();
                match damage {
                    None => _ = damaged.0.remove(&hash),
                    Some(bytes) => _ = damaged.0.insert(hash, (Bytes::from_static(bytes), 1)),
                }
                let kept = ShadowState::new(&damaged, root).value(trie, key, &mut ());
                let once = ShadowState::new(&damaged, root).read_once(trie, key);
                let (kept, once) = (kept.unwrap_err(), once.unwrap_err());
                assert_eq!(kept.to_string(), once.to_string());
            }
        }
    }
}

#[test]
fn a_missing_node_is_named_and_there_is_no_root() {
    let (entries, nodes, root) = hashed_state(300);
    let (key, _) = entries.first_key_value().unwrap();
    // The leaf of the first key: the last node on the path to it.
    let mut state = ShadowState::new(&nodes, root);
    state.value(TrieId::Top, key, &mut ()).unwrap();
    let leaf = *state.table().hash(state.table().ids().last().unwrap());
    let mut damaged = nodes.clone();
    damaged.0.remove(&leaf);
    let mut state = ShadowState::new(&damaged, root);
    let error = state.value(TrieId::Top, key, &mut ()).unwrap_err();
    assert!(
        matches!(&error, LoadError::Missing { hash, .. } if *hash == leaf),
        "{error}"
    );
    assert!(error.to_string().contains(&leaf.to_string()), "{error}");
    let changes = Changes {
        top: vec![(key, Some(b"new"))],
        children: Vec::new(),
    };
    let error = state_update(&mut state, &changes, StateVersion::V1, &mut ()).unwrap_err();
    assert!(
        matches!(error, RootError::Load(LoadError::Missing { .. })),
        "{error}"
    );
}

#[test]
fn a_corrupt_node_is_named_with_what_is_wrong() {
    let (entries, mut nodes, root) = hashed_state(300);
    let (key, _) = entries.first_key_value().unwrap();
    for damage in [&[][..], &[0x02], &[0x80, 0, 0], &[0xff; 40]] {
        nodes
            .0
            .insert(root.node_hash(), (Bytes::from_static(damage), 1));
        let mut state = ShadowState::new(&nodes, root);
        let error = state.value(TrieId::Top, key, &mut ()).unwrap_err();
        assert!(
            matches!(&error, LoadError::Corrupt { hash, .. } if *hash == root.node_hash()),
            "{error}"
        );
    }
}

/// Bytes that are a node only where no node of that kind may be.
#[test]
fn a_corrupt_node_below_the_root_is_named_with_what_is_wrong() {
    let null_by_hash = [&[32 << 2], &Root::EMPTY.as_bytes()[..]].concat();
    let trailing = DecodeError::Trailing {
        expected: 2,
        found: 3,
    };
    let cases: [(&[u8], DecodeError); 3] = [
        (&[1 << 2, 0], DecodeError::NullBelowRoot),
        (&null_by_hash, DecodeError::NullBelowRoot),
        // A leaf of two bytes at a place of three.
        (&[3 << 2, 0x40, 0, 0], trailing),
    ];
    for (child, expected) in cases {
        // A branch with this child at nibble 0, and a leaf at nibble 1.
        let branch = [&[0x80, 0b11, 0], child, &[2 << 2, 0x40, 0]].concat();
        let hash = Blake2b256::hash(&branch);
        let mut nodes = Nodes::default();
        nodes.0.insert(hash, (Bytes::from(branch), 1));
        let null = Bytes::from_static(&[0]);
        nodes.0.insert(Root::EMPTY.node_hash(), (null, 1));
        let mut state = ShadowState::new(&nodes, Root::from(*hash.as_bytes()));
        let error = state.value(TrieId::Top, &[0x00], &mut ()).unwrap_err();
        assert!(
            matches!(&error, LoadError::Corrupt { error, .. } if *error == expected),
            "{error}"
        );
        // The damage is found where it is, and not before.
        assert!(!state.exists(TrieId::Top, &[0x10], &mut ()).unwrap());
    }
}

/// The length of a header is a byte of a loaded node, but headers grow with the partial key, beyond 255 bytes too.
#[test]
fn keys_of_many_thousand_bytes_are_keys() {
    // A header of 254 bytes and more, in leaves and in branches, with values inside and apart.
    for length in [
        32_000, 32_264, 32_265, 32_272, 32_273, 32_288, 32_289, 32_417, 40_000,
    ] {
        for version in [StateVersion::V0, StateVersion::V1] {
            let long = vec![0x11; length];
            let mut entries = Entries::from([(long.clone(), vec![1; 40])]);
            let mut nodes = Nodes::default();
            let leaf = update(&nodes, Root::EMPTY, &all(&entries), version);
            nodes.commit(&leaf);
            let mut root = leaf.root;
            let below = [&long[..], &[0x22]].concat();
            let beside = [&long[..], &[0x33]].concat();
            for (key, value) in [
                (below, Some(vec![2; 40])),
                (beside, Some(vec![3])),
                (long, None),
            ] {
                match &value {
                    Some(value) => entries.insert(key.clone(), value.clone()),
                    None => entries.remove(&key),
                };
                let update = update(&nodes, root, &[(key, value)].into(), version);
                assert_eq!(update.root, reference_root(&entries, version), "{length}");
                nodes.commit(&update);
                root = update.root;
                let mut state = ShadowState::new(&nodes, root);
                for (key, value) in &entries {
                    let found = state.value(TrieId::Top, key, &mut ()).unwrap().unwrap();
                    assert_eq!(found.bytes(state.table()), value, "{length}");
                }
            }
        }
    }
}

/// What changes an earlier update made is no part of the next one on the same state.
#[test]
fn a_state_can_be_updated_in_several_ways() {
    let (entries, nodes, root) = hashed_state(300);
    let keys: Vec<_> = entries.keys().collect();
    let mut used = ShadowState::new(&nodes, root);
    for deleted in keys.chunks(2).take(60) {
        let deleted: KeyChanges<'_> = deleted.iter().map(|key| (key.as_slice(), None)).collect();
        let needed = |state: &mut ShadowState<&Nodes>| {
            let mut told = Told::default();
            let changes = top(deleted.clone());
            let update = state_update(state, &changes, StateVersion::V1, &mut told).unwrap();
            let hashes = told.0.iter().map(|node| *state.table().hash(*node));
            (update.root, hashes.collect::<BTreeSet<_>>())
        };
        let found = needed(&mut used);
        assert_eq!(found, needed(&mut ShadowState::new(&nodes, root)));
    }
}

/// No encoder writes bytes behind the last child of a branch, but trie-db reads such a node. With as many of them as one
/// child is shorter than a hash, the branch is as long as one whose children are all hashes.
#[test]
fn bytes_behind_a_branch_change_no_root() {
    let entries: Entries = [
        (vec![0x00], vec![1]),
        (vec![0x10], vec![2; 40]),
        (vec![0x20], vec![3; 40]),
    ]
    .into();
    for version in [StateVersion::V0, StateVersion::V1] {
        let mut nodes = Nodes::default();
        let made = update(&nodes, Root::EMPTY, &all(&entries), version);
        nodes.commit(&made);
        let branch = nodes.0[&made.root.node_hash()].0.clone();
        // A byte of the header, two of the bitmap, the children.
        let as_long = 3 + entries.len() * (1 + 32);
        let behind = vec![0x80; as_long - branch.len()];
        assert!(!behind.is_empty());
        let longer = Bytes::from([&branch[..], &behind].concat());
        let hash = Blake2b256::hash(&longer);
        nodes.0.insert(hash, (longer, 1));
        for key in [0x10, 0x20] {
            let mut changed = entries.clone();
            changed.insert(vec![key], vec![9; 40]);
            let change = [(vec![key], Some(vec![9; 40]))].into();
            let update = update(&nodes, Root::from(*hash.as_bytes()), &change, version);
            assert_eq!(update.root, reference_root(&changed, version), "{key:#x}");
        }
    }
}

#[test]
fn states_can_be_shared_between_threads() {
    fn check<T: Send + Sync>() {}
    check::<ShadowState<Nodes>>();
    check::<RootUpdate>();
    check::<RootError>();
}
