//! The end of a block: its root, and sealing.

use crate::{
    accounting::Accounting,
    attribution::Notes,
    boundary::{self, Purpose},
    changed::{Change, Changed},
    Attribution, Block, BlockError, SealError,
};
use alloc::{boxed::Box, vec::Vec};
use bytes::Bytes;
use core::mem::take;
use povmeter_delta_root::{
    child_root, child_root_in_key_order, child_root_key, child_root_of_loaded, state_update,
    state_update_in_key_order, state_update_of_loaded, Changes, LoadError, NodeSource, Root,
    RootError, RootUpdate, StateVersion, TrieId, HASH_LENGTH,
};
use povmeter_overlay::{Lookup, Overlay, TransactionError};
use povmeter_pov_estimate::{ProofSize, StorageProof};

/// The result of a block: root update, changes, proof and size. It can't be changed.
///
/// Give it to `BlockPool::recycle` once the store has committed the update, so that the next block is
/// sealed in its memory.
#[derive(Clone, Debug)]
pub struct SealedBlock {
    update: RootUpdate,
    changed: Changed,
    proof: StorageProof,
    size: ProofSize,
    attribution: Option<Box<Attribution>>,
}

impl SealedBlock {
    /// The new root, and the nodes that a store inserts and removes.
    pub fn update(&self) -> &RootUpdate {
        &self.update
    }

    /// The changed keys of the top trie, ordered by key. The key of a child's root is among them only if
    /// [`Block::child_root`] wrote it, with the root that the child had then; that of the end of the block is in
    /// [`RootUpdate::children`].
    pub fn top_changes(&self) -> impl ExactSizeIterator<Item = Change<'_>> + Clone {
        self.changed.top()
    }

    /// The changed child tries ordered by storage key, each with its changed keys ordered by key.
    pub fn child_changes(
        &self,
    ) -> impl ExactSizeIterator<
        Item = (
            &[u8],
            impl ExactSizeIterator<Item = Change<'_>> + Clone + use<'_>,
        ),
    > + Clone {
        self.changed.children()
    }

    /// The storage proof of the block. The block can be executed again from it alone.
    pub fn proof(&self) -> &StorageProof {
        &self.proof
    }

    /// The size of the proof, and how much of it only the root needed.
    pub fn size(&self) -> ProofSize {
        self.size
    }

    /// Which part needs which bytes of the proof; `None` unless the block's accounting is
    /// [`Attributed`](crate::Attributed).
    pub fn attribution(&self) -> Option<&Attribution> {
        self.attribution.as_deref()
    }
}

/// Memory to seal a block in: empty, with capacity.
#[derive(Debug, Default)]
pub(crate) struct SealMemory {
    changed: Changed,
    proof: Vec<Bytes>,
}

#[cfg(feature = "std")]
impl SealMemory {
    /// Keeps memory for up to `most` keys and nodes.
    pub(crate) fn shrink_to(&mut self, most: usize) {
        let Self { changed, proof } = self;
        changed.clear();
        changed.shrink_to(most);
        proof.clear();
        proof.shrink_to(most);
    }

    /// The memory of `sealed`, and its update.
    pub(crate) fn of(sealed: SealedBlock) -> (Self, RootUpdate) {
        let SealedBlock {
            update,
            mut changed,
            proof,
            size: _,
            attribution: _,
        } = sealed;
        changed.clear();
        let mut proof = proof.into_nodes();
        proof.clear();
        (Self { changed, proof }, update)
    }
}

/// The overlay's net changes, in the form that the root computation needs.
fn net_changes(overlay: &Overlay) -> Changes<'_> {
    let child = |key| (key, overlay.changes(TrieId::Child(key)));
    Changes {
        top: overlay.changes(TrieId::Top),
        children: overlay.children().map(child).collect(),
    }
}

