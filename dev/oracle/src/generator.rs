//! Makes cases, aimed at the edges of tries.

use super::{equal_nodes::EqualNodes, Case, Flavour, Op, ParentState, TrieEntries, TrieName};
use rand::{rngs::SmallRng, Rng, RngCore, SeedableRng};
use sp_core::storage::{well_known_keys::starts_with_child_storage_key, StateVersion};

/// Bytes of adversarial keys: few nibbles, in all positions.
const KEY_BYTES: [u8; 6] = [0x00, 0x01, 0x10, 0x11, 0x12, 0xf0];
/// Lengths of a prefix that most keys of a case share, because the count of nibbles in a node's header
/// changes its form at 15, 31 and 63.
const STEM_LENGTHS: [usize; 8] = [0, 0, 0, 0, 7, 8, 31, 32];
/// Value lengths around those of a hash and of the shortest value node.
const VALUE_LENGTHS: [usize; 9] = [0, 1, 2, 8, 31, 32, 33, 34, 80];
/// Value lengths that make every leaf a node with a hash.
const LONG_VALUE_LENGTHS: [usize; 4] = [31, 32, 33, 40];

/// Names of child tries: some are prefixes of others, and some have paths in the top trie that end
/// alike.
const CHILD_NAMES: [&[u8]; 6] = [b"c", b"cc", b"ccc", b"d", b"dc", b"dcc"];

/// Makes one case from `dice`.
pub(super) struct Generator<R> {
    dice: R,
    flavour: Flavour,
    stem: Vec<u8>,
    pool: Vec<Vec<u8>>,
    children: Vec<Vec<u8>>,
    /// Values of the state that are nodes, or hashes of nodes.
    node_values: Vec<Vec<u8>>,
    /// The share of deletions among the operations that change a key.
    deletes: f64,
    /// Whether the dice are few, so that keys must leave some for the block.
    thrifty: bool,
}

impl<R: RngCore> Generator<R> {
    pub(super) fn new(dice: R, flavour: Flavour) -> Self {
        Self::with(dice, flavour, false)
    }

    /// With dice that end soon, such as those of a fuzzer.
    pub(super) fn thrifty(dice: R, flavour: Flavour) -> Self {
        Self::with(dice, flavour, true)
    }

    fn with(dice: R, flavour: Flavour, thrifty: bool) -> Self {
        let (stem, pool, children, node_values) = Default::default();
        let mut generator = Self {
            dice,
            flavour,
            stem,
            pool,
            children,
            node_values,
            deletes: 0.0,
            thrifty,
        };
        generator.prepare();
        generator
    }

    fn prepare(&mut self) {
        let pool_size = match self.flavour {
            Flavour::Adversarial => self.dice.random_range(2..24),
            Flavour::Mixed if self.thrifty => self.dice.random_range(4..40),
            Flavour::Mixed => self.dice.random_range(20..300),
            Flavour::DeleteHeavy => self.dice.random_range(4..40),
        };
        let stem = self.pick(&STEM_LENGTHS);
        self.stem = vec![0x11; stem];
        self.pool = (0..pool_size).map(|_| self.fresh_key()).collect();
        let children = self.pick(&[0, 1, 2, 2, 3]);
        let from = self.dice.random_range(0..CHILD_NAMES.len() - children + 1);
        let children = CHILD_NAMES.iter().skip(from).take(children);
        self.children = children.map(|name| name.to_vec()).collect();
        let shares = match self.flavour {
            Flavour::Adversarial => [0.05, 0.3, 0.7],
            Flavour::Mixed => [0.02, 0.1, 0.3],
            Flavour::DeleteHeavy => [0.7, 0.8, 0.95],
        };
        self.deletes = self.pick(&shares);
    }

