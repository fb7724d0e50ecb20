//! Every strategy on states of a few keys: which deletions it misses, and how it fails.

use povmeter_dev_ladder::{LadderBlock, Strategy};
use povmeter_dev_runtime::{
    runtime::Hashing, BoundarySize, Host, HostError, NodeStore, Parent, Peer, TransactionStep,
};
use sp_core::{
    storage::{ChildInfo, StateVersion::V1, Storage},
    H256,
};
use std::sync::{
    atomic::{AtomicBool, Ordering},
    Arc,
};

/// A value of 32 bytes, whose leaf is too long to be inlined.
const VALUE: [u8; 32] = [7; 32];

fn child() -> ChildInfo {
    ChildInfo::new_default(b"child")
}

/// A state with `keys` in the top trie and in a child trie. The key of the child trie itself
/// begins with 0x3a.
fn state(keys: &[&[u8]]) -> Storage {
    let mut storage = Storage::default();
    // All values differ, because equal leaves would be counted once.
    let value = |key: &[u8]| [key, &VALUE[key.len()..]].concat();
    let pairs = || keys.iter().map(|key| (key.to_vec(), value(key)));
    storage.top.extend(pairs());
    let data = pairs().collect();
    let child = sp_core::storage::StorageChild {
        data,
        child_info: child(),
    };
    storage.children_default.insert(b"child".to_vec(), child);
    storage
}

/// Returns the estimates after each of `extrinsics`, and the bytes recorded after the root.
fn run(strategy: Strategy, keys: &[&[u8]], extrinsics: &[fn()]) -> (Vec<BoundarySize>, u64) {
    let peer = Peer::new(Parent::in_memory(&state(keys), V1), V1);
    let mut block = LadderBlock::new(&peer, strategy);
    let sizes = extrinsics.iter().filter_map(|extrinsic| {
        block.transaction(TransactionStep::Start).unwrap();
        block.execute(extrinsic).unwrap();
        block.transaction(TransactionStep::Commit).unwrap();
        block.boundary().unwrap()
    });
    let sizes = sizes.collect();
    block.execute(|| sp_io::storage::root(V1)).unwrap();
    let recorded = block.recorded();
    block.finish().unwrap();
    (sizes, recorded)
}

/// Bytes by which the last estimate of each strategy falls short.
fn lacks(keys: &[&[u8]], extrinsics: &[fn()]) -> Vec<(Strategy, i64)> {
    let lack = |strategy| {
        let (sizes, recorded) = run(strategy, keys, extrinsics);
        let last = sizes.last()?.total();
        Some((
            strategy,
            i64::try_from(recorded).unwrap() - i64::try_from(last).unwrap(),
        ))
    };
    Strategy::ALL.into_iter().filter_map(lack).collect()
}

/// Asserts that exactly `short` underestimate, and that the others are exact.
#[track_caller]
fn assert_short(keys: &[&[u8]], extrinsics: &[fn()], short: &[Strategy]) {
    for (strategy, lack) in lacks(keys, extrinsics) {
        assert_eq!(
            lack > 0,
            short.contains(&strategy),
            "{strategy} lacks {lack}"
        );
        assert!(lack >= 0, "{strategy} has {} too many", -lack);
    }
}

const FRESH: [Strategy; 3] = [
    Strategy::FORGET,
    Strategy::GET_FOR_WRITES,
    Strategy::UPSTREAM,
];
const CUMULATIVE: [Strategy; 3] = [
    Strategy::INCREMENTAL,
    Strategy::FAKE_HASHER,
    Strategy::EACH_KEY_ONCE,
];

#[test]
fn two_deletions_of_three_siblings() {
    let keys: [&[u8]; 4] = [b"\x51", b"\x52", b"\x53", b"\x60"];
    let extrinsics: [fn(); 2] = [
        || sp_io::storage::clear(b"\x51"),
        || sp_io::storage::clear(b"\x52"),
    ];
    assert_short(&keys, &extrinsics, &FRESH);
}

#[test]
fn a_sibling_that_is_there_before_the_deletion_but_sorts_after_it() {
    let keys: [&[u8]; 3] = [b"\x51", b"\x53", b"\x60"];
    let extrinsics: [fn(); 2] = [
        || sp_io::storage::set(b"\x52", &VALUE),
        || sp_io::storage::clear(b"\x51"),
    ];
    assert_short(&keys, &extrinsics, &CUMULATIVE);
}

