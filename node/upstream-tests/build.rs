//! Copies sc-client-db with its tests, once for each database.

use povmeter_upstream_sources::{copy, read, sources, write, write_root, Change, LeftOut};
use std::{env, error::Error, path::PathBuf};

const NEEDS_RUNTIME: &str = "it needs a test runtime that is not published";

const NO_ROCKSDB: &str =
    "RocksDB takes longer to compile than the node, and says nothing of the state machine";

/// Tests that are not run.
const LEFT_OUT: &[LeftOut] = &[
    LeftOut {
        file: "lib.rs",
        name: "test_leaves_with_complex_block_tree",
        why: NEEDS_RUNTIME,
    },
    LeftOut {
        file: "lib.rs",
        name: "test_children_with_complex_block_tree",
        why: NEEDS_RUNTIME,
    },
    LeftOut {
        file: "lib.rs",
        name: "test_blockchain_query_by_number_gets_canonical",
        why: NEEDS_RUNTIME,
    },
];

/// What is changed for both databases.
const CHANGES: &[Change] = &[
    Change {
        file: "lib.rs",
        old: "substrate_test_runtime_client::runtime::Block",
        new: "Block",
        why: "any block will do, and that one is not published",
    },
    Change {
        file: "lib.rs",
        old: "\t\t#[case::rocksdb(BackendKind::RocksDb)]\n",
        new: "",
        why: NO_ROCKSDB,
    },
    Change {
        file: "lib.rs",
        old: "any(feature = \"rocksdb\", test)",
        new: "feature = \"rocksdb\"",
        why: NO_ROCKSDB,
    },
    Change {
        file: "utils.rs",
        old: "any(feature = \"rocksdb\", test)",
        new: "feature = \"rocksdb\"",
        why: NO_ROCKSDB,
    },
    Change {
        file: "lib.rs",
        old: " kvdb_rocksdb::",
        new: " crate::kvdb_rocksdb::",
        why: NO_ROCKSDB,
    },
];

/// The change for parity-db.
const ON_DISK: Change = Change {
    file: "lib.rs",
    old: "\t\tlet db = kvdb_memorydb::create(crate::utils::NUM_COLUMNS);
\t\tlet db = sp_database::as_database(db);
\t\tSelf::",
    new: "\t\tlet folder = tempfile::tempdir().unwrap().keep();
\t\tlet full = crate::utils::DatabaseType::Full;
\t\tlet db = crate::parity_db::open::<DbHash>(&folder, full, true, false).unwrap();
\t\tSelf::",
    why: "it is the database that nodes use",
};

/// Replaces the database that is left out. No test case uses it.
const ROCKSDB: &str = "
mod kvdb_rocksdb {
    pub struct DatabaseConfig { pub create_if_missing: bool }
    impl DatabaseConfig {
        pub fn with_columns(_columns: u32) -> Self { Self { create_if_missing: false } }
    }
    pub struct Database;
    impl Database {
        pub fn open<P>(_config: &DatabaseConfig, _path: P) -> Result<kvdb_memorydb::InMemory, String> {
            Err(\"expected another database\".to_owned())
        }
    }
}
";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    let upstream = sources("sc-client-db", "0.55.0")?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    for (name, more) in [("memory", None), ("parity_db", Some(ON_DISK))] {
        let folder = out.join(name);
        let changes: Vec<Change> = CHANGES.iter().copied().chain(more).collect();
        copy(&upstream, &folder, &changes, LEFT_OUT)?;
        let root = out.join(format!("{name}.rs"));
        write_root(&folder, &root)?;
        write(&root, &(read(&root)? + ROCKSDB))?;
    }
    Ok(())
}
