//! Makes the folder of a store, of which one process at a time can hold the marker.
//!
//! A marker is locked before it gets its name, so that nobody comes between: first the one that says "being
//! made", then the one that says "complete", which replaces it. A lock is that of a file, not of its name.

use crate::file_list::{FILE_LIST, NEW_FILE_LIST};
use crate::folder::{
    available, inspect, lock, lock_named, marker_text, names, occupied, open_to_lock, sync_folder,
    FolderEngine, Found, COMPLETE_MARKER, DISK_RESERVE, FORMAT, MARKER, NEW_MARKER,
};
use crate::open_error::{FolderContent, OpenError};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// A folder in which a store is being made. Its locked marker keeps others from making a store there.
#[derive(Debug)]
pub(crate) struct Making<'a> {
    path: &'a Path,
    engine: &'static str,
    /// The marker, which is locked until this file is closed.
    _marker: File,
    /// The marker of an earlier attempt, which stays locked as long, because a process may have opened it before it
    /// was replaced.
    _earlier: Option<File>,
}

/// Begins a store of the engine `E` in the folder `path`, which is created if it is absent. Removes
/// the remains of an earlier attempt. If it fails, it leaves no folder that it created, unless another process has
/// put something into it.
pub(crate) fn begin<E: FolderEngine>(path: &Path) -> Result<Making<'_>, OpenError> {
    let is_new = !path.exists();
    fs::create_dir_all(path).map_err(OpenError::io(path))?;
    begin_in::<E>(path).inspect_err(|_| {
        if is_new {
            // This removes only an empty folder. If it fails, the first error is enough.
            let _ = fs::remove_dir(path);
        }
    })
}

/// Does the same as [`begin`] in a folder that exists.
fn begin_in<E: FolderEngine>(path: &Path) -> Result<Making<'_>, OpenError> {
    let available = available(path)?;
    if available < DISK_RESERVE {
        return Err(OpenError::DiskFull {
            path: path.to_owned(),
            available,
            needed: DISK_RESERVE,
        });
    }
    let earlier = lock_earlier(path)?;
    let temporary = path.join(NEW_MARKER);
    let (mut marker, is_new) = open_or_make(&temporary)?;
    lock(&marker, path)?;
    let earlier = confirm_free::<E>(path, earlier).inspect_err(|error| {
        // If the folder is in use, the process that makes the store removes the file.
        if is_new && !matches!(error, OpenError::InUse { .. }) {
            let _ = fs::remove_file(&temporary);
        }
    })?;
    if earlier.is_some() {
        // The list too, because its files go.
        let is_list = |name: &String| [FILE_LIST, NEW_FILE_LIST].contains(&name.as_str());
        let remains = names(path)?;
        for name in remains
            .iter()
            .filter(|name| E::is_file(name) || is_list(name))
        {
            let file = path.join(name);
            fs::remove_file(&file).map_err(OpenError::io(&file))?;
        }
    }
    // The file keeps its lock when it is renamed.
    let mut write = || {
        marker.set_len(0)?;
        marker.write_all(marker_text(E::NAME, false).as_bytes())?;
        marker.sync_all()?;
        fs::rename(&temporary, path.join(MARKER))?;
        sync_folder(path)
    };
    write().map_err(|error| {
        let _ = fs::remove_file(&temporary);
        OpenError::io(&temporary)(error)
    })?;
    Ok(Making {
        path,
        engine: E::NAME,
        _marker: marker,
        _earlier: earlier,
    })
}

/// Checks, with the new marker locked, that a store can be made in the folder `path`, because another process may have made
/// one since the caller looked. Returns the locked marker of an earlier attempt, if there is one.
fn confirm_free<E: FolderEngine>(
    path: &Path,
    earlier: Option<File>,
) -> Result<Option<File>, OpenError> {
    let earlier = match earlier {
        None => lock_earlier(path)?,
        locked => locked,
    };
    match inspect::<E>(path)? {
        Err(found) if found.is_free() => Ok(earlier),
        found => Err(occupied(path, found.err().unwrap_or(FolderContent::Store))),
    }
}

/// The most attempts of [`open_or_make`]. Each further one needs another process between two steps of the one before.
const MOST_ATTEMPTS: u32 = 100;

/// Opens the file `path` for writing, or makes it. Returns the file, and whether it is new. If several processes call
/// this at once, one of them makes the file, and all open the same, unless the file is renamed in between.
fn open_or_make(path: &Path) -> Result<(File, bool), OpenError> {
    for _ in 0..MOST_ATTEMPTS {
        match File::options().write(true).create_new(true).open(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => return made.map(|file| (file, true)).map_err(OpenError::io(path)),
        }
        match File::options().write(true).open(path) {
            // The process that made the file has renamed or removed it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            opened => {
                let opened = opened.map(|file| (file, false));
                return opened.map_err(OpenError::io(path));
            }
        }
    }
    // A link to a file that does not exist.
    Err(OpenError::io(path)(io::ErrorKind::NotFound.into()))
}

