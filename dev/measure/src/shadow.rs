//! Our side: the shadow trie of one block, with its recorder and estimator.

use super::state::BigState;
use povmeter::{LoadError, RootError, RootUpdate, StateVersion, TrieId};
use povmeter_delta_root::{state_update_of_loaded, Fate, ShadowScratch, TrieHandle};
use povmeter_delta_root::{Changes, ShadowState};
use povmeter_dev_oracle::RootMode;
use povmeter_dev_runtime::SharedNodes;
use povmeter_pov_estimate::{ChangedKey, Estimator, EstimatorMark, Recorder, RecorderMark};
use std::collections::HashMap;

/// A changed key and its value; `None` deletes it.
pub(super) type Change = (Vec<u8>, Option<Vec<u8>>);

/// A changed key with its number in the block.
pub(super) type Numbered<'a> = (u32, &'a Change);

/// Estimates of one block.
pub(super) struct Shadow {
    numbers: HashMap<Vec<u8>, u32>,
    state: ShadowState<SharedNodes>,
    recorder: Recorder,
    estimator: Estimator,
}

/// Memory of a finished block, for the next one.
#[derive(Default)]
pub(super) struct Memory {
    state: ShadowScratch,
    recorder: Recorder,
    estimator: Estimator,
}

impl Memory {
    /// Also takes back the memory of `update`, as a pool does after a commit.
    pub(super) fn recycle(&mut self, update: RootUpdate) {
        self.state.recycle(update);
    }
}

/// Number of keys and nodes for which memory is kept.
const KEPT: usize = 1 << 16;

impl Shadow {
    /// Makes a shadow trie in the memory of an earlier block, as a `BlockPool` does.
    pub(super) fn new(state: &BigState, memory: Memory) -> Self {
        Self {
            numbers: HashMap::new(),
            state: ShadowState::in_scratch(state.nodes.clone(), state.root, memory.state),
            recorder: memory.recorder,
            estimator: memory.estimator,
        }
    }

    /// As [`Self::new`], with the root computed in `mode`.
    pub(super) fn in_mode(state: &BigState, mode: &RootMode, memory: Memory) -> Self {
        let shadow = Self::new(state, memory);
        let state = mode.prepare(shadow.state);
        Self { state, ..shadow }
    }

    /// Empties the block and returns its memory.
    pub(super) fn into_memory(mut self) -> Memory {
        self.recorder.reset(KEPT);
        self.estimator.reset(KEPT);
        Memory {
            state: self.state.into_scratch(),
            recorder: self.recorder,
            estimator: self.estimator,
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

    /// Numbers the keys of the changes, as an overlay does.
    pub(super) fn number<'a>(&mut self, changes: &'a [Change]) -> Vec<Numbered<'a>> {
        let mut number = |key: &Vec<u8>| {
            let next = u32::try_from(self.numbers.len()).unwrap_or(u32::MAX);
            *self.numbers.entry(key.clone()).or_insert(next)
        };
        let numbered = changes.iter();
        numbered.map(|change| (number(&change.0), change)).collect()
    }

    /// Estimates at one boundary; returns the bytes counted so far.
    ///
    /// The keys are numbered before, by [`Self::number`], because an overlay numbers a key when it is
    /// first changed.
    pub(super) fn estimate(&mut self, changes: &[Numbered<'_>]) -> Result<u64, LoadError> {
        let observer = &mut self.recorder.estimating();
        let mut boundary = self.estimator.boundary(&mut self.state, changes.len());
        for (index, (key, value)) in changes {
            let changed = ChangedKey {
                trie: TrieHandle::TOP,
                index: *index,
                key,
                fate: match value {
                    Some(_) => Fate::Written,
                    None => Fate::Deleted,
                },
            };
            boundary.mark_key(&mut self.state, changed, observer)?;
        }
        boundary.settle(&mut self.state, observer)?;
        Ok(self.recorder.size().total_bytes())
    }

    /// Computes the root update of `changes`, which must be sorted and estimated.
    pub(super) fn update(
        &mut self,
        changes: &[Change],
        version: StateVersion,
    ) -> Result<RootUpdate, RootError> {
        state_update_of_loaded(&mut self.state, &Self::changes(changes), version)
    }

    /// Converts `changes` to changes of a whole state.
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

    /// Rolls back all counts since the marks.
    pub(super) fn roll_back(&mut self, (recorder, estimator): (RecorderMark, EstimatorMark)) {
        self.recorder.roll_back_roots(recorder, self.state.table());
        self.estimator.roll_back(estimator);
    }

    /// Number of loaded nodes, and bytes of their arenas.
    pub(super) fn loaded(&self) -> (usize, usize) {
        (self.state.loaded_nodes(), self.state.arena_bytes())
    }
}
