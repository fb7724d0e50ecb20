//! Tests of what only the store on parity-db does: its formats, and damage to its files.
#![cfg(feature = "parity-db")]
#![allow(clippy::unwrap_used)]

mod common;

use common::folders::{not_a_store, occupied, refused, snapshot, stored};
use common::tries::{block, random_changes};
use common::{change, encoded, hash, read, root, step};
use parity_db::{Db, Options};
use povmeter_delta_root::{Blake2b256, NodeSource};
use povmeter_store::{
    stat, verify, BackupError, FolderContent, NodeStore, OpenError, ParityDbStore, Problem,
    StateHistory, StateId, StoreError, StoredNodes, Verified,
};
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

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

/// The options of the database below a store in `home`.
fn options(home: &Path) -> Options {
    let mut options = Options::with_columns(home, 2);
    options.columns[0].uniform = true;
    options.columns[0].preimage = true;
    options.columns[0].ref_counted = true;
    options.stats = false;
    options
}

/// The database below the closed store in `home`, as no other program should open it.
fn database(home: &Path) -> Db {
    Db::open(&options(home)).unwrap()
}

/// Changes the names of the base and of the next state in the record about all states.
fn set_history(home: &Path, base: u64, next: u64) {
    let database = database(home);
    let mut record = database.get(1, b"history").unwrap().unwrap();
    record[..8].copy_from_slice(&base.to_le_bytes());
    record[48..56].copy_from_slice(&next.to_le_bytes());
    let checksum = Blake2b256::hash(&record[..56]);
    record[56..].copy_from_slice(checksum.as_bytes());
    let set = (1, b"history".to_vec(), Some(record));
    database.commit([set]).unwrap();
}

/// There may be 2^32 names between the base and the next state. A look-up for each would take hours.
#[test]
fn a_damaged_number_of_states_is_no_work() {
    const FAR: u64 = (1 << 32) - 2;
    let home = stored::<ParityDbStore>();
    let damage = || match ParityDbStore::open(home.path()).unwrap_err() {
        OpenError::Damaged {
            expected, found, ..
        } => (expected, found),
        error => panic!("{error:?}"),
    };
    let mut store = ParityDbStore::open(home.path()).unwrap();
    let base = store.states().base().id;
    let update = step(&store, "second", vec![]);
    let one = store.keep(base, &update).unwrap();
    let states: Vec<_> = store.states().iter().copied().collect();
    drop(store);
    set_history(home.path(), base.number(), FAR);
    let most = one.number() + (1 << 27);
    let expected = format!("the state after state {one} to have a number up to {most}");
    assert_eq!(damage(), (expected, FAR.to_string()));
    // As after many discarded blocks, which leave nothing behind.
    let next = 3 << 16;
    set_history(home.path(), base.number(), next);
    let mut store = ParityDbStore::open(home.path()).unwrap();
    assert!(store.states().iter().eq(&states));
    let update = step(&store, "third", vec![]);
    assert_eq!(store.keep(one, &update).unwrap().number(), next);
    store.prune(one).unwrap();
    drop(store);
    let store = ParityDbStore::open(home.path()).unwrap();
    assert_eq!(store.root(), root("third"));
    drop(store);
    // The only state after the base is on another one.
    set_history(home.path(), base.number(), FAR);
    let expected = format!("a state on the base, which is state {base}, or on a descendant of it");
    assert_eq!(damage(), (expected, "1 on other states".to_owned()));
    set_history(home.path(), one.number(), next + 1);
    let store = ParityDbStore::open(home.path()).unwrap();
    assert_eq!(store.root(), root("third"));
}

#[test]
fn a_state_that_lost_its_record_is_named() {
    let home = tempfile::tempdir().unwrap();
    let mut store = ParityDbStore::create(home.path()).unwrap();
    let base = store.states().base().id;
    let update = step(&store, "first", vec![]);
    let kept = store.keep(base, &update).unwrap();
    drop(store);
    drop(ParityDbStore::open(home.path()).unwrap());
    let database = database(home.path());
    let key = [b"state".as_slice(), &kept.number().to_be_bytes()].concat();
    assert!(database.get(1, &key).unwrap().is_some());
    database.commit([(1, key, None::<Vec<u8>>)]).unwrap();
    drop(database);
    let error = ParityDbStore::open(home.path()).unwrap_err();
    let OpenError::Damaged {
        expected, found, ..
    } = error
    else {
        panic!("{error:?}");
    };
    assert_eq!(expected, format!("the record `state {kept}`"));
    assert_eq!(found, "none");
}

