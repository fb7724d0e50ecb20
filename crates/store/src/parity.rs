//! The store on disk.

use crate::net::{net_changes, net_references, NetChange, NULL_NODE};
use crate::parity_folder::{inspect, mark, options, FolderContent, OpenError, NODES, STATE};
use crate::{NodeStore, StoreError};
use bytes::Bytes;
use parity_db::{Db, Operation};
use povmeter_delta_root::{NodeHash, NodePrefix, NodeSource, Root, RootUpdate, SourceError};
use std::fmt;
use std::path::{Path, PathBuf};

/// Nodes on disk, in a parity-db, keyed by hash and counted by the database.
///
/// A commit returns as soon as the database has queued it; what it brings can be read at once.
/// Dropping the store waits until everything is on disk. After a crash it opens at the last commit
/// that got there, root and nodes together, which may be older than the last one made.
///
/// The database does not tell its counts. A commit that removes a node which is not there is found
/// out, unless an earlier commit still in the queue removed it; one that removes a node more often
/// than it is referred to is not.
pub struct ParityDbStore {
    database: Db,
    path: PathBuf,
    root: Root,
}

/// Where the root lies in the state column.
const ROOT_KEY: &[u8] = b"root";

type Change = (u8, Operation<Vec<u8>, Vec<u8>>);

impl ParityDbStore {
    /// The store in the folder `path`, at the state it was left in.
    ///
    /// # Errors
    /// The path does not hold a store of this format, the store is damaged or open already, or the
    /// file system failed.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        let path = path.as_ref();
        match inspect(path)? {
            FolderContent::Store => Self::open_inspected(path),
            found => Err(OpenError::NotAStore {
                path: path.to_owned(),
                found,
            }),
        }
    }

    /// A new store in the folder `path`, which is made if it does not exist; it holds the state
    /// without entries.
    ///
    /// # Errors
    /// The path holds anything but an empty folder, or the file system failed. A folder where that
    /// happened midway does not count as a store.
    pub fn create(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        let path = path.as_ref();
        match inspect(path)? {
            FolderContent::Absent | FolderContent::Empty => Self::create_inspected(path),
            found => Err(OpenError::Occupied {
                path: path.to_owned(),
                found,
            }),
        }
    }

    /// The store in the folder `path`, or a new one if there is nothing or an empty folder.
    ///
    /// # Errors
    /// As [`ParityDbStore::open`] and [`ParityDbStore::create`].
    pub fn open_or_create(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        let path = path.as_ref();
        match inspect(path)? {
            FolderContent::Store => Self::open_inspected(path),
            FolderContent::Absent | FolderContent::Empty => Self::create_inspected(path),
            found => Err(OpenError::NotAStore {
                path: path.to_owned(),
                found,
            }),
        }
    }

    /// Folder of the store.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn create_inspected(path: &Path) -> Result<Self, OpenError> {
        let failed = |error| OpenError::database(path, error);
        let database = Db::open_or_create(&options(path)).map_err(failed)?;
        database
            .commit_changes([root_change(Root::EMPTY)])
            .map_err(failed)?;
        // Closing writes the queue to disk, so a marked folder always holds a root.
        drop(database);
        mark(path)?;
        Self::open_inspected(path)
    }

    fn open_inspected(path: &Path) -> Result<Self, OpenError> {
        let failed = |error| OpenError::database(path, error);
        let database = Db::open(&options(path)).map_err(failed)?;
        let damaged = |found| OpenError::damaged(path, "a root of 32 bytes", found);
        let stored = database.get(STATE, ROOT_KEY).map_err(failed)?;
        let stored = stored.ok_or_else(|| damaged("none".into()))?;
        let root = <[u8; 32]>::try_from(stored)
            .map_err(|found| damaged(format!("{} bytes", found.len())))?;
        Ok(Self {
            database,
            path: path.to_owned(),
            root: root.into(),
        })
    }

    fn holds(&self, hash: &NodeHash) -> Result<bool, StoreError> {
        let size = self.database.get_size(NODES, hash.as_ref());
        Ok(size
            .map_err(|error| failed("look up a node", error))?
            .is_some())
    }

    fn check(&self, change: &NetChange) -> Result<(), StoreError> {
        match change {
            NetChange::Loss {
                hash,
                references: lost,
            } if !self.holds(hash)? => Err(StoreError::MissingReferences {
                hash: *hash,
                lost: *lost,
                held: 0,
            }),
            _ => Ok(()),
        }
    }

    fn check_root(&self, root: Root, changes: &[NetChange]) -> Result<(), StoreError> {
        let hash = root.node_hash();
        // Without knowing counts a root that loses references has to be taken on trust.
        let stored =
            root == Root::EMPTY || net_references(changes, &hash) != 0 || self.holds(&hash)?;
        stored.then_some(()).ok_or(StoreError::MissingRoot { root })
    }
}

fn root_change(root: Root) -> Change {
    (
        STATE,
        Operation::Set(ROOT_KEY.to_vec(), root.as_bytes().to_vec()),
    )
}

/// What the database is to do for `change`: one operation for each reference.
fn operations(change: NetChange) -> Box<dyn Iterator<Item = Change>> {
    match change {
        NetChange::Gain {
            hash,
            references,
            encoded,
        } => {
            let key = hash.as_bytes().to_vec();
            // Setting a node that is there counts as a reference to it.
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

impl fmt::Debug for ParityDbStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ParityDbStore")
            .field("path", &self.path)
            .field("root", &self.root)
            .finish()
    }
}

impl NodeSource for ParityDbStore {
    fn node(&self, hash: &NodeHash, _: NodePrefix<'_>) -> Result<Option<Bytes>, SourceError> {
        if *hash == Root::EMPTY.node_hash() {
            return Ok(Some(Bytes::from_static(NULL_NODE)));
        }
        let encoded = self
            .database
            .get(NODES, hash.as_ref())
            .map_err(SourceError::new)?;
        Ok(encoded.map(Bytes::from))
    }
}

impl NodeStore for ParityDbStore {
    fn root(&self) -> Root {
        self.root
    }

    fn commit(&mut self, update: &RootUpdate) -> Result<(), StoreError> {
        let changes = net_changes(update, self.root)?;
        changes.iter().try_for_each(|change| self.check(change))?;
        self.check_root(update.root, &changes)?;
        // The database applies one commit as a whole: the root never parts from its nodes.
        let operations = changes
            .into_iter()
            .flat_map(operations)
            .chain([root_change(update.root)]);
        self.database
            .commit_changes(operations)
            .map_err(|error| failed("queue the commit", error))?;
        self.root = update.root;
        Ok(())
    }
}

fn failed(task: &'static str, error: parity_db::Error) -> StoreError {
    StoreError::Database {
        task,
        source: Box::new(error),
    }
}
