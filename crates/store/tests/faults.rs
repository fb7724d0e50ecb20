//! Tests of damaged or unusable folders: files missing or cut off, a store half-made, in use, or of
//! another engine, a folder that can not be written. An error names the fault, and nothing is
//! overwritten.
#![cfg(any(feature = "parity-db", feature = "rocksdb"))]
#![allow(clippy::unwrap_used)]

mod common;

use common::stores::DiskStore;
use common::tries::{block, random_changes};
use fs4::fs_std::FileExt;
use povmeter_store::{engine_of, verify, FolderContent, OpenError};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Barrier;
use std::thread;

/// The content of every file in the folder `path`.
fn files(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(path).unwrap().map(|entry| entry.unwrap());
    let file = |entry: fs::DirEntry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        (name, fs::read(entry.path()).unwrap())
    };
    entries.map(file).collect()
}

fn restore(path: &Path, files: &BTreeMap<String, Vec<u8>>) {
    for entry in fs::read_dir(path).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
    }
    for (name, content) in files {
        fs::write(path.join(name), content).unwrap();
    }
}

/// A closed store with several states.
fn stored<S: DiskStore>() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    let mut store = S::create_at(home.path()).unwrap();
    for seed in 0..6 {
        let parent = *store.states().newest();
        let update = block(&store, parent.root, &random_changes(seed, 60));
        store.keep(parent.id, &update).unwrap();
    }
    home
}

/// Opens the store and checks all of it. Returns the error, or what `verify` found, as text.
fn opened<S: DiskStore>(path: &Path) -> Result<(), String> {
    let mut store = S::open_at(path).map_err(|error| error.to_string())?;
    if store.states().len() != 7 {
        return Err(format!("{} states", store.states().len()));
    }
    let report = verify(&mut store, &mut |_| ()).map_err(|error| error.to_string())?;
    if report.is_clean() {
        Ok(())
    } else {
        Err(report.problems[0].to_string())
    }
}

/// Removes each file, and checks that the store is whole without it or says what is missing.
fn missing_files<S: DiskStore>(is_spare: impl Fn(&str) -> bool) {
    let home = stored::<S>();
    let whole = files(home.path());
    for (name, content) in &whole {
        let path = home.path().join(name);
        fs::remove_file(&path).unwrap();
        match opened::<S>(home.path()) {
            Ok(()) => assert!(is_spare(name), "{name} is not missed"),
            Err(error) => {
                assert!(!is_spare(name), "{name}: {error}");
                assert!(!error.contains("panicked"), "{name}: {error}");
                assert!(!path.exists(), "{name} was made anew");
                fs::write(path, content).unwrap();
            }
        }
        assert_eq!(opened::<S>(home.path()), Ok(()), "nothing was lost, {name}");
        // Opening may have replaced files that are removed next.
        restore(home.path(), &whole);
    }
}

/// Cuts off each file at some lengths, and checks that no damage goes unnoticed.
fn short_files<S: DiskStore>(matters: impl Fn(&str) -> bool) {
    let home = stored::<S>();
    let whole = files(home.path());
    for (name, content) in whole.iter().filter(|(name, _)| matters(name)) {
        let path = home.path().join(name);
        for kept in [0, content.len() / 2, content.len() - 1] {
            let file = OpenOptions::new().write(true).open(&path).unwrap();
            file.set_len(kept as u64).unwrap();
            let error = S::open_at(home.path()).map(drop).unwrap_err();
            assert!(
                matches!(error, OpenError::Damaged { .. }),
                "{name}, {kept}: {error:?}"
            );
            assert!(error.to_string().contains(name), "{error}");
            assert_eq!(
                fs::metadata(&path).unwrap().len(),
                kept as u64,
                "{name} was written to"
            );
        }
        fs::write(path, content).unwrap();
    }
    assert_eq!(files(home.path()), whole);
    assert_eq!(opened::<S>(home.path()), Ok(()));
}

/// A store whose making stopped after any file, as on a full disk, is made anew.
fn half_made<S: DiskStore>() {
    let home = tempfile::tempdir().unwrap();
    drop(S::create_at(home.path()).unwrap());
    let mut whole = files(home.path());
    whole
        .values_mut()
        .for_each(|content| content.truncate(10_000));
    let marker = "povmeter-store";
    let complete = String::from_utf8(whole[marker].clone()).unwrap();
    let begun = complete.replace("state complete", "state being made");
    assert_ne!(begun, complete);
    for count in 0..=whole.len() {
        let mut part: BTreeMap<_, _> = whole.clone().into_iter().take(count).collect();
        part.insert(marker.into(), begun.clone().into_bytes());
        for content in part.values_mut().filter(|content| content.len() > 1000) {
            content.truncate(count * 1000);
        }
        restore(home.path(), &part);
        let error = S::open_at(home.path()).map(drop).unwrap_err();
        let found = FolderContent::Unfinished;
        assert!(
            matches!(&error, OpenError::NotAStore { found: f, .. } if *f == found),
            "{error:?}"
        );
        assert_eq!(files(home.path()), part);
        if count % 2 == 0 {
            drop(S::create_at(home.path()).unwrap());
        } else {
            drop(S::open_or_create_at(home.path()).unwrap());
        }
        assert_eq!(S::open_at(home.path()).unwrap().kept_roots().len(), 1);
    }

    // A foreign file in the folder stays.
    let mut other = whole.clone();
    other.insert(marker.into(), begun.into_bytes());
    other.insert("letter.txt".into(), b"Dear".to_vec());
    restore(home.path(), &other);
    let error = S::create_at(home.path()).map(drop).unwrap_err();
    assert!(error.to_string().contains("letter.txt"), "{error}");
    assert_eq!(files(home.path()), other);
}

