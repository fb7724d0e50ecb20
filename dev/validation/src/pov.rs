//! A PoV, encoded as collators send it and as `validate_block` takes it.

use codec::{Compact, Encode};
use cumulus_primitives_core::{BlockBundleInfo, SchedulingProof};
use polkadot_parachain_primitives::primitives::ValidationParamsExtension;
use povmeter::Bytes;
use povmeter_dev_runtime::runtime::Header;
use sp_core::H256;
use sp_runtime::DigestItem;

/// The place of a block in a PoV of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BundlePlace {
    /// The index of the block, from zero.
    pub index: usize,
    /// How many blocks there are.
    pub count: usize,
}

impl BundlePlace {
    /// The digest item that tells this place.
    pub fn digest(self) -> DigestItem {
        let info = BlockBundleInfo {
            // A PoV of more blocks has a wrong index, and is refused.
            index: u8::try_from(self.index).unwrap_or(u8::MAX),
            is_last: self.index + 1 == self.count,
        };
        info.to_digest_item()
    }
}

/// The version of an encoded PoV.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PovVersion {
    /// Without a version: one block.
    V0,
    /// Several blocks.
    #[default]
    V1,
    /// Several blocks, and a [`Scheduling`].
    V2,
}

/// The additional data of a candidate of the third version.
#[derive(Clone, Debug)]
pub struct Scheduling {
    /// The proof in the PoV.
    pub proof: SchedulingProof,
    /// What the relay chain knows of the candidate.
    pub extension: ValidationParamsExtension,
}

/// A PoV, and what the relay chain knows of it.
#[derive(Clone, Debug)]
pub struct Pov {
    /// The encoded header of the parent of its first block.
    pub parent_head: Vec<u8>,
    /// The number of the relay parent.
    pub relay_parent_number: u32,
    /// The storage root of the relay parent.
    pub relay_parent_storage_root: H256,
    /// Its blocks: header and encoded extrinsics.
    pub blocks: Vec<(Header, Vec<Vec<u8>>)>,
    /// The items of the compact proof.
    pub proof: Vec<Bytes>,
    /// How it is encoded.
    pub version: PovVersion,
    /// The scheduling of a candidate of the third version.
    pub scheduling: Option<Scheduling>,
}

impl Pov {
    /// The blocks and the proof, as `ParachainBlockData` encodes them.
    pub fn block_data(&self) -> Vec<u8> {
        let mut out = Vec::new();
        if self.version != PovVersion::V0 {
            out.extend_from_slice(b"VERSIONEDPBD");
            out.push(if self.version == PovVersion::V1 { 1 } else { 2 });
            Compact(self.blocks.len() as u64).encode_to(&mut out);
        }
        for (header, body) in &self.blocks {
            header.encode_to(&mut out);
            Compact(body.len() as u64).encode_to(&mut out);
            body.iter()
                .for_each(|extrinsic| out.extend_from_slice(extrinsic));
        }
        let proof: Vec<&[u8]> = self.proof.iter().map(AsRef::as_ref).collect();
        proof.encode_to(&mut out);
        if let (PovVersion::V2, Some(scheduling)) = (self.version, &self.scheduling) {
            scheduling.proof.encode_to(&mut out);
        }
        out
    }

    /// The arguments of `validate_block`, with these blocks and this proof.
    pub fn arguments_with(&self, block_data: &[u8]) -> Vec<u8> {
        let known = (self.relay_parent_number, self.relay_parent_storage_root);
        let mut arguments = (&self.parent_head, block_data, known).encode();
        if let Some(scheduling) = &self.scheduling {
            scheduling.extension.encode_to(&mut arguments);
        }
        arguments
    }

    /// The arguments of `validate_block`.
    pub fn arguments(&self) -> Vec<u8> {
        self.arguments_with(&self.block_data())
    }
}
