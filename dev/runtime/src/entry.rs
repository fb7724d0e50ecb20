//! The entry points of the runtime, compiled natively or to wasm.

use crate::{runtime::Executive, runtime::Extrinsic, runtime::Header};
use sp_externalities::Extensions;
use sp_runtime::ApplyExtrinsicResult;

/// The runtime's entry points for a block author, called inside [`Host::execute`](crate::Host::execute).
pub trait EntryPoints {
    /// Initializes the block of `header`.
    ///
    /// # Errors
    /// [`RuntimeError`] if the call has no result.
    fn initialize_block(&self, header: &Header) -> Result<(), RuntimeError>;

    /// Applies `extrinsic` and returns the runtime's result.
    ///
    /// # Errors
    /// [`RuntimeError`] if the call has no result.
    fn apply_extrinsic(&self, extrinsic: Extrinsic) -> Result<ApplyExtrinsicResult, RuntimeError>;

    /// Finalizes the block and returns its header, with the state root that the host computed.
    ///
    /// # Errors
    /// [`RuntimeError`] if the call has no result.
    fn finalize_block(&self) -> Result<Header, RuntimeError>;

    /// Applies `extrinsic` as far as the externalities allow, for the answers that the host
    /// remembers.
    fn prepare_extrinsic(&self, extrinsic: Extrinsic) {
        let _ = self.apply_extrinsic(extrinsic);
    }

    /// Makes a memory of the signatures that the host checks. `None` if the host has none, or if checking
    /// ahead is not worth while because calls on other threads delay those on this one.
    fn signatures(&self) -> Option<Box<dyn RememberSignatures>> {
        None
    }
}

/// The signatures that a host has checked.
pub trait RememberSignatures: Sync {
    /// Registers this memory for the calls of one thread.
    fn register(&self, extensions: &mut Extensions);

    /// Returns the number of signatures checked, without the remembered ones.
    fn checked(&self) -> u64;
}

/// Why a call into a runtime has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a result of `{call}`, found: {reason}")]
pub struct RuntimeError {
    /// The call.
    pub call: String,
    /// Message of the runtime or its executor.
    pub reason: String,
}

/// The runtime compiled into this program. It panics in cases in which a runtime in wasm traps.
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
