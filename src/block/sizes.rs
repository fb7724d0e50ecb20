//! Sizes of a block's storage proof: estimated, recorded, compact.

use super::{forgotten::ReadsPoint, number::BlockNumber, Block};
use crate::{
    accounting::Accounting,
    attribution::Notes,
    boundary::{self, Purpose},
    error::BlockError,
};
use povmeter_delta_root::{LoadError, NodeSource};
use povmeter_pov_estimate::{ProofSize, RecorderMark, StorageProof};

/// What a peek counts is taken back when this is dropped: also if the source panics.
struct Peek<'b, S, A: Accounting> {
    block: &'b mut Block<S, A>,
    mark: RecorderMark,
}

impl<S, A: Accounting> Drop for Peek<'_, S, A> {
    fn drop(&mut self) {
        let Block {
            recorder, state, ..
        } = &mut *self.block;
        recorder.roll_back_roots(self.mark, state.table());
    }
}

/// A point in the reads of a block; see [`Block::forget_reads`].
#[derive(Clone, Copy, Debug)]
pub struct ReadsMark {
    block: BlockNumber,
    point: ReadsPoint,
    /// How often reads had been taken back.
    forgotten: u64,
    lasting_counts: u64,
    /// The number of the innermost open transaction.
    transaction: u64,
}

impl<S: NodeSource, A: Accounting> Block<S, A> {
    /// The size of the storage proof if the block ended now, the root computation included; never too
    /// low. It can be called at any point, inside a transaction too, as often as wanted.
    ///
    /// With [`Consensus`](crate::Consensus) accounting the call is part of the block, because what it
    /// counts stays counted. So author, importer and validator must call it at the same points, as a
    /// runtime does. [`Self::peek_proof_size`] has no such effect.
    ///
    /// Costs a walk for each key changed since the last call, or a look-up if the key was read or
    /// counted before.
    ///
    /// # Errors
    /// [`BlockError::Load`] if a node of the parent state can't be loaded.
    pub fn proof_size(&mut self) -> Result<ProofSize, BlockError> {
        let mark = self.begin_call();
        let counted = self.count_dirty(Purpose::Size);
        counted.map_err(|error| self.take_back_call(mark, error))?;
        self.overlay.snapshot();
        Ok(self.recorder.size())
    }

    /// Counts what the root needs for the dirty keys. The caller then takes the overlay's snapshot.
    pub(crate) fn count_dirty(&mut self, purpose: Purpose) -> Result<(), LoadError> {
        self.begin_boundary(None)?;
        boundary::count_dirty(
            &self.overlay,
            &mut self.state,
            &mut self.estimator,
            &mut self.notes.estimating(&mut self.recorder),
            purpose,
        )
    }

    /// Begins to count what the root needs, or only that of the child trie `child`.
    pub(crate) fn begin_boundary(&mut self, child: Option<&[u8]>) -> Result<(), LoadError> {
        // No block lives long enough for a number to come back.
        self.lasting_counts = self.lasting_counts.wrapping_add(1);
        self.notes.boundary(&self.overlay, &mut self.state, child)
    }

    /// What [`Self::proof_size`] would return, without a trace: no later size and no proof depends on
    /// this call.
    ///
    /// Every call costs a walk through loaded nodes for each key changed since the last
    /// [`Self::proof_size`]. If only the author needs sizes, [`Advisory`](crate::Advisory) accounting
    /// costs less: it leaves no trace either, and walks for each key once.
    ///
    /// # Errors
    /// [`BlockError::Load`] if a node of the parent state can't be loaded.
    pub fn peek_proof_size(&mut self) -> Result<ProofSize, BlockError> {
        self.peek(|block| block.recorder.size())
    }

    /// Length in bytes of the encoded compact proof if the block ended now. First counts as
    /// [`Self::proof_size`] does. So with [`Consensus`](crate::Consensus) accounting this call, too, is part of the
    /// block, and author, importer and validator must make it at the same points. A host that only wants to know calls
    /// [`Self::peek_compact_proof_bytes`].
    ///
    /// The first call costs a pass over all counted nodes, a later one a step for each node counted or
    /// taken back since. If a node has several references, each new one also costs a walk up to the root. If the proof
    /// now has a node at an earlier place than before, all references of the nodes below it cost one.
    ///
    /// # Errors
    /// [`BlockError::Load`] as for [`Self::proof_size`]; [`BlockError::Proof`] if the parent state is
    /// inconsistent; [`BlockError::NotAlone`] if the block [ignores](Self::ignore) nodes.
    pub fn compact_proof_bytes(&mut self) -> Result<u64, BlockError> {
        self.has_own_proof()?;
        let mark = self.begin_call();
        let counted = self.count_dirty(Purpose::Size);
        counted.map_err(|error| self.take_back_call(mark, error))?;
        match self.compact.of(&mut self.recorder, &self.state) {
            Ok(bytes) => {
                self.overlay.snapshot();
                Ok(bytes)
            }
            Err(error) => {
                self.estimator.take_back(&mut self.state);
                Err(self.take_back_call(mark, error))
            }
        }
    }

