//! Validation of a PoV.
//!
//! ```text
//! decode the arguments; check that the blocks are a chain on the parachain's head
//! nodes = unpack(proof), which commits to the state of the head
//! for each block:
//!     on the state before it, counting nothing:  check the seal, and take it off
//!     on the state before it, counting:          execute the block, which checks its state root
//!     on the state after it, counting nothing:   check the validation data, collect messages
//!     nodes += what the block wrote
//! ```
//! A node counts once in a PoV: not again in a later block, and not at all if a block of the PoV wrote it.

use crate::{
    block_data::{Params, Pov},
    chain, host,
    messages::{head_data, Messages},
    session::{run, Session, Sizes},
    settings::{HashRule, SizeRule},
    state_hasher::StateHasher,
};
use alloc::{sync::Arc, vec::Vec};
use bytes::Bytes;
use codec::{decode_from_bytes, Encode};
use cumulus_pallet_parachain_system::{
    validate_block::scheduling::validate_v3_scheduling, Call, Config, Pallet, ValidationData,
};
use cumulus_primitives_core::{
    relay_chain::{BlockNumber, Hash, Header as RelayHeader, Slot},
    SignedSchedulingInfo, VerifySchedulingSignature,
};
use frame_support::traits::{ExecuteBlock, Get, IsSubType};
use polkadot_parachain_primitives::primitives::ValidationResult;
use povmeter::{
    seed_hash_tables, CompactProof, EarlierNodes, Hashing, ProofNodes, Root, StateVersion, TrieId,
};
use sp_consensus_babe::digests::CompatibleDigestItem;
use sp_core::storage::well_known_keys;
use sp_runtime::traits::{Block, ExtrinsicCall, HashingFor, Header, LazyBlock};

/// Validates the PoV in `params`.
///
/// # Panics
/// If the PoV is not valid, or can't be validated.
pub(crate) fn validate<B, E, C, S, H>(params: Params) -> ValidationResult
where
    B: Block,
    HashingFor<B>: StateHasher,
    B::Extrinsic: ExtrinsicCall,
    <B::Extrinsic as ExtrinsicCall>::Call: IsSubType<Call<C>>,
    E: ExecuteBlock<B>,
    C: Config,
    S: SizeRule,
    H: HashRule,
{
    let Params {
        parent_head,
        block_data,
        relay_parent_number,
        relay_parent_storage_root,
        extension,
    } = params;
    let pov = Pov::<B::LazyBlock>::decode(block_data);
    let Pov {
        blocks,
        proof,
        scheduling,
    } = pov.expect("the PoV can't be decoded");
    let relay_parent = (relay_parent_number, relay_parent_storage_root);
    let _replaced = host::replace();
    let scheduling = validate_v3_scheduling(
        C::SchedulingSignatureVerifier::V3_SCHEDULING_ENABLED,
        &extension.0,
        scheduling.as_ref(),
        C::RelayParentOffset::get(),
        Pallet::<C>::max_claim_queue_offset(),
    );
    let seed = chain::seed::<B>(&blocks, &relay_parent_storage_root);
    sp_trie::add_extra_randomness(seed);
    seed_hash_tables(seed);

    let parent = decode_from_bytes::<B::Header>(parent_head.clone());
    let parent = parent.expect("the head of the parachain can't be decoded");
    chain::check::<B>(&blocks, &parent);
    let mut pov = Validation {
        nodes: unpack(proof, root_of::<B>(&parent), H::hashing()),
        root: root_of::<B>(&parent),
        earlier: EarlierNodes::with_hashing(H::hashing()),
        hashing: H::hashing(),
    };
    let signed = scheduling.and_then(|scheduling| {
        let header = scheduling.internal_scheduling_parent_header;
        scheduling
            .signed_scheduling_info
            .map(|signed| (signed, header))
    });
    if let Some((signed, header)) = &signed {
        pov.check_signature::<C>(signed, header);
    }

    let count = blocks.len();
    let mut messages = Messages::default();
    let mut head = Vec::new();
    for (index, mut block) in blocks.into_iter().enumerate() {
        let header = block.header().clone();
        pov.unsealed(|| E::verify_and_remove_seal(&mut block));
        let mut session = pov.begin(if S::WITH_ROOT {
            Sizes::WithRoot
        } else {
            Sizes::Reads
        });
        run(&mut session, || E::execute_verified_block(block));
        assert!(
            count == 1 || !upgrades_code::<C>(&mut session),
            "expected one block in a PoV that upgrades the runtime, found {count}"
        );
        session.uncounted(|| {
            check_validation_data::<C>(&parent_head, relay_parent);
            messages.collect::<C>();
            if index + 1 == count {
                head = head_data::<C>(header.encode());
            }
        });
        if index + 1 < count {
            pov.advance::<C>(session, root_of::<B>(&header));
        }
    }
    messages.into_result(head, signed.as_ref().map(|(signed, _)| signed))
}