/// A folder with only the beginning of a marker is free for a store.
fn begun<S: DiskStore>() {
    for text in ["", "povmeter", "povmeter node store, format 3\nengine"] {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("povmeter-store.new"), text).unwrap();
        drop(S::create_at(home.path()).unwrap());
        assert_eq!(engine_of(home.path()).unwrap().as_deref(), Some(S::ENGINE));
    }
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("povmeter-store.new"), "Dear").unwrap();
    let error = S::create_at(home.path()).map(drop).unwrap_err();
    assert!(matches!(error, OpenError::Occupied { .. }), "{error:?}");
}

/// Of several that make a store in one folder at once one gets it, and what it commits stays. Others try to get
/// it as soon as it is complete.
fn raced<S: DiskStore>() {
    for round in 0..20 {
        let home = tempfile::tempdir().unwrap();
        let start = Barrier::new(4);
        let ended = AtomicUsize::new(0);
        let marker = home.path().join("povmeter-store");
        let is_complete = || fs::read(&marker).is_ok_and(|text| text.ends_with(b"complete\n"));
        let commit = |number: u64| {
            let mut store = match S::open_or_create_at(home.path()) {
                Ok(store) => store,
                Err(OpenError::InUse { .. }) => return None,
                Err(error) => panic!("{error:?}"),
            };
            let parent = *store.states().newest();
            let update = block(&store, parent.root, &random_changes(number, 40));
            store.keep(parent.id, &update).unwrap();
            Some(update.root)
        };
        let race = |number: u64| {
            start.wait();
            let root = commit(number);
            ended.fetch_add(1, Ordering::SeqCst);
            root
        };
        let follow = |number: u64| {
            while !is_complete() && ended.load(Ordering::SeqCst) < 4 {
                thread::yield_now();
            }
            commit(number)
        };
        let committed: Vec<_> = thread::scope(|scope| {
            let (race, follow) = (&race, &follow);
            let racers = (0..4).map(|number| scope.spawn(move || race(6 * round + number)));
            let mut threads: Vec<_> = racers.collect();
            let followers = (4..6).map(|number| scope.spawn(move || follow(6 * round + number)));
            threads.extend(followers);
            let ends = threads.into_iter().map(|thread| thread.join().unwrap());
            ends.flatten().collect()
        });
        assert!(!committed.is_empty(), "round {round}: nobody got the store");
        let mut store = S::open_or_create_at(home.path()).unwrap();
        for root in &committed {
            let kept = store.states().iter().any(|state| state.root == *root);
            assert!(kept, "round {round}: a committed state is gone");
        }
        assert_eq!(store.states().len(), 1 + committed.len(), "round {round}");
        assert!(verify(&mut store, &mut |_| ()).unwrap().is_clean());
    }
}

/// A store that another process is making is left alone.
fn being_made<S: DiskStore>() {
    let home = tempfile::tempdir().unwrap();
    drop(S::create_at(home.path()).unwrap());
    let marker = home.path().join("povmeter-store");
    let text = fs::read_to_string(&marker).unwrap();
    fs::write(&marker, text.replace("state complete", "state being made")).unwrap();
    let locked = File::open(&marker).unwrap();
    assert!(locked.try_lock_exclusive().unwrap());
    let before = files(home.path());
    let error = S::create_at(home.path()).map(drop).unwrap_err();
    assert!(matches!(error, OpenError::InUse { .. }), "{error:?}");
    assert_eq!(files(home.path()), before);
    drop(locked);
    drop(S::create_at(home.path()).unwrap());
}

fn in_use<S: DiskStore>() {
    let home = stored::<S>();
    let store = S::open_at(home.path()).unwrap();
    let error = S::open_at(home.path()).map(drop).unwrap_err();
    assert!(matches!(error, OpenError::InUse { .. }), "{error:?}");
    let error = S::create_at(home.path()).map(drop).unwrap_err();
    assert!(matches!(error, OpenError::Occupied { .. }), "{error:?}");
    drop(store);
    assert_eq!(opened::<S>(home.path()), Ok(()));
}

