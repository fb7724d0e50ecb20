//! The recorder: which nodes the proof holds, and how many bytes they are.

use crate::{
    known_paths::KnownPaths,
    size::{scale_bytes, ProofSize},
};
use alloc::vec::Vec;
use povmeter_delta_root::{NodeId, NodeTable, Observer, PathCache, ShadowNode, TrieHandle};

const READ: u8 = 1;
const ROOT: u8 = 2;
/// Besides the others: the node is ignored from the moment on at which a rollback takes back its last count.
const IGNORED_LATER: u8 = 4;
/// Besides the others: the node is in the list of changed nodes. Says nothing about its counts.
const LISTED: u8 = 8;

/// Counts nodes for a proof: those that reads touched, and those that only the root computation would
/// need. A node counts once, however often it is touched.
///
/// Counts can be taken back to an earlier [`RecorderMark`], reads and root separately.
///
/// A recorder belongs to one [`ShadowState`](povmeter_delta_root::ShadowState), because it knows where
/// the keys are that were read there. [Reset](Self::reset) it before it is used with another one.
#[derive(Debug, Default)]
pub struct Recorder {
    /// By node id, whether reads or the root need the node. An ignored node has both flags and is in neither list.
    flags: Vec<u8>,
    reads: Vec<NodeId>,
    roots: Vec<NodeId>,
    /// Keys whose paths are counted in `reads`.
    known_paths: KnownPaths,
    size: ProofSize,
    /// How many nodes are ignored.
    ignored: usize,
    /// Nodes counted or taken back since the last `take_changed_nodes`, each once, because peeks and rollbacks count the
    /// same nodes many times; `None` before the first.
    changed: Option<Vec<NodeId>>,
}

/// A point to which a recorder's counts can be rolled back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecorderMark {
    reads: usize,
    roots: usize,
    known_paths: usize,
}

impl RecorderMark {
    /// Whether the recorder had counted more reads at this point than at `other`, a mark of the same recorder.
    pub fn has_more_reads(&self, other: &Self) -> bool {
        self.reads > other.reads || self.known_paths > other.known_paths
    }
}

impl Recorder {
    /// Forgets everything; keeps memory for up to `most` nodes.
    pub fn reset(&mut self, most: usize) {
        let Self {
            flags,
            reads,
            roots,
            known_paths,
            size,
            ignored,
            changed,
        } = self;
        flags.clear();
        flags.shrink_to(most);
        reads.clear();
        reads.shrink_to(most);
        roots.clear();
        roots.shrink_to(most);
        known_paths.reset(most);
        *size = ProofSize::default();
        *ignored = 0;
        *changed = None;
    }

    /// The size of all counted nodes.
    pub fn size(&self) -> ProofSize {
        self.size
    }

