//! Folders with stores or with other content, and the errors that name the content.

use super::stores::DiskStore;
use super::{change, step};
use povmeter_store::{FolderContent, OpenError};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Every file below `path` with its content, and every folder with `None`.
pub(crate) fn snapshot(path: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(path).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(snapshot(&path));
            found.insert(path, None);
        } else {
            let content = fs::read(&path).unwrap();
            found.insert(path, Some(content));
        }
    }
    found
}

/// Returns the errors of opening and of making a store at `path`; checks that neither writes to the
/// folder.
pub(crate) fn refused<S: DiskStore>(path: &Path) -> (OpenError, OpenError) {
    let before = snapshot(path);
    let opened = S::open_at(path).unwrap_err();
    let either = S::open_or_create_at(path).unwrap_err();
    assert_eq!(opened.to_string(), either.to_string());
    let created = S::create_at(path).unwrap_err();
    assert_eq!(snapshot(path), before, "the folder was written to");
    (opened, created)
}

/// Returns the content that was found in place of a store.
pub(crate) fn not_a_store(error: OpenError) -> FolderContent {
    match error {
        OpenError::NotAStore { found, .. } => found,
        other => panic!("{other:?}"),
    }
}

/// Returns the content that was found where a store was to be made.
pub(crate) fn occupied(error: OpenError) -> FolderContent {
    match error {
        OpenError::Occupied { found, .. } => found,
        other => panic!("{other:?}"),
    }
}

/// A folder that holds a store at the root "first" with the node "a".
pub(crate) fn stored<S: DiskStore>() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    let mut store = S::create_at(home.path()).unwrap();
    store
        .commit(&step(&store, "first", vec![change("a", &[1], 1)]))
        .unwrap();
    home
}
