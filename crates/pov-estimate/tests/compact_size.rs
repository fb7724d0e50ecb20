//! [`CompactSize`] against the packed proof, where the walk meets one node several times.

#![allow(clippy::unwrap_used)]

use povmeter_delta_root::{
    state_update, Blake2b256, Changes, Root, ShadowState,
    StateVersion::{self, V0, V1},
    TrieId::{self, Child, Top},
};
use povmeter_pov_estimate::{CompactSize, ProofNodes, Recorder, RecorderMark, StorageProof};
use rand::{rngs::SmallRng, Rng, SeedableRng};
use std::collections::BTreeMap;

type Entries = BTreeMap<Vec<u8>, Vec<u8>>;

/// Entries of the top trie, and of child tries by storage key.
#[derive(Clone, Debug, Default)]
struct State {
    top: Entries,
    children: BTreeMap<Vec<u8>, Entries>,
}

impl State {
    fn child(mut self, name: &[u8], entries: &[(&[u8], &[u8])]) -> Self {
        self.children.insert(name.to_vec(), owned(entries));
        self
    }

    fn nodes(&self, version: StateVersion) -> (Vec<bytes::Bytes>, Root) {
        let changes = |entries: &'_ Entries| {
            let entries: Vec<_> = entries.clone().into_iter().collect();
            entries
        };
        let top = changes(&self.top);
        let children: Vec<_> = self
            .children
            .iter()
            .map(|(key, of)| (key, changes(of)))
            .collect();
        fn borrowed(entries: &[(Vec<u8>, Vec<u8>)]) -> Vec<(&[u8], Option<&[u8]>)> {
            let borrowed = entries.iter();
            borrowed
                .map(|(key, value)| (key.as_slice(), Some(value.as_slice())))
                .collect()
        }
        let changes = Changes {
            top: borrowed(&top),
            children: children
                .iter()
                .map(|(key, of)| (key.as_slice(), borrowed(of)))
                .collect(),
        };
        let mut empty = ShadowState::new(ProofNodes::default(), Root::EMPTY);
        let update = state_update(&mut empty, &changes, version, &mut ()).unwrap();
        let nodes = update
            .inserted()
            .map(|node| update.nodes.share(node.encoded));
        (nodes.collect(), update.root)
    }
}

fn owned(entries: &[(&[u8], &[u8])]) -> Entries {
    entries
        .iter()
        .map(|(key, value)| (key.to_vec(), value.to_vec()))
        .collect()
}

fn top(entries: &[(&[u8], &[u8])]) -> State {
    State {
        top: owned(entries),
        ..State::default()
    }
}

/// The nodes counted on a state, and the length of their compact proof.
struct Block {
    state: ShadowState<ProofNodes>,
    recorder: Recorder,
    told: CompactSize,
    marks: Vec<RecorderMark>,
}

impl Block {
    fn new(state: &State, version: StateVersion) -> Self {
        let (nodes, root) = state.nodes(version);
        Self {
            state: ShadowState::new(StorageProof::new(nodes).to_source(), root),
            recorder: Recorder::default(),
            told: CompactSize::default(),
            marks: Vec::new(),
        }
    }

    fn get(&mut self, trie: TrieId<'_>, key: &[u8]) {
        self.state
            .value(trie, key, &mut self.recorder.reading())
            .unwrap();
    }

    fn needed_by_root(&mut self, trie: TrieId<'_>, key: &[u8]) {
        self.state
            .exists(trie, key, &mut self.recorder.estimating())
            .unwrap();
    }

    fn start(&mut self) {
        self.marks.push(self.recorder.mark());
    }

    fn roll_back(&mut self) {
        if let Some(mark) = self.marks.pop() {
            self.recorder.roll_back_reads(mark, self.state.table());
            self.recorder.roll_back_roots(mark, self.state.table());
        }
    }

    fn told(&mut self) -> u64 {
        self.told.of(&mut self.recorder, &self.state).unwrap()
    }

    /// Returns the length, and checks that it is the length of the packed proof.
    #[track_caller]
    fn length(&mut self) -> u64 {
        let told = self.told();
        let table = self.state.table();
        let nodes = self.recorder.nodes().map(|node| table.bytes(node).clone());
        let packed = StorageProof::new(nodes)
            .to_compact(self.state.root())
            .unwrap();
        assert_eq!(told, packed.encoded_bytes());
        told
    }
}

const SEVENS: &[u8] = &[7; 40];
const EIGHTS: &[u8] = &[8; 40];
const PAIR: [(&[u8], &[u8]); 2] = [(&[0], SEVENS), (&[1], EIGHTS)];

