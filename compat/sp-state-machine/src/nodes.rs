//! The source of a block: the trie nodes of the backend that the current access is given.

use crate::{backend::Backend, database::Database, wrapped::Wrapped};
use ::povmeter::{Bytes, NodeHash, NodePrefix, NodeSource, SourceError};
use hash_db::Hasher;

// The overlay lives as long as a block, but a backend only as long as one call into the runtime. So the
// block's source is the backend that the thread is given for the time of one access.
environmental::environmental!(at_hand: trait Nodes);

/// The trie nodes below a backend, and its recorder.
pub(crate) trait Nodes {
    /// The root of the state.
    fn root(&self) -> [u8; 32];

    /// The node with this hash at this place.
    ///
    /// # Errors
    /// The storage's error.
    fn node(&self, hash: &[u8; 32], prefix: NodePrefix<'_>) -> Result<Option<Vec<u8>>, String>;

    /// Whether nodes are recorded.
    fn records(&self) -> bool;

    /// Records a node.
    fn record(&self, hash: &[u8; 32], node: &[u8]);

    /// Whether the recorder has the mark of this overlay.
    fn is_marked(&self, overlay: u64) -> bool;

    /// Gives the recorder the mark of an overlay.
    fn mark(&self, overlay: u64);

    /// The database that the state is in; `None` if nothing may be cached.
    fn database(&self) -> Option<Database>;
}

/// The nodes of a backend of type `B`, direct or through a wrapper.
// Must not implement `Drop`, because `Ext` has such a field: users may use the overlay again while an `Ext`
// is in scope.
pub struct NodesOf<'b, H, B>(Way<'b, H, B>);

enum Way<'b, H, B> {
    // Sync, so that `Ext` can go to another thread.
    Direct(&'b (dyn Nodes + Sync)),
    Wrapped(Wrapped<'b, H, B>),
}

impl<'b, H: Hasher, B: Backend<H>> NodesOf<'b, H, B> {
    pub(crate) fn direct(nodes: &'b (dyn Nodes + Sync)) -> Self {
        Self(Way::Direct(nodes))
    }

    pub(crate) fn wrapped(nodes: Wrapped<'b, H, B>) -> Self {
        Self(Way::Wrapped(nodes))
    }

    pub(crate) fn get(&self) -> &dyn Nodes {
        match &self.0 {
            Way::Direct(nodes) => *nodes,
            Way::Wrapped(nodes) => nodes,
        }
    }
}

impl<N: Nodes + ?Sized> Nodes for &N {
    fn root(&self) -> [u8; 32] {
        (**self).root()
    }

    fn node(&self, hash: &[u8; 32], prefix: NodePrefix<'_>) -> Result<Option<Vec<u8>>, String> {
        (**self).node(hash, prefix)
    }

    fn records(&self) -> bool {
        (**self).records()
    }

    fn record(&self, hash: &[u8; 32], node: &[u8]) {
        (**self).record(hash, node);
    }

    fn is_marked(&self, overlay: u64) -> bool {
        (**self).is_marked(overlay)
    }

    fn mark(&self, overlay: u64) {
        (**self).mark(overlay);
    }

    fn database(&self) -> Option<Database> {
        (**self).database()
    }
}

/// The result of `access`, during which [`AtHand`] reads from `nodes`.
pub(crate) fn with<R>(mut nodes: &dyn Nodes, access: impl FnOnce() -> R) -> R {
    at_hand::using(&mut nodes, access)
}

/// The source of a block: the nodes that the thread was given by [`with`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AtHand;

/// Why a node could not be read.
#[derive(Debug, thiserror::Error)]
enum AccessError {
    #[error("expected a backend to read from, found none")]
    NoBackend,
    #[error("{0}")]
    Storage(String),
}

impl NodeSource for AtHand {
    fn node(&self, hash: &NodeHash, prefix: NodePrefix<'_>) -> Result<Option<Bytes>, SourceError> {
        let node = at_hand::with(|nodes| nodes.node(hash.as_bytes(), prefix))
            .ok_or_else(|| SourceError::new(AccessError::NoBackend))?;
        let node = node.map_err(|message| SourceError::new(AccessError::Storage(message)))?;
        Ok(node.map(Bytes::from))
    }
}
