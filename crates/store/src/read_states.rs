//! Reads the kept states of a database that is being opened.
//!
//! The record about all states names the first state and the next one. Of the names between them some may be those of
//! discarded states, which have no records. A look-up for each name is fast, unless one of the two numbers is damaged:
//! there may be 2^32 names between them. So after many absent states in a row, the states that the database really has
//! are counted, and where they can be:
//!
//! ```text
//! states: the base
//! for each name after that of the base, until the next name
//!     it has a record            add the state; it must be on one of `states`
//!     only a journal             damaged
//!     nothing, GAP times in a row
//!         the database has no other states      done
//!         none of them is on one of `states`    damaged, because a parent comes before its children
//! the next name is far beyond the last state    damaged, or a later state would be as far away
//! ```

use crate::history::{KeptState, KeptStates, StateId};
use crate::journal::{diff_key, read_history, read_state, state_key, StateDiff, HISTORY_KEY};
use crate::open_error::OpenError;
use crate::store::record_text;
use crate::StoreError;
use std::collections::BTreeMap;
use std::path::Path;

/// Absent states in a row after which the records of the database are counted. Two look-ups for each of them take
/// less time than to read the records of a large store.
const GAP: u64 = 1 << 16;

/// The most names in a row without a state, which a store has after as many discarded blocks. More are damage, and
/// twice as many look-ups could take many minutes.
const MOST_ABSENT: u64 = 1 << 27;

/// The records of a database.
pub(crate) trait Records {
    /// The record with the key `key`, if there is one.
    fn record(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;

    /// Calls `visit` with the value of each record of a state and each journal, and perhaps of others, in no special
    /// order.
    fn each_record(&self, visit: &mut dyn FnMut(&[u8])) -> Result<(), StoreError>;
}

/// Reads the states from the `records` of the store in the folder `path`; `Ok(None)` if the record about all states
/// is missing.
///
/// # Errors
/// [`OpenError::Damaged`] if a record is damaged, missing for a state that has a journal, or of a state that is on
/// none of the kept ones; [`OpenError::Database`] if the database failed.
pub(crate) fn read_states(
    path: &Path,
    records: &impl Records,
) -> Result<Option<KeptStates>, OpenError> {
    let read = |key: &[u8]| {
        let record = records.record(key);
        record.map_err(|error| OpenError::records(path, error))
    };
    let damaged = |record: String, found: Option<&[u8]>| {
        let found = record_text(found.map_or(0, <[u8]>::len));
        OpenError::damaged(path, format!("the record `{record}`"), found)
    };
    let Some(history) = read(HISTORY_KEY)? else {
        return Ok(None);
    };
    let name = || String::from_utf8_lossy(HISTORY_KEY).into_owned();
    let states = read_history(&history);
    let mut states = states.ok_or_else(|| damaged(name(), Some(&history)))?;
    let mut absent = 0_u64;
    let mut unread: Option<Unread> = None;
    for id in (states.base().id.0 + 1..states.next()).map(StateId) {
        let Some(found) = read(&state_key(id))? else {
            // A discarded state has no journal either, because one write removes both.
            if read(&diff_key(id))?.is_some() {
                return Err(damaged(format!("state {id}"), None));
            }
            absent += 1;
            if absent.is_multiple_of(GAP) {
                let unread = match &mut unread {
                    Some(unread) => unread,
                    none => none.insert(Unread::of(path, records, &states)?),
                };
                if unread.on.is_empty() {
                    break;
                }
                unread.expect_one_on(path, &states)?;
                expect_near(path, &states, id)?;
            }
            continue;
        };
        let is_on_its_parent = |state: &KeptState| {
            let parent = state.parent.and_then(|parent| states.get(parent));
            parent.is_some_and(|parent| parent.height.checked_add(1) == Some(state.height))
        };
        let state = read_state(id, &found).filter(is_on_its_parent);
        let state = state.ok_or_else(|| damaged(format!("state {id}"), Some(&found)))?;
        states.add(state);
        absent = 0;
        if let Some(unread) = &mut unread {
            unread.forget(&state);
        }
    }
    expect_near(path, &states, StateId(states.next()))?;
    Ok(Some(states))
}

/// Checks that the name `next`, which has no state, is not far beyond the newest of `states`.
fn expect_near(path: &Path, states: &KeptStates, next: StateId) -> Result<(), OpenError> {
    let newest = states.newest().id;
    let most = newest.0.saturating_add(MOST_ABSENT);
    if next.0 <= most {
        return Ok(());
    }
    let expected = format!("the state after state {newest} to have a number up to {most}");
    Err(OpenError::damaged(path, expected, next.to_string()))
}

/// The states in a database that were not read yet. Their names are not known, because parity-db does not list keys.
struct Unread {
    /// How many are on each state.
    on: BTreeMap<StateId, u64>,
}

impl Unread {
    /// Counts the states in the store besides `states`.
    ///
    /// # Errors
    /// [`OpenError::Damaged`] if there are more journals than states.
    fn of(path: &Path, records: &impl Records, states: &KeptStates) -> Result<Self, OpenError> {
        let mut unread = Self {
            on: BTreeMap::new(),
        };
        let (mut count, mut journals) = (0_u64, 0_u64);
        let counted = records.each_record(&mut |record| {
            // The name is not a part of the record.
            let parent = read_state(StateId(0), record).and_then(|state| state.parent);
            if let Some(parent) = parent {
                count += 1;
                *unread.on.entry(parent).or_default() += 1;
            } else if StateDiff::read(record).is_some() {
                journals += 1;
            }
        });
        counted.map_err(|error| OpenError::records(path, error))?;
        if journals > count {
            let expected = format!("records of {journals} states, which have journals");
            return Err(OpenError::damaged(path, expected, format!("{count}")));
        }
        states.iter().for_each(|state| unread.forget(state));
        Ok(unread)
    }

