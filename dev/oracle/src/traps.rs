//! The traps of the counting rule, written by hand.

use super::{case::ParentNodes, Case, Op, ParentState, TrieEntries, TrieName};
use povmeter::child_root_key;
use povmeter_vectors::Hex;
use sp_core::storage::StateVersion;
use std::collections::BTreeMap;

/// Returns a block for each trap, with its name.
pub(super) fn blocks() -> Vec<(String, Case)> {
    let mut all = counts();
    all.extend(equal_nodes());
    all.extend(roots_of_children());
    all
}

/// Traps of the count.
fn counts() -> Vec<(String, Case)> {
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

/// Traps of the root of a child that the runtime asks for, which is a change of the top trie from then on.
fn roots_of_children() -> Vec<(String, Case)> {
    let trie = || TrieName::Child(b"a".to_vec());
    let set = |key: u8| Op::Set {
        trie: trie(),
        key: vec![key],
        value: vec![key; 40],
    };
    let remove = |key: u8| Op::Remove {
        trie: trie(),
        key: vec![key],
    };
    let child_root = || Op::ChildRoot {
        child: Hex(b"a".to_vec()),
    };
    let read_root = || Op::Get {
        trie: TrieName::Top,
        key: child_root_key(b"a"),
    };
    let blocks = [
        (
            "a child's root is asked for",
            vec![
                child_root(),
                set(2),
                read_root(),
                child_root(),
                read_root(),
                set(3),
                read_root(),
                Op::Boundary,
            ],
        ),
        // The root is deleted before it is written, so the other child may be merged for a moment.
        (
            "an emptied child's root is asked for, then the child gets an entry",
            vec![remove(1), child_root(), set(2), read_root(), Op::Boundary],
        ),
        (
            "an emptied child's root is asked for again once the child has an entry",
            vec![
                remove(1),
                child_root(),
                set(2),
                child_root(),
                read_root(),
                Op::Boundary,
            ],
        ),
        (
            "a rollback takes a child's root back",
            vec![
                set(2),
                Op::Start,
                remove(1),
                remove(2),
                child_root(),
                Op::Boundary,
                Op::Rollback,
                read_root(),
                Op::Boundary,
            ],
        ),
        (
            "the root of a child that comes and goes is asked for",
            vec![
                set(2),
                child_root(),
                remove(1),
                remove(2),
                child_root(),
                Op::Boundary,
                Op::Root,
            ],
        ),
    ];
    let entries = |byte: u8| TrieEntries::from([(vec![1], vec![byte; 40])]);
    let parent = ParentState {
        top: TrieEntries::from([(vec![1], vec![1; 40])]),
        children: BTreeMap::from([(b"a".to_vec(), entries(1)), (b"b".to_vec(), entries(2))]),
        ..ParentState::default()
    };
    let block = |(name, ops): (&str, Vec<Op>)| {
        let mut all = vec![Op::HostStart, Op::Enter];
        all.extend(ops);
        all.extend([Op::Exit, Op::HostCommit, Op::Boundary]);
        let case = Case {
            parent: parent.clone(),
            ops: all,
            version: StateVersion::V1,
        };
        (name.to_owned(), case)
    };
    blocks.into_iter().map(block).collect()
}

/// Traps of the compact length: one node, or its hash, at several places.
fn equal_nodes() -> Vec<(String, Case)> {
    let entries = |entries: &[(&[u8], &[u8])]| -> TrieEntries {
        let entries = entries.iter();
        entries
            .map(|(key, value)| (key.to_vec(), value.to_vec()))
            .collect()
    };
    let (sevens, eights) = ([7u8; 40], [8u8; 40]);
    let pair = entries(&[(&[0], &sevens), (&[1], &eights)]);
    let (alone, twin) = (entries(&[(b"", &sevens)]), entries(&[(b"k", &sevens)]));
    let none = TrieEntries::new();
    // The root node of `pair` as a trie of its own, in state version 1, and its hash in version 0.
    let root_of = |version| {
        let trie = ParentState {
            top: pair.clone(),
            version,
            ..ParentState::default()
        };
        ParentNodes::new(&trie)
    };
    let hashed = root_of(StateVersion::V1);
    let node = hashed.by_hash().remove(hashed.root().as_bytes());
    let with_node = entries(&[(&[3], &node.unwrap_or_default()), (&[4], &eights)]);
    let root = root_of(StateVersion::V0).root();
    let with_hash = entries(&[(&[3], root.as_bytes()), (&[4], &eights)]);
    let (v0, v1) = (StateVersion::V0, StateVersion::V1);
    let (c, top) = (Some("c"), None);
    let reads = |reads: &[(Option<&'static str>, &'static [u8])]| reads.to_vec();
    [
        (
            "a child's root node is an inner node of the top trie",
            v0,
            pair.clone(),
            vec![("c", alone.clone())],
            reads(&[(c, b""), (top, &[1]), (top, &[0])]),
        ),
        (
            "a child's root node is an inner node of a later child",
            v0,
            none.clone(),
            vec![("c", alone.clone()), ("d", pair.clone())],
            reads(&[(c, b""), (Some("d"), &[1])]),
        ),
        (
            "a child's root node is an inner node of an earlier child",
            v0,
            none.clone(),
            vec![("c", alone), ("b", pair.clone())],
            reads(&[(c, b""), (Some("b"), &[1])]),
        ),
        (
            "two children are equal",
            v0,
            none.clone(),
            vec![("c", twin.clone()), ("d", twin.clone())],
            reads(&[(c, b"k"), (Some("d"), b"k")]),
        ),
        (
            "four children are equal, and so are the ways to them",
            v0,
            none,
            ["cx", "cy", "dx", "dy"]
                .map(|name| (name, twin.clone()))
                .to_vec(),
            reads(&[(Some("cx"), b"k"), (Some("dy"), b"k")]),
        ),
        (
            "a value is a child's root node",
            v1,
            with_node,
            vec![("c", pair.clone())],
            reads(&[(top, &[3]), (c, &[0]), (c, &[1])]),
        ),
        (
            "a value is a child's root under another key",
            v0,
            with_hash,
            vec![("c", pair)],
            reads(&[(top, &[3]), (c, &[0])]),
        ),
    ]
    .map(|(name, version, top, children, reads)| {
        let children = children.into_iter();
        let parent = ParentState {
            top,
            children: children
                .map(|(name, of)| (name.as_bytes().to_vec(), of))
                .collect(),
            version,
            ..ParentState::default()
        };
        let read = |(child, key): (Option<&str>, &[u8])| {
            let trie = child.map(|name| TrieName::Child(name.as_bytes().to_vec()));
            let (trie, key) = (trie.unwrap_or(TrieName::Top), key.to_vec());
            [
                Op::HostStart,
                Op::Get { trie, key },
                Op::Boundary,
                Op::HostCommit,
            ]
        };
        let ops = reads.into_iter().flat_map(read).collect();
        (
            name.to_owned(),
            Case {
                parent,
                ops,
                version,
            },
        )
    })
    .to_vec()
}
