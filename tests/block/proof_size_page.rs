//! The worked examples of docs/proof-size.md, with its numbers.

use crate::store_with;
use povmeter::{
    Accounting, Advisory, Block, Consensus, NodeSource, Root,
    StateVersion::{self, V0, V1},
    TrieId::{Child, Top},
};
use povmeter_store::{MemoryStore, NodeStore};

/// The bytes of reads, the bytes that only the root needs, and the length of the compact proof.
fn sizes<S: NodeSource, A: Accounting>(block: &mut Block<S, A>) -> (u64, u64, u64) {
    let size = block.proof_size().unwrap();
    let compact = block.compact_proof_bytes().unwrap();
    (size.read_bytes, size.root_bytes, compact)
}

/// The state of most examples.
fn four(version: StateVersion) -> MemoryStore {
    let letters = [(0x1a, b'a'), (0x1b, b'b'), (0x1c, b'c'), (0x2d, b'd')];
    store_with(version, letters.map(|(key, letter)| ([key], [letter; 40])))
}

fn block(store: &MemoryStore) -> Block<&MemoryStore> {
    Block::new(store, store.root())
}

#[test]
fn one_path_after_the_other() {
    let store = four(V0);
    assert_eq!(
        store.root().to_string(),
        "0xa0a752dca4b329fa254a0f22e396d268fa6450eeb6d93c66ee4062a85fb45e3e"
    );
    let mut block = block(&store);
    assert_eq!(sizes(&mut block), (0, 0, 1));
    block.get(Top, &[0x1a]).unwrap();
    assert_eq!(sizes(&mut block), (218, 0, 154));
    block.remove(Top, &[0x1a]).unwrap();
    assert_eq!(sizes(&mut block), (218, 0, 154));
    block.remove(Top, &[0x1b]).unwrap();
    assert_eq!(sizes(&mut block), (218, 86, 175));
    block.remove(Top, &[0x1c]).unwrap();
    assert_eq!(sizes(&mut block), (218, 130, 187));
    block.remove(Top, &[0x2d]).unwrap();
    assert_eq!(sizes(&mut block), (218, 132, 187));
}

#[test]
fn inserted_keys_do_not_matter() {
    let store = four(V0);
    let mut block = block(&store);
    block.remove(Top, &[0x1a]).unwrap();
    block.remove(Top, &[0x1b]).unwrap();
    block.set(Top, &[0x1e], b"new").unwrap();
    assert_eq!(sizes(&mut block), (0, 304, 175));
    block.set(Top, &[0x1b], b"back").unwrap();
    assert_eq!(sizes(&mut block), (0, 304, 175));
}

#[test]
fn keys_that_are_not_there() {
    let store = four(V0);
    let mut block = block(&store);
    block.get(Top, &[0x1f]).unwrap();
    assert_eq!(sizes(&mut block), (175, 0, 143));
    block.get(Top, &[0x2d, 0x00]).unwrap();
    assert_eq!(sizes(&mut block), (219, 0, 155));
    block.get(Top, &[0x3f]).unwrap();
    assert_eq!(sizes(&mut block), (219, 0, 155));
}

#[test]
fn values_that_are_nodes() {
    let store = four(V1);
    assert_eq!(
        store.root().to_string(),
        "0x4f72b16503cfbca49d623db7bf6422f87d699bfb54f57300f89e481af5b44a36"
    );
    let mut block = block(&store);
    block.exists(Top, &[0x1a]).unwrap();
    assert_eq!(sizes(&mut block), (209, 0, 145));
    block.value_hash(Top, &[0x1a]).unwrap();
    assert_eq!(sizes(&mut block), (209, 0, 145));
    block.set(Top, &[0x1a], b"new").unwrap();
    assert_eq!(sizes(&mut block), (209, 0, 145));
    block.get(Top, &[0x1b]).unwrap();
    assert_eq!(sizes(&mut block), (284, 0, 157));
}

#[test]
fn the_way_to_the_next_key() {
    let store = four(V0);
    for (key, next, expected) in [
        (&[][..], 0x1a, (218, 0, 154)),
        (&[0x1b, 0x00], 0x1c, (261, 0, 164)),
        (&[0x1c], 0x2d, (262, 0, 166)),
    ] {
        let mut block = block(&store);
        assert_eq!(block.next_key(Top, key).unwrap(), Some(vec![next]));
        assert_eq!(sizes(&mut block), expected, "{key:?}");
    }
    let mut block = block(&store);
    assert_eq!(block.next_key(Top, &[0x2d]).unwrap(), None);
    assert_eq!(sizes(&mut block), (115, 0, 83));
}

fn rolled_back<A: Accounting>(store: &MemoryStore, by_runtime: bool) -> (u64, u64, u64) {
    let mut block = Block::with_accounting(store, store.root(), A::default());
    block.set(Top, &[0x2d], b"new").unwrap();
    assert_eq!(sizes(&mut block), (0, 115, 83));
    if by_runtime {
        block.enter_runtime().unwrap();
    }
    block.start_transaction();
    block.get(Top, &[0x1a]).unwrap();
    assert_eq!(sizes(&mut block), (218, 44, 166));
    block.remove(Top, &[0x1b]).unwrap();
    assert_eq!(sizes(&mut block), (218, 87, 176));
    block.rollback_transaction().unwrap();
    sizes(&mut block)
}

