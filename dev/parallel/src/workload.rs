//! The transactions that are measured.

use povmeter::{Block, BlockError, Root, StateVersion, TrieId};
use povmeter_store::{MemoryStore, NodeStore};
use rand::{rngs::SmallRng, Rng, SeedableRng};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::error::Error;

/// What the transactions of a block do. Accounts have a nonce and a balance, and lie in 28 stores.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// Transfers between two of 100 accounts.
    #[serde(rename = "random-100")]
    Random100,
    /// Transfers between two of 10,000 accounts.
    #[serde(rename = "random-10000")]
    Random10000,
    /// Transfers between accounts that no other transaction touches.
    NoConflict,
    /// Transfers between the same two accounts.
    Worst,
    /// Six steps through the keys of a store, then a transfer between two of 10,000 accounts.
    Iterate,
    /// One of 100 values of 64 KiB is read and written again.
    SameValue,
    /// Twelve questions for existence, half of them of keys that exist, then a write to one that exists.
    Existence,
}

/// The accounts that a transaction touches: sender and receiver, or keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touched {
    /// The first one.
    pub from: u32,
    /// The second one.
    pub to: u32,
}

const STORES: u32 = 28;
pub(crate) const LARGE_VALUE: usize = 64 << 10;
/// More than any sum that is sent.
pub(crate) const BALANCE: u128 = 1 << 100;

impl Workload {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Random100,
        Self::Random10000,
        Self::NoConflict,
        Self::Worst,
        Self::Iterate,
        Self::SameValue,
        Self::Existence,
    ];

    /// Its name, as in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Random100 => "random-100",
            Self::Random10000 => "random-10000",
            Self::NoConflict => "no-conflict",
            Self::Worst => "worst",
            Self::Iterate => "iterate",
            Self::SameValue => "same-value",
            Self::Existence => "existence",
        }
    }

    /// How many accounts there are.
    pub fn accounts(self, transactions: u32) -> u32 {
        match self {
            Self::Random100 | Self::SameValue => 100,
            Self::Random10000 | Self::Iterate | Self::Existence => 10_000,
            Self::NoConflict => transactions.saturating_mul(2),
            Self::Worst => 2,
        }
    }

    /// The accounts that each of `transactions` transactions touches: the same at each call.
    pub fn touched(self, transactions: u32) -> Vec<Touched> {
        let accounts = self.accounts(transactions);
        let mut rng = SmallRng::seed_from_u64(17);
        let touched = (0..transactions).map(|index| match self {
            Self::NoConflict => Touched {
                from: 2 * index,
                to: 2 * index + 1,
            },
            Self::Worst => Touched { from: 0, to: 1 },
            _ => {
                let from = rng.random_range(0..accounts);
                let to = (from + rng.random_range(1..accounts)) % accounts;
                Touched { from, to }
            }
        });
        touched.collect()
    }

    /// The parent state.
    ///
    /// # Errors
    /// Those of the block and the store. A store in memory makes none.
    pub fn parent_state(
        self,
        transactions: u32,
    ) -> Result<MemoryStore, Box<dyn Error + Send + Sync>> {
        let mut store = MemoryStore::new();
        let mut block = Block::new(&store, Root::EMPTY);
        for account in 0..self.accounts(transactions) {
            if self == Self::SameValue {
                block.set(TrieId::Top, &balance_key(account), &vec![1; LARGE_VALUE])?;
                continue;
            }
            block.set(TrieId::Top, &nonce_key(account), &0_u32.to_le_bytes())?;
            block.set(TrieId::Top, &balance_key(account), &BALANCE.to_le_bytes())?;
        }
        let sealed = block.seal(StateVersion::V1);
        let sealed = sealed.map_err(|error| -> BlockError { error.into_parts().1 })?;
        store.commit(sealed.update())?;
        Ok(store)
    }
}

/// A key as in a map of a runtime: 32 bytes of names, 16 of a hash, then the account.
fn account_key(item: u8, account: u32) -> [u8; 80] {
    let mut key = [0; 80];
    key[..16].fill((account % STORES).to_le_bytes()[0].wrapping_mul(7));
    key[16..32].fill(item);
    let scattered = u64::from(account).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    key[32..40].copy_from_slice(&scattered.to_be_bytes());
    key[40..48].copy_from_slice(&scattered.rotate_left(17).to_le_bytes());
    key[48..52].copy_from_slice(&account.to_le_bytes());
    key
}

pub(crate) fn nonce_key(account: u32) -> [u8; 80] {
    account_key(1, account)
}

pub(crate) fn balance_key(account: u32) -> [u8; 80] {
    account_key(2, account)
}

/// A key that does not exist, near one that does.
pub(crate) fn absent_key(account: u32) -> [u8; 80] {
    let mut key = balance_key(account);
    key[79] = 1;
    key
}
