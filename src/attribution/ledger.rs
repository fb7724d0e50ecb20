//! The notes: which part of the block needed which node, and for which key.

use super::Why;
use alloc::{collections::BTreeSet, vec::Vec};
use core::ops::Range;
use povmeter_delta_root::{
    LoadError, NodeId, NodeSource, Observer, PathCache, ShadowState, TrieId,
};
use povmeter_overlay::{Lookup, Overlay};

/// A reason to need nodes.
#[derive(Clone, Debug)]
pub(super) struct Access {
    pub(super) part: u32,
    pub(super) why: Why,
    /// The child trie's storage key.
    child: Option<Range<usize>>,
    key: Range<usize>,
}

/// A node, and the index of an access that needs it.
pub(super) type Note = (NodeId, usize);

/// A changed key: its access, which has no notes before a boundary, and whether it was deleted.
#[derive(Clone, Copy, Debug)]
pub(super) struct NotedChange {
    pub(super) access: usize,
    pub(super) deletes: bool,
}

/// Lengths at the start of an open transaction.
#[derive(Clone, Copy, Debug)]
struct LedgerMark {
    reads: usize,
    roots: usize,
    copied: usize,
    changes: usize,
    walked: usize,
}

/// Lengths at the start of a call that may fail. Changes are not among them, because a call notes its
/// changes when it can't fail any more.
#[derive(Clone, Copy, Debug, Default)]
struct CallMark {
    keys: usize,
    accesses: usize,
    reads: usize,
    roots: usize,
    copied: usize,
    walked: usize,
}

/// Notes, rolled back like the recorder's counts.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    part: u32,
    keys: Vec<u8>,
    /// They stay when a rollback removes their notes.
    accesses: Vec<Access>,
    /// Notes rolled back with the recorder's reads; those in `roots`, with what it counts for the root.
    reads: Vec<Note>,
    roots: Vec<Note>,
    /// How many of `roots` were looked through for paths that count as read.
    copied: usize,
    /// Changes that are not rolled back.
    changes: Vec<NotedChange>,
    /// How many of `changes` a boundary has walked to.
    walked: usize,
    open_transactions: Vec<LedgerMark>,
    call: CallMark,
}

impl Ledger {
    pub(super) fn begin_part(&mut self) -> u32 {
        self.part = self.part.saturating_add(1);
        self.part
    }

    /// How many parts were begun.
    pub(super) fn parts(&self) -> u32 {
        self.part
    }

    /// How many accesses there are.
    pub(super) fn accesses(&self) -> usize {
        self.accesses.len()
    }

    pub(super) fn access(&self, index: usize) -> &Access {
        &self.accesses[index]
    }

