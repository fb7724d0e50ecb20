//! Failing sources and bad input: each error names what was expected and what was found.

use crate::{accounts, key};
use povmeter::{
    Accounting, Advisory, Block, BlockError, BlockPool, CompactProof, Consensus, LoadError,
    NodeHash, NodePrefix, NodeSource, ProofError, Root, SealedBlock, SourceError, StateVersion::V0,
    StateVersion::V1, TrieId::Top,
};
use povmeter_store::{MemoryStore, NodeStore};
use std::{
    cell::Cell,
    error::Error,
    io, iter,
    panic::{catch_unwind, AssertUnwindSafe},
};

/// A store that panics once `left` requests were answered.
struct Panicking<'s> {
    store: &'s MemoryStore,
    left: Cell<u32>,
}

impl NodeSource for &Panicking<'_> {
    fn node(
        &self,
        hash: &NodeHash,
        prefix: NodePrefix<'_>,
    ) -> Result<Option<bytes::Bytes>, SourceError> {
        let left = self.left.get().checked_sub(1);
        self.left.set(left.expect("the source has no answer left"));
        self.store.node(hash, prefix)
    }
}

/// Reads, deletions, a size and a root.
fn work(block: &mut Block<impl NodeSource>) {
    for account in 0..4 {
        block.get(Top, &key(account)).unwrap();
    }
    for account in 4..30 {
        block.remove(Top, &key(account)).unwrap();
    }
    block.proof_size().unwrap();
    block.root(V1).unwrap();
}

#[test]
fn a_caught_panic_of_a_source_harms_no_later_block() {
    let store = accounts(60);
    let outcome = |sealed: SealedBlock| format!("{:?} {:?}", sealed.update(), sealed.proof());
    let mut fresh = Block::new(&store, store.root());
    work(&mut fresh);
    let fresh = outcome(fresh.seal(V1).unwrap());
    let mut panics = 0;
    for left in 1..60 {
        let pool = BlockPool::carrying(1 << 20);
        let left = Cell::new(left);
        let source = Panicking {
            store: &store,
            left,
        };
        let mut block = pool.block(&source, store.root());
        let caught = catch_unwind(AssertUnwindSafe(|| work(&mut block)));
        panics += usize::from(caught.is_err());
        drop(block);
        let mut next = pool.block(&store, store.root());
        assert!(next.loaded_nodes() > 0);
        work(&mut next);
        assert_eq!(outcome(next.seal(V1).unwrap()), fresh);
    }
    assert!(panics > 20, "{panics}");
}

/// A peek counts nothing, also if the source panics in the middle of it.
#[test]
fn a_caught_panic_of_a_peek_counts_nothing() {
    let store = accounts(60);
    let mut panics = 0;
    for left in 1..60 {
        let left = Cell::new(left);
        let source = Panicking {
            store: &store,
            left,
        };
        let mut block = Block::new(&source, store.root());
        for account in 4..30 {
            block.remove(Top, &key(account)).unwrap();
        }
        let caught = catch_unwind(AssertUnwindSafe(|| block.peek_proof_size()));
        panics += usize::from(caught.is_err());
        source.left.set(u32::MAX);
        assert_eq!(block.recorded_size().total_bytes(), 0);
        for account in 4..30 {
            block.set(Top, &key(account), &[7; 40]).unwrap();
        }
        let mut fresh = Block::new(&store, store.root());
        for account in 4..30 {
            fresh.set(Top, &key(account), &[7; 40]).unwrap();
        }
        assert_eq!(block.proof_size().unwrap(), fresh.proof_size().unwrap());
    }
    assert!(panics > 20, "{panics}");
}

/// After a panic and a rollback, a block is as before the transaction: its sizes, root and proof are those of a block
/// without it.
#[test]
fn a_caught_panic_of_a_source_leaves_nothing_in_its_block() {
    fn removed(block: &mut Block<impl NodeSource, impl Accounting>, keys: &[u8]) {
        for key in keys {
            block.remove(Top, &[*key]).unwrap();
        }
    }
    fn outcome(mut block: Block<impl NodeSource, impl Accounting>) -> String {
        let before = block.proof_size().unwrap();
        removed(&mut block, &[0x1b]);
        let after = block.proof_size().unwrap();
        let sealed = block.seal(V0).unwrap();
        format!(
            "{before:?} {after:?} {:?} {:?}",
            sealed.update(),
            sealed.proof()
        )
    }
    fn check<A: Accounting>(store: &MemoryStore, in_key_order: bool, by_root: bool) -> usize {
        let mut panics = 0;
        for asked_before in [false, true] {
            for left in 0..8 {
                let left = Cell::new(left);
                let panicking = Panicking { store, left };
                let source = &panicking;
                let [mut block, fresh] = [(), ()].map(|()| {
                    let mut block = Block::with_accounting(source, store.root(), A::default());
                    if in_key_order {
                        block.count_roots_in_key_order();
                    }
                    block
                });
                block.start_transaction();
                let work = || {
                    removed(&mut block, &[0x1a]);
                    if asked_before {
                        block.peek_proof_size().unwrap();
                    }
                    removed(&mut block, &[0x2d]);
                    match by_root {
                        true => drop(block.root(V0).unwrap().root),
                        false => drop(block.proof_size().unwrap()),
                    }
                };
                panics += usize::from(catch_unwind(AssertUnwindSafe(work)).is_err());
                block.rollback_transaction().unwrap();
                source.left.set(100);
                assert_eq!(outcome(block), outcome(fresh));
            }
        }
        panics
    }

    let mut store = MemoryStore::new();
    let mut parent = Block::new(&store, store.root());
    for key in [0x1a, 0x1b, 0x2d] {
        parent.set(Top, &[key], &[key; 40]).unwrap();
    }
    let sealed = parent.seal(V0).unwrap();
    store.commit(sealed.update()).unwrap();
    for by_root in [false, true] {
        for in_key_order in [false, true] {
            let panics = check::<Consensus>(&store, in_key_order, by_root);
            assert!(panics > 5, "{panics}");
        }
        let panics = check::<Advisory>(&store, false, by_root);
        assert!(panics > 5, "{panics}");
    }
}

