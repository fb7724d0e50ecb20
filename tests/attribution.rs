//! Which part needs which bytes of the proof: by hand on a state of a few keys, and on random blocks
//! compared with the same block without notes.

#![allow(clippy::unwrap_used)]

use povmeter::{
    Accounting, Advisory, Attributed, Attribution, Block, Cause, Consensus, EntryKind, NodeHash,
    NodeSource, RecordedEntry, Root, SealedBlock, StateVersion,
    StateVersion::{V0, V1},
    TrieId::{self, Child, Top},
    Want, Why,
};
use povmeter_delta_root::Blake2b256;
use povmeter_store::{MemoryStore, NodeStore};
use std::collections::{BTreeMap, BTreeSet};

/// A state with these entries, each with another value of 40 bytes.
fn state(version: StateVersion, entries: &[(TrieId<'_>, &[u8])]) -> MemoryStore {
    let mut store = MemoryStore::new();
    let mut block = Block::new(&store, Root::EMPTY);
    for ((trie, key), byte) in entries.iter().zip(1..) {
        block.set(*trie, key, &[byte; 40]).unwrap();
    }
    let sealed = block.seal(version).unwrap();
    store.commit(sealed.update()).unwrap();
    store
}

/// The state of the worked examples: a root node of 71 recorded bytes, a branch of 104 at 1, leaves
/// of 43 (1a, 1b, 1c) and 44 (2d); 34 and 35 in version 1, where their values have 41 each.
fn four(version: StateVersion) -> MemoryStore {
    let keys: [&[u8]; 4] = [&[0x1a], &[0x1b], &[0x1c], &[0x2d]];
    state(version, &keys.map(|key| (Top, key)))
}

fn block<A: Accounting>(store: &MemoryStore) -> Block<&MemoryStore, Attributed<A>> {
    Block::with_accounting(store, store.root(), Attributed::default())
}

/// The item of a want: the first nibble of its key.
fn nibble(want: &Want<'_>) -> u8 {
    want.key.first().map_or(0xff, |byte| byte >> 4)
}

/// Part, item and class of each entry, with its bytes, ordered.
fn owned(attribution: &Attribution) -> Vec<(u32, Option<u8>, Cause, u64)> {
    let owned = attribution.entries().map(|entry| {
        let owner = entry.owner(nibble);
        (owner.part, owner.item, owner.cause, entry.bytes())
    });
    let mut owned: Vec<_> = owned.collect();
    owned.sort_unstable();
    owned
}

/// The only entry of this kind in the top trie whose path has these nibbles.
fn at<'a>(attribution: &'a Attribution, path: &[u8], kind: EntryKind) -> RecordedEntry<'a> {
    let mut found = attribution
        .entries()
        .filter(|entry| (entry.trie(), entry.path(), entry.kind()) == (Top, path, kind));
    let entry = found.next().unwrap();
    assert!(found.next().is_none());
    entry
}

fn parts(entry: &RecordedEntry<'_>) -> Vec<(u32, Why)> {
    let mut parts: Vec<_> = entry.wants().map(|want| (want.part, want.why)).collect();
    parts.dedup();
    parts
}

#[test]
fn each_class_by_hand() {
    fn sealed<A: Accounting>() -> SealedBlock {
        let store = four(V1);
        let mut block = block::<A>(&store);
        assert_eq!(block.begin_part(), 1);
        block.get(Top, &[0x2d]).unwrap();
        assert_eq!(block.begin_part(), 2);
        block.remove(Top, &[0x1a]).unwrap();
        block.remove(Top, &[0x1b]).unwrap();
        block.begin_part();
        block.exists(Top, &[0x2e]).unwrap();
        block.seal(V1).unwrap()
    }
    for sealed in [sealed::<Consensus>(), sealed::<Advisory>()] {
        let attribution = sealed.attribution().unwrap();
        let expected = [
            (1, None, Cause::Shared, 71),
            (1, Some(2), Cause::Value, 41),
            (1, Some(2), Cause::Shared, 35),
            (2, Some(1), Cause::Root, 34),
            (2, Some(1), Cause::Root, 34),
            (2, Some(1), Cause::Root, 104),
            (2, Some(1), Cause::Sibling, 34),
        ];
        let mut expected = expected.to_vec();
        expected.sort_unstable();
        assert_eq!(owned(attribution), expected);
        assert_eq!(attribution.total_bytes(), 353);
        assert_eq!(sealed.proof().recorded_bytes(), 353);
        let value = at(attribution, &[2, 0xd], EntryKind::Value);
        assert_eq!(value.hash(), Blake2b256::hash(&[4; 40]));
        let sibling = at(attribution, &[1, 0xc], EntryKind::Node);
        let deleted: Vec<_> = sibling.wants().map(|want| (want.why, want.key)).collect();
        assert_eq!(deleted, [(Why::Merge, &[0x1a][..]), (Why::Merge, &[0x1b])]);
    }
}

