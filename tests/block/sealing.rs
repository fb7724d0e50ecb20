//! The end of a block, and blocks executed again.

use crate::{accounts, key};
use povmeter::{
    child_root_key, Accounting, Advisory, Block, BlockError, Consensus, NodeSource, ProofSize,
    Root,
    StateVersion::{V0, V1},
    TrieId::{Child, Top},
};
use povmeter_store::{MemoryStore, NodeStore};

/// Some extrinsics, some of which fail midway; returns the sizes inside and after each.
fn execute<S: NodeSource>(block: &mut Block<S>) -> Result<Vec<ProofSize>, BlockError> {
    let mut sizes = Vec::new();
    for extrinsic in 0..20_u32 {
        block.start_transaction();
        block.enter_runtime()?;
        block.get(Top, &key(extrinsic))?;
        block.remove(Top, &key(2 * extrinsic))?;
        sizes.push(block.proof_size()?);
        block.start_transaction();
        block.set(Child(b"pool"), &key(extrinsic), &[1; 50])?;
        block.append(Top, b"events", &extrinsic.to_le_bytes())?;
        block.remove(Top, &key(900 - extrinsic))?;
        sizes.push(block.proof_size()?);
        if extrinsic % 5 == 3 {
            block.rollback_transaction()?;
        } else {
            block.commit_transaction()?;
        }
        block.next_key(Top, &key(300 + extrinsic))?;
        block.exit_runtime()?;
        block.commit_transaction()?;
        sizes.push(block.proof_size()?);
    }
    Ok(sizes)
}

#[test]
fn author_importer_and_validator_agree() {
    let store = accounts(1000);
    let mut author = Block::new(&store, store.root());
    // An extrinsic that the author tries and drops leaves nothing behind but loaded nodes.
    author.start_transaction();
    author.remove(Top, &key(777)).unwrap();
    author.proof_size().unwrap();
    author.rollback_transaction().unwrap();
    let sizes = execute(&mut author).unwrap();
    let sealed = author.seal(V1).unwrap();
    assert_eq!(sealed.size(), sizes[sizes.len() - 1]);
    assert_eq!(sealed.proof().recorded_bytes(), sealed.size().total_bytes());

    let mut importer = Block::new(&store, store.root());
    assert_eq!(execute(&mut importer).unwrap(), sizes);
    assert_eq!(importer.seal(V1).unwrap().update(), sealed.update());

    let sent = sealed.proof().to_compact(store.root()).unwrap().encode();
    let received = povmeter::CompactProof::decode(&sent).unwrap();
    let nodes = received.to_source(store.root()).unwrap();
    let mut validator = Block::new(nodes, store.root());
    assert_eq!(execute(&mut validator).unwrap(), sizes);
    assert_eq!(validator.seal(V1).unwrap().update(), sealed.update());
}

#[test]
fn the_compact_length_is_known_before_the_end() {
    let store = accounts(1000);
    let mut block = Block::new(&store, store.root());
    execute(&mut block).unwrap();
    let told = block.compact_proof_bytes().unwrap();
    let compact = block.seal(V1).unwrap().proof().to_compact(store.root());
    assert_eq!(compact.unwrap().encode().len() as u64, told);
}

#[test]
fn an_advisory_proof_holds_what_the_block_needs_and_no_more() {
    let store = accounts(1000);
    let mut asked = Block::with_accounting(&store, store.root(), Advisory);
    let mut silent = Block::with_accounting(&store, store.root(), Advisory);
    for block in [&mut asked, &mut silent] {
        block.remove(Top, &key(1)).unwrap();
    }
    asked.proof_size().unwrap();
    for block in [&mut asked, &mut silent] {
        block.set(Top, &key(1), b"back again").unwrap();
    }
    let (asked, silent) = (asked.seal(V1).unwrap(), silent.seal(V1).unwrap());
    assert_eq!(asked.proof(), silent.proof());
    assert_eq!(asked.size(), silent.size());
}

#[test]
fn changes_come_out_in_order() {
    let store = accounts(10);
    let mut block = Block::new(&store, store.root());
    block.set(Top, b"b", b"2").unwrap();
    block.remove(Top, b"a").unwrap();
    block.set(Child(b"y"), b"k", b"3").unwrap();
    block.set(Child(b"x"), b"k", b"4").unwrap();
    let sealed = block.seal(V1).unwrap();
    let top: Vec<_> = sealed.top_changes().collect();
    assert_eq!(top, [(&b"a"[..], None), (b"b", Some(&b"2"[..]))]);
    let children: Vec<_> = sealed.child_changes().map(|(key, _)| key).collect();
    assert_eq!(children, [b"x", b"y"]);
    let roots: Vec<_> = sealed
        .update()
        .children
        .iter()
        .map(|(key, _)| key)
        .collect();
    assert_eq!(roots, [b"x", b"y"]);
}

