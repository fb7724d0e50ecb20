//! Recorders of a block: the peer's, and one that also notes the nodes that estimates read.

use crate::runtime::Hashing;
use sp_core::H256;
use sp_trie::{
    recorder::{Recorder, TrieRecorder as PeerTrieRecorder},
    StorageProof, TrieRecorder, TrieRecorderProvider,
};
use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use trie_db::{RecordedForKey, TrieAccess};

/// A recorder of a block that follows the transactions of the host.
///
/// A clone is another handle to the same recorder.
pub trait BlockRecorder:
    TrieRecorderProvider<Hashing> + Clone + Default + Send + Sync + 'static
{
    /// The peer's recorder, which holds the nodes of the proof.
    fn peer(&self) -> &Recorder<Hashing>;

    /// Opens a transaction.
    fn start(&self);

    /// Commits the innermost transaction: keeps its nodes. Does nothing if none is open.
    fn commit(&self);

    /// Rolls back the innermost transaction: forgets its nodes. Does nothing if none is open.
    fn roll_back(&self);
}

impl BlockRecorder for Recorder<Hashing> {
    fn peer(&self) -> &Recorder<Hashing> {
        self
    }

    fn start(&self) {
        self.start_transaction();
    }

    fn commit(&self) {
        // Fails only without a transaction.
        let _ = self.commit_transaction();
    }

    fn roll_back(&self) {
        let _ = self.rollback_transaction();
    }
}

/// The peer's recorder, and beside it the nodes that only estimates have read.
///
/// Reads go into the peer's recorder, so the proof and the sizes that the runtime gets are those of a
/// block without estimates. Estimates only note hash and size. A node in both counts once, as read.
/// Notes of estimates do not roll back, because estimates are made between transactions.
#[derive(Clone, Default)]
pub struct SplitRecorder {
    reads: Recorder<Hashing>,
    split: Arc<Mutex<Split>>,
}

/// The nodes seen by reads and by estimates.
#[derive(Default)]
struct Split {
    read: HashSet<H256>,
    /// The nodes of `read` in order of insertion; `marks` are its lengths at each transaction start.
    log: Vec<H256>,
    marks: Vec<usize>,
    /// The nodes that estimates have seen, with their size in a proof.
    estimated: HashMap<H256, u64>,
    /// Sum of the sizes of the nodes in `estimated` but not in `read`.
    estimated_only: u64,
}

impl Split {
    fn note_read(&mut self, hash: H256) {
        if self.read.insert(hash) {
            self.log.push(hash);
            self.estimated_only -= self.estimated.get(&hash).copied().unwrap_or(0);
        }
    }

    fn note_estimated(&mut self, hash: H256, size: u64) {
        if self.estimated.insert(hash, size).is_none() && !self.read.contains(&hash) {
            self.estimated_only += size;
        }
    }

    fn roll_back(&mut self) {
        let mark = self.marks.pop().unwrap_or(self.log.len());
        for hash in self.log.drain(mark..) {
            self.read.remove(&hash);
            self.estimated_only += self.estimated.get(&hash).copied().unwrap_or(0);
        }
    }
}

impl SplitRecorder {
    /// Returns the bytes of the nodes that estimates have read and the runtime has not.
    pub fn root_adds(&self) -> u64 {
        self.lock().estimated_only
    }

    /// Returns a recorder for an estimate.
    pub fn estimates(&self) -> EstimateRecorder {
        EstimateRecorder(self.clone())
    }

    /// Notes that an estimate read a node.
    pub fn note_estimated(&self, hash: H256, node: &[u8]) {
        self.lock().note_estimated(hash, size_in_proof(node.len()));
    }

    // A poisoned lock is fine: the thread that panicked has lost its block.
    fn lock(&self) -> MutexGuard<'_, Split> {
        self.split.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the size of a node in a proof, with its SCALE length prefix.
fn size_in_proof(length: usize) -> u64 {
    let prefix = match length {
        0..=0x3f => 1,
        0x40..=0x3fff => 2,
        0x4000..=0x3fff_ffff => 4,
        _ => 5,
    };
    length as u64 + prefix
}

impl BlockRecorder for SplitRecorder {
    fn peer(&self) -> &Recorder<Hashing> {
        &self.reads
    }

    fn start(&self) {
        self.reads.start();
        let mut split = self.lock();
        let mark = split.log.len();
        split.marks.push(mark);
    }

    fn commit(&self) {
        self.reads.commit();
        self.lock().marks.pop();
    }

    fn roll_back(&self) {
        self.reads.roll_back();
        self.lock().roll_back();
    }
}

impl TrieRecorderProvider<Hashing> for SplitRecorder {
    type Recorder<'a> = ReadRecorder<'a>;

    fn drain_storage_proof(self) -> Option<StorageProof> {
        Some(self.reads.drain_storage_proof())
    }

