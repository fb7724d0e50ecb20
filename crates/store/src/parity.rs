//! A node store on disk, on parity-db.

use crate::backup::{copy, BackupError};
use crate::engine::{self, first_write, read_states, Batch, Engine, Held};
use crate::folder::{
    begin, check_space, inspect, is_free, list_files, not_a_store, occupied, upgrade, write_list,
    Found, FORMAT,
};
use crate::history::{KeptState, KeptStates, StateHistory, StateId};
use crate::journal::StateDiff;
use crate::net::{NetChange, NULL_NODE};
use crate::open_error::{FolderContent, OpenError};
use crate::panic::panic_text;
use crate::parity_files::{options, Parity, NODES, STATE};
use crate::progress::Progress;
use crate::stored::{CountedNode, StoredNodes};
use crate::{NodeStore, StoreError};
use bytes::Bytes;
use parity_db::{Db, Operation};
use povmeter_delta_root::{
    Blake2b256, NodeHash, NodePrefix, NodeSource, Root, RootUpdate, SourceError,
};
use std::fmt;
use std::ops::ControlFlow;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::{Path, PathBuf};

/// A store that keeps nodes on disk in a parity-db, keyed by hash. The database counts references.
///
/// A commit returns as soon as the database has queued it; its nodes can be read at once. Dropping
/// the store waits until everything is on disk. After a crash the store opens at the last commit
/// that reached the disk, kept states and nodes together; later commits are lost.
///
/// parity-db does not tell the count of a node. A commit that removes an absent node is refused, unless
/// an earlier commit that removed the node is still in the queue. A commit that removes more references
/// than a node has is not detected; [`verify`](crate::verify) detects it.
///
/// parity-db panics on some damage. Such a panic becomes an error with its message.
pub struct ParityDbStore {
    /// `None` only if opening it again failed.
    database: Option<Db>,
    path: PathBuf,
    kept: KeptStates,
    /// Names of the files when their list was last written.
    listed: Vec<String>,
}

/// Key of the root in the state column, in format 1.
const ROOT_KEY: &[u8] = b"root";

type Change = (u8, Operation<Vec<u8>, Vec<u8>>);

