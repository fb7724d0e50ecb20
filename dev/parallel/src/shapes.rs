//! Multi-version stores of several shapes, alone: one thread reads and publishes for each transaction.

use crate::{
    measure::median_ms,
    workload::{absent_key, balance_key, nonce_key, LARGE_VALUE},
    CountAllocations, Settings, ShapeRow, Touched, Workload,
};
use foldhash::quality::RandomState;
use povmeter::TrieId::Top;
use povmeter_parallel::{VersionRead, VersionStore};
use rand::{rngs::SmallRng, seq::SliceRandom, SeedableRng};
use roaring::RoaringBitmap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{
    borrow::Borrow,
    collections::{BTreeMap, HashMap},
    hash::BuildHasher,
    hint::black_box,
    sync::{Arc, Mutex, PoisonError, RwLock},
    time::{Duration, Instant},
};

/// The kind of a multi-version store: how it finds the nearest writer of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// The store of povmeter-parallel: the writers of a key inline, sorted, or as bits; values with the transaction.
    Writers,
    /// A `BTreeMap` of versions for each key, behind a sharded map.
    TreePerKey,
    /// As `tree-per-key`, with each version in a cell of 128 bytes, so that no two threads write to one cache line.
    PaddedTreePerKey,
    /// One `BTreeMap` of keys and versions behind a lock.
    OneTree,
    /// A roaring bitmap of writers for each key, behind a sharded map; values with the transaction.
    RoaringPerKey,
}

/// A multi-version store.
trait Versions {
    fn new(positions: u32) -> Self;
    fn publish(&self, position: u32, writes: &[(&[u8], &[u8])]);
    /// The length of the value that the nearest lower transaction wrote.
    fn read(&self, position: u32, key: &[u8]) -> Option<usize>;
}

/// The reads and writes of a transaction.
struct Calls {
    reads: Vec<[u8; 80]>,
    writes: Vec<[u8; 80]>,
    value: Vec<u8>,
}

impl Calls {
    fn of(workload: Workload, Touched { from, to }: Touched) -> Self {
        let (mut reads, writes) = match workload {
            Workload::SameValue => (vec![], vec![balance_key(from)]),
            Workload::Existence => {
                let asked = (0..6).flat_map(|step| {
                    let account = (from + step) % 10_000;
                    [balance_key(account), absent_key(account)]
                });
                (asked.collect(), vec![balance_key(to)])
            }
            _ => {
                let keys = vec![nonce_key(from), balance_key(from), balance_key(to)];
                (vec![], keys)
            }
        };
        if workload != Workload::Existence {
            reads.extend_from_slice(&writes);
        }
        let value = if workload == Workload::SameValue {
            LARGE_VALUE
        } else {
            16
        };
        Self {
            reads,
            writes,
            value: vec![1; value],
        }
    }
}

impl Shape {
    /// All of them, ours first.
    pub const ALL: [Self; 5] = [
        Self::Writers,
        Self::TreePerKey,
        Self::PaddedTreePerKey,
        Self::OneTree,
        Self::RoaringPerKey,
    ];

    /// Its name, as in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Writers => "writers",
            Self::TreePerKey => "tree-per-key",
            Self::PaddedTreePerKey => "padded-tree-per-key",
            Self::OneTree => "one-tree",
            Self::RoaringPerKey => "roaring-per-key",
        }
    }

    fn run(self, calls: &[Calls]) -> Duration {
        match self {
            Self::Writers => run::<Ours>(calls),
            Self::TreePerKey => run::<TreePerKey<Value>>(calls),
            Self::PaddedTreePerKey => run::<TreePerKey<Padded>>(calls),
            Self::OneTree => run::<OneTree>(calls),
            Self::RoaringPerKey => run::<RoaringPerKey>(calls),
        }
    }
}

