//! Checks that the blocks of a PoV are a chain, and makes a seed that their author could not choose alone.

use alloc::vec::Vec;
use codec::Encode;
use cumulus_primitives_core::{relay_chain, relay_chain::MAX_HEAD_DATA_SIZE, CumulusDigestItem};
use sp_io::hashing::blake2_128;
use sp_runtime::traits::{Block, Header, LazyBlock};

/// The seed of hash tables: a hash of the relay chain's state and of the headers of all blocks.
pub(crate) fn seed<B: Block>(
    blocks: &[B::LazyBlock],
    relay_parent_storage_root: &relay_chain::Hash,
) -> [u8; 16] {
    let mut hashed: Vec<u8> = relay_parent_storage_root.as_bytes().to_vec();
    for block in blocks {
        hashed.extend_from_slice(block.header().hash().as_ref());
    }
    blake2_128(&hashed)
}

/// Checks that `blocks` are a chain on top of `parent`, and that one PoV may hold them all.
///
/// # Panics
/// If there is no block, a block is not the child of the one before, a header is larger than the relay
/// chain's limit, or the digests contradict the place of a block in the PoV.
pub(crate) fn check<B: Block>(blocks: &[B::LazyBlock], parent: &B::Header) {
    assert!(
        !blocks.is_empty(),
        "expected at least one block in the PoV, found none"
    );
    let mut parent_hash = parent.hash();
    for (index, block) in blocks.iter().enumerate() {
        let header = block.header();
        assert!(
            *header.parent_hash() == parent_hash,
            "expected block {index} of the PoV to be a child of {parent_hash:?}, found one of {:?}",
            header.parent_hash(),
        );
        let encoded = header.encode();
        assert!(
            encoded.len() <= MAX_HEAD_DATA_SIZE as usize,
            "expected a header of at most {MAX_HEAD_DATA_SIZE} bytes, found {}",
            encoded.len(),
        );
        check_place::<B>(blocks, index);
        parent_hash = header.hash();
    }
}

/// Checks that the digests of block `index` fit its place in the PoV.
fn check_place<B: Block>(blocks: &[B::LazyBlock], index: usize) {
    let info =
        |block: &B::LazyBlock| CumulusDigestItem::find_block_bundle_info(block.header().digest());
    let (block, count) = (&blocks[index], blocks.len());
    let is_bundle = info(&blocks[0]).is_some();
    let Some(info) = info(block) else {
        assert!(
            !is_bundle,
            "expected `BlockBundleInfo` in every block of the PoV, found none in block {index}"
        );
        assert!(
            index == 0,
            "expected one block in a PoV without `BlockBundleInfo`, found {count}"
        );
        return;
    };
    assert!(
        is_bundle,
        "expected one block in a PoV without `BlockBundleInfo`, found {count}"
    );
    assert!(
        usize::from(info.index) == index,
        "expected index {index} in `BlockBundleInfo`, found {}",
        info.index
    );
    let is_last = CumulusDigestItem::is_last_block_in_core(block.header().digest());
    if index + 1 < count {
        assert!(
            is_last != Some(true),
            "expected block {index}, the last of its core, to be the last of {count} blocks in the PoV"
        );
    } else {
        assert!(
            is_last != Some(false),
            "expected the last block of the PoV to be marked as the last of its core"
        );
    }
}
