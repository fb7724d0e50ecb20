//! Files that a command writes at its end, checked before its work begins.
//!
//! ```text
//! open     before the work: the file can be written, and is missing, empty, or an earlier one of its kind
//! write    after the result was printed: into a file beside it, which then takes its place, so that a
//!          full disk leaves an earlier file as it was
//! ```

use crate::scratch::PartFile;
use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    path::{Component, Path, PathBuf},
};

/// Bytes at the beginning of an existing file that tell its kind.
const HEAD: u64 = 4096;

/// Why a file can't be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum OutputFileError {
    /// The path is a folder.
    #[error("{}: expected a file to write {} to, found a folder", path.display(), quoted(option))]
    Folder { option: &'static str, path: PathBuf },
    /// A file of another kind would be lost.
    #[error("{}: expected no file for {}, or one that povmeter wrote for it, found another", path.display(), quoted(option))]
    NotOurs { option: &'static str, path: PathBuf },
    /// Two options name one file.
    #[error("{}: expected one file for each option, found it for `{first}` and `{second}`", path.display())]
    Twice {
        first: &'static str,
        second: &'static str,
        path: PathBuf,
    },
    /// The file system refuses.
    #[error("{}: can't write {}: {source}", path.display(), content(option))]
    Write {
        option: &'static str,
        path: PathBuf,
        source: io::Error,
    },
}

/// The option in quotes, or the words for a file that no option names.
fn quoted(option: &str) -> String {
    match option.starts_with("--") {
        true => format!("`{option}`"),
        false => option.to_owned(),
    }
}

/// What is written to the file, in words.
fn content(option: &str) -> String {
    let name = quoted(option);
    match name == option {
        true => name,
        false => format!("the file for {name}"),
    }
}

/// A file to be written.
#[derive(Clone, Debug)]
pub(crate) struct OutputFile {
    option: &'static str,
    path: PathBuf,
    /// Whether it is a regular file. A device or a pipe is written in place.
    regular: bool,
}

impl OutputFile {
    /// Checks the file at `path`, which the user named by `option`; or `option` says in words what the file holds.
    /// An existing file must be empty, or
    /// `is_ours` must accept its beginning.
    ///
    /// # Errors
    /// An [`OutputFileError`]; then nothing has been changed.
    pub(crate) fn open(
        option: &'static str,
        path: &Path,
        is_ours: impl Fn(&str) -> bool,
    ) -> Result<Self, OutputFileError> {
        let path = path.to_owned();
        let failed = |source| OutputFileError::Write {
            option,
            path: path.clone(),
            source,
        };
        let regular = match fs::metadata(&path) {
            Ok(found) if found.is_dir() => return Err(OutputFileError::Folder { option, path }),
            Ok(found) => found.is_file(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                make_and_remove(&path).map_err(failed)?;
                return Ok(Self {
                    option,
                    path,
                    regular: true,
                });
            }
            Err(error) => return Err(failed(error)),
        };
        if regular {
            let head = head(&path).map_err(failed)?;
            if !head.is_empty() && !is_ours(&head) {
                return Err(OutputFileError::NotOurs { option, path });
            }
            OpenOptions::new()
                .append(true)
                .open(&path)
                .map_err(failed)?;
            make_beside(&behind_links(&path)).map_err(failed)?;
        }
        Ok(Self {
            option,
            path,
            regular,
        })
    }

    /// Writes the file.
    ///
    /// # Errors
    /// [`OutputFileError::Write`]; then an earlier regular file is as it was.
    pub(crate) fn write(&self, content: &[u8]) -> Result<(), OutputFileError> {
        let written = match self.regular {
            true => replace(&self.path, content),
            false => OpenOptions::new()
                .write(true)
                .open(&self.path)
                .and_then(|mut file| file.write_all(content)),
        };
        written.map_err(|source| OutputFileError::Write {
            option: self.option,
            path: self.path.clone(),
            source,
        })
    }
}

/// Checks that no two of these files, each with the option that names it, are the same.
///
/// # Errors
/// [`OutputFileError::Twice`] if two are the same.
pub(crate) fn expect_distinct(files: &[(&'static str, &Path)]) -> Result<(), OutputFileError> {
    let places: Vec<_> = files.iter().map(|(_, path)| place(path)).collect();
    for (at, (second, path)) in files.iter().enumerate() {
        if let Some(earlier) = places[..at].iter().position(|place| *place == places[at]) {
            // Writing to a device twice overwrites nothing.
            if fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
                continue;
            }
            return Err(OutputFileError::Twice {
                first: files[earlier].0,
                second,
                path: path.to_path_buf(),
            });
        }
    }
    Ok(())
}

/// The absolute path without dots, and without links as far as it exists. A folder that does not exist may be made, so
/// `..` behind it leads back to the folder that it is in.
pub(crate) fn place(path: &Path) -> PathBuf {
    let path = match path.as_os_str().is_empty() {
        true => Path::new("."),
        false => path,
    };
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut place = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => (),
            // What is before it has no links any more.
            Component::ParentDir => {
                place.pop();
            }
            part => {
                place.push(part);
                place = place.canonicalize().unwrap_or(place);
            }
        }
    }
    place
}

/// Writes `content` into a file beside `path`, and moves that file to `path`.
///
/// # Errors
/// That of the file system; then a file at `path` is as it was.
pub(crate) fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    replace_by(path, |file| file.write_all(content))
}

