//! The vectors hold, and random blocks have the results of a 64-bit build.

#![allow(clippy::unwrap_used)]

use povmeter_vectors::{
    digest, run, FormatError, Op, RealBlock, RealBlockError, UnknownVersion, VectorError,
    VectorFile,
};

const FILE: &str = include_str!("../../../docs/proof-size-vectors.json");

#[test]
fn all_vectors_hold() {
    let file = VectorFile::read(FILE).unwrap();
    assert!(file.vectors.len() >= 30, "{} vectors", file.vectors.len());
    for vector in &file.vectors {
        run(vector).unwrap_or_else(|error| panic!("{}: {error:?}", vector.name));
    }
}

/// Reading and writing lose nothing, although the host's transactions and the runtime's have one name in
/// the file.
#[test]
fn the_file_is_written_as_it_was_read() {
    let file = VectorFile::read(FILE).unwrap();
    assert!(file.to_json().unwrap() == FILE, "another file");
    let steps = |op: Op| {
        let all = file.vectors.iter().flat_map(|vector| &vector.operations);
        all.filter(|step| step.op == op).count()
    };
    assert!(steps(Op::HostStart) > 0 && steps(Op::Start) > 0);
    assert!(steps(Op::HostRollback) > 0 && steps(Op::Rollback) > 0);
}

#[test]
fn an_operation_that_the_page_does_not_name_is_refused() {
    let at = FILE.find("{\"op\":\"get\"").unwrap();
    for other in [
        "{\"op\":\"host_start\"},",
        "{\"op\":\"fork\"},",
        "{\"op\":\"get\",\"key\":\"0x\",\"limit\":1},",
        "{\"op\":\"get\",\"key\":\"00\"},",
    ] {
        let (before, after) = FILE.split_at(at);
        let error = VectorFile::read(&[before, other, after].concat()).unwrap_err();
        assert!(matches!(error, FormatError::Json(_)), "{error}");
    }
}

#[test]
fn an_unknown_state_version_is_refused() {
    let file = VectorFile::read(FILE).unwrap();
    for found in [2, 255] {
        let (mut block, mut state) = (file.vectors[0].clone(), file.vectors[0].clone());
        block.version = found;
        state.state[0].version = found;
        for vector in [block, state] {
            let error = run(&vector).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("expected state version 0 or 1, found {found}")
            );
        }
    }
}

#[test]
fn a_boundary_without_its_sizes_does_not_hold() {
    let mut file = VectorFile::read(FILE).unwrap();
    let vector = &mut file.vectors[0];
    let steps = vector.operations.iter_mut();
    steps.for_each(|step| step.sizes = None);
    let error = run(vector).unwrap_err();
    assert!(matches!(error, VectorError::Differs { .. }), "{error:?}");
}

/// The digest of a 64-bit build. It changes with every change of a size, a root, a proof or the random
/// blocks. Then take the digest that a 64-bit build finds, once the oracles pass.
#[test]
fn random_blocks_tell_the_same_on_every_machine() {
    let expected = "0x42ee0c6967959a3d2da2c8a5c43372d8941a5d6f84ad36f304145c318882fc77";
    assert_eq!(digest(600).unwrap().to_string(), expected);
}

#[test]
fn a_vector_that_tells_something_else_is_found_out() {
    for field in ["total_bytes", "compact_bytes", "nodes"] {
        let other = FILE.replacen(&format!("\"{field}\":"), &format!("\"{field}\":1"), 1);
        let file = VectorFile::read(&other).unwrap();
        let error = run(&file.vectors[0]).unwrap_err();
        assert!(matches!(error, VectorError::Differs { .. }), "{error:?}");
    }
}

const REAL_BLOCK: &str = include_str!("../polkadot-1.json");

#[test]
fn the_first_block_of_polkadot_has_the_root_of_its_header() {
    let block = RealBlock::read(REAL_BLOCK).unwrap();
    assert_eq!((block.chain.as_str(), block.number), ("polkadot", 1));
    assert_eq!(block.execute().unwrap(), block.expected().unwrap());
}

#[test]
fn a_real_block_of_another_state_version_is_refused() {
    let other = REAL_BLOCK.replacen("\"version\": 0", "\"version\": 2", 1);
    assert_ne!(other, REAL_BLOCK);
    let error = RealBlock::read(&other).unwrap().execute().unwrap_err();
    assert!(
        matches!(error, RealBlockError::Version(UnknownVersion { found: 2 })),
        "{error:?}"
    );
}

#[test]
fn a_real_block_with_another_value_has_another_root() {
    let at = REAL_BLOCK.find("\"changes\"").unwrap();
    let value = at + REAL_BLOCK[at..].find(", \"0x").unwrap() + 5;
    let digit = if REAL_BLOCK[value..].starts_with('0') {
        "1"
    } else {
        "0"
    };
    let mut other = REAL_BLOCK.to_owned();
    other.replace_range(value..=value, digit);
    let block = RealBlock::read(&other).unwrap();
    assert_ne!(
        block.execute().unwrap().root,
        block.expected().unwrap().root
    );
}
