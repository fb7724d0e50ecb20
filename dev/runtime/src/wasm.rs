//! A runtime in wasm.

use crate::{entry::EntryPoints, entry::RuntimeError, runtime::Extrinsic, runtime::Header};
use codec::{DecodeAll, Encode};
use sc_executor::WasmExecutor;
use sp_core::{
    traits::{CallContext, CodeExecutor, RuntimeCode, WrappedRuntimeCode},
    Blake2Hasher, Hasher,
};
use sp_externalities::with_externalities;
use sp_runtime::{ApplyExtrinsicResult, ExtrinsicInclusionMode};
use sp_state_machine::BasicExternalities;
use std::{borrow::Cow, sync::LazyLock};

/// What runtimes can import: all that Substrate offers, and either version of the proof size.
pub type HostFunctions = (
    sp_io::SubstrateHostFunctions,
    povmeter_proof_size::storage_proof_size::HostFunctions,
);

/// The [`runtime`](crate::runtime), made by the build script.
const WORKLOAD: &[u8] = include_bytes!(env!("POVMETER_WORKLOAD_WASM"));

/// Calls are those of a block, which get the heap that a block gets.
const CALL: CallContext = CallContext::Onchain { import: true };

/// The executor of all runtimes, with those that it compiled last.
static EXECUTOR: LazyLock<WasmExecutor<HostFunctions>> = LazyLock::new(|| {
    let executor = WasmExecutor::builder().with_allow_missing_host_functions(true);
    executor.build()
});

/// A runtime in wasm, compiled at its first call; the last few stay compiled.
#[derive(Clone)]
pub struct WasmRuntime {
    code: Vec<u8>,
    hash: Vec<u8>,
    heap_pages: Option<u64>,
}

impl WasmRuntime {
    /// The runtime that `code` is, as it lies in a state, packed or not. `heap_pages` is what the
    /// state says under `:heappages`.
    ///
    /// Host functions that no longer exist are there, and fail when they are called: runtimes of
    /// years ago import some.
    pub fn new(code: Vec<u8>, heap_pages: Option<u64>) -> Self {
        Self {
            hash: Blake2Hasher::hash(&code).as_bytes().to_vec(),
            code,
            heap_pages,
        }
    }

    /// Whether `other` is the same runtime.
    pub fn is(&self, other: &Self) -> bool {
        self.hash == other.hash
    }

    /// The runtime of [`crate::runtime`], in state version 1.
    pub fn workload() -> Self {
        Self::new(Self::workload_code().to_vec(), None)
    }

    /// The code of [`Self::workload`].
    pub fn workload_code() -> &'static [u8] {
        WORKLOAD
    }

    /// Compiles the runtime, which the first call would do otherwise: some tenths of a second.
    ///
    /// # Errors
    /// [`RuntimeError`] if the code is no runtime.
    pub fn prepare(&self) -> Result<(), RuntimeError> {
        let version = || self.call("Core_version", &[]).map(drop);
        BasicExternalities::default().execute_with(version)
    }

    /// What `call` answers to `data`, run on the externalities of the thread.
    ///
    /// # Errors
    /// [`RuntimeError`] if there are none, the code is no runtime, or the call traps.
    pub fn call(&self, call: &str, data: &[u8]) -> Result<Vec<u8>, RuntimeError> {
        let failed = |reason: String| RuntimeError {
            call: call.to_owned(),
            reason,
        };
        let code = WrappedRuntimeCode(Cow::Borrowed(&self.code));
        let code = RuntimeCode {
            code_fetcher: &code,
            heap_pages: self.heap_pages,
            hash: self.hash.clone(),
        };
        let result = with_externalities(|ext| EXECUTOR.call(ext, &code, call, data, CALL).0);
        let result = result.ok_or_else(|| failed("no externalities".to_owned()))?;
        result.map_err(|error| failed(error.to_string()))
    }

    /// As [`Self::call`], with the answer decoded.
    ///
    /// # Errors
    /// As [`Self::call`], and if the answer is something else.
    pub fn call_for<R: DecodeAll>(&self, call: &str, data: &[u8]) -> Result<R, RuntimeError> {
        let answer = self.call(call, data)?;
        R::decode_all(&mut answer.as_slice()).map_err(|error| RuntimeError {
            call: call.to_owned(),
            reason: format!("an answer that can't be decoded: {error}"),
        })
    }
}

impl EntryPoints for WasmRuntime {
    fn initialize_block(&self, header: &Header) -> Result<(), RuntimeError> {
        self.call_for::<ExtrinsicInclusionMode>("Core_initialize_block", &header.encode())
            .map(drop)
    }

    fn apply_extrinsic(&self, extrinsic: Extrinsic) -> Result<ApplyExtrinsicResult, RuntimeError> {
        self.call_for("BlockBuilder_apply_extrinsic", &extrinsic.encode())
    }

    fn finalize_block(&self) -> Result<Header, RuntimeError> {
        self.call_for("BlockBuilder_finalize_block", &[])
    }
}
