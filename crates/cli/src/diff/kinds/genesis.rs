//! What is compared of genesis states.

use crate::{
    diff::{
        kind::Comparable,
        parts::{facts, Parts},
    },
    genesis::Genesis,
};

impl Comparable for Genesis {
    const HAS_ROWS: bool = false;

    fn parts(&self) -> Result<Parts, serde_json::Error> {
        let Self {
            name,
            id,
            entries,
            child_tries,
            child_entries,
            state_version,
            state_root,
            genesis_hash,
            // Not compared, because only the version itself changes the state.
            state_version_from: _,
            unreadable: _,
        } = self;
        let mut parts = Parts::default();
        parts.option("state_version", state_version)?;
        let mut top = parts.top();
        facts!(top, ""; name, id, entries, child_tries, child_entries, state_root, genesis_hash);
        Ok(parts)
    }
}
