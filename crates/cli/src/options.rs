//! Options that say which block is built.

use clap::{Args, ValueEnum};
use povmeter::Root;
use povmeter_dev_runtime::{CallKind, Plan, PlanOptions, Signatures};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sp_core::storage::StateVersion;

use std::path::Path;

use crate::{
    counted::counted, engine::Engine, error::CliError, memory::expect_room, progress,
    runtime_form::RuntimeArg, whole_number::whole,
};

/// The parent state and the block on top of it.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct PlanArgs {
    /// Endowed accounts in the parent state
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = whole::<u32>(0..=u64::from(u32::MAX)))]
    pub(crate) accounts: u32,
    /// Signed extrinsics in the block
    #[arg(long, value_name = "N", default_value_t = 544, value_parser = whole::<u32>(0..=u64::from(u32::MAX)))]
    pub(crate) transfers: u32,
    /// What each extrinsic calls: transfer_keep_alive, or transfer_all, which reaps its sender
    #[arg(long, value_enum, hide_possible_values = true, default_value_t = CallArg::TransferKeepAlive)]
    pub(crate) call: CallArg,
    /// State version: 0 or 1
    #[arg(long, value_enum, value_name = "V", hide_possible_values = true, default_value_t = VersionArg::V1)]
    pub(crate) state_version: VersionArg,
    /// Seed for accounts, pairs and amounts
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole::<u64>(0..=u64::MAX))]
    pub(crate) seed: u64,
}

/// The call of each extrinsic.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CallArg {
    #[value(name = "transfer_keep_alive")]
    TransferKeepAlive,
    #[value(name = "transfer_all")]
    TransferAll,
}

/// How extrinsics are signed.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SignaturesArg {
    // No `///` on values, because clap would then print a longer text for `--help` than for `-h`.
    // Signed and verified: about 50 us per extrinsic.
    Sr25519,
    // Not signed.
    Free,
}

/// The state version.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum VersionArg {
    #[value(name = "0")]
    V0,
    #[value(name = "1")]
    V1,
}

/// The most accounts of a state that is measured without a runtime.
pub(crate) const MOST_KEYS: u64 = u32::MAX as u64;
/// The least bytes of memory for an account in a runtime's state, including its share of the genesis.
const ACCOUNT_BYTES: u64 = 1_700;
/// The least bytes of memory for an extrinsic and what its block keeps of it.
const EXTRINSIC_BYTES: u64 = 6_000;
/// The least bytes of memory for a key of a state without a runtime.
pub(crate) const KEY_BYTES: u64 = 1_200;

/// Checks that the memory is enough for a state of `accounts` and a block of `transfers`.
///
/// # Errors
/// [`CliError::NoRoom`] if it is not.
pub(crate) fn expect_room_for(accounts: u32, transfers: u32) -> Result<(), CliError> {
    let what = format!("{accounts} accounts and {transfers} extrinsics");
    let needed = u64::from(accounts) * ACCOUNT_BYTES + u64::from(transfers) * EXTRINSIC_BYTES;
    expect_room(&what, needed)
}

/// Checks that the memory is enough for the largest of several states, with this number of `keys` each.
///
/// # Errors
/// [`CliError::NoRoom`] if it is not.
pub(crate) fn expect_room_for_keys(keys: &[usize]) -> Result<(), CliError> {
    let most = keys.iter().copied().max().unwrap_or(0);
    expect_room(
        &format!("{most} accounts"),
        (most as u64).saturating_mul(KEY_BYTES),
    )
}

impl VersionArg {
    /// The numbers of all versions, for schemas.
    pub(crate) const NUMBERS: [u8; 2] = [0, 1];

    pub(crate) fn version(self) -> StateVersion {
        match self {
            Self::V0 => StateVersion::V0,
            Self::V1 => StateVersion::V1,
        }
    }

    pub(crate) fn number(self) -> u8 {
        match self {
            Self::V0 => 0,
            Self::V1 => 1,
        }
    }
}

/// Where the parent state is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum StateArg {
    // In an embedded database on disk.
    ParityDb,
    // In RocksDB, which needs the feature `rocksdb`.
    #[serde(rename = "rocksdb")]
    #[value(name = "rocksdb")]
    RocksDb,
    Memory,
}

impl StateArg {
    /// Returns where the state is stored: as `asked`, else as in the folder `db`, else on parity-db.
    ///
    /// # Errors
    /// [`CliError::FolderForMemory`] for a folder with a state in memory, [`CliError::NoRocksDb`] without
    /// RocksDB, [`CliError::Open`] if the folder can't be read.
    pub(crate) fn in_folder(asked: Option<Self>, db: Option<&Path>) -> Result<Self, CliError> {
        let state = match (asked, db) {
            (Some(Self::Memory), Some(_)) => return Err(CliError::FolderForMemory),
            (Some(state), _) => state,
            (None, Some(path)) => Engine::of(path)?.map_or(Self::ParityDb, Engine::state),
            (None, None) => Self::ParityDb,
        };
        if let Some(engine) = state.engine() {
            engine.expect_built(asked.is_none())?;
        }
        Ok(state)
    }

