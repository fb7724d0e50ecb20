//! A runtime in wasm.

mod host_context;
mod kept;
mod logged;
#[cfg(target_os = "linux")]
mod written_pages;
#[cfg(not(target_os = "linux"))]
#[path = "wasm/unknown_pages.rs"]
mod written_pages;

use crate::{
    entry::EntryPoints, entry::RememberSignatures, entry::RuntimeError, runtime::Extrinsic,
    runtime::Header,
};
use codec::{DecodeAll, Encode};
use kept::Kept;
pub use logged::{forget_logged_error, take_logged_error};
use povmeter_signatures::{SignatureCache, SignatureCacheExt};
use sc_executor::{WasmExecutor, DEFAULT_HEAP_ALLOC_PAGES};
use sp_core::{
    traits::{CallContext, CodeExecutor, ReadRuntimeVersionExt, RuntimeCode, WrappedRuntimeCode},
    Blake2Hasher, Hasher,
};
use sp_externalities::{with_externalities, Extensions, ExternalitiesExt};
use sp_runtime::{ApplyExtrinsicResult, ExtrinsicInclusionMode};
use sp_state_machine::BasicExternalities;
use sp_wasm_interface::ExtendedHostFunctions;
use std::{
    borrow::Cow,
    sync::{Arc, LazyLock},
};

/// The host functions that runtimes can import: Substrate's, with a memory of checked signatures if the
/// externalities hold one, and both versions of the proof size.
pub type HostFunctions = (
    ExtendedHostFunctions<sp_io::SubstrateHostFunctions, povmeter_signatures::HostFunctions>,
    povmeter_proof_size::storage_proof_size::HostFunctions,
);

/// The [`runtime`](crate::runtime) in wasm, compiled by the build script.
const WORKLOAD: &[u8] = include_bytes!(env!("POVMETER_WORKLOAD_WASM"));

/// The [`runtime`](crate::runtime) as a parachain, in wasm: with a `validate_block`, which the relay
/// chain's validators call.
pub mod parachain {
    /// With the `validate_block` of `cumulus-pallet-parachain-system`.
    pub const STOCK: &[u8] = include_bytes!(env!("POVMETER_STOCK_BLOB"));
    /// With the `validate_block` of povmeter, and the proof sizes of stock nodes.
    pub const READS: &[u8] = include_bytes!(env!("POVMETER_READS_BLOB"));
    /// With the `validate_block` of povmeter, and proof sizes that include what the root needs.
    pub const ESTIMATE: &[u8] = include_bytes!(env!("POVMETER_ESTIMATE_BLOB"));
    /// As [`STOCK`], for a parachain that chooses its cores itself: candidates of the third
    /// version.
    pub const STOCK_SCHEDULING: &[u8] = include_bytes!(env!("POVMETER_STOCK_SCHEDULING_BLOB"));
    /// As [`READS`], for a parachain that chooses its cores itself.
    pub const READS_SCHEDULING: &[u8] = include_bytes!(env!("POVMETER_READS_SCHEDULING_BLOB"));
}

/// The context of all calls: the import of a block, which also sets the size of the heap.
const CALL: CallContext = CallContext::Onchain { import: true };

/// The executor of all runtimes; it keeps the last few compiled ones.
static EXECUTOR: LazyLock<WasmExecutor<HostFunctions>> = LazyLock::new(|| {
    let executor = WasmExecutor::builder().with_allow_missing_host_functions(true);
    executor.with_max_runtime_instances(INSTANCES).build()
});

/// Returns the result of `call`, in which the runtime can ask for the version of other code, as a runtime
/// does before an upgrade. Needs externalities of the thread.
pub fn reading_versions<R>(call: impl FnOnce() -> R) -> R {
    // Fails if an earlier call of the block registered it.
    let _ = with_externalities(|mut ext| {
        ext.register_extension(ReadRuntimeVersionExt::new(EXECUTOR.clone()))
    });
    call()
}

/// What separates the message of a trap from its backtrace, in errors of the executor.
const BACKTRACE: &str = "\nWASM backtrace:";

/// Adds the last error that the runtime logged to the reason why its call failed. A panic is the last one.
fn with_logged_error(reason: String) -> String {
    let Some(logged) = take_logged_error() else {
        return reason;
    };
    let (trap, backtrace) = reason.split_at(reason.find(BACKTRACE).unwrap_or(reason.len()));
    format!("{trap}, after the runtime logged: {logged}{backtrace}")
}

/// The number of idle instances kept for each runtime: this many threads can call it without making
/// new ones.
const INSTANCES: usize = 8;

/// Bytes of a page of wasm.
const PAGE: usize = 65_536;