    /// An observer that counts nodes as read.
    pub fn reading(&mut self) -> Reading<'_> {
        Reading(self)
    }

    /// An observer that counts nodes as needed by the root.
    pub fn estimating(&mut self) -> Estimating<'_> {
        Estimating(self)
    }

    /// The current point, for [`Self::roll_back`].
    pub fn mark(&self) -> RecorderMark {
        RecorderMark {
            reads: self.reads.len(),
            roots: self.roots.len(),
            known_paths: self.known_paths.len(),
        }
    }

    /// Takes back all counts since `mark`.
    ///
    /// # Panics
    /// If `table` is not the table of the counted nodes.
    pub fn roll_back(&mut self, mark: RecorderMark, table: &NodeTable) {
        self.roll_back_reads(mark, table);
        self.roll_back_roots(mark, table);
    }

    /// Takes back the reads counted since `mark`. A node that was counted for the root before stays
    /// counted for the root.
    ///
    /// # Panics
    /// If `table` is not the table of the counted nodes.
    pub fn roll_back_reads(&mut self, mark: RecorderMark, table: &NodeTable) {
        self.known_paths.truncate(mark.known_paths);
        for node in self.reads.drain(mark.reads.min(self.reads.len())..) {
            let bytes = scale_bytes(table.bytes(node).len());
            self.size.read_bytes -= bytes;
            list_changed(&mut self.changed, node, &mut self.flags);
            let flags = &mut self.flags[node.index()];
            *flags &= !READ;
            if *flags & ROOT != 0 {
                self.size.root_bytes += bytes;
            }
            self.ignored += ignore_uncounted(flags);
        }
    }

    /// Takes back the counts for the root since `mark`.
    ///
    /// # Panics
    /// If `table` is not the table of the counted nodes.
    pub fn roll_back_roots(&mut self, mark: RecorderMark, table: &NodeTable) {
        for node in self.roots.drain(mark.roots.min(self.roots.len())..) {
            list_changed(&mut self.changed, node, &mut self.flags);
            let flags = &mut self.flags[node.index()];
            *flags &= !ROOT;
            if *flags & READ == 0 {
                self.size.root_bytes -= scale_bytes(table.bytes(node).len());
            }
            self.ignored += ignore_uncounted(flags);
        }
    }

    /// Never counts `node` from now on. If it is counted already, it stays counted until a rollback takes back
    /// its count.
    pub fn ignore(&mut self, node: NodeId) {
        let flags = self.flags(node);
        *flags |= IGNORED_LATER;
        self.ignored += ignore_uncounted(flags);
    }

    /// How many nodes are ignored, without those that are still counted.
    pub fn ignored(&self) -> usize {
        self.ignored
    }

    /// The nodes counted, each once, in the order of their ids.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> + '_ {
        // A node may be in both lists.
        let mut listed: Vec<NodeId> = self.reads.iter().chain(&self.roots).copied().collect();
        listed.sort_unstable();
        listed.dedup();
        listed.into_iter()
    }

    /// The nodes that reads touched, in the order of their first reads.
    pub fn reads(&self) -> &[NodeId] {
        &self.reads
    }

    /// The nodes that were counted for the root before a read touched them, in the order of counting. A
    /// later read may have added some of them to [`Self::reads`].
    pub fn roots(&self) -> &[NodeId] {
        &self.roots
    }

    /// Whether `node` is counted or ignored.
    pub(crate) fn has(&self, node: NodeId) -> bool {
        self.flags
            .get(node.index())
            .is_some_and(|flags| *flags & !LISTED != 0)
    }

    /// Nodes counted or taken back since the last call, each once; at the first call, all counted nodes.
    pub(crate) fn take_changed_nodes(&mut self) -> Vec<NodeId> {
        let changed = self.take_list();
        self.changed = Some(Vec::new());
        changed.unwrap_or_else(|| self.nodes().collect())
    }

    /// Stops collecting changed nodes until [`Self::take_changed_nodes`] is called again.
    pub(crate) fn forget_changed_nodes(&mut self) {
        self.take_list();
    }

    /// Takes the list of changed nodes: no node is in a list then.
    fn take_list(&mut self) -> Option<Vec<NodeId>> {
        let changed = self.changed.take();
        for node in changed.iter().flatten() {
            self.flags[node.index()] &= !LISTED;
        }
        changed
    }

    #[inline(always)]
    fn flags(&mut self, node: NodeId) -> &mut u8 {
        let index = node.index();
        if index >= self.flags.len() {
            self.make_room(index);
        }
        &mut self.flags[index]
    }

    #[cold]
    fn make_room(&mut self, index: usize) {
        self.flags.resize(index + 1, 0);
    }
}

/// Adds `node` to the list of `changed` nodes, if there is a list and the node is not in it; `flags` are those of all
/// nodes.
#[inline]
fn list_changed(changed: &mut Option<Vec<NodeId>>, node: NodeId, flags: &mut [u8]) {
    if let Some(changed) = changed {
        let flags = &mut flags[node.index()];
        if *flags & LISTED == 0 {
            *flags |= LISTED;
            changed.push(node);
        }
    }
}

/// Ignores a node that [`Recorder::ignore`] was called for, if neither reads nor the root need it any more.
/// Returns how many nodes were ignored: 1 or 0.
fn ignore_uncounted(flags: &mut u8) -> usize {
    let ignores = *flags & !LISTED == IGNORED_LATER;
    if ignores {
        // Flagged as counted, but among neither the reads nor the roots, so that no rollback clears the flags.
        *flags = (*flags & LISTED) | READ | ROOT;
    }
    usize::from(ignores)
}

/// An observer that counts nodes as read; see [`Recorder::reading`].
#[derive(Debug)]
pub struct Reading<'a>(&'a mut Recorder);

impl Observer for Reading<'_> {
    #[inline]
    fn touched(&mut self, node: NodeId, length: usize) {
        let flags = self.0.flags(node);
        if *flags & READ != 0 {
            return;
        }
        let counted_for_root = *flags & ROOT != 0;
        *flags |= READ;
        list_changed(&mut self.0.changed, node, &mut self.0.flags);
        let bytes = scale_bytes(length);
        self.0.size.read_bytes += bytes;
        if counted_for_root {
            self.0.size.root_bytes -= bytes;
        }
        self.0.reads.push(node);
    }
}

impl PathCache for Reading<'_> {
    #[inline]
    fn known(&self, trie: TrieHandle, key: &[u8]) -> Option<Option<ShadowNode>> {
        self.0.known_paths.get(trie, key)
    }

    #[inline]
    fn found(&mut self, trie: TrieHandle, key: &[u8], found: Option<ShadowNode>) {
        self.0.known_paths.insert(trie, key, found);
    }
}

