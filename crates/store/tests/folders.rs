//! Tests of folders: how a store on disk opens its own folder, and that it leaves other folders alone.
#![cfg(any(feature = "parity-db", feature = "rocksdb"))]
#![allow(clippy::unwrap_used)]

#[macro_use]
mod common;

use common::folders::{not_a_store, occupied, refused, snapshot, stored};
use common::stores::DiskStore;
use common::{change, encoded, read, root, step};
use povmeter_delta_root::Root;
use povmeter_store::{engine_of, FolderContent, OpenError};
use std::fs;

fn reopening_finds_the_state_again<S: DiskStore>() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("made").join("on the way");
    let mut store = S::open_or_create_at(&path).unwrap();
    assert_eq!(store.folder(), path);
    for round in 0..20 {
        assert_eq!(
            store.root(),
            if round == 0 {
                Root::EMPTY
            } else {
                root(&format!("r{}", round - 1))
            }
        );
        let before = change(&format!("r{}", round - 1), &[], -1);
        let lost = if round == 0 { vec![] } else { vec![before] };
        store
            .commit(&step(&store, &format!("r{round}"), lost))
            .unwrap();
        drop(store);
        store = S::open_or_create_at(&path).unwrap();
    }
    assert_eq!(store.root(), root("r19"));
    assert_eq!(read(&store, "r19"), Some(encoded("r19")));
    assert_eq!(read(&store, "r18"), None);
}

fn an_open_store_cannot_be_opened_again<S: DiskStore>() {
    let home = stored::<S>();
    let store = S::open_at(home.path()).unwrap();
    let error = S::open_at(home.path()).unwrap_err();
    assert!(matches!(error, OpenError::InUse { .. }), "{error:?}");
    assert!(
        error
            .to_string()
            .contains(&home.path().display().to_string()),
        "{error}"
    );
    assert_eq!(read(&store, "a"), Some(encoded("a")));
}

fn opening_makes_nothing<S: DiskStore>() {
    let home = tempfile::tempdir().unwrap();
    let error = S::open_at(home.path()).unwrap_err();
    assert_eq!(not_a_store(error), FolderContent::Empty);
    assert!(snapshot(home.path()).is_empty());
    let absent = home.path().join("absent");
    let error = S::open_at(&absent).unwrap_err();
    assert_eq!(not_a_store(error), FolderContent::Absent);
    assert!(!absent.exists());
}

fn a_store_is_not_made_over_another<S: DiskStore>() {
    let home = stored::<S>();
    let before = snapshot(home.path());
    let error = S::create_at(home.path()).unwrap_err();
    assert_eq!(occupied(error), FolderContent::Store);
    assert_eq!(snapshot(home.path()), before);
}

fn a_file_is_not_a_store<S: DiskStore>() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("file");
    fs::write(&file, "text").unwrap();
    for error in [S::open_at(&file), S::open_or_create_at(&file)] {
        let error = error.unwrap_err();
        assert!(error.to_string().contains("not a folder"), "{error}");
        assert_eq!(not_a_store(error), FolderContent::NotAFolder);
    }
    assert_eq!(
        occupied(S::create_at(&file).unwrap_err()),
        FolderContent::NotAFolder
    );
    assert_eq!(engine_of(&file).unwrap(), None);
    assert_eq!(fs::read(&file).unwrap(), b"text");
}

fn a_folder_of_other_files_is_left_alone<S: DiskStore>() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("letter.txt"), "Dear").unwrap();
    let (opened, created) = refused::<S>(home.path());
    assert!(
        opened
            .to_string()
            .contains("expected a povmeter node store"),
        "{opened}"
    );
    assert!(opened.to_string().contains("letter.txt"), "{opened}");
    let other = FolderContent::Other {
        entry: "letter.txt".into(),
    };
    assert_eq!(
        (not_a_store(opened), occupied(created)),
        (other.clone(), other)
    );
}