    /// Removes `state`, which was read.
    fn forget(&mut self, state: &KeptState) {
        let Some(parent) = state.parent else { return };
        if let Some(count) = self.on.get_mut(&parent) {
            *count -= 1;
            if *count == 0 {
                self.on.remove(&parent);
            }
        }
    }

    /// Checks that one of the unread states is on one of `states`, which are all states before it.
    fn expect_one_on(&self, path: &Path, states: &KeptStates) -> Result<(), OpenError> {
        if self.on.keys().any(|parent| states.get(*parent).is_some()) {
            return Ok(());
        }
        let expected = format!(
            "a state on the base, which is state {}, or on a descendant of it",
            states.base().id
        );
        let others: u64 = self.on.values().sum();
        let found = format!("{others} on other states");
        Err(OpenError::damaged(path, expected, found))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::engine::tests::keep_on;
    use crate::engine::{discard, first_write, prune, Batch, Engine, Held};
    use crate::journal::{history_record, state_record};
    use povmeter_delta_root::{NodeHash, Root};
    use std::cell::Cell;

    /// An engine of records alone.
    struct Store {
        kept: KeptStates,
        records: BTreeMap<Vec<u8>, Vec<u8>>,
        looks: Cell<u64>,
    }

    impl Store {
        fn new() -> Self {
            let (batch, kept) = first_write();
            let records = BTreeMap::new();
            let looks = Cell::new(0);
            let mut new = Self {
                kept,
                records,
                looks,
            };
            new.write(batch).unwrap();
            new
        }

        fn read(&self) -> Result<Option<KeptStates>, OpenError> {
            read_states(Path::new("store"), self)
        }

        /// The same, of which an error is expected: what the store should have, and what was found.
        fn damage(&self) -> [String; 2] {
            match self.read() {
                Err(OpenError::Damaged {
                    expected, found, ..
                }) => [expected, found],
                other => panic!("{other:?}"),
            }
        }

        /// Writes that the base and the next state have these names.
        fn set_history(&mut self, base: u64, next: u64) {
            let base = KeptStates::only(base, 0, Root::EMPTY);
            let record = history_record(base.base(), next);
            self.records.insert(HISTORY_KEY.to_vec(), record);
        }
    }

    impl Engine for Store {
        const REFERENCE_LIMIT: u64 = 1;

        fn kept(&self) -> &KeptStates {
            &self.kept
        }

        fn kept_mut(&mut self) -> &mut KeptStates {
            &mut self.kept
        }

        fn held(&self, _: &NodeHash) -> Result<Held, StoreError> {
            Ok(Held::Some)
        }

        fn record(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
            self.looks.set(self.looks.get() + 1);
            Ok(self.records.get(key).cloned())
        }

        fn write(&mut self, batch: Batch) -> Result<(), StoreError> {
            for (key, value) in batch.records {
                match value {
                    Some(value) => drop(self.records.insert(key, value)),
                    None => drop(self.records.remove(&key)),
                }
            }
            Ok(())
        }
    }

    impl Records for Store {
        fn record(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
            Engine::record(self, key)
        }

        fn each_record(&self, visit: &mut dyn FnMut(&[u8])) -> Result<(), StoreError> {
            self.records.values().for_each(|record| visit(record));
            Ok(())
        }
    }

    /// All states but the base.
    fn others(engine: &Store) -> Vec<KeptState> {
        engine.kept.iter().skip(1).copied().collect()
    }

    #[test]
    fn a_state_that_lost_its_record_is_no_discarded_one() {
        let mut engine = Store::new();
        keep_on(&mut engine, [0, 1, 1, 3, 0]);
        discard(&mut engine, StateId(2)).unwrap();
        assert_eq!(engine.read().unwrap().as_ref(), Some(engine.kept()));
        for state in others(&engine) {
            let lost = engine.records.remove(&state_key(state.id)).unwrap();
            let record = format!("the record `state {}`", state.id);
            assert_eq!(engine.damage(), [record, "none".to_owned()]);
            engine.records.insert(state_key(state.id), lost);
        }
        prune(&mut engine, StateId(1)).unwrap();
        assert_eq!(engine.read().unwrap().as_ref(), Some(engine.kept()));
        assert_eq!(engine.kept().len(), 3);
    }

    #[test]
    fn a_state_is_one_above_its_parent() {
        let mut engine = Store::new();
        keep_on(&mut engine, [0, 1, 0]);
        for state in others(&engine) {
            let parent = state.parent.unwrap();
            for height in [state.height - 1, state.height + 1, u64::MAX] {
                let record = state_record(parent, height, state.root);
                let bytes = record.len();
                let right = engine.records.insert(state_key(state.id), record).unwrap();
                let record = format!("the record `state {}`", state.id);
                assert_eq!(
                    engine.damage(),
                    [record, format!("{bytes} bytes that are none")]
                );
                engine.records.insert(state_key(state.id), right);
            }
        }
        assert_eq!(engine.read().unwrap().as_ref(), Some(engine.kept()));
    }

    /// A name just below the greatest possible one would need 2^33 look-ups.
    const FAR: u64 = (1 << 32) - 1;

    /// The next name only matters for states to come.
    #[test]
    fn names_that_no_state_has_are_not_all_looked_up() {
        let mut engine = Store::new();
        keep_on(&mut engine, [0, 1, 1]);
        // The newest state is 3.
        for next in [3 + MOST_ABSENT, 4 + MOST_ABSENT, FAR] {
            engine.set_history(0, next);
            engine.looks.set(0);
            if next == 3 + MOST_ABSENT {
                let states = engine.read().unwrap().unwrap();
                assert!(states.iter().eq(engine.kept.iter()));
                assert_eq!(states.next(), next);
            } else {
                let most = 3 + MOST_ABSENT;
                let expected = format!("the state after state 3 to have a number up to {most}");
                assert_eq!(engine.damage(), [expected, next.to_string()]);
            }
            // The history, three states, and twice each name of the gap.
            assert_eq!(engine.looks.get(), 1 + 3 + 2 * GAP);
        }
    }

    #[test]
    fn a_base_before_all_states_is_damaged() {
        let mut engine = Store::new();
        keep_on(&mut engine, [0]);
        prune(&mut engine, StateId(1)).unwrap();
        engine.kept = engine.kept.clone().with_next(FAR - 2);
        keep_on(&mut engine, [1, FAR - 2]);
        engine.set_history(0, FAR);
        engine.looks.set(0);
        let expected = "a state on the base, which is state 0, or on a descendant of it";
        assert_eq!(engine.damage(), [expected, "2 on other states"]);
        // The history, and twice each name of the gap.
        assert_eq!(engine.looks.get(), 1 + 2 * GAP);
    }

    /// States that were discarded leave no records, however many they were.
    #[test]
    fn states_beyond_a_gap_are_read() {
        let mut engine = Store::new();
        keep_on(&mut engine, [0, 1]);
        let first = 3 * GAP;
        engine.kept = engine.kept.clone().with_next(first);
        keep_on(&mut engine, [1, first, 0]);
        engine.kept = engine.kept.clone().with_next(6 * GAP);
        keep_on(&mut engine, [first + 1]);
        assert_eq!(engine.read().unwrap().as_ref(), Some(engine.kept()));
        // Beyond the last one, only the gap.
        engine.kept = engine.kept.clone().with_next(100 * GAP);
        engine.set_history(0, 100 * GAP);
        assert_eq!(engine.read().unwrap().as_ref(), Some(engine.kept()));
    }

    #[test]
    fn a_journal_beyond_a_gap_has_a_state() {
        let mut engine = Store::new();
        keep_on(&mut engine, [0]);
        engine.kept = engine.kept.clone().with_next(3 * GAP);
        keep_on(&mut engine, [1]);
        engine.records.remove(&state_key(StateId(3 * GAP)));
        engine.set_history(0, FAR);
        let expected = "records of 2 states, which have journals";
        assert_eq!(engine.damage(), [expected, "1"]);
    }
}
