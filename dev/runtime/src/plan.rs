//! A plan to build: a parent state and one block of transfers on it.

use crate::{
    chain::Chain, runtime, runtime::AccountId, runtime::Address, runtime::Balance,
    runtime::Extensions, runtime::Extrinsic, runtime::Hashing, runtime::Header,
    runtime::InnerExtensions, runtime::RuntimeCall, runtime::RuntimeGenesisConfig,
    runtime::Signature, runtime::SignedPayload,
};
use codec::Encode;
use frame_support::traits::StorageVersion;
use sp_core::{
    sr25519,
    storage::{StateVersion, Storage},
    Pair, H256,
};
use sp_runtime::{
    generic::{Era, Preamble},
    traits::{Hash as _, Header as _},
    BuildStorage,
};
use sp_trie::{LayoutV0, LayoutV1, TrieConfiguration};
use std::fmt;

/// Endowment of an account: enough for millions of transfers and their fees.
const ENDOWMENT: Balance = 1_000_000_000_000_000_000;
/// Bound of the random part of a transfer; the existential deposit is added to it.
const MOST_MOVED: u64 = 1_000_000_000;
/// The time of block 1, in milliseconds since 1970.
pub(crate) const TIMESTAMP: u64 = 1_763_683_200_000;

/// The call that each extrinsic makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallKind {
    /// `transfer_keep_alive`: sender and receiver stay.
    TransferKeepAlive,
    /// `transfer_all` without keeping the sender alive: its account is deleted.
    TransferAll,
}

/// How each extrinsic is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Signatures {
    /// With sr25519, verified. Costs about 50 us per extrinsic outside the state machine.
    Sr25519,
    /// Unsigned, and not verified.
    Free,
}

/// The inputs of [`Plan::new`]. The default is the usual block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanOptions {
    /// Number of accounts in the parent state.
    pub accounts: u32,
    /// Number of signed extrinsics in the block.
    pub transfers: u32,
    /// The call of each extrinsic.
    pub call: CallKind,
    /// How each extrinsic is signed.
    pub signatures: Signatures,
    /// The state version of the parent and of the block.
    pub state_version: StateVersion,
    /// Seed of the random accounts, pairs and amounts.
    pub seed: u64,
}

impl Default for PlanOptions {
    fn default() -> Self {
        Self {
            accounts: 10_000,
            transfers: 544,
            call: CallKind::TransferKeepAlive,
            signatures: Signatures::Free,
            state_version: StateVersion::V1,
            seed: 1,
        }
    }
}

/// Why no plan can be made of the options.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// There are fewer than the two accounts that a transfer needs.
    #[error("a transfer needs 2 accounts, but the plan has {found}")]
    TooFewAccounts {
        /// The accounts asked for.
        found: u32,
    },
    /// There are too few senders, because an emptied account cannot send again.
    #[error("{accounts} accounts allow {most} transfers that empty the sender, not {found}")]
    TooManyTransfers {
        /// The accounts asked for.
        accounts: u32,
        /// The transfers they allow.
        most: u32,
        /// The transfers asked for.
        found: u32,
    },
    /// The runtime could not write its genesis.
    #[error("the runtime wrote no genesis: {0}")]
    Genesis(String),
}

/// A parent state and one block of transfers on it.
///
/// Two plans of equal options are equal, except for the bytes of sr25519 signatures, which are
/// random. The state root is still the same, because the state contains no signature.
pub struct Plan {
    options: PlanOptions,
    genesis: Storage,
    /// Hash of the chain's first block, which signatures commit to.
    genesis_hash: H256,
    parent: Header,
    header: Header,
    inherent: Extrinsic,
    extrinsics: Vec<Extrinsic>,
}

impl Plan {
    /// Returns the plan for `options`.
    ///
    /// At most the first half of the accounts are senders, in random order, with one extrinsic each
    /// if there are enough. Each receiver is drawn from the other accounts, none twice before all
    /// were drawn once. Costs about 50 us per sender, and 100 us per sr25519 signature.
    ///
    /// # Errors
    /// [`PlanError::TooFewAccounts`] below two accounts, [`PlanError::TooManyTransfers`] if senders
    /// would have to be emptied twice, [`PlanError::Genesis`] if the runtime refuses the balances.
    pub fn new(options: PlanOptions) -> Result<Self, PlanError> {
        Chain::new(options, 1).map(|(_, plan)| plan)
    }

