//! A block author for a runtime in wasm.

use super::{applied::Applied, ChainError};
use crate::real_blocks::RealHeader;
use codec::Encode;
use povmeter_dev_runtime::{wasm::WasmRuntime, Built, Host, TransactionStep};

/// Why a block does not hold all of its extrinsics with calls that succeed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RefusedExtrinsic {
    /// There is no room for an extrinsic.
    #[error("expected a block with room for all {of} extrinsics, found it full at number {index}")]
    Full {
        /// Its index in the block.
        index: usize,
        /// Number of extrinsics, inherents included.
        of: usize,
    },
    /// The runtime refuses an extrinsic.
    #[error("expected extrinsic {index} to be applied, found it refused: {reason}")]
    Refused {
        /// Its index in the block.
        index: usize,
        /// The runtime's reason.
        reason: String,
    },
    /// The call of an extrinsic fails.
    #[error("expected the call of extrinsic {index} to succeed, found an error: {reason}")]
    CallFailed {
        /// Its index in the block.
        index: usize,
        /// The error of the call.
        reason: String,
    },
}

/// Builds the block of `header` and `body` on `host`; returns its final header and the built block.
///
/// # Errors
/// [`ChainError`] if the host or the runtime fails, an extrinsic is refused, or its call fails.
pub(super) fn author<H: Host>(
    mut host: H,
    runtime: &WasmRuntime,
    header: &RealHeader,
    body: &[Vec<u8>],
) -> Result<(RealHeader, Built), ChainError> {
    let header = header.encode();
    host.execute(|| runtime.call("Core_initialize_block", &header))??;
    for (index, extrinsic) in body.iter().enumerate() {
        host.transaction(TransactionStep::Start)?;
        let extrinsic = extrinsic.encode();
        let answer =
            host.execute(|| runtime.call("BlockBuilder_apply_extrinsic", &extrinsic))??;
        let refused = match Applied::decode(&answer) {
            Applied::Succeeded => None,
            Applied::CallFailed(reason) => Some(RefusedExtrinsic::CallFailed { index, reason }),
            Applied::Full => Some(RefusedExtrinsic::Full {
                index,
                of: body.len(),
            }),
            Applied::Refused(reason) => Some(RefusedExtrinsic::Refused { index, reason }),
        };
        if let Some(refused) = refused {
            return Err(refused.into());
        }
        host.transaction(TransactionStep::Commit)?;
    }
    let header = host.execute(|| runtime.call_for("BlockBuilder_finalize_block", &[]))??;
    Ok((header, host.finish()?.into()))
}
