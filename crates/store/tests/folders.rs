//! Tests of folders: how a store on disk opens its own folder, and that it leaves other folders alone.
#![cfg(any(feature = "parity-db", feature = "rocksdb"))]
#![allow(clippy::unwrap_used)]

#[macro_use]
mod common;

use common::folders::{not_a_store, occupied, refused, snapshot, stored};
use common::stores::{open_released, DiskStore};
use common::{change, encoded, read, root, step};
use povmeter_delta_root::Root;
use povmeter_store::{engine_of, FillError, FolderContent, OpenError};
use std::fs;
#[cfg(feature = "parity-db")]
use std::path::Path;

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
    // Its files may change between two looks at them, so that it looks damaged.
    let list = "index_00_16 9999999999\n999999.sst 9999999999\n";
    fs::write(home.path().join("povmeter-files"), list).unwrap();
    let error = S::open_at(home.path()).unwrap_err();
    assert!(matches!(error, OpenError::InUse { .. }), "{error:?}");
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
        "povmeter node store, format 4\n",
    )
    .unwrap();
    let (opened, _) = refused::<S>(home.path());
    assert!(
        opened
            .to_string()
            .contains("format 3, found a povmeter node store of format 4"),
        "{opened}"
    );
    assert_eq!(not_a_store(opened), FolderContent::Format(4));
}

/// The store is locked before and after its marker is replaced.
fn an_earlier_format_is_converted<S: DiskStore>() {
    let home = stored::<S>();
    let marker = home.path().join("povmeter-store");
    let whole = fs::read_to_string(&marker).unwrap();
    fs::write(&marker, whole.replace("format 3", "format 2")).unwrap();
    let store = S::open_at(home.path()).unwrap();
    assert_eq!(fs::read_to_string(&marker).unwrap(), whole);
    let opened = S::open_at(home.path()).unwrap_err();
    assert!(matches!(opened, OpenError::InUse { .. }), "{opened:?}");
    drop(store);
    let store: S = open_released(home.path()).unwrap();
    assert_eq!(read(&store, "a"), Some(encoded("a")));
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

/// What a store that is not opened should have, and what was found.
#[cfg(feature = "parity-db")]
fn damage<S: DiskStore>(path: &Path) -> (String, String) {
    match refused::<S>(path).0 {
        OpenError::Damaged {
            path: named,
            expected,
            found,
        } => {
            assert_eq!(named, path);
            (expected, found)
        }
        error => panic!("{error:?}"),
    }
}

fn a_marker_that_is_none_is_left_alone<S: DiskStore>() {
    let home = stored::<S>();
    let marker = home.path().join("povmeter-store");
    let whole = fs::read_to_string(&marker).unwrap();
    let texts = [
        whole.replace("state complete", "state odd"),
        whole.replace("state complete\n", ""),
        whole.replace("engine ", "motor "),
        whole.replace("format 3", "format three"),
        whole.replace("povmeter node", "another"),
        // As long as a file that is not read at all.
        whole.clone() + &" ".repeat(1 << 20),
    ];
    for text in texts {
        fs::write(&marker, &text).unwrap();
        assert_eq!(engine_of(home.path()).unwrap(), None, "{text:.80}");
        let (opened, created) = refused::<S>(home.path());
        // The files of the database are found instead.
        let found = not_a_store(opened);
        let of_database = match S::ENGINE {
            "parity-db" => FolderContent::ParityDb { columns: 2 },
            _ => FolderContent::RocksDb,
        };
        assert_eq!((&found, &occupied(created)), (&of_database, &of_database));
    }
    // A text editor may have added spaces and lines.
    fs::write(&marker, whole.replace("format 3", "format 3 ") + "\n\n").unwrap();
    assert_eq!(S::open_at(home.path()).unwrap().root(), root("first"));
}

fn a_store_that_is_being_made_is_named<S: DiskStore>() {
    let home = stored::<S>();
    let marker = home.path().join("povmeter-store");
    let text = fs::read_to_string(&marker).unwrap();
    fs::write(&marker, text.replace("state complete", "state being made")).unwrap();
    for name in [
        "povmeter-store.new",
        "povmeter-store.complete",
        "povmeter-files.new",
    ] {
        fs::write(home.path().join(name), "").unwrap();
    }
    assert_eq!(engine_of(home.path()).unwrap().as_deref(), Some(S::ENGINE));
    let error = S::open_at(home.path()).unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("found a povmeter node store whose making was interrupted"),
        "{error}"
    );
    assert_eq!(not_a_store(error), FolderContent::Unfinished);
    // A file of somebody else would be lost.
    let letter = home.path().join("letter.txt");
    fs::write(&letter, "Dear").unwrap();
    let (opened, created) = refused::<S>(home.path());
    let other = FolderContent::Other {
        entry: "letter.txt".into(),
    };
    assert_eq!(
        (not_a_store(opened), occupied(created)),
        (other.clone(), other)
    );
    fs::remove_file(letter).unwrap();
    let store = S::create_at(home.path()).unwrap();
    assert_eq!(store.root(), Root::EMPTY);
    assert!(!home.path().join("povmeter-store.new").exists());
}

