//! Finds out whether a store is whole.
//!
//! ```text
//! base                  visit every place: the node is there and hashes to its name; count places
//! each other state X    visit X and its parent side by side, skip equal subtries:
//!                       nodes only in X are there; the difference is X's journal
//! all nodes stored      count = places in the base + gains of all journals
//! ```

use crate::history::StateId;
use crate::journal::StateDiff;
use crate::progress::{Progress, PROGRESS_STEPS};
use crate::store::record_text;
use crate::stored::StoredNodes;
use crate::walk::{NodeFault, Walk};
use crate::StoreError;
use foldhash::fast::RandomState;
use povmeter_delta_root::{NodeHash, NodeSource, Root};
use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;

/// The most problems that a report lists.
const LISTED_PROBLEMS: usize = 100;

/// What [`verify`] found.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct VerifyReport {
    /// Kept states, all of which were visited.
    pub states: usize,
    /// Distinct nodes in the store.
    pub nodes: u64,
    /// Bytes of the distinct nodes.
    pub bytes: u64,
    /// Places visited: those of the base, and in other states those that their parents lack.
    pub places: u64,
    /// The first 100 problems.
    pub problems: Vec<Problem>,
    /// Number of all problems.
    pub problem_count: u64,
}

impl VerifyReport {
    /// Whether nothing is wrong.
    pub fn is_clean(&self) -> bool {
        self.problem_count == 0
    }

    fn add(&mut self, problem: Problem) {
        self.problem_count += 1;
        if self.problems.len() < LISTED_PROBLEMS {
            self.problems.push(problem);
        }
    }
}

/// Something wrong in a store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// A node of a kept state is missing or damaged. Blocks on that state may fail.
    #[error("state {state}: node {hash} is {fault}")]
    Node {
        /// A state that has the node.
        state: StateId,
        /// Hash of the node.
        hash: NodeHash,
        /// What is wrong with the node.
        fault: NodeFault,
    },
    /// The store counts more or fewer references to a node than the kept states have. The node would be
    /// dropped too early, or never.
    #[error("node {hash} is counted {found} times, the kept states have it {expected} times")]
    Count {
        /// Hash of the node, or of its bytes if the database does not return its key.
        hash: NodeHash,
        /// References in the kept states.
        expected: u64,
        /// References that the store counts.
        found: u64,
    },
    /// The journal of a state is not the difference between it and its parent. Pruning or discarding it
    /// would remove wrong nodes.
    #[error("state {state}: its journal changes node {hash} by {found}, the tries by {expected}")]
    Journal {
        /// The state.
        state: StateId,
        /// Hash of the node.
        hash: NodeHash,
        /// Change between the tries.
        expected: i128,
        /// Change in the journal.
        found: i128,
    },
    /// The journal of a state is missing or damaged. The store can't prune to the state or a descendant, nor to any state
    /// that would drop this one; neither the state nor an ancestor can be discarded, and the store can't be backed up.
    #[error("state {state}: expected its journal, found {}", record_text(*.found))]
    DamagedJournal {
        /// The state.
        state: StateId,
        /// Bytes of its record; 0 if there is none.
        found: usize,
    },
}

/// Checks every kept state: that every node reachable from its root, child tries included, is there and
/// hashes to its name, and that the counts in the store and the journals match the tries. Calls
/// `progress` with the places visited so far. Changes nothing.
///
/// # Errors
/// If the database fails to return a journal or the list of nodes. Faults of nodes and journals are in the report.
///
/// # Cost
/// Reads each place of the base, and each node of the store once more. Takes about 100 bytes of memory
/// for each distinct node.
pub fn verify<S: StoredNodes + ?Sized>(
    store: &mut S,
    progress: Progress<'_>,
) -> Result<VerifyReport, StoreError> {
    let states: Vec<_> = store.states().iter().copied().collect();
    let mut check = Check {
        report: VerifyReport {
            states: states.len(),
            ..VerifyReport::default()
        },
        expected: HashMap::default(),
        progress,
    };
    for state in &states {
        let parent = state.parent.and_then(|parent| store.states().get(parent));
        match parent {
            None => check.base(store, state.id, state.root),
            Some(parent) => {
                let diff = match store.diff(state.id) {
                    Ok(diff) => Some(diff),
                    Err(StoreError::DamagedRecord { bytes: found, .. }) => {
                        let state = state.id;
                        check.report.add(Problem::DamagedJournal { state, found });
                        None
                    }
                    Err(error) => return Err(error),
                };
                check.block(store, state.id, [parent.root, state.root], diff.as_ref());
            }
        }
    }
    check.counts(store)?;
    (check.progress)(check.report.places);
    Ok(check.report)
}

