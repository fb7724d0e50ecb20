//! The traps of the counting rule, by hand.

use super::{Case, Op, ParentState, TrieEntries, TrieName};
use sp_core::storage::StateVersion;
use std::collections::BTreeMap;

/// Each trap by a block of its own, with its name.
pub(super) fn blocks() -> Vec<(String, Case)> {
    let value = |byte: u8| vec![byte; 40];
    let set = |key: &[u8], byte: u8| Op::Set {
        trie: TrieName::Top,
        key: key.to_vec(),
        value: value(byte),
    };
    let remove = |key: &[u8]| Op::Remove {
        trie: TrieName::Top,
        key: key.to_vec(),
    };
    let parent = |keys: &[&[u8]]| ParentState {
        top: keys
            .iter()
            .zip(1..)
            .map(|(key, byte)| (key.to_vec(), value(byte)))
            .collect(),
        version: StateVersion::V0,
        ..ParentState::default()
    };
    let siblings: &[&[u8]] = &[&[0x31], &[0x32], &[0x33], &[0x70]];
    let case = |name: &str, parent: ParentState, ops: Vec<Op>| {
        (
            name.to_owned(),
            Case {
                parent,
                ops,
                version: StateVersion::V0,
            },
        )
    };
    let committed = |ops: Vec<Op>| {
        let mut all = vec![Op::HostStart, Op::Enter];
        all.extend(ops);
        all.extend([Op::Exit, Op::HostCommit, Op::Boundary]);
        all
    };
    let two = |first: Op, second: Op| [committed(vec![first]), committed(vec![second])].concat();
    let child = TrieName::Child(b"child".to_vec());
    let with_child = |key: &[u8]| ParentState {
        children: BTreeMap::from([(
            b"child".to_vec(),
            TrieEntries::from([(key.to_vec(), value(9))]),
        )]),
        ..parent(siblings)
    };
    vec![
        case(
            "two transactions delete two of three siblings",
            parent(siblings),
            two(remove(&[0x31]), remove(&[0x32])),
        ),
        case(
            "a sibling is inserted, then another deleted",
            parent(&[&[0x31], &[0x32], &[0x70]]),
            two(set(&[0x33], 9), remove(&[0x31])),
        ),
        case(
            "deletion and insertion below one branch",
            parent(&[&[0x3a], &[0x3c], &[0x70]]),
            committed(vec![remove(&[0x3a]), set(&[0x3b], 9)]),
        ),
        case(
            "the last entry is deleted",
            parent(&[&[0x31]]),
            committed(vec![remove(&[0x31])]),
        ),
        case(
            "a deletion is estimated and rolled back",
            parent(siblings),
            committed(vec![
                Op::Start,
                remove(&[0x31]),
                remove(&[0x32]),
                Op::Boundary,
                Op::Rollback,
                Op::Boundary,
            ]),
        ),
        case(
            "a child trie comes into being",
            parent(siblings),
            committed(vec![Op::Set {
                trie: child.clone(),
                key: vec![1],
                value: value(1),
            }]),
        ),
        case(
            "a child trie is emptied",
            with_child(&[1]),
            committed(vec![Op::Remove {
                trie: child,
                key: vec![1],
            }]),
        ),
        case("nothing is changed", parent(siblings), vec![Op::Boundary]),
    ]
}
