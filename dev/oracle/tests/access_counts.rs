//! The counts of reads that a machine returns to benchmarks, beside those of a backend that counts as the one of
//! benchmarks does (`BenchmarkingState` of sc-client-db).

#![allow(clippy::unwrap_used)]

use crate::differences::{machine, peer, pool, state, under_ours, PeerBackend};
use povmeter_dev_runtime::runtime::Hashing;
use rand::{rngs::SmallRng, Rng, SeedableRng};
use sp_core::{
    storage::{ChildInfo, StateVersion},
    H256,
};
use sp_externalities::Externalities;
use sp_state_machine::{
    backend::BackendTransaction, Backend, Ext, IterArgs, OverlayedChanges, StateMachineStats,
    StorageIterator, StorageKey, StorageValue, UsageInfo,
};
use sp_trie::MerkleValue;
use std::{cell::RefCell, fmt, rc::Rc};

type Inner = PeerBackend;
type Error = <Inner as Backend<Hashing>>::Error;
type Storage = <Inner as Backend<Hashing>>::TrieBackendStorage;
type InnerIter = <Inner as Backend<Hashing>>::RawIter;
type Rows = Vec<(Vec<u8>, u32, u32, bool)>;

/// How often each key was read, in the order of the first reads.
type KeyReads = Vec<(Vec<u8>, u32)>;

/// The reads of the top trie, and of child tries by name.
#[derive(Default)]
struct Reads {
    top: KeyReads,
    children: Vec<(Vec<u8>, KeyReads)>,
}

/// The value of `key` in `list`; adds one if there is none.
fn entry<'l, T: Default>(list: &'l mut Vec<(Vec<u8>, T)>, key: &[u8]) -> &'l mut T {
    let found = list.iter().position(|(listed, _)| listed == key);
    let place = found.unwrap_or_else(|| {
        list.push((key.to_vec(), T::default()));
        list.len() - 1
    });
    &mut list[place].1
}

impl Reads {
    fn count(&mut self, child: Option<&[u8]>, key: &[u8]) {
        let keys = match child {
            Some(child) => entry(&mut self.children, child),
            None => &mut self.top,
        };
        *entry(keys, key) += 1;
    }

    fn all(&self) -> impl Iterator<Item = &(Vec<u8>, u32)> {
        let children = self.children.iter().flat_map(|(_, keys)| keys);
        self.top.iter().chain(children)
    }

    fn totals(&self) -> (u32, u32, u32, u32) {
        let repeats = self.all().map(|(_, count)| count - 1).sum();
        (u32::try_from(self.all().count()).unwrap(), repeats, 0, 0)
    }

    fn by_prefix(&self) -> Rows {
        let mut rows = Vec::new();
        for (key, _) in self.all() {
            *entry::<u32>(&mut rows, &key[..key.len().min(32)]) += 1;
        }
        let rows = rows.into_iter();
        rows.map(|(prefix, reads)| (prefix, reads, 0, false))
            .collect()
    }
}

/// A backend that counts in the places where that of benchmarks does.
struct Counting {
    inner: Inner,
    reads: Rc<RefCell<Reads>>,
}

impl fmt::Debug for Counting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Counting")
    }
}

impl Counting {
    fn top(&self, key: &[u8]) -> &Inner {
        self.reads.borrow_mut().count(None, key);
        &self.inner
    }

    fn child(&self, child: &ChildInfo, key: &[u8]) -> &Inner {
        let name = child.storage_key();
        self.reads.borrow_mut().count(Some(name), key);
        &self.inner
    }
}

struct CountingIter {
    inner: InnerIter,
    child: Option<Vec<u8>>,
}

impl StorageIterator<Hashing> for CountingIter {
    type Backend = Counting;
    type Error = Error;

    fn next_key(&mut self, backend: &Counting) -> Option<Result<StorageKey, Error>> {
        let next = self.inner.next_key(&backend.inner);
        if let Some(Ok(key)) = &next {
            let mut reads = backend.reads.borrow_mut();
            reads.count(self.child.as_deref(), key);
        }
        next
    }

    fn next_pair(&mut self, _: &Counting) -> Option<Result<(StorageKey, StorageValue), Error>> {
        unreachable!("externalities iterate over keys")
    }

    fn was_complete(&self) -> bool {
        self.inner.was_complete()
    }
}

impl Backend<Hashing> for Counting {
    type Error = Error;
    type TrieBackendStorage = Storage;
    type RawIter = CountingIter;

    fn storage(&self, key: &[u8]) -> Result<Option<StorageValue>, Error> {
        self.top(key).storage(key)
    }