/// parity-db is closed and opened again before all nodes are listed. Nobody gets the store in between.
#[test]
fn a_store_stays_locked_while_its_nodes_are_listed() {
    let home = stored::<ParityDbStore>();
    let mut store = ParityDbStore::open(home.path()).unwrap();
    let (tried, over) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        let others = || {
            let (mut tries, mut taken) = (0, false);
            while !taken && !over.load(Relaxed) {
                taken = !matches!(
                    ParityDbStore::open(home.path()),
                    Err(OpenError::InUse { .. })
                );
                tries += 1;
                tried.store(true, Relaxed);
            }
            (tries, taken)
        };
        let others = scope.spawn(others);
        while !tried.load(Relaxed) {
            thread::yield_now();
        }
        let listed = (0..30).try_for_each(|_| store.each_node(&mut |_| ControlFlow::Continue(())));
        over.store(true, Relaxed);
        let (tries, taken) = others.join().unwrap();
        assert!(!taken, "taken after {tries} tries");
        listed.unwrap();
    });
    assert_eq!(read(&store, "first"), Some(encoded("first")));
    drop(store);
    drop(ParityDbStore::open(home.path()).unwrap());
}

/// A copy in which a node is missing must not take the place of an earlier one.
#[test]
fn a_damaged_node_is_not_copied() {
    // Each lies in a table of its own: a value in entries of 4 KiB, and a value that fits into an entry.
    let values = [vec![0xa1; 40_000], vec![0xa2; 3_000]];
    // The first one is added by a state that is not the base.
    for (value, in_base) in [(0, true), (0, false), (1, true)] {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("store");
        let mut store = ParityDbStore::create(&path).unwrap();
        let mut update = block(&store, store.root(), &random_changes(1, 30));
        let first = store.keep(StateId::from_number(0), &update).unwrap();
        let mut changes = random_changes(2, 30);
        for (key, value) in [b"long", b"less"].into_iter().zip(&values) {
            changes.top.insert(key.to_vec(), Some(value.clone()));
        }
        update = block(&store, update.root, &changes);
        let second = store.keep(first, &update).unwrap();
        store.prune(if in_base { second } else { first }).unwrap();
        let (whole, hash) = (&values[value], Blake2b256::hash(&values[value]));
        // A bit of the value; the head of its first entry.
        type Damage = fn(&mut [u8], usize);
        let damages: [Damage; 2] = [
            |file, at| file[at + 1_000] ^= 1,
            |file, at| file[at - at % 4096..][..4096].fill(0),
        ];
        let copy = home.path().join("copy");
        store.backup(&copy, &mut |_| ()).unwrap();
        fs::remove_dir_all(&copy).unwrap();
        drop(store);
        let damages = if value == 0 {
            &damages[..]
        } else {
            &damages[..1]
        };
        for damage in damages {
            let tables = snapshot(&path);
            let mut damaged = 0;
            for (file, content) in &tables {
                let mut content = content.clone().unwrap();
                let starts = content
                    .windows(500)
                    .position(|found| found == &whole[..500]);
                if let Some(at) = starts {
                    damage(&mut content, at);
                    fs::write(file, content).unwrap();
                    damaged += 1;
                }
            }
            assert_eq!(damaged, 1);
            let mut store = ParityDbStore::open(&path).unwrap();
            let error = store.backup(&copy, &mut |_| ()).unwrap_err();
            assert!(
                matches!(
                    &error,
                    BackupError::Store(StoreError::DamagedNode { state, hash: found, .. })
                        if (*state, *found) == (second, hash)
                ),
                "{error:?}"
            );
            drop(store);
            let opened = ParityDbStore::open(&copy).unwrap_err();
            assert_eq!(not_a_store(opened), FolderContent::Unfinished);
            for (file, content) in tables {
                fs::write(file, content.unwrap()).unwrap();
            }
        }
    }
}