#[test]
fn a_block_without_changes_needs_nothing() {
    let store = accounts(10);
    let block = Block::new(&store, store.root());
    let sealed = block.seal(V1).unwrap();
    assert_eq!(sealed.update().root, store.root());
    assert!(sealed.update().nodes.is_empty());
    assert_eq!(sealed.size(), ProofSize::default());
    assert!(sealed
        .proof()
        .to_compact(store.root())
        .unwrap()
        .items()
        .is_empty());
}

#[test]
fn the_root_follows_the_content_and_the_version() {
    let store = accounts(10);
    let mut block = Block::new(&store, store.root());
    block.set(Top, b"long", &[1; 33]).unwrap();
    let first = block.root(V1).unwrap().root;
    assert_ne!(block.root(V0).unwrap().root, first, "another version");
    assert_eq!(block.root(V1).unwrap().root, first);
    block.set(Top, b"long", &[2; 33]).unwrap();
    assert_ne!(block.root(V1).unwrap().root, first, "another content");
    block.remove(Top, b"long").unwrap();
    assert_eq!(block.seal(V1).unwrap().update().root, store.root());
}

/// A root computed in a transaction that the host rolls back must not be used again, because its nodes
/// are no longer recorded.
fn seal_after_a_root_rolled_back<A: Accounting>(store: &MemoryStore) {
    let mut block = Block::with_accounting(store, store.root(), A::default());
    block.set(Top, &key(5), b"paid").unwrap();
    block.start_transaction();
    block.root(V1).unwrap();
    block.rollback_transaction().unwrap();
    let sealed = block.seal(V1).unwrap();
    assert_eq!(sealed.proof().recorded_bytes(), sealed.size().total_bytes());

    let mut again = Block::with_accounting(sealed.proof().to_source(), store.root(), A::default());
    again.set(Top, &key(5), b"paid").unwrap();
    let again = again.seal(V1).expect("the proof holds what the root needs");
    assert_eq!(again.update().root, sealed.update().root);
}

#[test]
fn a_root_computed_and_rolled_back_is_computed_again() {
    let store = accounts(1000);
    seal_after_a_root_rolled_back::<Consensus>(&store);
    seal_after_a_root_rolled_back::<Advisory>(&store);
}

#[test]
fn the_empty_state_is_a_state() {
    let store = MemoryStore::new();
    let mut block = Block::new(&store, Root::EMPTY);
    assert_eq!(block.get(Top, b"key").unwrap(), None);
    assert_eq!(block.next_key(Top, b"").unwrap(), None);
    block.set(Top, b"key", b"").unwrap();
    assert_eq!(block.get(Top, b"key").unwrap(), Some(&b""[..]));
    block.remove(Top, b"key").unwrap();
    assert_eq!(block.seal(V1).unwrap().update().root, Root::EMPTY);
}

/// The page of [`Block`] promises this.
#[test]
fn a_killed_childs_root_key_reads_as_in_the_parent_state() {
    let child = Child(b"contract");
    let mut store = MemoryStore::new();
    let mut genesis = Block::new(&store, Root::EMPTY);
    for key in [b"a", b"b"] {
        genesis.set(child, key, &[7; 40]).unwrap();
    }
    let sealed = genesis.seal(V1).unwrap();
    let before = sealed.update().children[0].1;
    store.commit(sealed.update()).unwrap();

    let mut block = Block::new(&store, store.root());
    let root_key = child_root_key(b"contract");
    let reads = |block: &mut Block<&MemoryStore>| {
        let root = block.get(Top, &root_key).unwrap();
        assert_eq!(root, Some(&before.as_bytes()[..]));
    };
    reads(&mut block);
    let removal = block.clear_prefix(child, b"", None, None).unwrap();
    assert_eq!((removal.from_parent, removal.cursor), (2, None));
    reads(&mut block);
    let update = block.root(V1).unwrap();
    assert_eq!(update.children, [(b"contract".to_vec(), Root::EMPTY)]);
    reads(&mut block);
    let sealed = block.seal(V1).unwrap();
    assert_eq!(sealed.update().root, Root::EMPTY);
}