/// How a source fails.
#[derive(Clone, Copy)]
enum Trouble {
    None,
    Lost,
    Garbage,
    Broken,
}

/// A store that fails for every node but the root.
struct Troubled {
    store: MemoryStore,
    trouble: Cell<Trouble>,
}

impl Troubled {
    fn new(store: &MemoryStore, trouble: Trouble) -> Self {
        Self {
            store: store.clone(),
            trouble: Cell::new(trouble),
        }
    }
}

impl NodeSource for Troubled {
    fn node(
        &self,
        hash: &NodeHash,
        prefix: NodePrefix<'_>,
    ) -> Result<Option<bytes::Bytes>, SourceError> {
        if *hash == self.store.root().node_hash() {
            return self.store.node(hash, prefix);
        }
        match self.trouble.get() {
            Trouble::None => self.store.node(hash, prefix),
            Trouble::Lost => Ok(None),
            Trouble::Garbage => Ok(Some(bytes::Bytes::from_static(b"\x00\x00\x00"))),
            Trouble::Broken => Err(SourceError::new(io::Error::other("disk on fire"))),
        }
    }
}

/// A call that has to load something.
type Question = fn(&mut Block<&Troubled>) -> Result<(), BlockError>;

fn questions() -> [(&'static str, Question); 9] {
    [
        ("get", |block| block.get(Top, &key(1)).map(drop)),
        ("exists", |block| block.exists(Top, &key(1)).map(drop)),
        ("value_hash", |block| {
            block.value_hash(Top, &key(1)).map(drop)
        }),
        ("next_key", |block| block.next_key(Top, &key(1)).map(drop)),
        ("append", |block| block.append(Top, &key(1), &[0])),
        ("clear_prefix", |block| {
            block.clear_prefix(Top, &key(1)[..1], None, None).map(drop)
        }),
        ("proof_size", |block| block.proof_size().map(drop)),
        ("compact", |block| block.compact_proof_bytes().map(drop)),
        ("root", |block| block.root(V1).map(drop)),
    ]
}

/// The error texts of all calls under `trouble`. Each call is repeated on the repaired source, and
/// succeeds, unless the source returned wrong bytes: those stay loaded and refused.
fn answers(trouble: Trouble) -> Vec<String> {
    let store = accounts(100);
    let ask = |(name, question): (&str, Question)| {
        let source = Troubled::new(&store, trouble);
        let mut block = Block::new(&source, store.root());
        block.set(Top, &key(2), b"paid").unwrap();
        let Err(error) = question(&mut block) else {
            panic!("{name} answered");
        };
        assert!(matches!(error, BlockError::Load(_)), "{name}: {error:?}");
        source.trouble.set(Trouble::None);
        let again = question(&mut block);
        match trouble {
            Trouble::Garbage => assert!(again.is_err(), "{name} answered the second time"),
            _ => again.unwrap_or_else(|error| panic!("{name}, again: {error}")),
        }
        error.to_string()
    };
    questions().into_iter().map(ask).collect()
}

#[test]
fn a_missing_node_is_named_with_its_place() {
    for text in answers(Trouble::Lost) {
        assert!(text.starts_with("expected node 0x"), "{text}");
        assert!(text.contains(" at path 0x"), "{text}");
        assert!(text.ends_with("found nothing in the store"), "{text}");
    }
}

#[test]
fn a_corrupt_node_is_named_with_what_is_wrong() {
    for text in answers(Trouble::Garbage) {
        assert!(text.starts_with("expected a trie node 0x"), "{text}");
        assert!(text.contains(" at path 0x"), "{text}");
        assert!(
            text.ends_with("found other bytes: null node below the root"),
            "{text}"
        );
    }
}

#[test]
fn a_failing_source_is_quoted() {
    for text in answers(Trouble::Broken) {
        assert!(text.starts_with("could not read node 0x"), "{text}");
        assert!(text.ends_with("disk on fire"), "{text}");
    }
}

/// Whoever has the block's error gets at the error that the source made, and a message that adds the sources says
/// nothing twice.
#[test]
fn the_error_of_a_failing_source_keeps_its_type() {
    let store = accounts(100);
    let source = Troubled::new(&store, Trouble::Broken);
    let mut block = Block::new(&source, store.root());
    let error = block.get(Top, &key(1)).unwrap_err();
    let first: &dyn Error = &error;
    let errors: Vec<_> = iter::successors(Some(first), |&error| error.source()).collect();
    let found = errors.iter().find_map(|error| error.downcast_ref());
    let found: &io::Error = found.expect("the source's error is one of them");
    assert_eq!(found.kind(), io::ErrorKind::Other);
    assert!(errors.iter().any(|error| error.is::<SourceError>()));
    for below in errors {
        assert!(error.to_string().ends_with(&below.to_string()), "{below}");
    }
}

#[test]
fn a_failing_source_yields_no_block() {
    for trouble in [Trouble::Lost, Trouble::Garbage, Trouble::Broken] {
        let store = accounts(100);
        let source = Troubled::new(&store, trouble);
        let mut block = Block::new(&source, store.root());
        block.remove(Top, &key(1)).unwrap();
        let refused = block.seal(V1).map_err(BlockError::from);
        assert!(matches!(refused, Err(BlockError::Load(_))));
    }
}

#[test]
fn a_root_that_nothing_is_stored_for_is_found_out() {
    let store = accounts(10);
    let wrong = Root::from([0xee; 32]);
    let mut block = Block::new(&store, wrong);
    let error = block.get(Top, &key(1)).unwrap_err();
    assert!(
        matches!(&error, BlockError::Load(LoadError::Missing { hash, .. }) if *hash == wrong.node_hash())
    );
    assert_eq!(
        error.to_string(),
        format!("expected node {wrong} at the root, found nothing in the store")
    );
}

#[test]
fn roots_of_child_tries_can_not_be_written() {
    let store = accounts(10);
    let mut block = Block::new(&store, store.root());
    let key = povmeter_delta_root::child_root_key(b"pool");
    let expected = "expected a key that a block can write, \
                    found child root key 0x3a6368696c645f73746f726167653a64656661756c743a706f6f6c";
    for refused in [
        block.set(Top, &key, &[0; 32]),
        block.remove(Top, &key),
        block.append(Top, &key, &[0]),
    ] {
        assert_eq!(refused.unwrap_err().to_string(), expected);
    }
    let pool = "0x3a6368696c645f73746f726167653a64656661756c743a706f6f6c";
    for (prefix, shown) in [
        (&b""[..], "0x"),
        (b":child", "0x3a6368696c64"),
        (&key, pool),
    ] {
        let error = block.clear_prefix(Top, prefix, None, None).unwrap_err();
        let expected = format!(
            "expected a prefix of keys that a block can write, \
             found prefix {shown}, which covers the roots of child tries"
        );
        assert_eq!(error.to_string(), expected);
    }
    assert_eq!(block.seal(V1).unwrap().top_changes().len(), 0);
}

/// A block's compact proof, and the root of its parent state.
fn compact() -> (CompactProof, Root) {
    let store = accounts(100);
    let mut block = Block::new(&store, store.root());
    for account in 0..10 {
        block.get(Top, &key(account)).unwrap();
    }
    let sealed = block.seal(V1).unwrap();
    let root = store.root();
    (sealed.proof().to_compact(root).unwrap(), root)
}

#[test]
fn a_proof_of_another_state_is_refused() {
    let (compact, root) = compact();
    let asked = Root::from([1; 32]);
    let error = compact.to_source(asked).unwrap_err();
    assert!(
        matches!(error, ProofError::WrongRoot { expected, found } if expected == asked && found == root)
    );
    assert_eq!(
        error.to_string(),
        format!("expected a proof of state root {asked}, found one of {root}")
    );
}

#[test]
fn a_truncated_proof_is_refused_wherever_it_ends() {
    let (compact, root) = compact();
    let encoded = compact.encode();
    for length in 0..encoded.len() {
        let error = CompactProof::decode(&encoded[..length]).unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with("expected "), "{length}: {text}");
        assert!(text.contains(", found "), "{length}: {text}");
    }
    // Whole items missing at the end: still a list, but no proof.
    let items = compact.items();
    for kept in 1..items.len() {
        let mut shorter = vec![u8::try_from(kept << 2).unwrap()];
        for item in &items[..kept] {
            let length = u16::try_from(item.len()).unwrap();
            match length {
                0..64 => shorter.push(u8::try_from(length << 2).unwrap()),
                _ => shorter.extend_from_slice(&(length << 2 | 1).to_le_bytes()),
            }
            shorter.extend_from_slice(item);
        }
        let shorter = CompactProof::decode(&shorter).unwrap();
        let error = shorter.to_source(root).unwrap_err();
        assert!(
            matches!(error, ProofError::Truncated { .. }),
            "{kept}: {error}"
        );
    }
}
