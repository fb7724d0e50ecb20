//! Combines notes and counts: each recorded node with the reasons to need it.
//!
//! ```text
//! for each node that the recorder counts:
//!     its wants = the accesses noted at it
//!     for a noted merge, instead: the deletions of entries below the branch above each of its places;
//!                                 if they were rolled back, the boundary that merged it
//! ```

use super::{
    entries::{OwnedEntry, OwnedWant},
    ledger::{Ledger, Note},
    Attribution, EntryKind, Why,
};
use alloc::{borrow::Cow, collections::BTreeMap, vec, vec::Vec};
use povmeter_delta_root::{
    child_root_key, compact_bytes, NodeId, NodeSource, Root, ShadowNode, ShadowState, TrieHandle,
    TrieId,
};
use povmeter_overlay::{Lookup, Overlay};
use povmeter_pov_estimate::Recorder;

/// The places of each loaded node; equal nodes have several.
type Places = BTreeMap<NodeId, Vec<(TrieHandle, ShadowNode)>>;

/// The recorded nodes with the notes of `ledger`.
pub(super) fn gather<S: NodeSource>(
    ledger: &Ledger,
    recorder: &Recorder,
    overlay: &Overlay,
    state: &ShadowState<S>,
) -> Attribution {
    let mut notes: Vec<Note> = ledger.notes().collect();
    notes.sort_unstable();
    notes.dedup();
    let mut gathering = Gathering {
        ledger,
        state,
        places: places(state),
        deletions: Deletions::of(ledger, overlay, state),
        of_accesses: vec![None; ledger.accesses()],
        known: BTreeMap::new(),
        attribution: Attribution {
            parts: ledger.parts(),
            ..Attribution::default()
        },
    };
    let mut notes = notes.as_slice();
    for node in recorder.nodes() {
        let start = notes.partition_point(|(noted, _)| *noted < node);
        let end = notes.partition_point(|(noted, _)| *noted <= node);
        gathering.add(node, &notes[start..end]);
        notes = &notes[end..];
    }
    gathering.attribution
}

fn places<S>(state: &ShadowState<S>) -> Places {
    let mut places = Places::new();
    for handle in state.handles() {
        for (at, node) in state.loaded_in(handle) {
            places.entry(node).or_default().push((handle, at));
        }
    }
    places
}

/// An attribution under construction.
struct Gathering<'a, S> {
    ledger: &'a Ledger,
    state: &'a ShadowState<S>,
    places: Places,
    deletions: Deletions<'a>,
    /// By access, the index of its want, once that is stored.
    of_accesses: Vec<Option<usize>>,
    /// The index of each want by its part, why, trie and key.
    known: BTreeMap<(u32, Why, TrieId<'a>, &'a [u8]), usize>,
    attribution: Attribution,
}

impl<'a, S: NodeSource> Gathering<'a, S> {
    /// Adds a recorded node with its notes.
    fn add(&mut self, node: NodeId, notes: &[Note]) {
        let mut wants = Vec::with_capacity(notes.len());
        let mut merged_by = Vec::new();
        for &(_, access) in notes {
            match self.ledger.access(access).why {
                Why::Merge => merged_by.push(access),
                _ => wants.push(self.want_of(access)),
            }
        }
        if !merged_by.is_empty() {
            let before = wants.len();
            for deletion in self.deletions_around(node) {
                let Deletion {
                    part, trie, key, ..
                } = self.deletions.0[deletion];
                wants.push(self.want(part, Why::Merge, trie, key));
            }
            if wants.len() == before {
                wants.extend(merged_by.into_iter().map(|access| self.want_of(access)));
            }
        }
        let all = &self.attribution;
        wants.sort_unstable_by(|&a, &b| all.want(a).cmp(&all.want(b)));
        wants.dedup();
        let start = self.attribution.wanted_by.len();
        self.attribution.wanted_by.extend(wants);
        let entry = self.entry(node, start);
        self.attribution.entries.push(entry);
    }

    fn want_of(&mut self, access: usize) -> usize {
        if let Some(known) = self.of_accesses[access] {
            return known;
        }
        let ledger = self.ledger;
        let of = ledger.access(access);
        let index = self.want(of.part, of.why, ledger.trie(of), ledger.key(of));
        self.of_accesses[access] = Some(index);
        index
    }

    /// The index of this want, which is stored once.
    fn want(&mut self, part: u32, why: Why, trie: TrieId<'a>, key: &'a [u8]) -> usize {
        let Attribution { wants, keys, .. } = &mut self.attribution;
        let mut keep = |bytes: &[u8]| {
            let start = keys.len();
            keys.extend_from_slice(bytes);
            start..keys.len()
        };
        let known = self.known.entry((part, why, trie, key));
        *known.or_insert_with(|| {
            let child = match trie {
                TrieId::Top => None,
                TrieId::Child(storage_key) => Some(keep(storage_key)),
            };
            let key = keep(key);
            wants.push(OwnedWant {
                part,
                why,
                child,
                key,
            });
            wants.len() - 1
        })
    }