fn files_that_go_by_our_names_are_left_alone<S: DiskStore>() {
    let cases: [(&str, &[u8]); 8] = [
        ("metadata", b"\xff\xfe\0"),
        ("metadata", b"version=9"),
        ("CURRENT", b"\xff\xfe\0"),
        ("CURRENT", b"today"),
        ("povmeter-store", b""),
        ("povmeter-store", b"povmeter node store, format "),
        ("povmeter-store", b"\xff"),
        ("povmeter-store", &[b'0'; 100_000]),
    ];
    for (name, content) in cases {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join(name), content).unwrap();
        assert_eq!(
            not_a_store(refused::<S>(home.path()).0),
            FolderContent::Other { entry: name.into() }
        );
    }
    for name in ["metadata", "CURRENT", "povmeter-store"] {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir(home.path().join(name)).unwrap();
        assert_eq!(
            not_a_store(refused::<S>(home.path()).0),
            FolderContent::Other { entry: name.into() }
        );
    }
}

fn another_format_is_left_alone<S: DiskStore>() {
    let home = stored::<S>();
    fs::write(
        home.path().join("povmeter-store"),
        "povmeter node store, format 3\n",
    )
    .unwrap();
    let (opened, _) = refused::<S>(home.path());
    assert!(
        opened
            .to_string()
            .contains("format 2, found a povmeter node store of format 3"),
        "{opened}"
    );
    assert_eq!(not_a_store(opened), FolderContent::Format(3));
}

/// The marker names an engine that does not exist.
fn another_engine_is_left_alone<S: DiskStore>() {
    let home = stored::<S>();
    let marker = home.path().join("povmeter-store");
    let text = fs::read_to_string(&marker).unwrap();
    fs::write(&marker, text.replace(S::ENGINE, "sled")).unwrap();
    let (opened, created) = refused::<S>(home.path());
    assert!(
        opened.to_string().contains("a povmeter node store on sled"),
        "{opened}"
    );
    let found = FolderContent::OtherEngine {
        engine: "sled".into(),
    };
    assert_eq!(
        (not_a_store(opened), occupied(created)),
        (found.clone(), found)
    );
    assert_eq!(engine_of(home.path()).unwrap().as_deref(), Some("sled"));
}

/// Each engine names the other one in an error about its folder, complete or not.
#[cfg(all(feature = "parity-db", feature = "rocksdb"))]
#[test]
fn the_folder_of_the_other_engine_is_left_alone() {
    fn of_other<S: DiskStore, Other: DiskStore>() {
        let home = stored::<Other>();
        let marker = home.path().join("povmeter-store");
        let text = fs::read_to_string(&marker).unwrap();
        for text in [
            text.clone(),
            text.replace("state complete", "state being made"),
        ] {
            fs::write(&marker, text).unwrap();
            let (opened, created) = refused::<S>(home.path());
            let says = format!("found a povmeter node store on {}", Other::ENGINE);
            assert!(opened.to_string().contains(&says), "{opened}");
            assert!(created.to_string().contains(&says), "{created}");
        }
        assert_eq!(
            engine_of(home.path()).unwrap().as_deref(),
            Some(Other::ENGINE)
        );
        fs::write(&marker, text).unwrap();
        let own = stored::<S>();
        let mut store = S::open_at(own.path()).unwrap();
        let error = store.backup_to(home.path(), &mut |_| ()).unwrap_err();
        assert!(error.to_string().contains(Other::ENGINE), "{error}");
        drop(store);
        assert_eq!(Other::open_at(home.path()).unwrap().root(), root("first"));
    }
    of_other::<povmeter_store::ParityDbStore, povmeter_store::RocksDbStore>();
    of_other::<povmeter_store::RocksDbStore, povmeter_store::ParityDbStore>();
}

macro_rules! each {
    ($($(#[$attribute:meta])* $module:ident: $store:ty;)*) => {
        $($(#[$attribute])*
        cases! {
            $module, $store:
            reopening_finds_the_state_again
            an_open_store_cannot_be_opened_again
            opening_makes_nothing
            a_store_is_not_made_over_another
            a_file_is_not_a_store
            a_folder_of_other_files_is_left_alone
            files_that_go_by_our_names_are_left_alone
            another_format_is_left_alone
            another_engine_is_left_alone
        })*
    };
}

each! {
    #[cfg(feature = "parity-db")]
    parity_db: povmeter_store::ParityDbStore;
    #[cfg(feature = "rocksdb")]
    rocksdb: povmeter_store::RocksDbStore;
}
