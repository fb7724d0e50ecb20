//! A node store on disk, on RocksDB.
//!
//! ```text
//! key: hash of a node, 32 bytes    count of its references, 4 bytes, little-endian; the encoded node
//! key of a record, shorter         the record
//! ```
//! The count lies with its node, because nearly all nodes have one reference: they are written once and
//! removed once, so a separate count would be a second key for each node. Besides, a node can not lose its
//! count. A write reads the counts that it changes and adds them up. There is one writer, and a batch has
//! each hash once, so the sums are exact. A merge operator would save the read, but it would not return
//! the count, and could not remove a node whose count falls to zero.

use crate::disk::{disk_store, DiskStore};
use crate::engine::{self, Batch, Engine, Held};
use crate::file_list::{length_text, rewrite_list, FileList};
use crate::folder::{check_space, hold, Found};
use crate::history::{KeptStates, StateId};
use crate::journal::{StateDiff, RECORD_STARTS};
use crate::making::upgrade;
use crate::memory::COPIED_BYTES;
use crate::net::{NetChange, NULL_NODE};
use crate::open_error::OpenError;
use crate::read_states::{read_states, Records};
use crate::rocks_files::{options, Rocks, FAMILY, TABLE};
use crate::stored::{CountedNode, StoredNodes};
use crate::StoreError;
use bytes::Bytes;
use povmeter_delta_root::{NodeBatch, NodeHash, NodePrefix, NodeSource, Root, SourceError};
use rocksdb::properties::CURRENT_SUPER_VERSION_NUMBER;
use rocksdb::{ColumnFamilyDescriptor, DBPinnableSlice, ErrorKind, ReadOptions, WriteBatch, DB};
use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// A store that keeps nodes on disk in a RocksDB, keyed by hash, with exact reference counts.
///
/// A commit returns when the operating system has its log, so the commit survives any end of the process.
/// Dropping the store waits until everything is on disk. If the system itself crashes, the store opens at
/// the last commit that reached the disk, kept states and nodes together; later commits are lost.
///
/// RocksDB verifies a checksum of everything that it reads from a table, so most damage is an error.
///
/// Opening a store of format 2 converts it to format 3, which earlier versions refuse.
pub struct RocksDbStore {
    database: DB,
    path: PathBuf,
    kept: KeptStates,
    /// Dropped after the database.
    files: FileList<Rocks>,
    /// The database's number for its set of files when they were last listed.
    version: Option<u64>,
    /// The marker, locked as long as the store is open; `None` while the store is being made. Dropped
    /// last.
    _held: Option<File>,
}

impl RocksDbStore {
    /// The store on `database` in the folder `path`.
    fn of(database: DB, path: &Path, kept: KeptStates, held: Option<File>) -> Self {
        Self {
            database,
            path: path.to_owned(),
            kept,
            files: FileList::new(path),
            version: None,
            _held: held,
        }
    }

    /// Writes everything to the disk: to a table, because opening is faster without a log, or else to the log.
    fn flush(&self) -> Result<(), rocksdb::Error> {
        let flushed = self.database.flush();
        flushed.or_else(|_| self.database.flush_wal(true))
    }

    /// Lists the files if they have changed. Asks the database first, because listing a folder of many
    /// files takes long.
    fn list_files(&mut self) {
        let version = self
            .database
            .property_int_value(CURRENT_SUPER_VERSION_NUMBER);
        let version = version.ok().flatten();
        if version.is_none() || version != self.version {
            // A table that the manifest does not name yet may be written right now, and shorter after a crash of the
            // system.
            let Ok(tables) = self.database.live_files() else {
                return;
            };
            let named: HashSet<&str> = tables.iter().map(|table| file_name(&table.name)).collect();
            let files = &mut self.files;
            files.update_those(|name| !name.ends_with(TABLE) || named.contains(name));
            self.version = version;
        }
    }

    /// Adds the operation for `change` to `batch`.
    fn change(&self, change: &NetChange, batch: &mut WriteBatch) -> Result<(), StoreError> {
        let hash = change.hash();
        let found = self.value(hash)?;
        let (held, stored) = match &found {
            Some(value) => parts(hash, value).map(|(held, node)| (held, Some(node)))?,
            None => (0, None),
        };
        let count = change.count_after(held.into(), Self::REFERENCE_LIMIT)?;
        // The count is within the limit.
        let count = u32::try_from(count).map_err(|_| damaged(hash, 0))?;
        let encoded = match change {
            NetChange::Gain { encoded, .. } => stored.unwrap_or(encoded),
            NetChange::Loss { .. } => stored.unwrap_or_default(),
        };
        if count == 0 {
            batch.delete(hash.as_bytes());
        } else {
            batch.put(hash.as_bytes(), [&count.to_le_bytes(), encoded].concat());
        }
        Ok(())
    }

    /// The value of the node `hash`.
    fn value(&self, hash: &NodeHash) -> Result<Option<DBPinnableSlice<'_>>, StoreError> {
        let found = self.database.get_pinned(hash.as_bytes());
        found.map_err(failed("look up a node"))
    }
}