#[test]
fn a_sibling_of_two_deletions_is_shared() {
    let store = four(V0);
    let mut block = block::<Consensus>(&store);
    for key in [[0x1a], [0x1b]] {
        block.begin_part();
        block.remove(Top, &key).unwrap();
        block.proof_size().unwrap();
    }
    let attribution = block.attribution();
    let sibling = at(&attribution, &[1, 0xc], EntryKind::Node);
    assert_eq!(parts(&sibling), [(1, Why::Merge), (2, Why::Merge)]);
    assert_eq!(sibling.owner(nibble).cause, Cause::Shared);
    assert_eq!(attribution.total_bytes(), 304);
}

#[test]
fn a_read_outweighs_the_way_to_a_change() {
    let store = four(V0);
    let mut block = block::<Consensus>(&store);
    block.get(Top, &[0x1a]).unwrap();
    block.set(Top, &[0x1a], b"new").unwrap();
    block.set(Top, &[0x2d], b"new").unwrap();
    let sealed = block.seal(V0).unwrap();
    let expected = [
        (0, None, Cause::Shared, 71),
        (0, Some(1), Cause::Read, 43),
        (0, Some(1), Cause::Read, 104),
        (0, Some(2), Cause::Root, 44),
    ];
    let mut expected = expected.to_vec();
    expected.sort_unstable();
    assert_eq!(owned(sealed.attribution().unwrap()), expected);
}

#[test]
fn an_emptied_trie_belongs_to_who_emptied_it() {
    let store = four(V0);
    let mut block = block::<Consensus>(&store);
    for key in [[0x1a], [0x1b], [0x1c], [0x2d]] {
        block.begin_part();
        block.remove(Top, &key).unwrap();
    }
    let sealed = block.seal(V0).unwrap();
    let attribution = sealed.attribution().unwrap();
    let null = at(attribution, &[], EntryKind::Null);
    assert_eq!((null.bytes(), null.wants().len()), (2, 4));
    assert_eq!(attribution.total_bytes(), 350);
    assert_eq!(attribution.total_bytes(), sealed.proof().recorded_bytes());
}

/// The root of an emptied child was deleted on the way, so the branch above it merged, although the child has an entry
/// in the end.
#[test]
fn a_child_that_was_emptied_for_a_while_belongs_to_who_emptied_it() {
    let pool = b"pool";
    let store = state(V0, &[(Child(pool), b"only"), (Top, b":chief")]);
    let mut block = block::<Consensus>(&store);
    assert_eq!(block.begin_part(), 1);
    block.remove(Child(pool), b"only").unwrap();
    assert_eq!(block.child_root(pool, V0).unwrap(), Root::EMPTY);
    assert_eq!(block.begin_part(), 2);
    block.set(Child(pool), b"other", b"value").unwrap();
    let sealed = block.seal(V0).unwrap();
    let merged = sealed.attribution().unwrap().entries();
    let merges: Vec<_> = merged
        .flat_map(|entry| {
            entry
                .wants()
                .filter(|want| want.why == Why::Merge)
                .collect::<Vec<_>>()
        })
        .map(|want| (want.part, want.trie, want.key.to_vec()))
        .collect();
    // The node beside the root, and the null node of the child.
    assert_eq!(merges, vec![(1, Child(pool), b"only".to_vec()); 2]);
}

