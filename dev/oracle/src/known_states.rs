//! Real states, built from the empty state: compares our root update with the peer's, and the root
//! with the known one.

use super::roots::{PeersUpdate, RootCounts, RootMismatch, RootMode};
use povmeter::Root;
use povmeter_delta_root::{Changes, KeyChanges, CHILD_ROOT_PREFIX};
use povmeter_dev_data::{
    block_files, read_file, ChainSpec, ChainSpecError, FileError, RealBlocks, RealBlocksError,
};
use povmeter_dev_runtime::{runtime::Hashing, Entries};
use povmeter_store::MemoryStore;
use povmeter_substrate::state_version;
use sp_core::{
    storage::{ChildInfo, StateVersion},
    H256,
};
use sp_state_machine::{Backend, InMemoryBackend};
use std::{io, path::Path};

/// A state of a public chain.
#[derive(Debug)]
pub struct KnownState {
    /// The name of the state.
    pub name: String,
    version: StateVersion,
    root: Option<H256>,
    spec: ChainSpec,
}

/// Why states cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KnownStatesError {
    /// The list of roots can't be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// The list of roots can't be parsed.
    #[error("expected a list of genesis roots, found: {0}")]
    Json(#[from] serde_json::Error),
    /// The list has an unknown state version.
    #[error("{name}: expected state version V0 or V1, found `{found}`")]
    StateVersion {
        /// The state.
        name: String,
        /// The version in the list.
        found: String,
    },
    /// A state can't be read.
    #[error("can't read the state {name}")]
    Spec {
        /// The state.
        name: String,
        /// The reason.
        source: ChainSpecError,
    },
    /// The folder of blocks can't be read.
    #[error("can't read the folder of blocks")]
    Folder(#[from] io::Error),
    /// A file of blocks can't be read.
    #[error("can't read a file of blocks")]
    Blocks(#[from] RealBlocksError),
}

#[derive(serde::Deserialize)]
struct KnownRoot {
    spec: String,
    state_version: String,
    state_root: H256,
}

impl KnownState {
    /// Returns all states in the folder of real data `data`: those of chain specifications whose
    /// roots are known, and the parent states of blocks.
    ///
    /// # Errors
    /// [`KnownStatesError`] if a file cannot be read or decoded.
    pub fn read_all(data: &Path) -> Result<Vec<Self>, KnownStatesError> {
        let mut states = Vec::new();
        let roots = read_file(&data.join("genesis-roots.json"))?;
        for known in serde_json::from_slice::<Vec<KnownRoot>>(&roots)? {
            let name = known.spec;
            let path = data.join(format!("chain-specs/{name}.json.gz"));
            let version = match known.state_version.as_str() {
                "V0" => StateVersion::V0,
                "V1" => StateVersion::V1,
                _ => {
                    let found = known.state_version;
                    return Err(KnownStatesError::StateVersion { name, found });
                }
            };
            let spec = ChainSpec::read(&path);
            let root = Some(known.state_root);
            states.push(Self::new(name, version, root, spec)?);
        }
        for path in block_files(data)? {
            let blocks = RealBlocks::read(&path)?;
            let spec = blocks.read_state();
            let name = format!("before {}", blocks.name);
            states.push(Self::new(name, blocks.state_version, None, spec)?);
        }
        Ok(states)
    }

    fn new(
        name: String,
        version: StateVersion,
        root: Option<H256>,
        spec: Result<ChainSpec, ChainSpecError>,
    ) -> Result<Self, KnownStatesError> {
        match spec {
            Ok(mut spec) => {
                // Both sides compute the roots of child tries.
                spec.top
                    .retain(|key, _| !key.starts_with(CHILD_ROOT_PREFIX));
                Ok(Self {
                    name,
                    version,
                    root,
                    spec,
                })
            }
            Err(source) => Err(KnownStatesError::Spec { name, source }),
        }
    }

    /// Compares the update from the empty state with the peer's, in all of `modes`. Also compares the
    /// peer's root with the known root, if there is one.
    ///
    /// # Errors
    /// The first [`RootMismatch`].
    pub fn compare(&self, modes: &[RootMode]) -> Result<RootCounts, RootMismatch> {
        let empty = InMemoryBackend::<Hashing>::default();
        let top = self.spec.top.iter();
        let top = top.map(|(key, value)| (key.as_slice(), Some(value.as_slice())));
        let children: Vec<_> = self
            .spec
            .children
            .iter()
            .map(|(key, entries)| (ChildInfo::new_default(key), all_set(entries)))
            .collect();
        let of_children = children.iter();
        let of_children = of_children.map(|(child, entries)| (child, entries.iter().copied()));
        let (root, transaction) = empty.full_storage_root(top, of_children, self.version);
        if let Some(expected) = self.root.filter(|expected| *expected != root) {
            let (mode, found) = ("sp-state-machine", root);
            return Err(RootMismatch::Root {
                mode,
                expected,
                found,
            });
        }
        let changes = Changes {
            top: all_set(&self.spec.top),
            children: self
                .spec
                .children
                .iter()
                .map(|(key, entries)| (key.as_slice(), all_set(entries)))
                .collect(),
        };
        let peers = PeersUpdate {
            parent: Root::EMPTY,
            root,
            transaction,
        };
        let version = state_version(self.version);
        peers.compare(&&MemoryStore::new(), &changes, version, modes)
    }
}

/// Returns the changes that turn an empty trie into `entries`.
fn all_set(entries: &Entries) -> KeyChanges<'_> {
    let set = entries.iter();
    set.map(|(key, value)| (key.as_slice(), Some(value.as_slice())))
        .collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    #[ignore = "needs the real chain data"]
    fn every_known_state() {
        let data = povmeter_dev_data::expect_data();
        let modes = RootMode::all(|_| {}).unwrap();
        let states = KnownState::read_all(&data).unwrap();
        assert_eq!(states.len(), 13);
        let mut counts = RootCounts::default();
        for state in &states {
            counts += state.compare(&modes).unwrap();
        }
        assert!(counts.changes > 10_000, "{counts:?}");
        assert!(states.iter().any(|state| !state.spec.children.is_empty()));
    }
}
