//! The engines of a state on disk. A file in the store's folder names its engine.

use crate::{error::CliError, options::StateArg};
use clap::ValueEnum;
use povmeter_dev_runtime::{commit_parent, Plan, StateError};
use povmeter_store::{
    engine_of, BackupError, FillError, NodeStore, OpenError, ParityDbStore, Progress, StoredNodes,
};
use std::path::Path;

/// A store on disk, whatever its engine.
pub(crate) trait DiskStore: NodeStore + StoredNodes + Send + Sync {
    /// Opens the store in the folder `path`.
    fn at(path: &Path) -> Result<Self, OpenError>
    where
        Self: Sized;

    /// Makes a store with the state of `plan` in the folder `path`.
    fn made_at(path: &Path, plan: &Plan) -> Result<Self, FillError<StateError>>
    where
        Self: Sized;

    /// Copies the store into the folder `to`.
    fn copy_to(&mut self, to: &Path, progress: Progress<'_>) -> Result<(), BackupError>;
}

macro_rules! disk_store {
    ($store:ty) => {
        impl DiskStore for $store {
            fn at(path: &Path) -> Result<Self, OpenError> {
                Self::open(path)
            }

            fn made_at(path: &Path, plan: &Plan) -> Result<Self, FillError<StateError>> {
                Self::create_filled(path, |store| commit_parent(store, plan).map(drop))
            }

            fn copy_to(&mut self, to: &Path, progress: Progress<'_>) -> Result<(), BackupError> {
                self.backup(to, progress)
            }
        }
    };
}

disk_store!(ParityDbStore);
#[cfg(feature = "rocksdb")]
disk_store!(povmeter_store::RocksDbStore);

/// An engine of a state on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Engine {
    ParityDb,
    #[value(name = "rocksdb")]
    RocksDb,
}

impl Engine {
    /// The engine of the store in the folder `path`; `None` if the folder names no known one.
    ///
    /// # Errors
    /// [`OpenError::Io`] if the folder's marker can't be read.
    pub(crate) fn of(path: &Path) -> Result<Option<Self>, OpenError> {
        Ok(match engine_of(path)?.as_deref() {
            Some("parity-db") => Some(Self::ParityDb),
            Some("rocksdb") => Some(Self::RocksDb),
            _ => None,
        })
    }

    /// Returns the value of `--state` for this engine.
    pub(crate) fn state(self) -> StateArg {
        match self {
            Self::ParityDb => StateArg::ParityDb,
            Self::RocksDb => StateArg::RocksDb,
        }
    }

    /// Checks that the program has this engine. Call it before work that takes long. `stored` says whether a folder
    /// holds the state already.
    ///
    /// # Errors
    /// [`CliError::NoRocksDb`] if it has not.
    #[cfg_attr(feature = "rocksdb", allow(unused_variables))]
    pub(crate) fn expect_built(self, stored: bool) -> Result<(), CliError> {
        match self {
            #[cfg(not(feature = "rocksdb"))]
            Self::RocksDb => Err(CliError::NoRocksDb { stored }),
            _ => Ok(()),
        }
    }

    /// Opens the store in the folder `path`.
    ///
    /// # Errors
    /// [`CliError::NoRocksDb`] if the program lacks it, or the store's error in `wrap`.
    pub(crate) fn store(
        self,
        path: &Path,
        wrap: fn(OpenError) -> CliError,
    ) -> Result<Box<dyn DiskStore>, CliError> {
        match self {
            Self::ParityDb => boxed(ParityDbStore::at(path)).map_err(wrap),
            #[cfg(feature = "rocksdb")]
            Self::RocksDb => boxed(povmeter_store::RocksDbStore::at(path)).map_err(wrap),
            #[cfg(not(feature = "rocksdb"))]
            Self::RocksDb => Err(CliError::NoRocksDb { stored: true }),
        }
    }

    /// Makes a store with the state of `plan` in the folder `path`. If that is interrupted, there is no store, and the
    /// next attempt begins again.
    ///
    /// # Errors
    /// [`CliError::NoRocksDb`] if the program lacks it, or an error of the store or of the state.
    pub(crate) fn make(self, path: &Path, plan: &Plan) -> Result<Box<dyn DiskStore>, CliError> {
        let made = match self {
            Self::ParityDb => boxed(ParityDbStore::made_at(path, plan)),
            #[cfg(feature = "rocksdb")]
            Self::RocksDb => boxed(povmeter_store::RocksDbStore::made_at(path, plan)),
            #[cfg(not(feature = "rocksdb"))]
            Self::RocksDb => return Err(CliError::NoRocksDb { stored: false }),
        };
        made.map_err(|error| match error {
            FillError::Open(error) => CliError::Open(error),
            FillError::Fill(error) => CliError::State(error),
        })
    }
}

fn boxed<S: DiskStore + 'static, E>(store: Result<S, E>) -> Result<Box<dyn DiskStore>, E> {
    Ok(Box::new(store?))
}

#[cfg(all(test, not(feature = "rocksdb")))]
mod tests {
    use super::*;

    #[test]
    fn a_missing_engine_has_the_advice_for_its_place() {
        for (stored, expected) in [(false, "--state parity-db"), (true, "another folder")] {
            let error = Engine::RocksDb.expect_built(stored).unwrap_err();
            let advice = error.advice().unwrap_or_default();
            assert!(advice.contains(expected), "{advice}");
        }
    }
}
