//! A node store on disk, on parity-db.

use crate::disk::{disk_store, DiskStore};
use crate::engine::{self, read_states, Batch, Engine, Held};
use crate::file_list::FileList;
use crate::folder::{check_space, upgrade, Found, FORMAT};
use crate::history::{KeptStates, StateId};
use crate::journal::StateDiff;
use crate::net::{NetChange, NULL_NODE};
use crate::open_error::OpenError;
use crate::panic::panic_text;
use crate::parity_files::{options, Parity, NODES, STATE};
use crate::stored::{CountedNode, StoredNodes};
use crate::StoreError;
use bytes::Bytes;
use parity_db::{Db, Operation};
use povmeter_delta_root::{Blake2b256, NodeHash, NodePrefix, NodeSource, Root, SourceError};
use std::ops::ControlFlow;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::{Path, PathBuf};

/// A store that keeps nodes on disk in a parity-db, keyed by hash. The database counts references.
///
/// A commit returns as soon as the database has queued it; its nodes can be read at once. Dropping
/// the store waits until everything is on disk. After a crash the store opens at the last commit
/// that reached the disk, kept states and nodes together; later commits are lost.
///
/// parity-db does not return the count of a node. A commit that removes an absent node is refused,
/// unless an earlier commit that removed the node is still in the queue. A commit that removes more
/// references than a node has is not detected; [`verify`](crate::verify) detects it.
///
/// parity-db panics on some damage. Such a panic becomes an error with its message.
///
/// Opening a store of format 1 converts it to format 2, which earlier versions refuse.
pub struct ParityDbStore {
    /// `None` only if opening it again failed.
    database: Option<Db>,
    path: PathBuf,
    kept: KeptStates,
    /// Dropped after the database.
    files: FileList<Parity>,
}

/// Key of the root in the state column, in format 1.
const ROOT_KEY: &[u8] = b"root";

type Change = (u8, Operation<Vec<u8>, Vec<u8>>);

impl ParityDbStore {
    fn database(&self) -> Result<&Db, Failure> {
        self.database.as_ref().ok_or(Failure::Closed)
    }

    /// Waits until all commits are in the tables, by closing the database and opening it again.
    ///
    /// # Errors
    /// If the database can't be opened, or has lost commits because it could not write them. Then it stays closed,
    /// because the store would return a state that is not there.
    fn settle(&mut self) -> Result<(), Failure> {
        drop(self.database.take());
        let database = guarded(|| Db::open(&options(&self.path)))?;
        match states_of(&self.path, &database) {
            Ok(Some(kept)) if kept == self.kept => {
                self.database = Some(database);
                self.files.update();
                Ok(())
            }
            Ok(_) => Err(Failure::LostCommits),
            Err(error) => Err(Failure::States(Box::new(error))),
        }
    }
}

/// Returns the states in `database`, which is in the folder `path`; `None` if there is no record of them.
fn states_of(path: &Path, database: &Db) -> Result<Option<KeptStates>, OpenError> {
    let record = |key: &[u8]| guarded(|| database.get(STATE, key));
    let states = read_states(|key| record(key).map_err(|failure| failed("read a record", failure)));
    if let Some(kept) = states.map_err(|error| OpenError::database(path, error))? {
        return Ok(Some(kept));
    }
    let root = record(ROOT_KEY).map_err(|failure| failure.opening(path))?;
    root.map(|root| first_format(path, root)).transpose()
}

impl DiskStore for ParityDbStore {
    type Files = Parity;

    fn make(path: &Path, kept: KeptStates) -> Result<Self, OpenError> {
        let database = guarded(|| Db::open_or_create(&options(path)));
        let database = database.map_err(|failure| failure.opening(path))?;
        Ok(Self {
            database: Some(database),
            path: path.to_owned(),
            kept,
            files: FileList::new(path),
        })
    }

    fn write_out(&mut self) -> Result<(), OpenError> {
        let settled = self.settle();
        settled.map_err(|failure| failure.opening(&self.path))
    }

    fn hold(&mut self) -> Result<(), OpenError> {
        Ok(())
    }

    fn open_found(path: &Path, found: Found) -> Result<Self, OpenError> {
        let database = guarded(|| Db::open(&options(path)));
        let database = database.map_err(|failure| failure.opening(path))?;
        let kept = states_of(path, &database)?;
        let kept =
            kept.ok_or_else(|| OpenError::damaged(path, "a record of the kept states", "none"))?;
        let mut store = Self {
            database: Some(database),
            path: path.to_owned(),
            kept,
            files: FileList::new(path),
        };
        if found.format < FORMAT {
            upgrade::<Parity>(path)?;
        }
        store.files.update();
        Ok(store)
    }
}

disk_store!(ParityDbStore);

/// Returns the only state of a store of format 1, whose record is `root`.
fn first_format(path: &Path, root: Vec<u8>) -> Result<KeptStates, OpenError> {
    let root = <[u8; 32]>::try_from(root).map_err(|found| {
        let found = format!("a root of {} bytes", found.len());
        OpenError::damaged(path, "a record of the kept states", found)
    })?;
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
        check_space(&self.path, batch.bytes())?;
        let nodes = batch.nodes.into_iter().flat_map(operations);
        // The records are in the same commit as the nodes, because the database applies a commit whole.
        let operations = nodes.chain(batch.records.into_iter().map(record_operation));
        let database = self.database();
        database
            .and_then(|database| guarded(|| database.commit_changes(operations)))
            .map_err(|failure| failed("queue the commit", failure))?;
        self.kept = kept;
        self.files.update();
        Ok(())
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
        // The database asks once for each of its tables, also after an answer that ends the listing.
        let mut over = false;
        let listed = guarded(|| {
            database.iter_column_while(NODES, |entry| {
                if over {
                    return false;
                }
                let node = CountedNode {
                    hash: Blake2b256::hash(&entry.value),
                    references: u64::from(entry.rc),
                    encoded: &entry.value,
                };
                over = visit(node).is_break();
                !over
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
    #[error("it lost commits, because it could not write them to the disk")]
    LostCommits,
    #[error("it was closed and opened again: {0}")]
    States(#[source] Box<OpenError>),
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

/// Calls the database and returns its panic as an error, because it panics on some damage. The store is
/// not left half changed, because `call` changes only the database. A panic of the visitor in
/// `each_node` is caught too.
fn guarded<R>(call: impl FnOnce() -> parity_db::Result<R>) -> Result<R, Failure> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(done) => Ok(done?),
        Err(panic) => Err(Failure::Panic(panic_text(panic.as_ref()))),
    }
}
