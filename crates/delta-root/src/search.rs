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
        for keys in self.keys.chunks_mut(TOGETHER) {
            self.guide = None;
            self.way.clear();
            walk_together(keys, &mut self.way, state, observer)?;
            // The first key leads those of the next round.
            self.guide = keys.first().map(|key| (key.trie, key.key));
        }
        Ok(())
    }
}

/// Some of the walks that are taken together.
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

/// Takes the walks to `keys`, not more than [`TOGETHER`], to their ends; that to the first of them goes
/// through `way`.
fn walk_together<S: NodeSource, T>(
    keys: &mut [Searched<'_, T>],
    way: &mut Vec<Walk>,
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
                way.push(first);
            }
        }
        if stopped.count == 0 {
            return Ok(());
        }
        load_awaited(keys, &stopped, state)?;
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

/// Loads what the stopped walks wait for.
fn load_awaited<S: NodeSource, T>(
    keys: &mut [Searched<'_, T>],
    stopped: &Turns,
    state: &mut ShadowState<S>,
) -> Result<(), LoadError> {
    let mut requests = [NodeRequest::default(); TOGETHER];
    let mut asking = [0; TOGETHER];
    let mut count = 0;
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
                (requests[count], asking[count]) = (request, index);
                count += 1;
            }
        }
    }
    state.load_nodes(&requests[..count], |at, node| {
        keys[asking[at]].loaded = Some(node);
    })
}
