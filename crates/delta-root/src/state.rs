//! The shadow tries of a block: the top trie and the child tries touched.

mod carried;
mod prefetch;
mod reads;
mod scratch;

pub use carried::CarriedState;
pub use scratch::ShadowScratch;

use crate::{
    batch::{RootMemory, RootOptions},
    decode::NULL_NODE,
    index::Index,
    nibbles::{BackwardPath, Prefixes},
    node_batch::DistinctHashes,
    shadow::{Awaited, Loader, Observer, PathCache, Progress, ShadowNode, ShadowTrie, Walk},
    Hashing, LoadError, NodeBatch, NodeHash, NodeId, NodeRequest, NodeSource, NodeTable, Root,
};
use alloc::{collections::BTreeMap, vec::Vec};
use bytes::Bytes;
use carried::Carried;
use povmeter_primitives::{child_root_key, TrieId, CHILD_ROOT_PREFIX};

/// Nodes loaded together: enough for the processor to wait for all of them at once, and few enough for the
/// memory that they touch to stay in its cache.
pub(crate) const TOGETHER: usize = NodeBatch::MOST;

/// A trie of one [`ShadowState`], opened by [`ShadowState::open`]. It is not valid in another state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TrieHandle(Index);

impl TrieHandle {
    /// The top trie.
    pub const TOP: Self = Self(Index::ZERO);

    /// The handle as an index for tables beside the state. Indices count from zero without gaps.
    pub const fn index(self) -> usize {
        self.0.get()
    }
}

#[derive(Debug)]
struct Child {
    /// Key of the child's root in the top trie.
    root_key: Vec<u8>,
    /// Whether the parent state has the child.
    exists: bool,
    trie: ShadowTrie,
}

/// The parent state of a block as far as the block has loaded it.
///
/// Reads walk shadow tries and load missing nodes from the source; nothing that is kept is loaded twice.
/// Each call reports to the observer every node with a hash of its own on its path, loaded before or not,
/// unless the observer [knows](PathCache::known) the path. So what is observed depends on the state and
/// the calls alone, never on what was loaded earlier.
#[derive(Debug)]
pub struct ShadowState<S> {
    source: S,
    table: NodeTable,
    top: ShadowTrie,
    children: Vec<Child>,
    child_handles: BTreeMap<Vec<u8>, TrieHandle>,
    /// What an earlier block has loaded.
    carried: Carried,
    options: RootOptions,
    root_memory: RootMemory,
}

impl<S> ShadowState<S> {
    /// The state committed by `root`, nothing loaded yet.
    pub fn new(source: S, root: Root) -> Self {
        Self::in_scratch(source, root, ShadowScratch::default())
    }

    /// The same state, with root updates hashed by `hashing` instead of the fastest mode.
    #[must_use]
    pub fn with_hashing(mut self, hashing: Hashing) -> Self {
        self.options.hashing = hashing;
        self
    }

    /// Loads nodes that the caller has, so that the source need not have them. A node that is loaded
    /// already stays as it is.
    ///
    /// # Errors
    /// [`LoadError::TooMany`]; [`LoadError::Corrupt`] for a node that is too long. The nodes before it are
    /// loaded then.
    pub fn preload(
        &mut self,
        nodes: impl IntoIterator<Item = (NodeHash, Bytes)>,
    ) -> Result<(), LoadError> {
        nodes.into_iter().try_for_each(|(hash, node)| {
            let request = NodeRequest {
                hash,
                ..NodeRequest::default()
            };
            self.table.insert(&request, node).map(drop)
        })
    }

    /// The hashing of root updates.
    pub fn hashing(&self) -> Hashing {
        self.options.hashing
    }

    /// The same state, with root updates computed on several threads from `changes` changes below one
    /// branch on, instead of from [`SPLIT_FROM`](crate::SPLIT_FROM) on. The threads are those of the rayon
    /// pool that the caller is in. The update is the same on any number of them.
    #[cfg(feature = "parallel")]
    #[must_use]
    pub fn with_split_from(mut self, changes: usize) -> Self {
        self.options.split_from = changes;
        self
    }