/// A runtime in wasm, compiled at its first call. The last few runtimes stay compiled.
#[derive(Clone)]
pub struct WasmRuntime {
    code: Vec<u8>,
    hash: Vec<u8>,
    heap_pages: Option<u64>,
    kept: Option<Arc<Kept>>,
    /// Whether the kept instances serve preparations alone.
    kept_to_prepare: bool,
}

impl WasmRuntime {
    /// Makes a runtime of `code`, the value of `:code` in a state, compressed or not. `heap_pages` is
    /// the value of `:heappages`.
    ///
    /// Old runtimes import host functions that no longer exist; such a function fails only when it is
    /// called.
    pub fn new(code: Vec<u8>, heap_pages: Option<u64>) -> Self {
        Self {
            hash: Blake2Hasher::hash(&code).as_bytes().to_vec(),
            code,
            heap_pages,
            kept: None,
            kept_to_prepare: false,
        }
    }

    /// Returns a runtime of `code` in the same state: with the same heap pages.
    #[must_use]
    pub fn with_code(&self, code: Vec<u8>) -> Self {
        Self::new(code, self.heap_pages)
    }

    /// Returns this runtime, compiled anew, with instances that are kept from call to call.
    ///
    /// The executor of nodes makes an instance for each call and removes it. This changes the memory map of
    /// the process twice and costs a page fault for each page that the call touches. With several threads
    /// each change of the map waits for the others. Kept instances are restored by copies in memory instead.
    /// Results are the same.
    ///
    /// Needs Linux 6.7; on other systems an instance is made for each call here, too.
    ///
    /// # Errors
    /// [`RuntimeError`] if the code is not a runtime.
    pub fn keeping_instances(self) -> Result<Self, RuntimeError> {
        let pages = self.heap_pages.map_or(DEFAULT_HEAP_ALLOC_PAGES, |pages| {
            u32::try_from(pages).unwrap_or(u32::MAX)
        });
        // The executor doubles the heap for the import of a block, which is the context `CALL`.
        let kept = Kept::new(&self.code, pages.saturating_mul(2));
        let kept = kept.map_err(|error| RuntimeError {
            call: "compile".to_owned(),
            reason: error.to_string(),
        })?;
        Ok(Self {
            kept: Some(Arc::new(kept)),
            kept_to_prepare: false,
            ..self
        })
    }

    /// Returns this runtime, compiled once more, with instances that are kept for
    /// [preparations](EntryPoints::prepare_extrinsic) alone. These run on other threads, where kept instances
    /// do not delay the calls of the block by changes of the memory map. The only results used are the
    /// answers that host functions remember.
    ///
    /// # Errors
    /// [`RuntimeError`] if the code is not a runtime.
    pub fn preparing_in_kept_instances(self) -> Result<Self, RuntimeError> {
        Ok(Self {
            kept_to_prepare: true,
            ..self.keeping_instances()?
        })
    }

    /// Returns whether `other` has the same code.
    pub fn is(&self, other: &Self) -> bool {
        self.hash == other.hash
    }

    /// Returns the runtime of [`crate::runtime`], with state version 1.
    pub fn workload() -> Self {
        Self::new(Self::workload_code().to_vec(), None)
    }

    /// Returns the code of [`Self::workload`].
    pub fn workload_code() -> &'static [u8] {
        WORKLOAD
    }

    /// Compiles the runtime before its first call, which takes some tenths of a second.
    ///
    /// # Errors
    /// [`RuntimeError`] if the code is not a runtime.
    pub fn prepare(&self) -> Result<(), RuntimeError> {
        let version = || self.call("Core_version", &[]).map(drop);
        BasicExternalities::default().execute_with(version)
    }

    /// Returns the result of `call` with the argument `data`, run on the externalities of the thread.
    ///
    /// # Errors
    /// [`RuntimeError`] if there are no externalities, the code is not a runtime, or the call traps.
    pub fn call(&self, call: &str, data: &[u8]) -> Result<Vec<u8>, RuntimeError> {
        let failed = |reason: String| RuntimeError {
            call: call.to_owned(),
            reason: with_logged_error(reason),
        };
        forget_logged_error();
        if let Some(kept) = self.kept.as_ref().filter(|_| !self.kept_to_prepare) {
            let result = with_externalities(|externalities| kept.call(externalities, call, data));
            let result = result.ok_or_else(|| failed("no externalities".to_owned()))?;
            return result.map_err(|error| failed(error.to_string()));
        }
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

    /// Begins `call` for the answers that the host remembers. The externalities end the call at
    /// some point.
    fn begin(&self, call: &str, data: &[u8]) {
        match &self.kept {
            // Ignores the result: it is of no use, and usually an error.
            Some(kept) => _ = with_externalities(|ext| kept.begin(ext, call, data).map(drop)),
            None => _ = self.call(call, data),
        }
    }

    /// As [`Self::call`], but decodes the result.
    ///
    /// # Errors
    /// Those of [`Self::call`], and [`RuntimeError`] if the result does not decode.
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

    fn prepare_extrinsic(&self, extrinsic: Extrinsic) {
        self.begin("BlockBuilder_apply_extrinsic", &extrinsic.encode());
    }

    fn signatures(&self) -> Option<Box<dyn RememberSignatures>> {
        self.kept.as_ref()?;
        Some(Box::new(Arc::new(SignatureCache::default())))
    }
}

