//! Copies a store into another.

use crate::engine::{Batch, Engine};
use crate::history::{KeptStates, StateId};
use crate::journal::{diff_key, history_record, state_key, HISTORY_KEY};
use crate::net::NetChange;
use crate::open_error::OpenError;
use crate::progress::{Progress, PROGRESS_STEPS};
use crate::stored::StoredNodes;
use crate::StoreError;
use bytes::Bytes;
use std::ops::ControlFlow;

/// Bytes of nodes that are copied in one write.
const CHUNK_BYTES: usize = 4 << 20;

/// Why a store was not copied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// The folder for the copy is taken, or can not be written.
    #[error("{0}")]
    Open(#[source] OpenError),
    /// The store can not be read, or the copy can not be written.
    #[error("the copy is not complete: {0}")]
    Store(#[source] StoreError),
}

/// Copies all nodes and states of `from` into `into`, which is a new store.
pub(crate) fn copy(
    from: &mut (impl Engine + StoredNodes),
    into: &mut impl Engine,
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
            let kept = into.kept().clone();
            done = into.write(std::mem::take(&mut batch), kept);
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
    into.write(batch, kept)?;
    progress(copied);
    Ok(())
}

/// A record: its key and its value.
type Record = (Vec<u8>, Option<Vec<u8>>);

/// The records about the states `kept` of `from`.
fn records(from: &impl Engine, kept: &KeptStates) -> Result<Vec<Record>, StoreError> {
    let mut records = vec![(HISTORY_KEY.to_vec(), Some(history_record(kept)))];
    for state in &kept.others {
        for key in [state_key(state.id), diff_key(state.id)] {
            let Some(record) = from.record(&key)? else {
                return Err(damaged(state.id));
            };
            records.push((key, Some(record)));
        }
    }
    Ok(records)
}

fn damaged(id: StateId) -> StoreError {
    StoreError::DamagedRecord {
        key: format!("state {id}"),
        bytes: 0,
    }
}