/// Makes a store of format 1, as earlier versions did, with the nodes "first" and "a".
fn first_format(path: &Path) {
    let database = Db::open_or_create(&options(path)).unwrap();
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

/// A store with the states "first", "second" on it, which lacks the node "a", and "third" on that.
fn three_states() -> tempfile::TempDir {
    let home = stored::<ParityDbStore>();
    let mut store = ParityDbStore::open(home.path()).unwrap();
    for (name, lost) in [("second", "a"), ("third", "second")] {
        let update = step(&store, name, vec![change(lost, &[1], -1)]);
        store.keep(store.states().newest().id, &update).unwrap();
    }
    home
}

#[test]
fn a_store_of_format_2_becomes_one_of_format_3() {
    let home = three_states();
    let kept = ParityDbStore::open(home.path()).unwrap().states().clone();
    let marker = home.path().join("povmeter-store");
    let third = fs::read_to_string(&marker).unwrap();
    // Format 2 is the same without checksums.
    let numbered = |start: &str, id: u64| [start.as_bytes(), &id.to_be_bytes()].concat();
    let ids = kept.iter().skip(1).map(|state| state.id.number());
    let keys = ids.flat_map(|id| [numbered("state", id), numbered("diff", id)]);
    let keys: Vec<_> = keys.chain([b"history".to_vec()]).collect();
    assert_eq!(keys.len(), 5);
    let old = database(home.path());
    for key in &keys {
        let mut record = old.get(1, key).unwrap().unwrap();
        record.truncate(record.len() - 32);
        old.commit([(1, key, Some(record))]).unwrap();
    }
    drop(old);
    fs::write(&marker, third.replace("format 3", "format 2")).unwrap();

    let mut store = ParityDbStore::open(home.path()).unwrap();
    assert_eq!(fs::read_to_string(&marker).unwrap(), third);
    assert_eq!(*store.states(), kept);
    assert!(matches!(
        ParityDbStore::open(home.path()),
        Err(OpenError::InUse { .. })
    ));
    let update = step(&store, "fourth", vec![]);
    let fourth = store.keep(kept.newest().id, &update).unwrap();
    store.prune(kept.newest().id).unwrap();
    drop(store);
    let store = ParityDbStore::open(home.path()).unwrap();
    // Whoever has noted the number of a state finds it again.
    let noted = StateId::from_number(fourth.number());
    assert_eq!(store.states().get(noted).unwrap().root, root("fourth"));
    let held = ["first", "second", "third", "fourth", "a"].map(|name| read(&store, name).is_some());
    assert_eq!(held, [true, false, true, true, false]);
}

/// A journal whose counts have changed on the disk would remove nodes in use.
#[test]
fn nothing_is_removed_by_a_damaged_journal() {
    let [home, copies] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let mut store = ParityDbStore::create(home.path()).unwrap();
    for seed in 1..=3 {
        let parent = *store.states().newest();
        let update = block(&store, parent.root, &random_changes(seed, 10));
        store.keep(parent.id, &update).unwrap();
    }
    let kept = store.states().clone();
    let [first, second, third] = [1, 2, 3].map(StateId::from_number);
    assert!(verify(&mut store, &mut |_| ()).unwrap().is_clean());
    drop(store);
    let key = [&b"diff"[..], &first.number().to_be_bytes()].concat();
    let whole = database(home.path()).get(1, &key).unwrap().unwrap();
    let mut damaged = whole.clone();
    // The number of references that the first node gains: after the count of gains, and its hash.
    damaged[1 + 32] += 1;
    for damaged in [Some(damaged), None] {
        let bytes = damaged.as_ref().map_or(0, Vec::len);
        let raw = database(home.path());
        raw.commit([(1, key.clone(), damaged)]).unwrap();
        drop(raw);
        let mut store = ParityDbStore::open(home.path()).unwrap();
        let refused = [store.prune(first), store.prune(third), store.discard(first)];
        let copied = store.backup(copies.path().join("copy"), &mut |_| ());
        let copied = copied.map_err(|error| match error {
            BackupError::Store(error) => error,
            other => panic!("{other:?}"),
        });
        for refused in refused
            .map(|refused| refused.map(drop))
            .into_iter()
            .chain([copied])
        {
            let error = refused.unwrap_err();
            assert!(
                matches!(&error, StoreError::DamagedRecord { key, bytes: found } if *key == "diff 1" && *found == bytes),
                "{error:?}"
            );
        }
        assert_eq!(*store.states(), kept);
        let report = verify(&mut store, &mut |_| ()).unwrap();
        assert!(
            matches!(report.problems[..], [Problem::DamagedJournal { state, found }] if state == first && found == bytes),
            "{:?}",
            report.problems
        );
    }
    let raw = database(home.path());
    raw.commit([(1, key, Some(whole))]).unwrap();
    drop(raw);
    let mut store = ParityDbStore::open(home.path()).unwrap();
    store.prune(second).unwrap();
    assert!(verify(&mut store, &mut |_| ()).unwrap().is_clean());
}

#[test]
fn a_store_of_format_1_becomes_one_of_format_3() {
    let home = tempfile::tempdir().unwrap();
    first_format(home.path());
    let mut store = ParityDbStore::open(home.path()).unwrap();
    let marker = || fs::read_to_string(home.path().join("povmeter-store")).unwrap();
    let third = "povmeter node store, format 3\nengine parity-db\nstate complete\n";
    assert_eq!(marker(), third);
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

/// The record of format 1 stays in a converted store, and must not take the place of one that was lost.
#[test]
fn a_converted_store_without_its_states_is_damaged() {
    let home = tempfile::tempdir().unwrap();
    first_format(home.path());
    drop(ParityDbStore::open(home.path()).unwrap());
    let raw = database(home.path());
    raw.commit([(1, b"history", None)]).unwrap();
    drop(raw);
    let (opened, _) = refused::<ParityDbStore>(home.path());
    assert!(matches!(opened, OpenError::Damaged { .. }), "{opened:?}");
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

/// The numbers in the header of a table: the last freed entry, and the number of all entries.
fn header(table: &[u8]) -> [u64; 2] {
    [0, 8].map(|at| u64::from_le_bytes(table[at..at + 8].try_into().unwrap()))
}

#[test]
fn a_damaged_header_of_a_table_is_refused() {
    let home = stored::<ParityDbStore>();
    let mut store = ParityDbStore::open(home.path()).unwrap();
    for (name, lost) in [("second", "a"), ("third", "second")] {
        let update = step(&store, name, vec![change(lost, &[1], -1)]);
        store.commit(&update).unwrap();
    }
    drop(store);
    let (mut tables, mut freed) = (0, 0);
    for (path, content) in snapshot(home.path()) {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if !name.starts_with("table_") {
            continue;
        }
        let content = content.unwrap();
        let [last_freed, entries] = header(&content);
        tables += 1;
        freed += u64::from(last_freed > 0);
        // Entries have 32 bytes or more.
        let beyond = content.len() as u64 / 32 + 1;
        for damaged in [
            [entries, entries],
            [u64::MAX, entries],
            [u64::MAX - 1, u64::MAX],
            [last_freed, u64::MAX],
            [last_freed, beyond],
            [beyond - 1, beyond],
            // The file ends before this entry, but not in the memory that the database reserves for it.
            [1 << 10, 1 << 20],
        ] {
            let mut table = content.clone();
            table[..8].copy_from_slice(&damaged[0].to_le_bytes());
            table[8..16].copy_from_slice(&damaged[1].to_le_bytes());
            fs::write(&path, table).unwrap();
            let (opened, _) = refused::<ParityDbStore>(home.path());
            assert!(matches!(opened, OpenError::Damaged { .. }), "{opened:?}");
            assert!(opened.to_string().contains(&name), "{damaged:?}: {opened}");
        }
        fs::write(&path, content).unwrap();
    }
    assert!(tables > 1 && freed > 0, "{tables}, {freed}");
    let mut store = ParityDbStore::open(home.path()).unwrap();
    assert_eq!(store.root(), root("third"));
    store.commit(&step(&store, "fourth", vec![])).unwrap();
}

/// An open store whose database panics in both commits that are in its queue: it finds the records of their states
/// in its index, but they are in no table.
fn panicking(home: &Path) -> ParityDbStore {
    let keep_two = |store: &mut ParityDbStore| {
        for name in ["second", "third"] {
            let newest = store.states().newest().id;
            store.keep(newest, &step(store, name, vec![])).unwrap();
        }
    };
    let mut store = ParityDbStore::create(home).unwrap();
    store.commit(&step(&store, "first", vec![])).unwrap();
    drop(store);
    let before = snapshot(home);
    let mut store = ParityDbStore::open(home).unwrap();
    keep_two(&mut store);
    drop(store);
    let is_index = |path: &Path| path.file_name().unwrap().as_encoded_bytes() == b"index_01_16";
    for path in snapshot(home).into_keys().filter(|path| !is_index(path)) {
        match &before.get(&path) {
            Some(content) => fs::write(path, content.as_ref().unwrap()).unwrap(),
            None => fs::remove_file(path).unwrap(),
        }
    }
    let mut store = ParityDbStore::open(home).unwrap();
    keep_two(&mut store);
    store
}

#[test]
fn a_database_that_panics_while_it_closes_is_an_error() {
    type Call = fn(&mut ParityDbStore, &Path) -> Result<(), String>;
    let calls: [Call; 3] = [
        |store, _| verify(store, &mut |_| ()).map(drop).map_err(text),
        |store, _| stat(store, &mut |_| ()).map(drop).map_err(text),
        |store, to| store.backup(to, &mut |_| ()).map_err(text),
    ];
    for call in calls {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("store");
        let mut store = panicking(&path);
        let error = call(&mut store, &home.path().join("copy")).unwrap_err();
        assert!(error.contains("it panicked: "), "{error}");
        // The store stays closed, because it says that it has commits that are lost.
        let (newest, update) = (store.states().newest().id, step(&store, "fourth", vec![]));
        let error = store.keep(newest, &update).unwrap_err();
        assert!(error.to_string().contains("it was closed"), "{error}");
        call(&mut store, &home.path().join("copy")).unwrap_err();
        drop(store);
        assert_eq!(ParityDbStore::open(&path).unwrap().root(), root("first"));
    }
}

#[test]
fn a_database_that_panics_while_it_is_dropped_does_not_unwind() {
    let home = tempfile::tempdir().unwrap();
    drop(panicking(home.path()));
    let store = ParityDbStore::open(home.path()).unwrap();
    assert_eq!(store.root(), root("first"));
}

fn text(error: impl std::error::Error) -> String {
    error.to_string()
}
