//! The sizes that the runtime sees: where they come from, and their record.

use povmeter_proof_size::RootedProofSizeExt;
use sp_trie::proof_size_extension::ProofSizeExt;
use std::{
    any::TypeId,
    sync::{
        atomic::{AtomicUsize, Ordering},
        Arc,
    },
};

/// Where the answers to the runtime's questions for the proof size come from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SizeSource {
    /// Estimated at each question. What authors do, and validators, who get the same from the proof.
    #[default]
    Estimate,
    /// The size of what was read so far, without what the root computation will add: the number that
    /// sp-state-machine's recorder tells. For chains whose validators tell that one. The second
    /// version of the host function includes the root's part here, too.
    Reads,
    /// Taken from a record in order, without estimating. What an importer may do that has the
    /// author's record and makes no proof.
    Replay(Vec<u64>),
    /// No proof is recorded: there is no size, and both host functions say `u64::MAX`. What a node
    /// does that answers a call of a user off chain.
    Unrecorded,
}

/// Which of the host functions asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Question {
    /// The first version. What it says is up to the source.
    Stock,
    /// The second version, which includes the root's part by what it is.
    Rooted,
}

impl Question {
    /// Which question is asked by looking up an extension of this type, if one is.
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

/// A replay that does not fit the questions asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// More questions than recorded sizes.
    #[error("expected {recorded} questions for the proof size, found another")]
    Exhausted {
        /// Sizes in the record.
        recorded: usize,
    },
    /// Fewer questions than recorded sizes.
    #[error("expected {recorded} questions for the proof size, found {asked}")]
    LeftOver {
        /// Sizes in the record.
        recorded: usize,
        /// Questions asked.
        asked: usize,
    },
}

/// The sizes handed to the runtime, in order.
///
/// The runtime's own rollbacks leave the record alone, since who executes the block again runs those
/// transactions too. The host's take back what was asked inside: such an extrinsic is in no block.
#[derive(Debug, Default)]
pub(crate) struct Sizes {
    source: SizeSource,
    handed_out: Vec<u64>,
    host_marks: Vec<usize>,
    current: CurrentSize,
    /// The questions that an extension of the host's answers.
    left: Vec<Question>,
}

/// The size last handed out, as an sp-trie proof size provider.
#[derive(Clone, Debug, Default)]
pub(crate) struct CurrentSize(Arc<AtomicUsize>);

impl sp_trie::ProofSizeProvider for CurrentSize {
    fn estimate_encoded_size(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Sizes {
    pub(crate) fn new(source: SizeSource) -> Self {
        Self {
            source,
            ..Self::default()
        }
    }

    pub(crate) fn provider(&self) -> CurrentSize {
        self.current.clone()
    }

    pub(crate) fn handed_out(&self) -> &[u64] {
        &self.handed_out
    }

    /// Leaves a question to an extension of the host's.
    pub(crate) fn leave_to_others(&mut self, question: Question) {
        self.left.push(question);
    }

    /// Answers a question: with the next size of the record, with `reads`, or with what `estimate`
    /// says; `None` if it is not for us to answer.
    pub(crate) fn answer<E: From<ReplayError>>(
        &mut self,
        question: Question,
        reads: u64,
        estimate: impl FnOnce() -> Result<u64, E>,
    ) -> Result<Option<u64>, E> {
        if self.left.contains(&question) {
            return Ok(None);
        }
        let size = match (&self.source, question) {
            (SizeSource::Unrecorded, _) => return Ok(None),
            (SizeSource::Estimate, _) | (SizeSource::Reads, Question::Rooted) => estimate()?,
            (SizeSource::Reads, Question::Stock) => reads,
            (SizeSource::Replay(sizes), _) => {
                *sizes
                    .get(self.handed_out.len())
                    .ok_or(ReplayError::Exhausted {
                        recorded: sizes.len(),
                    })?
            }
        };
        self.handed_out.push(size);
        let told = usize::try_from(size).unwrap_or(usize::MAX);
        self.current.0.store(told, Ordering::Relaxed);
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

    /// Whether the record was used up.
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
