//! The entry points of the runtime, compiled natively or to wasm.

use crate::{runtime::Executive, runtime::Extrinsic, runtime::Header};
use sp_runtime::ApplyExtrinsicResult;

/// What a block author calls in the runtime. Called inside of [`Host::execute`](crate::Host::execute).
pub trait EntryPoints {
    /// Begins the block of `header`.
    ///
    /// # Errors
    /// [`RuntimeError`] if the call has no result.
    fn initialize_block(&self, header: &Header) -> Result<(), RuntimeError>;

    /// Applies `extrinsic`; what comes of it is the runtime's to say.
    ///
    /// # Errors
    /// [`RuntimeError`] if the call has no result.
    fn apply_extrinsic(&self, extrinsic: Extrinsic) -> Result<ApplyExtrinsicResult, RuntimeError>;

    /// Ends the block: its header, with the state root that the host computed.
    ///
    /// # Errors
    /// [`RuntimeError`] if the call has no result.
    fn finalize_block(&self) -> Result<Header, RuntimeError>;
}

/// A call into a runtime that has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a result of `{call}`, found: {reason}")]
pub struct RuntimeError {
    /// The call.
    pub call: String,
    /// What the runtime or its executor said.
    pub reason: String,
}

/// The runtime compiled into this program. It panics where one in wasm traps.
#[derive(Clone, Copy, Debug, Default)]
pub struct Native;

impl EntryPoints for Native {
    fn initialize_block(&self, header: &Header) -> Result<(), RuntimeError> {
        Executive::initialize_block(header);
        Ok(())
    }

    fn apply_extrinsic(&self, extrinsic: Extrinsic) -> Result<ApplyExtrinsicResult, RuntimeError> {
        Ok(Executive::apply_extrinsic(extrinsic))
    }

    fn finalize_block(&self) -> Result<Header, RuntimeError> {
        Ok(Executive::finalize_block())
    }
}