impl ParityDbStore {
    /// Opens the store in the folder `path`, with the states that it kept. A store of format 1 becomes
    /// one of format 2, which earlier versions refuse.
    ///
    /// # Errors
    /// If the path does not hold a store of these formats, the store is damaged or in use, the folder
    /// can not be written, or the file system failed.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        let path = path.as_ref();
        match inspect::<Parity>(path)? {
            Ok(found) => Self::open_inspected(path, found),
            Err(found) => Err(not_a_store(path, found)),
        }
    }

    /// Makes a store at the state without entries in the folder `path`, which is created if it does
    /// not exist. What an interrupted attempt left is removed first.
    ///
    /// # Errors
    /// If the path holds anything but an empty folder, the disk is nearly full, or the file system
    /// failed. If it failed midway, the next attempt removes what is there.
    pub fn create(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        let path = path.as_ref();
        match inspect::<Parity>(path)? {
            Ok(_) => Err(occupied(path, FolderContent::Store)),
            Err(found) if is_free(&found) => Self::create_inspected(path, |_| Ok(())),
            Err(found) => Err(occupied(path, found)),
        }
    }

    /// Opens the store in the folder `path`, or makes one if the path is absent, an empty folder, or a
    /// store whose making was interrupted.
    ///
    /// # Errors
    /// Those of [`ParityDbStore::open`] and [`ParityDbStore::create`].
    pub fn open_or_create(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        let path = path.as_ref();
        match inspect::<Parity>(path)? {
            Ok(found) => Self::open_inspected(path, found),
            Err(found) if is_free(&found) => Self::create_inspected(path, |_| Ok(())),
            Err(found) => Err(not_a_store(path, found)),
        }
    }

    /// Folder of the store.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Copies the store, with all kept states, into the folder `path`, which must be absent, empty, or
    /// left by an interrupted copy. Calls `progress` with the nodes copied so far.
    ///
    /// # Errors
    /// [`BackupError`]. The store is unchanged, and a copy that failed does not count as a store.
    pub fn backup(
        &mut self,
        path: impl AsRef<Path>,
        progress: Progress<'_>,
    ) -> Result<(), BackupError> {
        let path = path.as_ref();
        match inspect::<Parity>(path).map_err(BackupError::Open)? {
            Err(found) if is_free(&found) => {}
            found => {
                let found = found.err().unwrap_or(FolderContent::Store);
                return Err(BackupError::Open(occupied(path, found)));
            }
        }
        let mut failed = Ok(());
        let made = Self::create_inspected(path, |into| {
            failed = copy(self, into, progress);
            // Any error keeps the folder from being marked as complete.
            match failed {
                Ok(()) => Ok(()),
                Err(_) => Err(OpenError::database(path, "the copy is not complete")),
            }
        });
        failed.map_err(BackupError::Store)?;
        made.map(drop).map_err(BackupError::Open)
    }

    fn create_inspected(
        path: &Path,
        fill: impl FnOnce(&mut Self) -> Result<(), OpenError>,
    ) -> Result<Self, OpenError> {
        let making = begin::<Parity>(path)?;
        let failed = |error| OpenError::database(path, error);
        let database = guarded(|| Db::open_or_create(&options(path)));
        let database = database.map_err(|failure| failure.opening(path))?;
        let (batch, kept) = first_write();
        let mut store = Self {
            database: Some(database),
            path: path.to_owned(),
            kept: kept.clone(),
            listed: Vec::new(),
        };
        store.write(batch, kept).map_err(failed)?;
        fill(&mut store)?;
        // Closing writes the queue to disk, so a complete folder always holds its states.
        drop(store);
        making.finish()?;
        Self::open_inspected(path, Found { format: FORMAT })
    }

    fn open_inspected(path: &Path, found: Found) -> Result<Self, OpenError> {
        let database = guarded(|| Db::open(&options(path)));
        let database = database.map_err(|failure| failure.opening(path))?;
        let record = |key: &[u8]| guarded(|| database.get(STATE, key));
        let states =
            read_states(|key| record(key).map_err(|failure| failed("read a record", failure)));
        let states = states.map_err(|error| OpenError::database(path, error))?;
        let kept = match states {
            Some(kept) => kept,
            None => first_format(
                path,
                record(ROOT_KEY).map_err(|failure| failure.opening(path))?,
            )?,
        };
        let mut store = Self {
            database: Some(database),
            path: path.to_owned(),
            kept,
            listed: Vec::new(),
        };
        if found.format < FORMAT {
            upgrade::<Parity>(path)?;
        }
        store.list_files();
        Ok(store)
    }

    fn database(&self) -> Result<&Db, Failure> {
        self.database.as_ref().ok_or(Failure::Closed)
    }

    /// Waits until all commits are in the tables, by closing the database and opening it again.
    fn settle(&mut self) -> Result<(), Failure> {
        drop(self.database.take());
        self.database = Some(guarded(|| Db::open(&options(&self.path)))?);
        Ok(())
    }

    /// Writes the list of files if there are new ones. It only helps to find out what is missing when
    /// the store is opened the next time, so an error is none of the caller's.
    fn list_files(&mut self) {
        let Ok(files) = list_files::<Parity>(&self.path) else {
            return;
        };
        let is_data = |name: &str| name.starts_with("table_") || name.starts_with("index_");
        let data = files.iter().filter(|(name, _)| is_data(name));
        let names: Vec<_> = data.map(|(name, _)| name.clone()).collect();
        if names != self.listed && write_list(&self.path, &files).is_ok() {
            self.listed = names;
        }
    }
}

impl Drop for ParityDbStore {
    fn drop(&mut self) {
        drop(self.database.take());
        self.listed.clear();
        self.list_files();
    }
}

/// The one state of a store of format 1, whose record is `root`.
fn first_format(path: &Path, root: Option<Vec<u8>>) -> Result<KeptStates, OpenError> {
    let damaged = |found: String| OpenError::damaged(path, "a record of the kept states", found);
    let root = root.ok_or_else(|| damaged("none".into()))?;
    let root = <[u8; 32]>::try_from(root)
        .map_err(|found| damaged(format!("a root of {} bytes", found.len())))?;
    Ok(KeptStates::only(0, 0, root.into()))
}

/// The database operations for `change`, one for each reference.
fn operations(change: NetChange) -> Box<dyn Iterator<Item = Change>> {
    match change {
        NetChange::Gain {
            hash,
            references,
            encoded,
        } => {
            let key = hash.as_bytes().to_vec();
            // Setting a node adds one reference, even if the node is already there.
            let set = (NODES, Operation::Set(key.clone(), encoded.into()));
            let more = (1..references).map(move |_| (NODES, Operation::Reference(key.clone())));
            Box::new(std::iter::once(set).chain(more))
        }
        NetChange::Loss { hash, references } => {
            let key = hash.as_bytes().to_vec();
            Box::new((0..references).map(move |_| (NODES, Operation::Dereference(key.clone()))))
        }
    }
}

/// The database operation for a record.
fn record_operation((key, value): (Vec<u8>, Option<Vec<u8>>)) -> Change {
    let operation = match value {
        Some(value) => Operation::Set(key, value),
        None => Operation::Dereference(key),
    };
    (STATE, operation)
}

impl fmt::Debug for ParityDbStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ParityDbStore")
            .field("path", &self.path)
            .field("root", &self.root())
            .field("kept", &self.kept.len())
            .finish()
    }
}

