//! A node store on disk.

use crate::net::{net_changes, net_references, NetChange, NULL_NODE};
use crate::parity_folder::{inspect, mark, options, FolderContent, OpenError, NODES, STATE};
use crate::{NodeStore, StoreError};
use bytes::Bytes;
use parity_db::{Db, Operation};
use povmeter_delta_root::{NodeHash, NodePrefix, NodeSource, Root, RootUpdate, SourceError};
use std::fmt;
use std::path::{Path, PathBuf};

/// A store that keeps nodes on disk in a parity-db, keyed by hash. The database counts references.
///
/// A commit returns as soon as the database has queued it; its nodes can be read at once. Dropping
/// the store waits until everything is on disk. After a crash the store opens at the last commit
/// that reached the disk, root and nodes together; later commits are lost.
///
/// parity-db does not expose its counts. A commit that removes an absent node is refused, unless an
/// earlier commit that removed the node is still in the queue. A commit that removes more references
/// than a node has is not detected.
pub struct ParityDbStore {
    database: Db,
    path: PathBuf,
    root: Root,
}

/// Key of the root in the state column.
const ROOT_KEY: &[u8] = b"root";

type Change = (u8, Operation<Vec<u8>, Vec<u8>>);

impl ParityDbStore {
    /// Opens the store in the folder `path`, at its last state.
    ///
    /// # Errors
    /// If the path does not hold a store of this format, the store is damaged or already open, or
    /// the file system failed.
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

    /// Makes a store at the state without entries in the folder `path`, which is created if it does
    /// not exist.
    ///
    /// # Errors
    /// If the path holds anything but an empty folder, or the file system failed. If it failed
    /// midway, the folder does not count as a store.
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

    /// Opens the store in the folder `path`, or makes one if the path is absent or an empty folder.
    ///
    /// # Errors
    /// Those of [`ParityDbStore::open`] and [`ParityDbStore::create`].
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
        // The counts are unknown, so whether a root that loses references remains is not checked.
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
        // The root is in the same commit as its nodes, because the database applies a commit whole.
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
