//! The size of what a collator sends to validators.

use codec::Encode;
use cumulus_primitives_core::ParachainBlockData;
use sp_trie::CompactProof;

/// The most bytes that validators unpack, so collators do not compress a larger PoV. Four times
/// `MAX_POV_SIZE` of `polkadot-primitives`; the rule is `POV_BOMB_LIMIT` of `polkadot-node-primitives`.
const UNPACKED_LIMIT: usize = 4 * 10 * 1_024 * 1_024;

/// The most bytes of a PoV besides header, extrinsics and nodes: mark, version, number of blocks, number of
/// nodes.
const MOST_FRAMING: u64 = 12 + 1 + 1 + 9;

/// The sizes in bytes of the PoV of one block, as cumulus encodes it in `ParachainBlockData`, and
/// as it is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PovSizes {
    /// The header.
    pub header: u64,
    /// The list of extrinsics.
    pub extrinsics: u64,
    /// The compact proof.
    pub compact_proof: u64,
    /// The mark and version of the format, and the number of blocks.
    pub framing: u64,
    /// Compressed as collators compress it, with the length in front. A relay chain's `max_pov_size` limits
    /// this size.
    pub compressed: u64,
}

impl PovSizes {
    /// Measures the PoV of the block with `header` and `body`, whose compact proof is `proof`. An extrinsic
    /// must encode itself as in a block, with its length in front.
    ///
    /// Costs some milliseconds for a megabyte.
    pub fn measure<E: Encode>(header: &impl Encode, body: &[E], proof: &CompactProof) -> Self {
        let pov = encode(header, body, proof);
        let [header, extrinsics, compact_proof] = [
            header.encoded_size(),
            body.encoded_size(),
            proof.encoded_size(),
        ];
        let framing = pov.len() - header - extrinsics - compact_proof;
        let compressed = sp_maybe_compressed_blob::compress_weakly(&pov, UNPACKED_LIMIT);
        let sent = compressed.unwrap_or(pov);
        Self {
            header: header as u64,
            extrinsics: extrinsics as u64,
            compact_proof: compact_proof as u64,
            framing: framing as u64,
            compressed: sent.encoded_size() as u64,
        }
    }

    /// Returns an upper bound of [`Self::total`] and `compressed` for a block with `block` bytes of
    /// header and extrinsics and `recorded` bytes of proof.
    #[must_use]
    pub fn bound(block: u64, recorded: u64) -> u64 {
        let unpacked = block + MOST_FRAMING + recorded;
        // The bytes that zstd adds at most, by its `ZSTD_COMPRESSBOUND`; then the mark of compression, and
        // a length.
        let added = (unpacked >> 8) + ((128 << 10_u64).max(unpacked) - unpacked).div_ceil(1 << 11);
        unpacked + added + 8 + 9
    }

    /// Returns the size of the PoV before it is compressed.
    #[must_use]
    pub fn total(&self) -> u64 {
        let Self {
            header,
            extrinsics,
            compact_proof,
            framing,
            compressed: _,
        } = self;
        header + extrinsics + compact_proof + framing
    }
}