    pub(crate) fn options(&self) -> RootOptions {
        self.options
    }

    /// The root of the parent state.
    pub fn root(&self) -> Root {
        self.top.root()
    }

    /// The nodes loaded so far.
    pub fn table(&self) -> &NodeTable {
        &self.table
    }

    /// The source that nodes are loaded from.
    pub fn source(&self) -> &S {
        &self.source
    }

    /// Number of trie nodes in the arenas, including nodes inside their parents, and nodes that an earlier
    /// block replaced.
    pub fn loaded_nodes(&self) -> usize {
        self.top.len()
            + self
                .children
                .iter()
                .map(|child| child.trie.len())
                .sum::<usize>()
    }

    /// Bytes of memory the arenas hold, without the encoded nodes themselves.
    pub fn arena_bytes(&self) -> usize {
        self.top.memory()
            + self
                .children
                .iter()
                .map(|child| child.trie.memory())
                .sum::<usize>()
    }

    /// The tries opened so far, the top trie first.
    pub fn handles(&self) -> impl Iterator<Item = TrieHandle> {
        (0..=self.children.len())
            .filter_map(Index::new)
            .map(TrieHandle)
    }

    /// The trie that `handle` was given out for.
    ///
    /// # Panics
    /// If the handle is of another state.
    pub fn trie_id(&self, handle: TrieHandle) -> TrieId<'_> {
        match handle.index().checked_sub(1) {
            None => TrieId::Top,
            Some(index) => TrieId::Child(&self.children[index].root_key[CHILD_ROOT_PREFIX.len()..]),
        }
    }

    /// The key of the top trie under which the root of child trie `handle` lies; empty for the top trie.
    ///
    /// # Panics
    /// If the handle is of another state.
    pub fn root_key_of(&self, handle: TrieHandle) -> &[u8] {
        let index = handle.index().checked_sub(1);
        index.map_or(&[], |index| &self.children[index].root_key)
    }

    /// The nodes of trie `handle` that are loaded and have a hash of their own.
    ///
    /// # Panics
    /// If the handle is of another state.
    pub fn loaded_in(&self, handle: TrieHandle) -> impl Iterator<Item = (ShadowNode, NodeId)> + '_ {
        self.trie(handle).loaded()
    }

    /// Whether trie `handle` has an entry at `key` in the parent state, as far as loaded nodes tell: `false` also if the
    /// way to the key is not loaded. Loads and observes nothing.
    ///
    /// # Panics
    /// If the handle is of another state.
    pub fn has_loaded_entry(&self, handle: TrieHandle, key: &[u8]) -> bool {
        self.trie(handle).has_loaded_entry(key, &self.table)
    }

    /// The key of node `at` of trie `handle` in nibbles, one a byte: from the root to the end of the
    /// node's partial key.
    ///
    /// # Panics
    /// If the handle or the node is of another state.
    pub fn path_of(&self, handle: TrieHandle, at: ShadowNode) -> Vec<u8> {
        let mut path = BackwardPath::default();
        self.trie(handle).add_path_to(at, &self.table, &mut path);
        path.into_nibbles()
    }

    /// The parent of node `at` of trie `handle`, `None` for the root node.
    ///
    /// # Panics
    /// If the handle or the node is of another state.
    pub fn parent_of(&self, handle: TrieHandle, at: ShadowNode) -> Option<ShadowNode> {
        self.trie(handle).parent_of(at)
    }

    pub(crate) fn trie(&self, handle: TrieHandle) -> &ShadowTrie {
        match handle.index().checked_sub(1) {
            None => &self.top,
            Some(index) => &self.children[index].trie,
        }
    }

    /// The trie of `handle` and what it loads from, borrowed side by side.
    fn parts(&mut self, handle: TrieHandle) -> (&mut ShadowTrie, Loader<'_, S>) {
        let trie = match handle.index().checked_sub(1) {
            None => &mut self.top,
            Some(index) => &mut self.children[index].trie,
        };
        (
            trie,
            Loader {
                table: &mut self.table,
                source: &self.source,
            },
        )
    }
}