/// A root that applies changes in the order of their keys leaves no trace in the tries of what it deleted.
#[test]
fn in_the_order_of_the_keys_a_merge_belongs_to_who_emptied_the_child() {
    let pool = Child(b"pool");
    fn sealed<A: Accounting>(pool: TrieId<'_>, with_sizes: bool) -> SealedBlock {
        let store = state(
            V0,
            &[(pool, b"only"), (Top, b":chief"), (Top, b":children")],
        );
        let mut block = block::<A>(&store);
        block.count_roots_in_key_order();
        assert_eq!(block.begin_part(), 1);
        block.remove(pool, b"only").unwrap();
        if with_sizes {
            block.proof_size().unwrap();
        }
        assert_eq!(block.begin_part(), 2);
        block.set(Top, b":chief", b"new").unwrap();
        if with_sizes {
            block.proof_size().unwrap();
        }
        block.begin_part();
        block.root(V0).unwrap();
        block.begin_part();
        block.seal(V0).unwrap()
    }
    for with_sizes in [false, true] {
        for sealed in [
            sealed::<Consensus>(pool, with_sizes),
            sealed::<Advisory>(pool, with_sizes),
        ] {
            let mut merges = 0;
            for entry in sealed.attribution().unwrap().entries() {
                let wants = entry.wants().filter(|want| want.why == Why::Merge);
                for want in wants {
                    assert_eq!((want.part, want.trie, want.key), (1, pool, &b"only"[..]));
                    merges += 1;
                }
            }
            assert!(merges > 0);
        }
    }
}

/// The same of a trie that is emptied, and gets another entry after that.
#[test]
fn in_the_order_of_the_keys_a_null_node_belongs_to_who_emptied_the_trie() {
    let store = four(V0);
    let mut block = block::<Consensus>(&store);
    block.count_roots_in_key_order();
    for key in [[0x1a], [0x1b], [0x1c], [0x2d]] {
        block.begin_part();
        block.remove(Top, &key).unwrap();
    }
    block.begin_part();
    block.set(Top, &[0xff], b"new").unwrap();
    block.begin_part();
    let sealed = block.seal(V0).unwrap();
    let null = at(sealed.attribution().unwrap(), &[], EntryKind::Null);
    let expected = (1..=4).map(|part| (part, Why::Merge));
    assert_eq!(parts(&null), expected.collect::<Vec<_>>());
}

/// Entries by path, with the parts that need each.
type Needed = Vec<(Vec<u8>, Vec<u32>)>;

/// The recorded bytes of a block in which part 2 is rolled back, and the parts that need each entry.
fn rolled_back<A: Accounting>(by_host: bool) -> (u64, Needed) {
    let store = four(V0);
    let mut block = block::<A>(&store);
    block.begin_part();
    block.set(Top, &[0x2d], b"new").unwrap();
    block.proof_size().unwrap();
    block.begin_part();
    if !by_host {
        block.enter_runtime().unwrap();
    }
    block.start_transaction();
    block.get(Top, &[0x1a]).unwrap();
    block.remove(Top, &[0x1b]).unwrap();
    block.proof_size().unwrap();
    block.rollback_transaction().unwrap();
    if !by_host {
        block.exit_runtime().unwrap();
    }
    let attribution = block.attribution();
    let entries = attribution.entries().map(|entry| {
        let parts: BTreeSet<_> = entry.wants().map(|want| want.part).collect();
        (entry.path().to_vec(), parts.into_iter().collect())
    });
    let mut entries: Vec<_> = entries.collect();
    entries.sort();
    assert_eq!(
        attribution.total_bytes(),
        block.recorded_size().total_bytes()
    );
    (attribution.total_bytes(), entries)
}

#[test]
fn notes_are_rolled_back_with_what_is_counted() {
    let entry = |path: &[u8], parts: &[u32]| (path.to_vec(), parts.to_vec());
    let nothing_of_part_2 = vec![entry(&[], &[1]), entry(&[2, 0xd], &[1])];
    for rolled_back in [
        rolled_back::<Consensus>(true),
        rolled_back::<Advisory>(true),
    ] {
        assert_eq!(rolled_back, (115, nothing_of_part_2.clone()));
    }
    let mut all = vec![
        entry(&[], &[1, 2]),
        entry(&[1], &[2]),
        entry(&[1, 0xa], &[2]),
        entry(&[1, 0xb], &[2]),
        entry(&[2, 0xd], &[1]),
    ];
    assert_eq!(rolled_back::<Consensus>(false), (305, all.clone()));
    all.remove(3);
    assert_eq!(rolled_back::<Advisory>(false), (262, all));
}

