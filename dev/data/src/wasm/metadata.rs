//! The metadata of a runtime, decoded for transfers and for names of storage items.

use super::{old_metadata, ChainError};
use codec::{Compact, Decode, Encode};
use frame_metadata::{v14::RuntimeMetadataV14, RuntimeMetadata, RuntimeMetadataPrefixed};
use povmeter_attribution::StorageName;
use povmeter_dev_runtime::wasm::WasmRuntime;
use povmeter_dev_runtime::RuntimeError;
use scale_info::TypeDef;
use sp_core::H256;
use sp_state_machine::BasicExternalities;
use sp_version::RuntimeVersion;

/// The indices of pallets and calls, and the extensions of a signed extrinsic.
pub(super) struct Metadata(RuntimeMetadataV14);

impl Metadata {
    /// Decodes the result of `Metadata_metadata`.
    pub(super) fn decode(mut answer: &[u8]) -> Result<Self, ChainError> {
        let unreadable = |error: codec::Error| ChainError::Metadata(error.to_string());
        // The answer is SCALE bytes, which hold the encoded metadata.
        let mut bytes = Vec::<u8>::decode(&mut answer).map_err(unreadable)?;
        let prefixed = RuntimeMetadataPrefixed::decode(&mut bytes.as_slice());
        bytes.clear();
        match prefixed.map_err(unreadable)?.1 {
            RuntimeMetadata::V14(metadata) => Ok(Self(metadata)),
            other => Err(ChainError::Metadata(format!("version {}", other.version()))),
        }
    }

    /// Returns the first bytes of a call: index of the pallet, index of the call.
    pub(super) fn call(&self, pallet: &str, call: &str) -> Result<[u8; 2], ChainError> {
        let missing = || ChainError::Missing(format!("the call {pallet}.{call}"));
        let mut pallets = self.0.pallets.iter();
        let found = pallets.find(|found| found.name == pallet);
        let found = found.ok_or_else(missing)?;
        let calls = found.calls.as_ref().ok_or_else(missing)?;
        let calls = self.0.types.resolve(calls.ty.id).ok_or_else(missing)?;
        let TypeDef::Variant(calls) = &calls.type_def else {
            return Err(missing());
        };
        let call = calls.variants.iter().find(|found| found.name == call);
        Ok([found.index, call.ok_or_else(missing)?.index])
    }

    /// Returns whether the runtime has this pallet.
    pub(super) fn has(&self, pallet: &str) -> bool {
        self.0.pallets.iter().any(|found| found.name == pallet)
    }

    /// Returns the encoded extensions of an extrinsic, and the data that they imply.
    pub(super) fn extensions(
        &self,
        version: &RuntimeVersion,
        genesis: H256,
        nonce: u32,
    ) -> Result<(Vec<u8>, Vec<u8>), ChainError> {
        let (mut explicit, mut implied) = (Vec::new(), Vec::new());
        for extension in &self.0.extrinsic.signed_extensions {
            match extension.identifier.as_str() {
                "CheckSpecVersion" => version.spec_version.encode_to(&mut implied),
                "CheckTxVersion" => version.transaction_version.encode_to(&mut implied),
                "CheckGenesis" => genesis.encode_to(&mut implied),
                "CheckMortality" | "CheckEra" => {
                    // Immortal, from genesis on.
                    explicit.push(0);
                    genesis.encode_to(&mut implied);
                }
                "CheckNonce" => Compact(nonce).encode_to(&mut explicit),
                // No tip.
                "ChargeTransactionPayment" => Compact(0u128).encode_to(&mut explicit),
                "CheckMetadataHash" => {
                    // The hash is not checked.
                    explicit.push(0);
                    implied.push(0);
                }
                "CheckNonZeroSender" | "CheckWeight" | "PrevalidateAttests" | "WeightReclaim" => {}
                other => return Err(ChainError::Missing(format!("how to fill in {other}"))),
            }
        }
        Ok((explicit, implied))
    }
}

/// Returns the version that `runtime` reports.
///
/// # Errors
/// [`RuntimeError`] if the runtime fails, or its answer does not decode.
pub fn runtime_version(runtime: &WasmRuntime) -> Result<RuntimeVersion, RuntimeError> {
    const CALL: &str = "Core_version";
    let mut externalities = BasicExternalities::default();
    let answer = externalities.execute_with(|| runtime.call(CALL, &[]))?;
    // Old versions have fewer fields; the fields after them are ignored.
    RuntimeVersion::decode(&mut answer.as_slice()).map_err(|error| RuntimeError {
        call: CALL.to_owned(),
        reason: format!("an answer that is no version: {error}"),
    })
}

/// Returns the names of the storage items of `runtime`, from its metadata.
///
/// # Errors
/// [`RuntimeError`] if the runtime fails, or its metadata is not of a version from 8 to 14.
pub fn storage_names(runtime: &WasmRuntime) -> Result<Vec<StorageName>, RuntimeError> {
    const CALL: &str = "Metadata_metadata";
    let mut externalities = BasicExternalities::default();
    let answer = externalities.execute_with(|| runtime.call(CALL, &[]))?;
    let refused = |reason: String| RuntimeError {
        call: CALL.to_owned(),
        reason,
    };
    let unreadable = |error: codec::Error| refused(error.to_string());
    let bytes = Vec::<u8>::decode(&mut answer.as_slice()).map_err(unreadable)?;
    let mut input = bytes.as_slice();
    let (_magic, version) = <(u32, u8)>::decode(&mut input).map_err(unreadable)?;
    if old_metadata::VERSIONS.contains(&version) {
        return old_metadata::names(version, input).map_err(unreadable);
    }
    let Metadata(metadata) =
        Metadata::decode(&answer).map_err(|error| refused(error.to_string()))?;
    let storages = metadata
        .pallets
        .into_iter()
        .filter_map(|pallet| pallet.storage);
    let names = storages.flat_map(|storage| {
        let items = storage.entries.into_iter();
        items.map(move |item| StorageName::item(storage.prefix.clone(), item.name))
    });
    Ok(names.collect())
}
