//! Many walks at once.
//!
//! A walk waits for memory at every node, and for the source at every node that is not loaded. Walks
//! that step in turn wait at the same time. Most keys have a common prefix, the hashed names of a pallet
//! and of a map in it, so later walks begin on the path of an earlier one.
//!
//! ```text
//! search(walks, 32 at a time):
//!     a walk begins at the last node on the path to an earlier key that is on its own path, too
//!     loop
//!         each running walk takes a step, until all have ended or stopped
//!         no walk stopped: done
//!         load the nodes that the stopped walks wait for, in one call; they run again
//! ```

use crate::state::TOGETHER;
use crate::{
    nibbles::{self, PrefixRange, Prefixes},
    node_batch::DistinctHashes,
    shadow::{Awaited, Progress, Walk},
    LoadError, NodeId, NodeRequest, NodeSource, Observer, ShadowNode, ShadowState, TrieHandle,
};
use alloc::vec::Vec;
use core::{fmt, hint::black_box};

struct Searched<'k, T> {
    trie: TrieHandle,
    key: &'k [u8],
    /// The node that the stopped walk waits for, once the node is loaded.
    loaded: Option<NodeId>,
    progress: Progress,
    tag: T,
}

/// Finds keys in the parent state, each with a tag of the caller. They are found in no particular order.
pub struct Search<'k, T> {
    keys: Vec<Searched<'k, T>>,
    /// Whether every walk has ended.
    done: bool,
    /// A key that was walked to.
    guide: Option<(TrieHandle, &'k [u8])>,
    /// The walks at the nodes on the path to that key, from the root down.
    path: Vec<Walk>,
    /// Memory for the prefixes of nodes of child tries.
    prefixes: Prefixes,
}

/// Without the keys: there may be many, and they may be of any length.
impl<T> fmt::Debug for Search<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Search")
            .field("keys", &self.keys.len())
            .field("done", &self.done)
            .finish_non_exhaustive()
    }
}

impl<T> Default for Search<'_, T> {
    fn default() -> Self {
        Self {
            keys: Vec::new(),
            done: true,
            guide: None,
            path: Vec::new(),
            prefixes: Prefixes::default(),
        }
    }
}

impl<'k, T: Copy> Search<'k, T> {
    /// Adds a key.
    ///
    /// # Errors
    /// [`LoadError`] if the root node of the trie can't be loaded.
    ///
    /// # Panics
    /// If `trie` is of another state, which has more tries open.
    pub fn push<S: NodeSource>(
        &mut self,
        state: &mut ShadowState<S>,
        trie: TrieHandle,
        key: &'k [u8],
        tag: T,
    ) -> Result<(), LoadError> {
        let progress = Progress::Goes(match self.guided(trie, key) {
            Some(walk) => walk,
            None => state.begin_walk(trie)?,
        });
        if self.keys.capacity() == 0 {
            self.keys.reserve(TOGETHER);
            self.path.reserve(TOGETHER);
        }
        self.keys.push(Searched {
            trie,
            key,
            loaded: None,
            progress,
            tag,
        });
        self.done = false;
        Ok(())
    }

    /// The last walk on the path to the guide that is on the path to `key`, too.
    fn guided(&self, trie: TrieHandle, key: &[u8]) -> Option<Walk> {
        let (of, guide) = self.guide?;
        if of != trie {
            return None;
        }
        let common = nibbles::common_prefix(guide, key);
        let start = self.path.iter().rev().find(|walk| walk.depth() <= common);
        start.copied()
    }

    /// Whether there are as many keys as one round of walks can find.
    pub fn is_full(&self) -> bool {
        self.keys.len() >= TOGETHER
    }

    /// The tag of the next key, and the node that holds its entry in the parent state, if there is one;
    /// `None` when no key is left. The first call after [`Self::push`] walks to all keys, and observes the
    /// nodes on their paths; a common prefix of several paths may be observed once.
    ///
    /// # Errors
    /// [`LoadError`] if a node on the path to a key can't be loaded. Then the search ends: no key is left.
    ///
    /// # Panics
    /// If the state is another one, which has fewer tries open.
    pub fn next_found<S: NodeSource>(
        &mut self,
        state: &mut ShadowState<S>,
        observer: &mut impl Observer,
    ) -> Result<Option<(T, Option<ShadowNode>)>, LoadError> {
        if !self.done {
            if let Err(error) = self.walk(state, observer) {
                self.keys.clear();
                return Err(error);
            }
            self.done = true;
        }
        Ok(self.keys.pop().map(|key| match key.progress {
            Progress::Ended(found) => (key.tag, found),
            // All walks have ended.
            Progress::Goes(_) | Progress::Stopped(_) => (key.tag, None),
        }))
    }

    fn walk<S: NodeSource>(
        &mut self,
        state: &mut ShadowState<S>,
        observer: &mut impl Observer,
    ) -> Result<(), LoadError> {
        for keys in self.keys.chunks_mut(TOGETHER) {
            self.guide = None;
            self.path.clear();
            walk_together(keys, &mut self.path, &mut self.prefixes, state, observer)?;
            // The first key is the guide of the next round.
            self.guide = keys.first().map(|key| (key.trie, key.key));
        }
        Ok(())
    }
}

