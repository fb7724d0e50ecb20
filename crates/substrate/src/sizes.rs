//! The sizes that the runtime sees: where they come from, and their record.

use std::sync::{
    atomic::{AtomicUsize, Ordering},
    Arc,
};

/// Where the answers to the runtime's questions for the proof size come from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SizeSource {
    /// Estimated at each question. What authors do, and validators, who get the same from the proof.
    #[default]
    Estimate,
    /// The size of what was read so far, without what the root computation will add: the number that
    /// sp-state-machine's recorder tells. For chains whose validators tell that one.
    Reads,
    /// Taken from a record in order, without estimating. What an importer may do that has the
    /// author's record and makes no proof.
    Replay(Vec<u64>),
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

    /// Answers a question: with the next size of the record, with `reads`, or with what `estimate`
    /// says.
    pub(crate) fn answer<E: From<ReplayError>>(
        &mut self,
        reads: u64,
        estimate: impl FnOnce() -> Result<u64, E>,
    ) -> Result<(), E> {
        let size = match &self.source {
            SizeSource::Estimate => estimate()?,
            SizeSource::Reads => reads,
            SizeSource::Replay(sizes) => {
                *sizes
                    .get(self.handed_out.len())
                    .ok_or(ReplayError::Exhausted {
                        recorded: sizes.len(),
                    })?
            }
        };
        self.handed_out.push(size);
        self.current.0.store(
            usize::try_from(size).unwrap_or(usize::MAX),
            Ordering::Relaxed,
        );
        Ok(())
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