#[test]
fn prefixes_and_child_tries() {
    let keys: [&[u8]; 4] = [b"\x51", b"\x52", b"\x53", b"\x60"];
    fn set(key: &[u8]) {
        sp_io::default_child_storage::set(b"child", key, &VALUE);
    }
    assert_short(&keys, &[|| set(b"\x51"), || set(b"\x75")], &[]);
    assert_short(
        &keys,
        &[|| sp_io::default_child_storage::clear(b"child", b"\x51")],
        &[],
    );
    let extrinsics: [fn(); 2] = [
        || {
            let _ = sp_io::storage::clear_prefix(b"\x51", None);
        },
        || {
            let _ = sp_io::default_child_storage::clear_prefix(b"child", b"\x60", None);
        },
    ];
    assert_short(&keys, &extrinsics, &[]);
    // The whole child trie, and a key that did not exist.
    let extrinsics: [fn(); 2] = [
        || {
            let _ = sp_io::default_child_storage::storage_kill(b"child", None);
        },
        || sp_io::default_child_storage::set(b"new", b"key", &VALUE),
    ];
    assert_short(&keys, &extrinsics, &[]);
}

#[test]
fn what_the_runtime_rolls_back_is_not_estimated() {
    let keys: [&[u8]; 4] = [b"\x51", b"\x52", b"\x53", b"\x60"];
    let extrinsics: [fn(); 1] = [|| {
        sp_io::storage::set(b"\x60", &VALUE);
        sp_io::storage::start_transaction();
        sp_io::storage::clear(b"\x51");
        sp_io::storage::rollback_transaction();
        // Left open, so the host rolls it back.
        sp_io::storage::start_transaction();
        sp_io::storage::clear(b"\x52");
    }];
    assert_short(&keys, &extrinsics, &[]);
}

#[test]
fn an_append_after_an_estimate_is_in_the_root() {
    let keys: [&[u8]; 1] = [b"\x51"];
    let parent = || Peer::new(Parent::in_memory(&state(&keys), V1), V1);
    let root = |strategy| {
        let mut block = LadderBlock::new(&parent(), strategy);
        for _ in 0..2 {
            block
                .execute(|| sp_io::storage::append(b"list", vec![1]))
                .unwrap();
            block.boundary().unwrap();
        }
        block.execute(|| sp_io::storage::root(V1)).unwrap()
    };
    for strategy in Strategy::ALL {
        assert_eq!(root(strategy), root(Strategy::NONE), "{strategy}");
    }
}

/// A node store that fails while the flag is set.
struct Failing(NodeStore, Arc<AtomicBool>);

impl sp_state_machine::Storage<Hashing> for Failing {
    fn get(&self, key: &H256, prefix: hash_db::Prefix) -> Result<Option<Vec<u8>>, String> {
        if self.1.load(Ordering::Relaxed) {
            return Err("the disk is gone".to_owned());
        }
        self.0.get(key, prefix)
    }
}

#[test]
fn a_failing_node_store_is_an_error() {
    for strategy in CUMULATIVE.into_iter().chain(FRESH) {
        let Parent { root, nodes } = Parent::in_memory(&state(&[b"\x51", b"\x60"]), V1);
        let off = Arc::new(AtomicBool::new(false));
        let nodes: NodeStore = Arc::new(Failing(nodes, off.clone()));
        let mut block = LadderBlock::new(&Peer::new(Parent { root, nodes }, V1), strategy);
        block.execute(|| sp_io::storage::clear(b"\x51")).unwrap();
        off.store(true, Ordering::Relaxed);
        let error = block.boundary().unwrap_err();
        assert!(matches!(&error, HostError::State(e) if e.to_string() == "the disk is gone"));
    }
}

#[test]
fn transactions_must_balance() {
    let peer = Peer::new(Parent::in_memory(&state(&[]), V1), V1);
    let mut block = LadderBlock::new(&peer, Strategy::INCREMENTAL);
    for step in [TransactionStep::Commit, TransactionStep::Rollback] {
        let error = block.transaction(step).unwrap_err();
        assert!(matches!(error, HostError::NoOpenTransaction { step: s } if s == step));
    }
    block.transaction(TransactionStep::Start).unwrap();
    let error = block.finish().map(drop).unwrap_err();
    assert!(matches!(error, HostError::OpenTransactions { depth: 1 }));
}