    fn as_trie_recorder(&self, storage_root: H256) -> ReadRecorder<'_> {
        let inner = self.reads.as_trie_recorder(storage_root);
        ReadRecorder {
            reads: &self.reads,
            inner,
            split: self.lock(),
        }
    }
}

/// The recorder of one access of the runtime.
pub struct ReadRecorder<'a> {
    reads: &'a Recorder<Hashing>,
    inner: PeerTrieRecorder<'a, Hashing>,
    split: MutexGuard<'a, Split>,
}

impl TrieRecorder<H256> for ReadRecorder<'_> {
    fn record(&mut self, access: TrieAccess<'_, H256>) {
        let hash = node_of(&access);
        let before = self.reads.estimate_encoded_size();
        self.inner.record(access);
        if let Some(hash) = hash {
            // The peer's recorder grows only by a node that it did not have.
            if self.reads.estimate_encoded_size() != before {
                self.split.note_read(hash);
            }
        }
    }

    fn trie_nodes_recorded_for_key(&self, key: &[u8]) -> RecordedForKey {
        self.inner.trie_nodes_recorded_for_key(key)
    }
}

/// Returns the hash of the node that `access` puts into a proof.
fn node_of(access: &TrieAccess<'_, H256>) -> Option<H256> {
    match access {
        TrieAccess::NodeOwned { hash, .. }
        | TrieAccess::EncodedNode { hash, .. }
        | TrieAccess::Value { hash, .. } => Some(*hash),
        _ => None,
    }
}

/// The recorder of an estimate; it notes only hash and size of each node.
pub struct EstimateRecorder(SplitRecorder);

impl TrieRecorder<H256> for EstimateRecorder {
    fn record(&mut self, access: TrieAccess<'_, H256>) {
        match access {
            TrieAccess::NodeOwned { hash, node_owned } => {
                let node = node_owned.to_encoded::<sp_trie::NodeCodec<Hashing>>();
                self.0.note_estimated(hash, &node);
            }
            TrieAccess::EncodedNode {
                hash,
                encoded_node: node,
            }
            | TrieAccess::Value {
                hash, value: node, ..
            } => self.0.note_estimated(hash, &node),
            _ => {}
        }
    }

    fn trie_nodes_recorded_for_key(&self, _key: &[u8]) -> RecordedForKey {
        RecordedForKey::None
    }
}

impl TrieRecorderProvider<Hashing> for EstimateRecorder {
    type Recorder<'a> = EstimateRecorder;

    fn drain_storage_proof(self) -> Option<StorageProof> {
        None
    }

    fn as_trie_recorder(&self, _storage_root: H256) -> EstimateRecorder {
        self.0.estimates()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use codec::Encode;

    fn read(recorder: &SplitRecorder, node: &[u8]) {
        let access = TrieAccess::EncodedNode {
            hash: hash(node),
            encoded_node: node.into(),
        };
        recorder.as_trie_recorder(H256::zero()).record(access);
    }

    fn hash(node: &[u8]) -> H256 {
        <Hashing as hash_db::Hasher>::hash(node)
    }

    fn sizes(recorder: &SplitRecorder) -> (usize, u64) {
        (
            recorder.peer().estimate_encoded_size(),
            recorder.root_adds(),
        )
    }

    #[test]
    fn a_node_counts_once_and_as_read() {
        let recorder = SplitRecorder::default();
        let nodes = [vec![1; 40], vec![2; 100]];
        recorder.note_estimated(hash(&nodes[0]), &nodes[0]);
        recorder.note_estimated(hash(&nodes[0]), &nodes[0]);
        assert_eq!(sizes(&recorder), (0, 41));
        read(&recorder, &nodes[0]);
        read(&recorder, &nodes[1]);
        recorder.note_estimated(hash(&nodes[1]), &nodes[1]);
        assert_eq!(sizes(&recorder), (41 + 102, 0));
    }

    #[test]
    fn reads_roll_back_and_estimates_stay() {
        let recorder = SplitRecorder::default();
        let nodes = [vec![1; 40], vec![2; 100]];
        recorder.note_estimated(hash(&nodes[0]), &nodes[0]);
        recorder.start();
        read(&recorder, &nodes[1]);
        recorder.start();
        read(&recorder, &nodes[0]);
        recorder.commit();
        assert_eq!(sizes(&recorder), (41 + 102, 0));
        recorder.roll_back();
        assert_eq!(sizes(&recorder), (0, 41));
        // Without a transaction neither does anything.
        recorder.roll_back();
        recorder.commit();
        assert_eq!(sizes(&recorder), (0, 41));
    }

    #[test]
    fn sizes_are_the_peers() {
        for length in [0, 63, 64, 16_383, 16_384] {
            let node = vec![0u8; length];
            assert_eq!(
                size_in_proof(length),
                node.encoded_size() as u64,
                "{length}"
            );
        }
    }
}