/// Does the same as [`replace`] with the content that `write` writes.
///
/// # Errors
/// That of the file system or of `write`; then a file at `path` is as it was.
pub(crate) fn replace_by(
    path: &Path,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    let target = behind_links(path);
    let mut file = make_beside(&target)?;
    write(file.as_file_mut())?;
    if let Ok(earlier) = fs::metadata(&target) {
        file.as_file_mut().set_permissions(earlier.permissions())?;
    }
    // Errors of a full disk may come this late.
    file.as_file_mut().sync_all()?;
    file.persist(&target)
}

/// The file that is replaced for `path`: the one behind a link, so that the link stays.
fn behind_links(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// A new file in the folder of `path`, removed when it is dropped or a signal ends the run.
fn make_beside(path: &Path) -> io::Result<PartFile> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let mut builder = tempfile::Builder::new();
    builder.prefix(".povmeter-");
    // The permissions of ordinary files; the default of `tempfile` is for secrets.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    PartFile::new(|| builder.tempfile_in(folder.unwrap_or(Path::new("."))))
}

/// Makes the file at `path` and removes it at once, which shows that it can be made.
fn make_and_remove(path: &Path) -> io::Result<()> {
    OpenOptions::new().write(true).create_new(true).open(path)?;
    fs::remove_file(path)
}

/// The beginning of the file at `path`.
fn head(path: &Path) -> io::Result<String> {
    let mut head = Vec::new();
    File::open(path)?.take(HEAD).read_to_end(&mut head)?;
    Ok(String::from_utf8_lossy(&head).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(path: &Path) -> Result<OutputFile, OutputFileError> {
        OutputFile::open("--folded", path, |head| head.starts_with("ours"))
    }

    #[test]
    fn files_of_others_are_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let file = open(&path).unwrap();
        assert!(!path.exists(), "not before there is something to write");
        file.write(b"ours 1").unwrap();
        open(&path).unwrap().write(b"ours 2").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "ours 2");
        for content in ["dear diary", "\0"] {
            fs::write(&path, content).unwrap();
            assert!(matches!(open(&path), Err(OutputFileError::NotOurs { .. })));
            assert_eq!(fs::read_to_string(&path).unwrap(), content);
        }
        // An empty file, as `mktemp` makes it.
        fs::write(&path, "").unwrap();
        open(&path).unwrap();
        // Nothing is left beside it.
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_can_not_be_written_is_an_error_at_once() {
        let folder = tempfile::tempdir().unwrap();
        assert!(matches!(
            open(folder.path()),
            Err(OutputFileError::Folder { .. })
        ));
        let no_folder = open(&folder.path().join("none/file"));
        assert!(matches!(no_folder, Err(OutputFileError::Write { .. })));
        let too_long = open(&folder.path().join("a".repeat(300)));
        assert!(matches!(too_long, Err(OutputFileError::Write { .. })));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[cfg(unix)]
    #[test]
    fn a_place_has_no_links_and_no_dots() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().canonicalize().unwrap();
        fs::create_dir_all(at.join("a/b")).unwrap();
        std::os::unix::fs::symlink(at.join("a/b"), at.join("link")).unwrap();
        for (path, expected) in [
            ("new/../a", "a"),
            ("new/../link/c", "a/b/c"),
            ("link/../c", "a/c"),
            ("link/new/../../c/", "a/c"),
            ("new/.././d/e", "d/e"),
        ] {
            assert_eq!(place(&at.join(path)), at.join(expected), "{path}");
        }
        let here = Path::new(".").canonicalize().unwrap();
        for path in ["", ".", "new/.."] {
            assert_eq!(place(Path::new(path)), here, "{path}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn links_and_permissions_stay() {
        use std::os::unix::fs::{symlink, PermissionsExt};
        let folder = tempfile::tempdir().unwrap();
        let [file, link] = ["file", "link"].map(|name| folder.path().join(name));
        fs::write(&file, "ours").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        symlink(&file, &link).unwrap();
        open(&link).unwrap().write(b"ours new").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&file).unwrap(), "ours new");
        let mode = fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
    }

    /// The early check is of the folder of the file, and not of the link's, where nothing is written. Nobody can write to
    /// this one.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_link_in_a_folder_that_can_not_be_written_is_followed() {
        use std::os::fd::AsRawFd;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "ours").unwrap();
        let file = File::open(&path).unwrap();
        let link = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        open(&link).unwrap().write(b"ours new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "ours new");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_an_error() {
        let file = open(Path::new("/dev/full")).unwrap();
        let error = file.write(b"more").unwrap_err().to_string();
        assert!(
            error.contains("/dev/full: can't write the file for `--folded`: No space left"),
            "{error}"
        );
    }

    #[test]
    fn one_file_for_two_options_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let [a, b] = ["a", "b"].map(|name| path.join(name));
        assert!(expect_distinct(&[("--folded", &a), ("--flamegraph", &b)]).is_ok());
        let same = path.join(".").join("a");
        // A folder that is missing may be made meanwhile.
        let behind_new = path.join("new/./more/../../a");
        for second in [&a, &same, &behind_new] {
            let error = expect_distinct(&[("--folded", &a), ("--flamegraph", second)]);
            let error = error.unwrap_err().to_string();
            assert!(error.contains("`--folded` and `--flamegraph`"), "{error}");
        }
    }
}