/// As [`net_changes`], of one child trie.
fn changes_of_child<'o>(overlay: &'o Overlay, child: &'o [u8]) -> Changes<'o> {
    Changes {
        top: Vec::new(),
        children: Vec::from([(child, overlay.changes(TrieId::Child(child)))]),
    }
}

impl<S: NodeSource, A: Accounting> Block<S, A> {
    /// The root update of the changes so far. Computed once for the same content and version.
    ///
    /// The nodes that it needs are in the proof from now on, in either accounting, because the runtime
    /// sees the root.
    ///
    /// # Errors
    /// [`BlockError::Load`] if a node can't be loaded; [`BlockError::Root`] if the root can't be computed.
    pub fn root(&mut self, version: StateVersion) -> Result<&RootUpdate, BlockError> {
        let update = self.take_root(version)?;
        let (_, _, update) = self.root.insert((self.overlay.revision(), version, update));
        Ok(update)
    }

    /// The root of the child trie `child` after the changes so far; [`Root::EMPTY`] if it has no entries. Does what the
    /// host function `child_storage_root` does for a runtime.
    ///
    /// If the block changed the child, this root is computed, and written to the child's key in the top trie, or the key
    /// is deleted if the root is [`Root::EMPTY`]: a change as any other, which reads return and a rollback undoes. It
    /// doesn't follow later changes of the child, but the root of the block does. If the block didn't change the child,
    /// this is a read of that key.
    ///
    /// The nodes that [`Self::root`] needs are in the proof from now on; after
    /// [`Self::count_roots_in_key_order`] only those that this one root needs.
    ///
    /// Costs a walk for each key changed since the last size or root, and the hashes of the child. With
    /// [`Advisory`](crate::Advisory) accounting, whose root counts as read, and after
    /// [`Self::count_roots_in_key_order`] once a size was asked for, it costs a walk for each change of the block
    /// instead, at each call.
    ///
    /// # Errors
    /// As [`Self::root`]; [`BlockError::Load`] also if the value at the child's key in the parent state is no root.
    pub fn child_root(&mut self, child: &[u8], version: StateVersion) -> Result<Root, BlockError> {
        let key = child_root_key(child);
        if self.overlay.is_touched(TrieId::Child(child)) {
            let root = self.compute(
                |this| this.child_root_in_key_order(child, version),
                |this| this.child_root_of_loaded(child, version),
            )?;
            // Not noted as a change of the part that asks: the parts that change the child need what its root needs.
            if root == Root::EMPTY {
                self.overlay.remove(TrieId::Top, &key);
            } else if self.overlay.get(TrieId::Top, &key) != Lookup::Value(root.as_bytes()) {
                self.overlay.set(TrieId::Top, &key, root.as_bytes());
            }
            return Ok(root);
        }
        let mark = self.recorder.mark();
        let Some(value) = self.get(TrieId::Top, &key)? else {
            return Ok(Root::EMPTY);
        };
        let root = <[u8; HASH_LENGTH]>::try_from(value).map_err(|_| LoadError::ChildRoot {
            key: child.to_vec(),
            found: value.len(),
        });
        // The read has begun a call of its own.
        root.map(Root::from)
            .map_err(|error| self.take_back_call(mark, error))
    }

    /// The update of [`Self::root`], taken out of the block.
    fn take_root(&mut self, version: StateVersion) -> Result<RootUpdate, BlockError> {
        match self.root.take() {
            Some((revision, of, update))
                if (revision, of) == (self.overlay.revision(), version) =>
            {
                Ok(update)
            }
            Some((_, _, stale)) => {
                self.state.recycle(stale);
                self.compute_root(version)
            }
            None => self.compute_root(version),
        }
    }

    fn compute_root(&mut self, version: StateVersion) -> Result<RootUpdate, BlockError> {
        self.compute(
            |this| this.update_in_key_order(version),
            |this| this.update_of_loaded(version),
        )
    }

