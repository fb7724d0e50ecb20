//! Sizes of proofs, in the unit of sp-trie's recorder.

use povmeter_delta_root::compact_bytes;

/// How large the block's storage proof is, and how much of it only the root computation needs.
///
/// Bytes as the recorder of sp-trie counts them: for each distinct node or value node its length and
/// the SCALE prefix of that length. The encoded proof is longer by the SCALE prefix of the number of
/// nodes, see [`StorageProof::encoded_bytes`](crate::StorageProof::encoded_bytes).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ProofSize {
    /// Bytes of nodes that reads touched.
    pub read_bytes: u64,
    /// Bytes of nodes that only the root computation needs.
    pub root_bytes: u64,
}

impl ProofSize {
    /// Bytes of the whole proof if the block ended now.
    pub const fn total_bytes(self) -> u64 {
        self.read_bytes.saturating_add(self.root_bytes)
    }
}

/// Returns the length in SCALE of a byte string of `length` bytes.
pub(crate) const fn scale_bytes(length: usize) -> u64 {
    length as u64 + compact_bytes(length as u64)
}
