//! The parent state of a plan, created or opened.

use crate::{
    engine::{DiskStore, Engine},
    error::CliError,
    options::StateArg,
    progress,
    scratch::ScratchFolder,
};
use povmeter::Root;
use povmeter_dev_runtime::{commit_parent, Peer, Plan, SharedNodes};
use povmeter_store::{MemoryStore, OpenError, Verified};
use std::path::Path;

/// The nodes of the parent state of a plan.
pub(crate) struct ParentState {
    /// For what is checked. If they are on disk, the hash of each node that is read is checked, so that the error names
    /// the damaged node.
    pub(crate) nodes: SharedNodes,
    /// The same nodes for what is timed: no hash is checked, as in a node. sp-state-machine reads a node more often
    /// than povmeter does, so with such checks it would look too slow.
    pub(crate) as_stored: SharedNodes,
    // Declared after the nodes, so that the database is closed before its folder is removed.
    _folder: Option<ScratchFolder>,
}

impl ParentState {
    /// The parent state of `plan`: in memory, in the folder `db`, or in a temporary folder. In a folder
    /// it is created if it is missing.
    ///
    /// # Errors
    /// A [`CliError`] if the folder holds something else, which is left as it is, or the state can't be
    /// created.
    pub(crate) fn open(plan: &Plan, state: StateArg, db: Option<&Path>) -> Result<Self, CliError> {
        let accounts = plan.options().accounts;
        let what = format!("creating or opening a state of {accounts} accounts");
        progress::during(what, || match (state.engine(), db) {
            (None, _) => {
                let mut store = MemoryStore::new();
                commit_parent(&mut store, plan)?;
                let nodes = SharedNodes::new(store);
                Ok(Self {
                    nodes: nodes.clone(),
                    as_stored: nodes,
                    _folder: None,
                })
            }
            (Some(engine), Some(path)) => Self::on_disk(plan, engine, path, None),
            (Some(engine), None) => {
                let folder = ScratchFolder::new().map_err(CliError::temporary_folder)?;
                let path = folder.path().to_owned();
                Self::on_disk(plan, engine, &path, Some(folder))
            }
        })
    }

    /// The state in the store at `path`, which is created if it is missing.
    fn on_disk(
        plan: &Plan,
        engine: Engine,
        path: &Path,
        folder: Option<ScratchFolder>,
    ) -> Result<Self, CliError> {
        let as_stored = SharedNodes::new(opened(plan, engine, path)?);
        Ok(Self {
            nodes: SharedNodes::new(Verified::new(as_stored.clone())),
            as_stored,
            _folder: folder,
        })
    }

    /// The peer for what is timed, without a cache.
    pub(crate) fn peer(&self, plan: &Plan) -> Peer {
        peer_over(&self.as_stored, plan)
    }

    /// The peer for what is checked, without a cache.
    pub(crate) fn checked_peer(&self, plan: &Plan) -> Peer {
        peer_over(&self.nodes, plan)
    }
}

fn peer_over(nodes: &SharedNodes, plan: &Plan) -> Peer {
    let parent = nodes.parent(plan.parent().state_root);
    Peer::new(parent, plan.options().state_version)
}

/// The store at `path`, which is created if it is missing.
fn opened(plan: &Plan, engine: Engine, path: &Path) -> Result<Box<dyn DiskStore>, CliError> {
    let expected = Root::from(plan.parent().state_root.0);
    let mut store = match engine.store(path, CliError::Open) {
        Err(CliError::Open(OpenError::NotAStore { found, .. })) if found.is_free() => {
            engine.make(path, plan)?
        }
        opened => opened?,
    };
    // A store that somebody else made, and did not fill.
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
    Ok(store)
}
