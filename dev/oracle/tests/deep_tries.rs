//! Keys that are prefixes of each other, so that one path has as many branches as there are keys.

#![allow(clippy::unwrap_used)]

use povmeter::{Block, Consensus, Root, TrieId};
use povmeter_dev_oracle::{run_case, Case, Op, ParentState, TrieName};
use povmeter_store::{MemoryStore, NodeStore};
use sp_core::{storage::StateVersion, Blake2Hasher, H256};
use sp_trie::{trie_types::TrieDBMutBuilderV1, MemoryDB, TrieMut};
use std::{env, process::Command, thread};

const KEYS: usize = 1_000;
/// The stack that threads have by default. Code that is not optimised needs more.
const USUAL_STACK: usize = if cfg!(debug_assertions) { 16 } else { 2 } << 20;
const LARGE_STACK: usize = 256 << 20;

fn keys() -> impl Iterator<Item = Vec<u8>> {
    (1..=KEYS).map(|length| vec![0x11; length])
}

fn within<T: Send>(stack: usize, run: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let thread = thread::Builder::new().stack_size(stack);
        thread.spawn_scoped(scope, run).unwrap().join().unwrap()
    })
}

#[test]
fn a_thousand_branches_on_a_path_are_as_the_peers() {
    let mut parent = ParentState {
        version: StateVersion::V1,
        ..ParentState::default()
    };
    parent.top = keys().map(|key| (key, vec![7; 40])).collect();
    let trie = || TrieName::Top;
    let mut ops = Vec::new();
    for (at, key) in keys().enumerate() {
        ops.push(match at % 3 {
            0 => Op::Remove { trie: trie(), key },
            1 => Op::Set {
                trie: trie(),
                key,
                value: vec![8; 40],
            },
            _ => continue,
        });
        if at % 250 == 0 {
            ops.push(Op::Boundary);
        }
    }
    ops.extend([Op::Boundary, Op::Root]);
    let case = Case {
        parent,
        ops,
        version: StateVersion::V1,
    };
    within(LARGE_STACK, || run_case::<Consensus>(&case)).unwrap();
}

/// In a process of its own, because an overflow ends it.
#[test]
fn a_thousand_branches_on_a_path_overflow_a_usual_stack_of_the_peer() {
    const STACK: &str = "POVMETER_TEST_STACK_OF_PEER";
    let insert_all = || {
        let (mut nodes, mut root) = (MemoryDB::default(), H256::default());
        let mut trie = TrieDBMutBuilderV1::<Blake2Hasher>::new(&mut nodes, &mut root).build();
        for key in keys() {
            trie.insert(&key, &[7; 40]).unwrap();
        }
        trie.commit();
    };
    if let Ok(stack) = env::var(STACK) {
        return within(stack.parse().unwrap(), insert_all);
    }
    let ends_well = |stack: usize| {
        let test = "deep_tries::a_thousand_branches_on_a_path_overflow_a_usual_stack_of_the_peer";
        let mut child = Command::new(env::current_exe().unwrap());
        let child = child.args([test, "--exact"]).env(STACK, stack.to_string());
        child.output().unwrap().status.success()
    };
    assert!(ends_well(LARGE_STACK));
    assert!(cfg!(debug_assertions) || !ends_well(USUAL_STACK));
}

#[test]
fn a_thousand_branches_on_a_path_fit_into_a_usual_stack() {
    within(USUAL_STACK, || {
        let mut store = MemoryStore::new();
        for value in [Some([7; 40]), Some([8; 40]), None] {
            let mut block = Block::new(&store, store.root());
            for key in keys() {
                match &value {
                    Some(value) => block.set(TrieId::Top, &key, value).unwrap(),
                    None => block.remove(TrieId::Top, &key).unwrap(),
                }
            }
            block.proof_size().unwrap();
            let sealed = block.seal(povmeter::StateVersion::V1);
            let sealed = sealed.map_err(|refused| refused.into_parts().1).unwrap();
            store.commit(sealed.update()).unwrap();
        }
        assert_eq!(store.root(), Root::EMPTY);
    });
}
