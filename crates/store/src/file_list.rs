//! The list of a database's files, with which a store detects missing files when it is opened.
//!
//! A line is a name and a length. Most files that hold data do not become shorter, so a file must have at
//! least its listed length the next time.

use crate::folder::{names, read_small, replace_file, FolderEngine};
use crate::open_error::OpenError;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Name of the list.
pub(crate) const FILE_LIST: &str = "povmeter-files";
/// Name under which a list is written first.
pub(crate) const NEW_FILE_LIST: &str = "povmeter-files.new";

/// A file of the database, and its length.
pub(crate) type ListedFile = (String, u64);

/// The list of an open store. A store drops it after the database, so that the last list has the lengths of
/// the closed files.
#[derive(Debug)]
pub(crate) struct FileList<E: FolderEngine> {
    path: PathBuf,
    /// Names of the files with data when the list was last written.
    listed: Vec<String>,
    engine: PhantomData<E>,
}

impl<E: FolderEngine> FileList<E> {
    /// Makes the list of the folder `path` without writing it.
    pub(crate) fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            listed: Vec::new(),
            engine: PhantomData,
        }
    }

    /// Writes the list if the names of the files with data have changed. Ignores errors, because the list
    /// only helps the next time that the store is opened.
    pub(crate) fn update(&mut self) {
        self.update_those(|_| true);
    }

    /// As [`Self::update`], of the files whose names `is_whole` returns `true` for.
    pub(crate) fn update_those(&mut self, is_whole: impl Fn(&str) -> bool) {
        let Ok(mut files) = list_files::<E>(&self.path) else {
            return;
        };
        files.retain(|(name, _)| is_whole(name));
        let data = files.iter().filter(|(name, _)| E::is_data(name));
        let names: Vec<_> = data.map(|(name, _)| name.clone()).collect();
        if names != self.listed && write_list(&self.path, &files).is_ok() {
            self.listed = names;
        }
    }
}

impl<E: FolderEngine> Drop for FileList<E> {
    fn drop(&mut self) {
        self.listed.clear();
        self.update();
    }
}

/// Writes the list of the files that are in the folder `path` now.
#[cfg(feature = "rocksdb")]
pub(crate) fn rewrite_list<E: FolderEngine>(path: &Path) -> Result<(), OpenError> {
    write_list(path, &list_files::<E>(path)?)
}

fn write_list(path: &Path, files: &[ListedFile]) -> Result<(), OpenError> {
    let lines = files
        .iter()
        .map(|(name, bytes)| format!("{name} {bytes}\n"));
    replace_file(path, FILE_LIST, &lines.collect::<String>())
}

/// The files in the folder `path` that `E` makes, sorted by name.
pub(crate) fn list_files<E: FolderEngine>(path: &Path) -> Result<Vec<ListedFile>, OpenError> {
    let mut files = Vec::new();
    for name in names(path)?.into_iter().filter(|name| E::is_file(name)) {
        let file = path.join(&name);
        match fs::metadata(&file) {
            Ok(metadata) => files.push((name, metadata.len())),
            // The database removed the file meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(OpenError::io(&file)(error)),
        }
    }
    Ok(files)
}

/// Checks that each listed file with data is in the folder `path` and not shorter than listed, and returns
/// all files found. A fault is ignored if `is_fine` says so, which gets the listed file, its length if it
/// exists, and all files found.
///
/// If the list is missing or not text, no file is expected.
pub(crate) fn check_list<E: FolderEngine>(
    path: &Path,
    is_fine: impl Fn(&ListedFile, Option<u64>, &[ListedFile]) -> bool,
) -> Result<Vec<ListedFile>, OpenError> {
    let text = read_small(&path.join(FILE_LIST))?.unwrap_or_default();
    let found = list_files::<E>(path)?;
    for line in text.lines() {
        let listed = line.split_once(' ');
        let Some((name, Ok(bytes))) = listed.map(|(name, bytes)| (name, bytes.parse::<u64>()))
        else {
            continue;
        };
        let length = found.iter().find(|(found, _)| found == name);
        let length = length.map(|(_, length)| *length);
        let is_whole = length.is_some_and(|length| length >= bytes);
        if !E::is_data(name) || is_whole || is_fine(&(name.to_owned(), bytes), length, &found) {
            continue;
        }
        let expected = format!("the file `{name}` of {bytes} bytes or more");
        return Err(OpenError::damaged(path, expected, length_text(length)));
    }
    Ok(found)
}

/// Names the length of a file; `None` for a file that does not exist.
pub(crate) fn length_text(length: Option<u64>) -> String {
    length.map_or("no such file".to_owned(), |length| {
        format!("{length} bytes")
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// A database whose tables have names that begin with `t`, and whose logs begin with `l`.
    struct Tables;

    impl FolderEngine for Tables {
        const NAME: &'static str = "tables";

        fn is_file(name: &str) -> bool {
            Self::is_data(name) || name.starts_with('l')
        }

        fn is_data(name: &str) -> bool {
            name.starts_with('t')
        }

        fn check(_: &Path) -> Result<(), OpenError> {
            Ok(())
        }
    }

    fn checked(path: &Path) -> Result<(), String> {
        let checked = check_list::<Tables>(path, |_, _, _| false);
        checked.map(drop).map_err(|error| match error {
            OpenError::Damaged {
                expected, found, ..
            } => format!("{expected}: {found}"),
            error => panic!("{error}"),
        })
    }

    #[test]
    fn a_file_of_data_is_as_long_as_listed_or_longer() {
        let home = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: usize| {
            fs::write(home.path().join(name), vec![1; bytes]).unwrap();
        };
        let list = || fs::read_to_string(home.path().join(FILE_LIST)).unwrap();
        for name in ["l", "t1", "other"] {
            write(name, 10);
        }
        let mut files = FileList::<Tables>::new(home.path());
        files.update();
        assert_eq!(list(), "l 10\nt1 10\n");
        assert_eq!(checked(home.path()), Ok(()));
        let refused = |found: &str| Err(format!("the file `t1` of 10 bytes or more: {found}"));
        write("t1", 9);
        assert_eq!(checked(home.path()), refused("9 bytes"));
        fs::remove_file(home.path().join("t1")).unwrap();
        assert_eq!(checked(home.path()), refused("no such file"));
        write("t1", 30);
        assert_eq!(checked(home.path()), Ok(()));
        // A log becomes shorter when the database has applied it.
        fs::remove_file(home.path().join("l")).unwrap();
        assert_eq!(checked(home.path()), Ok(()));
        // The list is written again for a new file, and when the files are closed.
        files.update();
        assert_eq!(list(), "l 10\nt1 10\n");
        write("t2", 20);
        files.update();
        assert_eq!(list(), "t1 30\nt2 20\n");
        write("t2", 40);
        files.update();
        assert_eq!(list(), "t1 30\nt2 20\n");
        drop(files);
        assert_eq!(list(), "t1 30\nt2 40\n");
    }
}