/// Measures every shape. A store has no iteration of its own here, so [`Workload::Iterate`] is its transfers
/// alone.
pub fn compare_shapes(
    workload: Workload,
    settings: &Settings,
    count: Option<CountAllocations>,
) -> Vec<ShapeRow> {
    let touched = workload.touched(settings.transactions);
    let calls = touched
        .into_iter()
        .map(|touched| Calls::of(workload, touched));
    let calls: Vec<Calls> = calls.collect();
    let mut times = Shape::ALL.map(|_| Vec::new());
    let mut order: Vec<usize> = (0..Shape::ALL.len()).collect();
    let mut rng = SmallRng::seed_from_u64(0);
    for _ in 0..settings.rounds.max(1) {
        order.shuffle(&mut rng);
        for &index in &order {
            times[index].push(Shape::ALL[index].run(&calls));
        }
    }
    let rows = Shape::ALL.into_iter().zip(times).map(|(shape, mut times)| {
        let counted = count.map(|count| count(&mut || _ = shape.run(&calls)));
        let counted = counted.unwrap_or_default();
        ShapeRow {
            workload,
            shape,
            ms: median_ms(&mut times),
            bytes: counted.bytes,
            allocations: counted.calls,
        }
    });
    rows.collect()
}

/// Reads and publishes for each transaction.
fn run<V: Versions>(calls: &[Calls]) -> Duration {
    let started = Instant::now();
    let store = V::new(u32::try_from(calls.len()).unwrap_or(u32::MAX));
    for (calls, position) in calls.iter().zip(0..) {
        for key in &calls.reads {
            black_box(store.read(position, key));
        }
        let value = calls.value.as_slice();
        let write = |key| (key, value);
        match calls.writes.as_slice() {
            [a, b, c] => store.publish(position, &[&a[..], b, c].map(write)),
            keys => keys
                .iter()
                .for_each(|key| store.publish(position, &[write(key)])),
        }
    }
    started.elapsed()
}

struct Ours(VersionStore);

impl Versions for Ours {
    fn new(positions: u32) -> Self {
        Self(VersionStore::new(positions))
    }

    fn publish(&self, position: u32, writes: &[(&[u8], &[u8])]) {
        let writes = writes.iter().map(|(key, value)| (Top, *key, Some(*value)));
        let published = self.0.publish(position, writes);
        debug_assert!(published.is_ok(), "the values are short");
    }

    fn read(&self, position: u32, key: &[u8]) -> Option<usize> {
        match self
            .0
            .read(position, Top, key, |value| value.map(<[u8]>::len))
        {
            VersionRead::Written(_, len) => len,
            VersionRead::Parent | VersionRead::Estimate(_) => None,
        }
    }
}

const SHARDS: usize = 64;

/// A map of keys in parts, each behind a lock of its own.
struct Sharded<T> {
    shards: Vec<RwLock<HashMap<Vec<u8>, T, RandomState>>>,
    hashing: RandomState,
}

impl<T: Default> Sharded<T> {
    fn new() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| RwLock::default()).collect(),
            hashing: RandomState::default(),
        }
    }

    fn shard(&self, key: &[u8]) -> &RwLock<HashMap<Vec<u8>, T, RandomState>> {
        let hash = self.hashing.hash_one(key).to_le_bytes();
        &self.shards[usize::from(hash[6]) % SHARDS]
    }

    fn change(&self, key: &[u8], change: impl FnOnce(&mut T)) {
        let mut shard = self
            .shard(key)
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        match shard.get_mut(key) {
            Some(of_key) => change(of_key),
            None => change(shard.entry(key.to_vec()).or_default()),
        }
    }

    fn look<R>(&self, key: &[u8], look: impl FnOnce(&T) -> Option<R>) -> Option<R> {
        let shard = self
            .shard(key)
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        look(shard.get(key)?)
    }
}

type Value = Arc<Vec<u8>>;

/// A version that has cache lines of its own.
#[repr(align(128))]
struct Padded(Value);

impl From<Value> for Padded {
    fn from(value: Value) -> Self {
        Self(value)
    }
}

