//! How the kept states are written into records of the database.
//!
//! ```text
//! key "history"    base: id 8, height 8, root 32; next id 8
//! key "state" id   parent 8, height 8, root 32                    one for each state but the base
//! key "diff" id    count of gains, (hash 32, references 8)..., the same for losses
//! ```
//! Ids in keys are big-endian, other numbers little-endian; counts are compact. Each record ends with the Blake2b-256 of
//! the rest: a number that has changed on the disk would otherwise be a number like any other, and pruning would remove
//! nodes by it.
//!
//! Records of format 2 have no checksum. A damaged record is not taken for one of them: of those about states, each has
//! one length, and that of a journal follows from its counts, which would have to leave no rest with the 32 bytes.

use crate::history::{KeptState, KeptStates, StateId};
use crate::net::NetChange;
use povmeter_delta_root::{push_compact, read_compact, Blake2b256, NodeHash, Root};

/// The most states that a store can have had since its base. A record with more is damaged, and a look-up for each of
/// them could take years.
const MOST_SINCE_BASE: u64 = 1 << 32;

/// The greatest height of a base. A record with more is damaged, and the heights of later states might not fit.
const MOST_HEIGHT: u64 = u64::MAX / 2;

/// The most references to a node that any store counts. A journal with more is damaged.
const MOST_REFERENCES: u64 = u32::MAX as u64;

/// Bytes of a checksum.
const CHECKSUM: usize = 32;

/// Key of the record about all states.
pub(crate) const HISTORY_KEY: &[u8] = b"history";

/// The starts of the keys of the records of states and of their journals.
#[cfg(feature = "rocksdb")]
pub(crate) const RECORD_STARTS: [&[u8]; 2] = [STATE_START, DIFF_START];
const STATE_START: &[u8] = b"state";
const DIFF_START: &[u8] = b"diff";

/// Key of the record that names the state `id`.
pub(crate) fn state_key(id: StateId) -> Vec<u8> {
    [STATE_START, &id.0.to_be_bytes()].concat()
}

/// Key of the journal of the state `id`.
pub(crate) fn diff_key(id: StateId) -> Vec<u8> {
    [DIFF_START, &id.0.to_be_bytes()].concat()
}

/// Adds the checksum to `record`.
fn with_checksum(mut record: Vec<u8>) -> Vec<u8> {
    let checksum = Blake2b256::hash(&record);
    record.extend(checksum.as_bytes());
    record
}

/// Returns `record` without its checksum, or the whole record if it does not end with one.
fn without_checksum(record: &[u8]) -> &[u8] {
    match record.split_last_chunk() {
        Some((rest, checksum)) if Blake2b256::hash(rest).as_bytes() == checksum => rest,
        _ => record,
    }
}

/// The record about all states, which have the base `base` and give the name `next` to the next one.
pub(crate) fn history_record(base: &KeptState, next: u64) -> Vec<u8> {
    let mut record = Vec::with_capacity(56 + CHECKSUM);
    record.extend(base.id.0.to_le_bytes());
    record.extend(base.height.to_le_bytes());
    record.extend(base.root.as_bytes());
    record.extend(next.to_le_bytes());
    with_checksum(record)
}

/// Returns the base and the next id in `record`, or `None` if it is not a record about all states.
pub(crate) fn read_history(record: &[u8]) -> Option<KeptStates> {
    let mut rest = without_checksum(record);
    let (id, height) = (read_number(&mut rest)?, read_number(&mut rest)?);
    let (root, next) = (read_hash(&mut rest)?, read_number(&mut rest)?);
    let since = next.checked_sub(id)?;
    if !rest.is_empty() || since == 0 || since > MOST_SINCE_BASE || height > MOST_HEIGHT {
        return None;
    }
    Some(KeptStates::only(id, height, root.into()).with_next(next))
}

/// The record that names `state`, which has the parent `parent`.
pub(crate) fn state_record(parent: StateId, height: u64, root: Root) -> Vec<u8> {
    let mut record = Vec::with_capacity(48 + CHECKSUM);
    record.extend(parent.0.to_le_bytes());
    record.extend(height.to_le_bytes());
    record.extend(root.as_bytes());
    with_checksum(record)
}

/// Returns the state `id` in `record`, or `None` if it is not a record that names a state.
pub(crate) fn read_state(id: StateId, record: &[u8]) -> Option<KeptState> {
    let mut rest = without_checksum(record);
    let state = KeptState {
        id,
        parent: Some(StateId(read_number(&mut rest)?)),
        height: read_number(&mut rest)?,
        root: read_hash(&mut rest)?.into(),
    };
    rest.is_empty().then_some(state)
}

/// The difference between a kept state and its parent, from its journal: nodes with numbers of
/// references. Both lists are sorted by hash, and no node is in both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StateDiff {
    /// References that the state adds.
    pub gains: Vec<(NodeHash, u64)>,
    /// References that the parent has and the state lacks; the store keeps them until the parent is
    /// pruned.
    pub losses: Vec<(NodeHash, u64)>,
}

impl StateDiff {
    pub(crate) fn of(changes: &[NetChange]) -> Self {
        let mut diff = Self::default();
        for change in changes {
            match change {
                NetChange::Gain {
                    hash, references, ..
                } => diff.gains.push((*hash, *references)),
                NetChange::Loss { hash, references } => diff.losses.push((*hash, *references)),
            }
        }
        diff
    }

    /// The journal with these changes.
    pub(crate) fn record(&self) -> Vec<u8> {
        let changes = self.gains.len() + self.losses.len();
        let mut record = Vec::with_capacity(10 + 40 * changes + CHECKSUM);
        for side in [&self.gains, &self.losses] {
            push_compact(&mut record, side.len());
            for (hash, references) in side {
                record.extend(hash.as_bytes());
                record.extend(references.to_le_bytes());
            }
        }
        with_checksum(record)
    }

