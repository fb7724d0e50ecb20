//! The arguments of `validate_block`.

use alloc::vec::Vec;
use bytes::Bytes;
use codec::{decode_from_bytes, Decode, Error};
use cumulus_primitives_core::{relay_chain, SchedulingProof};
use polkadot_parachain_primitives::primitives::{TrailingOption, ValidationParamsExtension};

/// The first bytes of a PoV of any version after the first.
const VERSIONED: &[u8] = b"VERSIONEDPBD";

/// What the relay chain hands to `validate_block`: `ValidationParams` of
/// `polkadot-parachain-primitives`, sharing the memory of the encoded arguments.
#[derive(Decode)]
pub(crate) struct Params {
    /// The head of the parachain: the encoded header of the parent.
    pub(crate) parent_head: Bytes,
    /// The encoded [`Pov`].
    pub(crate) block_data: Bytes,
    pub(crate) relay_parent_number: relay_chain::BlockNumber,
    pub(crate) relay_parent_storage_root: relay_chain::Hash,
    /// Only candidates of the third version have it.
    pub(crate) extension: TrailingOption<ValidationParamsExtension>,
}

/// A PoV: `ParachainBlockData` of `cumulus-primitives-core` in any of its versions, with the proof
/// sharing the memory of the encoded bytes.
pub(crate) struct Pov<B> {
    pub(crate) blocks: Vec<B>,
    /// The items of the compact proof.
    pub(crate) proof: Vec<Bytes>,
    pub(crate) scheduling: Option<SchedulingProof>,
}

impl<B: Decode> Pov<B> {
    /// The PoV encoded in `data`. Bytes after its end are ignored, as by the stock function.
    pub(crate) fn decode(data: Bytes) -> Result<Self, Error> {
        if !data.starts_with(VERSIONED) {
            let (block, proof) = decode_from_bytes(data)?;
            return Ok(Self {
                blocks: alloc::vec![block],
                proof,
                scheduling: None,
            });
        }
        let content = || data.slice(VERSIONED.len() + 1..);
        match data.get(VERSIONED.len()) {
            Some(1) => {
                let (blocks, proof) = decode_from_bytes(content())?;
                Ok(Self {
                    blocks,
                    proof,
                    scheduling: None,
                })
            }
            Some(2) => {
                let (blocks, proof, scheduling) = decode_from_bytes(content())?;
                Ok(Self {
                    blocks,
                    proof,
                    scheduling: Some(scheduling),
                })
            }
            Some(_) => Err("expected a PoV of version 1 or 2, found another version".into()),
            None => Err("expected the version of a PoV, found its end".into()),
        }
    }
}
