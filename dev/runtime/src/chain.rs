//! Blocks of transfers, one on top of the other.

use crate::{
    plan::{
        call, count_senders, genesis, header, sign, state_root, CallKind, Deck, Plan, PlanError,
        PlanOptions, SplitMix, TIMESTAMP,
    },
    runtime::{AccountId, Address, Extrinsic, Header},
    spans,
};
use sp_core::{sr25519, storage::Storage, Pair, H256};
use sp_runtime::traits::Header as _;

/// Milliseconds between two blocks.
const BLOCK_TIME: u64 = 6_000;

/// Draws the blocks of a chain.
pub struct Chain {
    options: PlanOptions,
    /// All accounts, the senders first.
    accounts: Vec<AccountId>,
    keys: Vec<sr25519::Pair>,
    /// The number of extrinsics of each sender so far.
    nonces: Vec<u32>,
    random: SplitMix,
    from: Deck,
    to: Deck,
    genesis: H256,
}

impl Chain {
    /// Returns a new chain of at most `blocks` blocks, and the plan of its first block.
    ///
    /// # Errors
    /// Those of [`Plan::new`], for the transfers of all blocks.
    pub fn new(options: PlanOptions, blocks: u32) -> Result<(Self, Plan), PlanError> {
        spans::leave_out();
        let transfers = match options.call {
            CallKind::TransferKeepAlive => options.transfers,
            // Each empties its sender.
            CallKind::TransferAll => options.transfers.saturating_mul(blocks),
        };
        let senders = count_senders(&PlanOptions {
            transfers,
            ..options
        })?;
        let mut random = SplitMix::new(options.seed);
        let keys: Vec<_> = (0..senders)
            .map(|_| sr25519::Pair::from_seed(&random.bytes()))
            .collect();
        let receivers = options.accounts - senders;
        let mut accounts: Vec<AccountId> = keys.iter().map(|k| k.public().0.into()).collect();
        accounts.extend((0..receivers).map(|_| AccountId::from(random.bytes())));

        let storage = genesis(&accounts)?;
        let parent = header(0, H256::zero(), state_root(&storage, options.state_version));
        let mut chain = Self {
            options,
            accounts,
            nonces: vec![0; keys.len()],
            keys,
            random,
            from: Deck::new(senders),
            to: Deck::new(receivers),
            genesis: parent.hash(),
        };
        let plan = chain.plan(parent, storage);
        Ok((chain, plan))
    }

    /// Returns the plan of the block on top of `parent`, a block of this chain whose state root is
    /// known. Its [genesis](Plan::genesis) is empty.
    pub fn next(&mut self, parent: Header) -> Plan {
        self.plan(parent, Storage::default())
    }

    fn plan(&mut self, parent: Header, genesis: Storage) -> Plan {
        let number = parent.number() + 1;
        let header = header(number, parent.hash(), H256::zero());
        let now = TIMESTAMP + u64::from(number - 1) * BLOCK_TIME;
        let set = pallet_timestamp::Call::set { now };
        let inherent = Extrinsic::new_bare(set.into());
        let extrinsics = (0..self.options.transfers)
            .map(|_| self.transfer())
            .collect();
        let genesis = (genesis, self.genesis);
        Plan::of_parts(self.options, genesis, parent, header, inherent, extrinsics)
    }

    fn transfer(&mut self) -> Extrinsic {
        let sender = self.from.draw(&mut self.random) as usize;
        let receiver = self.keys.len() + self.to.draw(&mut self.random) as usize;
        let dest = Address::Id(self.accounts[receiver].clone());
        let call = call(self.options.call, dest, &mut self.random);
        let nonce = self.nonces[sender];
        self.nonces[sender] += 1;
        let Self {
            options,
            keys,
            genesis,
            ..
        } = self;
        sign(options.signatures, &keys[sender], nonce, call, *genesis)
    }
}

impl std::fmt::Debug for Chain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Chain")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
