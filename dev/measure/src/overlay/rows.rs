//! Single operations.

use super::{meter::Meter, sides::Side};
use povmeter_dev_allocations::Allocated;
use rand::{rngs::SmallRng, seq::SliceRandom, RngCore, SeedableRng};
use std::hint::black_box;

/// Number of keys that a block of 544 transfers changes.
pub(super) const KEYS: usize = 1_653;
/// Number of keys in the rows that clear a few of them.
const MANY_KEYS: usize = 100_000;
/// Number of keys with the same prefix, which are cleared together.
const CLEARED: usize = 10;
/// Number of passes over the keys per clock reading.
const PASSES: usize = 4;
/// A value as long as an account's.
const VALUE: [u8; 80] = [7; 80];
/// An element about as long as an event.
const ELEMENT: [u8; 40] = [9; 40];

/// Keys like those of a runtime's map: 32 common bytes, then 48 random ones.
pub(super) struct Keys {
    /// In random order.
    keys: Vec<Vec<u8>>,
    /// The same keys, sorted.
    sorted: Vec<Vec<u8>>,
    /// Other keys.
    others: Vec<Vec<u8>>,
    /// `MANY_KEYS` keys, ten with each prefix of 48 bytes.
    many: Vec<Vec<u8>>,
}

impl Keys {
    pub(super) fn new(seed: u64) -> Self {
        let mut dice = SmallRng::seed_from_u64(seed);
        let mut draw = |keys: usize, with_a_prefix: usize| {
            let mut made = Vec::with_capacity(keys);
            while made.len() < keys {
                let mut key = vec![0x26; 80];
                dice.fill_bytes(&mut key[32..]);
                for _ in 0..with_a_prefix {
                    dice.fill_bytes(&mut key[48..]);
                    made.push(key.clone());
                }
            }
            made
        };
        let (keys, others, mut many) = (draw(KEYS, 1), draw(KEYS, 1), draw(MANY_KEYS, CLEARED));
        many.shuffle(&mut dice);
        let mut sorted = keys.clone();
        sorted.sort();
        Self {
            keys,
            sorted,
            others,
            many,
        }
    }
}

fn filled<S: Side>(keys: &[Vec<u8>]) -> S {
    let mut side = S::default();
    keys.iter().for_each(|key| side.set(key, &VALUE));
    side
}

/// Sets keys that the overlay does not have, in memory that an earlier block allocated.
pub(super) fn set_new<S: Side>(keys: &Keys, meter: &mut Meter<'_>) {
    let mut side = filled::<S>(&keys.keys);
    side.start();
    side.renew();
    set_all_new(&mut side, keys, meter);
}

/// As [`set_new`], in a new overlay, which has to grow.
pub(super) fn set_new_at_first<S: Side>(keys: &Keys, meter: &mut Meter<'_>) {
    set_all_new(&mut S::default(), keys, meter);
}

fn set_all_new<S: Side>(side: &mut S, keys: &Keys, meter: &mut Meter<'_>) {
    side.start();
    meter.during(KEYS, || {
        keys.keys.iter().for_each(|key| side.set(key, &VALUE))
    });
}

/// Bytes in use per key after a block changed all keys in a transaction.
pub(super) fn bytes_per_key<S: Side>(keys: &Keys, allocated: &dyn Fn() -> Allocated) -> f64 {
    let before = allocated().live_bytes;
    let mut side = S::default();
    side.start();
    keys.keys.iter().for_each(|key| side.set(key, &VALUE));
    side.commit();
    let used = allocated().live_bytes - before;
    black_box(&side);
    used as f64 / KEYS as f64
}

/// Sets keys that the open transaction has already set.
pub(super) fn set_again<S: Side>(keys: &Keys, meter: &mut Meter<'_>) {
    let mut side = filled::<S>(&keys.keys);
    side.start();
    keys.keys.iter().for_each(|key| side.set(key, &VALUE));
    meter.during(KEYS * PASSES, || {
        for _ in 0..PASSES {
            keys.keys.iter().for_each(|key| side.set(key, &VALUE));
        }
    });
}

pub(super) fn get_hit<S: Side>(keys: &Keys, meter: &mut Meter<'_>) {
    get_all(&mut filled::<S>(&keys.keys), &keys.keys, meter);
}

pub(super) fn get_miss<S: Side>(keys: &Keys, meter: &mut Meter<'_>) {
    get_all(&mut filled::<S>(&keys.keys), &keys.others, meter);
}

/// Gets keys inside `DEPTH` nested transactions, each of which has set one.
pub(super) fn get_at_depth<S: Side, const DEPTH: usize>(keys: &Keys, meter: &mut Meter<'_>) {
    let mut side = filled::<S>(&keys.keys);
    for key in keys.keys.iter().cycle().take(DEPTH) {
        side.start();
        side.set(key, &VALUE);
    }
    get_all(&mut side, &keys.keys, meter);
}

