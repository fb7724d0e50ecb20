//! Opens, makes and copies a store in a folder, for any database.

use crate::backup::{copy, BackupError};
use crate::engine::{first_write, Engine};
use crate::folder::{inspect, not_a_store, occupied, FolderEngine, Found};
use crate::history::KeptStates;
use crate::making::{begin, lock_earlier};
use crate::open_error::{FillError, FolderContent, OpenError};
use crate::progress::Progress;
use crate::stored::StoredNodes;
use std::fs::File;
use std::path::Path;

/// A store on a database in a folder. Dropping it waits until all is on disk.
pub(crate) trait DiskStore: Engine + StoredNodes + Sized {
    /// The files of the database.
    type Files: FolderEngine;

    /// Makes an empty database in the folder `path`. The store has the states `kept`, which are not
    /// recorded yet.
    fn make(path: &Path, kept: KeptStates) -> Result<Self, OpenError>;

    /// Waits until all commits are on the disk.
    ///
    /// # Errors
    /// If the database could not write some, in the background too.
    fn write_out(&mut self) -> Result<(), OpenError>;

    /// Takes over the locked marker of the store, which is complete now.
    fn hold(&mut self, marker: File);

    /// Opens the store that was found in the folder `path`.
    fn open_found(path: &Path, found: Found) -> Result<Self, OpenError>;
}

pub(crate) fn open<S: DiskStore>(path: &Path) -> Result<S, OpenError> {
    match inspect::<S::Files>(path)? {
        Ok(found) => S::open_found(path, found),
        Err(FolderContent::Unfinished) => Err(match lock_earlier(path) {
            // Whoever makes it is not done.
            Err(error @ OpenError::InUse { .. }) => error,
            _ => not_a_store(path, FolderContent::Unfinished),
        }),
        Err(found) => Err(not_a_store(path, found)),
    }
}

pub(crate) fn create<S: DiskStore>(path: &Path) -> Result<S, OpenError> {
    expect_free::<S>(path)?;
    create_free(path, |_| Ok(()))
}

pub(crate) fn create_filled<S: DiskStore, E>(
    path: &Path,
    fill: impl FnOnce(&mut S) -> Result<(), E>,
) -> Result<S, FillError<E>> {
    expect_free::<S>(path).map_err(FillError::Open)?;
    let mut failed = None;
    let made = create_free(path, |store| {
        fill(store).map_err(|error| {
            failed = Some(error);
            // Any error keeps the folder from being marked as complete.
            OpenError::database(path, "the store was not filled")
        })
    });
    match failed {
        Some(error) => Err(FillError::Fill(error)),
        None => made.map_err(FillError::Open),
    }
}

fn expect_free<S: DiskStore>(path: &Path) -> Result<(), OpenError> {
    match inspect::<S::Files>(path)? {
        Ok(_) => Err(occupied(path, FolderContent::Store)),
        Err(found) if found.is_free() => Ok(()),
        Err(found) => Err(occupied(path, found)),
    }
}

pub(crate) fn open_or_create<S: DiskStore>(path: &Path) -> Result<S, OpenError> {
    match inspect::<S::Files>(path)? {
        Ok(found) => S::open_found(path, found),
        Err(found) if found.is_free() => match create_free(path, |_| Ok(())) {
            // Another process has made the store meanwhile.
            Err(OpenError::Occupied {
                found: FolderContent::Store,
                ..
            }) => open(path),
            made => made,
        },
        Err(found) => Err(not_a_store(path, found)),
    }
}

pub(crate) fn backup<S: DiskStore>(
    from: &mut S,
    path: &Path,
    progress: Progress<'_>,
) -> Result<(), BackupError> {
    let made = create_filled::<S, _>(path, |into| copy(from, into, progress));
    made.map(drop).map_err(|error| match error {
        FillError::Open(error) => BackupError::Open(error),
        FillError::Fill(error) => BackupError::Store(error),
    })
}

