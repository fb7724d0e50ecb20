//! Random blocks, the same on every machine, and the hash of all their results.

use crate::run::{grow, inserted};
use povmeter::{
    Accounting, Advisory, Block, BlockError, Consensus, NodeHash, NodeSource, Root, StateVersion,
    StorageProof, TrieId,
};
use povmeter_delta_root::{Blake2b256, Changes};
use std::collections::BTreeMap;

/// Bytes that keys are made of: few nibbles, in all positions.
const KEY_BYTES: [u8; 5] = [0x00, 0x01, 0x10, 0x11, 0xf0];
/// Bytes of a key's fixed prefix: a node's header changes its form at 15, 31 and 63 nibbles.
const STEMS: [usize; 6] = [0, 0, 7, 8, 31, 32];
/// Value lengths around that of a hash, and around the forms of a SCALE length.
const VALUE_LENGTHS: [usize; 9] = [0, 1, 31, 32, 33, 63, 64, 300, 17_000];
const CHILD: TrieId<'static> = TrieId::Child(b"child");

/// A small random number generator.
struct Dice(u64);

impl Dice {
    /// A number below `end`.
    fn below(&mut self, end: u32) -> u32 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        // The high 33 bits. The remainder fits, because `end` has 32 bits.
        u32::try_from((self.0 >> 31) % u64::from(end)).unwrap_or(0)
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        let end = u32::try_from(from.len()).unwrap_or(u32::MAX);
        &from[self.below(end) as usize]
    }

    fn key(&mut self) -> Vec<u8> {
        let mut key = vec![0x11; *self.pick(&STEMS)];
        for _ in 0..self.below(4) {
            key.push(*self.pick(&KEY_BYTES));
        }
        key
    }

    fn value(&mut self) -> Vec<u8> {
        let length = *self.pick(&VALUE_LENGTHS);
        let [byte, ..] = self.below(3).to_le_bytes();
        vec![byte; length]
    }
}

/// The hash of all sizes, roots and proofs of `blocks` random blocks.
///
/// # Errors
/// [`BlockError`] if a block fails, which none should.
pub fn digest(blocks: u32) -> Result<NodeHash, BlockError> {
    let mut told = Vec::new();
    for number in 0..blocks {
        let dice = Dice(u64::from(number));
        if number % 2 == 0 {
            run::<Consensus>(dice, &mut told)?;
        } else {
            run::<Advisory>(dice, &mut told)?;
        }
    }
    Ok(Blake2b256::hash(&told))
}

fn run<A: Accounting>(mut dice: Dice, told: &mut Vec<u8>) -> Result<(), BlockError> {
    let version = *dice.pick(&[StateVersion::V0, StateVersion::V1]);
    let mut entries = || -> BTreeMap<Vec<u8>, Vec<u8>> {
        let count = dice.below(60);
        (0..count).map(|_| (dice.key(), dice.value())).collect()
    };
    let (top, child) = (entries(), entries());
    fn changes(entries: &BTreeMap<Vec<u8>, Vec<u8>>) -> povmeter_delta_root::KeyChanges<'_> {
        let entries = entries.iter();
        entries
            .map(|(key, value)| (&key[..], Some(&value[..])))
            .collect()
    }
    let changes = Changes {
        top: changes(&top),
        children: vec![(b"child", changes(&child))],
    };
    let parent = grow(&[], Root::EMPTY, &changes, version)?;
    told.extend_from_slice(parent.root.as_bytes());
    let source = StorageProof::new(inserted(&parent)).to_source();
    let mut block = Block::with_accounting(source, parent.root, A::default());
    if dice.below(4) == 0 {
        block.count_roots_in_key_order();
    }
    calls(&mut block, &mut dice, version, told)?;
    let sealed = block.seal(version)?;
    told.extend_from_slice(sealed.update().root.as_bytes());
    told.extend_from_slice(&sealed.size().total_bytes().to_le_bytes());
    told.extend_from_slice(&sealed.proof().encode());
    told.extend_from_slice(&sealed.proof().to_compact(parent.root)?.encode());
    Ok(())
}

