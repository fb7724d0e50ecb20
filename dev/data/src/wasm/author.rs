//! A block author for a runtime in wasm.

use super::ChainError;
use crate::real_blocks::RealHeader;
use codec::Encode;
use povmeter_dev_runtime::{wasm::WasmRuntime, Built, Host, TransactionStep};

/// An extrinsic for a block was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected extrinsic {index} to be applied, found it refused: 0x{}", hex::encode(.answer))]
pub struct RefusedExtrinsic {
    /// Its index in the block.
    pub index: usize,
    /// The runtime's encoded result.
    pub answer: Vec<u8>,
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
        // `Ok(Ok(()))`: accepted, and the call succeeded.
        if answer != [0, 0] {
            return Err(RefusedExtrinsic { index, answer }.into());
        }
        host.transaction(TransactionStep::Commit)?;
    }
    let header = host.execute(|| runtime.call_for("BlockBuilder_finalize_block", &[]))??;
    Ok((header, host.finish()?.into()))
}
