//! The function that the host calls.
#![allow(unsafe_code)]

use crate::{
    block_data::Params,
    settings::{HashRule, SizeRule},
    state_hasher::StateHasher,
    validate::validate,
};
use alloc::boxed::Box;
use bytes::Bytes;
use codec::decode_from_bytes;
use cumulus_pallet_parachain_system::{Call, Config};
use frame_support::traits::{ExecuteBlock, IsSubType};
use sp_runtime::traits::{Block, ExtrinsicCall, HashingFor};

/// Decodes the arguments of the host, validates the PoV, and returns where the encoded result lies.
///
/// # Safety
/// `arguments` and `length` must be an allocation of the host that nothing else uses.
///
/// # Panics
/// If the arguments can't be decoded, or the PoV is not valid.
pub unsafe fn call<B, E, C, S, H>(arguments: *mut u8, length: usize) -> u64
where
    B: Block,
    HashingFor<B>: StateHasher,
    B::Extrinsic: ExtrinsicCall,
    <B::Extrinsic as ExtrinsicCall>::Call: IsSubType<Call<C>>,
    E: ExecuteBlock<B>,
    C: Config,
    S: SizeRule,
    H: HashRule,
{
    let arguments = core::ptr::slice_from_raw_parts_mut(arguments, length);
    // SAFETY: the caller hands over an allocation that nothing else uses, and the blob frees memory with the
    // allocator that the host allocates with.
    let arguments = Bytes::from(unsafe { Box::from_raw(arguments) });
    let params = decode_from_bytes::<Params>(arguments);
    let params = params.expect("the arguments of `validate_block` can't be decoded");
    let result = validate::<B, E, C, S, H>(params);
    polkadot_parachain_primitives::write_result(&result)
}
