//! The libraries. What counts as a byte differs between them, so limits are found by a measurement.

use super::keyed::{Cache, Key, Sharded, Unshared};
use foyer_memory::{CacheBuilder, S3FifoConfig};
use quick_cache::{unsync, Weighter};
use std::{marker::PhantomData, num::NonZeroUsize, sync::Arc};

/// About the bytes of a value and of what a library keeps beside it.
fn weight(value: &[u8]) -> usize {
    value.len() + 64
}

/// About the number of values that fit into `bytes`, for libraries with a limit on this number.
fn count(bytes: usize) -> usize {
    (bytes / 200).max(1)
}

/// Makes a type of one library for both kinds of keys, in shards.
macro_rules! sharded {
    ($name:ident, $inner:ty, $key:ident, $new:expr) => {
        pub(crate) struct $name<$key>(PhantomData<$key>);

        impl<$key: Key> $name<$key> {
            #[allow(clippy::new_ret_no_self)]
            pub(crate) fn new(bytes: usize) -> Sharded<$inner> {
                Sharded::with(bytes, $new)
            }
        }
    };
}

#[derive(Clone, Copy)]
pub(crate) struct ByBytes;

impl<K> Weighter<K, Box<[u8]>> for ByBytes {
    fn weight(&self, _: &K, value: &Box<[u8]>) -> u64 {
        weight(value) as u64
    }
}

type Quick<K> = unsync::Cache<K, Box<[u8]>, ByBytes>;
sharded!(QuickCache, Quick<K>, K, |bytes| Quick::with_weighter(
    count(bytes),
    bytes as u64,
    ByBytes
));

impl<K: Key> Unshared<K> for Quick<K> {
    fn get(&mut self, key: &K) -> Option<&[u8]> {
        unsync::Cache::get(self, key).map(|value| &**value)
    }

    fn insert(&mut self, key: K, value: Box<[u8]>) {
        unsync::Cache::insert(self, key, value);
    }

    fn remove(&mut self, key: &K) {
        unsync::Cache::remove(self, key);
    }

    fn len(&self) -> usize {
        unsync::Cache::len(self)
    }
}

type SchnellruMap<K> = schnellru::LruMap<K, Box<[u8]>, schnellru::ByLength>;
sharded!(Schnellru, SchnellruMap<K>, K, |bytes| {
    let count = u32::try_from(count(bytes)).unwrap_or(u32::MAX);
    SchnellruMap::new(schnellru::ByLength::new(count))
});

impl<K: Key> Unshared<K> for SchnellruMap<K> {
    fn get(&mut self, key: &K) -> Option<&[u8]> {
        schnellru::LruMap::get(self, key).map(|value| &**value)
    }

    fn insert(&mut self, key: K, value: Box<[u8]>) {
        schnellru::LruMap::insert(self, key, value);
    }

    fn remove(&mut self, key: &K) {
        schnellru::LruMap::remove(self, key);
    }

    fn len(&self) -> usize {
        schnellru::LruMap::len(self)
    }
}

type LruMap<K> = lru::LruCache<K, Box<[u8]>>;
sharded!(Lru, LruMap<K>, K, |bytes| {
    LruMap::new(NonZeroUsize::new(count(bytes)).unwrap_or(NonZeroUsize::MIN))
});

impl<K: Key> Unshared<K> for LruMap<K> {
    fn get(&mut self, key: &K) -> Option<&[u8]> {
        lru::LruCache::get(self, key).map(|value| &**value)
    }

    fn insert(&mut self, key: K, value: Box<[u8]>) {
        lru::LruCache::put(self, key, value);
    }

    fn remove(&mut self, key: &K) {
        lru::LruCache::pop(self, key);
    }

    fn len(&self) -> usize {
        lru::LruCache::len(self)
    }
}

pub(crate) struct SieveShard<K: Key>(sieve_cache::SieveCache<K, Box<[u8]>>);
sharded!(Sieve, SieveShard<K>, K, |bytes| {
    // It refuses a limit of zero only.
    SieveShard(sieve_cache::SieveCache::new(count(bytes)).expect("the limit is at least one"))
});

impl<K: Key> Unshared<K> for SieveShard<K> {
    fn get(&mut self, key: &K) -> Option<&[u8]> {
        self.0.get(key).map(|value| &**value)
    }

    fn insert(&mut self, key: K, value: Box<[u8]>) {
        self.0.insert(key, value);
    }

    fn remove(&mut self, key: &K) {
        self.0.remove(key);
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}

/// moka, which threads can share without a lock around it.
pub(crate) struct Moka<K>(moka::sync::Cache<K, Arc<[u8]>>);

impl<K: Key> Moka<K> {
    pub(crate) fn new(bytes: usize) -> Self {
        let weigher = |_: &K, value: &Arc<[u8]>| u32::try_from(weight(value)).unwrap_or(u32::MAX);
        Self(
            moka::sync::Cache::builder()
                .max_capacity(bytes as u64)
                .weigher(weigher)
                .build(),
        )
    }
}

impl<K: Key> Cache<K> for Moka<K> {
    fn get(&self, key: &K, read: &mut dyn FnMut(&[u8])) {
        if let Some(value) = self.0.get(key) {
            read(&value);
        }
    }

    fn insert(&self, key: K, value: Box<[u8]>) {
        self.0.insert(key, value.into());
    }

    fn remove(&self, key: &K) {
        self.0.invalidate(key);
    }

    fn len(&self) -> usize {
        usize::try_from(self.0.entry_count()).unwrap_or(usize::MAX)
    }

    fn settle(&self) {
        self.0.run_pending_tasks();
    }
}

/// foyer, which threads can share without a lock around it.
pub(crate) struct Foyer<K: Key>(foyer_memory::Cache<K, Box<[u8]>>);

/// The function that foyer calls for the weight of each value.
#[allow(
    clippy::borrowed_box,
    reason = "the library hands out a reference to the type that it stores"
)]
fn weigh<K>(_: &K, value: &Box<[u8]>) -> usize {
    weight(value)
}

impl<K: Key> Foyer<K> {
    pub(crate) fn new(bytes: usize) -> Self {
        let builder = CacheBuilder::new(bytes)
            .with_shards(8)
            .with_eviction_config(S3FifoConfig::default())
            .with_weighter(weigh::<K>);
        Self(builder.build())
    }
}

impl<K: Key> Cache<K> for Foyer<K> {
    fn get(&self, key: &K, read: &mut dyn FnMut(&[u8])) {
        if let Some(entry) = self.0.get(key) {
            read(entry.value());
        }
    }

    fn insert(&self, key: K, value: Box<[u8]>) {
        self.0.insert(key, value);
    }

    fn remove(&self, key: &K) {
        self.0.remove(key);
    }

    fn len(&self) -> usize {
        self.0.entries()
    }
}