impl RememberSignatures for Arc<SignatureCache> {
    fn register(&self, extensions: &mut Extensions) {
        extensions.register(SignatureCacheExt::new(self.clone()));
    }

    fn checked(&self) -> u64 {
        self.as_ref().checked()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use sp_core::{sr25519, Pair};

    /// Returns whether the signature is valid. The argument holds the signature, the key and the
    /// message.
    const VERIFY: &str = r#"(module
        (import "env" "memory" (memory 18))
        (import "env" "ext_crypto_sr25519_verify_version_2"
            (func $verify (param i32 i64 i32) (result i32)))
        (global (export "__heap_base") i32 (i32.const 1114112))
        (func (export "verify") (param $at i32) (param $len i32) (result i64)
            (i32.store8 (local.get $at) (call $verify
                (local.get $at)
                (i64.or
                    (i64.extend_i32_u (i32.add (local.get $at) (i32.const 96)))
                    (i64.shl
                        (i64.extend_i32_u (i32.sub (local.get $len) (i32.const 96)))
                        (i64.const 32)))
                (i32.add (local.get $at) (i32.const 64))))
            (i64.or (i64.extend_i32_u (local.get $at)) (i64.const 0x100000000)))
    )"#;

    /// Logs an error with the target of its argument, as a panic does, and traps.
    const PANIC: &str = r#"(module
        (import "env" "memory" (memory 18))
        (import "env" "ext_logging_log_version_1" (func $log (param i32 i64 i64)))
        (global (export "__heap_base") i32 (i32.const 1114112))
        (data (i32.const 0) "panicked at lib.rs")
        (func (export "panic") (param $at i32) (param $len i32) (result i64)
            (call $log
                (i32.const 0)
                (i64.or
                    (i64.extend_i32_u (local.get $at))
                    (i64.shl (i64.extend_i32_u (local.get $len)) (i64.const 32)))
                (i64.const 0x1200000000))
            unreachable))"#;

    #[test]
    fn the_error_of_a_panic_says_why() {
        let new = WasmRuntime::new(wat::parse_str(PANIC).unwrap(), None);
        let kept = new.clone().keeping_instances().unwrap();
        for runtime in [new, kept] {
            let call = |target: &[u8]| {
                let mut ext = BasicExternalities::default();
                let called = ext.execute_with(|| runtime.call("panic", target));
                called.unwrap_err().to_string()
            };
            let said = call(b"runtime");
            let (message, _) = said.split_once(BACKTRACE).unwrap_or((&said, ""));
            let reason = ", after the runtime logged: panicked at lib.rs";
            assert!(message.contains("unreachable"), "{said}");
            assert!(message.ends_with(reason), "{said}");
            // The message of another call is not taken for the reason.
            let other = call(b"other");
            assert!(!other.contains("panicked"), "{other}");
        }
    }

    #[test]
    fn a_signature_is_checked_once() {
        let new = WasmRuntime::new(wat::parse_str(VERIFY).unwrap(), None);
        let kept = new.clone().keeping_instances().unwrap();
        let pair = sr25519::Pair::from_seed(&[7; 32]);
        let argument = [&pair.sign(b"message").0[..], &pair.public().0, b"message"].concat();
        let mut forged = argument.clone();
        forged[100] ^= 1;
        for runtime in [&new, &kept] {
            let cache = Arc::new(SignatureCache::default());
            let call = |argument: &[u8], remembers: bool| {
                let mut ext = BasicExternalities::default();
                if remembers {
                    cache.register(ext.extensions());
                }
                ext.execute_with(|| runtime.call("verify", argument).unwrap())
            };
            for _ in 0..3 {
                for remembers in [true, false] {
                    assert_eq!(call(&argument, remembers), [1]);
                    assert_eq!(call(&forged, remembers), [0]);
                }
            }
            assert_eq!((cache.as_ref().checked(), cache.remembered()), (2, 4));
        }
    }
}