fn a_store_counts_only_once_it_is_filled<S: DiskStore>() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("store");
    let fill = |store: &mut S, fails: bool| {
        store.commit(&step(store, "a", vec![])).unwrap();
        // Another process would find a store that is in use.
        let error = S::open_at(&path).unwrap_err();
        assert!(matches!(error, OpenError::InUse { .. }), "{error:?}");
        match fails {
            true => Err("enough"),
            false => Ok(()),
        }
    };
    let refused = S::create_filled_at(&path, |store| fill(store, true)).unwrap_err();
    assert!(matches!(refused, FillError::Fill("enough")));
    let error = open_released::<S>(&path).unwrap_err();
    assert_eq!(not_a_store(error), FolderContent::Unfinished);
    let store = S::create_filled_at(&path, |store| fill(store, false)).unwrap();
    assert_eq!(read(&store, "a"), Some(encoded("a")));
    drop(store);
    let before = snapshot(&path);
    let refused = S::create_filled_at(&path, |_| -> Result<(), ()> { panic!("there is a store") });
    let Err(FillError::Open(error)) = refused else {
        panic!("expected that the store is refused, found {refused:?}");
    };
    assert_eq!(occupied(error), FolderContent::Store);
    assert_eq!(snapshot(&path), before);
    let store = open_released::<S>(&path).unwrap();
    assert_eq!((store.root(), store.states().len()), (root("a"), 1));
}

fn the_beginning_of_a_marker_beside_other_files_is_left_alone<S: DiskStore>() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("povmeter-store.new"), "povmeter node").unwrap();
    let error = S::open_at(home.path()).unwrap_err();
    assert_eq!(not_a_store(error), FolderContent::Unfinished);
    fs::write(home.path().join("a letter"), "Dear").unwrap();
    let other = FolderContent::Other {
        entry: "a letter".into(),
    };
    let (opened, created) = refused::<S>(home.path());
    assert_eq!(
        (not_a_store(opened), occupied(created)),
        (other.clone(), other)
    );
}

/// Nothing can be below a file.
fn a_path_below_a_file_is_an_error<S: DiskStore>() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("file");
    fs::write(&file, "text").unwrap();
    let below = file.join("store");
    assert_eq!(engine_of(&below).unwrap(), None);
    for error in [
        S::open_at(&below),
        S::create_at(&below),
        S::open_or_create_at(&below),
    ] {
        let error = error.unwrap_err();
        let OpenError::Io { path, source } = &error else {
            panic!("{error:?}");
        };
        assert_eq!(*path, below);
        assert_eq!(source.kind(), std::io::ErrorKind::NotADirectory);
        assert!(error.to_string().starts_with(&below.display().to_string()));
    }
    assert_eq!(fs::read(&file).unwrap(), b"text");
}