/// Opens and locks the marker of an earlier attempt in the folder `path`; `None` if there is none.
///
/// # Errors
/// [`OpenError::InUse`] if the attempt goes on; an error of the file system.
pub(crate) fn lock_earlier(path: &Path) -> Result<Option<File>, OpenError> {
    let marker = path.join(MARKER);
    match open_to_lock(&marker) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(OpenError::io(&marker)(error)),
        Ok(earlier) => {
            lock_named(&earlier, path)?;
            Ok(Some(earlier))
        }
    }
}

impl Making<'_> {
    /// Marks the folder as complete. Its database must be on disk. Returns the new marker, which is locked until the
    /// file is closed.
    pub(crate) fn finish(self) -> Result<File, OpenError> {
        let marker = complete(self.path, self.engine)?;
        // A process that began a store at the same time may have left this. A marker is complete without it.
        let _ = fs::remove_file(self.path.join(NEW_MARKER));
        Ok(marker)
    }
}

/// Replaces the marker of the folder `path`, which the caller has locked, by that of a complete store. Returns the new
/// marker, which is locked until the file is closed.
fn complete(path: &Path, engine: &str) -> Result<File, OpenError> {
    // No other process writes to a file of this name, because it would have to lock the marker first.
    let temporary = path.join(COMPLETE_MARKER);
    let write = || {
        let mut marker = File::create(&temporary).map_err(OpenError::io(&temporary))?;
        lock(&marker, path)?;
        let mut replace = || {
            marker.write_all(marker_text(engine, true).as_bytes())?;
            marker.sync_all()?;
            fs::rename(&temporary, path.join(MARKER))?;
            sync_folder(path)
        };
        replace().map_err(OpenError::io(&temporary))?;
        Ok(marker)
    };
    write().inspect_err(|_| {
        // If this fails too, the first error is enough.
        let _ = fs::remove_file(&temporary);
    })
}

