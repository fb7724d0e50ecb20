//! An open parity-db whose panics are errors.

use crate::open_error::OpenError;
use crate::panic::panic_text;
use crate::parity_files::options;
use crate::parity_tables::check_tables;
use parity_db::Db;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// How long [`Database::open_again`] waits for the lock of the database.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// How long it waits between two attempts.
const PAUSE: Duration = Duration::from_millis(1);

/// A parity-db that is open until it is closed or dropped.
///
/// parity-db works off the commits in its queue where it is dropped, and panics there on some damage.
pub(crate) struct Database(
    /// `None` once it is closed.
    Option<Db>,
);

impl Database {
    /// Makes a database in the folder `path`.
    pub(crate) fn create(path: &Path) -> Result<Self, OpenError> {
        let made = guarded(|| Db::open_or_create(&options(path)));
        let made = made.map_err(|failure| failure.opening(path))?;
        Ok(Self(Some(made)))
    }

    /// Opens the database in the folder `path`, and checks its tables.
    pub(crate) fn open(path: &Path) -> Result<Self, OpenError> {
        let opened = guarded(|| Db::open(&options(path))).map(|database| Self(Some(database)));
        // Only with the lock of the database, because a table may be about to grow while another process writes to it,
        // and after the database has finished what its log holds. If it finds damage itself, it does not name the file.
        if matches!(
            &opened,
            Ok(_) | Err(Failure::Error(parity_db::Error::Corruption(_)))
        ) {
            check_tables(path)?;
        }
        opened.map_err(|failure| failure.opening(path))
    }

    /// Opens the database in the folder `path`, of which the caller has locked the marker, so that no other process has
    /// the database. Waits up to `patience` for its lock: a child process that the host has just forked has a copy of
    /// each open file, and so of the lock that was held until now, until it executes its program.
    pub(crate) fn open_again(path: &Path, patience: Duration) -> Result<Self, OpenError> {
        let started = Instant::now();
        loop {
            match Self::open(path) {
                Err(OpenError::InUse { .. }) if started.elapsed() < patience => {
                    thread::sleep(PAUSE);
                }
                opened => return opened,
            }
        }
    }

    /// Calls the database.
    ///
    /// # Errors
    /// Those of the database, its panics, and [`Failure::Closed`].
    pub(crate) fn call<R>(
        &self,
        call: impl FnOnce(&Db) -> parity_db::Result<R>,
    ) -> Result<R, Failure> {
        let database = self.0.as_ref().ok_or(Failure::Closed)?;
        guarded(|| call(database))
    }

    /// Waits until the database has worked off its queue, and closes it.
    ///
    /// # Errors
    /// If the database panics. It is closed then, too. An error of its own it keeps to itself.
    pub(crate) fn close(&mut self) -> Result<(), Failure> {
        let database = self.0.take();
        guarded(|| {
            drop(database);
            Ok(())
        })
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // Nobody is left to tell. The next time that the store is opened, its states show what is on the disk.
        let _ = self.close();
    }
}

/// Why a call of the database failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    Error(#[from] parity_db::Error),
    #[error("it panicked: {0}")]
    Panic(String),
    #[error("it was closed after it had failed; open the store again")]
    Closed,
    #[error("it lost commits, because it could not write them to the disk")]
    LostCommits,
    #[error("it was closed, and could not be opened again: {0}")]
    Reopening(#[source] Box<OpenError>),
}

impl Failure {
    /// The error of opening the store in the folder `path`.
    pub(crate) fn opening(self, path: &Path) -> OpenError {
        match self {
            Self::Error(parity_db::Error::Locked(_)) => OpenError::InUse {
                path: path.to_owned(),
            },
            Self::Error(parity_db::Error::Io(source)) => OpenError::io(path)(source),
            Self::Error(parity_db::Error::Corruption(found)) => {
                OpenError::damaged(path, "an undamaged parity-db", found)
            }
            Self::Reopening(error) => *error,
            failure => OpenError::database(path, failure),
        }
    }
}

/// Calls the database and returns its panic as an error, because it panics on some damage. The store is
/// not left half changed, because `call` changes only the database. A panic of a visitor in `call` is
/// caught too.
fn guarded<R>(call: impl FnOnce() -> parity_db::Result<R>) -> Result<R, Failure> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(done) => Ok(done?),
        Err(panic) => Err(Failure::Panic(panic_text(panic.as_ref()))),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use fs4::fs_std::FileExt;
    use std::fs::File;

    /// Another holds the lock of the database for a while, or for good.
    #[test]
    fn a_lock_that_is_left_for_a_while_is_waited_for() {
        let home = tempfile::tempdir().unwrap();
        drop(Database::create(home.path()).unwrap());
        let left = File::open(home.path().join("lock")).unwrap();
        left.lock_exclusive().unwrap();
        let held = Database::open_again(home.path(), 3 * PAUSE).map(drop);
        assert!(matches!(&held, Err(OpenError::InUse { .. })), "{held:?}");
        thread::scope(|scope| {
            let again = scope.spawn(|| Database::open_again(home.path(), PATIENCE).map(drop));
            thread::sleep(20 * PAUSE);
            drop(left);
            again.join().unwrap().unwrap();
        });
    }
}
