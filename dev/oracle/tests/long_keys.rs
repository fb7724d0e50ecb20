//! Keys of any length: a node's header has one more byte for each 255 nibbles, without a limit.

#![allow(clippy::unwrap_used)]

use povmeter::{Advisory, Consensus};
use povmeter_dev_oracle::{run_case, Case, Op, ParentState, TrieName};
use sp_core::storage::StateVersion;

/// A key of `length` bytes, one at least, that ends in `last`.
fn key(length: usize, last: u8) -> Vec<u8> {
    let mut key = vec![0x11; length - 1];
    key.push(last);
    key
}

/// A block on a state whose keys have `length` bytes and differ only in the last, so that a leaf or a
/// branch has a partial key of nearly all nibbles. `value` and `version` decide the kinds of nodes.
fn case(length: usize, value: usize, version: StateVersion) -> Case {
    let keys = [0x11, 0x12, 0x21].map(|last| key(length, last));
    let mut parent = ParentState {
        version,
        ..ParentState::default()
    };
    let entries = keys.iter().map(|key| (key.clone(), vec![7; value]));
    parent.top = entries.collect();
    // This key is a prefix of the others, so their branch has a value.
    parent.top.insert(key(length - 1, 0x11), vec![8; value]);
    parent.children.insert(
        b"child".to_vec(),
        [(keys[0].clone(), vec![9; value])].into_iter().collect(),
    );
    let top = || TrieName::Top;
    let [first, second, third] = keys;
    let ops = vec![
        Op::Get {
            trie: top(),
            key: first.clone(),
        },
        Op::Boundary,
        Op::Set {
            trie: top(),
            key: first.clone(),
            value: vec![1; value],
        },
        Op::Boundary,
        Op::Remove {
            trie: top(),
            key: second.clone(),
        },
        Op::Set {
            trie: TrieName::Child(b"child".to_vec()),
            key: third.clone(),
            value: vec![3; value],
        },
        Op::Boundary,
        Op::Next {
            trie: top(),
            key: first,
        },
        Op::Remove {
            trie: top(),
            key: third,
        },
        Op::Boundary,
        Op::Root,
    ];
    Case {
        parent,
        ops,
        version,
    }
}

#[test]
fn keys_about_a_million_nibbles_are_like_others() {
    // Partial keys of about 2^20 nibbles and more, on either side of one more header byte.
    for length in [
        (1 << 19) - 1,
        1 << 19,
        (1 << 19) + 1,
        (1 << 19) + 128,
        600_000,
        2_000_000,
    ] {
        for (value, version) in [(8, StateVersion::V0), (40, StateVersion::V1)] {
            let case = case(length, value, version);
            for run in [run_case::<Consensus>, run_case::<Advisory>] {
                run(&case).unwrap_or_else(|error| panic!("{length} bytes, {version:?}: {error}"));
            }
        }
    }
}
