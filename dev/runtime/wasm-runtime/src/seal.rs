//! Blocks with a seal, as a parachain's consensus has them.

use crate::runtime::{Block, Executive};
use codec::Encode;
use frame_support::{storage::unhashed, traits::ExecuteBlock};
use sp_runtime::{traits::Block as BlockT, traits::LazyBlock, ConsensusEngineId, DigestItem};

/// The id of digest items that are seals.
const ENGINE: ConsensusEngineId = *b"SEAL";
/// The key of the state whose value seals blocks: checking a seal reads the parent state, as checking
/// the signature of an author does.
const SEALER: &[u8] = b":sealer";
/// A key that the check of a seal writes. The change is not part of any block.
const SEALED: &[u8] = b":sealed";

/// Executes blocks. A block may have a seal, which is the hash of its unsealed header and the sealer.
pub struct BlockExecutor;

impl ExecuteBlock<Block> for BlockExecutor {
    fn verify_and_remove_seal(block: &mut <Block as BlockT>::LazyBlock) {
        let digest = &mut block.header_mut().digest;
        let Some(DigestItem::Seal(ENGINE, seal)) = digest.logs.last().cloned() else {
            return;
        };
        digest.logs.pop();
        let sealer = unhashed::get_raw(SEALER).unwrap_or_default();
        let expected = sp_io::hashing::blake2_256(&(block.header(), sealer).encode());
        unhashed::put_raw(SEALED, &seal);
        assert_eq!(seal, expected, "the seal of the block is invalid");
    }

    fn execute_verified_block(block: <Block as BlockT>::LazyBlock) {
        Executive::execute_verified_block(block);
    }
}