struct Check<'p> {
    report: VerifyReport,
    /// The references that each node should have.
    expected: HashMap<NodeHash, u64, RandomState>,
    progress: Progress<'p>,
}

impl Check<'_> {
    fn step(&mut self) {
        self.report.places += 1;
        if self.report.places.is_multiple_of(PROGRESS_STEPS) {
            (self.progress)(self.report.places);
        }
    }

    fn fault(&mut self, state: StateId, hash: NodeHash, fault: NodeFault) {
        self.report.add(Problem::Node { state, hash, fault });
    }

    /// Visits all places of the base.
    fn base(&mut self, source: &(impl NodeSource + ?Sized), state: StateId, root: Root) {
        let mut walk = Walk::new(source, root);
        while let Some((place, found)) = walk.enter() {
            self.step();
            *self.expected.entry(place.hash).or_default() += 1;
            if let Err(fault) = found {
                self.fault(state, place.hash, fault);
            }
        }
    }

    /// Visits the places of a state that its parent lacks, and compares its journal, if that can be read.
    fn block(
        &mut self,
        source: &(impl NodeSource + ?Sized),
        state: StateId,
        [parent, root]: [Root; 2],
        diff: Option<&StateDiff>,
    ) {
        let mut changes = BTreeMap::<NodeHash, i128>::new();
        let [mut before, mut after] = [parent, root].map(|root| Walk::new(source, root));
        loop {
            let order = match (before.peek(), after.peek()) {
                (None, None) => break,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(old), Some(new)) if (&old.path, old.hash) == (&new.path, new.hash) => {
                    before.skip();
                    after.skip();
                    continue;
                }
                (Some(old), Some(new)) => old.path.cmp(&new.path),
            };
            if order.is_le() {
                // The visit of the parent reported this node's fault.
                if let Some((place, _)) = before.enter() {
                    *changes.entry(place.hash).or_default() -= 1;
                }
            }
            if order.is_ge() {
                if let Some((place, found)) = after.enter() {
                    self.step();
                    *changes.entry(place.hash).or_default() += 1;
                    if let Err(fault) = found {
                        self.fault(state, place.hash, fault);
                    }
                }
            }
        }
        match diff {
            Some(diff) => self.journal(state, changes, diff),
            // A whole journal would have these gains.
            None => {
                for (hash, change) in changes {
                    self.expect(hash, u64::try_from(change).unwrap_or(0));
                }
            }
        }
    }

    /// Counts references that a node should have.
    fn expect(&mut self, hash: NodeHash, references: u64) {
        if references > 0 {
            let expected = self.expected.entry(hash).or_default();
            *expected = expected.saturating_add(references);
        }
    }

    /// Compares the changes between two tries with a journal, and counts the journal's gains.
    fn journal(&mut self, state: StateId, changes: BTreeMap<NodeHash, i128>, diff: &StateDiff) {
        let mut differences = changes.clone();
        for (hash, references) in &diff.gains {
            self.expect(*hash, *references);
            *differences.entry(*hash).or_default() -= i128::from(*references);
        }
        for (hash, references) in &diff.losses {
            *differences.entry(*hash).or_default() += i128::from(*references);
        }
        for (hash, difference) in differences.into_iter().filter(|(_, by)| *by != 0) {
            let expected = changes.get(&hash).copied().unwrap_or_default();
            self.report.add(Problem::Journal {
                state,
                hash,
                expected,
                found: expected - difference,
            });
        }
    }

    /// Compares the counts of all nodes in the store with the expected ones.
    fn counts<S: StoredNodes + ?Sized>(&mut self, store: &mut S) -> Result<(), StoreError> {
        let Self {
            report, expected, ..
        } = self;
        store.each_node(&mut |node| {
            report.nodes += 1;
            report.bytes += node.encoded.len() as u64;
            let wanted = expected.remove(&node.hash).unwrap_or_default();
            if wanted != node.references {
                report.add(Problem::Count {
                    hash: node.hash,
                    expected: wanted,
                    found: node.references,
                });
            }
            ControlFlow::Continue(())
        })?;
        // Sorted by hash, so that two reports of one store are equal.
        let mut left: Vec<_> = expected.drain().collect();
        left.sort_unstable();
        for (hash, expected) in left {
            report.add(Problem::Count {
                hash,
                expected,
                found: 0,
            });
        }
        Ok(())
    }
}
