//! A block of transfers on the runtime of a public relay chain.
//!
//! The parent state is the chain's genesis with some accounts endowed. An author on povmeter builds
//! the block: the inherents of a relay chain, then signed transfers. The result has the form of a
//! recorded block, for [`Replay`](super::Replay).

use super::{author::author, author::RefusedExtrinsic, metadata::Metadata};
use crate::{
    chain_spec::genesis_hash, chain_spec::ChainSpec, real_blocks::RealBlock,
    real_blocks::RealBlocks, real_blocks::RealHeader,
};
use codec::{Compact, Decode, Encode};
use frame_support::{storage::storage_prefix, Blake2_128Concat, StorageHasher};
use povmeter::Root;
use povmeter_dev_runtime::wasm::WasmRuntime;
use povmeter_dev_runtime::{
    commit_state, Entries, Estimates, HostError, PovmeterBlock, RuntimeError, StateError,
};
use povmeter_store::MemoryStore;
use povmeter_substrate::SizeSource;
use sp_core::{
    sr25519,
    storage::well_known_keys::{CODE, HEAP_PAGES},
    Blake2Hasher, Hasher, Pair, H256,
};
use sp_runtime::{traits::Header as _, Digest, DigestItem};
use sp_state_machine::BasicExternalities;
use sp_version::RuntimeVersion;
use std::path::PathBuf;

/// Endowment of an account, in the smallest unit.
const ENDOWMENT: u128 = 1_000_000_000_000_000;
/// Amount of a transfer.
const MOVED: u128 = 10_000_000_000;
/// The flag of an account that pallet-balances need not upgrade.
const NEW_LOGIC: u128 = 1 << 127;
/// The slot of the block, and the length of a slot in milliseconds.
const SLOT: u64 = 290_000_000;
const SLOT_MS: u64 = 6_000;