/// Returns the PoV of one block, as collators encode it.
fn encode<E: Encode>(header: &impl Encode, body: &[E], proof: &CompactProof) -> Vec<u8> {
    // A block is its header and its extrinsics, one after the other.
    ParachainBlockData::new(vec![(header, body)], proof.clone(), None).encode()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        build_block, commit_parent, runtime::Block, CallKind, Estimates, Peer, Plan, PlanOptions,
        PovmeterBlock,
    };
    use codec::Decode;
    use povmeter_store::MemoryStore;

    #[test]
    fn the_parts_are_those_of_the_decoded_pov() {
        let options = PlanOptions {
            accounts: 50,
            transfers: 20,
            ..PlanOptions::default()
        };
        let plan = Plan::new(options).unwrap();
        let peer = Peer::in_memory(&plan).unwrap();
        let outcome = build_block(peer.block(), &plan, |_| {}).unwrap();
        let body = outcome.body(&plan);
        assert_eq!(body.len(), 21);
        let sizes = PovSizes::measure(&outcome.header, &body, &outcome.compact);

        let encoded = encode(&outcome.header, &body, &outcome.compact);
        assert_eq!(sizes.total(), encoded.len() as u64);
        let decoded = ParachainBlockData::<Block>::decode(&mut &encoded[..]).unwrap();
        let block = &decoded.blocks()[0];
        assert_eq!(block.header, outcome.header);
        assert_eq!(sizes.header, block.header.encoded_size() as u64);
        assert_eq!(sizes.extrinsics, block.extrinsics.encoded_size() as u64);
        assert_eq!(sizes.compact_proof, decoded.proof().encoded_size() as u64);
        assert_eq!(sizes.compact_proof, outcome.sizes.compact);
        let before = outcome.block_bytes(&plan);
        assert_eq!(before.len(), 21);
        assert_eq!(before.last(), Some(&(sizes.header + sizes.extrinsics)));

        // What is sent unpacks to it.
        let sent = sp_maybe_compressed_blob::compress_weakly(&encoded, UNPACKED_LIMIT).unwrap();
        let unpacked = sp_maybe_compressed_blob::decompress(&sent, UNPACKED_LIMIT).unwrap();
        assert_eq!(unpacked, encoded);
        assert_eq!(sizes.compressed, sent.encoded_size() as u64);
        assert!(sizes.compressed < sizes.total(), "{sizes:?}");
    }

    #[test]
    fn the_bound_is_above_a_block_that_ends_there() {
        for transfers in 0..20 {
            let options = PlanOptions {
                accounts: 60,
                transfers,
                call: CallKind::TransferAll,
                ..PlanOptions::default()
            };
            let plan = Plan::new(options).unwrap();
            let mut store = MemoryStore::new();
            commit_parent(&mut store, &plan).unwrap();
            let block = PovmeterBlock::new(store, &plan, Estimates::Everywhere);
            let outcome = build_block(block, &plan, |_| {}).unwrap();
            let (size, block) = (
                outcome.boundaries[outcome.boundaries.len() - 1],
                outcome.block_bytes(&plan),
            );
            let pov = outcome.pov(&plan);
            let bound = PovSizes::bound(block[block.len() - 1], size.total());
            assert!(pov.total().max(pov.compressed) <= bound, "{pov:?}, {bound}");
            // It is not far above.
            assert!(bound < 2 * pov.total(), "{pov:?}, {bound}");
        }
    }

    #[test]
    fn bytes_that_do_not_compress_stay_below_the_bound() {
        let mut noise = 1_u64;
        for length in [0, 1, 1_000, 200_000, 3_000_000] {
            let bytes: Vec<u8> = std::iter::repeat_with(|| {
                noise ^= noise << 13;
                noise ^= noise >> 7;
                noise ^= noise << 17;
                noise.to_le_bytes()[0]
            })
            .take(length)
            .collect();
            let proof = CompactProof {
                encoded_nodes: vec![bytes],
            };
            let sizes = PovSizes::measure(&(), &[(); 0], &proof);
            let bound = PovSizes::bound(1, proof.encoded_nodes[0].encoded_size() as u64);
            assert!(
                sizes.compressed.max(sizes.total()) <= bound,
                "{sizes:?}, {bound}"
            );
        }
    }

    #[test]
    fn what_validators_would_not_unpack_is_sent_as_it_is() {
        let body = [vec![0_u8; UNPACKED_LIMIT]];
        let proof = CompactProof {
            encoded_nodes: Vec::new(),
        };
        let sizes = PovSizes::measure(&(), &body, &proof);
        assert_eq!(sizes.compressed, sizes.total() + 4);
        let smaller = [vec![0_u8; UNPACKED_LIMIT / 2]];
        let sizes = PovSizes::measure(&(), &smaller, &proof);
        assert!(sizes.compressed < 10_000, "{sizes:?}");
    }
}
