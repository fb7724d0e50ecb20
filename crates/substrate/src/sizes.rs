//! The proof sizes that the runtime gets: their source and their record.

use povmeter::{Accounting, ProofSize};
use povmeter_proof_size::RootedProofSizeExt;
use sp_trie::proof_size_extension::ProofSizeExt;
use std::{
    any::TypeId,
    sync::{
        atomic::{AtomicUsize, Ordering},
        Arc,
    },
};

/// The source of the proof sizes that the runtime gets. There is no default, because all nodes and validators of a chain
/// must choose the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SizeSource {
    /// An estimate for each question. For authors and validators; both get the same sizes.
    Estimate,
    /// The recorded size, without what the root computation will add: the number that
    /// sp-state-machine's recorder gives. For chains whose validators use that number. Roots count the
    /// nodes that sp-state-machine reads for them, so the proof has the same nodes, too, and a size after a
    /// root includes them. This does not hold if the runtime calls the second version of the host function: it
    /// records what the root computation would add.
    Reads,
    /// The sizes of an earlier record, in order, without an estimate. For an importer that has the
    /// author's record and makes no proof.
    Replay(Vec<u64>),
    /// No proof is recorded, so there is no size, and both host functions return `u64::MAX`. For
    /// calls into the runtime off chain.
    Unrecorded,
}

/// The host function that asks for the proof size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Question {
    /// The first version; the [`SizeSource`] decides whether the root computation is included.
    Stock,
    /// The second version, which always includes the root computation.
    Rooted,
}

impl Question {
    /// The question that a look-up of this extension type asks; `None` for other extensions.
    pub(crate) fn asked_by(type_id: TypeId) -> Option<Self> {
        if type_id == TypeId::of::<ProofSizeExt>() {
            Some(Self::Stock)
        } else if type_id == TypeId::of::<RootedProofSizeExt>() {
            Some(Self::Rooted)
        } else {
            None
        }
    }
}

/// How a question is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Nothing is recorded.
    None,
    /// By the [recorded size](recorded_bytes).
    Recorded,
    /// By an estimate.
    Estimate,
    /// By this size.
    Given(u64),
}

/// The bytes of the nodes that the proof has so far. The estimates of an author are in no proof.
pub(crate) fn recorded_bytes<A: Accounting>(recorded: ProofSize) -> u64 {
    if A::PROVEN {
        recorded.total_bytes()
    } else {
        recorded.read_bytes
    }
}

impl SizeSource {
    /// How `question` is answered after `before` sizes of the block.
    pub(crate) fn answer(&self, question: Question, before: usize) -> Result<Answer, ReplayError> {
        Ok(match (self, question) {
            (Self::Unrecorded, _) => Answer::None,
            (Self::Estimate, _) | (Self::Reads, Question::Rooted) => Answer::Estimate,
            (Self::Reads, Question::Stock) => Answer::Recorded,
            (Self::Replay(sizes), _) => {
                let size = sizes.get(before).ok_or(ReplayError::Exhausted {
                    recorded: sizes.len(),
                })?;
                Answer::Given(*size)
            }
        })
    }
}

/// Why a record of sizes does not fit the questions of the runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// There are more questions than recorded sizes.
    #[error("expected {recorded} questions for the proof size, found one more")]
    Exhausted {
        /// Number of sizes in the record.
        recorded: usize,
    },
    /// There are fewer questions than recorded sizes.
    #[error("expected {recorded} questions for the proof size, found {asked}")]
    LeftOver {
        /// Number of sizes in the record.
        recorded: usize,
        /// Number of questions asked.
        asked: usize,
    },
}

/// The record of the sizes that the runtime got, in order.
///
/// A rollback by the runtime keeps the record, because every execution of the block repeats it. A
/// rollback by the host removes the sizes of its transaction, because that extrinsic is in no block.
#[derive(Debug)]
pub(crate) struct Sizes {
    source: SizeSource,
    handed_out: Vec<u64>,
    host_marks: Vec<usize>,
    current: CurrentSize,
    /// Questions that an extension of the host answers.
    answered_by_host: Vec<Question>,
}

/// The last size, as a proof size provider of sp-trie.
#[derive(Clone, Debug, Default)]
pub(crate) struct CurrentSize(Arc<AtomicUsize>);

impl CurrentSize {
    pub(crate) fn set(&self, size: u64) {
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        self.0.store(size, Ordering::Relaxed);
    }
}

impl sp_trie::ProofSizeProvider for CurrentSize {
    fn estimate_encoded_size(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Sizes {
    pub(crate) fn new(source: SizeSource) -> Self {
        Self {
            source,
            handed_out: Vec::new(),
            host_marks: Vec::new(),
            current: CurrentSize::default(),
            answered_by_host: Vec::new(),
        }
    }

    pub(crate) fn provider(&self) -> CurrentSize {
        self.current.clone()
    }

    pub(crate) fn source(&self) -> &SizeSource {
        &self.source
    }

    /// Whether an extension of the host answers a question.
    pub(crate) fn are_left_to_others(&self) -> bool {
        !self.answered_by_host.is_empty()
    }

    /// Adds sizes that the runtime got elsewhere.
    pub(crate) fn hand_out(&mut self, sizes: &[u64]) {
        self.handed_out.extend_from_slice(sizes);
    }

    pub(crate) fn handed_out(&self) -> &[u64] {
        &self.handed_out
    }

    /// Leaves a question to an extension of the host.
    pub(crate) fn leave_to_others(&mut self, question: Question) {
        self.answered_by_host.push(question);
    }

    /// Answers a question with the next size of the record, with `recorded`, or with `estimate`; `None`
    /// if nothing is recorded or an extension of the host answers.
    pub(crate) fn answer<E: From<ReplayError>>(
        &mut self,
        question: Question,
        recorded: u64,
        estimate: impl FnOnce() -> Result<u64, E>,
    ) -> Result<Option<u64>, E> {
        if self.answered_by_host.contains(&question) {
            return Ok(None);
        }
        let size = match self.source.answer(question, self.handed_out.len())? {
            Answer::None => return Ok(None),
            Answer::Recorded => recorded,
            Answer::Estimate => estimate()?,
            Answer::Given(size) => size,
        };
        self.handed_out.push(size);
        self.current.set(size);
        Ok(Some(size))
    }

    pub(crate) fn start_host_transaction(&mut self) {
        self.host_marks.push(self.handed_out.len());
    }

    pub(crate) fn commit_host_transaction(&mut self) {
        self.host_marks.pop();
    }

    pub(crate) fn roll_back_host_transaction(&mut self) {
        if let Some(mark) = self.host_marks.pop() {
            self.handed_out.truncate(mark);
        }
    }

    /// Returns an error if sizes of a replayed record are left over.
    pub(crate) fn finish(&self) -> Result<(), ReplayError> {
        match &self.source {
            SizeSource::Replay(sizes) if sizes.len() != self.handed_out.len() => {
                Err(ReplayError::LeftOver {
                    recorded: sizes.len(),
                    asked: self.handed_out.len(),
                })
            }
            _ => Ok(()),
        }
    }
}
