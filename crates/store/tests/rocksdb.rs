//! Tests of what only the store on RocksDB does: damage to its files, and what outlives the process.
#![cfg(feature = "rocksdb")]
#![allow(clippy::unwrap_used)]

mod common;

use bytes::Bytes;
use common::folders::{not_a_store, occupied, refused, stored};
use common::{change, encoded, hash, read, root, step, Change};
use povmeter_delta_root::{Blake2b256, NodeBatch, NodeRequest, NodeSource};
use povmeter_store::{verify, FolderContent, NodeStore, OpenError, RocksDbStore, StoreError};
use rocksdb::{DBCompressionType, Options, DB};
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

#[test]
fn another_rocksdb_is_left_alone() {
    let home = tempfile::tempdir().unwrap();
    let mut options = Options::default();
    options.create_if_missing(true);
    let database = DB::open(&options, home.path()).unwrap();
    database.put(b"key", b"value").unwrap();
    drop(database);
    let (opened, created) = refused::<RocksDbStore>(home.path());
    assert!(
        opened
            .to_string()
            .contains("found a RocksDB that is no povmeter node store"),
        "{opened}"
    );
    assert_eq!(
        (not_a_store(opened), occupied(created)),
        (FolderContent::RocksDb, FolderContent::RocksDb)
    );
}

#[test]
fn a_damaged_current_is_named_and_left_alone() {
    let cases = [
        "",
        "MANIFEST",
        "MANIFEST-\n",
        "MANIFEST-000005",
        "MANIFEST-999999\n",
        "MANIFEST-000005x\n",
        "povmeter-store\n",
    ];
    for damaged in cases {
        let home = stored::<RocksDbStore>();
        fs::write(home.path().join("CURRENT"), damaged).unwrap();
        let (opened, _) = refused::<RocksDbStore>(home.path());
        assert!(matches!(opened, OpenError::Damaged { .. }), "{opened:?}");
        assert!(opened.to_string().contains("CURRENT"), "{opened}");
    }
}

/// The files of the folder `path` whose names end with `end`.
fn files_of(path: &Path, end: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(path)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let ends = |path: &PathBuf| path.to_string_lossy().ends_with(end);
    entries.filter(ends).collect()
}

/// Without the list the database itself notices the damage.
#[test]
fn a_missing_table_is_named_without_a_list() {
    let home = stored::<RocksDbStore>();
    fs::remove_file(home.path().join("povmeter-files")).unwrap();
    let table = files_of(home.path(), ".sst").pop().unwrap();
    let content = fs::read(&table).unwrap();
    let name = table.file_name().unwrap().to_string_lossy().into_owned();
    for damaged in [None, Some(&content[1..])] {
        match damaged {
            None => fs::remove_file(&table).unwrap(),
            Some(damaged) => fs::write(&table, damaged).unwrap(),
        }
        let error = RocksDbStore::open(home.path()).unwrap_err();
        assert!(matches!(error, OpenError::Damaged { .. }), "{error:?}");
        assert!(error.to_string().contains(&name), "{error}");
    }
    fs::write(&table, content).unwrap();
    let store = RocksDbStore::open(home.path()).unwrap();
    assert_eq!(read(&store, "a"), Some(encoded("a")));
}

/// Copies the folder of an idle open store, as a killed process leaves it.
fn left_open(commits: usize) -> tempfile::TempDir {
    let home = stored::<RocksDbStore>();
    let mut store = RocksDbStore::open(home.path()).unwrap();
    for round in 0..commits {
        let update = step(&store, &format!("r{round}"), vec![]);
        store.commit(&update).unwrap();
    }
    let copy = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(home.path()).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, copy.path().join(path.file_name().unwrap())).unwrap();
    }
    copy
}

#[test]
fn a_commit_outlives_the_process() {
    let home = left_open(3);
    let mut store = RocksDbStore::open(home.path()).unwrap();
    assert_eq!(store.root(), root("r2"));
    assert_eq!(read(&store, "r1"), Some(encoded("r1")));
    let mut nodes = 0;
    let listed = povmeter_store::StoredNodes::each_node(&mut store, &mut |_| {
        nodes += 1;
        ControlFlow::Continue(())
    });
    listed.unwrap();
    assert_eq!(nodes, 5);
}

#[test]
fn a_missing_log_is_named_and_left_alone() {
    let home = left_open(3);
    let log = files_of(home.path(), ".log").pop().unwrap();
    let content = fs::read(&log).unwrap();
    assert!(!content.is_empty());
    fs::remove_file(&log).unwrap();
    let (opened, _) = refused::<RocksDbStore>(home.path());
    assert!(matches!(opened, OpenError::Damaged { .. }), "{opened:?}");
    fs::write(&log, content).unwrap();
    assert_eq!(RocksDbStore::open(home.path()).unwrap().root(), root("r2"));
}

