//! Random blocks without a runtime, and all that a caller can see of a block.
#![allow(dead_code, clippy::unwrap_used)]

use povmeter::{Block, BlockError, NodeSource, Root, RootUpdate, StateVersion, TrieId};
use povmeter_store::{MemoryStore, NodeStore};
use rand::{rngs::SmallRng, Rng, SeedableRng};

const CHILD: TrieId<'static> = TrieId::Child(b"pool");

/// A key in a dense part, whose leaves have no partial key, or below a long prefix.
pub(crate) fn key(dice: &mut SmallRng) -> Vec<u8> {
    let mut key = vec![0x5a; *[0, 0, 7, 32].get(dice.random_range(0..4)).unwrap()];
    key.extend((0..dice.random_range(1..3)).map(|_| dice.random_range(0..24_u8) * 11));
    key
}

fn value(dice: &mut SmallRng) -> Vec<u8> {
    let length = *[0, 1, 32, 33, 80, 300]
        .get(dice.random_range(0..6))
        .unwrap();
    vec![dice.random_range(0..50); length]
}

fn trie(dice: &mut SmallRng) -> TrieId<'static> {
    if dice.random_range(0..4) == 0 {
        CHILD
    } else {
        TrieId::Top
    }
}

/// A store with some hundred entries.
pub(crate) fn genesis(seed: u64) -> MemoryStore {
    let mut dice = SmallRng::seed_from_u64(seed);
    let mut store = MemoryStore::new();
    let mut block = Block::new(&store, Root::EMPTY);
    for _ in 0..600 {
        let (trie, key, value) = (trie(&mut dice), key(&mut dice), value(&mut dice));
        block.set(trie, &key, &value).unwrap();
    }
    let sealed = block.seal(StateVersion::V1).unwrap();
    store.commit(sealed.update()).unwrap();
    store
}

/// Random keys like those of blocks, the same for the same seed.
pub(crate) fn keys_of(seed: u64) -> Vec<Vec<u8>> {
    let mut dice = SmallRng::seed_from_u64(seed);
    (0..64).map(|_| key(&mut dice)).collect()
}

/// Executes a random block. Returns its update and everything that a caller can see of it.
pub(crate) fn run<S: NodeSource>(
    source: S,
    root: Root,
    seed: u64,
) -> Result<(RootUpdate, Vec<u8>), BlockError> {
    let mut dice = SmallRng::seed_from_u64(seed);
    let mut block = Block::new(source, root);
    let mut told = Vec::new();
    for _ in 0..150 {
        let (trie, key) = (trie(&mut dice), key(&mut dice));
        match dice.random_range(0..16) {
            0..4 => block.set(trie, &key, &value(&mut dice))?,
            4..7 => block.remove(trie, &key)?,
            7..11 => told.extend_from_slice(block.get(trie, &key)?.unwrap_or(b"none")),
            11 => told.extend_from_slice(&block.next_key(trie, &key)?.unwrap_or_default()),
            12 => block.start_transaction(),
            13 => told.push(u8::from(block.rollback_transaction().is_ok())),
            _ => {
                let size = block.proof_size()?;
                told.extend_from_slice(&size.read_bytes.to_le_bytes());
                told.extend_from_slice(&size.root_bytes.to_le_bytes());
                told.extend_from_slice(&block.compact_proof_bytes()?.to_le_bytes());
            }
        }
    }
    while block.transaction_depth() > 0 {
        block.commit_transaction()?;
    }
    let sealed = block.seal(StateVersion::V1)?;
    told.extend_from_slice(sealed.update().root.as_bytes());
    told.extend_from_slice(&sealed.size().total_bytes().to_le_bytes());
    told.extend_from_slice(&sealed.proof().encode());
    Ok((sealed.update().clone(), told))
}
