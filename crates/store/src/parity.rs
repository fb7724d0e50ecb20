//! A node store on disk, on parity-db.

use crate::disk::{disk_store, DiskStore};
use crate::engine::{self, Batch, Engine, Held};
use crate::file_list::FileList;
use crate::folder::{check_space, hold, Found, FORMAT};
use crate::history::{KeptStates, StateId};
use crate::journal::StateDiff;
use crate::making::upgrade;
use crate::net::{NetChange, NULL_NODE};
use crate::open_error::OpenError;
use crate::parity_database::{Database, Failure, PATIENCE};
use crate::parity_files::{Parity, NODES, STATE};
use crate::read_states::{read_states, Records};
use crate::stored::{CountedNode, StoredNodes};
use crate::StoreError;
use bytes::Bytes;
use parity_db::Operation;
use povmeter_delta_root::{Blake2b256, NodeHash, NodePrefix, NodeSource, Root, SourceError};
use std::fs::File;
use std::ops::ControlFlow;
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
/// parity-db panics on some damage. Such a panic becomes an error with its message; a panic while the store is
/// dropped is swallowed.
///
/// Opening a store of format 1 or 2 converts it to format 3, which earlier versions refuse.
///
/// ```
/// use povmeter::{Block, Root, StateVersion::V1, TrieId::Top};
/// use povmeter_store::{NodeStore, ParityDbStore};
/// # let home = tempfile::tempdir()?;
/// # let path = home.path().join("state");
///
/// // The first time, makes the folder, with the state without entries.
/// let mut store = ParityDbStore::open_or_create(&path)?;
/// let mut block = Block::new(&store, store.root());
/// block.set(Top, b"alice", b"paid")?;
/// store.commit(block.seal(V1)?.update())?;
/// let root = store.root();
/// drop(store);
///
/// // `open` makes no folder, so a wrong path is an error.
/// let store = ParityDbStore::open(&path)?;
/// assert_eq!(store.root(), root);
/// # assert_ne!(root, Root::EMPTY);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ParityDbStore {
    /// Closed only if opening it again failed, or closing it before.
    database: Database,
    path: PathBuf,
    kept: KeptStates,
    /// Dropped after the database.
    files: FileList<Parity>,
    /// The locked marker of the store. The database has a lock of its own, but lets it go when it is closed to be
    /// opened again. `None` while the store is made, because its maker holds the marker.
    _held: Option<File>,
}

/// Key of the root in the state column, in format 1.
const ROOT_KEY: &[u8] = b"root";

type Change = (u8, Operation<Vec<u8>, Vec<u8>>);

impl ParityDbStore {
    /// Writes the record about all states, which a store of format 1 lacks, and waits until it is on the disk.
    fn record_states(&mut self) -> Result<(), OpenError> {
        let written = self.write(Batch::of_states(&self.kept));
        written.map_err(|error| OpenError::records(&self.path, error))?;
        self.write_out()
    }

    /// Waits until all commits are in the tables, by closing the database and opening it again.
    ///
    /// # Errors
    /// If the database panics when it is closed, can't be opened, or has lost commits because it could not write
    /// them. Then it stays closed, because the store would return a state that is not there.
    fn settle(&mut self) -> Result<(), Failure> {
        self.database.close()?;
        let reopening = |error| Failure::Reopening(Box::new(error));
        let database = Database::open_again(&self.path, PATIENCE).map_err(reopening)?;
        let kept = read_states(&self.path, &database).map_err(reopening)?;
        if kept.as_ref() != Some(&self.kept) {
            return Err(Failure::LostCommits);
        }
        self.database = database;
        self.files.update();
        Ok(())
    }
}

/// Returns the only state of the store of format 1 in the folder `path`, if its `database` has the record of that format.
fn first_format(path: &Path, database: &Database) -> Result<Option<KeptStates>, OpenError> {
    let root = database.call(|database| database.get(STATE, ROOT_KEY));
    let root = root.map_err(|failure| failure.opening(path))?;
    let state = |root: Vec<u8>| {
        let root = <[u8; 32]>::try_from(root).map_err(|found| {
            let found = format!("a root of {} bytes", found.len());
            OpenError::damaged(path, STATES, found)
        })?;
        Ok(KeptStates::only(0, 0, root.into()))
    };
    root.map(state).transpose()
}