impl<S: NodeSource> ShadowState<S> {
    /// The root of child trie `storage_key`, `None` if the parent state has no such child.
    ///
    /// # Errors
    /// [`LoadError`] if a node on the path can't be loaded or the value there is no root.
    pub fn child_root(
        &mut self,
        storage_key: &[u8],
        observer: &mut impl PathCache,
    ) -> Result<Option<Root>, LoadError> {
        let existing = self.open_existing(TrieId::Child(storage_key), observer)?;
        Ok(existing.map(|handle| self.trie(handle).root()))
    }

    /// The handle of `trie`, if it was opened before. Loads nothing.
    pub fn opened(&self, trie: TrieId<'_>) -> Option<TrieHandle> {
        match trie {
            TrieId::Top => Some(TrieHandle::TOP),
            TrieId::Child(storage_key) => self.child_handles.get(storage_key).copied(),
        }
    }

    /// The handle of `trie`. A child trie that the parent state does not have is a trie without entries.
    ///
    /// # Errors
    /// [`LoadError`] if a node on the path to the child's root can't be loaded or the value there is no root.
    pub fn open(
        &mut self,
        trie: TrieId<'_>,
        observer: &mut impl PathCache,
    ) -> Result<TrieHandle, LoadError> {
        let TrieId::Child(storage_key) = trie else {
            return Ok(TrieHandle::TOP);
        };
        if let Some(&handle) = self.child_handles.get(storage_key) {
            // Every use of a child needs the path to its root, because a rollback may have taken back
            // the use that counted it.
            return self.find_root_of(handle, observer).map(|_| handle);
        }
        let root_key = child_root_key(storage_key);
        let place = self.value_in(TrieHandle::TOP, &root_key, observer)?;
        let root = match place.map(|place| place.bytes(&self.table)) {
            None => None,
            Some(bytes) => match <[u8; 32]>::try_from(bytes) {
                Ok(root) => Some(Root::from(root)),
                Err(_) => {
                    return Err(LoadError::ChildRoot {
                        key: storage_key.to_vec(),
                        found: bytes.len(),
                    })
                }
            },
        };
        let index = Index::new(self.children.len() + 1).ok_or_else(LoadError::too_many)?;
        let exists = root.is_some();
        let root = root.unwrap_or(Root::EMPTY);
        let carried = self.carried.take_child(storage_key, root);
        self.children.push(Child {
            root_key,
            exists,
            trie: carried.unwrap_or_else(|| ShadowTrie::new(root, storage_key.to_vec())),
        });
        let handle = TrieHandle(index);
        self.child_handles.insert(storage_key.to_vec(), handle);
        Ok(handle)
    }

    /// The node of the top trie that holds the root of child trie `handle`, `None` if the parent state has
    /// no such child, or for the top trie; the path is observed.
    ///
    /// # Errors
    /// [`LoadError`] if a node on the path can't be loaded.
    ///
    /// # Panics
    /// If `handle` is of another state, which has more tries open.
    pub fn find_root_of(
        &mut self,
        handle: TrieHandle,
        observer: &mut impl PathCache,
    ) -> Result<Option<ShadowNode>, LoadError> {
        let Some(index) = handle.index().checked_sub(1) else {
            return Ok(None);
        };
        let root_key = core::mem::take(&mut self.children[index].root_key);
        let found = self.find(TrieHandle::TOP, &root_key, observer);
        self.children[index].root_key = root_key;
        found
    }

    fn open_existing(
        &mut self,
        trie: TrieId<'_>,
        observer: &mut impl PathCache,
    ) -> Result<Option<TrieHandle>, LoadError> {
        let handle = self.open(trie, observer)?;
        let exists = handle
            .index()
            .checked_sub(1)
            .is_none_or(|index| self.children[index].exists);
        Ok(exists.then_some(handle))
    }

    /// The node that holds the parent's entry at `key`, `None` if there is no such entry; the path to
    /// it, or to where it would be, is observed.
    ///
    /// # Errors
    /// [`LoadError`] if a node on the path can't be loaded.
    ///
    /// # Panics
    /// If `handle` is of another state, which has more tries open.
    pub fn find(
        &mut self,
        handle: TrieHandle,
        key: &[u8],
        observer: &mut impl PathCache,
    ) -> Result<Option<ShadowNode>, LoadError> {
        if let Some(found) = observer.known(handle, key) {
            return Ok(found);
        }
        let (trie, mut loader) = self.parts(handle);
        let found = trie.find(key, &mut loader, observer)?;
        observer.found(handle, key, found);
        Ok(found)
    }