    /// What [`Self::compact_proof_bytes`] would return, without a trace: no later size and no proof depends on this
    /// call.
    ///
    /// Costs a walk as [`Self::peek_proof_size`] does, and a step for each node that it counts.
    ///
    /// # Errors
    /// As [`Self::compact_proof_bytes`].
    pub fn peek_compact_proof_bytes(&mut self) -> Result<u64, BlockError> {
        self.has_own_proof()?;
        self.peek(|block| block.compact.of(&mut block.recorder, &block.state))?
            .map_err(BlockError::from)
    }

    /// Fails if the block has no compact proof of its own.
    fn has_own_proof(&self) -> Result<(), BlockError> {
        match self.recorder.ignored() {
            0 => Ok(()),
            ignored => Err(BlockError::NotAlone { ignored }),
        }
    }

    /// Returns what `look` finds if everything is counted that the root needs, and takes these counts back.
    fn peek<T>(&mut self, look: impl FnOnce(&mut Self) -> T) -> Result<T, BlockError> {
        let mark = self.recorder.mark();
        let peek = Peek { block: self, mark };
        let block = &mut *peek.block;
        let mut observer = block.recorder.estimating();
        let (overlay, state, estimator) = (&block.overlay, &mut block.state, &mut block.estimator);
        boundary::count_dirty(overlay, state, estimator, &mut observer, Purpose::Size)?;
        let found = look(block);
        block.estimator.take_back(&mut block.state);
        Ok(found)
    }

    /// The current point, for [`Self::forget_reads`].
    pub fn reads_mark(&self) -> ReadsMark {
        ReadsMark {
            block: self.number,
            point: ReadsPoint {
                recorder: self.recorder.mark(),
                notes: self.notes.mark(),
            },
            forgotten: self.forgotten.times(),
            lasting_counts: self.lasting_counts,
            transaction: self.open_transaction(),
        }
    }

    /// Takes back what reads have counted since `mark`, and returns whether it could: for reads that are not part of the
    /// block, such as those of a validator after its end. Changes stay. With [`Attributed`](crate::Attributed) accounting the notes of
    /// these reads are removed, too.
    ///
    /// Takes nothing back if a size was asked for or a root was computed since `mark`, successfully or not: a size does
    /// not count a node again that a read has counted, so without these reads it would be too low.
    /// [`Self::peek_proof_size`] does not matter, nor does [`Self::root`] if the root was known already.
    ///
    /// Takes nothing back either if since `mark` an element was appended to a list of the parent state, or a prefix
    /// cleared: these changes stay, and a block that repeats them needs what they have read.
    ///
    /// Takes nothing back either if the innermost open transaction is not the one in which the mark was taken, because
    /// a rollback in between or later would not find the counts as they were. Transactions that were opened and closed
    /// since do not matter. A mark of another block, or from before [`Self::rebase`] or [`Self::copy_changes`], takes
    /// nothing back. Nor does a mark that was taken after another one, once reads were taken back to that one.
    #[must_use = "if it returns `false`, the reads still count"]
    pub fn forget_reads(&mut self, mark: ReadsMark) -> bool {
        let ReadsMark {
            block,
            point,
            forgotten,
            lasting_counts,
            transaction,
        } = mark;
        let now = (self.number, self.lasting_counts, self.open_transaction());
        let can =
            (block, lasting_counts, transaction) == now && !self.forgotten.voids(forgotten, &point);
        if can {
            let before = self.recorded_counts();
            self.recorder
                .roll_back_reads(point.recorder, self.state.table());
            self.notes.reads_forgotten(point.notes);
            self.note_cut(before);
            self.forgotten.note(point);
        }
        can
    }

    /// The nodes recorded so far; right after [`Self::proof_size`] or [`Self::root`], the whole proof.
    pub fn recorded_proof(&self) -> StorageProof {
        let table = self.state.table();
        StorageProof::new(self.recorder.nodes().map(|id| table.bytes(id).clone()))
    }

    /// The size of what reads and earlier estimates recorded. Counts nothing new.
    pub fn recorded_size(&self) -> ProofSize {
        self.recorder.size()
    }
}