    pub(crate) fn of_parts(
        options: PlanOptions,
        (genesis, genesis_hash): (Storage, H256),
        parent: Header,
        header: Header,
        inherent: Extrinsic,
        extrinsics: Vec<Extrinsic>,
    ) -> Self {
        Self {
            options,
            genesis,
            genesis_hash,
            parent,
            header,
            inherent,
            extrinsics,
        }
    }

    /// Returns the options of the plan.
    pub fn options(&self) -> &PlanOptions {
        &self.options
    }

    /// Returns the keys and values of the parent state; empty in a plan of
    /// [`Chain::next`](crate::Chain::next).
    pub fn genesis(&self) -> &Storage {
        &self.genesis
    }

    /// Returns the header of the parent, with the root of the parent state.
    pub fn parent(&self) -> &Header {
        &self.parent
    }

    /// Returns the header that initializes the block. Its roots are not computed yet.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Returns the extrinsic that sets the timestamp, to be applied first.
    pub fn inherent(&self) -> &Extrinsic {
        &self.inherent
    }

    /// Returns the signed extrinsics, in order.
    pub fn extrinsics(&self) -> &[Extrinsic] {
        &self.extrinsics
    }

    /// Returns the inherent and the signed extrinsics, each SCALE encoded as in a block's body.
    pub fn encoded(&self) -> impl Iterator<Item = Vec<u8>> + '_ {
        std::iter::once(&self.inherent)
            .chain(&self.extrinsics)
            .map(Encode::encode)
    }

    /// Replaces the calls of the signed extrinsics by `calls`, in order, and their signatures by free
    /// ones. Surplus extrinsics stay as they are, surplus calls are dropped.
    #[must_use]
    pub fn with_calls(mut self, calls: impl IntoIterator<Item = RuntimeCall>) -> Self {
        for (extrinsic, call) in self.extrinsics.iter_mut().zip(calls) {
            extrinsic.function = call;
            if let Preamble::Signed(_, signature, _) = &mut extrinsic.preamble {
                *signature = Signature::Free([0; 64]);
            }
        }
        self
    }

    /// Replaces the signed extrinsic at `index` by one that the runtime refuses after some reads,
    /// because its sender does not exist. Does nothing if there is no such extrinsic.
    #[must_use]
    pub fn with_refused(mut self, index: usize) -> Self {
        let genesis = self.genesis_hash;
        if let Some(extrinsic) = self.extrinsics.get_mut(index) {
            let key = sr25519::Pair::from_seed(&SplitMix(!self.options.seed).bytes());
            let call = extrinsic.function.clone();
            *extrinsic = sign(self.options.signatures, &key, 0, call, genesis);
        }
        self
    }
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plan")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

/// Returns the number of accounts that send.
pub(crate) fn count_senders(options: &PlanOptions) -> Result<u32, PlanError> {
    let PlanOptions {
        accounts,
        transfers,
        call,
        ..
    } = *options;
    if accounts < 2 {
        return Err(PlanError::TooFewAccounts { found: accounts });
    }
    let most = accounts / 2;
    if call == CallKind::TransferAll && transfers > most {
        return Err(PlanError::TooManyTransfers {
            accounts,
            most,
            found: transfers,
        });
    }
    Ok(transfers.clamp(1, most))
}

/// Returns the runtime's genesis with all `accounts` endowed.
pub(crate) fn genesis(accounts: &[AccountId]) -> Result<Storage, PlanError> {
    let balances = accounts
        .iter()
        .map(|account| (account.clone(), ENDOWMENT))
        .collect();
    let mut storage = RuntimeGenesisConfig {
        balances: runtime::BalancesConfig {
            balances,
            dev_accounts: None,
        },
        ..Default::default()
    }
    .build_storage()
    .map_err(PlanError::Genesis)?;
    // Recorded blocks start from a state without this key: the pallet has no storage.
    let version = StorageVersion::storage_key::<runtime::Utility>();
    storage.top.remove(version.as_slice());
    Ok(storage)
}