#[test]
fn rollbacks() {
    let store = four(V0);
    assert_eq!(rolled_back::<Consensus>(&store, false), (0, 115, 83));
    assert_eq!(rolled_back::<Advisory>(&store, false), (0, 115, 83));
    assert_eq!(rolled_back::<Consensus>(&store, true), (218, 87, 176));
    assert_eq!(rolled_back::<Advisory>(&store, true), (218, 44, 166));
}

#[test]
fn child_tries() {
    let mut store = store_with(V0, [([0x1a], [b'a'; 40]), ([0x1b], [b'b'; 40])]);
    let mut with_pool = block(&store);
    with_pool.set(Child(b"pool"), &[0x1a], &[b'p'; 40]).unwrap();
    let with_pool = with_pool.seal(V0).unwrap();
    store.commit(with_pool.update()).unwrap();
    assert_eq!(
        store.root().to_string(),
        "0x8777735e8fc46f1305c96b9846103a1007d963e8ce025313df2139e7d6652806"
    );
    let mut block = block(&store);
    block.set(Child(b"farm"), &[0x1a], b"x").unwrap();
    assert_eq!(sizes(&mut block), (0, 135, 101));
    block.get(Child(b"pool"), &[0x1a]).unwrap();
    assert_eq!(sizes(&mut block), (177, 2, 145));
    block.remove(Child(b"pool"), &[0x1a]).unwrap();
    assert_eq!(sizes(&mut block), (177, 73, 184));
}

#[test]
fn small_nodes_equal_nodes_and_no_nodes() {
    let small = store_with(V0, [([0x1a], b"a"), ([0x1b], b"b"), ([0x2c], b"c")]);
    let mut inlined = block(&small);
    inlined.get(Top, &[0x1a]).unwrap();
    inlined.remove(Top, &[0x1a]).unwrap();
    assert_eq!(sizes(&mut inlined), (21, 0, 22));

    let keys = [[0x1a, 0x00], [0x1a, 0x01], [0x2a, 0x00]];
    let equal = store_with(V0, keys.map(|key| (key, [b'v'; 40])));
    let mut once = block(&equal);
    once.get(Top, &[0x1a, 0x00]).unwrap();
    assert_eq!(sizes(&mut once), (186, 0, 121));
    once.get(Top, &[0x1a, 0x01]).unwrap();
    assert_eq!(sizes(&mut once), (186, 0, 121));

    let empty = MemoryStore::new();
    let mut null = Block::new(&empty, Root::EMPTY);
    null.get(Top, &[0x1a]).unwrap();
    assert_eq!(sizes(&mut null), (2, 0, 3));
}

/// Child tries by name; each value is 40 times the byte given for its key.
type Children<'a> = &'a [(&'a [u8], &'a [(&'a [u8], u8)])];

fn with_children(top: &[(&[u8], u8)], children: Children<'_>) -> MemoryStore {
    let mut store = MemoryStore::new();
    let mut genesis = Block::new(&store, Root::EMPTY);
    let children = children.iter().map(|(name, of)| (Child(name), *of));
    for (trie, entries) in children.chain([(Top, top)]) {
        for (key, byte) in entries {
            genesis.set(trie, key, &[*byte; 40]).unwrap();
        }
    }
    let genesis = genesis.seal(V0).unwrap();
    store.commit(genesis.update()).unwrap();
    store
}

#[test]
fn equal_nodes_in_several_tries() {
    let pair: &[(&[u8], u8)] = &[(&[0], 7), (&[1], 8)];
    let (alone, twin): (&[_], &[_]) = (&[(&b""[..], 7)], &[(&b"k"[..], 7)]);

    let store = with_children(pair, &[(b"c", alone)]);
    let mut inner = block(&store);
    inner.get(Child(b"c"), b"").unwrap();
    assert_eq!(sizes(&mut inner), (173, 0, 141));
    inner.get(Top, &[1]).unwrap();
    assert_eq!(sizes(&mut inner), (287, 0, 201));

    for (other, compact) in [(b"d", 226), (b"b", 237)] {
        let store = with_children(&[], &[(b"c", alone), (other, pair)]);
        let mut inner = block(&store);
        inner.get(Child(b"c"), b"").unwrap();
        assert_eq!(sizes(&mut inner), (173, 0, 141));
        inner.get(Child(other), &[1]).unwrap();
        assert_eq!(sizes(&mut inner), (323, 0, compact));
    }

    let store = with_children(&[], &[(b"c", twin), (b"d", twin)]);
    let mut twins = block(&store);
    for child in [b"c", b"d"] {
        twins.get(Child(child), b"k").unwrap();
        assert_eq!(sizes(&mut twins), (174, 0, 186));
    }
    assert_eq!(twins.recorded_proof().nodes().len(), 3);
    let packed = twins.recorded_proof().to_compact(store.root()).unwrap();
    assert_eq!(packed.items().len(), 4);
}