/// Why a block could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChainError {
    /// There is no runtime in the state.
    #[error("expected a runtime under `:code` in the chain specification, found none")]
    NoCode,
    /// The metadata of the runtime is not of version 14.
    #[error("expected metadata of version 14, found: {0}")]
    Metadata(String),
    /// The runtime lacks a call, or this crate does not know one of its extensions.
    #[error("expected {0}, found none")]
    Missing(String),
    /// The runtime refused an extrinsic.
    #[error(transparent)]
    Refused(#[from] RefusedExtrinsic),
    /// The runtime failed.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// The genesis state could not be made.
    #[error(transparent)]
    State(#[from] StateError),
    /// An extrinsic is not encoded as one.
    #[error("expected an encoded extrinsic, found: {0}")]
    Extrinsic(#[from] codec::Error),
    /// The host failed.
    #[error("the host failed")]
    Host(#[from] HostError),
}

/// Returns a block of `transfers` transfers between as many accounts on the chain of `spec`, and its
/// parent state: the genesis with these accounts.
///
/// # Errors
/// [`ChainError`] if the chain's runtime is not that of a present relay chain, or refuses the block.
pub fn relay_chain_block(
    mut spec: ChainSpec,
    transfers: u32,
    seed: u64,
) -> Result<(RealBlocks, ChainSpec), ChainError> {
    let keys: Vec<_> = (0..transfers.max(1))
        .map(|index| sr25519::Pair::from_seed(&Blake2Hasher::hash(&(seed, index).encode()).0))
        .collect();
    endow(&mut spec.top, &keys);
    let code = spec.top.get(CODE).ok_or(ChainError::NoCode)?.clone();
    let pages = spec.top.get(HEAP_PAGES);
    let pages = pages.and_then(|pages| u64::decode(&mut pages.as_slice()).ok());
    let runtime = WasmRuntime::new(code, pages);
    let chain = Chain::new(&spec, &runtime)?;
    let body = chain.body(&keys, transfers)?;
    let header = chain.build(&body)?;
    let hash = header.hash();
    let name = spec.name.clone().or_else(|| spec.id.clone());
    let blocks = RealBlocks {
        name: name.unwrap_or_default(),
        state_path: PathBuf::new(),
        state_version: chain.version.state_version(),
        blocks: vec![RealBlock { hash, header, body }],
    };
    Ok((blocks, spec))
}

/// Adds an endowed account for each key.
fn endow(top: &mut Entries, keys: &[sr25519::Pair]) {
    for key in keys {
        let account = Blake2_128Concat::hash(&key.public().0);
        let prefix = storage_prefix(b"System", b"Account");
        let counts: [u32; 4] = [0, 0, 1, 0];
        let balance: [u128; 4] = [ENDOWMENT, 0, 0, NEW_LOGIC];
        top.insert([&prefix[..], &account].concat(), (counts, balance).encode());
    }
    let issuance = storage_prefix(b"Balances", b"TotalIssuance").to_vec();
    let before = top.get(&issuance);
    let before = before.and_then(|value| u128::decode(&mut value.as_slice()).ok());
    let endowed = ENDOWMENT.saturating_mul(keys.len() as u128);
    let after = before.unwrap_or_default().saturating_add(endowed);
    top.insert(issuance, after.encode());
}

/// A chain at its genesis.
struct Chain<'a> {
    runtime: &'a WasmRuntime,
    version: RuntimeVersion,
    metadata: Metadata,
    store: MemoryStore,
    root: Root,
    genesis: H256,
}

impl<'a> Chain<'a> {
    fn new(spec: &ChainSpec, runtime: &'a WasmRuntime) -> Result<Self, ChainError> {
        let (version, metadata) = BasicExternalities::default().execute_with(|| {
            let version: RuntimeVersion = runtime.call_for("Core_version", &[])?;
            Ok::<_, RuntimeError>((version, runtime.call("Metadata_metadata", &[])?))
        })?;
        let mut store = MemoryStore::new();
        let state_version = version.state_version();
        let root = commit_state(&mut store, &spec.top, &spec.children, state_version, None)?;
        Ok(Self {
            runtime,
            metadata: Metadata::decode(&metadata)?,
            version,
            store,
            root,
            genesis: genesis_hash(H256(root.into())),
        })
    }

    /// Returns the extrinsics, without length prefix.
    fn body(&self, keys: &[sr25519::Pair], transfers: u32) -> Result<Vec<Vec<u8>>, ChainError> {
        // A bare extrinsic starts with its version.
        let bare = |call: [u8; 2], arguments: Vec<u8>| [&[4][..], &call, &arguments].concat();
        let now = Compact(SLOT * SLOT_MS).encode();
        let mut body = vec![bare(self.metadata.call("Timestamp", "set")?, now)];
        if self.metadata.has("ParaInherent") {
            // Parachains have no data, and genesis is the parent.
            let none: [Vec<()>; 3] = Default::default();
            let data = (
                none[0].clone(),
                none[1].clone(),
                none[2].clone(),
                self.parent(),
            );
            body.push(bare(
                self.metadata.call("ParaInherent", "enter")?,
                data.encode(),
            ));
        }
        let transfer = self.metadata.call("Balances", "transfer_keep_alive")?;
        let (explicit, implied) = self.metadata.extensions(&self.version, self.genesis, 0)?;
        for (index, key) in keys.iter().take(transfers as usize).enumerate() {
            let to = keys[(index + 1) % keys.len()].public();
            let id = 0u8;
            let call = (transfer, id, to.0, Compact(MOVED)).encode();
            let payload = [&call[..], &explicit, &implied].concat();
            let signature = match payload.len() {
                0..=256 => key.sign(&payload),
                _ => key.sign(Blake2Hasher::hash(&payload).as_bytes()),
            };
            let (signed, sr25519) = (0x84u8, 1u8);
            let preamble = (signed, id, key.public().0, sr25519, signature.0).encode();
            body.push([preamble, explicit.clone(), call].concat());
        }
        Ok(body)
    }

    /// Returns the genesis header.
    fn parent(&self) -> RealHeader {
        let extrinsics_root = Blake2Hasher::hash(&[0]);
        let state_root = H256(self.root.into());
        let digest = Digest::default();
        RealHeader::new(0, extrinsics_root, state_root, H256::zero(), digest)
    }

    /// Builds the block with this body on povmeter, and returns its header.
    fn build(&self, body: &[Vec<u8>]) -> Result<RealHeader, ChainError> {
        let host = PovmeterBlock::on(
            self.store.clone(),
            self.root,
            self.version.state_version(),
            Estimates::Nowhere,
            SizeSource::Reads,
        );
        // BABE: the first authority claims the slot without a lottery.
        let (plain, authority) = (2u8, 0u32);
        let claim = DigestItem::PreRuntime(*b"BABE", (plain, authority, SLOT).encode());
        let digest = Digest { logs: vec![claim] };
        let zero = H256::zero();
        let header = RealHeader::new(1, zero, zero, self.genesis, digest);
        let (header, _) = author(host, self.runtime, &header, body)?;
        Ok(header)
    }
}