    /// The changes in the journal `record`; `None` if it is no journal. Checks that the numbers of references are
    /// such as a store counts, because parity-db removes reference after reference.
    pub(crate) fn read(record: &[u8]) -> Option<Self> {
        let mut rest = without_checksum(record);
        let mut side = || {
            let (count, used) = read_compact(rest)?;
            rest = &rest[used..];
            // Reserves nothing, because the count may be damaged.
            let entry = |_| Some((read_hash(&mut rest)?.into(), read_number(&mut rest)?));
            (0..count).map(entry).collect::<Option<Vec<_>>>()
        };
        let diff = Self {
            gains: side()?,
            losses: side()?,
        };
        let counted = |side: &[(NodeHash, u64)]| {
            side.is_sorted_by(|(hash, _), (next, _)| hash < next)
                && side
                    .iter()
                    .all(|(_, count)| (1..=MOST_REFERENCES).contains(count))
        };
        (rest.is_empty() && counted(&diff.gains) && counted(&diff.losses)).then_some(diff)
    }
}

fn read_number(rest: &mut &[u8]) -> Option<u64> {
    let (number, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(u64::from_le_bytes(*number))
}

fn read_hash(rest: &mut &[u8]) -> Option<[u8; 32]> {
    let (hash, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(*hash)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn diff() -> StateDiff {
        let hash = |byte| NodeHash::from([byte; 32]);
        StateDiff {
            gains: (0..100)
                .map(|byte| (hash(byte), u64::from(byte) + 1))
                .collect(),
            losses: vec![(hash(200), MOST_REFERENCES)],
        }
    }

    #[test]
    fn numbers_that_no_store_counts_are_refused() {
        let hash = |byte| NodeHash::from([byte; 32]);
        let refused = |losses: Vec<(NodeHash, u64)>| {
            let gains = Vec::new();
            StateDiff::read(&StateDiff { gains, losses }.record()).is_none()
        };
        assert!(!refused(vec![(hash(1), 1), (hash(2), 1)]));
        assert!(refused(vec![(hash(1), 0)]));
        assert!(refused(vec![(hash(1), MOST_REFERENCES + 1)]));
        assert!(refused(vec![(hash(2), 1), (hash(1), 1)]));
        assert!(refused(vec![(hash(1), 1), (hash(1), 1)]));
    }

    #[test]
    fn a_journal_is_read_back() {
        for diff in [StateDiff::default(), diff()] {
            assert_eq!(StateDiff::read(&diff.record()), Some(diff));
        }
    }

    /// Each bit of a record counts, and a record of format 2 has no checksum.
    fn each_bit_counts<T>(record: &[u8], read: impl Fn(&[u8]) -> Option<T>) {
        assert!(read(record).is_some());
        assert!(read(&record[..record.len() - CHECKSUM]).is_some());
        let mut damaged = record.to_vec();
        for (at, byte) in record.iter().enumerate() {
            for bit in 0..8 {
                damaged[at] = byte ^ (1 << bit);
                assert!(read(&damaged).is_none(), "{at}, {bit}");
            }
            damaged[at] = *byte;
        }
    }

    #[test]
    fn damaged_records_are_refused() {
        let some = StateDiff {
            gains: diff().gains[..70].to_vec(),
            ..diff()
        };
        for diff in [StateDiff::default(), some] {
            each_bit_counts(&diff.record(), StateDiff::read);
        }
        let states = KeptStates::only(6, 7, Root::EMPTY);
        each_bit_counts(&history_record(states.base(), 9), read_history);
        let state = state_record(StateId(3), 4, Root::EMPTY);
        each_bit_counts(&state, |record| read_state(StateId(5), record));
    }

    #[test]
    fn records_cut_off_or_too_long_are_refused() {
        // Without its checksum, a record is one of format 2.
        let shorter = |len: usize| (0..len).filter(move |end| end + CHECKSUM != len);
        let record = diff().record();
        assert!(shorter(record.len()).all(|end| StateDiff::read(&record[..end]).is_none()));
        assert_eq!(StateDiff::read(&[record, vec![0]].concat()), None);
        let record = state_record(StateId(3), 4, Root::EMPTY);
        assert_eq!(
            read_state(StateId(5), &record).unwrap().parent,
            Some(StateId(3))
        );
        assert!(shorter(record.len()).all(|end| read_state(StateId(5), &record[..end]).is_none()));
        let of = |id, height, next| {
            let states = KeptStates::only(id, height, Root::EMPTY);
            history_record(states.base(), next)
        };
        let record = of(6, 7, 7);
        assert_eq!(
            read_history(&record),
            Some(KeptStates::only(6, 7, Root::EMPTY))
        );
        assert!(shorter(record.len()).all(|end| read_history(&record[..end]).is_none()));
        let history = |id: u64, next: u64| {
            let record = [&id.to_le_bytes(), &record[8..48], &next.to_le_bytes()].concat();
            read_history(&with_checksum(record))
        };
        assert!(history(6, 6 + MOST_SINCE_BASE).is_some());
        let at = |height| read_history(&of(6, height, 7));
        assert!(at(MOST_HEIGHT).is_some());
        assert_eq!(at(MOST_HEIGHT + 1), None);
        for (id, next) in [
            (6, 6),
            (6, 5),
            (u64::MAX, 0),
            (u64::MAX, u64::MAX),
            (6, u64::MAX),
        ] {
            assert_eq!(history(id, next), None, "{id}, {next}");
        }
    }
}
