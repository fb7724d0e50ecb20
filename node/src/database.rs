//! The parity-db database of a node, with the columns of sc-client-db, and with errors that name the column.
//!
//! The settings of the columns are those of sc-client-db's own parity-db database, so that each opens what
//! the other wrote.

use crate::faults::{report, unwind, DatabaseFault};
use parity_db::{ColumnOptions, CompressionType, Db, Operation, Options};
use sc_client_db::{DbHash, PruningMode};
use sp_core::hexdisplay::HexDisplay;
use sp_database::{error::DatabaseError, Change, ColumnId, Database, Transaction};
use sp_io::hashing::blake2_256;
use std::{fs, path::Path};

/// The columns of sc-client-db; those without a name are unused.
const COLUMNS: [&str; 13] = [
    "meta",
    "state",
    "state_meta",
    "key_lookup",
    "header",
    "body",
    "justifications",
    "unused",
    "aux",
    "offchain",
    "unused",
    "transaction",
    "body_index",
];
const STATE: u8 = 1;
const STATE_META: u8 = 2;
const TRANSACTION: u8 = 11;
/// The columns whose values are compressed.
const COMPRESSED: [u8; 6] = [STATE, 4, 5, 6, TRANSACTION, 12];
/// The columns whose values are found by their hash, and counted.
const BY_HASH: [u8; 2] = [STATE, TRANSACTION];
/// The file that parity-db writes when it creates a database.
const METADATA: &str = "metadata";
/// The key under which the way of pruning is stored, from the first commit on.
const PRUNING_MODE: &[u8] = b"mode";
/// The bytes of a hash, at the end of the keys that have a prefix.
const HASH_LENGTH: usize = 32;

/// A database that reports its faults.
pub(crate) struct ParityDb {
    db: Db,
    /// Whether each node that is read is hashed.
    check_nodes: bool,
}

impl ParityDb {
    /// Opens the database in `folder`. Returns `None`, and writes nothing, if there is none. A database to which nothing
    /// was ever committed is none.
    ///
    /// # Errors
    /// Those of parity-db: a damaged or locked file, other columns than expected.
    pub(crate) fn open(folder: &Path, check_nodes: bool) -> parity_db::Result<Option<Self>> {
        if !folder.join(METADATA).is_file() {
            return Ok(None);
        }
        let db = Db::open(&options(folder))?;
        let db = Self { db, check_nodes };
        Ok(if db.is_new()? { None } else { Some(db) })
    }

    /// Opens the database in `folder`, or creates it.
    ///
    /// # Errors
    /// As [`Self::open`]. Also if there are other files of a database, but not the one that says how to read them.
    pub(crate) fn open_or_create(folder: &Path, check_nodes: bool) -> parity_db::Result<Self> {
        if !folder.join(METADATA).is_file() {
            for file in fs::read_dir(folder).map_err(parity_db::Error::Io)? {
                let name = file.map_err(parity_db::Error::Io)?.file_name();
                let name = name.to_string_lossy();
                if ["table_", "index_", "log"]
                    .iter()
                    .any(|kind| name.starts_with(kind))
                {
                    let found = format!("expected the file {METADATA}, found {name} without it");
                    return Err(parity_db::Error::Corruption(found));
                }
            }
        }
        let db = Db::open_or_create(&options(folder))?;
        Ok(Self { db, check_nodes })
    }

    /// Whether nothing was ever committed.
    ///
    /// # Errors
    /// Those of parity-db.
    pub(crate) fn is_new(&self) -> parity_db::Result<bool> {
        Ok(self.db.get(STATE_META, PRUNING_MODE)?.is_none())
    }
}

/// Returns the value that was read. Unwinds after an error.
fn answer<T>(column: u8, key: &[u8], result: parity_db::Result<T>) -> T {
    result.unwrap_or_else(|source| {
        unwind(DatabaseFault::Read {
            column: name(column),
            key: HexDisplay::from(&key).to_string(),
            source,
        })
    })
}

fn check(key: &[u8], node: &[u8]) {
    let found = blake2_256(node);
    if found != key {
        unwind(DatabaseFault::Node {
            key: HexDisplay::from(&key).to_string(),
            found: HexDisplay::from(&found).to_string(),
            length: node.len(),
        });
    }
}