    pub(super) fn trie(&self, access: &Access) -> TrieId<'_> {
        match &access.child {
            None => TrieId::Top,
            Some(range) => TrieId::Child(&self.keys[range.clone()]),
        }
    }

    pub(super) fn key(&self, access: &Access) -> &[u8] {
        &self.keys[access.key.clone()]
    }

    /// All notes.
    pub(super) fn notes(&self) -> impl Iterator<Item = Note> + '_ {
        self.reads.iter().chain(&self.roots).copied()
    }

    pub(super) fn all_changes(&self) -> &[NotedChange] {
        &self.changes
    }

    /// Adds an access of the current part, unless the last access equals it, and returns its index.
    fn add(&mut self, why: Why, trie: TrieId<'_>, key: &[u8]) -> usize {
        let last = self.accesses.last().filter(|last| {
            (last.part, last.why) == (self.part, why)
                && self.trie(last) == trie
                && self.key(last) == key
        });
        if last.is_some() {
            return self.accesses.len() - 1;
        }
        let child = match trie {
            TrieId::Top => None,
            TrieId::Child(storage_key) => Some(push(&mut self.keys, storage_key)),
        };
        let key = push(&mut self.keys, key);
        self.push(Access {
            part: self.part,
            why,
            child,
            key,
        })
    }

    fn push(&mut self, access: Access) -> usize {
        self.accesses.push(access);
        self.accesses.len() - 1
    }

    /// Returns an observer of a read of `key`, which notes the nodes touched and tells `recorder`.
    pub(super) fn reading<'a, O: Observer + 'a>(
        &'a mut self,
        recorder: O,
        trie: TrieId<'_>,
        key: &[u8],
    ) -> ReadNotes<'a, O> {
        let access = self.add(Why::Read, trie, key);
        ReadNotes {
            recorder,
            ledger: self,
            access,
        }
    }

    /// Returns an observer of a boundary, which tells `recorder` the nodes touched and notes those merged.
    pub(super) fn merging<'a, O: Observer + 'a>(&'a mut self, recorder: O) -> MergeNotes<'a, O> {
        let access = self.add(Why::Merge, TrieId::Top, &[]);
        let notes = &mut self.roots;
        MergeNotes {
            recorder,
            notes,
            access,
        }
    }

    /// As [`Self::merging`], for a root whose nodes, also those on paths to changed keys, count as read.
    pub(super) fn merging_for_good<'a, O: Observer + 'a>(
        &'a mut self,
        recorder: O,
    ) -> MergeNotes<'a, O> {
        let access = self.add(Why::Merge, TrieId::Top, &[]);
        let (accesses, notes) = (&self.accesses, &mut self.reads);
        let paths = self.roots[self.copied..].iter().copied();
        self.copied = self.roots.len();
        notes.extend(paths.filter(|(_, access)| accesses[*access].why == Why::Path));
        MergeNotes {
            recorder,
            notes,
            access,
        }
    }

    /// Notes a change for the next boundary.
    pub(super) fn change(&mut self, trie: TrieId<'_>, key: &[u8], deletes: bool) {
        let access = self.add(Why::Path, trie, key);
        self.changes.push(NotedChange { access, deletes });
    }

    /// Notes the deletion of every key that the block wrote below `prefix`.
    pub(super) fn clear_prefix(&mut self, overlay: &mut Overlay, trie: TrieId<'_>, prefix: &[u8]) {
        if let Lookup::Value(_) = overlay.get(trie, prefix) {
            self.change(trie, prefix, true);
        }
        let mut after = prefix.to_vec();
        while let Some((key, value)) = overlay.next_after(trie, &after) {
            if !key.starts_with(prefix) {
                return;
            }
            if value.is_some() {
                self.change(trie, key, true);
            }
            after = key.to_vec();
        }
    }

    /// Walks to the keys changed since the last boundary, and notes the paths. If `only` names a child trie, walks to the
    /// keys of that trie alone, and the next boundary begins with the same keys.
    ///
    /// # Errors
    /// [`LoadError`] if a node can't be loaded. The caller then has to call [`Self::take_back_call`];
    /// the next call begins with the same keys.
    pub(super) fn walk_to_changed<S: NodeSource>(
        &mut self,
        overlay: &Overlay,
        state: &mut ShadowState<S>,
        only: Option<&[u8]>,
    ) -> Result<(), LoadError> {
        let mut met = BTreeSet::new();
        for change in &self.changes[self.walked..] {
            let access = &self.accesses[change.access];
            let child = access.child.clone().map(|range| &self.keys[range]);
            if only.is_some() && only != child {
                continue;
            }
            let trie = child.map_or(TrieId::Top, TrieId::Child);
            let key = &self.keys[access.key.clone()];
            let untouched = matches!(overlay.get(trie, key), Lookup::Untouched);
            // An untouched key needs nothing.
            if untouched || !met.insert((access.part, trie, key)) {
                continue;
            }
            let mut observer = PathNotes {
                notes: &mut self.roots,
                access: change.access,
            };
            let handle = state.open(trie, &mut observer)?;
            state.find(handle, key, &mut observer)?;
        }
        if only.is_none() {
            self.walked = self.changes.len();
        }
        Ok(())
    }

    pub(super) fn open(&mut self) {
        self.open_transactions.push(LedgerMark {
            reads: self.reads.len(),
            roots: self.roots.len(),
            copied: self.copied,
            changes: self.changes.len(),
            walked: self.walked,
        });
    }

    pub(super) fn commit(&mut self) {
        self.open_transactions.pop();
    }

    /// Removes the changes of the innermost transaction; also the notes of its reads if `reads`, and
    /// those of its estimates if `roots`.
    pub(super) fn roll_back(&mut self, reads: bool, roots: bool) {
        let Some(mark) = self.open_transactions.pop() else {
            return;
        };
        self.changes.truncate(mark.changes);
        if reads {
            self.reads.truncate(mark.reads);
            // Copies of paths are gone, too.
            self.copied = self.copied.min(mark.copied);
        }
        if roots {
            self.roots.truncate(mark.roots);
            self.walked = mark.walked;
            self.copied = self.copied.min(mark.roots);
        }
        self.walked = self.walked.min(self.changes.len());
    }

    /// Marks the point that [`Self::take_back_call`] goes back to.
    pub(super) fn begin_call(&mut self) {
        self.call = CallMark {
            keys: self.keys.len(),
            accesses: self.accesses.len(),
            reads: self.reads.len(),
            roots: self.roots.len(),
            copied: self.copied,
            walked: self.walked,
        };
    }

    /// Removes what was noted since the call began.
    pub(super) fn take_back_call(&mut self) {
        let CallMark {
            keys,
            accesses,
            reads,
            roots,
            copied,
            walked,
        } = self.call;
        self.keys.truncate(keys);
        self.accesses.truncate(accesses);
        self.reads.truncate(reads);
        self.roots.truncate(roots);
        self.copied = copied;
        self.walked = walked;
    }

    /// How many notes of reads there are.
    pub(super) fn reads(&self) -> usize {
        self.reads.len()
    }

    /// Removes the notes of reads but the first `kept`.
    pub(super) fn forget_reads(&mut self, kept: usize) {
        self.reads.truncate(kept);
        // Some of the others may have been copies.
        self.copied = 0;
    }

    pub(super) fn drop_estimates(&mut self) {
        self.roots.clear();
        self.copied = 0;
    }
}

