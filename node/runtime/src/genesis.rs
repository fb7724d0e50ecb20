//! The storage of block 0.

use crate::{
    AccountId, Balance, BalancesConfig, RuntimeGenesisConfig, SudoConfig, EXISTENTIAL_DEPOSIT,
};
use sp_core::storage::{well_known_keys, StateVersion, Storage};
use sp_runtime::BuildStorage;

/// What each account owns at first: enough for millions of transfers.
const ENDOWMENT: Balance = 1_000_000_000_000 * EXISTENTIAL_DEPOSIT;

/// A release of the runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// The one before the present one: spec version 1, state version 0.
    Previous,
    /// The present one: spec version 2, state version 1.
    Present,
}

impl Release {
    /// The code of the release, as wasm.
    pub fn code(self) -> &'static [u8] {
        match self {
            Self::Previous => include_bytes!(env!("POVMETER_NODE_PREVIOUS_WASM")),
            Self::Present => include_bytes!(env!("POVMETER_NODE_WASM")),
        }
    }

    /// The version of the state that the release writes.
    pub fn state_version(self) -> StateVersion {
        match self {
            Self::Previous => StateVersion::V0,
            Self::Present => StateVersion::V1,
        }
    }
}

/// The storage of block 0: the code of `release`, and an endowment for each of `accounts`, of which the
/// first has the sudo key.
///
/// # Errors
/// The message of the pallet that refuses its part.
pub fn genesis(accounts: &[AccountId], release: Release) -> Result<Storage, String> {
    let config = RuntimeGenesisConfig {
        balances: BalancesConfig {
            balances: accounts.iter().map(|id| (id.clone(), ENDOWMENT)).collect(),
            ..Default::default()
        },
        sudo: SudoConfig {
            key: accounts.first().cloned(),
        },
        ..Default::default()
    };
    let mut storage = config.build_storage()?;
    storage
        .top
        .insert(well_known_keys::CODE.to_vec(), release.code().to_vec());
    Ok(storage)
}