/// What a store is expected to have, for errors.
const STATES: &str = "a record of the kept states";

impl Records for Database {
    fn record(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let record = self.call(|database| database.get(STATE, key));
        record.map_err(|failure| failed("read a record", failure))
    }

    fn each_record(&self, visit: &mut dyn FnMut(&[u8])) -> Result<(), StoreError> {
        let listed = self.call(|database| {
            database.iter_column_while(STATE, |entry| {
                visit(&entry.value);
                true
            })
        });
        listed.map_err(|failure| failed("list all records", failure))
    }
}

impl DiskStore for ParityDbStore {
    type Files = Parity;

    fn make(path: &Path, kept: KeptStates) -> Result<Self, OpenError> {
        Ok(Self {
            database: Database::create(path)?,
            path: path.to_owned(),
            kept,
            files: FileList::new(path),
            _held: None,
        })
    }

    fn write_out(&mut self) -> Result<(), OpenError> {
        let settled = self.settle();
        settled.map_err(|failure| failure.opening(&self.path))
    }

    fn hold(&mut self, marker: File) {
        self._held = Some(marker);
    }

    fn open_found(path: &Path, found: Found) -> Result<Self, OpenError> {
        let held = hold(path)?;
        let database = Database::open(path)?;
        let recorded = read_states(path, &database)?;
        let is_recorded = recorded.is_some();
        let kept = match recorded {
            // A record of format 1 stays when the store is converted, and is of an old state then.
            None if found.format < FORMAT => first_format(path, &database)?,
            recorded => recorded,
        };
        let mut store = Self {
            database,
            path: path.to_owned(),
            kept: kept.ok_or_else(|| OpenError::damaged(path, STATES, "none"))?,
            files: FileList::new(path),
            _held: None,
        };
        if !is_recorded {
            store.record_states()?;
        }
        store.hold(upgrade::<Parity>(path, found, held)?);
        store.files.update();
        Ok(store)
    }
}

/// The task of going through all nodes, for errors.
const LISTING: &str = "list all nodes";

disk_store!(ParityDbStore);

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
        let encoded = self
            .database
            .call(|database| database.get(NODES, hash.as_ref()));
        Ok(encoded.map_err(SourceError::new)?.map(Bytes::from))
    }
}

impl Engine for ParityDbStore {
    const REFERENCE_LIMIT: u64 = u32::MAX as u64;

    fn kept(&self) -> &KeptStates {
        &self.kept
    }

    fn kept_mut(&mut self) -> &mut KeptStates {
        &mut self.kept
    }

    fn held(&self, hash: &NodeHash) -> Result<Held, StoreError> {
        let size = self
            .database
            .call(|database| database.get_size(NODES, hash.as_ref()));
        match size.map_err(|failure| failed("look up a node", failure))? {
            Some(_) => Ok(Held::Some),
            None => Ok(Held::Count(0)),
        }
    }

    fn record(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.database.record(key)
    }

    fn write(&mut self, batch: Batch) -> Result<(), StoreError> {
        check_space(&self.path, batch.bytes())?;
        let nodes = batch.nodes.into_iter().flat_map(operations);
        // The records are in the same commit as the nodes, because the database applies a commit whole.
        let operations = nodes.chain(batch.records.into_iter().map(record_operation));
        let queued = self
            .database
            .call(|database| database.commit_changes(operations));
        queued.map_err(|failure| failed("queue the commit", failure))?;
        self.files.update();
        Ok(())
    }
}

impl StoredNodes for ParityDbStore {
    fn each_node(
        &mut self,
        visit: &mut dyn FnMut(CountedNode<'_>) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        self.settle().map_err(|failure| failed(LISTING, failure))?;
        // The database asks once for each of its tables, also after an answer that ends the listing.
        let mut over = false;
        let listed = self.database.call(|database| {
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
        listed.map_err(|failure| failed(LISTING, failure))
    }

    fn diff(&self, state: StateId) -> Result<StateDiff, StoreError> {
        engine::diff(self, state)
    }
}

fn failed(task: &'static str, failure: Failure) -> StoreError {
    StoreError::Database {
        task,
        source: Box::new(failure),
    }
}