/// Returns the root of the parent state. The genesis of this runtime has no child tries.
pub(crate) fn state_root(genesis: &Storage, version: StateVersion) -> H256 {
    match version {
        StateVersion::V0 => LayoutV0::<Hashing>::trie_root(&genesis.top),
        StateVersion::V1 => LayoutV1::<Hashing>::trie_root(&genesis.top),
    }
}

/// Returns the header of an empty block.
pub(crate) fn header(number: u32, parent: H256, state_root: H256) -> Header {
    let extrinsics_root = Hashing::ordered_trie_root(Vec::new(), StateVersion::V0);
    Header::new(
        number,
        extrinsics_root,
        state_root,
        parent,
        Default::default(),
    )
}

/// Returns the call of one extrinsic.
pub(crate) fn call(kind: CallKind, dest: Address, random: &mut SplitMix) -> RuntimeCall {
    match kind {
        CallKind::TransferKeepAlive => {
            let value = runtime::EXISTENTIAL_DEPOSIT + Balance::from(random.below(MOST_MOVED));
            pallet_balances::Call::transfer_keep_alive { dest, value }.into()
        }
        CallKind::TransferAll => pallet_balances::Call::transfer_all {
            dest,
            keep_alive: false,
        }
        .into(),
    }
}

/// Returns `call`, signed with `key`.
pub(crate) fn sign(
    signatures: Signatures,
    key: &sr25519::Pair,
    nonce: u32,
    call: RuntimeCall,
    genesis: H256,
) -> Extrinsic {
    let inner: InnerExtensions = (
        frame_system::CheckNonZeroSender::new(),
        frame_system::CheckSpecVersion::new(),
        frame_system::CheckTxVersion::new(),
        frame_system::CheckGenesis::new(),
        frame_system::CheckEra::from(Era::Immortal),
        frame_system::CheckNonce::from(nonce),
        frame_system::CheckWeight::new(),
        pallet_transaction_payment::ChargeTransactionPayment::from(0),
    );
    let extensions = Extensions::new(inner);
    let signature = match signatures {
        Signatures::Free => Signature::Free([0; 64]),
        Signatures::Sr25519 => {
            let implied = implied(genesis);
            let payload = SignedPayload::from_raw(call.clone(), extensions.clone(), implied);
            Signature::Sr25519(payload.using_encoded(|bytes| key.sign(bytes)))
        }
    };
    Extrinsic::new_signed(
        call,
        Address::Id(key.public().0.into()),
        signature,
        extensions,
    )
}

/// The values that the extensions add to the signed data.
type Implied = ((), u32, u32, H256, H256, (), (), ());

/// Returns the implied values of an immortal extrinsic, which implies the genesis block twice.
const fn implied(genesis: H256) -> Implied {
    let (spec, transaction) = (runtime::SPEC_VERSION, runtime::TRANSACTION_VERSION);
    ((), spec, transaction, genesis, genesis, (), (), ())
}

/// Draws the numbers below a bound in random order, then all of them again in a new order.
pub(crate) struct Deck {
    cards: Vec<u32>,
    left: usize,
}

impl Deck {
    pub(crate) fn new(bound: u32) -> Self {
        Self {
            cards: (0..bound).collect(),
            left: 0,
        }
    }

    /// Returns the next number. The bound must be above zero.
    pub(crate) fn draw(&mut self, random: &mut SplitMix) -> u32 {
        if self.left == 0 {
            self.left = self.cards.len();
        }
        let bound = u64::try_from(self.left).unwrap_or(u64::MAX);
        let pick = usize::try_from(random.below(bound)).unwrap_or_default();
        self.left -= 1;
        self.cards.swap(pick, self.left);
        self.cards[self.left]
    }
}

/// SplitMix64. Not from `rand`, because its generators may change between versions and platforms,
/// and a seed must always give the same block.
pub(crate) struct SplitMix(u64);