fn get_all<S: Side>(side: &mut S, keys: &[Vec<u8>], meter: &mut Meter<'_>) {
    meter.during(keys.len() * PASSES, || {
        let mut bytes = 0;
        for _ in 0..PASSES {
            for key in keys {
                bytes += side.get(key);
            }
        }
        bytes
    });
}

/// Appends to one list in a transaction, as an event does.
pub(super) fn append<S: Side>(_: &Keys, meter: &mut Meter<'_>) {
    let mut side = S::default();
    side.append(b"events", &ELEMENT);
    side.start();
    meter.during(KEYS, || {
        (0..KEYS).for_each(|_| side.append(b"events", &ELEMENT))
    });
}

pub(super) fn start_commit<S: Side>(keys: &Keys, meter: &mut Meter<'_>) {
    let mut side = filled::<S>(&keys.keys);
    side.start();
    meter.during(KEYS, || {
        for _ in 0..KEYS {
            side.start();
            side.commit();
        }
    });
}

pub(super) fn start_roll_back<S: Side>(keys: &Keys, meter: &mut Meter<'_>) {
    let mut side = filled::<S>(&keys.keys);
    side.start();
    meter.during(KEYS, || {
        for _ in 0..KEYS {
            side.start();
            side.roll_back();
        }
    });
}

/// Sets one key in a transaction and commits it.
pub(super) fn set_commit<S: Side>(keys: &Keys, meter: &mut Meter<'_>) {
    let mut side = filled::<S>(&keys.keys);
    side.start();
    meter.during(KEYS, || {
        for key in &keys.keys {
            side.start();
            side.set(key, &VALUE);
            side.commit();
        }
    });
}

/// Sets one key in a transaction and rolls it back.
pub(super) fn set_roll_back<S: Side>(keys: &Keys, meter: &mut Meter<'_>) {
    let mut side = filled::<S>(&keys.keys);
    side.start();
    meter.during(KEYS * PASSES, || {
        for _ in 0..PASSES {
            for key in &keys.keys {
                side.start();
                side.set(key, &VALUE);
                side.roll_back();
            }
        }
    });
}

/// Asks for next keys until the overlay keeps its keys in order.
fn put_in_order<S: Side>(side: &mut S) {
    for _ in 0..10 {
        black_box(side.next_after(&[]).is_some());
    }
}

/// Asks for the next key of all keys in order.
pub(super) fn next_key<S: Side>(keys: &Keys, meter: &mut Meter<'_>) {
    let mut side = filled::<S>(&keys.keys);
    put_in_order(&mut side);
    meter.during(KEYS, || {
        for key in &keys.sorted {
            black_box(side.next_after(key));
        }
    });
}

/// Asks for the next key of keys in random order.
pub(super) fn next_key_anywhere<S: Side>(keys: &Keys, meter: &mut Meter<'_>) {
    let mut side = filled::<S>(&keys.keys);
    put_in_order(&mut side);
    meter.during(KEYS * 2, || {
        for key in keys.keys.iter().chain(&keys.others) {
            black_box(side.next_after(key));
        }
    });
}

/// Asks for the next key each time after a new key is set.
pub(super) fn set_new_next_key<S: Side>(keys: &Keys, meter: &mut Meter<'_>) {
    let mut side = filled::<S>(&keys.keys);
    put_in_order(&mut side);
    meter.during(KEYS, || {
        for key in &keys.others {
            side.set(key, &VALUE);
            black_box(side.next_after(key));
        }
    });
}

/// Asks a new overlay for its first next key.
pub(super) fn first_next_key<S: Side>(keys: &Keys, meter: &mut Meter<'_>) {
    let mut side = filled::<S>(&keys.keys);
    meter.during(1, || black_box(side.next_after(&keys.keys[0]).is_some()));
}

/// Clears ten keys of 100,000.
pub(super) fn clear_prefix<S: Side>(keys: &Keys, meter: &mut Meter<'_>) {
    let mut side = filled::<S>(&keys.many);
    side.start();
    put_in_order(&mut side);
    for key in keys.many.iter().take(8) {
        meter.during(1, || side.clear_prefix(&key[..48]));
    }
}

/// As [`clear_prefix`], for the first call of a block.
pub(super) fn first_clear_prefix<S: Side>(keys: &Keys, meter: &mut Meter<'_>) {
    let mut side = filled::<S>(&keys.many);
    side.start();
    meter.during(1, || side.clear_prefix(&keys.many[0][..48]));
}
