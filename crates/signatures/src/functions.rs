//! The host functions.
//!
//! The macro makes one host function from each method, `ext_crypto_<method>_version_<version>`.

use crate::cache::{Answer, Function, Question, SignatureCache, SignatureCacheExt};
use sp_core::{ecdsa, ed25519, sr25519};
use sp_externalities::{with_externalities, ExternalitiesExt};
use sp_io::{crypto as stock, EcdsaVerifyError, UseDalekExt};
use sp_runtime_interface::{
    pass_by::{AllocateAndReturnByCodec, PassFatPointerAndRead, PassPointerAndRead},
    runtime_interface,
};
use sp_wasm_interface::{
    wasmtime::{Caller, IntoFunc},
    Function as WasmFunction, FunctionContext, HostFunctionRegistry,
};
use std::sync::Arc;

/// The host functions by which a runtime checks signatures: of each function the version that runtimes have imported
/// for years. Older versions, which only the first blocks of old chains need, remain Substrate's.
#[derive(Clone, Copy, Debug)]
pub struct HostFunctions;

/// Methods of [`Crypto`] that exist because the macro requires all versions of a function.
const OLD: [&str; 4] = [
    "ext_crypto_sr25519_verify_version_1",
    "ext_crypto_ecdsa_verify_version_1",
    "ext_crypto_secp256k1_ecdsa_recover_version_1",
    "ext_crypto_secp256k1_ecdsa_recover_compressed_version_1",
];

impl sp_wasm_interface::HostFunctions for HostFunctions {
    fn host_functions() -> Vec<&'static dyn WasmFunction> {
        let mut functions = crypto::HostFunctions::host_functions();
        functions.retain(|function| !OLD.contains(&function.name()));
        functions
    }

    fn register_static<T: HostFunctionRegistry>(registry: &mut T) -> Result<(), T::Error> {
        crypto::HostFunctions::register_static(&mut WithoutOld(registry))
    }
}

struct WithoutOld<'r, T>(&'r mut T);

impl<T: HostFunctionRegistry> HostFunctionRegistry for WithoutOld<'_, T> {
    type State = T::State;
    type Error = T::Error;
    type FunctionContext = T::FunctionContext;

    fn with_function_context<R>(
        caller: Caller<'_, T::State>,
        callback: impl FnOnce(&mut dyn FunctionContext) -> R,
    ) -> R {
        T::with_function_context(caller, callback)
    }

    fn register_static<Params, Results>(
        &mut self,
        name: &str,
        function: impl IntoFunc<T::State, Params, Results> + 'static,
    ) -> Result<(), T::Error> {
        match OLD.contains(&name) {
            true => Ok(()),
            false => self.0.register_static(name, function),
        }
    }
}

/// The cache of the call in progress.
fn cache() -> Option<Arc<SignatureCache>> {
    with_externalities(|mut ext| Some(ext.extension::<SignatureCacheExt>()?.0.clone())).flatten()
}

fn verify(function: Function, parts: [&[u8]; 3], check: impl FnOnce() -> bool) -> bool {
    let Some(cache) = cache() else {
        return check();
    };
    let question = Question::new(function, parts);
    if let Some(Answer::Valid(valid)) = cache.find(&question) {
        return valid;
    }
    let valid = check();
    cache.keep(question, Answer::Valid(valid));
    valid
}

/// A key that a signature was made with.
trait SignersKey: Sized {
    fn remember(&self) -> Answer;

    fn remembered(answer: Answer) -> Option<Self>;
}

impl SignersKey for [u8; 64] {
    fn remember(&self) -> Answer {
        Answer::Key(*self)
    }

    fn remembered(answer: Answer) -> Option<Self> {
        match answer {
            Answer::Key(key) => Some(key),
            Answer::Valid(_) | Answer::CompressedKey(_) => None,
        }
    }
}

impl SignersKey for [u8; 33] {
    fn remember(&self) -> Answer {
        Answer::CompressedKey(*self)
    }

    fn remembered(answer: Answer) -> Option<Self> {
        match answer {
            Answer::CompressedKey(key) => Some(key),
            Answer::Valid(_) | Answer::Key(_) => None,
        }
    }
}

fn recover<K: SignersKey>(
    function: Function,
    (signature, message): (&[u8; 65], &[u8; 32]),
    check: impl FnOnce() -> Result<K, EcdsaVerifyError>,
) -> Result<K, EcdsaVerifyError> {
    let Some(cache) = cache() else {
        return check();
    };
    let question = Question::new(function, [signature, message, &[]]);
    if let Some(key) = cache.find(&question).and_then(K::remembered) {
        return Ok(key);
    }
    let key = check()?;
    cache.keep(question, key.remember());
    Ok(key)
}