    pub(super) fn case(mut self) -> Case {
        let parent = self.parent();
        let version = match parent.version {
            StateVersion::V0 => self.version(),
            StateVersion::V1 => StateVersion::V1,
        };
        let ops = self.block();
        Case {
            parent,
            ops,
            version,
        }
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.dice.random_range(0..from.len())]
    }

    fn version(&mut self) -> StateVersion {
        self.pick(&[StateVersion::V0, StateVersion::V1])
    }

    fn fresh_key(&mut self) -> Vec<u8> {
        if self.flavour == Flavour::Mixed {
            let map = self.dice.random_range(0..4u8) * 0x11;
            let mut key = vec![map; 32];
            match self.thrifty {
                // One of the dice for 16 bytes.
                true => SmallRng::seed_from_u64(self.dice.random::<u8>().into())
                    .fill_bytes(&mut key[16..]),
                false => self.dice.fill_bytes(&mut key[16..]),
            }
            return key;
        }
        let mut key = Vec::new();
        if self.dice.random_bool(0.7) {
            key.clone_from(&self.stem);
        }
        let length = self.dice.random_range(0..5);
        key.extend((0..length).map(|_| self.pick(&KEY_BYTES)));
        key
    }

    fn key(&mut self) -> Vec<u8> {
        if self.dice.random_bool(0.05) {
            return self.fresh_key();
        }
        self.pool[self.dice.random_range(0..self.pool.len())].clone()
    }

    fn value(&mut self) -> Vec<u8> {
        if !self.node_values.is_empty() && self.dice.random_bool(0.1) {
            return self.node_values[self.dice.random_range(0..self.node_values.len())].clone();
        }
        let length = match self.flavour {
            Flavour::DeleteHeavy => self.pick(&LONG_VALUE_LENGTHS),
            _ => self.pick(&VALUE_LENGTHS),
        };
        // Few distinct values, so that there are equal leaves and equal value nodes.
        vec![self.dice.random_range(0..3u8); length]
    }

    fn trie(&mut self) -> TrieName {
        if self.children.is_empty() || self.dice.random_bool(0.5) {
            return TrieName::Top;
        }
        let index = self.dice.random_range(0..self.children.len());
        TrieName::Child(self.children[index].clone())
    }

    fn entries(&mut self, share: f64) -> TrieEntries {
        let mut entries = TrieEntries::new();
        for index in 0..self.pool.len() {
            if self.dice.random_bool(share) {
                let value = self.value();
                entries.insert(self.pool[index].clone(), value);
            }
        }
        if self.dice.random_bool(0.2) {
            mirror(&mut entries);
        }
        entries
    }

    fn parent(&mut self) -> ParentState {
        let share = match self.flavour {
            Flavour::Adversarial => self.pick(&[0.0, 0.3, 0.7, 1.0]),
            Flavour::Mixed => self.pick(&[0.7, 0.9, 1.0]),
            Flavour::DeleteHeavy => 1.0,
        };
        let mut parent = ParentState {
            top: self.entries(share),
            version: self.version(),
            ..ParentState::default()
        };
        for child in self.children.clone() {
            let twin = parent.children.values().next().cloned();
            let entries = match twin {
                Some(twin) if self.dice.random_bool(0.2) => twin,
                _ => self.entries(0.5),
            };
            // The block may create the children that are missing.
            if !entries.is_empty() && self.dice.random_bool(0.7) {
                parent.children.insert(child, entries);
            }
        }
        if parent.version == StateVersion::V0 {
            parent.rewritten = self.entries(0.2);
        }
        if self.dice.random_bool(0.85) {
            self.make_equal_nodes(&mut parent);
        }
        parent
    }

    /// Makes equal nodes in several places of `parent`, and has the block use their keys.
    fn make_equal_nodes(&mut self, parent: &mut ParentState) {
        let mut equal = EqualNodes {
            parent,
            names: &self.children,
            dice: &mut self.dice,
            keys: Vec::new(),
            values: Vec::new(),
        };
        if equal.dice.random_bool(0.5) {
            equal.lengthen();
        }
        for _ in 0..equal.dice.random_range(1..6) {
            equal.change();
        }
        let EqualNodes { keys, values, .. } = equal;
        self.node_values = values;
        self.pool.extend(keys);
    }

    fn block(&mut self) -> Vec<Op> {
        let mut ops = Vec::new();
        for _ in 0..self.dice.random_range(1..6) {
            let depth = if self.dice.random_bool(0.1) { 2 } else { 1 };
            ops.extend((0..depth).map(|_| Op::HostStart));
            ops.push(Op::Enter);
            self.runtime(&mut ops);
            ops.push(Op::Exit);
            if self.dice.random_bool(0.5) {
                ops.push(Op::Boundary);
            }
            for _ in 0..depth {
                ops.push(if self.dice.random_bool(0.2) {
                    Op::HostRollback
                } else {
                    Op::HostCommit
                });
            }
            if self.dice.random_bool(0.7) {
                ops.push(Op::Boundary);
            }
            if self.dice.random_bool(0.1) {
                // A call of the host itself.
                let op = self.call();
                ops.push(op);
            }
        }
        ops.push(Op::Boundary);
        ops
    }

    /// Appends the calls of the runtime between entering and leaving it.
    fn runtime(&mut self, ops: &mut Vec<Op>) {
        let mut depth = 0;
        for _ in 0..self.dice.random_range(0..24) {
            let op = match self.dice.random_range(0..100) {
                0..10 => {
                    depth += 1;
                    Op::Start
                }
                10..15 if depth > 0 => {
                    depth -= 1;
                    Op::Commit
                }
                15..20 if depth > 0 => {
                    depth -= 1;
                    Op::Rollback
                }
                10..25 => Op::Boundary,
                25 => Op::Root,
                _ => self.call(),
            };
            ops.push(op);
        }
        // Open transactions are rolled back when the runtime exits. Real runtimes leave none open.
        let closed = if self.flavour == Flavour::Mixed {
            0.98
        } else {
            0.7
        };
        if self.dice.random_bool(closed) {
            ops.extend((0..depth).map(|_| Op::Commit));
        }
    }

    /// Returns one call that reads or changes keys.
    fn call(&mut self) -> Op {
        let (trie, key) = (self.trie(), self.key());
        match self.dice.random_range(0..74) {
            0..49 if self.dice.random_bool(self.deletes) => Op::Remove { trie, key },
            0..49 => Op::Set {
                trie,
                key,
                value: self.value(),
            },
            49..53 => Op::Append {
                trie: TrieName::Top,
                key,
                element: self.value(),
            },
            53..59 => Op::Get { trie, key },
            59..62 => Op::Hash { trie, key },
            62..65 => Op::Exists { trie, key },
            65..69 => Op::Next { trie, key },
            _ => self.clear(trie, key),
        }
    }

    fn clear(&mut self, trie: TrieName, mut prefix: Vec<u8>) -> Op {
        let kept = self.dice.random_range(0..4) + self.pick(&[0, self.stem.len()]);
        prefix.truncate(kept);
        if trie == TrieName::Top && starts_with_child_storage_key(&prefix) {
            prefix = vec![KEY_BYTES[3]];
        }
        let limit = self.dice.random_bool(0.5);
        let limit = limit.then(|| self.dice.random_range(0..4));
        // A cursor is a key at which an earlier call stopped, so none is beyond the prefix.
        let cursor = self.dice.random_bool(0.2);
        let cursor = cursor.then(|| self.key());
        let cursor = cursor.filter(|key| key.starts_with(&prefix) || *key < prefix);
        Op::Clear {
            trie,
            prefix,
            limit,
            cursor,
        }
    }
}