impl DiskStore for RocksDbStore {
    type Files = Rocks;

    fn make(path: &Path, kept: KeptStates) -> Result<Self, OpenError> {
        Ok(Self::of(open_database(path, true)?, path, kept, None))
    }

    fn write_out(&mut self) -> Result<(), OpenError> {
        let flushed = self.flush();
        flushed.map_err(|error| OpenError::database(&self.path, error))?;
        self.list_files();
        Ok(())
    }

    fn hold(&mut self, marker: File) {
        self._held = Some(marker);
    }

    fn open_found(path: &Path, found: Found) -> Result<Self, OpenError> {
        let held = hold(path)?;
        // Fails if the folder can not be written, which RocksDB would report only in a text.
        rewrite_list::<Rocks>(path)?;
        let database = open_database(path, false)?;
        check_tables(path, &database)?;
        let kept = read_states(path, &database)?
            .ok_or_else(|| OpenError::damaged(path, "a record of the kept states", "none"))?;
        let held = upgrade::<Rocks>(path, found, held)?;
        let mut store = Self::of(database, path, kept, Some(held));
        store.list_files();
        Ok(store)
    }
}

impl Records for DB {
    fn record(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        record(self, key)
    }

    fn each_record(&self, visit: &mut dyn FnMut(&[u8])) -> Result<(), StoreError> {
        let mut entries = self.raw_iterator();
        for start in RECORD_STARTS {
            entries.seek(start);
            while let Some((key, value)) = entries.item().filter(|(key, _)| key.starts_with(start))
            {
                // The hash of a node may have the same start.
                if key.len() < size_of::<NodeHash>() {
                    visit(value);
                }
                entries.next();
            }
            entries.status().map_err(failed("list all records"))?;
        }
        Ok(())
    }
}

/// The name of a file that the database names with a slash.
fn file_name(name: &str) -> &str {
    name.trim_start_matches('/')
}

