//! The fuzzers' entry points on the kept seeds and on random bytes.

#![allow(clippy::unwrap_used)]

use povmeter_dev_oracle::{fuzzing::fuzz_block, fuzzing::fuzz_node, fuzzing::fuzz_proof, Case};
use rand::{rngs::SmallRng, Rng, RngCore, SeedableRng};
use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

/// How long each fuzzer runs on random bytes at least.
const TIME: Duration = Duration::from_secs(3);
/// How many of these inputs it gets at least, on a slow machine too.
const INPUTS: u32 = 20;

/// The seeds kept for `target`.
#[track_caller]
fn seeds(target: &str) -> Vec<Vec<u8>> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let files = fs::read_dir(corpus.join(target)).unwrap();
    let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 3, "seeds of {target}: {files:?}");
    files.iter().map(|file| fs::read(file).unwrap()).collect()
}

/// Runs `fuzz` on the seeds, then on random bytes and on seeds with some bytes changed.
#[track_caller]
fn try_all(target: &str, fuzz: fn(&[u8])) {
    let seeds = seeds(target);
    seeds.iter().for_each(|seed| fuzz(seed));
    let mut dice = SmallRng::seed_from_u64(1);
    let start = Instant::now();
    let mut tried = 0;
    while start.elapsed() < TIME || tried < INPUTS {
        fuzz(&random(&mut dice));
        fuzz(&changed(
            &seeds[dice.random_range(0..seeds.len())],
            &mut dice,
        ));
        tried += 2;
    }
}

fn random(dice: &mut SmallRng) -> Vec<u8> {
    let mut bytes = vec![0; dice.random_range(0..600)];
    dice.fill_bytes(&mut bytes);
    bytes
}

fn changed(seed: &[u8], dice: &mut SmallRng) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..dice.random_range(0..4) {
        match bytes.len() {
            0 => bytes.push(dice.random()),
            length if dice.random_bool(0.1) => bytes.truncate(dice.random_range(0..length)),
            length => bytes[dice.random_range(0..length)] = dice.random(),
        }
    }
    bytes
}

/// Otherwise the fuzzer would have to find out first how many bytes a block takes.
#[test]
fn seeds_of_blocks_have_blocks() {
    for seed in seeds("block").iter().filter(|seed| !seed.is_empty()) {
        let calls = Case::from_bytes(seed).ops.len();
        assert!(calls >= 10, "flavour {}: {calls} calls", seed[0]);
    }
}

#[test]
fn blocks_agree_with_the_peer() {
    try_all("block", fuzz_block);
}

#[test]
fn any_proof_is_executed_or_refused() {
    try_all("proof", fuzz_proof);
}

#[test]
fn any_node_is_walked_or_refused() {
    try_all("node", fuzz_node);
}
