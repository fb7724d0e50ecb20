//! A system that refuses to start threads: the thread that asks for a root computes all of it.

#![allow(clippy::unwrap_used)]
// Elsewhere, a system may start a thread with more stack than there is memory.
#![cfg(target_os = "linux")]

use bytes::Bytes;
use povmeter_delta_root::{
    state_update, Changes, NodeHash, NodePrefix, NodeSource, Root, RootUpdate, ShadowState,
    SourceError, StateVersion,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    process::Command,
    thread,
};

/// The standard library reads this once in a process, so the roots need a process of their own.
const STACK: &str = "RUST_MIN_STACK";
/// More than there are addresses.
const TOO_MUCH: usize = usize::MAX / 4;

/// Nodes by hash.
#[derive(Default)]
struct Nodes(BTreeMap<NodeHash, Bytes>);

impl NodeSource for &Nodes {
    fn node(&self, hash: &NodeHash, _: NodePrefix<'_>) -> Result<Option<Bytes>, SourceError> {
        Ok(self.0.get(hash).cloned())
    }
}

/// The update of a thousand keys to `value`. Branches with as many changes as `split_from` go to other threads.
fn update(nodes: &Nodes, root: Root, value: &[u8], split_from: usize) -> RootUpdate {
    let keys = (0..1_000_u16).map(|key| key.wrapping_mul(40_503).to_be_bytes());
    let keys: BTreeSet<_> = keys.collect();
    let top = keys.iter().map(|key| (&key[..], Some(value)));
    let changes = Changes {
        top: top.collect(),
        children: Vec::new(),
    };
    let mut state = ShadowState::new(nodes, root).with_split_from(split_from);
    state_update(&mut state, &changes, StateVersion::V1, &mut ()).unwrap()
}

#[test]
fn a_root_needs_no_other_thread() {
    let too_much = TOO_MUCH.to_string();
    if env::var(STACK).is_ok_and(|stack| stack == too_much) {
        return without_threads();
    }
    let output = Command::new(env::current_exe().unwrap())
        .args(["--exact", "a_root_needs_no_other_thread"])
        // The harness starts no thread for the test, either.
        .arg("--test-threads=1")
        .env(STACK, too_much)
        .output()
        .unwrap();
    let [printed, errors] =
        [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    let passed = output.status.success() && printed.contains("1 passed");
    assert!(passed, "{printed}{errors}");
}

fn without_threads() {
    assert!(thread::Builder::new().spawn(|| ()).is_err());
    let mut nodes = Nodes::default();
    let first = update(&nodes, Root::EMPTY, b"first", usize::MAX);
    let inserted = first.inserted();
    nodes.0 = inserted
        .map(|node| (node.hash, first.nodes.share(node.encoded)))
        .collect();
    let second = |split_from| update(&nodes, first.root, b"second", split_from).root;
    let expected = second(usize::MAX);
    // Twice, because the threads are asked for once.
    assert_eq!(second(10), expected);
    assert_eq!(second(100), expected);
}