/// Checks that each table that the manifest names is whole, because RocksDB opens only a few tables at first.
fn check_tables(path: &Path, database: &DB) -> Result<(), OpenError> {
    let tables = database.live_files();
    for table in tables.map_err(|error| OpenError::database(path, error))? {
        let name = file_name(&table.name);
        let length = match fs::metadata(path.join(name)) {
            Ok(metadata) => Some(metadata.len()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(OpenError::io(&path.join(name))(error)),
        };
        if length != u64::try_from(table.size).ok() {
            let expected = format!("the file `{name}` of {} bytes", table.size);
            return Err(OpenError::damaged(path, expected, length_text(length)));
        }
    }
    Ok(())
}

disk_store!(RocksDbStore);

impl Drop for RocksDbStore {
    fn drop(&mut self) {
        // An error loses nothing as long as the system runs, because the log has all writes.
        let _ = self.flush();
    }
}

impl NodeSource for RocksDbStore {
    fn node(&self, hash: &NodeHash, _: NodePrefix<'_>) -> Result<Option<Bytes>, SourceError> {
        if *hash == Root::EMPTY.node_hash() {
            return Ok(Some(Bytes::from_static(NULL_NODE)));
        }
        let Some(value) = self.value(hash).map_err(SourceError::new)? else {
            return Ok(None);
        };
        let (_, encoded) = parts(hash, &value).map_err(SourceError::new)?;
        Ok(Some(Bytes::copy_from_slice(encoded)))
    }

    fn nodes(&self, batch: &mut NodeBatch<'_>) {
        let null_node = Root::EMPTY.node_hash();
        let (mut asked, mut hashes) = (Vec::new(), Vec::new());
        for index in batch.open() {
            let hash = &batch.request(index).hash;
            if *hash == null_node {
                batch.answer_with_copy(index, NULL_NODE);
            } else {
                asked.push(index);
                hashes.push(hash);
            }
        }
        if asked.is_empty() {
            return;
        }
        let keys = hashes.iter().map(|hash| hash.as_bytes());
        let values = match self.database.cf_handle(FAMILY) {
            Some(family) => self.database.batched_multi_get_cf(family, keys, false),
            None => keys.map(|key| self.database.get_pinned(key)).collect(),
        };
        for ((index, hash), value) in asked.into_iter().zip(hashes).zip(values) {
            let value = match value {
                Ok(Some(value)) => value,
                // The node is absent, so the request stays open.
                Ok(None) => continue,
                Err(error) => {
                    let error = failed("look up nodes")(error);
                    batch.answer(index, Err(SourceError::new(error)));
                    continue;
                }
            };
            match parts(hash, &value) {
                Ok((_, encoded)) if encoded.len() <= COPIED_BYTES => {
                    batch.answer_with_copy(index, encoded);
                }
                Ok((_, encoded)) => {
                    batch.answer(index, Ok(Some(Bytes::copy_from_slice(encoded))));
                }
                Err(error) => batch.answer(index, Err(SourceError::new(error))),
            }
        }
    }
}

impl Engine for RocksDbStore {
    const REFERENCE_LIMIT: u64 = u32::MAX as u64;

    fn kept(&self) -> &KeptStates {
        &self.kept
    }

    fn kept_mut(&mut self) -> &mut KeptStates {
        &mut self.kept
    }

    fn held(&self, hash: &NodeHash) -> Result<Held, StoreError> {
        let count = match self.value(hash)? {
            Some(value) => parts(hash, &value)?.0,
            None => 0,
        };
        Ok(Held::Count(count.into()))
    }

    fn record(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        record(&self.database, key)
    }

    fn write(&mut self, batch: Batch) -> Result<(), StoreError> {
        check_space(&self.path, batch.bytes())?;
        // One batch, because the database applies a batch whole.
        let mut operations = WriteBatch::default();
        for change in &batch.nodes {
            self.change(change, &mut operations)?;
        }
        for (key, value) in &batch.records {
            match value {
                Some(value) => operations.put(key, value),
                None => operations.delete(key),
            }
        }
        let written = self.database.write(operations);
        written.map_err(failed("write the commit"))?;
        self.list_files();
        Ok(())
    }
}

impl StoredNodes for RocksDbStore {
    fn each_node(
        &mut self,
        visit: &mut dyn FnMut(CountedNode<'_>) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        let mut options = ReadOptions::default();
        // The cache keeps the nodes that blocks read.
        options.fill_cache(false);
        let mut entries = self.database.raw_iterator_opt(options);
        entries.seek_to_first();
        while let Some((key, value)) = entries.item() {
            // Shorter keys are those of records.
            if let Ok(hash) = <[u8; 32]>::try_from(key) {
                let hash = NodeHash::from(hash);
                let (references, encoded) = parts(&hash, value)?;
                let node = CountedNode {
                    hash,
                    references: references.into(),
                    encoded,
                };
                if visit(node).is_break() {
                    return Ok(());
                }
            }
            entries.next();
        }
        entries.status().map_err(failed("list all nodes"))
    }

    fn diff(&self, state: StateId) -> Result<StateDiff, StoreError> {
        engine::diff(self, state)
    }
}

fn open_database(path: &Path, new: bool) -> Result<DB, OpenError> {
    let options = options(new);
    let family = ColumnFamilyDescriptor::new(FAMILY, options.clone());
    let opened = DB::open_cf_descriptors(&options, path, [family]);
    opened.map_err(|error| match error.kind() {
        // The text of the error names the file.
        ErrorKind::Corruption => {
            OpenError::damaged(path, "an undamaged RocksDB", error.to_string())
        }
        ErrorKind::IOError if is_locked(error.as_ref()) => OpenError::InUse {
            path: path.to_owned(),
        },
        _ => OpenError::database(path, error),
    })
}

/// Whether `error` says that a program holds the lock of the database. Another program than this one does not look
/// at the marker.
fn is_locked(error: &str) -> bool {
    let by_this_process = error.starts_with("IO error: lock hold by current process");
    let by_another = error.starts_with("IO error: While lock file")
        && error.ends_with("Resource temporarily unavailable");
    by_this_process || by_another
}

/// The record with the key `key`.
fn record(database: &DB, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
    database.get(key).map_err(failed("read a record"))
}

/// The count and the encoded node in the value of the node `hash`.
///
/// # Errors
/// [`StoreError::DamagedRecord`] if the count is cut off or zero, or there is no node.
fn parts<'a>(hash: &NodeHash, value: &'a [u8]) -> Result<(u32, &'a [u8]), StoreError> {
    let parts = value.split_first_chunk();
    let parts = parts.map(|(count, encoded)| (u32::from_le_bytes(*count), encoded));
    let parts = parts.filter(|(count, encoded)| *count > 0 && !encoded.is_empty());
    parts.ok_or_else(|| damaged(hash, value.len()))
}

/// The error for a value of `bytes` bytes that is not the entry of the node `hash`.
fn damaged(hash: &NodeHash, bytes: usize) -> StoreError {
    let key = format!("node {hash}");
    StoreError::DamagedRecord { key, bytes }
}

fn failed(task: &'static str) -> impl FnOnce(rocksdb::Error) -> StoreError {
    move |error| StoreError::Database {
        task,
        source: Box::new(error),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_database_that_another_program_has_open_is_in_use() {
        let home = tempfile::tempdir().unwrap();
        drop(RocksDbStore::create(home.path()).unwrap());
        let other = DB::open(&options(false), home.path()).unwrap();
        let error = RocksDbStore::open(home.path()).unwrap_err();
        assert!(matches!(error, OpenError::InUse { .. }), "{error:?}");
        drop(other);
        RocksDbStore::open(home.path()).unwrap();
        // As RocksDB says it of another process, and of a folder that has no locks.
        let start = "IO error: While lock file: /store/LOCK: ";
        assert!(is_locked(&format!(
            "{start}Resource temporarily unavailable"
        )));
        assert!(!is_locked(&format!("{start}No locks available")));
    }
}