#[test]
fn a_root_that_is_an_inner_node_of_the_top_trie() {
    let state = top(&PAIR).child(b"c", &[(b"", SEVENS)]);
    let mut block = Block::new(&state, V0);
    block.get(Child(b"c"), b"");
    assert_eq!(block.length(), 141);
    block.get(Top, &[1]);
    assert_eq!(block.length(), 201);
    block.get(Top, &[0]);
    assert_eq!(block.length(), 201);
}

#[test]
fn a_root_that_is_an_inner_node_of_a_child_before_or_after_it() {
    for (inner, expected) in [(&b"d"[..], 226), (b"b", 237)] {
        let state = State::default().child(b"c", &[(b"", SEVENS)]);
        let mut block = Block::new(&state.child(inner, &PAIR), V0);
        block.get(Child(b"c"), b"");
        block.start();
        block.get(Child(inner), &[1]);
        assert_eq!(block.length(), expected);
        block.roll_back();
        assert_eq!(block.length(), 141);
    }
}

#[test]
fn twins_are_packed_each() {
    let twin = [(&b"k"[..], SEVENS)];
    let state = State::default().child(b"c", &twin).child(b"d", &twin);
    let mut block = Block::new(&state, V0);
    block.get(Child(b"c"), b"k");
    // `d` has the same root node as `c`, in an equal leaf, so both nodes are known.
    assert_eq!(block.length(), 186);
    block.get(Child(b"d"), b"k");
    assert_eq!(block.length(), 186);
}

#[test]
fn twins_below_a_shared_way() {
    let twin = [(&b"k"[..], SEVENS)];
    let names: [&[u8]; 4] = [b"cx", b"cy", b"dx", b"dy"];
    let state = names
        .iter()
        .fold(State::default(), |state, name| state.child(name, &twin));
    let mut block = Block::new(&state, V0);
    block.get(Child(b"cx"), b"k");
    // One branch and one leaf in the top trie lead to all four.
    assert_eq!((block.recorder.nodes().count(), block.length()), (4, 313));
}

#[test]
fn a_value_that_is_a_node() {
    let alone = top(&PAIR).nodes(V1).0;
    let branch = alone.iter().max_by_key(|node| node.len()).unwrap();
    // The child's root node is the value at `3` of the top trie.
    let state = top(&[(&[3], branch), (&[4], EIGHTS)]).child(b"c", &PAIR);
    let mut block = Block::new(&state, V1);
    block.get(Child(b"c"), &[0]);
    let child_only = block.length();
    block.start();
    block.get(Top, &[3]);
    let both = block.length();
    assert!(both > child_only + branch.len() as u64, "{both}");
    block.roll_back();
    assert_eq!(block.length(), child_only);
    // In the other order: first the value, then the trie whose root is the value's hash.
    let mut block = Block::new(&state, V1);
    block.get(Top, &[3]);
    block.length();
    block.get(Child(b"c"), &[0]);
    assert_eq!(block.length(), both);
}

#[test]
fn a_value_that_is_a_root_under_another_key() {
    let (_, child) = top(&PAIR).nodes(V0);
    let state = top(&[(&[3], child.as_bytes()), (&[4], EIGHTS)]).child(b"c", &PAIR);
    let mut block = Block::new(&state, V0);
    block.get(Child(b"c"), &[0]);
    let without = block.length();
    block.get(Top, &[3]);
    assert!(block.length() < without + 2 * 40, "a leaf, and no trie");
}

/// Each of many equal values, and of many equal child tries, asks once where the walk meets it, and none searches for
/// the others. With a search by each, this test did not end in a hundred seconds.
#[test]
fn many_equal_values_and_tries_take_a_step_each() {
    const MANY: u64 = 12_000;
    // So long that each leaf differs, and only values and child tries are equal.
    let keys: Vec<_> = (0..MANY)
        .map(|key| key.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes())
        .collect();
    let mut state = State::default();
    for key in &keys {
        state.top.insert(key.to_vec(), SEVENS.to_vec());
        state.children.insert(key.to_vec(), owned(&PAIR));
    }
    let mut block = Block::new(&state, V1);
    let (first, second) = keys.split_at(keys.len() / 2);
    let read = |block: &mut Block, keys: &[[u8; 8]]| {
        for key in keys {
            block.get(Top, key);
            block.get(Child(key), &[0]);
        }
    };
    read(&mut block, first);
    let kept = block.length();
    // Taken back in all, with those before them kept; then counted in the opposite order.
    for keys in [second.to_vec(), second.iter().rev().copied().collect()] {
        block.start();
        read(&mut block, &keys);
        assert!(block.length() > kept);
        block.roll_back();
        assert_eq!(block.length(), kept);
    }
    read(&mut block, second);
    block.length();
}