fn push(keys: &mut Vec<u8>, key: &[u8]) -> Range<usize> {
    let start = keys.len();
    keys.extend_from_slice(key);
    start..keys.len()
}

/// Notes the nodes that a read touches.
#[doc(hidden)]
#[derive(Debug)]
pub struct ReadNotes<'a, O> {
    recorder: O,
    ledger: &'a mut Ledger,
    access: usize,
}

impl<O: Observer> PathCache for ReadNotes<'_, O> {}

impl<O: Observer> Observer for ReadNotes<'_, O> {
    fn touched(&mut self, node: NodeId, length: usize) {
        self.recorder.touched(node, length);
        self.ledger.reads.push((node, self.access));
    }

    fn value(&mut self, node: NodeId, length: usize) {
        self.recorder.value(node, length);
        let why = self.ledger.accesses[self.access].why;
        if why != Why::Value {
            let access = Access {
                why: Why::Value,
                ..self.ledger.accesses[self.access].clone()
            };
            self.access = self.ledger.push(access);
        }
        self.ledger.reads.push((node, self.access));
    }
}

/// Notes the nodes that a boundary merges.
pub(super) struct MergeNotes<'a, O> {
    recorder: O,
    notes: &'a mut Vec<Note>,
    access: usize,
}

impl<O: Observer> PathCache for MergeNotes<'_, O> {}

impl<O: Observer> Observer for MergeNotes<'_, O> {
    fn touched(&mut self, node: NodeId, length: usize) {
        self.recorder.touched(node, length);
    }

    fn merged(&mut self, node: NodeId, length: usize) {
        self.recorder.merged(node, length);
        self.notes.push((node, self.access));
    }
}

/// Notes the nodes on the path to a changed key.
struct PathNotes<'a> {
    notes: &'a mut Vec<Note>,
    access: usize,
}

impl PathCache for PathNotes<'_> {}

impl Observer for PathNotes<'_> {
    fn touched(&mut self, node: NodeId, _: usize) {
        self.notes.push((node, self.access));
    }

    /// The only value on a path is the root of a child trie, which counts as part of the path.
    fn value(&mut self, node: NodeId, length: usize) {
        self.touched(node, length);
    }
}