impl SplitMix {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `bound`, which must not be zero. The bias is below `bound / 2^64`.
    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub(crate) fn bytes(&mut self) -> [u8; 32] {
        let mut bytes = [0; 32];
        for chunk in bytes.chunks_exact_mut(8) {
            chunk.copy_from_slice(&self.next().to_le_bytes());
        }
        bytes
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use sp_runtime::traits::Verify;
    use std::collections::HashSet;

    fn options(accounts: u32, transfers: u32) -> PlanOptions {
        PlanOptions {
            accounts,
            transfers,
            ..Default::default()
        }
    }

    fn senders(plan: &Plan) -> Vec<Vec<u8>> {
        plan.extrinsics()
            .iter()
            .map(|extrinsic| extrinsic.preamble.encode())
            .collect()
    }

    #[test]
    fn equal_options_give_equal_plans() {
        let plans = [(); 2].map(|()| Plan::new(options(50, 20)).unwrap());
        assert_eq!(plans[0].parent(), plans[1].parent());
        assert!(plans[0].encoded().eq(plans[1].encoded()));
        let other = Plan::new(PlanOptions {
            seed: 2,
            ..options(50, 20)
        })
        .unwrap();
        assert_ne!(plans[0].parent(), other.parent());
    }

    #[test]
    fn the_way_of_signing_does_not_change_the_parent() {
        let free = Plan::new(options(50, 20)).unwrap();
        let signatures = Signatures::Sr25519;
        let real = Plan::new(PlanOptions {
            signatures,
            ..options(50, 20)
        })
        .unwrap();
        assert_eq!(free.parent(), real.parent());
        let lengths = |plan: &Plan| plan.encoded().map(|bytes| bytes.len()).collect::<Vec<_>>();
        assert_eq!(lengths(&free), lengths(&real));
    }

    #[test]
    fn no_sender_sends_twice_while_there_are_enough() {
        let plan = Plan::new(options(50, 25)).unwrap();
        assert_eq!(senders(&plan).into_iter().collect::<HashSet<_>>().len(), 25);
        // With more transfers than senders the nonces differ.
        let plan = Plan::new(options(50, 60)).unwrap();
        assert_eq!(senders(&plan).into_iter().collect::<HashSet<_>>().len(), 60);
    }

    /// A wrong signature would be refused before any read.
    #[test]
    fn a_refused_extrinsic_has_a_valid_signature_in_every_block() {
        let options = PlanOptions {
            signatures: Signatures::Sr25519,
            ..options(50, 3)
        };
        let (mut chain, first) = Chain::new(options, 2).unwrap();
        let genesis = first.parent().hash();
        let second = chain.next(first.header().clone());
        for plan in [first, second] {
            let plan = plan.with_refused(1);
            for extrinsic in plan.extrinsics() {
                let Preamble::Signed(Address::Id(signer), signature, extensions) =
                    extrinsic.preamble.clone()
                else {
                    unreachable!("a signed extrinsic")
                };
                let implied = implied(genesis);
                let payload =
                    SignedPayload::from_raw(extrinsic.function.clone(), extensions, implied);
                let valid = payload.using_encoded(|bytes| signature.verify(bytes, &signer));
                assert!(valid, "block {}", plan.header().number());
            }
        }
    }

    #[test]
    fn impossible_options_are_refused() {
        for found in [0, 1] {
            let error = Plan::new(options(found, 0)).unwrap_err();
            assert!(matches!(error, PlanError::TooFewAccounts { found: f } if f == found));
        }
        let call = CallKind::TransferAll;
        let error = Plan::new(PlanOptions {
            call,
            ..options(10, 6)
        })
        .unwrap_err();
        assert!(matches!(
            error,
            PlanError::TooManyTransfers {
                most: 5,
                found: 6,
                ..
            }
        ));
        assert!(Plan::new(PlanOptions {
            call,
            ..options(10, 5)
        })
        .is_ok());
        assert!(Plan::new(options(2, 0)).is_ok());
    }
}
