//! A collator: authors blocks of a parachain on povmeter.

use crate::{act::digest_of, pov::Pov, relay::RelayState, Act, BundlePlace, Step};
use codec::{Decode, Encode};
use povmeter::{BlockError, EarlierNodes, Root, StorageProof};
use povmeter_dev_runtime::{
    commit_state,
    runtime::{Extrinsic, Header},
    wasm::WasmRuntime,
    Entries, RuntimeError, SharedNodes, StateError,
};
use povmeter_store::{MemoryStore, NodeStore, StoreError};
use povmeter_substrate::{MachineError, SealedMachine, SizeSource, StateMachine};
use sp_core::{storage::StateVersion, storage::Storage, H256};
use sp_runtime::{traits::Header as _, ApplyExtrinsicResult, DigestItem};
use std::collections::BTreeMap;

/// The state version of the runtime in wasm.
const VERSION: StateVersion = StateVersion::V1;
/// Milliseconds from one block to the next.
const BLOCK_TIME: u64 = 6_000;

/// Why a block was not authored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum CollatorError {
    #[error("the state was not made")]
    State(#[from] StateError),
    #[error("the state machine failed")]
    Machine(#[from] MachineError),
    #[error("the runtime failed")]
    Runtime(#[from] RuntimeError),
    #[error("the block was not committed")]
    Store(#[from] StoreError),
    #[error("the proof was not packed")]
    Proof(#[from] povmeter::ProofError),
    #[error("expected an extrinsic to be applied, found {0:?}")]
    Refused(ApplyExtrinsicResult),
}

impl From<BlockError> for CollatorError {
    fn from(error: BlockError) -> Self {
        Self::Machine(error.into())
    }
}

/// What the author of one block chooses.
#[derive(Clone, Debug, Default)]
pub struct Draft {
    /// Its extrinsics, besides the inherents.
    pub extrinsics: Vec<Extrinsic>,
    /// What the block does after the inherents.
    pub acts: Vec<Act>,
    /// The storage calls that the block makes before the inherents.
    pub steps: Vec<Step>,
    /// More items for the digest of its header.
    pub digest: Vec<DigestItem>,
    /// Whether the block gets a seal.
    pub sealed: bool,
    /// Whether `digest` holds the block's place in the PoV. Otherwise the collator adds it in a PoV of
    /// several blocks.
    pub place_is_known: bool,
}

/// One PoV, and the results of its blocks on the collator.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The PoV, and what the relay chain knows of it.
    pub pov: Pov,
    /// The proof of all its blocks.
    pub proof: StorageProof,
    /// For each block, the proof sizes that the runtime got, in order.
    pub sizes: Vec<Vec<u64>>,
    /// The extrinsics in its blocks whose calls failed.
    pub failed: usize,
}

/// A parachain's head and state, and its runtime.
#[derive(Clone)]
pub struct Collator {
    runtime: WasmRuntime,
    store: MemoryStore,
    head: Header,
    timestamp: u64,
}

/// The key and the value of the entry of the state that seals blocks.
const SEALER: (&[u8], &[u8]) = (
    b":sealer",
    b"the sealer of blocks, by name: a value of its own node",
);

impl Collator {
    /// A collator of the parachain that begins with the state `genesis`, `children` added to it, and
    /// that runs `code`.
    ///
    /// # Errors
    /// [`CollatorError::State`].
    pub fn new(
        genesis: &Storage,
        children: &BTreeMap<Vec<u8>, Entries>,
        code: &[u8],
    ) -> Result<Self, CollatorError> {
        let mut top = genesis.top.clone();
        top.insert(SEALER.0.to_vec(), SEALER.1.to_vec());
        let mut store = MemoryStore::new();
        commit_state(&mut store, &top, children, VERSION, None)?;
        let root = H256(*store.root().as_bytes());
        let zero = H256::zero();
        Ok(Self {
            runtime: WasmRuntime::new(code.to_vec(), None),
            head: Header::new(0, zero, root, zero, Default::default()),
            store,
            timestamp: 1_763_683_200_000,
        })
    }

    /// The header of the last block.
    pub fn head(&self) -> &Header {
        &self.head
    }

    /// The state after the last block.
    pub fn store(&self) -> &MemoryStore {
        &self.store
    }

    /// Authors a block of each of `drafts`, one on top of the other, in one PoV, and goes on to the state
    /// after the last. The runtime gets its proof sizes by `sizes`.
    ///
    /// # Errors
    /// [`CollatorError`]. The collator may have committed some of the blocks.
    pub fn author(
        &mut self,
        drafts: &[Draft],
        relay: &RelayState,
        sizes: &SizeSource,
    ) -> Result<Candidate, CollatorError> {
        let parent_head = self.head.encode();
        let parent_root = self.store.root();
        let mut earlier = EarlierNodes::new();
        let (mut blocks, mut told, mut nodes) = (Vec::new(), Vec::new(), Vec::new());
        let (mut failed, mut relay_root) = (0, H256::zero());
        for (index, draft) in drafts.iter().enumerate() {
            self.timestamp += BLOCK_TIME;
            let (inherent, root) = relay.inherent(&parent_head, self.timestamp);
            relay_root = root;
            let needs_place = drafts.len() > 1 && !draft.place_is_known;
            let place = needs_place.then_some(BundlePlace {
                index,
                count: drafts.len(),
            });
            let mut header = Header::new(
                self.head.number + 1,
                H256::zero(),
                H256::zero(),
                self.head.hash(),
                Default::default(),
            );
            header.digest.logs = draft.digests(place);
            let mut machine = self.machine(sizes.clone());
            machine.ignore(&earlier)?;
            let built = self.build(&mut machine, header, inherent.encode(), draft)?;
            let (mut header, body, failures) = built;
            failed += failures;
            let SealedMachine { block, sizes, .. } =
                machine.seal(VERSION).map_err(MachineError::from)?;
            if draft.sealed {
                let seal = sp_io::hashing::blake2_256(&(&header, SEALER.1.to_vec()).encode());
                header
                    .digest
                    .logs
                    .push(DigestItem::Seal(*b"SEAL", seal.to_vec()));
            }
            earlier.extend(&block);
            self.store.commit(block.update())?;
            nodes.extend(block.proof().nodes().iter().cloned());
            self.head = header.clone();
            told.push(sizes);
            blocks.push((header, body));
        }
        let proof = StorageProof::new(nodes);
        Ok(Candidate {
            pov: Pov {
                parent_head,
                relay_parent_number: relay.number,
                relay_parent_storage_root: relay_root,
                blocks,
                proof: proof.to_compact(parent_root)?.items().to_vec(),
                version: Default::default(),
                scheduling: None,
            },
            proof,
            sizes: told,
            failed,
        })
    }

    fn machine(&self, sizes: SizeSource) -> StateMachine<SharedNodes> {
        let root: Root = self.store.root();
        StateMachine::new(SharedNodes::new(self.store.clone()), root, sizes)
    }

    /// Runs the block; returns its header, its extrinsics, and how many of their calls failed.
    fn build(
        &self,
        machine: &mut StateMachine<SharedNodes>,
        header: Header,
        inherent: Vec<u8>,
        draft: &Draft,
    ) -> Result<(Header, Vec<Vec<u8>>, usize), CollatorError> {
        let runtime = &self.runtime;
        machine.execute(|| runtime.call("Core_initialize_block", &header.encode()))??;
        // The question for the inherents is no part of the block.
        machine.start_transaction();
        let inherents = machine.execute(|| {
            runtime.call_for::<Vec<InherentBytes>>("BlockBuilder_inherent_extrinsics", &inherent)
        })??;
        machine.rollback_transaction()?;
        let mut body: Vec<Vec<u8>> = inherents.into_iter().map(|inherent| inherent.0).collect();
        body.extend(draft.extrinsics.iter().map(Encode::encode));
        let mut failed = 0;
        for extrinsic in &body {
            machine.start_transaction();
            let result: ApplyExtrinsicResult = machine
                .execute(|| runtime.call_for("BlockBuilder_apply_extrinsic", extrinsic))??;
            match result {
                Ok(Ok(())) => {}
                Ok(Err(_)) => failed += 1,
                Err(_) => return Err(CollatorError::Refused(result)),
            }
            machine.commit_transaction()?;
        }
        let header = machine.execute(|| runtime.call_for("BlockBuilder_finalize_block", &[]))??;
        Ok((header, body, failed))
    }
}

impl Draft {
    /// The digest of its header.
    fn digests(&self, place: Option<BundlePlace>) -> Vec<DigestItem> {
        let mut digest = self.digest.clone();
        digest.extend(place.map(BundlePlace::digest));
        let mut steps = self.steps.clone();
        if self.sealed {
            // The proof has to hold what the check of the seal reads: here this entry, in a consensus the
            // authorities.
            steps.push(Step::Get(None, SEALER.0.to_vec()));
        }
        if !steps.is_empty() {
            digest.push(digest_of(&steps));
        }
        if !self.acts.is_empty() {
            digest.push(Act::digest(&self.acts));
        }
        digest
    }
}

/// An encoded extrinsic of a runtime whose calls this program does not know.
struct InherentBytes(Vec<u8>);

impl Decode for InherentBytes {
    fn decode<I: codec::Input>(input: &mut I) -> Result<Self, codec::Error> {
        // An extrinsic is a list of bytes; its encoding begins with its length.
        Ok(Self(Vec::<u8>::decode(input)?.encode()))
    }
}
