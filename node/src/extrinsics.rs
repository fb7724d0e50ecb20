//! Signed extrinsics.

use crate::accounts;
use codec::Encode;
use povmeter_node_runtime::{
    Address, AskProofSize, Balance, BalancesCall, ChildTriesCall, Extensions, Hash, Nonce, Runtime,
    RuntimeCall, Signature, SignedPayload, SudoCall, SystemCall, UncheckedExtrinsic,
    EXISTENTIAL_DEPOSIT,
};
use sp_core::{sr25519, Pair};
use sp_runtime::{generic::Era, OpaqueExtrinsic};
use std::collections::HashMap;

/// Entries of a write to a child trie.
const CHILD_ENTRIES: u32 = 16;
/// Child tries that are written, in turns.
const CHILD_TRIES: u32 = 8;

/// The chain and the runtime that extrinsics are signed for.
#[derive(Clone, Copy)]
pub(crate) struct SignedFor {
    pub(crate) genesis: Hash,
    pub(crate) spec_version: u32,
    pub(crate) transaction_version: u32,
}

impl SignedFor {
    /// Signs `call` as number `nonce` of the account of `key`.
    pub(crate) fn sign(
        self,
        key: &sr25519::Pair,
        nonce: Nonce,
        call: RuntimeCall,
    ) -> OpaqueExtrinsic {
        let extensions: Extensions = (
            frame_system::CheckNonZeroSender::new(),
            frame_system::CheckSpecVersion::new(),
            frame_system::CheckTxVersion::new(),
            frame_system::CheckGenesis::new(),
            frame_system::CheckEra::from(Era::Immortal),
            frame_system::CheckNonce::from(nonce),
            frame_system::CheckWeight::new(),
            pallet_transaction_payment::ChargeTransactionPayment::<Runtime>::from(0),
            AskProofSize,
        );
        let implied = (
            (),
            self.spec_version,
            self.transaction_version,
            self.genesis,
            self.genesis,
            (),
            (),
            (),
            (),
        );
        let payload = SignedPayload::from_raw(call.clone(), extensions.clone(), implied);
        let signature = payload.using_encoded(|bytes| accounts::sign(key, bytes));
        let extrinsic = UncheckedExtrinsic::new_signed(
            call,
            Address::Id(key.public().into()),
            Signature::Sr25519(signature),
            extensions,
        );
        OpaqueExtrinsic::try_from_encoded_extrinsic(&extrinsic.encode())
            .expect("an encoded extrinsic begins with its length")
    }
}

/// Draws the extrinsics of blocks: transfers from the first half of the accounts to the other half, in turns,
/// and writes to child tries.
pub(crate) struct Workload {
    accounts: u32,
    keys: HashMap<u32, sr25519::Pair>,
    nonces: HashMap<u32, Nonce>,
    drawn: u32,
}

impl Workload {
    /// A workload for a chain with this many accounts.
    pub(crate) fn new(accounts: u32) -> Self {
        Self {
            accounts: accounts.max(2),
            keys: HashMap::new(),
            nonces: HashMap::new(),
            drawn: 0,
        }
    }

    /// The next sender. Account 0 sends only if there is no other sender, because it has the sudo key.
    fn draw(&mut self) -> u32 {
        self.drawn += 1;
        let senders = self.accounts / 2;
        if senders < 2 {
            0
        } else {
            1 + self.drawn % (senders - 1)
        }
    }

    /// The senders of the next `count` extrinsics.
    pub(crate) fn senders(&self, count: u32) -> Vec<u32> {
        let mut ahead = Self {
            keys: HashMap::new(),
            nonces: HashMap::new(),
            ..*self
        };
        let mut senders: Vec<u32> = (0..count).map(|_| ahead.draw()).collect();
        senders.sort_unstable();
        senders.dedup();
        senders
    }

    /// Whether the number of the next extrinsic of account `index` is known.
    pub(crate) fn knows(&self, index: u32) -> bool {
        self.nonces.contains_key(&index)
    }

    /// The number of the next extrinsic of account `index`.
    pub(crate) fn nonce(&self, index: u32) -> Nonce {
        self.nonces.get(&index).copied().unwrap_or_default()
    }

    /// Sets the number of the next extrinsic of account `index`.
    pub(crate) fn set_nonce(&mut self, index: u32, nonce: Nonce) {
        self.nonces.insert(index, nonce);
    }

    /// The next transfer.
    pub(crate) fn transfer(&mut self, signed_for: SignedFor) -> OpaqueExtrinsic {
        let sender = self.draw();
        let receivers = self.accounts - self.accounts / 2;
        let receiver = self.accounts / 2 + self.drawn.wrapping_mul(2_654_435_761) % receivers;
        let call = BalancesCall::transfer_keep_alive {
            dest: Address::Id(accounts::id(receiver)),
            value: EXISTENTIAL_DEPOSIT + Balance::from(self.drawn),
        };
        self.sign(signed_for, sender, call.into())
    }

    /// The next write to a child trie. One of four removes entries that an earlier one wrote, and one of 64
    /// clears the trie.
    pub(crate) fn child_write(&mut self, signed_for: SignedFor) -> OpaqueExtrinsic {
        let sender = self.draw();
        let trie = u8::try_from(self.drawn % CHILD_TRIES).expect("there are 8");
        let first = (self.drawn / CHILD_TRIES) * CHILD_ENTRIES;
        let call = if self.drawn % 64 == 63 {
            ChildTriesCall::clear { trie }
        } else if (self.drawn / CHILD_TRIES) % 4 == 3 {
            let first = first.saturating_sub(2 * CHILD_ENTRIES);
            ChildTriesCall::remove {
                trie,
                first,
                count: CHILD_ENTRIES,
            }
        } else {
            // Lengths on both sides of 33 bytes, from which on a value is a node.
            let length = 20 + self.drawn % 100;
            ChildTriesCall::write {
                trie,
                first,
                count: CHILD_ENTRIES,
                length,
            }
        };
        self.sign(signed_for, sender, call.into())
    }

    fn sign(&mut self, signed_for: SignedFor, sender: u32, call: RuntimeCall) -> OpaqueExtrinsic {
        let key = self
            .keys
            .entry(sender)
            .or_insert_with(|| accounts::key(sender));
        let nonce = self.nonces.entry(sender).or_default();
        let extrinsic = signed_for.sign(key, *nonce, call);
        *nonce += 1;
        extrinsic
    }
}

/// The call by which the sudo key replaces the runtime.
pub(crate) fn upgrade(code: Vec<u8>) -> RuntimeCall {
    let call = Box::new(SystemCall::set_code { code }.into());
    // The weight of an upgrade is that of a whole block, which would leave no room for the inherent.
    SudoCall::sudo_unchecked_weight {
        call,
        weight: Default::default(),
    }
    .into()
}
