//! To which points of a block reads were taken back.

use crate::attribution::NotesMark;
use alloc::vec::Vec;
use povmeter_pov_estimate::RecorderMark;

/// A point in the reads of a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadsPoint {
    pub(super) recorder: RecorderMark,
    pub(super) notes: NotesMark,
}

impl ReadsPoint {
    /// Whether more was read before this point than before `other`.
    fn is_above(&self, other: &Self) -> bool {
        self.recorder.has_more_reads(&other.recorder) || self.notes > other.notes
    }
}

/// The points to which reads were taken back.
///
/// If reads are taken back to a point, the marks above it are void: the places that they name will be those of other
/// reads. So each mark says how often reads had been taken back before it, and it is void if they were taken back to a
/// point below it since.
#[derive(Debug, Default)]
pub(super) struct Forgotten {
    times: u64,
    /// Points with their numbers, both ascending: a point that is not above an earlier one replaces it.
    points: Vec<(u64, ReadsPoint)>,
}

impl Forgotten {
    /// How often reads were taken back.
    pub(super) fn times(&self) -> u64 {
        self.times
    }

    /// Notes that reads were taken back to `point`.
    pub(super) fn note(&mut self, point: ReadsPoint) {
        // 2^64 calls never happen.
        self.times = self.times.wrapping_add(1);
        while self
            .points
            .pop_if(|(_, last)| !point.is_above(last))
            .is_some()
        {}
        self.points.push((self.times, point));
    }

    /// Whether a mark of `point` is void, before which reads had been taken back so many `times`.
    pub(super) fn voids(&self, times: u64, point: &ReadsPoint) -> bool {
        let since = self.points.partition_point(|(number, _)| *number <= times);
        let lowest = self.points.get(since);
        lowest.is_some_and(|(_, lowest)| point.is_above(lowest))
    }
}