impl Borrow<Value> for Padded {
    fn borrow(&self) -> &Value {
        &self.0
    }
}

struct TreePerKey<C>(Sharded<BTreeMap<u32, C>>);

impl<C: From<Value> + Borrow<Value>> Versions for TreePerKey<C> {
    fn new(_: u32) -> Self {
        Self(Sharded::new())
    }

    fn publish(&self, position: u32, writes: &[(&[u8], &[u8])]) {
        for (key, value) in writes {
            let value = C::from(Arc::new(value.to_vec()));
            self.0
                .change(key, |versions| _ = versions.insert(position, value));
        }
    }

    fn read(&self, position: u32, key: &[u8]) -> Option<usize> {
        let nearest = |versions: &BTreeMap<u32, C>| {
            let (_, value) = versions.range(..position).next_back()?;
            Some(Value::clone(value.borrow()))
        };
        self.0.look(key, nearest).map(|value| value.len())
    }
}

/// By key and position.
type AllVersions = BTreeMap<(Vec<u8>, u32), Value>;

struct OneTree(RwLock<AllVersions>);

impl Versions for OneTree {
    fn new(_: u32) -> Self {
        Self(RwLock::default())
    }

    fn publish(&self, position: u32, writes: &[(&[u8], &[u8])]) {
        let mut tree = self.0.write().unwrap_or_else(PoisonError::into_inner);
        for (key, value) in writes {
            tree.insert((key.to_vec(), position), Arc::new(value.to_vec()));
        }
    }

    fn read(&self, position: u32, key: &[u8]) -> Option<usize> {
        let tree = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let versions = tree.range((key.to_vec(), 0)..(key.to_vec(), position));
        let value = versions.last().map(|(_, value)| value.clone());
        value.map(|value| value.len())
    }
}

type Written = Option<HashMap<Vec<u8>, Vec<u8>, RandomState>>;

struct RoaringPerKey {
    writers: Sharded<RoaringBitmap>,
    written: Vec<Mutex<Written>>,
}

impl Versions for RoaringPerKey {
    fn new(positions: u32) -> Self {
        Self {
            writers: Sharded::new(),
            written: (0..positions).map(|_| Mutex::default()).collect(),
        }
    }

    fn publish(&self, position: u32, writes: &[(&[u8], &[u8])]) {
        let values = writes
            .iter()
            .map(|(key, value)| (key.to_vec(), value.to_vec()));
        let mut slot = self.written[position as usize]
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *slot = Some(values.collect());
        drop(slot);
        for (key, _) in writes {
            self.writers
                .change(key, |writers| _ = writers.insert(position));
        }
    }

    fn read(&self, position: u32, key: &[u8]) -> Option<usize> {
        let nearest = |writers: &RoaringBitmap| {
            let below = writers.rank(position.checked_sub(1)?).checked_sub(1)?;
            writers.select(u32::try_from(below).ok()?)
        };
        let writer = self.writers.look(key, nearest)?;
        let slot = self.written[writer as usize]
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        slot.as_ref()?.get(key).map(Vec::len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reads<V: Versions>() -> Vec<Option<usize>> {
        let store = V::new(40);
        for position in [3, 5, 17, 18, 30] {
            store.publish(position, &[(b"key", &vec![0; position as usize])]);
        }
        (0..40)
            .map(|position| store.read(position, b"key"))
            .collect()
    }

    #[test]
    fn all_shapes_find_the_nearest_writer() {
        let expected: Vec<_> = (0..40_usize)
            .map(|position| {
                [30, 18, 17, 5, 3]
                    .into_iter()
                    .find(|writer| *writer < position)
            })
            .collect();
        assert_eq!(reads::<Ours>(), expected);
        assert_eq!(reads::<TreePerKey<Value>>(), expected);
        assert_eq!(reads::<TreePerKey<Padded>>(), expected);
        assert_eq!(reads::<OneTree>(), expected);
        assert_eq!(reads::<RoaringPerKey>(), expected);
    }
}
