//! The end of a block: the root, and the block sealed.

use crate::{accounting::Accounting, block::store, boundary, Attribution, Block, BlockError};
use alloc::{boxed::Box, vec::Vec};
use povmeter_delta_root::{
    state_update, state_update_of_loaded, Changes, NodeSource, RootUpdate, StateVersion, TrieId,
};
use povmeter_overlay::Overlay;
use povmeter_pov_estimate::{ProofSize, StorageProof};

/// A change of one key: `None` deletes it.
pub type OwnedChange = (Vec<u8>, Option<Vec<u8>>);

/// Everything that follows from a block, once no more can be changed.
#[derive(Clone, Debug)]
pub struct SealedBlock {
    update: RootUpdate,
    top_changes: Vec<OwnedChange>,
    child_changes: Vec<(Vec<u8>, Vec<OwnedChange>)>,
    proof: StorageProof,
    size: ProofSize,
    attribution: Option<Box<Attribution>>,
}

impl SealedBlock {
    /// The new root, and what it does to the node store.
    pub fn update(&self) -> &RootUpdate {
        &self.update
    }

    /// The changed keys of the top trie, ordered by key.
    pub fn top_changes(&self) -> &[OwnedChange] {
        &self.top_changes
    }

    /// The changed keys of child tries by storage key, ordered.
    pub fn child_changes(&self) -> &[(Vec<u8>, Vec<OwnedChange>)] {
        &self.child_changes
    }

    /// The storage proof of the block: from it alone, the block can be executed again.
    pub fn proof(&self) -> &StorageProof {
        &self.proof
    }

    /// The size of the proof, and how much of it the root needed.
    pub fn size(&self) -> ProofSize {
        self.size
    }

    /// Who needs which bytes of the proof; `None` unless the block's accounting is
    /// [`Attributed`](crate::Attributed).
    pub fn attribution(&self) -> Option<&Attribution> {
        self.attribution.as_deref()
    }
}

/// The overlay's content as the root computation takes it.
fn net_changes(overlay: &Overlay) -> Changes<'_> {
    let child = |key| (key, overlay.changes(store(TrieId::Child(key))));
    Changes {
        top: overlay.changes(store(TrieId::Top)),
        children: overlay.children().map(child).collect(),
    }
}

impl<S: NodeSource, A: Accounting> Block<S, A> {
    /// The update that the changes so far make to the parent state. Computed once for the same
    /// content and version.
    ///
    /// The runtime sees the root, so the nodes it needs are in the proof from now on, in either
    /// accounting.
    ///
    /// # Errors
    /// [`BlockError::Load`], [`BlockError::Root`]; there is no root then.
    pub fn root(&mut self, version: StateVersion) -> Result<&RootUpdate, BlockError> {
        let update = self.take_root(version)?;
        let (_, _, update) = self.root.insert((self.overlay.revision(), version, update));
        Ok(update)
    }

    /// The update of [`Self::root`], which is then no longer kept.
    fn take_root(&mut self, version: StateVersion) -> Result<RootUpdate, BlockError> {
        match self.root.take() {
            Some((revision, of, update))
                if (revision, of) == (self.overlay.revision(), version) =>
            {
                Ok(update)
            }
            _ => self.compute_root(version),
        }
    }

    fn compute_root(&mut self, version: StateVersion) -> Result<RootUpdate, BlockError> {
        // In either accounting: the trie must know what became of every key, and the overlay that
        // it was told.
        self.accounting.boundary(&self.overlay, &mut self.state)?;
        boundary::count_dirty(
            &mut self.overlay,
            &mut self.state,
            &mut self.estimator,
            &mut self.accounting.estimating(&mut self.recorder),
        )?;
        let changes = net_changes(&self.overlay);
        if A::PROVEN {
            return Ok(state_update_of_loaded(&mut self.state, &changes, version)?);
        }
        // Estimates are no part of this proof: count anew, as read.
        let mut reading = self.accounting.reading_for_root(&mut self.recorder);
        let update = state_update(&mut self.state, &changes, version, &mut reading)?;
        Ok(update)
    }

    /// Calls `look` with each key that the block has changed so far: those of the top trie, then
    /// those of child tries, ordered.
    pub fn for_each_changed(&self, mut look: impl FnMut(TrieId<'_>, &[u8])) {
        let Changes { top, children } = net_changes(&self.overlay);
        top.iter().for_each(|(key, _)| look(TrieId::Top, key));
        for (child, changes) in &children {
            let id = TrieId::Child(child);
            changes.iter().for_each(|(key, _)| look(id, key));
        }
    }

    /// Ends the block: computes the root, if that was not done, and hands out all that follows.
    ///
    /// # Errors
    /// [`BlockError::Transaction`] if a transaction is open; [`BlockError::Load`] and
    /// [`BlockError::Root`] as for [`Self::root`]. The block is gone then.
    pub fn seal(mut self, version: StateVersion) -> Result<SealedBlock, BlockError> {
        self.seal_in_place(version)
    }

    /// As [`Self::seal`], for whoever has a use for what is left of the block: nothing but its memory.
    pub(crate) fn seal_in_place(
        &mut self,
        version: StateVersion,
    ) -> Result<SealedBlock, BlockError> {
        let update = self.take_root(version)?;
        if !A::PROVEN {
            self.recorder
                .roll_back_roots(Default::default(), self.state.table());
            self.accounting.estimates_dropped();
        }
        let attribution = self
            .accounting
            .attribution(&self.recorder, &self.overlay, &self.state);
        let proof = self.recorded_proof();
        let (top_changes, child_changes) = self.overlay.freeze()?.into_parts();
        Ok(SealedBlock {
            update,
            top_changes,
            child_changes,
            proof,
            size: self.recorder.size(),
            attribution,
        })
    }
}
