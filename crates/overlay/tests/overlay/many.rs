//! Many keys, so that the sorted list has many chunks.

use povmeter_overlay::{Fate, Lookup, Overlay, TrieId::Top};
use rand::{rngs::SmallRng, Rng, SeedableRng};
use std::{collections::BTreeMap, ops::Bound};

type Model = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

fn key(rng: &mut SmallRng) -> Vec<u8> {
    let at: u32 = rng.random_range(0..3_000);
    [&[b'k'; 32][..], &at.to_be_bytes()].concat()
}

fn next(model: &Model, key: &[u8]) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
    let mut later = model.range::<[u8], _>((Bound::Excluded(key), Bound::Unbounded));
    later
        .next()
        .map(|(key, value)| (key.clone(), value.clone()))
}

fn compare_next(overlay: &mut Overlay, model: &Model, key: &[u8]) {
    let found = overlay.next_after(Top, key);
    let found = found.map(|(key, value)| (key.to_vec(), value.map(<[u8]>::to_vec)));
    assert_eq!(found, next(model, key));
}

/// Writes, deletes and rolls back; asks for the order now and then.
#[test]
fn the_order_of_many_keys() {
    for seed in 0..60 {
        let rng = &mut SmallRng::seed_from_u64(seed);
        let mut overlay = Overlay::new();
        let mut model = Model::new();
        // Some sequences ask for the order early, some late.
        let before = rng.random_range(0..1_000);
        for step in 0..3_000 {
            let at = key(rng);
            match rng.random_range(0..20) {
                0..=9 => {
                    overlay.set(Top, &at, &at[30..]);
                    model.insert(at.clone(), Some(at[30..].to_vec()));
                }
                10..=12 => {
                    overlay.remove(Top, &at);
                    model.insert(at, None);
                }
                13..=14 => {
                    overlay.start_transaction();
                    for _ in 0..30 {
                        overlay.set(Top, &key(rng), b"gone");
                        let _ = overlay.next_after(Top, &key(rng));
                    }
                    overlay.rollback_transaction().unwrap();
                }
                _ if step < before => {}
                15 => {
                    let prefix = &at[..35];
                    let cleared = overlay.clear_prefix(Top, prefix);
                    let mut written = 0;
                    for (_, value) in model.iter_mut().filter(|(key, _)| key.starts_with(prefix)) {
                        written += u32::from(value.take().is_some());
                    }
                    assert_eq!(cleared, written, "seed {seed}");
                }
                16..=17 => {
                    // A walk.
                    let mut at = at;
                    for _ in 0..20 {
                        compare_next(&mut overlay, &model, &at);
                        match next(&model, &at) {
                            Some((next, _)) => at = next,
                            None => break,
                        }
                    }
                }
                _ => compare_next(&mut overlay, &model, &at),
            }
        }
        let changes = overlay.changes(Top).into_iter();
        assert!(changes.eq(model
            .iter()
            .map(|(key, value)| (&key[..], value.as_deref()))));
    }
}

/// No result depends on the seed of a hash table: two overlays have the same results.
#[test]
fn results_do_not_depend_on_the_tables() {
    let run = || {
        let rng = &mut SmallRng::seed_from_u64(7);
        let mut overlay = Overlay::new();
        for _ in 0..500 {
            overlay.set(Top, &key(rng), b"v");
            overlay.remove(povmeter_overlay::TrieId::Child(&key(rng)), &key(rng));
        }
        overlay
    };
    let (a, b) = (run(), run());
    assert!(a.dirty().eq(b.dirty()));
    assert!(a.children().eq(b.children()));
    assert_eq!(a.to_owned_changes(), b.to_owned_changes());
}

/// Keys that end alike, and keys that differ in one middle byte alone: tables that look at parts of keys
/// must tell them apart.
#[test]
fn keys_made_to_meet_are_told_apart() {
    let mut overlay = Overlay::new();
    let key = |at: u32| [&at.to_be_bytes()[..], &[7; 60]].concat();
    for at in 0..20_000 {
        overlay.set(Top, &key(at), &at.to_be_bytes());
    }
    for at in 0..20_000 {
        assert_eq!(overlay.get(Top, &key(at)), Lookup::Value(&at.to_be_bytes()));
        assert_eq!(overlay.get(Top, &key(at + 20_000)), Lookup::Untouched);
    }
    assert_eq!(overlay.dirty().len(), 20_000);
    assert!(overlay.dirty().all(|dirty| dirty.fate == Fate::Written));
}