    fn storage_hash(&self, key: &[u8]) -> Result<Option<H256>, Error> {
        self.top(key).storage_hash(key)
    }

    fn exists_storage(&self, key: &[u8]) -> Result<bool, Error> {
        self.top(key).exists_storage(key)
    }

    fn next_storage_key(&self, key: &[u8]) -> Result<Option<StorageKey>, Error> {
        self.top(key).next_storage_key(key)
    }

    fn closest_merkle_value(&self, key: &[u8]) -> Result<Option<MerkleValue<H256>>, Error> {
        self.top(key).closest_merkle_value(key)
    }

    fn child_storage(&self, child: &ChildInfo, key: &[u8]) -> Result<Option<StorageValue>, Error> {
        self.child(child, key).child_storage(child, key)
    }

    fn child_storage_hash(&self, child: &ChildInfo, key: &[u8]) -> Result<Option<H256>, Error> {
        self.child(child, key).child_storage_hash(child, key)
    }

    fn exists_child_storage(&self, child: &ChildInfo, key: &[u8]) -> Result<bool, Error> {
        self.child(child, key).exists_child_storage(child, key)
    }

    fn next_child_storage_key(
        &self,
        child: &ChildInfo,
        key: &[u8],
    ) -> Result<Option<StorageKey>, Error> {
        self.child(child, key).next_child_storage_key(child, key)
    }

    fn child_closest_merkle_value(
        &self,
        child: &ChildInfo,
        key: &[u8],
    ) -> Result<Option<MerkleValue<H256>>, Error> {
        self.child(child, key)
            .child_closest_merkle_value(child, key)
    }

    fn storage_root<'a>(
        &self,
        delta: impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)>,
        version: StateVersion,
    ) -> (H256, BackendTransaction<Hashing>) {
        self.inner.storage_root(delta, version)
    }

    fn child_storage_root<'a>(
        &self,
        child: &ChildInfo,
        delta: impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)>,
        version: StateVersion,
    ) -> (H256, bool, BackendTransaction<Hashing>) {
        self.inner.child_storage_root(child, delta, version)
    }

    fn raw_iter(&self, args: IterArgs<'_>) -> Result<CountingIter, Error> {
        let child = args.child_info.as_ref();
        let child = child.map(|child| child.storage_key().to_vec());
        let inner = self.inner.raw_iter(args)?;
        Ok(CountingIter { inner, child })
    }

    fn register_overlay_stats(&self, stats: &StateMachineStats) {
        self.inner.register_overlay_stats(stats);
    }

    fn usage_info(&self) -> UsageInfo {
        self.inner.usage_info()
    }

    fn read_write_count(&self) -> (u32, u32, u32, u32) {
        self.reads.borrow().totals()
    }

    fn get_read_and_written_keys(&self) -> Rows {
        self.reads.borrow().by_prefix()
    }
}

/// What a call returns, and the counts after it.
type Outcome = (String, (u32, u32, u32, u32), Rows);

fn outcome(ext: &dyn Externalities, answer: impl fmt::Debug) -> Outcome {
    let rows = ext.get_read_and_written_keys();
    (format!("{answer:?}"), ext.read_write_count(), rows)
}

/// A key of few, so that many calls meet the same one. Some are longer than the prefixes that are counted.
fn key(random: &mut SmallRng) -> Vec<u8> {
    let mut key = vec![0x10 + random.random_range(0..3)];
    key.extend((0..random.random_range(0..3)).map(|_| 0x20 + random.random_range(0..3_u8)));
    if random.random_range(0..8) == 0 {
        key.resize(40, 0x30);
    }
    key
}

/// The beginning of a key, or a whole one.
fn prefix(random: &mut SmallRng) -> Vec<u8> {
    let mut prefix = key(random);
    prefix.truncate(random.random_range(0..4));
    prefix
}