/// A store with the entries `a` and `b` in each of the child tries `one` and `two`.
fn children() -> MemoryStore {
    let mut store = MemoryStore::new();
    let mut genesis = Block::new(&store, Root::EMPTY);
    for (child, byte) in [(b"one", 1), (b"two", 2)] {
        for key in [b"a", b"b"] {
            genesis.set(Child(child), key, &[byte; 40]).unwrap();
        }
    }
    let sealed = genesis.seal(V1).unwrap();
    store.commit(sealed.update()).unwrap();
    store
}

/// The root that reads find under the key of child `one`.
fn read_root<A: Accounting>(block: &mut Block<&MemoryStore, A>) -> Root {
    let root = block.get(Top, &child_root_key(b"one")).unwrap();
    root.map_or(Root::EMPTY, |root| {
        Root::from(<[u8; 32]>::try_from(root).unwrap())
    })
}

#[test]
fn the_root_of_a_changed_child_is_a_change_of_the_top_trie() {
    fn check<A: Accounting>(in_key_order: bool) {
        let store = children();
        let mut block = Block::with_accounting(&store, store.root(), A::default());
        if in_key_order {
            block.count_roots_in_key_order();
        }
        let parent = read_root(&mut block);
        assert_eq!(block.child_root(b"one", V1).unwrap(), parent);
        assert!(!block.is_changed(Top, &child_root_key(b"one")));

        block.set(Child(b"one"), b"c", &[3; 40]).unwrap();
        assert_eq!(read_root(&mut block), parent);
        let first = block.child_root(b"one", V1).unwrap();
        assert_ne!(first, parent);
        assert_eq!(read_root(&mut block), first);
        // It does not follow later changes, and is rolled back as other changes are.
        block.start_transaction();
        block.clear_prefix(Child(b"one"), b"", None, None).unwrap();
        assert_eq!(read_root(&mut block), first);
        assert_eq!(block.child_root(b"one", V1).unwrap(), Root::EMPTY);
        assert!(!block.exists(Top, &child_root_key(b"one")).unwrap());
        assert_eq!(block.child_root(b"one", V1).unwrap(), Root::EMPTY);
        block.rollback_transaction().unwrap();
        assert_eq!(read_root(&mut block), first);

        block.set(Child(b"one"), b"d", &[4; 40]).unwrap();
        let last = {
            let mut plain = Block::new(&store, store.root());
            plain.set(Child(b"one"), b"c", &[3; 40]).unwrap();
            plain.set(Child(b"one"), b"d", &[4; 40]).unwrap();
            plain.seal(V1).unwrap()
        };
        let sealed = block.seal(V1).unwrap();
        assert_eq!(sealed.update(), last.update());
        let written: Vec<_> = sealed.top_changes().collect();
        assert_eq!(written.len(), 1);
        assert_eq!(written[0].1, Some(&first.as_bytes()[..]));
        assert_eq!(last.top_changes().len(), 0);
    }
    for in_key_order in [false, true] {
        check::<Consensus>(in_key_order);
        check::<Advisory>(in_key_order);
    }
}

/// A deleted root is deleted before it is set again, as sp-state-machine does it: then the way to the other root is
/// merged.
#[test]
fn an_emptied_child_that_gets_an_entry_counts_what_its_deletion_needs() {
    let size = |asks: bool| {
        let store = children();
        let mut block = Block::new(&store, store.root());
        // Its changes go to a block that has counted nothing.
        let mut other = Block::new(&store, store.root());
        for key in [b"a", b"b"] {
            block.remove(Child(b"one"), key).unwrap();
        }
        if asks {
            block.child_root(b"one", V1).unwrap();
        }
        block.set(Child(b"one"), b"c", &[3; 40]).unwrap();
        other.copy_changes(&block);
        let size = block.proof_size().unwrap();
        assert_eq!(
            other.proof_size().unwrap().total_bytes(),
            size.total_bytes()
        );
        let sealed = block.seal(V1).unwrap();
        assert_eq!(sealed.size(), size);
        (size.total_bytes(), sealed.update().root)
    };
    let ((plain, expected), (asked, root)) = (size(false), size(true));
    assert_eq!(root, expected);
    // The leaf of the other root: a header, a partial key of three nibbles, and 32 bytes with their length.
    assert!(asked > plain + 32, "{asked} {plain}");
}