/// The indices of the walks that have a turn.
#[derive(Clone, Copy)]
struct Turns {
    walks: [u8; TOGETHER],
    count: usize,
}

impl Turns {
    /// The first `count` walks, not more than [`TOGETHER`].
    fn first(count: usize) -> Self {
        let mut walks = [0; TOGETHER];
        for (walk, number) in walks.iter_mut().zip(0..) {
            *walk = number;
        }
        Self { walks, count }
    }

    fn push(&mut self, walk: u8) {
        self.walks[self.count] = walk;
        self.count += 1;
    }

    fn as_slice(&self) -> &[u8] {
        &self.walks[..self.count]
    }
}

/// Walks to `keys`, at most [`TOGETHER`], until all walks end. Adds the walks on the path to the first
/// key to `path`.
fn walk_together<S: NodeSource, T>(
    keys: &mut [Searched<'_, T>],
    path: &mut Vec<Walk>,
    prefixes: &mut Prefixes,
    state: &mut ShadowState<S>,
    observer: &mut impl Observer,
) -> Result<(), LoadError> {
    let mut going = Turns::first(keys.len());
    loop {
        let mut stopped = Turns::first(0);
        while going.count > 0 {
            let turns = going;
            going.count = 0;
            for &walk in turns.as_slice() {
                let key = &mut keys[usize::from(walk)];
                let Progress::Goes(from) = key.progress else {
                    continue;
                };
                key.progress = state.step(key.trie, key.key, from, observer);
                match key.progress {
                    Progress::Goes(_) => going.push(walk),
                    Progress::Stopped(_) => stopped.push(walk),
                    Progress::Ended(_) => {}
                }
            }
            if let Some(Progress::Goes(first)) = keys.first().map(|key| key.progress) {
                path.push(first);
            }
        }
        if stopped.count == 0 {
            return Ok(());
        }
        load_awaited(keys, &stopped, prefixes, state)?;
        for &walk in stopped.as_slice() {
            let key = &mut keys[usize::from(walk)];
            if let Progress::Stopped(from) = key.progress {
                let on = state.resume(key.trie, key.key, from, key.loaded.take())?;
                key.progress = Progress::Goes(on);
            }
        }
        going = stopped;
    }
}

/// Loads the nodes that the stopped walks wait for, in one call of the source.
fn load_awaited<S: NodeSource, T>(
    keys: &mut [Searched<'_, T>],
    stopped: &Turns,
    prefixes: &mut Prefixes,
    state: &mut ShadowState<S>,
) -> Result<(), LoadError> {
    let mut requests = [NodeRequest::default(); TOGETHER];
    let mut asking = [0; TOGETHER];
    let mut count = 0;
    let mut distinct = DistinctHashes::new();
    let mut all_of_top = true;
    // The hashes lie all over the memory. Reads that follow one another closely let the processor wait
    // for all of them at once.
    let first_bytes = stopped.as_slice().iter().map(|&index| {
        let key = &keys[usize::from(index)];
        match key.progress {
            Progress::Stopped(walk) => state.first_awaited_byte(key.trie, key.key, walk),
            Progress::Goes(_) | Progress::Ended(_) => 0,
        }
    });
    black_box(first_bytes.max());
    for &index in stopped.as_slice() {
        let index = usize::from(index);
        let key = &mut keys[index];
        let Progress::Stopped(walk) = key.progress else {
            continue;
        };
        match state.awaited(key.trie, key.key, walk) {
            Awaited::Nothing => {}
            Awaited::Loaded(node) => key.loaded = Some(node),
            Awaited::Node(request) => {
                // The first walk that waits for a node loads it for all.
                if !distinct.insert(&request.hash, &requests[..count]) {
                    continue;
                }
                (requests[count], asking[count]) = (request, index);
                count += 1;
                all_of_top &= key.trie == TrieHandle::TOP;
            }
        }
    }
    let (requests, asking) = (&mut requests[..count], &asking[..count]);
    if !all_of_top {
        add_keyspaces(keys, requests, asking, prefixes, state);
    }
    state.load_nodes(requests, |at, node| {
        keys[asking[at]].loaded = Some(node);
    })
}

/// Puts the keyspace of the trie before the prefix of each request; `asking` has the indices of their keys.
fn add_keyspaces<'p, S, T>(
    keys: &[Searched<'_, T>],
    requests: &mut [NodeRequest<'p>],
    asking: &[usize],
    prefixes: &'p mut Prefixes,
    state: &ShadowState<S>,
) {
    prefixes.clear();
    let kept: [Option<PrefixRange>; TOGETHER] = core::array::from_fn(|at| {
        let keyspace = state.trie(keys[*asking.get(at)?].trie).keyspace();
        Some(prefixes.keep_prefix(keyspace, requests[at].prefix))
    });
    let prefixes = &*prefixes;
    for (request, range) in requests.iter_mut().zip(kept.iter().flatten()) {
        request.prefix = prefixes.prefix(range);
    }
}
