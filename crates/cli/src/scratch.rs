//! Folders, empty files and parts of files that a run removes at its end, also if a signal ends it.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};
use tempfile::{NamedTempFile, TempDir};

/// What the run made and has not removed yet, in the order of its making.
static MADE: Mutex<Vec<Made>> = Mutex::new(Vec::new());

/// A folder or a file that the run made.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Made {
    /// A folder, removed with its content.
    Folder(PathBuf),
    /// A folder that is removed only if it is empty.
    Empty(PathBuf),
    /// A file that is not whole yet.
    Part(PathBuf),
    /// A file that is removed only if it is empty.
    #[cfg(feature = "wasm")]
    EmptyFile(PathBuf),
}

impl Made {
    fn remove(&self) {
        match self {
            Self::Folder(path) => {
                // A thread of a database may add a file meanwhile.
                for _ in 0..10 {
                    if fs::remove_dir_all(path).is_ok() || !path.exists() {
                        break;
                    }
                }
            }
            Self::Empty(path) => {
                let _ = fs::remove_dir(path);
            }
            Self::Part(path) => {
                let _ = fs::remove_file(path);
            }
            #[cfg(feature = "wasm")]
            Self::EmptyFile(path) => {
                if fs::metadata(path).is_ok_and(|found| found.len() == 0) {
                    let _ = fs::remove_file(path);
                }
            }
        }
    }
}

fn made() -> MutexGuard<'static, Vec<Made>> {
    MADE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A temporary folder, removed with its content when this is dropped or a signal ends the run.
#[derive(Debug)]
pub(crate) struct ScratchFolder(TempDir);

impl ScratchFolder {
    /// A new folder in the system's folder for temporary files.
    ///
    /// # Errors
    /// That of the file system.
    pub(crate) fn new() -> io::Result<Self> {
        // Locked first, so that no signal is handled between making the folder and noting it.
        let mut made = made();
        let folder = tempfile::Builder::new().prefix("povmeter-").tempdir()?;
        made.push(Made::Folder(folder.path().to_owned()));
        Ok(Self(folder))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        // The lock makes a signal's handler wait until the folder is removed. `TempDir` is dropped later and
        // removes what is left.
        let mut made = made();
        let _ = fs::remove_dir_all(self.0.path());
        forget(&mut made, &Made::Folder(self.0.path().to_owned()));
    }
}

/// A folder that the run made for its results, and the folders above it that were missing. Dropping this removes
/// those that are empty, and so does a signal.
#[derive(Debug)]
pub(crate) struct EmptyFolder {
    /// Each folder after those above it.
    made: Vec<Noted>,
}

impl EmptyFolder {
    /// Makes the folder at `path`, and those above it.
    ///
    /// # Errors
    /// That of the file system. Then no new folder is left.
    pub(crate) fn new(path: &Path) -> io::Result<Self> {
        let mut folder = Self { made: Vec::new() };
        let missing = path.ancestors().take_while(|folder| {
            // The last ancestor of a relative path is empty.
            !folder.as_os_str().is_empty() && !folder.exists()
        });
        for path in missing.collect::<Vec<_>>().into_iter().rev() {
            let mut made = made();
            match fs::create_dir(path) {
                Ok(()) => {
                    let noted = Noted::new(&mut made, Made::Empty(path.to_owned()));
                    folder.made.push(noted);
                }
                // Another process has made it meanwhile, or it is `..` of a folder that was missing.
                Err(_) if path.is_dir() => (),
                Err(error) => {
                    // Dropping the folders needs the lock.
                    drop(made);
                    return Err(error);
                }
            }
        }
        // Something else has its name.
        if !path.is_dir() {
            fs::create_dir(path)?;
        }
        Ok(folder)
    }
}

impl Drop for EmptyFolder {
    fn drop(&mut self) {
        // A folder is empty only after what is in it is removed.
        while self.made.pop().is_some() {}
    }
}

/// A file that takes the place of another one once it is whole. Dropping this before removes it, and so does a signal.
#[derive(Debug)]
pub(crate) struct PartFile {
    file: NamedTempFile,
    /// Dropped after the file, which is gone then. So nothing is left to remove, and it is forgotten.
    #[expect(dead_code, reason = "held to be dropped")]
    noted: Noted,
}

impl PartFile {
    /// A new file, which `make` makes.
    ///
    /// # Errors
    /// That of `make`.
    pub(crate) fn new(make: impl FnOnce() -> io::Result<NamedTempFile>) -> io::Result<Self> {
        let mut made = made();
        let file = make()?;
        let noted = Noted::new(&mut made, Made::Part(file.path().to_owned()));
        Ok(Self { file, noted })
    }

    pub(crate) fn as_file_mut(&mut self) -> &mut File {
        self.file.as_file_mut()
    }

    /// Moves the file to `target`, in place of a file there.
    ///
    /// # Errors
    /// That of the file system; then a file at `target` is as it was.
    pub(crate) fn persist(self, target: &Path) -> io::Result<()> {
        self.file.persist(target)?;
        Ok(())
    }
}

/// A file that the run made for its results. Dropping this removes the file if it is empty, and so does a
/// signal.
#[cfg(feature = "wasm")]
#[derive(Debug)]
pub(crate) struct EmptyFile(Noted);

#[cfg(feature = "wasm")]
impl EmptyFile {
    /// Notes the file at `path`, which the run has made. No other process may take it for its own.
    pub(crate) fn new(path: &Path) -> Self {
        Self(Noted::new(&mut made(), Made::EmptyFile(path.to_owned())))
    }

