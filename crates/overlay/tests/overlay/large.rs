//! Random calls with values that have memory of their own, on the overlay and on the naive model.

use crate::naive::{full, Naive};
use bytes::Bytes;
use codec::Encode;
use povmeter_overlay::{Lookup, Overlay, Reader, TrieId::Top};
use rand::{rngs::SmallRng, seq::IndexedRandom, Rng, SeedableRng};

const KEYS: [&[u8]; 3] = [b"a", b"ab", b"b"];
/// Short, around the 32 KiB of the smallest block with memory of its own, and longer.
const LENGTHS: [usize; 10] = [
    0, 1, 100, 32_762, 32_763, 32_768, 32_769, 40_000, 65_540, 100_000,
];

/// A value that is a list half of the time.
fn content(rng: &mut SmallRng) -> Vec<u8> {
    let mut content = vec![rng.random(); *LENGTHS.choose(rng).unwrap()];
    for _ in 0..content.len().min(20) {
        let at = rng.random_range(0..content.len());
        content[at] = rng.random();
    }
    if rng.random() {
        content.encode()
    } else {
        content
    }
}

fn run(rng: &mut SmallRng, overlay: &mut Overlay, naive: &mut Naive, kept: &mut Kept) {
    let key = *KEYS.choose(rng).unwrap();
    match rng.random_range(0..20) {
        0..=3 => {
            let value = content(rng);
            overlay.set(Top, key, &value);
            naive.set(full(Top, key), Some(value));
        }
        4..=5 => {
            let value = content(rng);
            // All of the memory, or a part of it.
            let memory = Bytes::from([&value[..], &[7; 9][..rng.random_range(0..=9)]].concat());
            let bytes = memory.slice(..value.len());
            overlay.set_bytes(Top, key, &bytes);
            naive.set(full(Top, key), Some(value.clone()));
            // Somebody else may still have it.
            if rng.random() {
                kept.push((bytes, value));
            }
        }
        6..=12 => {
            let (element, parent) = (content(rng), rng.random::<bool>().then(|| content(rng)));
            let over = overlay.append(Top, key, &element, || Ok::<_, ()>(parent.as_ref()));
            assert_eq!(over, Ok(()));
            naive.append(full(Top, key), &element, parent.clone());
        }
        13 => {
            overlay.remove(Top, key);
            naive.set(full(Top, key), None);
        }
        14 => {
            overlay.clear_prefix(Top, key);
            naive.clear_prefix(Top, key);
        }
        15..=17 => {
            overlay.start_transaction();
            naive.start();
        }
        18 => assert_eq!(overlay.commit_transaction().is_ok(), naive.close(None)),
        _ => assert_eq!(
            overlay.rollback_transaction().is_ok(),
            naive.close(Some(Reader::Forgets))
        ),
    }
}

/// Values that somebody keeps, and what they have to be.
type Kept = Vec<(Bytes, Vec<u8>)>;

fn compare(rng: &mut SmallRng, overlay: &mut Overlay, naive: &Naive, kept: &mut Kept) {
    for key in KEYS {
        let changed = naive.changes.get(&full(Top, key));
        let changed = changed.map(Option::as_deref);
        let expected = match changed {
            None => Lookup::Untouched,
            Some(None) => Lookup::Deleted,
            Some(Some(value)) => Lookup::Value(value),
        };
        // Not printed, because they are long.
        assert!(overlay.get(Top, key) == expected, "another value");
        if rng.random_ratio(1, 4) {
            let shared = overlay.share(Top, key);
            assert!(
                shared.as_ref().map(Option::as_deref) == changed,
                "another value shared"
            );
            let shared = shared.flatten().zip(changed.flatten());
            kept.extend(shared.map(|(shared, expected)| (shared, expected.to_vec())));
        }
    }
    kept.retain(|_| !rng.random_ratio(1, 3));
    for (kept, expected) in kept {
        assert!(kept == expected, "a value changed that somebody keeps");
    }
}

#[test]
fn a_large_value_is_not_copied() {
    let mut overlay = Overlay::new();
    let value = Bytes::from(vec![7; 40_000]);
    overlay.set_bytes(Top, b"key", &value);
    let held = |overlay: &Overlay| match overlay.get(Top, b"key") {
        Lookup::Value(held) => held.as_ptr(),
        other => panic!("{other:?}"),
    };
    assert_eq!(held(&overlay), value.as_ptr());
    overlay.start_transaction();
    overlay.set(Top, b"key", &[8; 40_000]);
    assert_eq!(value, vec![7; 40_000]);
    overlay.rollback_transaction().unwrap();
    assert_eq!(held(&overlay), value.as_ptr());
}

#[test]
fn large_values_are_those_of_the_model() {
    // One overlay for all, so that memory of freed values is used again.
    let mut overlay = Overlay::new();
    for seed in 0..100 {
        let rng = &mut SmallRng::seed_from_u64(seed);
        let mut naive = Naive::default();
        let mut kept = Kept::new();
        for _ in 0..80 {
            run(rng, &mut overlay, &mut naive, &mut kept);
            compare(rng, &mut overlay, &naive, &mut kept);
            if rng.random_ratio(1, 40) {
                overlay = overlay.clone();
            }
        }
        overlay.reset();
    }
}