/// Copies the entries under each first byte to another byte, so that subtrees are equal.
fn mirror(entries: &mut TrieEntries) {
    let copies: Vec<_> = entries
        .iter()
        .filter_map(|(key, value)| {
            let (first, rest) = key.split_first()?;
            let other = first ^ 0x11;
            Some(([&[other], rest].concat(), value.clone()))
        })
        .collect();
    entries.extend(copies);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_ops(flavour: Flavour) -> Vec<Op> {
        (0..200)
            .flat_map(|seed| Case::random(seed, flavour).ops)
            .collect()
    }

    #[test]
    fn a_seed_is_a_case() {
        for flavour in Flavour::ALL {
            let (one, again) = (Case::random(7, flavour), Case::random(7, flavour));
            assert_eq!(one.ops, again.ops);
            assert_eq!(one.parent.top, again.parent.top);
            assert_ne!(one.ops, Case::random(8, flavour).ops);
        }
    }

    #[test]
    fn delete_heavy_blocks_delete_and_mixed_ones_write() {
        let count = |flavour| {
            let ops = all_ops(flavour);
            let removes = ops.iter().filter(|op| matches!(op, Op::Remove { .. }));
            let sets = ops.iter().filter(|op| matches!(op, Op::Set { .. }));
            (removes.count(), sets.count())
        };
        let (removes, sets) = count(Flavour::DeleteHeavy);
        assert!(removes > 2 * sets, "{removes} {sets}");
        let (removes, sets) = count(Flavour::Mixed);
        assert!(sets > 2 * removes, "{removes} {sets}");
    }

    #[test]
    fn transactions_balance() {
        for flavour in Flavour::ALL {
            for seed in 0..200 {
                let mut host = 0;
                let mut runtime = None;
                for op in Case::random(seed, flavour).ops {
                    match op {
                        Op::HostStart => host += 1,
                        Op::HostCommit | Op::HostRollback => host -= 1,
                        Op::Enter => runtime = Some(0),
                        Op::Exit => runtime = None,
                        Op::Start => runtime = runtime.map(|depth| depth + 1),
                        Op::Commit | Op::Rollback => runtime = runtime.map(|depth| depth - 1),
                        _ => {}
                    }
                    assert!(host >= 0 && runtime.is_none_or(|depth: i32| depth >= 0));
                }
                assert_eq!((host, runtime), (0, None), "{flavour:?} {seed}");
            }
        }
    }

    #[test]
    fn no_bytes_are_a_case_too() {
        assert!(!Case::from_bytes(&[]).ops.is_empty());
    }
}