    /// A walk that begins at the root.
    pub(crate) fn begin_walk(&mut self, handle: TrieHandle) -> Result<Walk, LoadError> {
        let (trie, mut loader) = self.parts(handle);
        trie.begin(&mut loader)
    }

    /// Moves a walk to `key` past one node.
    #[inline]
    pub(crate) fn step(
        &self,
        handle: TrieHandle,
        key: &[u8],
        walk: Walk,
        observer: &mut impl Observer,
    ) -> Progress {
        self.trie(handle).step(key, walk, &self.table, observer)
    }

    /// Continues a walk to `key` where it stopped; `loaded` is the node that it waits for, if that was
    /// loaded for it.
    pub(crate) fn resume(
        &mut self,
        handle: TrieHandle,
        key: &[u8],
        walk: Walk,
        loaded: Option<NodeId>,
    ) -> Result<Walk, LoadError> {
        let (trie, mut loader) = self.parts(handle);
        trie.resume(key, walk, loaded, &mut loader)
    }

    /// The first byte of the hash that a stopped walk waits for. Reading it brings the memory near.
    #[inline]
    pub(crate) fn first_awaited_byte(&self, handle: TrieHandle, key: &[u8], walk: Walk) -> u8 {
        self.trie(handle).first_awaited_byte(key, walk, &self.table)
    }

