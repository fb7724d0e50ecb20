//! What a strategy does at a boundary.

use crate::{snapshot::Changed, snapshot::Seen, touched::Touch, trial::Trial};
use povmeter_dev_runtime::{
    BoundarySize, EstimateRecorder, Host, HostError, PeerBackend, PeerBlock, SplitRecorder,
};
use sp_core::{storage::ChildInfo, H256};
use sp_state_machine::{Backend, TrieBackendBuilder};

/// The state of a strategy between the boundaries of a block.
pub(crate) trait Estimator {
    /// Returns the size of the proof if `block` ended now; `None` if the strategy makes no estimates.
    /// `touches` are the changes since the last boundary.
    fn at_boundary(
        &mut self,
        touches: Vec<Touch>,
        block: &mut PeerBlock<SplitRecorder>,
    ) -> Result<Option<BoundarySize>, HostError>;
}

/// The size of the proof with the nodes that the estimates have noted so far.
pub(crate) fn noted_size(block: &PeerBlock<SplitRecorder>) -> BoundarySize {
    BoundarySize {
        recorded: block.recorded(),
        root_adds: block.recorder.root_adds(),
    }
}

/// Passes the changed keys of each boundary to a trial.
pub(crate) struct TrialEstimator {
    trial: Box<dyn Trial>,
    seen: Option<Seen>,
}

impl TrialEstimator {
    /// Passes every key that changed since the last boundary to `trial`.
    pub(crate) fn of_changes(trial: Box<dyn Trial>) -> Self {
        Self { trial, seen: None }
    }

    /// As [`Self::of_changes`], but passes a key again only if its fate changes from written to
    /// deleted or back.
    pub(crate) fn of_fates(trial: Box<dyn Trial>) -> Self {
        let seen = Some(Seen::default());
        Self { trial, seen }
    }
}

impl Estimator for TrialEstimator {
    fn at_boundary(
        &mut self,
        touches: Vec<Touch>,
        block: &mut PeerBlock<SplitRecorder>,
    ) -> Result<Option<BoundarySize>, HostError> {
        let changed = Changed::new(touches, &mut block.overlay);
        estimate(&changed, block, self.trial.as_mut(), self.seen.as_mut())?;
        Ok(Some(noted_size(block)))
    }
}

/// Passes the `changed` keys to `trial`: those of child tries first, then those of the top trie
/// together with the new roots of the child tries.
pub fn estimate(
    changed: &Changed,
    block: &mut PeerBlock<SplitRecorder>,
    trial: &mut dyn Trial,
    mut seen: Option<&mut Seen>,
) -> Result<(), HostError> {
    let values = trial.wants_values();
    let mut roots = Vec::new();
    for child in changed.children() {
        let changes = changed.of_child(child, &mut block.overlay, values, seen.as_deref_mut());
        if !changes.is_empty() {
            let parent = child_root(block, child)?;
            let root = trial.child(child, parent, &changes)?;
            let key = child.prefixed_storage_key().into_inner();
            roots.push((key, root.map(|root| root.as_bytes().to_vec())));
        }
    }
    let mut changes = changed.of_top(&mut block.overlay, values, seen);
    changes.extend(roots);
    changes.sort();
    trial.top(&changes)
}

/// Reads the root of a child trie from the parent state, without recording it.
fn child_root(
    block: &PeerBlock<SplitRecorder>,
    child: &ChildInfo,
) -> Result<Option<H256>, HostError> {
    let nodes = block.backend.backend_storage().clone();
    let silent: PeerBackend<EstimateRecorder> =
        TrieBackendBuilder::new_with_cache(nodes, *block.backend.root(), ())
            .with_optional_recorder(None)
            .with_optional_cache(None)
            .build();
    let key = child.prefixed_storage_key();
    let root = silent.storage(key.as_slice()).map_err(HostError::state)?;
    root.map(|root| {
        let bytes = <[u8; 32]>::try_from(&root[..]);
        bytes.map(Into::into).map_err(|_| {
            HostError::state(format!(
                "expected a child root of 32 bytes, found {}",
                root.len()
            ))
        })
    })
    .transpose()
}
