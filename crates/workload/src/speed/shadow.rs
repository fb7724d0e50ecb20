//! Our side: the shadow trie of one block, with what counts its nodes.

use super::state::BigState;
use crate::povmeter_host::SharedNodes;
use povmeter::{Changes, LoadError, RootError, RootUpdate, ShadowState, StateVersion, TrieId};
use povmeter_delta_root::{state_update_of_loaded, Fate, Hashing, TrieHandle};
use povmeter_pov_estimate::{Estimator, EstimatorMark, Recorder, RecorderMark};

/// A changed key; `None` deletes it.
pub(super) type Change = (Vec<u8>, Option<Vec<u8>>);

/// Estimates of one block.
pub(super) struct Shadow {
    state: ShadowState<SharedNodes>,
    recorder: Recorder,
    estimator: Estimator,
}

impl Shadow {
    pub(super) fn new(state: &BigState) -> Self {
        Self::hashed_by(state, Hashing::best())
    }

    /// As [`Self::new`], with the root hashed by `hashing`.
    pub(super) fn hashed_by(state: &BigState, hashing: Hashing) -> Self {
        let state = ShadowState::new(state.nodes.clone(), state.root);
        Self {
            state: state.with_hashing(hashing),
            recorder: Recorder::default(),
            estimator: Estimator::default(),
        }
    }

    /// Reads the values, as a runtime does before it writes them.
    pub(super) fn read(&mut self, changes: &[Change]) -> Result<(), LoadError> {
        for (key, _) in changes {
            self.state
                .value(TrieId::Top, key, &mut self.recorder.reading())?;
        }
        Ok(())
    }

    /// One boundary; returns the bytes counted so far.
    pub(super) fn estimate(&mut self, changes: &[Change]) -> Result<u64, LoadError> {
        let observer = &mut self.recorder.estimating();
        for (key, value) in changes {
            let fate = match value {
                Some(_) => Fate::Written,
                None => Fate::Deleted,
            };
            let top = TrieHandle::TOP;
            self.estimator
                .mark_key(&mut self.state, top, key, fate, observer)?;
        }
        self.estimator.settle(&mut self.state, observer)?;
        Ok(self.recorder.size().total_bytes())
    }

    /// The root update of `changes`, sorted and estimated before.
    pub(super) fn update(
        &mut self,
        changes: &[Change],
        version: StateVersion,
    ) -> Result<RootUpdate, RootError> {
        state_update_of_loaded(&mut self.state, &Self::changes(changes), version)
    }

    /// The `changes` as those of a state.
    pub(super) fn changes(changes: &[Change]) -> Changes<'_> {
        let top = changes.iter();
        let top = top.map(|(key, value)| (key.as_slice(), value.as_deref()));
        Changes {
            top: top.collect(),
            children: Vec::new(),
        }
    }

    pub(super) fn mark(&self) -> (RecorderMark, EstimatorMark) {
        (self.recorder.mark(), self.estimator.mark())
    }

    /// Takes back all counts since `mark`.
    pub(super) fn roll_back(&mut self, (recorder, estimator): (RecorderMark, EstimatorMark)) {
        self.recorder.roll_back_roots(recorder, self.state.table());
        self.estimator.roll_back(estimator);
    }

    /// Nodes loaded, and bytes of their arenas.
    pub(super) fn loaded(&self) -> (usize, usize) {
        (self.state.loaded_nodes(), self.state.arena_bytes())
    }
}