    /// Computes a root, by `in_key_order` in blocks that count so, otherwise by `of_loaded` after a boundary has handled
    /// all changes.
    fn compute<T>(
        &mut self,
        in_key_order: impl FnOnce(&mut Self) -> Result<T, RootError>,
        of_loaded: impl FnOnce(&mut Self) -> Result<T, RootError>,
    ) -> Result<T, BlockError> {
        let mark = self.begin_call();
        if self.roots_in_key_order {
            return in_key_order(self).map_err(|error| self.take_back_call(mark, error));
        }
        // In either accounting: the shadow trie must know the fate of every dirty key before a root
        // is computed, and the overlay takes a snapshot after it.
        let counted = self.count_dirty(Purpose::Root);
        counted.map_err(|error| self.take_back_call(mark, error))?;
        match of_loaded(self) {
            Ok(computed) => {
                self.overlay.snapshot();
                Ok(computed)
            }
            Err(error) => {
                let error = self.estimator.explained(error);
                self.estimator.take_back(&mut self.state);
                Err(self.take_back_call(mark, error))
            }
        }
    }

    /// The root update, once a boundary has handled all changes.
    fn update_of_loaded(&mut self, version: StateVersion) -> Result<RootUpdate, RootError> {
        let changes = net_changes(&self.overlay);
        if A::PROVEN {
            return state_update_of_loaded(&mut self.state, &changes, version);
        }
        // Estimates are not part of this proof, so what the root needs is counted as read.
        let mut reading = self.notes.reading_for_root(&mut self.recorder);
        state_update(&mut self.state, &changes, version, &mut reading)
    }

    /// As [`Self::update_of_loaded`], for the root of one child trie.
    fn child_root_of_loaded(
        &mut self,
        child: &[u8],
        version: StateVersion,
    ) -> Result<Root, RootError> {
        if A::PROVEN {
            let changes = changes_of_child(&self.overlay, child);
            return child_root_of_loaded(&mut self.state, &changes, child, version);
        }
        let changes = net_changes(&self.overlay);
        let mut reading = self.notes.reading_for_root(&mut self.recorder);
        child_root(&mut self.state, &changes, child, version, &mut reading)
    }

    /// The root update of all changes, which counts what the computation reads in the order of the keys. The estimator's
    /// counts stay as they are, so the keys stay dirty.
    fn update_in_key_order(&mut self, version: StateVersion) -> Result<RootUpdate, RootError> {
        let marks = self.renew_marks(None)?;
        let (changes, recorder) = (net_changes(&self.overlay), &mut self.recorder);
        let state = &mut self.state;
        let update = if A::PROVEN {
            let mut estimating = self.notes.estimating(recorder);
            state_update_in_key_order(state, &changes, version, &mut estimating)
        } else {
            let mut reading = self.notes.reading_for_root(recorder);
            state_update_in_key_order(state, &changes, version, &mut reading)
        };
        if marks {
            self.estimator.take_back(state);
        }
        update
    }

    /// As [`Self::update_in_key_order`], for the root of one child trie.
    fn child_root_in_key_order(
        &mut self,
        child: &[u8],
        version: StateVersion,
    ) -> Result<Root, RootError> {
        let marks = self.renew_marks(Some(child))?;
        let (changes, recorder) = (changes_of_child(&self.overlay, child), &mut self.recorder);
        let state = &mut self.state;
        let root = if A::PROVEN {
            let mut estimating = self.notes.estimating(recorder);
            child_root_in_key_order(state, &changes, child, version, &mut estimating)
        } else {
            let mut reading = self.notes.reading_for_root(recorder);
            child_root_in_key_order(state, &changes, child, version, &mut reading)
        };
        if marks {
            self.estimator.take_back(state);
        }
        root
    }

