//! An extension that asks for the proof size before and after each extrinsic.

use crate::RuntimeCall;
use codec::{Decode, DecodeWithMemTracking, Encode};
use cumulus_primitives_proof_size_hostfunction::storage_proof_size::storage_proof_size;
use frame_support::weights::Weight;
use scale_info::TypeInfo;
use sp_runtime::{
    impl_tx_ext_default,
    traits::{DispatchInfoOf, DispatchOriginOf, PostDispatchInfoOf, TransactionExtension},
    transaction_validity::TransactionValidityError,
    DispatchResult,
};

/// Asks as often as the runtimes of parachains do, which refund the weight that an extrinsic did not use.
/// The answers change nothing, so a block depends only on the size at its end. Adds no bytes to an
/// extrinsic.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode, DecodeWithMemTracking, TypeInfo,
)]
pub struct AskProofSize;

impl TransactionExtension<RuntimeCall> for AskProofSize {
    const IDENTIFIER: &'static str = "AskProofSize";
    type Implicit = ();
    type Val = ();
    /// The size before the extrinsic.
    type Pre = u64;

    fn prepare(
        self,
        (): (),
        _: &DispatchOriginOf<RuntimeCall>,
        _: &RuntimeCall,
        _: &DispatchInfoOf<RuntimeCall>,
        _: usize,
    ) -> Result<u64, TransactionValidityError> {
        Ok(storage_proof_size())
    }

    fn post_dispatch_details(
        before: u64,
        _: &DispatchInfoOf<RuntimeCall>,
        _: &PostDispatchInfoOf<RuntimeCall>,
        _: usize,
        _: &DispatchResult,
    ) -> Result<Weight, TransactionValidityError> {
        let after = storage_proof_size();
        debug_assert!(before <= after, "expected a size that grows");
        Ok(Weight::zero())
    }

    impl_tx_ext_default!(RuntimeCall; weight validate);
}
