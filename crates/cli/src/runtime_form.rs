//! The runtime of a block, native or in wasm.

use crate::{error::CliError, options::VersionArg};
use clap::ValueEnum;
use povmeter_dev_runtime::{
    runtime::Extrinsic, runtime::Header, EntryPoints, Native, RememberSignatures, RuntimeError,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sp_runtime::ApplyExtrinsicResult;

/// How the runtime is compiled.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, ValueEnum,
)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RuntimeArg {
    // Compiled into this program.
    #[default]
    Native,
    // Compiled to wasm and run by wasmtime, as in a node.
    Wasm,
    // As `Wasm`, with instances that are kept from call to call.
    WasmKept,
}

/// The runtime, ready to be called.
pub(crate) enum RuntimeForm {
    Native,
    #[cfg(feature = "wasm")]
    Wasm(Box<povmeter_dev_runtime::wasm::WasmRuntime>),
}

impl RuntimeArg {
    /// The runtime in this form, for a state of `version`. `several`: whether blocks run on several threads.
    ///
    /// # Errors
    /// [`CliError::NoWasm`] if this program can't run wasm, [`CliError::WasmVersion`] if there is no
    /// wasm runtime for `version`.
    pub(crate) fn form(self, version: VersionArg, several: bool) -> Result<RuntimeForm, CliError> {
        match self {
            Self::Native => Ok(RuntimeForm::Native),
            Self::Wasm => wasm(version, several.then_some(Instances::Preparing)),
            Self::WasmKept => wasm(version, Some(Instances::All)),
        }
    }
}

/// Which instances of a runtime in wasm are kept.
#[derive(Clone, Copy)]
enum Instances {
    All,
    /// Those of threads that prepare extrinsics.
    Preparing,
}

#[cfg(feature = "wasm")]
fn wasm(version: VersionArg, kept: Option<Instances>) -> Result<RuntimeForm, CliError> {
    if version.number() != 1 {
        return Err(CliError::WasmVersion);
    }
    let runtime = povmeter_dev_runtime::wasm::WasmRuntime::workload();
    let runtime = crate::progress::during("compiling the runtime", || {
        let runtime = match kept {
            Some(Instances::All) => runtime.keeping_instances()?,
            Some(Instances::Preparing) => runtime.preparing_in_kept_instances()?,
            None => runtime,
        };
        runtime.prepare().map(|()| runtime)
    })?;
    Ok(RuntimeForm::Wasm(Box::new(runtime)))
}

#[cfg(not(feature = "wasm"))]
fn wasm(_: VersionArg, _: Option<Instances>) -> Result<RuntimeForm, CliError> {
    Err(CliError::NoWasm)
}

impl RuntimeForm {
    fn entry_points(&self) -> &dyn EntryPoints {
        match self {
            Self::Native => &Native,
            #[cfg(feature = "wasm")]
            Self::Wasm(runtime) => runtime.as_ref(),
        }
    }
}

impl EntryPoints for RuntimeForm {
    fn initialize_block(&self, header: &Header) -> Result<(), RuntimeError> {
        self.entry_points().initialize_block(header)
    }

    fn apply_extrinsic(&self, extrinsic: Extrinsic) -> Result<ApplyExtrinsicResult, RuntimeError> {
        self.entry_points().apply_extrinsic(extrinsic)
    }

    fn finalize_block(&self) -> Result<Header, RuntimeError> {
        self.entry_points().finalize_block()
    }

    fn prepare_extrinsic(&self, extrinsic: Extrinsic) {
        self.entry_points().prepare_extrinsic(extrinsic);
    }

    fn signatures(&self) -> Option<Box<dyn RememberSignatures>> {
        self.entry_points().signatures()
    }
}
