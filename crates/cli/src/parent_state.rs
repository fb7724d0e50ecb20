//! The parent state of a plan, created or opened.

use crate::{
    engine::{Engine, Mode},
    error::CliError,
    options::StateArg,
    progress,
    scratch::ScratchFolder,
};
use povmeter::Root;
use povmeter_dev_runtime::{commit_parent, Peer, Plan, SharedNodes};
use povmeter_store::{MemoryStore, Verified};
use std::path::Path;

/// The nodes of the parent state of a plan.
pub(crate) struct ParentState {
    pub(crate) nodes: SharedNodes,
    // Declared after the nodes, so that the database is closed before its folder is removed.
    _folder: Option<ScratchFolder>,
}

/// Whether the hash of a node is checked when the node is read from disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    /// Every hash is checked, so that the error names the damaged node.
    Verify,
    /// No hash is checked, as in the peer.
    AsStored,
}

impl ParentState {
    /// The parent state of `plan`: in memory, in the folder `db`, or in a temporary folder. In a folder
    /// it is created if it is missing.
    ///
    /// # Errors
    /// A [`CliError`] if the folder holds something else, which is left as it is, or the state can't be
    /// created.
    pub(crate) fn open(
        plan: &Plan,
        state: StateArg,
        db: Option<&Path>,
        trust: Trust,
    ) -> Result<Self, CliError> {
        let accounts = plan.options().accounts;
        let what = format!("creating or opening a state of {accounts} accounts");
        progress::during(what, || match (state.engine(), db) {
            (None, _) => {
                let mut store = MemoryStore::new();
                commit_parent(&mut store, plan)?;
                Ok(Self {
                    nodes: SharedNodes::new(store),
                    _folder: None,
                })
            }
            (Some(engine), Some(path)) => Ok(Self {
                nodes: on_disk(plan, engine, path, trust)?,
                _folder: None,
            }),
            (Some(engine), None) => {
                let folder = ScratchFolder::new().map_err(CliError::temporary_folder)?;
                Ok(Self {
                    nodes: on_disk(plan, engine, folder.path(), trust)?,
                    _folder: Some(folder),
                })
            }
        })
    }

    /// The peer over the same nodes, without a cache.
    pub(crate) fn peer(&self, plan: &Plan) -> Peer {
        let parent = self.nodes.parent(plan.parent().state_root);
        Peer::new(parent, plan.options().state_version)
    }
}

/// The nodes in the store at `path`, which is created if it is missing.
fn on_disk(
    plan: &Plan,
    engine: Engine,
    path: &Path,
    trust: Trust,
) -> Result<SharedNodes, CliError> {
    let expected = Root::from(plan.parent().state_root.0);
    let mut store = engine.store(path, Mode::OpenOrCreate, CliError::Open)?;
    if store.root() == Root::EMPTY {
        commit_parent(&mut *store, plan)?;
    }
    let found = store.root();
    if found != expected {
        return Err(CliError::OtherState {
            path: path.to_owned(),
            expected,
            found,
        });
    }
    Ok(match trust {
        Trust::Verify => SharedNodes::new(Verified::new(store)),
        Trust::AsStored => SharedNodes::new(store),
    })
}
