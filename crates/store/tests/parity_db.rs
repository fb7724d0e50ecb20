//! Tests of what only the store on parity-db does: its formats, and damage to its files.
#![cfg(feature = "parity-db")]
#![allow(clippy::unwrap_used)]

mod common;

use common::folders::{not_a_store, occupied, refused, snapshot, stored};
use common::{change, encoded, hash, read, root, step};
use parity_db::{Db, Options};
use povmeter_delta_root::NodeSource;
use povmeter_store::{
    FolderContent, NodeStore, OpenError, ParityDbStore, StateHistory, StoreError, Verified,
};
use std::fs;
use std::path::Path;

#[test]
fn another_parity_db_is_left_alone() {
    // A store also has two columns.
    for columns in [1, 2, 5] {
        let home = tempfile::tempdir().unwrap();
        let database = Db::open_or_create(&Options::with_columns(home.path(), columns)).unwrap();
        database
            .commit([(0, b"key", Some(b"value".to_vec()))])
            .unwrap();
        drop(database);
        let (opened, created) = refused::<ParityDbStore>(home.path());
        let found = FolderContent::ParityDb {
            columns: columns.into(),
        };
        assert!(
            opened
                .to_string()
                .contains(&format!("a parity-db with {columns} columns")),
            "{opened}"
        );
        assert_eq!(
            (not_a_store(opened), occupied(created)),
            (found.clone(), found)
        );
    }
}

#[test]
fn damaged_metadata_is_named_and_left_alone() {
    let salt = "00".repeat(32);
    let with_columns = |salt: &str, columns: [&str; 2]| {
        format!(
            "version=9\nsalt={salt}\ncol0={}\ncol1={}",
            columns[0], columns[1]
        )
    };
    let nodes = "preimage: true, uniform: true, refc: true, compression: 0";
    let state = "preimage: false, uniform: false, refc: false, compression: 0";
    let good = with_columns(&salt, [nodes, state]);
    let cases = [
        String::new(),
        good.replace("version=9", "version=1"),
        good.replace("version=9", "version=nine"),
        with_columns("", [nodes, state]),
        with_columns("00", [nodes, state]),
        with_columns(&"x".repeat(64), [nodes, state]),
        with_columns(&salt, [state, nodes]),
        with_columns(
            &salt,
            [nodes, &state.replace("compression: 0", "compression: 9")],
        ),
        with_columns(&salt, [nodes, "preimage: maybe"]),
        good.clone() + "\ncol2=" + state,
        good.clone() + "\nword",
    ];
    for damaged in cases {
        let home = stored::<ParityDbStore>();
        fs::write(home.path().join("metadata"), &damaged).unwrap();
        let (opened, _) = refused::<ParityDbStore>(home.path());
        assert!(
            matches!(
                opened,
                OpenError::Damaged { .. } | OpenError::Database { .. }
            ),
            "{opened:?}"
        );
    }
    let home = stored::<ParityDbStore>();
    fs::remove_file(home.path().join("metadata")).unwrap();
    let (opened, _) = refused::<ParityDbStore>(home.path());
    assert!(
        opened.to_string().contains("found no such file"),
        "{opened}"
    );
}

#[test]
fn a_store_without_its_records_is_damaged() {
    let home = stored::<ParityDbStore>();
    // Without the files of the state column the database starts that column empty.
    for path in snapshot(home.path()).into_keys() {
        let name = path.file_name().unwrap().to_string_lossy();
        let of_column = name.starts_with("table_01") || name.starts_with("index_01");
        // Without the list the store does not know that the files existed.
        if of_column || name == "povmeter-files" {
            fs::remove_file(&path).unwrap();
        }
    }
    let error = ParityDbStore::open(home.path()).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("expected a record of the kept states, found none"),
        "{error}"
    );
}

/// Makes a store of format 1, as earlier versions did, with the nodes "first" and "a".
fn first_format(path: &Path) {
    let mut options = Options::with_columns(path, 2);
    options.columns[0].uniform = true;
    options.columns[0].preimage = true;
    options.columns[0].ref_counted = true;
    options.stats = false;
    let database = Db::open_or_create(&options).unwrap();
    let node = |name: &str| {
        (
            0,
            hash(name).as_bytes().to_vec(),
            Some(encoded(name).to_vec()),
        )
    };
    let record = (1, b"root".to_vec(), Some(root("first").as_bytes().to_vec()));
    database.commit([node("first"), node("a"), record]).unwrap();
    drop(database);
    fs::write(
        path.join("povmeter-store"),
        "povmeter node store, format 1\n",
    )
    .unwrap();
}

