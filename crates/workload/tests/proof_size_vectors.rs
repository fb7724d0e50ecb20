//! The test vectors of docs/proof-size.md: as generated, and true on both sides.
//!
//! `POVMETER_WRITE_VECTORS=1` writes the file anew.

#![allow(clippy::unwrap_used)]

use povmeter::{Advisory, Consensus};
use povmeter_workload::oracle::{run_case, VectorFile};
use std::path::Path;

fn path() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/proof-size-vectors.json")
}

#[test]
fn the_file_is_what_the_generator_writes() {
    let generated = VectorFile::generate().unwrap().to_json().unwrap();
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
    assert!(
        file.vectors().len() >= 30,
        "{} vectors",
        file.vectors().len()
    );
    for vector in file.vectors() {
        vector.check().unwrap();
        // The peer needs no node that is not counted, and reads as many bytes.
        let case = vector.case();
        run_case::<Consensus>(&case).unwrap_or_else(|error| panic!("{}: {error}", vector.name()));
        run_case::<Advisory>(&case).unwrap_or_else(|error| panic!("{}: {error}", vector.name()));
    }
}

#[test]
fn a_changed_size_and_an_unknown_format_are_refused() {
    let json = std::fs::read_to_string(path()).unwrap();
    let other = json.replacen("\"total_bytes\":", "\"total_bytes\":1", 1);
    let file = VectorFile::read(&other).unwrap();
    assert!(file.vectors().iter().any(|vector| vector.check().is_err()));
    let error = VectorFile::read(&json.replacen("\"format\":1", "\"format\":2", 1)).unwrap_err();
    assert_eq!(error.to_string(), "expected format 1, found 2");
}