/// A leaf that many tries share gets an earlier place with each read, and each read asks for the length. Nothing lies
/// below the leaf, and no child trie has another key because of it. If all references were compared each time, or the
/// keys of all child tries looked for, this test took two minutes.
#[test]
fn a_leaf_that_moves_with_each_read_takes_a_step_each() {
    const MANY: u16 = 12_000;
    let pair = |number: u16| -> Entries {
        let other = number.to_be_bytes().repeat(20);
        Entries::from([(vec![0x00], SEVENS.to_vec()), (vec![0x10], other)])
    };
    let mut state = State::default();
    for number in 0..MANY {
        let name = number.to_be_bytes();
        state.children.insert(name.to_vec(), pair(number));
        let below = |(key, value): (Vec<u8>, _)| ([&[0xf0], &name[..], &key].concat(), value);
        state.top.extend(pair(number).into_iter().map(below));
    }
    let mut block = Block::new(&state, V0);
    let mut told = 0;
    for number in (0..MANY).rev() {
        block.get(Child(&number.to_be_bytes()), &[0x00]);
        told = block.told();
    }
    assert_eq!(block.length(), told);
    for number in (0..MANY).rev() {
        block.get(Top, &[&[0xf0], &number.to_be_bytes()[..], &[0x00]].concat());
        told = block.told();
    }
    assert_eq!(block.length(), told);
}

/// A state in which parts of tries lie at several places, and some values are nodes or hashes.
fn random_state(dice: &mut SmallRng, values: &[Vec<u8>]) -> State {
    const BYTES: [u8; 4] = [0x00, 0x01, 0x10, 0x11];
    const NAMES: [&[u8]; 6] = [b"c", b"cc", b"cd", b"d", b"dc", b"dd"];
    let key = |dice: &mut SmallRng, most| -> Vec<u8> {
        let length = dice.random_range(0..=most);
        (0..length)
            .map(|_| BYTES[dice.random_range(0..4)])
            .collect()
    };
    let part = |dice: &mut SmallRng| -> Entries {
        let count = dice.random_range(1..5);
        let entry = |dice: &mut SmallRng| {
            let value = match dice.random_range(0..6) {
                0 => vec![1; 3],
                1 if !values.is_empty() => values[dice.random_range(0..values.len())].clone(),
                _ => vec![dice.random_range(0..3); 40],
            };
            (key(dice, 2), value)
        };
        (0..count).map(|_| entry(dice)).collect()
    };
    let parts: Vec<_> = (0..3).map(|_| part(dice)).collect();
    let trie = |dice: &mut SmallRng| -> Entries {
        let mut entries = Entries::new();
        for _ in 0..dice.random_range(1..4) {
            let (prefix, part) = (key(dice, 2), &parts[dice.random_range(0..3)]);
            let placed = part.iter();
            entries.extend(placed.map(|(key, value)| ([&prefix[..], key].concat(), value.clone())));
        }
        entries
    };
    let mut state = State {
        top: trie(dice),
        ..State::default()
    };
    for name in NAMES {
        if dice.random_bool(0.4) {
            let of_child = if dice.random_bool(0.3) {
                parts[0].clone()
            } else {
                trie(dice)
            };
            state.children.insert(name.to_vec(), of_child);
        }
    }
    state
}

/// Nodes of `state` and their hashes.
fn as_values(state: &State, version: StateVersion) -> Vec<Vec<u8>> {
    let (nodes, _) = state.nodes(version);
    let hashes = nodes
        .iter()
        .map(|node| Blake2b256::hash(node).as_bytes().to_vec());
    hashes
        .chain(nodes.iter().map(|node| node.to_vec()))
        .collect()
}

#[test]
fn random_states_with_equal_nodes() {
    for seed in 0..1500 {
        let mut dice = SmallRng::seed_from_u64(seed);
        let version = if dice.random_bool(0.5) { V0 } else { V1 };
        let mut again = dice.clone();
        let first = random_state(&mut dice, &[]);
        // Mostly the same state again, with its own nodes as values.
        let state = random_state(&mut again, &as_values(&first, version));
        let mut block = Block::new(&state, version);
        let names: Vec<_> = state
            .children
            .keys()
            .cloned()
            .map(Some)
            .chain([None])
            .collect();
        for _ in 0..60 {
            let name = &names[dice.random_range(0..names.len())];
            let (trie, of_trie) = match name {
                Some(name) => (Child(name), &state.children[name]),
                None => (Top, &state.top),
            };
            let at = dice.random_range(0..=of_trie.len());
            let key = of_trie.keys().nth(at).cloned().unwrap_or_default();
            match dice.random_range(0..10) {
                0..5 => block.get(trie, &key),
                5..7 => block.needed_by_root(trie, &key),
                7 => block.start(),
                _ => block.roll_back(),
            }
            if dice.random_bool(0.6) {
                block.length();
            }
        }
        block.length();
    }
}