/// The state root of `header`.
fn root_of<B: Block>(header: &B::Header) -> Root {
    let root: Result<[u8; 32], _> = header.state_root().as_ref().try_into();
    Root::from(root.expect("a state root has 32 bytes"))
}

/// The nodes of a compact proof of the state of `root`.
fn unpack(items: Vec<Bytes>, root: Root, hashing: Hashing) -> Arc<ProofNodes> {
    // A proof without items would be a proof of any state.
    assert!(
        !items.is_empty(),
        "expected a proof of the parent state, found one without nodes"
    );
    match CompactProof::new(items).to_source_with(root, hashing) {
        Ok(nodes) => Arc::new(nodes),
        Err(error) => panic!("the proof can't be unpacked: {error}"),
    }
}

/// What is known between two blocks of a PoV.
struct Validation {
    nodes: Arc<ProofNodes>,
    root: Root,
    earlier: EarlierNodes,
    hashing: Hashing,
}

impl Validation {
    /// A session for the next block.
    fn begin(&self, sizes: Sizes) -> Session {
        let mut session = Session::new(self.nodes.clone(), self.root, self.hashing, sizes);
        if sizes != Sizes::Nothing {
            let ignored = session.block().ignore(&self.earlier);
            ignored.expect("earlier blocks of the PoV have fewer nodes than a block can load");
        }
        session
    }

    /// Runs `call` on the state before the next block. Changes are dropped, and nothing counts.
    fn unsealed<R>(&self, call: impl FnOnce() -> R) -> R {
        run(&mut self.begin(Sizes::Nothing), call)
    }

    /// Checks the signature of the scheduling info, which chooses cores.
    fn check_signature<C: Config>(&self, signed: &SignedSchedulingInfo, header: &RelayHeader) {
        let slot = relay_slot(header);
        let slot =
            slot.expect("expected a slot in the digest of the relay chain's header, found none");
        let holds = self.unsealed(|| C::SchedulingSignatureVerifier::verify(signed, slot));
        assert!(
            holds,
            "V3 scheduling validation failed: the signature of the scheduling info is invalid at {:?}",
            header.hash()
        );
    }

    /// Goes on to the state after a block, whose root is `root`.
    fn advance<C: Config>(&mut self, session: Session, root: Root) {
        let version = <C as frame_system::Config>::Version::get().state_version();
        let version = match version {
            sp_core::storage::StateVersion::V0 => StateVersion::V0,
            sp_core::storage::StateVersion::V1 => StateVersion::V1,
        };
        let sealed = match session.into_block().seal(version) {
            Ok(sealed) => sealed,
            Err(refused) => panic!("the block can't be sealed: {}", refused.into_parts().1),
        };
        self.earlier.extend(&sealed);
        Arc::make_mut(&mut self.nodes).extend(sealed.update());
        self.root = root;
    }
}

/// The slot of a header of the relay chain, whose consensus is BABE.
fn relay_slot(header: &RelayHeader) -> Option<Slot> {
    let mut logs = header.digest.logs().iter();
    let digest = logs.find_map(CompatibleDigestItem::as_babe_pre_digest)?;
    Some(digest.slot())
}

/// Whether the block replaced the runtime's code, or will do so.
fn upgrades_code<C: Config>(session: &mut Session) -> bool {
    let is_pending = <C as frame_system::Config>::Version::get().system_version >= 3;
    let key = if is_pending {
        well_known_keys::PENDING_CODE
    } else {
        well_known_keys::CODE
    };
    session.block().is_changed(TrieId::Top, key)
}

/// Checks that the block's validation data is the relay chain's.
///
/// # Panics
/// If it is not.
fn check_validation_data<C: Config>(parent_head: &[u8], relay_parent: (BlockNumber, Hash)) {
    let found = ValidationData::<C>::get().expect("a block sets its validation data");
    assert!(
        *parent_head == *found.parent_head.0,
        "expected the relay chain's head of the parachain in the validation data, found another"
    );
    let found = (found.relay_parent_number, found.relay_parent_storage_root);
    assert!(
        found == relay_parent,
        "expected relay parent {relay_parent:?} in the validation data, found {found:?}"
    );
}