#[test]
fn a_store_of_format_1_becomes_one_of_format_2() {
    let home = tempfile::tempdir().unwrap();
    first_format(home.path());
    let mut store = ParityDbStore::open(home.path()).unwrap();
    let marker = || fs::read_to_string(home.path().join("povmeter-store")).unwrap();
    let second = "povmeter node store, format 2\nengine parity-db\nstate complete\n";
    assert_eq!(marker(), second);
    // The converted store is closed before anything is written to it.
    for name in ["second", "third"] {
        drop(store);
        store = ParityDbStore::open(home.path()).unwrap();
        assert_eq!(store.kept_roots().len(), 1);
        let update = step(&store, name, vec![]);
        store.commit(&update).unwrap();
    }
    drop(store);
    let store = ParityDbStore::open(home.path()).unwrap();
    assert_eq!(store.root(), root("third"));
    for name in ["first", "second", "third", "a"] {
        assert_eq!(read(&store, name), Some(encoded(name)));
    }
}

#[test]
fn a_damaged_store_of_format_1_is_left_alone() {
    let home = tempfile::tempdir().unwrap();
    first_format(home.path());
    fs::remove_file(home.path().join("metadata")).unwrap();
    let (opened, _) = refused::<ParityDbStore>(home.path());
    assert!(matches!(opened, OpenError::Damaged { .. }), "{opened:?}");
}

/// Applies `damage` to the file of the closed store in `home` that holds the node "a". `damage` gets
/// the content of the file and the offset of the node.
fn damage_node(home: &Path, damage: impl Fn(&mut [u8], usize)) {
    let node = encoded("a");
    let mut found = 0;
    for (path, content) in snapshot(home) {
        let mut content = content.unwrap();
        let at = content
            .windows(node.len())
            .position(|window| window == node);
        if let Some(at) = at {
            damage(&mut content, at);
            fs::write(path, content).unwrap();
            found += 1;
        }
    }
    assert_eq!(found, 1, "the node should lie in one table, as it is");
}

#[test]
fn a_damaged_node_is_found_out_when_verified() {
    let home = stored::<ParityDbStore>();
    damage_node(home.path(), |content, at| content[at + 3] ^= 0x10);
    let mut damaged = encoded("a").to_vec();
    damaged[3] ^= 0x10;

    let store = ParityDbStore::open(home.path()).unwrap();
    assert_eq!(
        read(&store, "a").unwrap(),
        damaged,
        "the store itself does not look"
    );
    let store = Verified::new(store);
    let text = store.node(&hash("a"), (&[], None)).unwrap_err().to_string();
    let found = povmeter_delta_root::Blake2b256::hash(&damaged);
    assert!(text.contains(&hash("a").to_string()), "{text}");
    assert!(text.contains(&found.to_string()), "{text}");
    assert_eq!(read(&store, "first"), Some(encoded("first")));
}

#[test]
fn a_failing_database_is_an_error_and_changes_nothing() {
    let home = stored::<ParityDbStore>();
    // An entry is its length in 2 bytes, the count in 4, the key in 26, then the value. parity-db
    // reports a length that leaves no room for the count as damage.
    damage_node(home.path(), |content, at| {
        content[at - 32..at - 30].copy_from_slice(&[1, 0]);
    });
    let mut store = ParityDbStore::open(home.path()).unwrap();
    let error = store.node(&hash("a"), (&[], None)).unwrap_err();
    assert!(error.to_string().contains("Corrupt"), "{error}");

    let error = store
        .commit(&step(&store, "second", vec![change("a", &[1], -1)]))
        .unwrap_err();
    assert!(matches!(error, StoreError::Database { .. }), "{error:?}");
    assert!(error.to_string().contains("look up a node"), "{error}");
    assert_eq!(store.root(), root("first"));
    drop(store);
    let store = ParityDbStore::open(home.path()).unwrap();
    assert_eq!(store.root(), root("first"));
    assert_eq!(read(&store, "second"), None);
}