#[test]
fn a_change_counts_for_who_made_it_and_not_for_who_asks() {
    let store = four(V0);
    let mut block = block::<Consensus>(&store);
    block.begin_part();
    block.set(Top, &[0x1a], b"new").unwrap();
    block.begin_part();
    block.proof_size().unwrap();
    block.start_transaction();
    block.set(Top, &[0x2d], b"new").unwrap();
    block.rollback_transaction().unwrap();
    block.begin_part();
    let sealed = block.seal(V0).unwrap();
    let attribution = sealed.attribution().unwrap();
    assert!(attribution
        .entries()
        .all(|entry| parts(&entry) == [(1, Why::Path)]));
    assert_eq!(attribution.total_bytes(), 218);
}

#[test]
fn a_part_whose_reads_are_forgotten_owns_nothing() {
    let store = four(V0);
    let mut block = block::<Consensus>(&store);
    block.begin_part();
    let mark = block.reads_mark();
    block.get(Top, &[0x2d]).unwrap();
    assert!(block.forget_reads(mark));
    assert_eq!(block.attribution().total_bytes(), 0);
    block.begin_part();
    block.get(Top, &[0x2d]).unwrap();
    let read = [(2, Some(2), Cause::Read, 44), (2, Some(2), Cause::Read, 71)];
    assert_eq!(owned(&block.attribution()), read);
}