    /// What a walk to `key` waits for.
    pub(crate) fn awaited<'k>(&self, handle: TrieHandle, key: &'k [u8], walk: Walk) -> Awaited<'k> {
        self.trie(handle).awaited(key, walk, &self.table)
    }

    /// Loads nodes, and tells `loaded` of each by its index in `requests`.
    ///
    /// # Errors
    /// The first error; all nodes without an error are loaded.
    pub(crate) fn load_nodes(
        &mut self,
        requests: &[NodeRequest<'_>],
        mut loaded: impl FnMut(usize, NodeId),
    ) -> Result<(), LoadError> {
        let mut first = Ok(());
        if requests.is_empty() {
            return first;
        }
        self.table
            .load_all(requests, &self.source, |index, node| match node {
                Ok(node) => loaded(index, node),
                Err(error) if first.is_ok() => first = Err(error),
                Err(_) => {}
            });
        first
    }

    pub(crate) fn load_root(&mut self, handle: TrieHandle) -> Result<(), LoadError> {
        let (trie, mut loader) = self.parts(handle);
        trie.load_root(&mut loader).map(drop)
    }

    pub(crate) fn set_value_live(
        &mut self,
        handle: TrieHandle,
        at: ShadowNode,
        live: bool,
        changed: &mut Vec<ShadowNode>,
    ) {
        self.parts(handle).0.set_value_live(at, live, changed);
    }

    pub(crate) fn value_live(&self, handle: TrieHandle, at: ShadowNode) -> bool {
        self.trie(handle).value_live(at)
    }

    /// The branch at or above `at` that a root computation merges with its only live child, and the nibble of that child;
    /// `None` if it merges nothing there.
    pub(crate) fn merged_at(&self, handle: TrieHandle, at: ShadowNode) -> Option<(ShadowNode, u8)> {
        let trie = self.trie(handle);
        let branch = trie.live_at_or_above(at)?;
        Some((branch, trie.lone_child(branch)?))
    }

    /// Adds `at` and its ancestors to `nodes`, the root last.
    pub(crate) fn push_with_ancestors(
        &self,
        handle: TrieHandle,
        at: ShadowNode,
        nodes: &mut Vec<ShadowNode>,
    ) {
        self.trie(handle).push_with_ancestors(at, nodes);
    }

    /// Whether the trie had entries and the changes marked so far delete all of them.
    ///
    /// # Panics
    /// If `handle` is of another state, which has more tries open.
    pub fn is_emptied(&self, handle: TrieHandle) -> bool {
        self.trie(handle).is_emptied()
    }

    /// Whether the trie had no entries, or the changes marked so far delete all of them.
    ///
    /// # Panics
    /// If `handle` is of another state, which has more tries open.
    pub fn is_bare(&self, handle: TrieHandle) -> bool {
        let trie = self.trie(handle);
        trie.root() == Root::EMPTY || trie.is_emptied()
    }

    /// The path to the child that a root computation merges with `branch`, in nibbles, one a byte; `None` if it merges
    /// nothing there.
    pub(crate) fn path_of_lone_child(
        &self,
        handle: TrieHandle,
        branch: ShadowNode,
    ) -> Option<Vec<u8>> {
        let nibble = self.trie(handle).lone_child(branch)?;
        let mut path = self.path_of(handle, branch);
        path.push(nibble);
        Some(path)
    }

    /// Loads the nodes that [`Self::settle`] needs for the `unsettled` nodes, in one call of the source.
    pub(crate) fn load_lone_children(
        &mut self,
        unsettled: &[(TrieHandle, ShadowNode)],
        prefixes: &mut Prefixes,
    ) -> Result<[Option<NodeId>; TOGETHER], LoadError> {
        let mut awaited = [const { None }; TOGETHER];
        prefixes.clear();
        for (&(handle, at), awaited) in unsettled.iter().zip(&mut awaited) {
            let trie = self.trie(handle);
            let hash = trie.awaited_lone_child(at, &self.table, prefixes.next());
            *awaited = hash.map(|hash| (hash, prefixes.keep(trie.keyspace())));
        }
        let mut loaded = [None; TOGETHER];
        let mut requests = [NodeRequest::default(); TOGETHER];
        let mut asking = [0; TOGETHER];
        let mut count = 0;
        let mut distinct = DistinctHashes::new();
        for (index, awaited) in awaited.iter().enumerate() {
            let Some((hash, range)) = awaited else {
                continue;
            };
            loaded[index] = self.table.find(hash);
            // The first branch that waits for a node loads it for all.
            if loaded[index].is_none() && distinct.insert(hash, &requests[..count]) {
                let (hash, prefix) = (*hash, prefixes.prefix(range));
                requests[count] = NodeRequest { hash, prefix };
                asking[count] = index;
                count += 1;
            }
        }
        self.load_nodes(&requests[..count], |at, node| {
            loaded[asking[at]] = Some(node);
        })?;
        for (awaited, loaded) in awaited.iter().zip(&mut loaded) {
            if let (Some((hash, _)), None) = (awaited, *loaded) {
                *loaded = self.table.find(hash);
            }
        }
        Ok(loaded)
    }

    /// Loads and observes the node that a root computation merges at or above `at`, after all changes are
    /// marked; `loaded` is the result of [`Self::load_lone_children`].
    pub(crate) fn settle(
        &mut self,
        handle: TrieHandle,
        at: ShadowNode,
        loaded: Option<NodeId>,
        observer: &mut impl Observer,
    ) -> Result<(), LoadError> {
        let (trie, mut loader) = self.parts(handle);
        match trie.live_at_or_above(at) {
            Some(branch) => trie.load_lone_child(branch, loaded, &mut loader, observer),
            None => {
                observer.merged(self.null_node()?, NULL_NODE.len());
                Ok(())
            }
        }
    }

    /// Loads and observes the child of `branch` at `nibble`, as a node that a root computation merges.
    pub(crate) fn merge_child(
        &mut self,
        handle: TrieHandle,
        branch: ShadowNode,
        nibble: u8,
        observer: &mut impl Observer,
    ) -> Result<(), LoadError> {
        let (trie, mut loader) = self.parts(handle);
        trie.merge_child(branch, nibble, None, &mut loader, observer)
    }

    fn null_node(&mut self) -> Result<NodeId, LoadError> {
        let request = NodeRequest {
            hash: Root::EMPTY.node_hash(),
            ..NodeRequest::default()
        };
        let null = bytes::Bytes::from_static(NULL_NODE);
        self.table.insert(&request, null)
    }
}