/// Checks of signatures, with the results of `sp_io::crypto`.
#[runtime_interface]
pub trait Crypto {
    /// Never registered: see [`OLD`].
    #[version(1, register_only)]
    fn sr25519_verify(
        sig: PassPointerAndRead<&sr25519::Signature, 64>,
        msg: PassFatPointerAndRead<&[u8]>,
        pub_key: PassPointerAndRead<&sr25519::Public, 32>,
    ) -> bool {
        sr25519_verify(sig, msg, pub_key)
    }

    /// Whether an `sr25519` signature is valid.
    #[version(2)]
    fn sr25519_verify(
        sig: PassPointerAndRead<&sr25519::Signature, 64>,
        msg: PassFatPointerAndRead<&[u8]>,
        pub_key: PassPointerAndRead<&sr25519::Public, 32>,
    ) -> bool {
        let parts = [&sig.0[..], &pub_key.0, msg];
        verify(Function::Sr25519, parts, || {
            stock::sr25519_verify(sig, msg, pub_key)
        })
    }

    /// Whether an `ed25519` signature is valid.
    fn ed25519_verify(
        sig: PassPointerAndRead<&ed25519::Signature, 64>,
        msg: PassFatPointerAndRead<&[u8]>,
        pub_key: PassPointerAndRead<&ed25519::Public, 32>,
    ) -> bool {
        let dalek = with_externalities(|mut ext| ext.extension::<UseDalekExt>().is_some());
        let function = match dalek {
            Some(true) => Function::Ed25519Dalek,
            _ => Function::Ed25519,
        };
        let parts = [&sig.0[..], &pub_key.0, msg];
        verify(function, parts, || stock::ed25519_verify(sig, msg, pub_key))
    }

    /// Never registered: see [`OLD`].
    #[version(1, register_only)]
    fn ecdsa_verify(
        sig: PassPointerAndRead<&ecdsa::Signature, 65>,
        msg: PassFatPointerAndRead<&[u8]>,
        pub_key: PassPointerAndRead<&ecdsa::Public, 33>,
    ) -> bool {
        ecdsa_verify(sig, msg, pub_key)
    }

    /// Whether an `ecdsa` signature is valid.
    #[version(2)]
    fn ecdsa_verify(
        sig: PassPointerAndRead<&ecdsa::Signature, 65>,
        msg: PassFatPointerAndRead<&[u8]>,
        pub_key: PassPointerAndRead<&ecdsa::Public, 33>,
    ) -> bool {
        let parts = [&sig.0[..], &pub_key.0, msg];
        verify(Function::Ecdsa, parts, || {
            stock::ecdsa_verify(sig, msg, pub_key)
        })
    }

    /// Whether an `ecdsa` signature of a hash is valid.
    fn ecdsa_verify_prehashed(
        sig: PassPointerAndRead<&ecdsa::Signature, 65>,
        msg: PassPointerAndRead<&[u8; 32], 32>,
        pub_key: PassPointerAndRead<&ecdsa::Public, 33>,
    ) -> bool {
        let parts = [&sig.0[..], &pub_key.0, msg];
        verify(Function::EcdsaPrehashed, parts, || {
            stock::ecdsa_verify_prehashed(sig, msg, pub_key)
        })
    }

    /// Never registered: see [`OLD`].
    #[version(1, register_only)]
    fn secp256k1_ecdsa_recover(
        sig: PassPointerAndRead<&[u8; 65], 65>,
        msg: PassPointerAndRead<&[u8; 32], 32>,
    ) -> AllocateAndReturnByCodec<Result<[u8; 64], EcdsaVerifyError>> {
        secp256k1_ecdsa_recover(sig, msg)
    }

    /// The public key of an `ecdsa` signature of a hash.
    #[version(2)]
    fn secp256k1_ecdsa_recover(
        sig: PassPointerAndRead<&[u8; 65], 65>,
        msg: PassPointerAndRead<&[u8; 32], 32>,
    ) -> AllocateAndReturnByCodec<Result<[u8; 64], EcdsaVerifyError>> {
        recover(Function::Recover, (sig, msg), || {
            stock::secp256k1_ecdsa_recover(sig, msg)
        })
    }

    /// Never registered: see [`OLD`].
    #[version(1, register_only)]
    fn secp256k1_ecdsa_recover_compressed(
        sig: PassPointerAndRead<&[u8; 65], 65>,
        msg: PassPointerAndRead<&[u8; 32], 32>,
    ) -> AllocateAndReturnByCodec<Result<[u8; 33], EcdsaVerifyError>> {
        secp256k1_ecdsa_recover_compressed(sig, msg)
    }

    /// As `secp256k1_ecdsa_recover`, with a compressed key.
    #[version(2)]
    fn secp256k1_ecdsa_recover_compressed(
        sig: PassPointerAndRead<&[u8; 65], 65>,
        msg: PassPointerAndRead<&[u8; 32], 32>,
    ) -> AllocateAndReturnByCodec<Result<[u8; 33], EcdsaVerifyError>> {
        recover(Function::RecoverCompressed, (sig, msg), || {
            stock::secp256k1_ecdsa_recover_compressed(sig, msg)
        })
    }
}