    /// Begins a boundary for a root that leaves the estimator's counts as they are, or for that of `child`. If there are
    /// marks of earlier estimates, brings them up to date, and returns `true`: the estimator has to take them back.
    ///
    /// For a child's root only its own keys are marked. The root counts the paths to these, and to no others, so nothing
    /// else may be loaded: whoever has the proof alone does not have it.
    fn renew_marks(&mut self, child: Option<&[u8]>) -> Result<bool, LoadError> {
        self.begin_boundary(child)?;
        let (overlay, state, estimator) = (&self.overlay, &mut self.state, &mut self.estimator);
        if !estimator.is_used() {
            return Ok(false);
        }
        match child {
            None => boundary::count_dirty(overlay, state, estimator, &mut (), Purpose::Marks)?,
            Some(child) => boundary::mark_child(overlay, state, estimator, child)?,
        }
        Ok(true)
    }

    /// Marks all changes for the attribution, which asks which tries were emptied, and returns `true`: the estimator has
    /// to take the marks back. Only a root in the order of the keys leaves no marks. It has loaded all that this needs.
    fn mark_for_attribution(&mut self) -> Result<bool, LoadError> {
        if !<A::Notes as Notes>::TAKEN || !self.roots_in_key_order {
            return Ok(false);
        }
        let (overlay, state, estimator) = (&self.overlay, &mut self.state, &mut self.estimator);
        boundary::count_dirty(overlay, state, estimator, &mut (), Purpose::Marks)?;
        Ok(true)
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

    /// Ends the block: computes the root, if it is not known yet, and returns the root update, the
    /// changes, the proof and its size.
    ///
    /// # Errors
    /// [`SealError`], which holds the block as it was: with [`BlockError::Transaction`] if a
    /// transaction is open, with [`BlockError::Load`] and [`BlockError::Root`] as for [`Self::root`].
    ///
    /// `?` turns it into a [`BlockError`] or a boxed error. Where the caller has an error type of its own, made from a
    /// [`BlockError`], use `.map_err(BlockError::from)?`.
    ///
    /// ```
    /// # use povmeter::{Block, ProofNodes, Root, StateVersion::V1, TrieId::Top};
    /// let mut block = Block::new(ProofNodes::default(), Root::EMPTY);
    /// block.start_transaction();
    /// block.set(Top, b"alice", b"paid")?;
    /// let Err(refused) = block.seal(V1) else { unreachable!("a transaction is open") };
    /// let (mut block, error) = refused.into_parts();
    /// assert_eq!(error.to_string(), "expected every transaction to be closed, found 1 open");
    /// block.commit_transaction()?;
    /// assert_eq!(block.seal(V1)?.top_changes().len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn seal(mut self, version: StateVersion) -> Result<SealedBlock, SealError<Self>> {
        let sealed = self.seal_in_place(version);
        sealed.map_err(|error| SealError::new(self, error))
    }

    /// As [`Self::seal`]. On success, only the memory of the block may be used again.
    pub(crate) fn seal_in_place(
        &mut self,
        version: StateVersion,
    ) -> Result<SealedBlock, BlockError> {
        let open = self.overlay.depth();
        if open > 0 {
            return Err(TransactionError::StillOpen { open }.into());
        }
        let update = self.take_root(version)?;
        let marked = match self.mark_for_attribution() {
            Ok(marked) => marked,
            Err(error) => {
                self.root = Some((self.overlay.revision(), version, update));
                return Err(error.into());
            }
        };
        if !A::PROVEN {
            self.recorder
                .roll_back_roots(Default::default(), self.state.table());
            self.notes.estimates_dropped();
        }
        let attribution = self
            .notes
            .attribution(&self.recorder, &self.overlay, &self.state);
        if marked {
            self.estimator.take_back(&mut self.state);
        }
        let SealMemory { mut changed, proof } = take(&mut self.seal_memory);
        changed.set(&net_changes(&self.overlay));
        let table = self.state.table();
        let nodes = self.recorder.nodes().map(|id| table.bytes(id).clone());
        let proof = StorageProof::in_memory(proof, nodes);
        Ok(SealedBlock {
            update,
            changed,
            proof,
            size: self.recorder.size(),
            attribution,
        })
    }
}
