//! The engines of a state on disk. A file in the store's folder names its engine.

use crate::{error::CliError, options::StateArg};
use clap::ValueEnum;
use povmeter_store::{
    engine_of, BackupError, NodeStore, OpenError, ParityDbStore, Progress, StoredNodes,
};
use std::path::Path;

/// A store on disk, whatever its engine.
pub(crate) trait DiskStore: NodeStore + StoredNodes + Send + Sync {
    /// Opens the store in the folder `path`, or makes one, as `mode` says.
    fn at(path: &Path, mode: Mode) -> Result<Self, OpenError>
    where
        Self: Sized;

    /// Copies the store into the folder `to`.
    fn copy_to(&mut self, to: &Path, progress: Progress<'_>) -> Result<(), BackupError>;
}

/// What a folder should hold.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Mode {
    /// A store.
    Open,
    /// Nothing.
    Create,
    /// A store or nothing.
    OpenOrCreate,
}

macro_rules! disk_store {
    ($store:ty) => {
        impl DiskStore for $store {
            fn at(path: &Path, mode: Mode) -> Result<Self, OpenError> {
                match mode {
                    Mode::Open => Self::open(path),
                    Mode::Create => Self::create(path),
                    Mode::OpenOrCreate => Self::open_or_create(path),
                }
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

    /// Opens or creates the store in the folder `path`, as `mode` says.
    ///
    /// # Errors
    /// [`CliError::NoRocksDb`] if the program lacks it, or the store's error in `wrap`.
    pub(crate) fn store(
        self,
        path: &Path,
        mode: Mode,
        wrap: fn(OpenError) -> CliError,
    ) -> Result<Box<dyn DiskStore>, CliError> {
        match self {
            Self::ParityDb => boxed::<ParityDbStore>(path, mode).map_err(wrap),
            #[cfg(feature = "rocksdb")]
            Self::RocksDb => boxed::<povmeter_store::RocksDbStore>(path, mode).map_err(wrap),
            #[cfg(not(feature = "rocksdb"))]
            Self::RocksDb => Err(CliError::NoRocksDb { stored: true }),
        }
    }
}

fn boxed<S: DiskStore + 'static>(path: &Path, mode: Mode) -> Result<Box<dyn DiskStore>, OpenError> {
    Ok(Box::new(S::at(path, mode)?))
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