fn what_keeps_a_store_from_being_made_is_named<S: DiskStore>() {
    let home = stored::<S>();
    let error = S::create_at(home.path()).unwrap_err();
    let path = home.path().display();
    assert_eq!(
        error.to_string(),
        format!(
            "{path}: expected nothing or an empty folder, found a povmeter node store of format 3"
        )
    );
    let store = S::open_at(home.path()).unwrap();
    let error = S::open_or_create_at(home.path()).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("{path}: expected a store that nobody has open, found it in use")
    );
    drop(store);
}

/// A list that is none says nothing, and neither does a line that is none.
fn a_list_that_is_none_is_ignored<S: DiskStore>() {
    let home = stored::<S>();
    let list = home.path().join("povmeter-files");
    let lines = [
        "table_00_99",
        "table_00_99 many",
        "table_00_99 -1",
        "table_00_99 1 later",
        "999999.sst  1",
        " 1",
        "letter.txt 1",
        "metadata 9999999",
    ];
    for text in [lines.join("\n").as_bytes(), b"table_00_99 1\n\xff", b""] {
        fs::write(&list, text).unwrap();
        let store = S::open_at(home.path()).unwrap();
        assert_eq!(read(&store, "a"), Some(encoded("a")));
    }
}

/// The store names the first file that is not as long as it was, and its two lengths.
#[cfg(feature = "parity-db")]
#[test]
fn a_shorter_file_is_named_with_its_length() {
    type Store = povmeter_store::ParityDbStore;
    let home = stored::<Store>();
    let list = fs::read_to_string(home.path().join("povmeter-files")).unwrap();
    let mut tables = 0;
    for line in list.lines() {
        let (name, bytes) = line.split_once(' ').unwrap();
        if !name.starts_with("table_") && !name.starts_with("index_") {
            continue;
        }
        let path = home.path().join(name);
        let whole = fs::read(&path).unwrap();
        assert_eq!(bytes, whole.len().to_string());
        let expected = format!("the file `{name}` of {bytes} bytes or more");
        for length in [0, whole.len() - 1] {
            fs::write(&path, &whole[..length]).unwrap();
            let found = format!("{length} bytes");
            assert_eq!(damage::<Store>(home.path()), (expected.clone(), found));
        }
        fs::remove_file(&path).unwrap();
        let found = "no such file".to_owned();
        assert_eq!(damage::<Store>(home.path()), (expected, found));
        fs::write(&path, [&whole[..], &[0]].concat()).unwrap();
        let (expected, found) = damage::<Store>(home.path());
        assert!(
            expected.starts_with(&format!("the file `{name}` of ")),
            "{expected}"
        );
        assert_eq!(found, format!("{} bytes", whole.len() + 1));
        fs::write(&path, whole).unwrap();
        tables += 1;
    }
    assert!(tables > 3, "{tables}");
    let store = Store::open_at(home.path()).unwrap();
    assert_eq!(read(&store, "a"), Some(encoded("a")));
}

/// Format 1 had no engine but parity-db.
#[cfg(feature = "rocksdb")]
#[test]
fn a_store_of_format_1_is_one_on_parity_db() {
    let home = stored::<povmeter_store::RocksDbStore>();
    let marker = home.path().join("povmeter-store");
    fs::write(&marker, "povmeter node store, format 1\n").unwrap();
    let (opened, _) = refused::<povmeter_store::RocksDbStore>(home.path());
    let engine = "parity-db".to_owned();
    assert_eq!(not_a_store(opened), FolderContent::OtherEngine { engine });
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
            an_earlier_format_is_converted
            another_engine_is_left_alone
            a_marker_that_is_none_is_left_alone
            a_store_that_is_being_made_is_named
            a_store_counts_only_once_it_is_filled
            the_beginning_of_a_marker_beside_other_files_is_left_alone
            a_path_below_a_file_is_an_error
            what_keeps_a_store_from_being_made_is_named
            a_list_that_is_none_is_ignored
        })*
    };
}

each! {
    #[cfg(feature = "parity-db")]
    parity_db: povmeter_store::ParityDbStore;
    #[cfg(feature = "rocksdb")]
    rocksdb: povmeter_store::RocksDbStore;
}
