//! Keys of hash tables.
//!
//! Users choose the storage keys of a state, so hash tables are keyed: a user who does not know a table's
//! key can't choose storage keys that collide. With an operating system, `foldhash` draws table keys from
//! the time and from addresses. A validator in wasm has neither, so every execution of a block draws the
//! same table keys. There the caller [hands in](seed_hash_tables) a secret that users could not know when
//! they chose their storage keys, such as a hash of the block's header.
//!
//! foldhash has two keys: one of each table, and one that all tables share. The shared one must be secret, too: words of a
//! storage key that equal its words cancel all other words, whatever the key of the table is.

use alloc::boxed::Box;
use core::{
    hash::BuildHasher,
    sync::atomic::{AtomicU32, Ordering},
};
use foldhash::{fast, quality, SharedSeed};
use once_cell::race::OnceRef;

/// The seed of [`seed_hash_tables`], in 32-bit words because not every target has larger atomic numbers.
static SEED: [AtomicU32; 4] = [const { AtomicU32::new(0) }; 4];

/// What all tables share, drawn from the first seed of [`seed_hash_tables`]; tables use it as long as they exist.
static SHARED: OnceRef<'static, SharedSeed> = OnceRef::new();

/// Mixes `seed` into the key of every hash table made from now on. Replaces an earlier seed, except in what all tables
/// share, which the first seed decides. A seed of zeros, the initial one, leaves the keys as they are drawn.
///
/// Call it once before the first block. No result depends on the seed, because nothing depends on the
/// order of the entries in a hash table.
pub fn seed_hash_tables(seed: [u8; 16]) {
    if seed != [0; 16] && SHARED.get().is_none() {
        let drawn = fast::SeedableRandomState::random().hash_one(seed);
        // If another thread is faster, its seed is used. Nobody frees these few words.
        let _ = SHARED.set(Box::leak(Box::new(SharedSeed::from_u64(drawn))));
    }
    for (word, bytes) in SEED.iter().zip(seed.as_chunks::<4>().0) {
        word.store(u32::from_le_bytes(*bytes), Ordering::Relaxed);
    }
}

/// The key of a new hash table: drawn by foldhash, and mixed with the seed if there is one.
fn table_key() -> fast::SeedableRandomState {
    let drawn = fast::SeedableRandomState::random();
    let seed = SEED.each_ref().map(|word| word.load(Ordering::Relaxed));
    if seed == [0; 4] {
        return drawn;
    }
    fast::SeedableRandomState::with_seed(drawn.hash_one(seed), shared())
}

fn shared() -> &'static SharedSeed {
    SHARED.get().unwrap_or_else(SharedSeed::global_random)
}

/// The key of a hash table that needs speed: foldhash's fast variant.
#[derive(Clone, Debug)]
pub struct FastState(fast::SeedableRandomState);

impl Default for FastState {
    fn default() -> Self {
        Self(table_key())
    }
}

impl BuildHasher for FastState {
    type Hasher = fast::FoldHasher<'static>;

    #[inline]
    fn build_hasher(&self) -> Self::Hasher {
        self.0.build_hasher()
    }
}

/// The key of a hash table that uses few bits of a hash: foldhash's variant for quality.
#[derive(Clone, Debug)]
pub struct QualityState(quality::SeedableRandomState);

impl Default for QualityState {
    fn default() -> Self {
        let key = table_key().hash_one(());
        Self(quality::SeedableRandomState::with_seed(key, shared()))
    }
}

impl BuildHasher for QualityState {
    type Hasher = quality::FoldHasher<'static>;

    #[inline]
    fn build_hasher(&self) -> Self::Hasher {
        self.0.build_hasher()
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use core::ptr;

    #[test]
    fn tables_have_keys_of_their_own() {
        let hash = || {
            (
                FastState::default().hash_one(7),
                QualityState::default().hash_one(7),
            )
        };
        let unseeded = [hash(), hash()];
        assert!(ptr::eq(shared(), SharedSeed::global_random()));
        seed_hash_tables([1; 16]);
        assert!(!ptr::eq(shared(), SharedSeed::global_random()));
        let seeded = [hash(), hash()];
        let all: std::collections::HashSet<_> = unseeded.iter().chain(&seeded).collect();
        assert_eq!(all.len(), 4, "{all:?}");
        let state = FastState::default();
        assert_eq!(state.hash_one(7), state.clone().hash_one(7));
    }
}