/// Every store in a folder that can not be written is refused. The superuser may write everywhere.
#[cfg(unix)]
fn read_only<S: DiskStore>() {
    use std::os::unix::fs::PermissionsExt;
    let home = stored::<S>();
    let allow = |mode| {
        for entry in fs::read_dir(home.path()).unwrap() {
            fs::set_permissions(entry.unwrap().path(), fs::Permissions::from_mode(mode)).unwrap();
        }
        fs::set_permissions(home.path(), fs::Permissions::from_mode(mode | 0o111)).unwrap();
    };
    let before = files(home.path());
    allow(0o444);
    if File::create(home.path().join("probe")).is_ok() {
        fs::remove_file(home.path().join("probe")).unwrap();
    } else {
        let error = S::open_at(home.path()).map(drop).unwrap_err();
        assert!(matches!(error, OpenError::ReadOnly { .. }), "{error:?}");
        let error = S::create_at(&home.path().join("new"))
            .map(drop)
            .unwrap_err();
        assert!(matches!(error, OpenError::ReadOnly { .. }), "{error:?}");
        assert_eq!(files(home.path()), before);
    }
    allow(0o644);
    assert_eq!(opened::<S>(home.path()), Ok(()));
}

/// On a disk that is nearly full nothing is written, neither a store nor a commit.
#[cfg(target_os = "linux")]
fn full_disk<S: DiskStore>(mebibytes: usize) {
    use common::stores::open_released;
    use povmeter_store::StoreError;
    use std::process::Command;

    let mount = tempfile::tempdir().unwrap();
    let run = |command: &str, arguments: &[&str]| {
        let status = Command::new(command)
            .args(arguments)
            .arg(mount.path())
            .status();
        assert!(status.unwrap().success(), "{command} {arguments:?}");
    };
    let size = format!("size={mebibytes}m");
    run("mount", &["-t", "tmpfs", "-o", &size, "none"]);
    let filler = mount.path().join("filler");
    fs::write(&filler, vec![1; (mebibytes - 62) << 20]).unwrap();
    let path = mount.path().join("store");
    let error = S::create_at(&path).map(drop).unwrap_err();
    assert!(matches!(error, OpenError::DiskFull { .. }), "{error:?}");
    assert!(!path.exists());
    // A folder that was there before stays.
    fs::create_dir(&path).unwrap();
    assert!(S::create_at(&path).is_err());
    assert_eq!(files(&path).len(), 0);

    fs::remove_file(&filler).unwrap();
    let mut store = S::create_at(&path).unwrap();
    let mut blocks = 0;
    let error = loop {
        let mut changes = random_changes(blocks, 10);
        let value = vec![u8::try_from(blocks % 251).unwrap(); 100_000];
        changes
            .top
            .insert(blocks.to_be_bytes().to_vec(), Some(value));
        let parent = *store.states().newest();
        let update = block(&store, parent.root, &changes);
        match store.keep(parent.id, &update) {
            Ok(_) => blocks += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, StoreError::DiskFull { .. }), "{error:?}");
    println!("{}: {blocks} blocks, then {error}", S::ENGINE);
    assert_eq!(store.states().len() as u64, blocks + 1);
    drop(store);
    let mut store = open_released::<S>(&path).unwrap();
    assert_eq!(store.states().len() as u64, blocks + 1);
    let report = verify(&mut store, &mut |_| ()).unwrap();
    assert!(report.is_clean(), "{:?}", report.problems);
    drop(store);
    run("umount", &[]);
}

macro_rules! cases {
    ($module:ident, $store:ident, $spare:expr, $matters:expr, $disk:literal MiB) => {
        mod $module {
            use povmeter_store::$store;

            #[test]
            fn each_missing_file_is_noticed() {
                super::missing_files::<$store>($spare);
            }

            #[test]
            fn each_short_file_is_noticed() {
                super::short_files::<$store>($matters);
            }

            #[test]
            fn a_half_made_store_is_made_anew() {
                super::half_made::<$store>();
            }

            #[test]
            fn the_beginning_of_a_marker_is_no_obstacle() {
                super::begun::<$store>();
            }

            #[test]
            fn of_several_that_make_a_store_one_gets_it() {
                super::raced::<$store>();
            }

            #[test]
            fn a_store_that_is_being_made_is_left_alone() {
                super::being_made::<$store>();
            }

            #[test]
            fn a_store_is_opened_once() {
                super::in_use::<$store>();
            }

            #[test]
            #[cfg(unix)]
            fn a_folder_that_can_not_be_written_is_an_error() {
                super::read_only::<$store>();
            }

            #[test]
            #[cfg(target_os = "linux")]
            #[ignore = "mounts a small disk, which only the superuser may"]
            fn nothing_is_written_to_a_full_disk() {
                super::full_disk::<$store>($disk);
            }
        }
    };
}

#[cfg(feature = "parity-db")]
cases! {
    parity_db, ParityDbStore,
    // A lock, and the list of the other files.
    |name| ["lock", "povmeter-files"].contains(&name),
    |name| name.starts_with("table_") || name.starts_with("index_"),
    70 MiB
}

#[cfg(feature = "rocksdb")]
cases! {
    rocksdb, RocksDbStore,
    // A lock, the database's reports and options, and the list of the other files.
    |name| name.starts_with("LO") || name.starts_with("OPTIONS")
        || ["IDENTITY", "povmeter-files"].contains(&name),
    |name| name.ends_with(".sst") || name.starts_with("MANIFEST") || name == "CURRENT",
    // The database allocates 18 MiB for its log, and writes several tables.
    200 MiB
}