    /// Leaves the file as it is, because it is a result also if it is empty.
    pub(crate) fn keep(self) {
        forget(&mut made(), &self.0 .0);
        std::mem::forget(self);
    }
}

/// Something that the run made and a signal removes. Dropping this removes it, too.
#[derive(Debug)]
struct Noted(Made);

impl Noted {
    fn new(made: &mut Vec<Made>, thing: Made) -> Self {
        made.push(thing.clone());
        Self(thing)
    }
}

impl Drop for Noted {
    fn drop(&mut self) {
        let mut made = made();
        self.0.remove();
        forget(&mut made, &self.0);
    }
}

fn forget(made: &mut Vec<Made>, gone: &Made) {
    made.retain(|other| other != gone);
}

/// Makes SIGINT, SIGTERM and SIGHUP remove what the run made, and end the program with 128 plus the number of
/// the signal, as a shell does. SIGHUP stays ignored if it is, because `nohup` ignores it.
///
/// # Errors
/// An error of the system if it accepts no handler or starts no thread.
#[cfg(unix)]
pub(crate) fn clean_up_on_signals() -> io::Result<()> {
    use std::sync::Arc;

    use signal_hook::{
        consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ},
        flag,
        iterator::Signals,
    };
    // With a handler, a file above the limit is an error of the write, and does not end the program.
    flag::register(SIGXFSZ, Arc::default())?;
    let hang_up = (!is_ignored(SIGHUP)).then_some(SIGHUP);
    let mut signals = Signals::new([SIGINT, SIGTERM].into_iter().chain(hang_up))?;
    let wait = move || {
        if let Some(signal) = signals.forever().next() {
            // The lock is kept, so that no folder is made any more.
            let made = made();
            // A folder is empty only after what was made in it later is removed.
            made.iter().rev().for_each(Made::remove);
            std::process::exit(128 + signal);
        }
    };
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(wait)
        .map(drop)
}

/// Whether the process ignores `signal`. Only Linux says it without unsafe code; elsewhere the answer is yes, so that
/// `nohup` works.
#[cfg(unix)]
fn is_ignored(signal: i32) -> bool {
    let ignored = || {
        let status = fs::read_to_string("/proc/self/status").ok()?;
        let set = status
            .lines()
            .find_map(|line| line.strip_prefix("SigIgn:"))?;
        let set = u64::from_str_radix(set.trim(), 16).ok()?;
        // Signals count from 1.
        Some(set >> (signal - 1) & 1 == 1)
    };
    ignored().unwrap_or(true)
}

/// Does nothing, because there are no signals to wait for.
///
/// # Errors
/// None.
#[cfg(not(unix))]
pub(crate) fn clean_up_on_signals() -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scratch_folder_goes_with_its_content() {
        let folder = ScratchFolder::new().unwrap();
        let path = folder.path().to_owned();
        fs::write(path.join("a"), "b").unwrap();
        assert!(made().contains(&Made::Folder(path.clone())));
        drop(folder);
        assert!(!path.exists());
        assert!(!made().contains(&Made::Folder(path)));
    }

    #[test]
    fn a_part_of_a_file_goes_unless_it_becomes_whole() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("whole");
        for whole in [false, true] {
            let file = PartFile::new(|| NamedTempFile::new_in(folder.path())).unwrap();
            let path = file.file.path().to_owned();
            // A signal removes it.
            assert!(made().contains(&Made::Part(path.clone())));
            match whole {
                true => file.persist(&target).unwrap(),
                false => drop(file),
            }
            assert!(!path.exists());
            assert_eq!(target.exists(), whole);
            assert!(!made().contains(&Made::Part(path)));
        }
    }

    #[cfg(feature = "wasm")]
    #[test]
    fn an_empty_file_goes_unless_it_is_a_result() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows");
        for (content, kept, stays) in [("", false, false), ("row", false, true), ("", true, true)] {
            fs::write(&path, content).unwrap();
            let file = EmptyFile::new(&path);
            if kept {
                file.keep();
            } else {
                drop(file);
            }
            assert_eq!(path.exists(), stays, "{content:?}, {kept}");
            assert!(!made().contains(&Made::EmptyFile(path.clone())));
        }
    }

    #[test]
    fn a_folder_for_results_stays_once_it_has_some() {
        let above = tempfile::tempdir().unwrap();
        let path = above.path().join("a/b");
        for made in ["a/b", "a/../c/b/", "a/b/../../d"] {
            drop(EmptyFolder::new(&above.path().join(made)).unwrap());
            assert_eq!(fs::read_dir(above.path()).unwrap().count(), 0, "{made}");
        }
        let folder = EmptyFolder::new(&path).unwrap();
        fs::write(path.join("page"), "").unwrap();
        drop(folder);
        assert!(path.join("page").exists());
        // Those that were there stay.
        drop(EmptyFolder::new(&above.path().join("a/c/d")).unwrap());
        assert!(path.exists() && !above.path().join("a/c").exists());
        // A folder that can't be made leaves none above it.
        let file = above.path().join("file");
        fs::write(&file, "").unwrap();
        EmptyFolder::new(&file).unwrap_err();
        EmptyFolder::new(&above.path().join("e/../file/f")).unwrap_err();
        assert!(!above.path().join("e").exists());
        assert!(made()
            .iter()
            .all(|made| !matches!(made, Made::Empty(folder) if folder.starts_with(above.path()))));
    }
}