/// Otherwise opening would not end: RocksDB finds the record again and again.
#[test]
fn a_log_with_a_record_of_a_reused_one_is_refused() {
    let home = left_open(3);
    let log = files_of(home.path(), ".log").pop().unwrap();
    let content = fs::read(&log).unwrap();
    let second = 7 + usize::from(u16::from_le_bytes([content[4], content[5]]));
    let mut damaged = content.clone();
    damaged[second + 6] = 5;
    fs::write(&log, damaged).unwrap();
    let (opened, _) = refused::<RocksDbStore>(home.path());
    assert!(matches!(opened, OpenError::Damaged { .. }), "{opened:?}");
    assert!(
        opened.to_string().contains(&format!("byte {second} of")),
        "{opened}"
    );
    fs::write(&log, content).unwrap();
    assert_eq!(RocksDbStore::open(home.path()).unwrap().root(), root("r2"));
}

/// Returns the errors when a node is read alone and in a batch.
fn errors_of(store: &RocksDbStore, name: &str) -> [String; 2] {
    let alone = store.node(&hash(name), (&[], None)).unwrap_err();
    let requests = ["absent", name].map(|name| NodeRequest {
        hash: hash(name),
        ..NodeRequest::default()
    });
    let mut batch = NodeBatch::of(&requests).next().unwrap();
    store.nodes(&mut batch);
    assert_eq!(batch.get(0).unwrap(), None);
    [alone.to_string(), batch.get(1).unwrap_err().to_string()]
}

#[test]
fn a_damaged_table_is_an_error_and_changes_nothing() {
    let home = stored::<RocksDbStore>();
    // Enough bytes between node and records to put them into different blocks of the table.
    let mut store = RocksDbStore::open(home.path()).unwrap();
    let fill = |number: u8| {
        let encoded = Bytes::from(vec![number; 3000]);
        Change {
            hash: Blake2b256::hash(&encoded),
            encoded,
            ..change("filler", &[2], 1)
        }
    };
    let update = step(&store, "filled", (0..100).map(fill).collect());
    store.commit(&update).unwrap();
    drop(store);
    compact(home.path());
    let node = encoded("a");
    let mut found = 0;
    for path in files_of(home.path(), ".sst") {
        let mut content = fs::read(&path).unwrap();
        let mut windows = content.windows(node.len());
        if let Some(at) = windows.position(|window| window == node) {
            content[at + 3] ^= 0x10;
            fs::write(path, content).unwrap();
            found += 1;
        }
    }
    assert_eq!(found, 1, "the node should lie in one table, as it is");
    let mut store = RocksDbStore::open(home.path()).unwrap();
    for error in errors_of(&store, "a") {
        assert!(error.contains("checksum"), "{error}");
    }
    let update = step(&store, "second", vec![change("a", &[1], -1)]);
    let error = store.commit(&update).unwrap_err();
    assert!(matches!(error, StoreError::Database { .. }), "{error:?}");
    assert!(error.to_string().contains("look up a node"), "{error}");
    let error = verify(&mut store, &mut |_| ()).map(|report| report.is_clean());
    assert!(matches!(error, Err(_) | Ok(false)), "{error:?}");
    assert_eq!(store.root(), root("filled"));
    drop(store);
    let store = RocksDbStore::open(home.path()).unwrap();
    assert_eq!(store.root(), root("filled"));
}

/// Puts all entries into one table.
fn compact(home: &Path) {
    tamper(home, |database| {
        database.compact_range(None::<&[u8]>, None::<&[u8]>);
    });
}

/// Opens the database below the closed store in `home`, as no other program should.
fn tamper(home: &Path, change: impl FnOnce(&DB)) {
    let mut options = Options::default();
    options.set_compression_type(DBCompressionType::None);
    let database = DB::open(&options, home).unwrap();
    change(&database);
    drop(database);
    fs::remove_file(home.join("povmeter-files")).unwrap();
}

#[test]
fn an_entry_that_is_none_is_an_error() {
    let entries: [&[u8]; 4] = [b"", b"\x01\0\0", b"\x01\0\0\0", b"\0\0\0\0encoded node a"];
    for entry in entries {
        let home = stored::<RocksDbStore>();
        tamper(home.path(), |database| {
            database.put(hash("a").as_bytes(), entry).unwrap();
        });
        let mut store = RocksDbStore::open(home.path()).unwrap();
        let name = format!("node {}", hash("a"));
        for error in errors_of(&store, "a") {
            assert!(error.contains(&name), "{error}");
        }
        let update = step(&store, "second", vec![change("a", &[1], 1)]);
        let error = store.commit(&update).unwrap_err();
        assert!(
            matches!(&error, StoreError::DamagedRecord { key, bytes } if *key == name && *bytes == entry.len()),
            "{error:?}"
        );
        let error = verify(&mut store, &mut |_| ()).map(|_| ()).unwrap_err();
        assert!(
            matches!(error, StoreError::DamagedRecord { .. }),
            "{error:?}"
        );
        assert_eq!(read(&store, "second"), None);
    }
}

#[test]
fn a_store_without_its_records_is_damaged() {
    let home = stored::<RocksDbStore>();
    tamper(home.path(), |database| database.delete(b"history").unwrap());
    let error = RocksDbStore::open(home.path()).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("expected a record of the kept states, found none"),
        "{error}"
    );
}
