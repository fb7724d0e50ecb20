//! Copies a store into another.

use crate::disk::DiskStore;
use crate::engine::{self, Batch, Engine};
use crate::history::KeptStates;
use crate::journal::{diff_key, history_record, state_key, state_record, HISTORY_KEY};
use crate::net::NetChange;
use crate::open_error::OpenError;
use crate::progress::{Progress, PROGRESS_STEPS};
use crate::StoreError;
use bytes::Bytes;
use std::ops::ControlFlow;
use std::path::{Component, Path, PathBuf};

/// Bytes of nodes that are copied in one write.
const CHUNK_BYTES: usize = 4 << 20;

/// Why a store was not copied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// The folder for the copy is taken, or can not be written.
    #[error("{0}")]
    Open(#[source] OpenError),
    /// The folder for the copy is in that of the store, and would be lost with it.
    #[error("{}: expected a folder outside of the store in {}, found one in it", path.display(), store.display())]
    Inside {
        /// Folder for the copy.
        path: PathBuf,
        /// Folder of the store.
        store: PathBuf,
    },
    /// The store can not be read, or the copy can not be written.
    #[error("the copy is not complete: {0}")]
    Store(#[source] StoreError),
}

/// Checks that the folder `path`, which may be absent, is not in the folder `store`.
pub(crate) fn expect_outside(store: &Path, path: &Path) -> Result<(), BackupError> {
    let canonical = store.canonicalize();
    let home = canonical.map_err(|error| BackupError::Open(OpenError::io(store)(error)))?;
    let is_store = path.canonicalize().is_ok_and(|path| path == home);
    match will_be_at(path).starts_with(&home) && !is_store {
        true => Err(BackupError::Inside {
            path: path.to_owned(),
            store: store.to_owned(),
        }),
        // That the folder is the store's own is another error.
        false => Ok(()),
    }
}

/// Returns where `path` will be once its folders are made: without links, and without `..`, which may also follow a
/// folder that does not exist yet.
fn will_be_at(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut place = PathBuf::new();
    for part in absolute.components() {
        match part {
            Component::ParentDir => drop(place.pop()),
            part => place.push(part),
        }
        place = place.canonicalize().unwrap_or(place);
    }
    place
}

/// Copies all nodes and states of `from` into `into`, which is a new store.
pub(crate) fn copy(
    from: &mut impl DiskStore,
    into: &mut impl Engine,
    progress: Progress<'_>,
) -> Result<(), StoreError> {
    let (mut copied, mut bytes) = (0_u64, 0);
    let mut batch = Batch::default();
    let mut done = Ok(());
    from.each_sound_node(&mut |node| {
        if done.is_err() {
            return ControlFlow::Break(());
        }
        bytes += node.encoded.len();
        batch.nodes.push(NetChange::Gain {
            hash: node.hash,
            references: node.references,
            encoded: Bytes::copy_from_slice(node.encoded),
        });
        if bytes >= CHUNK_BYTES {
            bytes = 0;
            done = into.write(std::mem::take(&mut batch));
        }
        copied += 1;
        if copied.is_multiple_of(PROGRESS_STEPS) {
            progress(copied);
        }
        match done {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    })?;
    done?;
    let kept = from.kept().clone();
    batch.records = records(from, &kept)?;
    into.write(batch)?;
    *into.kept_mut() = kept;
    progress(copied);
    Ok(())
}

/// A record: its key and its value.
type Record = (Vec<u8>, Option<Vec<u8>>);

/// The records about the states `kept` of `from`.
fn records(from: &impl Engine, kept: &KeptStates) -> Result<Vec<Record>, StoreError> {
    let mut records = vec![(
        HISTORY_KEY.to_vec(),
        Some(history_record(kept.base(), kept.next())),
    )];
    for state in kept.iter() {
        // The base has neither record.
        let Some(parent) = state.parent else { continue };
        let named = state_record(parent, state.height, state.root);
        // Fails if the journal is damaged.
        let diff = engine::diff(from, state.id)?.record();
        records.push((state_key(state.id), Some(named)));
        records.push((diff_key(state.id), Some(diff)));
    }
    Ok(records)
}