/// Changes taken over have no owner, whatever was done with the block before.
#[test]
fn a_block_with_the_changes_of_another_is_in_no_part() {
    let store = four(V0);
    let mut other = block::<Consensus>(&store);
    other.begin_part();
    other.remove(Top, &[0x1a]).unwrap();
    type OnStore<'a> = Block<&'a MemoryStore, Attributed<Consensus>>;
    let before: [fn(&mut OnStore<'_>); 6] = [
        |_| {},
        |block| assert_eq!(block.proof_size().unwrap().total_bytes(), 0),
        |block| assert!(block.exists(Top, &[0x2d]).unwrap()),
        |block| block.remove(Top, &[0x1b]).unwrap(),
        |block| block.start_transaction(),
        |block| {
            block.start_transaction();
            block.remove(Top, &[0x1b]).unwrap();
            block.rollback_transaction().unwrap();
        },
    ];
    for call in before {
        let mut block = block::<Consensus>(&store);
        block.begin_part();
        call(&mut block);
        block.copy_changes(&other);
        block.get(Top, &[0x2d]).unwrap();
        let sealed = block.seal(V0).unwrap();
        let attribution = sealed.attribution().unwrap();
        let parts: BTreeSet<_> = attribution
            .entries()
            .flat_map(|entry| parts(&entry))
            .collect();
        assert_eq!(parts, [(0, Why::Read)].into());
        // The leaf that is deleted.
        let deleted = at(attribution, &[1, 0xa], EntryKind::Node);
        assert_eq!(deleted.wants().len(), 0);
    }
}

#[test]
fn who_deletes_what_is_deleted_changes_nothing() {
    let store = four(V0);
    let mut block = block::<Consensus>(&store);
    block.begin_part();
    block.remove(Top, &[0x1a]).unwrap();
    block.begin_part();
    block.remove(Top, &[0x1a]).unwrap();
    let sealed = block.seal(V0).unwrap();
    let attribution = sealed.attribution().unwrap();
    assert!(attribution
        .entries()
        .all(|entry| parts(&entry) == [(1, Why::Path)]));
}

/// Neither the removal of a key that the parent state lacks, nor that of a key that the block has made, merges anything.
#[test]
fn who_deletes_what_was_not_there_merges_nothing() {
    let pool = Child(b"pool");
    let keys: [&[u8]; 4] = [&[0x1a], &[0x1b], &[0x1c], &[0x2d]];
    let entries = keys.map(|key| (Top, key));
    let store = state(V0, &[&entries[..], &[(pool, &[0x1a])]].concat());
    fn sealed<A: Accounting>(store: &MemoryStore, pool: TrieId<'_>) -> SealedBlock {
        let mut block = block::<A>(store);
        assert_eq!(block.begin_part(), 1);
        block.remove(Top, &[0x1e]).unwrap();
        block.set(Top, &[0x1f], b"made").unwrap();
        block.remove(Top, &[0x1f]).unwrap();
        block.remove(pool, &[0x1b]).unwrap();
        assert_eq!(block.begin_part(), 2);
        block.remove(Top, &[0x1a]).unwrap();
        block.remove(Top, &[0x1b]).unwrap();
        block.remove(pool, &[0x1a]).unwrap();
        block.seal(V0).unwrap()
    }
    for sealed in [
        sealed::<Consensus>(&store, pool),
        sealed::<Advisory>(&store, pool),
    ] {
        let attribution = sealed.attribution().unwrap();
        let sibling = at(attribution, &[1, 0xc], EntryKind::Node);
        assert_eq!(parts(&sibling), [(2, Why::Merge)]);
        assert_eq!(sibling.owner(nibble).cause, Cause::Sibling);
        let null = attribution
            .entries()
            .find(|entry| entry.kind() == EntryKind::Null)
            .unwrap();
        assert_eq!(parts(&null), [(2, Why::Merge)]);
    }
}

#[test]
fn child_tries_and_the_ways_to_them() {
    let pool = Child(b"pool");
    let store = state(V0, &[(Top, &[0x1a]), (Top, &[0x1b]), (pool, &[0x1a])]);
    let mut block = block::<Consensus>(&store);
    block.begin_part();
    block.remove(pool, &[0x1a]).unwrap();
    let sealed = block.seal(V0).unwrap();
    let attribution = sealed.attribution().unwrap();
    let entries = attribution.entries().map(|entry| {
        let child = entry.trie() == pool;
        let wants: Vec<_> = entry.wants().map(|want| (want.why, want.trie)).collect();
        (entry.bytes(), child, wants)
    });
    let mut entries: Vec<_> = entries.collect();
    entries.sort_unstable();
    let path = vec![(Why::Path, pool)];
    let merge = vec![(Why::Merge, pool)];
    // In the child: the null node and the leaf. In the top trie: the leaf that holds the child's root,
    // the root node, and the branch that the root node is merged with.
    let expected = [
        (2, true, merge.clone()),
        (44, true, path.clone()),
        (62, false, path.clone()),
        (71, false, path),
        (71, false, merge),
    ];
    assert_eq!(entries, expected);
}

/// The parts that change a child need what its root needs, whoever asks for it.
#[test]
fn who_asks_for_the_root_of_a_child_changes_nothing() {
    let store = state(
        V1,
        &[(Top, &[0x1a]), (Child(b"one"), &[1]), (Child(b"two"), &[1])],
    );
    let entries = |asks: bool| {
        let mut block = block::<Consensus>(&store);
        block.begin_part();
        block.set(Child(b"one"), &[1], &[7; 40]).unwrap();
        block.begin_part();
        block.remove(Child(b"two"), &[1]).unwrap();
        block.begin_part();
        for child in [b"one", b"two"] {
            if asks {
                block.child_root(child, V1).unwrap();
            }
        }
        owned(block.seal(V1).unwrap().attribution().unwrap())
    };
    assert_eq!(entries(true), entries(false));
}

/// A small random number generator, the same on every machine.
fn next(seed: &mut u64, below: usize) -> usize {
    *seed = seed
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    usize::try_from(*seed >> 33).unwrap() % below
}

/// One random call, the same on every block of the same seed.
fn step<A: Accounting>(block: &mut Block<&MemoryStore, A>, seed: &mut u64, keys: &[Vec<u8>]) {
    let key = &keys[next(seed, keys.len())];
    let trie = [Top, Top, Child(b"child"), Child(b"other")][next(seed, 4)];
    let prefix = &key[..next(seed, key.len() + 1)];
    match next(seed, 16) {
        0..=2 => drop(block.get(trie, key).unwrap()),
        3 => drop(block.exists(trie, key).unwrap()),
        4 => drop(block.next_key(trie, key).unwrap()),
        5..=6 => block.set(trie, key, &[7; 40]).unwrap(),
        7..=8 => block.remove(trie, key).unwrap(),
        9 => block.append(trie, key, &[9; 40]).unwrap(),
        10 if trie != Top => drop(block.clear_prefix(trie, prefix, Some(3), None).unwrap()),
        11 => block.start_transaction(),
        12 if block.transaction_depth() > 0 => block.rollback_transaction().unwrap(),
        13 if block.transaction_depth() > 0 => block.commit_transaction().unwrap(),
        14 => drop(block.proof_size().unwrap()),
        15 => match (next(seed, 4), trie) {
            (0, _) => drop(block.root(V1).unwrap()),
            (1, Child(child)) => drop(block.child_root(child, V1).unwrap()),
            _ => {}
        },
        _ => {}
    }
}

fn random_state(seed: &mut u64) -> (MemoryStore, Vec<Vec<u8>>) {
    let count = 4 + next(seed, 40);
    let keys: BTreeSet<Vec<u8>> = (0..count)
        .map(|_| {
            (0..=next(seed, 3))
                .map(|_| [0x11, 0x12, 0x21, 0x50][next(seed, 4)])
                .collect()
        })
        .collect();
    let keys: Vec<_> = keys.into_iter().collect();
    let mut store = MemoryStore::new();
    let mut block = Block::new(&store, Root::EMPTY);
    for key in keys.iter().filter(|key| key.len() % 3 > 0) {
        block.set(Top, key, &[key[0]; 33]).unwrap();
        block.set(Child(b"child"), key, &[1; 30]).unwrap();
    }
    let sealed = block.seal(V1).unwrap();
    store.commit(sealed.update()).unwrap();
    (store, keys)
}

/// Each recorded node is listed once, with at least one want.
fn check(attribution: &Attribution, proof: &povmeter::StorageProof, last_part: u32) {
    let found: Vec<NodeHash> = attribution.entries().map(|entry| entry.hash()).collect();
    let distinct: BTreeSet<_> = found.iter().copied().collect();
    let recorded: BTreeSet<_> = proof
        .nodes()
        .iter()
        .map(|node| Blake2b256::hash(node))
        .collect();
    assert_eq!(found.len(), distinct.len(), "counted twice");
    assert_eq!(distinct, recorded, "lost or made up");
    assert_eq!(attribution.total_bytes(), proof.recorded_bytes());
    for entry in attribution.entries() {
        assert!(entry.wants().len() > 0, "{entry:?}");
        assert!(entry.wants().all(|want| want.part <= last_part));
        let ordered: Vec<_> = entry.wants().collect();
        assert!(
            ordered.windows(2).all(|pair| pair[0] < pair[1]),
            "{entry:?}"
        );
    }
}

/// A random block with notes has the sizes and the proof of the same block without notes.
fn random_block<A: Accounting>(seed: u64, roots_in_key_order: bool) {
    let mut seed = seed;
    let (store, keys) = random_state(&mut seed);
    let mut plain = Block::with_accounting(&store, store.root(), A::default());
    let mut noted = block::<A>(&store);
    if roots_in_key_order {
        plain.count_roots_in_key_order();
        noted.count_roots_in_key_order();
    }
    let mut runtime = false;
    let mut part = 0;
    for _ in 0..80 {
        if next(&mut seed, 8) == 0 {
            part = noted.begin_part();
        }
        if plain.transaction_depth() == 0 && next(&mut seed, 8) == 0 {
            runtime = !runtime;
            if runtime {
                plain.enter_runtime().unwrap();
                noted.enter_runtime().unwrap();
            } else {
                plain.exit_runtime().unwrap();
                noted.exit_runtime().unwrap();
            }
        }
        let mut same = seed;
        step(&mut plain, &mut seed, &keys);
        step(&mut noted, &mut same, &keys);
        assert_eq!(noted.recorded_size(), plain.recorded_size());
        check(&noted.attribution(), &plain.recorded_proof(), part);
    }
    if runtime {
        plain.exit_runtime().unwrap();
        noted.exit_runtime().unwrap();
    }
    while plain.transaction_depth() > 0 {
        plain.commit_transaction().unwrap();
        noted.commit_transaction().unwrap();
    }
    let (plain, noted) = (plain.seal(V1).unwrap(), noted.seal(V1).unwrap());
    assert!(plain.attribution().is_none());
    assert_eq!(plain.update(), noted.update());
    assert_eq!(plain.proof(), noted.proof());
    check(noted.attribution().unwrap(), plain.proof(), part);
}

#[test]
fn random_blocks_add_up() {
    for seed in 0..400 {
        for roots_in_key_order in [false, true] {
            random_block::<Consensus>(seed, roots_in_key_order);
            random_block::<Advisory>(seed, roots_in_key_order);
        }
    }
}

/// The reasons for each recorded node of a block, ordered.
fn reasons(attribution: &Attribution) -> Vec<(NodeHash, Vec<Want<'_>>)> {
    let entries = attribution.entries();
    let mut reasons: Vec<_> = entries.map(|e| (e.hash(), e.wants().collect())).collect();
    reasons.sort_unstable();
    reasons
}

/// A block with the notes of a block that never made the reads that are forgotten.
#[test]
fn forgotten_reads_leave_no_notes() {
    fn random_block<A: Accounting>(seed: u64) {
        let mut seed = seed;
        let (store, keys) = random_state(&mut seed);
        let (mut without, mut forgetting) = (block::<A>(&store), block::<A>(&store));
        for _ in 0..40 {
            if next(&mut seed, 8) == 0 {
                assert_eq!(without.begin_part(), forgetting.begin_part());
            }
            let mut same = seed;
            step(&mut without, &mut seed, &keys);
            step(&mut forgetting, &mut same, &keys);
            let mark = forgetting.reads_mark();
            for _ in 0..next(&mut seed, 3) {
                let key = &keys[next(&mut seed, keys.len())];
                // Loaded in both blocks, because a node is looked for at each place where it is loaded.
                without.peek_parent(Top, key).unwrap();
                forgetting.peek_parent(Top, key).unwrap();
                forgetting.get(Top, key).unwrap();
            }
            let _ = forgetting.forget_reads(mark);
            let (expected, found) = (without.attribution(), forgetting.attribution());
            assert_eq!(reasons(&found), reasons(&expected));
        }
    }
    for seed in 0..200 {
        random_block::<Consensus>(seed);
        random_block::<Advisory>(seed);
    }
}

/// Without deletions and rollbacks, a part owns as many bytes as it adds to the estimate.
#[test]
fn a_part_is_given_what_it_adds_to_the_estimate() {
    for seed in 0..200 {
        let mut seed = seed;
        let (store, keys) = random_state(&mut seed);
        let mut block = block::<Consensus>(&store);
        let mut before = 0;
        let mut growth = BTreeMap::new();
        for _ in 0..6 {
            let part = block.begin_part();
            for _ in 0..4 {
                let key = &keys[next(&mut seed, keys.len())];
                let trie = [Top, Child(b"child"), Child(b"other")][next(&mut seed, 3)];
                match next(&mut seed, 4) {
                    0 => block.set(trie, key, b"new").unwrap(),
                    1 => drop(block.next_key(trie, key).unwrap()),
                    2 if next(&mut seed, 4) == 0 => drop(block.proof_size().unwrap()),
                    _ => drop(block.get(trie, key).unwrap()),
                }
            }
            let size = block.peek_proof_size().unwrap().total_bytes();
            growth.insert(part, size - before);
            before = size;
        }
        let sealed = block.seal(V1).unwrap();
        let mut owned = BTreeMap::new();
        for entry in sealed.attribution().unwrap().entries() {
            *owned.entry(entry.owner(nibble).part).or_insert(0) += entry.bytes();
        }
        growth.retain(|_, bytes| *bytes > 0);
        assert_eq!(owned, growth);
    }
}

/// Only [`Attributed`] blocks take notes.
#[test]
fn blocks_without_notes_have_no_attribution() {
    fn none<S: NodeSource, A: Accounting>(block: Block<S, A>) -> bool {
        block.seal(V0).unwrap().attribution().is_none()
    }
    let store = four(V0);
    assert!(none(Block::with_accounting(
        &store,
        store.root(),
        Consensus
    )));
    assert!(none(Block::with_accounting(&store, store.root(), Advisory)));
}