/// Makes random calls on `block`, up to 120 of them, and adds their results to `told`. No transaction is
/// open in the end. The same `seed` makes the same calls.
///
/// # Errors
/// The first error of the block.
pub fn random_calls<S: NodeSource, A: Accounting>(
    block: &mut Block<S, A>,
    seed: u64,
    version: StateVersion,
    told: &mut Vec<u8>,
) -> Result<(), BlockError> {
    calls(block, &mut Dice(seed), version, told)
}

fn calls<S: NodeSource, A: Accounting>(
    block: &mut Block<S, A>,
    dice: &mut Dice,
    version: StateVersion,
    told: &mut Vec<u8>,
) -> Result<(), BlockError> {
    let mut in_runtime = false;
    for _ in 0..dice.below(120) {
        // A runtime's rollback keeps what was counted, and the host's does not.
        if dice.below(12) == 0 {
            if in_runtime {
                // The same bytes on machines of all sizes.
                let open = u64::try_from(block.exit_runtime()?).unwrap_or(u64::MAX);
                told.extend_from_slice(&open.to_le_bytes());
            } else {
                block.enter_runtime()?;
            }
            in_runtime = !in_runtime;
        }
        step(block, dice, version, told)?;
    }
    if in_runtime {
        block.exit_runtime()?;
    }
    while block.transaction_depth() > 0 {
        block.commit_transaction()?;
    }
    Ok(())
}

fn step<S: NodeSource, A: Accounting>(
    block: &mut Block<S, A>,
    dice: &mut Dice,
    version: StateVersion,
    told: &mut Vec<u8>,
) -> Result<(), BlockError> {
    let trie = *dice.pick(&[TrieId::Top, TrieId::Top, CHILD]);
    let key = dice.key();
    match dice.below(25) {
        0..6 => block.remove(trie, &key)?,
        6..10 => block.set(trie, &key, &dice.value())?,
        10 => block.append(trie, &key, &dice.value())?,
        11 => {
            // A block can't clear the whole top trie, because that covers roots of child tries.
            let trie = if key.is_empty() { CHILD } else { trie };
            let limit = (dice.below(4) > 0).then(|| dice.below(5));
            let mut cursor = None;
            // A second call goes on where the first one stopped.
            for _ in 0..2 {
                let removal = block.clear_prefix(trie, &key, limit, cursor.as_deref())?;
                for count in [removal.from_parent, removal.unique, removal.visited] {
                    told.extend_from_slice(&count.to_le_bytes());
                }
                told.extend_from_slice(removal.cursor.as_deref().unwrap_or_default());
                if removal.cursor.is_none() || dice.below(2) == 0 {
                    break;
                }
                cursor = removal.cursor;
            }
        }
        12 => told.extend_from_slice(&block.next_key(trie, &key)?.unwrap_or_default()),
        13 => told.push(u8::from(block.exists(trie, &key)?)),
        14..16 => told.extend_from_slice(block.get(trie, &key)?.unwrap_or_default()),
        16 => block.start_transaction(),
        // Without an open transaction, closing is refused and changes nothing.
        17 => told.push(u8::from(block.commit_transaction().is_ok())),
        18 => told.push(u8::from(block.rollback_transaction().is_ok())),
        19 => told.extend_from_slice(block.root(version)?.root.as_bytes()),
        // Rare, because from then on the root is a change of the top trie.
        20 if dice.below(4) == 0 => {
            told.extend_from_slice(block.child_root(b"child", version)?.as_bytes());
        }
        20 => told.extend_from_slice(&block.compact_proof_bytes()?.to_le_bytes()),
        21 => {
            let hash = block.value_hash(trie, &key)?;
            told.extend_from_slice(hash.as_ref().map_or(&[], |hash| hash.as_bytes()));
        }
        _ => {
            let size = block.proof_size()?;
            told.extend_from_slice(&size.read_bytes.to_le_bytes());
            told.extend_from_slice(&size.root_bytes.to_le_bytes());
        }
    }
    Ok(())
}