/// Replaces the marker of the complete store `found` in the folder `path` by that of this version's format, if it is of
/// an earlier one. `held` is the marker, which is locked. Returns the locked marker.
pub(crate) fn upgrade<E: FolderEngine>(
    path: &Path,
    found: Found,
    held: File,
) -> Result<File, OpenError> {
    match found.format {
        FORMAT => Ok(held),
        _ => complete(path, E::NAME),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use fs4::fs_std::FileExt;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;
    use std::time::{Duration, Instant};

    /// A database without files.
    struct Nothing;

    impl FolderEngine for Nothing {
        const NAME: &'static str = "nothing";

        fn is_file(_: &str) -> bool {
            false
        }

        fn is_data(_: &str) -> bool {
            false
        }

        fn check(_: &Path) -> Result<(), OpenError> {
            Ok(())
        }
    }

    /// Another process may have put something into the folder since the caller looked.
    #[test]
    fn nothing_is_begun_in_a_folder_that_is_taken() {
        let home = tempfile::tempdir().unwrap();
        let of_letters = home.path().join("letters");
        fs::create_dir(&of_letters).unwrap();
        fs::write(of_letters.join("letter.txt"), b"dear").unwrap();
        let of_store = home.path().join("store");
        begin::<Nothing>(&of_store).unwrap().finish().unwrap();
        for folder in [&of_letters, &of_store] {
            let before = names(folder).unwrap();
            let refused = begin::<Nothing>(folder);
            assert!(matches!(refused, Err(OpenError::Occupied { .. })));
            assert_eq!(names(folder).unwrap(), before);
        }
        // A file that another process has begun stays.
        fs::write(of_letters.join(NEW_MARKER), b"").unwrap();
        assert!(begin::<Nothing>(&of_letters).is_err());
        assert!(of_letters.join(NEW_MARKER).exists());
    }

    /// Locks the marker in the folder `path` as others do; `false` if it is locked.
    fn lock_marker(path: &Path) -> bool {
        let marker = File::open(path.join(MARKER)).unwrap();
        marker.try_lock_exclusive().unwrap()
    }

    /// Repeats `attempt` until it succeeds, for a lock that nobody holds any more. A process that another test has just
    /// started has a copy of every file that is open here, until it runs its own program. So for a moment a lock may
    /// outlive its holder.
    fn released<T>(mut attempt: impl FnMut() -> Option<T>) -> T {
        let started = Instant::now();
        loop {
            if let Some(done) = attempt() {
                return done;
            }
            assert!(
                started.elapsed() < Duration::from_secs(60),
                "the marker stays locked"
            );
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn the_marker_stays_locked_when_the_store_is_complete() {
        let home = tempfile::tempdir().unwrap();
        let making = begin::<Nothing>(home.path()).unwrap();
        assert!(!lock_marker(home.path()));
        let held = making.finish().unwrap();
        assert!(inspect::<Nothing>(home.path()).unwrap().is_ok());
        assert!(!lock_marker(home.path()));
        assert_eq!(names(home.path()).unwrap(), [MARKER]);
        drop(held);
        released(|| lock_marker(home.path()).then_some(()));
    }

    /// Replaces the marker in the folder `path` while others try to lock it all the time. None of them succeeds.
    fn replace_watched(path: &Path, replace: impl FnOnce() -> Result<File, OpenError>) {
        let (watched, over) = (AtomicBool::new(false), AtomicBool::new(false));
        let (held, was_locked) = thread::scope(|scope| {
            let watcher = scope.spawn(|| {
                let mut was_locked = false;
                while !was_locked && !over.load(Ordering::SeqCst) {
                    // The marker that was opened may have been replaced before it is locked.
                    let marker = File::open(path.join(MARKER)).unwrap();
                    was_locked = lock_named(&marker, path).is_ok();
                    watched.store(true, Ordering::SeqCst);
                }
                was_locked
            });
            while !watched.load(Ordering::SeqCst) {
                thread::yield_now();
            }
            let held = replace();
            over.store(true, Ordering::SeqCst);
            (held, watcher.join().unwrap())
        });
        held.unwrap();
        assert!(!was_locked, "another locked the marker");
    }

    #[test]
    fn nobody_locks_the_marker_while_it_is_replaced() {
        for _ in 0..50 {
            let home = tempfile::tempdir().unwrap();
            let making = begin::<Nothing>(home.path()).unwrap();
            replace_watched(home.path(), || making.finish());
        }
    }

    #[test]
    fn nobody_locks_the_marker_while_it_is_upgraded() {
        for _ in 0..50 {
            let home = tempfile::tempdir().unwrap();
            let held = begin::<Nothing>(home.path()).unwrap().finish().unwrap();
            let earlier = Found { format: FORMAT - 1 };
            replace_watched(home.path(), || {
                upgrade::<Nothing>(home.path(), earlier, held)
            });
        }
    }

    /// Another makes the file and renames it, again and again.
    #[test]
    fn a_file_that_is_renamed_meanwhile_is_opened_or_made() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join(NEW_MARKER);
        let over = AtomicBool::new(false);
        let opened = thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::SeqCst) {
                    // The opener may have made the file, or this may have renamed its file.
                    let _ = File::create(&path);
                    let _ = fs::rename(&path, home.path().join(MARKER));
                }
            });
            let opened = (0..20_000).try_for_each(|_| open_or_make(&path).map(drop));
            over.store(true, Ordering::SeqCst);
            opened
        });
        opened.unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn a_link_to_nothing_is_an_error() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join(NEW_MARKER);
        std::os::unix::fs::symlink(home.path().join("absent"), &path).unwrap();
        let error = open_or_make(&path).unwrap_err();
        assert!(matches!(&error, OpenError::Io { .. }), "{error:?}");
        assert!(begin::<Nothing>(home.path()).is_err());
    }

    /// The marker may be shorter than what another program version has begun.
    #[test]
    fn a_long_beginning_of_a_marker_is_replaced() {
        let home = tempfile::tempdir().unwrap();
        let begun = marker_text("nothing", false).repeat(2);
        fs::write(home.path().join(NEW_MARKER), begun).unwrap();
        let _making = begin::<Nothing>(home.path()).unwrap();
        let marker = fs::read_to_string(home.path().join(MARKER)).unwrap();
        assert_eq!(marker, marker_text("nothing", false));
    }

    #[test]
    fn remains_of_a_marker_are_replaced() {
        let home = tempfile::tempdir().unwrap();
        drop(begin::<Nothing>(home.path()).unwrap());
        fs::write(home.path().join(COMPLETE_MARKER), "povmeter node").unwrap();
        for list in [FILE_LIST, NEW_FILE_LIST] {
            fs::write(home.path().join(list), "table 10\n").unwrap();
        }
        let found = inspect::<Nothing>(home.path()).unwrap();
        assert_eq!(found, Err(FolderContent::Unfinished));
        let making = released(|| match begin::<Nothing>(home.path()) {
            Err(OpenError::InUse { .. }) => None,
            begun => Some(begun.unwrap()),
        });
        fs::write(home.path().join(NEW_MARKER), "").unwrap();
        making.finish().unwrap();
        assert!(inspect::<Nothing>(home.path()).unwrap().is_ok());
        assert_eq!(names(home.path()).unwrap(), [MARKER]);
    }
}
