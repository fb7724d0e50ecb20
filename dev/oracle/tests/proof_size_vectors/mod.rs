//! The test vectors of docs/proof-size.md: the file is as generated, both sides agree with it, and
//! so does the page.
//!
//! [`naive`] implements the page's text without any code of povmeter. `POVMETER_WRITE_VECTORS=1`
//! writes the file again.

#![allow(clippy::unwrap_used)]

mod naive;

use povmeter::{Advisory, Consensus};
use povmeter_dev_oracle::{case_of, generate_vectors, run_case, vectors_of, Case, Flavour};
use povmeter_vectors::{run, VectorFile};
use serde_json::Value;
use std::path::Path;

fn path() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/proof-size-vectors.json")
}

#[test]
fn the_file_is_what_the_generator_writes() {
    let generated = generate_vectors().unwrap().to_json().unwrap();
    if std::env::var_os("POVMETER_WRITE_VECTORS").is_some() {
        std::fs::write(path(), &generated).unwrap();
    }
    let written = std::fs::read_to_string(path()).unwrap();
    assert!(
        written == generated,
        "docs/proof-size-vectors.json is not up to date"
    );
}

#[test]
fn the_sizes_are_those_of_povmeter_and_cover_the_peer() {
    let file = VectorFile::read(&std::fs::read_to_string(path()).unwrap()).unwrap();
    assert!(file.vectors.len() >= 30, "{} vectors", file.vectors.len());
    for vector in &file.vectors {
        run(vector).unwrap();
        // The peer needs no node that is not counted, and reads as many bytes.
        let case = case_of(vector);
        run_case::<Consensus>(&case).unwrap_or_else(|error| panic!("{}: {error}", vector.name));
        run_case::<Advisory>(&case).unwrap_or_else(|error| panic!("{}: {error}", vector.name));
    }
}

#[test]
fn a_changed_size_and_an_unknown_format_are_refused() {
    let json = std::fs::read_to_string(path()).unwrap();
    let other = json.replacen("\"total_bytes\":", "\"total_bytes\":1", 1);
    let file = VectorFile::read(&other).unwrap();
    assert!(file.vectors.iter().any(|vector| run(vector).is_err()));
    let error = VectorFile::read(&json.replacen("\"format\":1", "\"format\":2", 1)).unwrap_err();
    assert_eq!(error.to_string(), "expected format 1, found 2");
}

/// The vectors in `json`.
fn vectors(json: &str) -> Vec<Value> {
    let file: Value = serde_json::from_str(json).unwrap();
    assert_eq!(file["format"], 1);
    file["vectors"].as_array().unwrap().clone()
}

#[test]
fn the_sizes_are_those_that_the_page_gives() {
    let vectors = vectors(&std::fs::read_to_string(path()).unwrap());
    assert!(vectors.len() >= 30, "{} vectors", vectors.len());
    vectors.iter().for_each(naive::check);
}

#[test]
fn random_blocks_have_the_sizes_that_the_page_gives() {
    let mut cases = Vec::new();
    for flavour in Flavour::ALL {
        // Fewer, because states of hashed keys are large for a model that builds every trie again.
        let count = if flavour == Flavour::Mixed { 30 } else { 150 };
        for seed in 0..count {
            let case = Case::random(seed, flavour);
            let asking = case.clone().asking_for_child_roots(seed);
            cases.push((format!("{flavour:?} {seed}"), case));
            cases.push((format!("{flavour:?} {seed}, asking"), asking));
        }
    }
    let json = vectors_of(&cases).unwrap().to_json().unwrap();
    vectors(&json).iter().for_each(naive::check);
}

#[test]
fn the_page_refuses_a_changed_size() {
    let vectors = vectors(&std::fs::read_to_string(path()).unwrap());
    for name in [
        "read_bytes",
        "root_bytes",
        "total_bytes",
        "compact_bytes",
        "nodes",
    ] {
        let mut changed = vectors[0].clone();
        let told = changed["sealed"][name].as_u64().unwrap();
        changed["sealed"][name] = (told + 1).into();
        let checked = std::panic::catch_unwind(|| naive::check(&changed));
        assert!(checked.is_err(), "{name}");
    }
}