fn options(folder: &Path) -> Options {
    let count = u8::try_from(COLUMNS.len()).expect("13 columns");
    let mut options = Options::with_columns(folder, count);
    for (index, column) in (0u8..).zip(&mut options.columns) {
        *column = ColumnOptions {
            compression: if COMPRESSED.contains(&index) {
                CompressionType::Lz4
            } else {
                CompressionType::NoCompression
            },
            ref_counted: BY_HASH.contains(&index),
            preimage: BY_HASH.contains(&index),
            uniform: BY_HASH.contains(&index),
            ..Default::default()
        };
    }
    options
}

fn name(column: u8) -> &'static str {
    COLUMNS
        .get(usize::from(column))
        .copied()
        .unwrap_or("unknown")
}

/// The database's number of a column.
fn number(column: ColumnId) -> u8 {
    u8::try_from(column).expect("sc-client-db has 13 columns")
}

/// A column, and an operation in it.
type ColumnOperation = (u8, Operation<Vec<u8>, Vec<u8>>);

/// Converts a change to an operation; `None` if it counts references in a column that keeps no counts.
fn operation(change: Change<DbHash>) -> Option<ColumnOperation> {
    let by_hash = |column: ColumnId| {
        let column = number(column);
        BY_HASH.contains(&column).then_some(column)
    };
    Some(match change {
        Change::Set(column, key, value) => (number(column), Operation::Set(key, value)),
        Change::Remove(column, key) => (number(column), Operation::Dereference(key)),
        Change::Store(column, hash, value) => {
            (by_hash(column)?, Operation::Set(hash.0.to_vec(), value))
        }
        Change::Reference(column, hash) => {
            (by_hash(column)?, Operation::Reference(hash.0.to_vec()))
        }
        Change::Release(column, hash) => {
            (by_hash(column)?, Operation::Dereference(hash.0.to_vec()))
        }
    })
}

impl Database<DbHash> for ParityDb {
    fn commit(&self, transaction: Transaction<DbHash>) -> Result<(), DatabaseError> {
        let operations: Option<Vec<_>> = transaction.0.into_iter().map(operation).collect();
        let refused = || {
            let message = "a count of references in a column that keeps none".to_owned();
            parity_db::Error::InvalidInput(message)
        };
        let committed = operations
            .ok_or_else(refused)
            .and_then(|operations| self.db.commit_changes(operations));
        committed.map_err(|error| {
            let told = DatabaseError(Box::new(DatabaseFault::Write(
                parity_db::Error::InvalidInput(error.to_string()),
            )));
            report(DatabaseFault::Write(error));
            told
        })
    }

    fn get(&self, column: ColumnId, key: &[u8]) -> Option<Vec<u8>> {
        let column = number(column);
        let value = answer(column, key, self.db.get(column, key));
        if self.check_nodes && column == STATE {
            if let Some(node) = &value {
                check(key, node);
            }
        }
        value
    }

    fn contains(&self, column: ColumnId, key: &[u8]) -> bool {
        self.value_size(column, key).is_some()
    }

    fn value_size(&self, column: ColumnId, key: &[u8]) -> Option<usize> {
        let column = number(column);
        answer(column, key, self.db.get_size(column, key)).map(|size| size as usize)
    }

    fn supports_ref_counting(&self) -> bool {
        true
    }

    fn sanitize_key(&self, key: &mut Vec<u8>) {
        let prefix = key.len().saturating_sub(HASH_LENGTH);
        key.drain(..prefix);
    }
}

/// How many states of finalized blocks a node keeps.
#[derive(Clone, Debug)]
pub(crate) struct StatePruning(pub(crate) PruningMode);

impl std::str::FromStr for StatePruning {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "archive" {
            return Ok(Self(PruningMode::ArchiveAll));
        }
        let count = text
            .parse()
            .map_err(|_| format!("expected `archive` or a number of blocks, found `{text}`"))?;
        Ok(Self(PruningMode::blocks_pruning(count)))
    }
}