    /// The engine of the state; `None` in memory.
    pub(crate) fn engine(self) -> Option<Engine> {
        match self {
            Self::ParityDb => Some(Engine::ParityDb),
            Self::RocksDb => Some(Engine::RocksDb),
            Self::Memory => None,
        }
    }
}

impl PlanArgs {
    /// Makes the plan for these options.
    ///
    /// # Errors
    /// [`CliError::Plan`] if no block fits these options.
    pub(crate) fn plan(&self, signatures: SignaturesArg) -> Result<Plan, CliError> {
        let what = format!(
            "drawing {} accounts, signing {} extrinsics",
            self.accounts, self.transfers
        );
        let options = self.options(signatures);
        Ok(progress::during(what, || Plan::new(options))?)
    }

    /// Checks that the memory is enough for this state and block.
    ///
    /// # Errors
    /// [`CliError::NoRoom`] if it is not.
    pub(crate) fn expect_room(&self) -> Result<(), CliError> {
        expect_room_for(self.accounts, self.transfers)
    }

    /// Returns these options in the form of the plan.
    pub(crate) fn options(&self, signatures: SignaturesArg) -> PlanOptions {
        PlanOptions {
            accounts: self.accounts,
            transfers: self.transfers,
            call: match self.call {
                CallArg::TransferKeepAlive => CallKind::TransferKeepAlive,
                CallArg::TransferAll => CallKind::TransferAll,
            },
            signatures: match signatures {
                SignaturesArg::Sr25519 => Signatures::Sr25519,
                SignaturesArg::Free => Signatures::Free,
            },
            state_version: self.state_version.version(),
            seed: self.seed,
        }
    }
}

/// The block that was asked for.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct UsedOptions {
    /// Endowed accounts in the parent state.
    accounts: u32,
    /// Signed extrinsics in the block.
    transfers: u32,
    /// What each extrinsic calls.
    call: CallArg,
    /// How extrinsics are signed.
    signatures: SignaturesArg,
    /// The version of the state's layout.
    #[schemars(extend("enum" = VersionArg::NUMBERS))]
    state_version: u8,
    /// Where the parent state is stored.
    state: StateArg,
    /// How the runtime is compiled.
    runtime: RuntimeArg,
    /// Seed for accounts, pairs and amounts.
    seed: u64,
}

impl UsedOptions {
    pub(crate) fn new(
        args: &PlanArgs,
        signatures: SignaturesArg,
        state: StateArg,
        runtime: RuntimeArg,
    ) -> Self {
        Self {
            accounts: args.accounts,
            transfers: args.transfers,
            call: args.call,
            signatures,
            state_version: args.state_version.number(),
            state,
            runtime,
            seed: args.seed,
        }
    }

    /// How extrinsics are signed.
    pub(crate) fn signatures(&self) -> SignaturesArg {
        self.signatures
    }

    /// The options in one line.
    pub(crate) fn line(&self) -> String {
        let Self {
            accounts,
            transfers,
            call,
            signatures,
            state_version,
            state,
            runtime,
            seed,
        } = self;
        let name = |value: Option<clap::builder::PossibleValue>| {
            value.map_or_else(String::new, |value| value.get_name().to_owned())
        };
        format!(
            "{transfers} {} over {}, {} signatures, state version \
             {state_version} in {}, {} runtime, seed {seed}",
            name(call.to_possible_value()),
            counted((*accounts).into(), "account"),
            name(signatures.to_possible_value()),
            name(state.to_possible_value()),
            name(runtime.to_possible_value()),
        )
    }
}

/// Reads a root of 64 digits in hexadecimal, with or without `0x`.
///
/// # Errors
/// A text that says what was expected and what was found.
pub(crate) fn parse_root(text: &str) -> Result<Root, String> {
    let mut bytes = [0; 32];
    let digits = text.strip_prefix("0x").unwrap_or(text);
    hex::decode_to_slice(digits, &mut bytes).map_err(|error| {
        let found = digits.chars().count();
        match error {
            hex::FromHexError::InvalidHexCharacter { .. } => {
                format!("expected 32 bytes in hexadecimal, found: {error}")
            }
            _ => format!("expected 32 bytes in hexadecimal (64 digits), found {found}"),
        }
    })?;
    Ok(Root::from(bytes))
}