/// An observer that counts nodes as needed by the root; see [`Recorder::estimating`].
#[derive(Debug)]
pub struct Estimating<'a>(&'a mut Recorder);

impl Observer for Estimating<'_> {
    #[inline]
    fn touched(&mut self, node: NodeId, length: usize) {
        let flags = self.0.flags(node);
        // A read node stays counted at least as long as this estimate does: the read came first, so a
        // rollback of the read also rolls back the estimate.
        if *flags & !LISTED != 0 {
            return;
        }
        *flags |= ROOT;
        list_changed(&mut self.0.changed, node, &mut self.0.flags);
        self.0.size.root_bytes += scale_bytes(length);
        self.0.roots.push(node);
    }
}

impl PathCache for Estimating<'_> {
    // The nodes on the path to a read key stay counted at least as long as this estimate does.
    #[inline]
    fn known(&self, trie: TrieHandle, key: &[u8]) -> Option<Option<ShadowNode>> {
        self.0.known_paths.get(trie, key)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::ProofNodes;
    use bytes::Bytes;
    use povmeter_delta_root::{Blake2b256, Root, ShadowState};

    /// A table of `count` nodes of one byte each, and their ids.
    fn loaded(count: u8) -> (ShadowState<ProofNodes>, Vec<NodeId>) {
        let mut state = ShadowState::new(ProofNodes::default(), Root::EMPTY);
        let hashes: Vec<_> = (0..count).map(|byte| Blake2b256::hash(&[byte])).collect();
        let nodes = hashes.iter().zip(0..count);
        let nodes = nodes.map(|(hash, byte)| (*hash, Bytes::copy_from_slice(&[byte])));
        state.preload(nodes).unwrap();
        let ids = hashes.iter().map(|hash| state.table().find(hash).unwrap());
        let ids = ids.collect();
        (state, ids)
    }

    /// Counts all nodes for the root, half of them as read too, and takes that back: as peeks and rollbacks do.
    fn count_and_take_back(recorder: &mut Recorder, nodes: &[NodeId], table: &NodeTable) {
        let mark = recorder.mark();
        for (index, &node) in nodes.iter().enumerate() {
            recorder.estimating().touched(node, 1);
            if index % 2 == 0 {
                recorder.reading().touched(node, 1);
            }
        }
        recorder.roll_back(mark, table);
    }

    #[test]
    fn changed_nodes_are_listed_once() {
        let (state, nodes) = loaded(9);
        let mut recorder = Recorder::default();
        recorder.reading().touched(nodes[0], 1);
        assert_eq!(recorder.take_changed_nodes(), nodes[..1]);
        // The list is taken, or forgotten and begun again.
        for forgets in [false, true, false] {
            for _ in 0..3 {
                count_and_take_back(&mut recorder, &nodes[1..], state.table());
            }
            recorder.estimating().touched(nodes[3], 1);
            let mut expected = nodes[1..].to_vec();
            if forgets {
                recorder.forget_changed_nodes();
                expected = vec![nodes[0], nodes[3]];
            }
            let changed = recorder.take_changed_nodes();
            assert_eq!(changed, expected, "forgets: {forgets}");
            let counted: Vec<_> = nodes.iter().map(|node| recorder.has(*node)).collect();
            assert_eq!(counted.iter().filter(|counted| **counted).count(), 2);
            recorder.roll_back_roots(RecorderMark::default(), state.table());
            assert_eq!(recorder.take_changed_nodes(), [nodes[3]]);
        }
    }

    #[test]
    fn a_node_is_ignored_or_counted_whether_it_is_listed_or_not() {
        let (state, nodes) = loaded(2);
        let mut recorder = Recorder::default();
        recorder.take_changed_nodes();
        count_and_take_back(&mut recorder, &nodes, state.table());
        recorder.ignore(nodes[0]);
        assert_eq!(recorder.ignored(), 1);
        recorder.reading().touched(nodes[0], 1);
        recorder.estimating().touched(nodes[1], 1);
        assert_eq!(recorder.nodes().collect::<Vec<_>>(), [nodes[1]]);
        // It stays counted until its count is taken back.
        recorder.ignore(nodes[1]);
        assert_eq!(recorder.ignored(), 1);
        assert_eq!(recorder.take_changed_nodes(), nodes);
        recorder.roll_back(RecorderMark::default(), state.table());
        assert_eq!(recorder.ignored(), 2);
        assert_eq!(recorder.take_changed_nodes(), [nodes[1]]);
        recorder.estimating().touched(nodes[1], 1);
        assert_eq!(recorder.size(), ProofSize::default());
    }
}
