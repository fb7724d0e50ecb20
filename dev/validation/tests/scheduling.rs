//! Candidates of the third version: cores that the author chooses after the block was built.
#![cfg(feature = "wasm")]
#![allow(clippy::unwrap_used)]

use codec::Encode;
use cumulus_primitives_core::{
    CoreSelector, SchedulingInfoPayload, SchedulingProof, SignedSchedulingInfo,
};
use polkadot_parachain_primitives::primitives::ValidationParamsExtension;
use povmeter_dev_runtime::{runtime::Header, wasm::parachain, Plan, PlanOptions};
use povmeter_dev_validation::{
    Act, Collator, Draft, Pov, PovVersion, RelayState, Scheduling, Step, Validator,
};
use povmeter_substrate::SizeSource;
use sp_core::H256;
use sp_runtime::{traits::Header as _, DigestItem};
use std::{collections::BTreeMap, sync::LazyLock};

static BOTH: LazyLock<[Validator; 2]> = LazyLock::new(|| {
    [parachain::STOCK_SCHEDULING, parachain::READS_SCHEDULING]
        .map(|blob| Validator::new(blob).unwrap())
});

/// The signature that the runtime accepts.
const SIGNATURE: [u8; 64] = [9; 64];

/// A PoV whose block reads the accepted signature, and sends a message.
fn pov() -> Pov {
    let options = PlanOptions {
        accounts: 20,
        transfers: 0,
        ..PlanOptions::default()
    };
    let plan = Plan::new(options).unwrap();
    let mut genesis = plan.genesis().clone();
    genesis
        .top
        .insert(b":scheduler".to_vec(), SIGNATURE.to_vec());
    let code = parachain::STOCK_SCHEDULING;
    let mut collator = Collator::new(&genesis, &BTreeMap::new(), code).unwrap();
    let draft = Draft {
        steps: vec![Step::Get(None, b":scheduler".to_vec())],
        acts: vec![Act::SendUp(vec![1, 2, 3])],
        ..Draft::default()
    };
    let relay = RelayState::default();
    let candidate = collator.author(&[draft], &relay, &SizeSource::Reads);
    let mut pov = candidate.unwrap().pov;
    pov.version = PovVersion::V2;
    pov
}

/// A header of the relay chain, of this slot.
fn relay_header(slot: u64) -> Header {
    let zero = H256::zero();
    let mut header = Header::new(7, zero, zero, zero, Default::default());
    // A secondary slot of BABE: kind, authority and slot.
    let digest = (2_u8, 0_u32, slot).encode();
    header
        .digest
        .logs
        .push(DigestItem::PreRuntime(*b"BABE", digest));
    header
}

fn signed(parent: H256, signature: [u8; 64]) -> SignedSchedulingInfo {
    SignedSchedulingInfo {
        payload: SchedulingInfoPayload::new(CoreSelector(3), 0, Default::default(), parent),
        signature,
    }
}

/// Scheduling with the header of this slot as scheduling parent, and with this signature. Without a relay
/// parent, the header is the relay parent, too.
fn scheduling(slot: u64, signature: Option<[u8; 64]>, relay_parent: Option<H256>) -> Scheduling {
    let header = relay_header(slot);
    let parent = header.hash();
    Scheduling {
        proof: SchedulingProof {
            header_chain: Vec::new(),
            internal_scheduling_parent_header: header,
            signed_scheduling_info: signature.map(|signature| signed(parent, signature)),
        },
        extension: ValidationParamsExtension::V3 {
            relay_parent: relay_parent.unwrap_or(parent),
            scheduling_parent: parent,
        },
    }
}

/// The messages to the relay chain, if both accept; fails if they disagree.
#[track_caller]
fn upward(pov: &Pov) -> Result<Vec<Vec<u8>>, String> {
    let arguments = pov.arguments();
    let [stock, ours] = BOTH
        .each_ref()
        .map(|side| side.validate(&arguments).unwrap());
    match (&stock.result, &ours.result) {
        (Ok(stock), Ok(ours)) => assert_eq!(stock, ours),
        (Err(_), Err(_)) => {}
        _ => panic!("stock {:?}, povmeter {:?}", stock.result, ours.result),
    }
    let result = ours.decoded().unwrap();
    result
        .map(|result| result.upward_messages.into_inner())
        .ok_or_else(|| ours.result.unwrap_err())
}

#[test]
fn a_first_submission_needs_no_signature() {
    let mut pov = pov();
    pov.scheduling = Some(scheduling(4, None, None));
    assert_eq!(upward(&pov).unwrap(), [vec![1, 2, 3]]);
}

#[test]
fn a_signature_chooses_the_core() {
    let mut pov = pov();
    for relay_parent in [None, Some(H256::repeat_byte(5))] {
        pov.scheduling = Some(scheduling(4, Some(SIGNATURE), relay_parent));
        // The message, the separator, the core and the peer.
        assert_eq!(upward(&pov).unwrap().len(), 4);
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let mut pov = pov();
    let other = Some(H256::repeat_byte(5));
    for (chosen, reason) in [
        (
            Some(scheduling(4, Some([8; 64]), None)),
            "the signature of the scheduling info is invalid",
        ),
        (
            Some(scheduling(3, Some(SIGNATURE), None)),
            "the signature of the scheduling info is invalid",
        ),
        (
            Some(scheduling(4, None, other)),
            "MissingSignedSchedulingInfo",
        ),
        (None, "V3"),
    ] {
        pov.scheduling = chosen;
        pov.version = match pov.scheduling {
            Some(_) => PovVersion::V2,
            None => PovVersion::V1,
        };
        let refused = upward(&pov).unwrap_err();
        assert!(refused.contains(reason), "{refused}");
    }
    pov.scheduling = Some(scheduling(4, None, None));
    pov.version = PovVersion::V1;
    let refused = upward(&pov).unwrap_err();
    assert!(
        refused.contains("require ParachainBlockData::V2"),
        "{refused}"
    );
}
