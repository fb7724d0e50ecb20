//! Copies a store into another.

use crate::disk::DiskStore;
use crate::engine::{self, Batch};
use crate::history::{KeptStates, StateId};
use crate::journal::{diff_key, state_key, state_record};
use crate::net::NetChange;
use crate::open_error::OpenError;
use crate::progress::{Progress, PROGRESS_STEPS};
use crate::walk::{NodeFault, Walk};
use crate::StoreError;
use bytes::Bytes;
use povmeter_delta_root::{Blake2b256, NodeHash, NodeSource, Root};
use std::ops::ControlFlow;
use std::path::{Component, Path, PathBuf};

/// Bytes of nodes or of records that are copied in one write.
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

/// Copies all nodes and states of `from` into `into`, which is a new store, and checks that the copy has every node of
/// every kept state: a database may list fewer nodes than it should if it is damaged.
pub(crate) fn copy<S: DiskStore>(
    from: &mut S,
    into: &mut S,
    progress: Progress<'_>,
) -> Result<(), StoreError> {
    let (mut copied, mut bytes) = (0_u64, 0);
    let mut batch = Batch::default();
    let mut done = Ok(());
    from.each_node(&mut |node| {
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
    into.write(batch)?;
    let kept = from.kept().clone();
    let base = kept.base();
    expect_places(into, base.id, base.root, &mut || progress(copied))?;
    copy_states(from, into, &kept)?;
    *into.kept_mut() = kept;
    progress(copied);
    Ok(())
}

/// Checks that `copy` has the node at each place of the state `id`. Calls `step` now and then.
fn expect_places(
    copy: &impl NodeSource,
    id: StateId,
    root: Root,
    step: &mut dyn FnMut(),
) -> Result<(), StoreError> {
    let mut walk = Walk::new(copy, root);
    let mut places = 0_u64;
    while let Some((place, found)) = walk.enter() {
        found.map_err(|fault| StoreError::DamagedNode {
            state: id,
            hash: place.hash,
            fault,
        })?;
        places += 1;
        if places.is_multiple_of(PROGRESS_STEPS) {
            step();
        }
    }
    Ok(())
}

/// Copies the records about the states `kept` of `from`, and checks that `into` has the nodes that the states add. There
/// may be many states if no block was final for long, so they are written in several batches. Nobody reads them before
/// all are there.
fn copy_states<S: DiskStore>(from: &S, into: &mut S, kept: &KeptStates) -> Result<(), StoreError> {
    let mut batch = Batch::default();
    for state in kept.iter() {
        // The base has neither record.
        let Some(parent) = state.parent else { continue };
        let named = state_record(parent, state.height, state.root);
        // Fails if the journal is damaged.
        let diff = engine::diff(from, state.id)?;
        for (hash, _) in &diff.gains {
            expect_node(into, state.id, hash)?;
        }
        batch.records.push((state_key(state.id), Some(named)));
        batch
            .records
            .push((diff_key(state.id), Some(diff.record())));
        if batch.bytes() >= CHUNK_BYTES {
            into.write(std::mem::take(&mut batch))?;
        }
    }
    into.write(batch)?;
    into.write(Batch::of_states(kept))
}

/// Checks that `copy` has the node `hash` of the state `id`.
fn expect_node(copy: &impl NodeSource, id: StateId, hash: &NodeHash) -> Result<(), StoreError> {
    // The store keys nodes by hash alone.
    let fault = match copy.node(hash, (&[], None)) {
        Ok(Some(node)) => match Blake2b256::hash(&node) {
            found if found == *hash => return Ok(()),
            found => NodeFault::Hash { found },
        },
        Ok(None) => NodeFault::Missing,
        Err(error) => NodeFault::Source(error),
    };
    Err(StoreError::DamagedNode {
        state: id,
        hash: *hash,
        fault,
    })
}
