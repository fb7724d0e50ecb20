//! A validator of the relay chain: runs a blob's `validate_block`.

use codec::DecodeAll;
use cpu_time::ThreadTime;
use polkadot_parachain_primitives::primitives::ValidationResult;
use povmeter_dev_runtime::wasm::{forget_logged_error, take_logged_error};
use sc_executor_common::{
    error::Error,
    runtime_blob::RuntimeBlob,
    wasm_runtime::{HeapAllocStrategy, WasmModule},
};
use sc_executor_wasmtime::{
    create_runtime, Config, DeterministicStackLimit, InstantiationStrategy, Semantics,
    WasmtimeRuntime,
};
use std::time::Duration;

/// Pages of wasm memory that a blob may have beyond its data; the sum of two constants of
/// `polkadot-node-core-pvf-common`.
const HEAP_PAGES: u32 = 32 + 2_048;
/// The stack of a blob: values of wasm, as in the same crate.
const STACK_VALUES: u32 = 65_536;
/// The stack of the compiled code, in bytes, as in the same crate.
const STACK_BYTES: u32 = 256 * 1024 * 1024;
/// Bytes of a page of wasm memory.
const PAGE: u32 = 65_536;

/// The functions that the relay chain's nodes give to blobs.
type HostFunctions = (
    sp_io::misc::HostFunctions,
    sp_io::crypto::HostFunctions,
    sp_io::hashing::HostFunctions,
    sp_io::allocator::HostFunctions,
    sp_io::logging::HostFunctions,
    sp_io::trie::HostFunctions,
);

/// A compiled blob.
pub struct Validator(WasmtimeRuntime);

/// The outcome of a validation.
#[derive(Debug)]
pub struct Validation {
    /// The result, encoded; the reason if the blob refused the PoV.
    pub result: Result<Vec<u8>, String>,
    /// Processor time of the call, the making of the instance included.
    pub time: Duration,
    /// The most pages of wasm memory that the blob had.
    pub pages: u32,
}

/// Why a blob was not compiled, or its result can't be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum ValidatorError {
    #[error("the blob was not compiled: {0}")]
    Blob(Error),
    #[error("the blob's result is none: {0}")]
    Result(codec::Error),
}

impl Validator {
    /// Compiles `blob` with the settings of the relay chain's nodes.
    ///
    /// # Errors
    /// [`ValidatorError::Blob`].
    pub fn new(blob: &[u8]) -> Result<Self, ValidatorError> {
        let config = Config {
            allow_missing_func_imports: true,
            cache_path: None,
            semantics: Semantics {
                instantiation_strategy: InstantiationStrategy::RecreateInstance,
                deterministic_stack_limit: Some(DeterministicStackLimit {
                    logical_max: STACK_VALUES,
                    native_stack_max: STACK_BYTES,
                }),
                canonicalize_nans: false,
                parallel_compilation: true,
                heap_alloc_strategy: HEAP,
                wasm_multi_value: false,
                wasm_bulk_memory: false,
                wasm_reference_types: false,
                wasm_simd: false,
            },
        };
        let blob = RuntimeBlob::uncompress_if_needed(blob);
        let blob = blob.map_err(|error| ValidatorError::Blob(error.into()))?;
        let runtime = create_runtime::<HostFunctions>(blob, config);
        let runtime = runtime.map_err(|error| ValidatorError::Blob(error.into()))?;
        Ok(Self(runtime))
    }

    /// Runs `validate_block` on `arguments`, in an instance of its own.
    ///
    /// # Errors
    /// [`ValidatorError::Blob`] if no instance can be made.
    pub fn validate(&self, arguments: &[u8]) -> Result<Validation, ValidatorError> {
        let start = ThreadTime::now();
        let instance = self.0.new_instance(HEAP);
        let mut instance = instance.map_err(ValidatorError::Blob)?;
        forget_logged_error();
        let (result, stats) = instance.call_with_allocation_stats("validate_block", arguments);
        let time = start.elapsed();
        Ok(Validation {
            // A blob logs why it panics; the error says only that it did.
            result: result
                .map_err(|error| take_logged_error().unwrap_or_else(|| error.to_string())),
            time,
            pages: stats.map_or(0, |stats| stats.address_space_used.div_ceil(PAGE)),
        })
    }
}

/// How far the memory of a blob may grow.
const HEAP: HeapAllocStrategy = HeapAllocStrategy::Dynamic {
    maximum_pages: Some(HEAP_PAGES),
};

impl Validation {
    /// The result of a PoV that was accepted; `None` if it was refused.
    ///
    /// # Errors
    /// [`ValidatorError::Result`] if it can't be decoded.
    pub fn decoded(&self) -> Result<Option<ValidationResult>, ValidatorError> {
        let result = self.result.as_ref().ok();
        let decoded = result.map(|result| ValidationResult::decode_all(&mut result.as_slice()));
        decoded.transpose().map_err(ValidatorError::Result)
    }
}