/// One random call. The same numbers make the same call on either side.
fn step(ext: &mut dyn Externalities, open: &mut u32, random: &mut SmallRng) -> Outcome {
    let (child, key) = (pool(), key(random));
    let limit = random.random_bool(0.6).then(|| random.random_range(0..6));
    let cursor = random.random_bool(0.3).then(|| self::key(random));
    let cursor = cursor.as_deref();
    let value = random.random_bool(0.5).then(|| vec![1; 40]);
    let call = random.random_range(0..22);
    let answer = match call {
        0 => format!("{:?}", ext.storage(&key)),
        1 => format!("{:?}", ext.storage_hash(&key)),
        2 => format!("{:?}", ext.exists_storage(&key)),
        3 => format!("{:?}", ext.child_storage(&child, &key)),
        4 => format!("{:?}", ext.child_storage_hash(&child, &key)),
        5 => format!("{:?}", ext.exists_child_storage(&child, &key)),
        6..=8 => format!("{:?}", ext.next_storage_key(&key)),
        9..=11 => format!("{:?}", ext.next_child_storage_key(&child, &key)),
        12 | 13 => format!("{:?}", ext.place_storage(key, value)),
        14 | 15 => format!("{:?}", ext.place_child_storage(&child, key, value)),
        16 => format!("{:?}", ext.storage_append(key, vec![1])),
        17 => {
            // An empty prefix covers roots of child tries, and clears nothing.
            let removed = ext.clear_prefix(&prefix(random), limit, cursor);
            format!("{:?}", removed.deconstruct())
        }
        18 => {
            let removed = ext.clear_child_prefix(&child, &prefix(random), limit, cursor);
            format!("{:?}", removed.deconstruct())
        }
        19 => {
            let removed = ext.kill_child_storage(&child, limit, cursor);
            format!("{:?}", removed.deconstruct())
        }
        20 => {
            *open += 1;
            format!("{:?}", ext.storage_start_transaction())
        }
        _ if *open > 0 => {
            *open -= 1;
            match random.random_bool(0.7) {
                true => format!("{:?}", ext.storage_rollback_transaction()),
                false => format!("{:?}", ext.storage_commit_transaction()),
            }
        }
        _ => String::new(),
    };
    outcome(ext, (call, answer))
}

fn slices(keys: &[Vec<u8>]) -> Vec<&[u8]> {
    keys.iter().map(Vec::as_slice).collect()
}

#[test]
fn the_keys_that_calls_read_are_counted_as_benchmarks_count_them() {
    let mut calls = 0;
    for seed in 0..400 {
        let mut random = SmallRng::seed_from_u64(seed);
        let mut keys = || -> Vec<Vec<u8>> {
            let count = random.random_range(0..30);
            (0..count).map(|_| key(&mut random)).collect()
        };
        let (top, below) = (keys(), keys());
        let nodes = state(&slices(&top), &slices(&below));
        let run = |ext: &mut dyn Externalities| -> Vec<Outcome> {
            let mut random = SmallRng::seed_from_u64(seed);
            let mut open = 0;
            (0..40).map(|_| step(ext, &mut open, &mut random)).collect()
        };
        let backend = Counting {
            inner: peer(&nodes).0,
            reads: Rc::default(),
        };
        let mut overlay = OverlayedChanges::default();
        let expected = run(&mut Ext::new(&mut overlay, &backend, None));
        let mut machine = machine(&nodes);
        machine.track_accesses();
        let found = under_ours(&mut machine, |ext| run(ext));
        for (at, (found, expected)) in found.iter().zip(&expected).enumerate() {
            assert_eq!(found, expected, "seed {seed}, call {at}");
        }
        calls += found.len();
    }
    assert_eq!(calls, 16_000);
}

/// The same by hand: a limit and its cursor, keys that the block hides, and a search behind deleted keys.
#[test]
fn iteration_counts_each_key_that_it_finds() {
    let nodes = state(&[&[1, 1], &[1, 2], &[1, 3], &[2, 1]], &[&[1], &[2], &[3]]);
    let run = |ext: &mut dyn Externalities| {
        let mut counts = Vec::new();
        let mut note = |ext: &dyn Externalities| counts.push(ext.read_write_count());
        ext.place_storage(vec![1, 1], None);
        ext.place_storage(vec![1, 2], Some(vec![7]));
        let removed = ext.clear_prefix(&[1], Some(2), None);
        assert_eq!(removed.maybe_cursor.as_deref(), Some(&[1, 3][..]));
        note(ext);
        let _ = ext.clear_prefix(&[1], Some(2), removed.maybe_cursor.as_deref());
        note(ext);
        assert_eq!(ext.next_storage_key(&[1]), Some(vec![2, 1]));
        note(ext);
        let _ = ext.kill_child_storage(&pool(), Some(1), None);
        note(ext);
        let _ = ext.kill_child_storage(&pool(), None, None);
        note(ext);
        assert_eq!(ext.next_child_storage_key(&pool(), &[]), None);
        note(ext);
        counts
    };
    let backend = Counting {
        inner: peer(&nodes).0,
        reads: Rc::default(),
    };
    let mut overlay = OverlayedChanges::default();
    let expected = run(&mut Ext::new(&mut overlay, &backend, None));
    // Both keys that the block has changed, and the cursor.
    assert_eq!(expected[0], (3, 0, 0, 0));
    let mut machine = machine(&nodes);
    machine.track_accesses();
    assert_eq!(under_ours(&mut machine, run), expected);
}