/// Makes a store in a free folder, and lets `fill` write to the store before the folder is marked as
/// complete.
fn create_free<S: DiskStore>(
    path: &Path,
    fill: impl FnOnce(&mut S) -> Result<(), OpenError>,
) -> Result<S, OpenError> {
    let making = begin::<S::Files>(path)?;
    let (batch, kept) = first_write();
    let mut store = S::make(path, kept)?;
    let written = store.write(batch);
    written.map_err(|error| OpenError::database(path, error))?;
    fill(&mut store)?;
    // A complete folder always holds its states.
    store.write_out()?;
    store.hold(making.finish()?);
    Ok(store)
}

/// Implements the methods and traits that all stores in folders share.
macro_rules! disk_store {
    ($store:ident) => {
        impl $store {
            /// Opens the store in the folder `path`, with the states that it kept.
            ///
            /// # Errors
            /// If the path does not hold a store of this engine in a format that this version reads, the
            /// store is damaged or in use, the folder can not be written, or the file system failed.
            pub fn open(
                path: impl AsRef<std::path::Path>,
            ) -> Result<Self, $crate::open_error::OpenError> {
                $crate::disk::open(path.as_ref())
            }

            /// Makes a store at the state without entries in the folder `path`, which is created if it
            /// does not exist. The remains of an interrupted attempt are removed first.
            ///
            /// # Errors
            /// If the path holds anything else, the disk is nearly full, or the file system failed. The
            /// next attempt removes the remains of a failed one.
            pub fn create(
                path: impl AsRef<std::path::Path>,
            ) -> Result<Self, $crate::open_error::OpenError> {
                $crate::disk::create(path.as_ref())
            }

            /// As [`Self::create`], but lets `fill` write to the store before the folder counts as one. If `fill`
            /// fails or the process ends before that, there is no store: the next attempt removes the remains.
            ///
            /// # Errors
            /// [`FillError`](crate::FillError): an error of [`Self::create`] or of `fill`.
            pub fn create_filled<E>(
                path: impl AsRef<std::path::Path>,
                fill: impl FnOnce(&mut Self) -> Result<(), E>,
            ) -> Result<Self, $crate::open_error::FillError<E>> {
                $crate::disk::create_filled(path.as_ref(), fill)
            }

            /// Opens the store in the folder `path`, or makes one if the path is absent, an empty
            /// folder, or a store whose making was interrupted.
            ///
            /// # Errors
            /// Those of [`Self::open`] and [`Self::create`].
            pub fn open_or_create(
                path: impl AsRef<std::path::Path>,
            ) -> Result<Self, $crate::open_error::OpenError> {
                $crate::disk::open_or_create(path.as_ref())
            }

            /// Folder of the store.
            pub fn path(&self) -> &std::path::Path {
                &self.path
            }

            /// Copies the store, with all kept states, into the folder `path`, which must be absent,
            /// empty, or left by an interrupted copy, and outside of the store's folder. Checks that the
            /// copy has every node of every kept state. Calls `progress` with the nodes copied so far.
            ///
            /// # Errors
            /// [`BackupError`](crate::BackupError), also if the store lacks a node. The store is unchanged,
            /// and a copy that failed does not count as a store.
            ///
            /// # Cost
            /// Reads each node of the store, writes it, and reads each place of the base from the copy.
            pub fn backup(
                &mut self,
                path: impl AsRef<std::path::Path>,
                progress: $crate::progress::Progress<'_>,
            ) -> Result<(), $crate::backup::BackupError> {
                $crate::backup::expect_outside(&self.path, path.as_ref())?;
                $crate::disk::backup(self, path.as_ref(), progress)
            }
        }

        impl std::fmt::Debug for $store {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($store))
                    .field("path", &self.path)
                    .field("root", &$crate::NodeStore::root(self))
                    .field("kept", &self.kept.len())
                    .finish()
            }
        }

        $crate::engine::engine_store!($store);
    };
}
pub(crate) use disk_store;
