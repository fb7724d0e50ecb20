//! A block that is bound to a parent state when it is first accessed.

use crate::{
    block::{self, Block, OwnedBlock},
    database::Database,
    nodes::{self, Nodes},
    povmeter::settings,
};
use ::povmeter::{BlockError, Root, SealedBlock, SeenNodes, StateVersion};
use povmeter_overlay::Overlay;
use std::{
    panic::panic_any,
    sync::atomic::{AtomicU64, Ordering},
};

/// A block, the state that it is on, and how much of its proof the node's recorder has.
///
/// An overlay is made without a parent state. Writes and transactions until the first access go to a block on
/// the empty state, whose changes the block on the parent state then takes over.
#[derive(Debug)]
pub(crate) struct Machine {
    /// `None` until the first call that needs a block.
    block: Option<OwnedBlock>,
    /// The state that the block is on; `None` before the first access.
    parent: Option<[u8; 32]>,
    /// The nodes of the block's proof that the recorder has.
    recorded: SeenNodes,
    /// Whether the current recorder is known to have these nodes.
    recorder_is_known: bool,
    /// The database of the parent state, whose cache the block uses.
    database: Option<Database>,
    /// Whether the current backend was asked for its database.
    database_is_known: bool,
    /// The marks in the recorder, the latest last. A recorder with the latest one has the nodes in `recorded`.
    marks: Vec<Mark>,
    /// Whether the recorder gets a mark with the next node.
    mark_is_due: bool,
    /// The revision of the overlay and the state version that the last root was computed for.
    root_of: Option<(u64, StateVersion)>,
}

/// A mark in a recorder. It goes when the owner of the recorder rolls back what the recorder was told after it.
#[derive(Clone, Copy, Debug)]
struct Mark {
    /// Different from all other marks of the process.
    number: u64,
    /// What the recorder had been told before it.
    before: SeenNodes,
}

impl Mark {
    fn new(before: SeenNodes) -> Self {
        static MADE: AtomicU64 = AtomicU64::new(0);
        Self {
            number: MADE.fetch_add(1, Ordering::Relaxed),
            before,
        }
    }
}

/// The most bytes of encoded nodes that a machine without a recorder keeps, beside those that blocks carry from one to
/// the next. Blocks stay below, but a call off chain may walk through a whole state.
const MOST_LOADED_BYTES: usize = 128 << 20;

impl Machine {
    pub(crate) fn new() -> Self {
        Self {
            block: None,
            parent: None,
            recorded: SeenNodes::default(),
            recorder_is_known: false,
            database: None,
            database_is_known: false,
            marks: Vec::new(),
            mark_is_due: false,
            root_of: None,
        }
    }

    /// Another machine with the same changes and open transactions, not bound yet.
    pub(crate) fn copy(&self) -> Self {
        let mut copy = Self::new();
        if let Some(block) = &self.block {
            copy.block().copy_changes(block);
        }
        copy
    }

    /// The overlay of the block; `None` if there is no block yet.
    pub(crate) fn overlay(&self) -> Option<&Overlay> {
        self.block.as_ref().map(|block| block.overlay())
    }

    /// The block, for calls that need no backend.
    pub(crate) fn block(&mut self) -> &mut Block {
        self.block
            .get_or_insert_with(|| block::begin(None, Root::EMPTY))
    }

    pub(crate) fn transaction_depth(&self) -> usize {
        let block = self.block.as_ref();
        block.map_or(0, |block| block.transaction_depth())
    }

    /// Must be called for each new backend, because its recorder and its database may be others.
    pub(crate) fn meet_backend(&mut self) {
        self.recorder_is_known = false;
        self.database_is_known = false;
    }

    /// The result of `access` to the block on the state of `nodes`. The recorder of `nodes` gets the nodes that
    /// are new to the proof.
    ///
    /// # Panics
    /// With the error's message if the access fails, because the interface of the callers has no errors, and a
    /// made-up answer would be worse.
    pub(crate) fn access<R>(
        &mut self,
        nodes: &dyn Nodes,
        access: impl FnOnce(&mut Block) -> Result<R, BlockError>,
    ) -> R {
        self.try_access(nodes, access)
            .unwrap_or_else(|error| panic_with(&error))
    }

    /// As [`Self::access`], but returns the error.
    ///
    /// # Errors
    /// The error of `access`.
    pub(crate) fn try_access<R>(
        &mut self,
        nodes: &dyn Nodes,
        access: impl FnOnce(&mut Block) -> Result<R, BlockError>,
    ) -> Result<R, BlockError> {
        let result = self.access_and_keep(nodes, access);
        let loaded = self
            .block
            .as_ref()
            .map_or(0, |block| block.encoding_memory());
        let most = MOST_LOADED_BYTES.saturating_add(settings().carry_bytes);
        if loaded > most && !nodes.records() {
            // Forgets what is loaded. The changes stay.
            self.parent = None;
            self.bind(nodes);
        }
        result
    }

    /// As [`Self::try_access`], but all loaded nodes stay.
    fn access_and_keep<R>(
        &mut self,
        nodes: &dyn Nodes,
        access: impl FnOnce(&mut Block) -> Result<R, BlockError>,
    ) -> Result<R, BlockError> {
        self.bind(nodes);
        let block = self.block();
        let result = nodes::with(nodes, || access(block));
        self.tell_recorder(nodes);
        result
    }