    /// The deletions because of which `node` is merged: those below the branch above each of its
    /// places. For the null node, all deletions in each emptied trie.
    fn deletions_around(&self, node: NodeId) -> Vec<usize> {
        let state = self.state;
        let mut around = Vec::new();
        if *state.table().hash(node) == Root::EMPTY.node_hash() {
            for handle in state.handles().filter(|handle| state.is_emptied(*handle)) {
                around.extend(self.deletions.below(handle, &[]));
            }
            return around;
        }
        for &(handle, at) in self.places.get(&node).into_iter().flatten() {
            if let Some(above) = state.parent_of(handle, at) {
                let path = state.path_of(handle, above);
                around.extend(self.deletions.below(handle, &path));
            }
        }
        around
    }

    /// The entry of `node`, whose wants begin at `start`.
    fn entry(&self, node: NodeId, start: usize) -> OwnedEntry {
        let (state, all) = (self.state, &self.attribution);
        let table = state.table();
        let (hash, length) = (*table.hash(node), table.bytes(node).len() as u64);
        let place = self.places.get(&node).and_then(|places| places.first());
        let kind = match place {
            _ if hash == Root::EMPTY.node_hash() => EntryKind::Null,
            Some(_) => EntryKind::Node,
            None => EntryKind::Value,
        };
        let (trie, path) = match (place, all.wanted_by.get(start)) {
            (Some(&(handle, at)), _) => (state.trie_id(handle), state.path_of(handle, at)),
            (None, Some(&want)) if kind == EntryKind::Null => (all.want(want).trie, Vec::new()),
            (None, Some(&want)) => {
                let want = all.want(want);
                (want.trie, nibbles(want.key).collect())
            }
            (None, None) => (TrieId::Top, Vec::new()),
        };
        OwnedEntry {
            hash,
            bytes: length.saturating_add(compact_bytes(length)),
            kind,
            child: match trie {
                TrieId::Top => None,
                TrieId::Child(storage_key) => Some(storage_key.to_vec()),
            },
            path,
            wants: start..all.wanted_by.len(),
        }
    }
}

fn nibbles(key: &[u8]) -> impl Iterator<Item = u8> + '_ {
    key.iter().flat_map(|byte| [byte >> 4, byte & 0x0f])
}

/// A key that the block deleted, or the root key of a child trie that it emptied.
struct Deletion<'a> {
    /// The trie and the key where the deletion takes effect.
    handle: TrieHandle,
    at: Cow<'a, [u8]>,
    /// The part that deleted the key, and the key; for a root key, a key of the child trie.
    part: u32,
    trie: TrieId<'a>,
    key: &'a [u8],
}

/// Ordered by `handle` and `at`.
struct Deletions<'a>(Vec<Deletion<'a>>);

impl<'a> Deletions<'a> {
    /// The deletions in `ledger` whose keys are still deleted, and had a value in the parent state. A merge needs such
    /// a deletion: the others took nothing out of the parent's tries. Their keys are loaded, because each deletion
    /// that merged something has walked to its key.
    fn of<S: NodeSource>(ledger: &'a Ledger, overlay: &Overlay, state: &ShadowState<S>) -> Self {
        let handles: BTreeMap<_, _> = state
            .handles()
            .map(|handle| (state.trie_id(handle), handle))
            .collect();
        let mut deletions = Vec::new();
        for change in ledger.all_changes().iter().filter(|change| change.deletes) {
            let access = ledger.access(change.access);
            let (part, trie, key) = (access.part, ledger.trie(access), ledger.key(access));
            let deleted = matches!(overlay.get(trie, key), Lookup::Deleted);
            let Some(&handle) = handles.get(&trie).filter(|_| deleted) else {
                continue;
            };
            if !state.has_loaded_entry(handle, key) {
                continue;
            }
            if let TrieId::Child(storage_key) = trie {
                // Also if the block deleted the root, and the child has entries again.
                let root_key = child_root_key(storage_key);
                if overlay.get(TrieId::Top, &root_key) == Lookup::Deleted
                    || (state.is_bare(handle) && !overlay.has_values(trie))
                {
                    deletions.push(Deletion {
                        handle: TrieHandle::TOP,
                        at: root_key.into(),
                        part,
                        trie,
                        key,
                    });
                }
            }
            deletions.push(Deletion {
                handle,
                at: key.into(),
                part,
                trie,
                key,
            });
        }
        deletions.sort_by(|a, b| (a.handle, &a.at).cmp(&(b.handle, &b.at)));
        Self(deletions)
    }

    /// The indices of the deletions below `path`, in nibbles.
    fn below(&self, handle: TrieHandle, path: &[u8]) -> impl Iterator<Item = usize> + '_ {
        let (pairs, odd) = path.as_chunks::<2>();
        let whole: Vec<u8> = pairs.iter().map(|[high, low]| high << 4 | low).collect();
        let (length, odd) = (whole.len(), odd.first().copied());
        let start = self
            .0
            .partition_point(|deletion| (deletion.handle, &*deletion.at) < (handle, &whole));
        let below = self.0[start..].iter().zip(start..);
        below
            .take_while(move |(deletion, _)| {
                deletion.handle == handle && deletion.at.starts_with(&whole)
            })
            .filter(move |(deletion, _)| {
                let next = deletion.at.get(length).map(|byte| byte >> 4);
                odd.is_none() || odd == next
            })
            .map(|(_, index)| index)
    }
}
