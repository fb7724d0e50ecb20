//! Many walks at once.
//!
//! A walk waits for memory at every node, and for a store at every one that is not loaded. Walks that
//! take their steps by turns wait together. And most keys begin alike, with the names of a pallet and
//! of a map in it: the way that one walk took is a start for those that follow.
//!
//! ```text
//! search(walks, so many at a time):
//!     a walk begins where the way of an earlier key, which was observed, leaves that of its own key
//!     loop
//!         each walk that goes takes a step, until none goes: they ended or stopped
//!         none stopped: done
//!         load what the stopped walks wait for; each of them goes again
//! ```

use crate::state::TOGETHER;
use crate::{
    nibbles,
    shadow::{Awaited, Progress, Walk},
    LoadError, NodeId, NodeRequest, NodeSource, Observer, ShadowNode, ShadowState, TrieHandle,
};
use alloc::vec::Vec;

struct Searched<'k, T> {
    trie: TrieHandle,
    key: &'k [u8],
    /// What a stopped walk waits for, where it was loaded for it.
    loaded: Option<NodeId>,
    progress: Progress,
    tag: T,
}

/// Keys to be found in the parent state, each with a `T` of the caller's; they are found in no order
/// that means anything.
pub struct Search<'k, T> {
    keys: Vec<Searched<'k, T>>,
    /// Whether every walk ended.
    done: bool,
    /// A key that was searched, and the way to it: walks from the top down.
    guide: Option<(TrieHandle, &'k [u8])>,
    way: Vec<Walk>,
}

impl<T> Default for Search<'_, T> {
    fn default() -> Self {
        Self {
            keys: Vec::new(),
            done: true,
            guide: None,
            way: Vec::new(),
        }
    }
}

impl<'k, T: Copy> Search<'k, T> {
    /// Adds a key.
    ///
    /// # Errors
    /// [`LoadError`] if the root of the trie can't be had.
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
            self.way.reserve(TOGETHER);
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

    /// Where the way to `key` leaves the one that is known.
    fn guided(&self, trie: TrieHandle, key: &[u8]) -> Option<Walk> {
        let (of, guide) = self.guide?;
        if of != trie {
            return None;
        }
        let alike = nibbles::alike(guide, key);
        let start = self.way.iter().rev().find(|walk| walk.depth() <= alike);
        start.copied()
    }

    /// Whether there are so many keys that more would not make it faster.
    pub fn is_full(&self) -> bool {
        self.keys.len() >= TOGETHER
    }

    /// The tag of a key, with the node that holds the parent's entry, `None` if there is no such
    /// entry; `None` when no key is left. Observes what [`ShadowState::find`] does.
    ///
    /// # Errors
    /// [`LoadError`] if a node on the way to a key can't be had; the search is over then, and no key
    /// left.
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
            // All of them ended.
            Progress::Goes(_) | Progress::Stopped(_) => (key.tag, None),
        }))
    }

    fn walk<S: NodeSource>(
        &mut self,
        state: &mut ShadowState<S>,
        observer: &mut impl Observer,
    ) -> Result<(), LoadError> {
        self.guide = None;
        self.way.clear();
        loop {
            while self.step(state, observer) {
                // The first key leads those of the next round.
                if let Some(Progress::Goes(walk)) = self.keys.first().map(|key| key.progress) {
                    self.way.push(walk);
                }
            }
            if !self.resume(state)? {
                self.guide = self.keys.first().map(|key| (key.trie, key.key));
                return Ok(());
            }
        }
    }

    /// Has each walk that goes take a step; `false` if none goes.
    fn step<S: NodeSource>(
        &mut self,
        state: &ShadowState<S>,
        observer: &mut impl Observer,
    ) -> bool {
        let mut going = false;
        for key in &mut self.keys {
            if let Progress::Goes(walk) = key.progress {
                key.progress = state.step(key.trie, key.key, walk, observer);
                going = true;
            }
        }
        going
    }

    /// Loads what the stopped walks wait for; `false` if there are none.
    fn resume<S: NodeSource>(&mut self, state: &mut ShadowState<S>) -> Result<bool, LoadError> {
        let mut stopped = false;
        for keys in self.keys.chunks_mut(TOGETHER) {
            load_awaited(keys, state)?;
            for key in keys {
                if let Progress::Stopped(walk) = key.progress {
                    let walk = state.resume(key.trie, key.key, walk, key.loaded.take())?;
                    key.progress = Progress::Goes(walk);
                    stopped = true;
                }
            }
        }
        Ok(stopped)
    }
}

/// Loads what walks wait for, not more than [`TOGETHER`] of them.
fn load_awaited<S: NodeSource, T>(
    keys: &mut [Searched<'_, T>],
    state: &mut ShadowState<S>,
) -> Result<(), LoadError> {
    let mut requests = [NodeRequest::default(); TOGETHER];
    let mut asking = [0; TOGETHER];
    let mut count = 0;
    for (index, key) in keys.iter_mut().enumerate() {
        let Progress::Stopped(walk) = key.progress else {
            continue;
        };
        match state.awaited(key.trie, key.key, walk) {
            Awaited::Nothing => {}
            Awaited::Loaded(node) => key.loaded = Some(node),
            Awaited::Node(request) => {
                (requests[count], asking[count]) = (request, index);
                count += 1;
            }
        }
    }
    state.load_nodes(&requests[..count], |at, node| {
        keys[asking[at]].loaded = Some(node);
    })
}