    /// Puts the block on the state of `nodes`.
    fn bind(&mut self, nodes: &dyn Nodes) {
        let root = nodes.root();
        let is_bound = self.parent == Some(root);
        if is_bound && self.database_is_known {
            return;
        }
        let database = nodes.database();
        self.database_is_known = true;
        if is_bound && self.database == database {
            return;
        }
        // Another database with the same state, or a proof of it, may lack nodes that the cache has.
        let mut block = block::begin(database.clone(), Root::from(root));
        self.database = database;
        if let Some(unbound) = &self.block {
            block.copy_changes(unbound);
        }
        self.block = Some(block);
        self.parent = Some(root);
        self.forget_recorder();
        self.root_of = None;
    }

    /// What the recorder has is not known any more, so it is told all nodes.
    fn forget_recorder(&mut self) {
        self.recorded = SeenNodes::default();
        self.marks.clear();
    }

    fn tell_recorder(&mut self, nodes: &dyn Nodes) {
        if !nodes.records() {
            return;
        }
        if !self.recorder_is_known {
            let latest = self.marks.last();
            if !latest.is_some_and(|latest| nodes.is_marked(latest.number)) {
                // Another recorder, also one that was told before another one was; or its owner rolled it back to before
                // the mark.
                self.forget_recorder();
            }
            self.recorder_is_known = true;
            // The owner may roll back what the recorder is told from here on, and the mark with it.
            self.mark_is_due = true;
        }
        let Self {
            block,
            recorded,
            marks,
            mark_is_due,
            ..
        } = self;
        let Some(block) = block else { return };
        let before = *recorded;
        block.for_each_recorded(recorded, |hash, node| {
            if std::mem::take(mark_is_due) {
                let mark = Mark::new(before);
                nodes.mark(mark.number);
                marks.push(mark);
            }
            nodes.record(hash.as_bytes(), node);
        });
    }

    pub(crate) fn rollback_transaction(&mut self) -> Result<(), BlockError> {
        let block = self.block();
        block.rollback_transaction()?;
        self.forget_rolled_back();
        self.mark_dirty();
        Ok(())
    }

    /// Must be called for each change and each rollback by a call, also if it leaves everything as it was: the root is not
    /// known any more, as with the original.
    pub(crate) fn mark_dirty(&mut self) {
        self.root_of = None;
    }

    /// Takes control back, and rolls back the transactions that the runtime left open.
    pub(crate) fn exit_runtime(&mut self) -> Result<(), BlockError> {
        self.block().exit_runtime()?;
        self.forget_rolled_back();
        Ok(())
    }

    fn forget_rolled_back(&mut self) {
        // The owner may have rolled back the recorder, and the mark in it.
        self.recorder_is_known = false;
        let Some(block) = &self.block else { return };
        block.forget_rolled_back(&mut self.recorded);
        // What is left was told before the marks that go, so that the one before them tells of all of it.
        while let Some(Mark { before, .. }) = self.marks.last() {
            if self.recorded.has_more_than(before) {
                break;
            }
            self.recorded.go_back_to(before);
            self.marks.pop();
        }
    }

    /// The root after the changes so far, and whether it was known.
    pub(crate) fn root(&mut self, nodes: &dyn Nodes, version: StateVersion) -> (Root, bool) {
        // All loaded nodes stay, and the root with them, because the block is likely sealed next.
        let root = self.access_and_keep(nodes, |block| Ok(block.root(version)?.root));
        let root = root.unwrap_or_else(|error| panic_with(&error));
        let of = (self.block().overlay().revision(), version);
        let known = self.root_of.replace(of) == Some(of);
        (root, known)
    }

    /// Whether [`Self::root`] has computed the root after the changes so far.
    pub(crate) fn knows_root(&self, version: StateVersion) -> bool {
        let revision = self.overlay().map(Overlay::revision);
        self.root_of.is_some() && self.root_of == revision.map(|revision| (revision, version))
    }

    /// Ends the block, and leaves a new machine in its place. `version` is for changes without a root.
    ///
    /// # Errors
    /// [`BlockError`]. If the root can't be computed, this machine stays as it was.
    pub(crate) fn seal(
        &mut self,
        nodes: &dyn Nodes,
        version: StateVersion,
    ) -> Result<SealedBlock, BlockError> {
        // As with the original, the version is that of the last root, if nothing was changed since.
        let revision = self.overlay().map(Overlay::revision);
        let known = self.root_of.filter(|(of, _)| Some(*of) == revision);
        let version = known.map_or(version, |(_, version)| version);
        // The recorder may be another one than in the last call.
        self.meet_backend();
        // The root's nodes go to the recorder first.
        self.access_and_keep(nodes, |block| block.root(version).map(drop))?;
        let Self { block, .. } = std::mem::replace(self, Self::new());
        let block = block.unwrap_or_else(|| block::begin(None, Root::EMPTY));
        nodes::with(nodes, || block.seal(version).map_err(BlockError::from))
    }
}

/// Panics with `error`, for a call whose interface has no errors.
#[cold]
pub(crate) fn panic_with(error: &BlockError) -> ! {
    fail(error.to_string())
}

/// As [`panic_with`], with a message.
#[cold]
pub(crate) fn fail(message: String) -> ! {
    log::error!(target: "state", "{message}");
    // A string, because panic handlers and executors show only strings.
    panic_any(message)
}
