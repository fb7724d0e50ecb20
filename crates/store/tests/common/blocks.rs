//! Random blocks over any source.
#![allow(dead_code, reason = "each program uses its part")]

use povmeter::{Block, NodeSource, Root, SealedBlock, StateVersion, TrieId};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// Keys of a state: some are prefixes of others.
const KEYS: u32 = 3_000;
const CHILD: TrieId<'static> = TrieId::Child(b"child");

fn key(rng: &mut SmallRng) -> Vec<u8> {
    let number = rng.random_range(0..KEYS);
    let mut key = number.wrapping_mul(0x9e37_79b1).to_be_bytes().to_vec();
    key.truncate(if number % 7 == 0 { 2 } else { 4 });
    key
}

fn value(rng: &mut SmallRng) -> Vec<u8> {
    let length = [0, 1, 31, 32, 33, 100, 2_000][rng.random_range(0..7)];
    vec![rng.random(); length]
}

/// Executes block `number` on the state `parent`. Returns the sizes that the block was told, and the
/// sealed block. Both are the same for all sources that have the nodes.
pub(crate) fn random_block(
    source: impl NodeSource,
    parent: Root,
    number: u64,
    operations: usize,
) -> (Vec<u64>, SealedBlock) {
    let mut rng = SmallRng::seed_from_u64(number);
    let mut block = Block::new(source, parent);
    let mut sizes = Vec::new();
    for _ in 0..operations {
        let trie = if rng.random_ratio(1, 5) {
            CHILD
        } else {
            TrieId::Top
        };
        let key = key(&mut rng);
        match rng.random_range(0..10) {
            0..4 => drop(block.get(trie, &key).unwrap()),
            4..8 => block.set(trie, &key, &value(&mut rng)).unwrap(),
            8 => block.remove(trie, &key).unwrap(),
            _ => sizes.push(block.proof_size().unwrap().total_bytes()),
        }
    }
    let version = [StateVersion::V0, StateVersion::V1][usize::from(number % 2 == 1)];
    (sizes, block.seal(version).unwrap())
}