impl NodeSource for ParityDbStore {
    fn node(&self, hash: &NodeHash, _: NodePrefix<'_>) -> Result<Option<Bytes>, SourceError> {
        if *hash == Root::EMPTY.node_hash() {
            return Ok(Some(Bytes::from_static(NULL_NODE)));
        }
        let database = self.database().map_err(SourceError::new)?;
        let encoded = guarded(|| database.get(NODES, hash.as_ref())).map_err(SourceError::new)?;
        Ok(encoded.map(Bytes::from))
    }
}

impl Engine for ParityDbStore {
    const REFERENCE_LIMIT: u64 = u32::MAX as u64;

    fn kept(&self) -> &KeptStates {
        &self.kept
    }

    fn held(&self, hash: &NodeHash) -> Result<Held, StoreError> {
        let size = self
            .database()
            .and_then(|database| guarded(|| database.get_size(NODES, hash.as_ref())));
        match size.map_err(|failure| failed("look up a node", failure))? {
            Some(_) => Ok(Held::Some),
            None => Ok(Held::Count(0)),
        }
    }

    fn record(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let record = self
            .database()
            .and_then(|database| guarded(|| database.get(STATE, key)));
        record.map_err(|failure| failed("read a record", failure))
    }

    fn write(&mut self, batch: Batch, kept: KeptStates) -> Result<(), StoreError> {
        let bytes: usize = batch.nodes.iter().map(NetChange::bytes).sum();
        let records = batch.records.iter().filter_map(|(_, value)| value.as_ref());
        let bytes = bytes + records.map(Vec::len).sum::<usize>();
        check_space(&self.path, bytes)?;
        let nodes = batch.nodes.into_iter().flat_map(operations);
        // The records are in the same commit as the nodes, because the database applies a commit whole.
        let operations = nodes.chain(batch.records.into_iter().map(record_operation));
        let database = self.database();
        database
            .and_then(|database| guarded(|| database.commit_changes(operations)))
            .map_err(|failure| failed("queue the commit", failure))?;
        self.kept = kept;
        self.list_files();
        Ok(())
    }
}

impl NodeStore for ParityDbStore {
    fn root(&self) -> Root {
        self.kept.newest().root
    }

    fn commit(&mut self, update: &RootUpdate) -> Result<(), StoreError> {
        engine::commit(self, update)
    }
}

impl StateHistory for ParityDbStore {
    fn states(&self) -> &KeptStates {
        &self.kept
    }

    fn keep(&mut self, parent: StateId, update: &RootUpdate) -> Result<StateId, StoreError> {
        engine::keep(self, parent, update)
    }

    fn prune(&mut self, base: StateId) -> Result<Vec<KeptState>, StoreError> {
        engine::prune(self, base)
    }

    fn discard(&mut self, state: StateId) -> Result<Vec<KeptState>, StoreError> {
        engine::discard(self, state)
    }
}

impl StoredNodes for ParityDbStore {
    fn each_node(
        &mut self,
        visit: &mut dyn FnMut(CountedNode<'_>) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        let task = "list all nodes";
        self.settle().map_err(|failure| failed(task, failure))?;
        let database = self.database().map_err(|failure| failed(task, failure))?;
        let listed = guarded(|| {
            database.iter_column_while(NODES, |entry| {
                let node = CountedNode {
                    hash: Blake2b256::hash(&entry.value),
                    references: u64::from(entry.rc),
                    encoded: &entry.value,
                };
                visit(node).is_continue()
            })
        });
        listed.map_err(|failure| failed(task, failure))
    }

    fn diff(&self, state: StateId) -> Result<StateDiff, StoreError> {
        engine::diff(self, state)
    }
}

/// Why a call of the database failed.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Error(#[from] parity_db::Error),
    #[error("it panicked: {0}")]
    Panic(String),
    #[error("it could not be opened again after it was closed")]
    Closed,
}

impl Failure {
    fn opening(self, path: &Path) -> OpenError {
        match self {
            Self::Error(parity_db::Error::Locked(_)) => OpenError::InUse {
                path: path.to_owned(),
            },
            Self::Error(parity_db::Error::Io(source)) => OpenError::io(path)(source),
            failure => OpenError::database(path, failure),
        }
    }
}

fn failed(task: &'static str, failure: Failure) -> StoreError {
    StoreError::Database {
        task,
        source: Box::new(failure),
    }
}

/// Calls the database. It panics on some damage; nothing of ours is left half-done then, because a call
/// changes only the database.
fn guarded<R>(call: impl FnOnce() -> parity_db::Result<R>) -> Result<R, Failure> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(done) => Ok(done?),
        Err(panic) => Err(Failure::Panic(panic_text(panic.as_ref()))),
    }
}
