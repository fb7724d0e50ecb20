//! What is compared of root updates.

use crate::{
    compare_root_report::{Checks, OfVersion, RootReport},
    diff::{
        kind::Comparable,
        measure::{ALLOCATIONS, SPEED, TIME},
        parts::{facts, numbers, Parts},
    },
};
use povmeter_dev_measure::{HashRow, RootRow};

impl Comparable for RootReport {
    const HAS_ROWS: bool = true;

    fn parts(&self) -> Result<Parts, serde_json::Error> {
        let Self {
            cases,
            seed,
            modes,
            missing,
            checks,
            versions,
            known_states,
            failures: _,
            known_failures: _,
            rounds,
            rows,
            hashing,
        } = self;
        let mut parts = Parts::default();
        parts.option("cases", cases)?;
        parts.option("seed", seed)?;
        parts.checks(checks.named());
        let mut top = parts.top();
        facts!(top, ""; rounds, modes, missing, known_states);
        let Checks {
            updates_differ,
            known_states_differ,
        } = checks;
        facts!(top, "checks/"; updates_differ, known_states_differ);
        for of in versions {
            let OfVersion {
                state_version,
                blocks,
                changes,
                inserted,
                removed,
            } = of;
            let mut row = parts.row(format!("versions {state_version}"));
            facts!(row, ""; blocks, changes, inserted, removed);
        }
        for row in rows {
            let RootRow {
                keys,
                changes,
                mode,
                us,
                ratio_to_peer_plain,
                ratio_to_peer_node,
                allocations_per_change,
            } = row;
            let judged = ![RootRow::PEER_PLAIN, RootRow::PEER_NODE].contains(&&**mode);
            let name = format!("{keys} {changes} {mode}");
            let mut row = parts.row(name).judged(judged);
            numbers!(row, ALLOCATIONS, ""; allocations_per_change);
            numbers!(row, SPEED, ""; ratio_to_peer_node);
            numbers!(row, SPEED.shown(), ""; ratio_to_peer_plain);
            numbers!(row, TIME.shown(), ""; us);
        }
        for hashed in hashing {
            let HashRow {
                keys,
                changes,
                mode,
                nodes,
                compressions,
                us,
            } = hashed;
            let mut row = parts.row(format!("hashing {keys} {changes} {mode}"));
            facts!(row, ""; nodes, compressions);
            numbers!(row, TIME.shown(), ""; us);
        }
        Ok(parts)
    }
}
