//! What validators refuse: the stock function and povmeter's alike, povmeter's with the reason.
#![cfg(feature = "wasm")]
#![allow(clippy::unwrap_used)]

use codec::Encode;
use polkadot_parachain_primitives::primitives::ValidationParamsExtension;
use povmeter_dev_runtime::{wasm::parachain, Plan, PlanOptions};
use povmeter_dev_validation::{
    Act, BundlePlace, Candidate, Collator, Draft, Pov, PovVersion, RelayState, Step, Validator,
};
use povmeter_substrate::SizeSource;
use sp_core::H256;
use sp_runtime::DigestItem;
use std::{collections::BTreeMap, sync::LazyLock};

static STOCK: LazyLock<Validator> = LazyLock::new(|| Validator::new(parachain::STOCK).unwrap());
static OURS: LazyLock<Validator> = LazyLock::new(|| Validator::new(parachain::READS).unwrap());

fn author(drafts: &[Draft]) -> Candidate {
    let options = PlanOptions {
        accounts: 20,
        transfers: 0,
        ..PlanOptions::default()
    };
    let plan = Plan::new(options).unwrap();
    let none = BTreeMap::new();
    let mut collator = Collator::new(plan.genesis(), &none, parachain::STOCK).unwrap();
    let relay = RelayState::default();
    collator.author(drafts, &relay, &SizeSource::Reads).unwrap()
}

/// A PoV of this many empty blocks.
fn pov(blocks: usize) -> Pov {
    author(&vec![Draft::default(); blocks]).pov
}

#[track_caller]
fn accepted(pov: &Pov) {
    for validator in [&*STOCK, &*OURS] {
        let validation = validator.validate(&pov.arguments()).unwrap();
        assert!(validation.result.is_ok(), "{:?}", validation.result);
    }
}

#[track_caller]
fn refused_arguments(arguments: &[u8], reason: &str) {
    let stock = STOCK.validate(arguments).unwrap();
    assert!(stock.result.is_err(), "stock: {:?}", stock.result);
    let found = OURS.validate(arguments).unwrap().result.unwrap_err();
    assert!(found.contains(reason), "{found}");
}

#[track_caller]
fn refused(pov: &Pov, reason: &str) {
    refused_arguments(&pov.arguments(), reason);
}

#[test]
fn a_seal_is_checked_and_taken_off() {
    let sealed = Draft {
        sealed: true,
        ..Draft::default()
    };
    let mut pov = author(&[sealed]).pov;
    accepted(&pov);
    let logs = &mut pov.blocks[0].0.digest.logs;
    let Some(DigestItem::Seal(_, seal)) = logs.last_mut() else {
        panic!("{logs:?}")
    };
    seal[0] ^= 1;
    refused(&pov, "the seal of the block is invalid");
}

#[test]
fn the_head_is_the_parent() {
    let mut pov = pov(1);
    let mut head = pov.blocks[0].0.clone();
    head.number = 0;
    pov.parent_head = head.encode();
    refused(&pov, "expected block 0 of the PoV to be a child of");
    pov.parent_head.truncate(3);
    refused(&pov, "the head of the parachain can't be decoded");
}

#[test]
fn the_relay_parent_is_that_of_the_inherent() {
    let good = pov(1);
    let mut pov = good.clone();
    pov.relay_parent_number += 1;
    refused(&pov, "in the validation data, found");
    pov.clone_from(&good);
    pov.relay_parent_storage_root = H256::repeat_byte(7);
    refused(&pov, "in the validation data, found");
}

#[test]
fn blocks_are_a_chain() {
    let good = pov(3);
    accepted(&good);
    let mut pov = good.clone();
    pov.blocks.swap(1, 2);
    refused(&pov, "expected block 1 of the PoV to be a child of");
    pov.clone_from(&good);
    pov.blocks.pop();
    refused(&pov, "to be marked as the last of its core");
    pov.blocks.clear();
    refused(&pov, "expected at least one block in the PoV, found none");
}

#[test]
fn blocks_know_their_place() {
    // Each block tells its place, or none.
    let bundle = |places: &[Option<BundlePlace>]| {
        let drafts: Vec<Draft> = places
            .iter()
            .map(|place| Draft {
                digest: place.map(BundlePlace::digest).into_iter().collect(),
                place_is_known: true,
                ..Draft::default()
            })
            .collect();
        author(&drafts).pov
    };
    let place = |index, count| Some(BundlePlace { index, count });
    accepted(&bundle(&[place(0, 2), place(1, 2)]));
    for (places, reason) in [
        (
            [place(0, 1), place(1, 2)],
            "the last of its core, to be the last of 2 blocks",
        ),
        (
            [place(0, 2), place(1, 3)],
            "expected the last block of the PoV to be marked",
        ),
        (
            [place(0, 2), place(0, 1)],
            "expected index 1 in `BlockBundleInfo`, found 0",
        ),
        (
            [place(0, 2), None],
            "expected `BlockBundleInfo` in every block",
        ),
        (
            [None, None],
            "expected one block in a PoV without `BlockBundleInfo`, found 2",
        ),
        (
            [None, place(1, 2)],
            "expected one block in a PoV without `BlockBundleInfo`, found 2",
        ),
    ] {
        refused(&bundle(&places), reason);
    }
}

#[test]
fn a_header_has_a_limit() {
    let draft = |bytes| Draft {
        digest: vec![DigestItem::PreRuntime(*b"HUGE", vec![0; bytes])],
        ..Draft::default()
    };
    accepted(&author(&[draft(1_000_000)]).pov);
    refused(
        &author(&[draft(1 << 20)]).pov,
        "expected a header of at most 1048576 bytes",
    );
}

#[test]
fn an_upgrade_is_alone_in_its_pov() {
    let upgrade = Draft {
        steps: vec![Step::Set(None, b":code".to_vec(), vec![1, 2, 3])],
        ..Draft::default()
    };
    accepted(&author(std::slice::from_ref(&upgrade)).pov);
    let reason = "expected one block in a PoV that upgrades the runtime, found 2";
    refused(&author(&[Draft::default(), upgrade]).pov, reason);
}

#[test]
fn messages_of_all_blocks_are_collected() {
    let draft = |messages: u8| Draft {
        acts: (0..messages).map(|byte| Act::SendUp(vec![byte])).collect(),
        ..Draft::default()
    };
    let four = author(&vec![draft(4); 4]).pov;
    accepted(&four);
    let result = OURS
        .validate(&four.arguments())
        .unwrap()
        .decoded()
        .unwrap()
        .unwrap();
    assert!(!result.upward_messages.is_empty());
}

#[test]
fn a_proof_is_whole() {
    let good = pov(1);
    let mut pov = good.clone();
    pov.proof.clear();
    refused(
        &pov,
        "expected a proof of the parent state, found one without nodes",
    );
    for length in [1, good.proof.len() - 1] {
        pov.proof = good.proof[..length].to_vec();
        refused(&pov, "the proof can't be unpacked");
    }
    pov.proof = [&good.proof[..], &good.proof[..1]].concat();
    refused(&pov, "the proof can't be unpacked");
    pov.proof.clone_from(&good.proof);
    pov.proof[0] = vec![0].into();
    refused(&pov, "the proof can't be unpacked");
}

#[test]
fn encodings_are_whole() {
    let pov = pov(1);
    let data = pov.block_data();
    for length in [0, 5, 12, 13, 14, data.len() - 1] {
        refused_arguments(
            &pov.arguments_with(&data[..length]),
            "the PoV can't be decoded",
        );
    }
    let mut other = data.clone();
    other[12] = 3;
    refused_arguments(&pov.arguments_with(&other), "the PoV can't be decoded");
    // A list that says it has 2^30 - 1 items.
    let bomb = [&data[..13], &[0xfe, 0xff, 0xff, 0xff]].concat();
    refused_arguments(&pov.arguments_with(&bomb), "the PoV can't be decoded");
    let arguments = pov.arguments();
    refused_arguments(&arguments[..arguments.len() - 1], "can't be decoded");
    // The encoding without a version.
    let mut old = pov.clone();
    old.version = PovVersion::V0;
    accepted(&old);
}

#[test]
fn candidates_of_the_third_version_need_a_runtime_for_them() {
    let pov = pov(1);
    let extension = ValidationParamsExtension::V3 {
        relay_parent: H256::zero(),
        scheduling_parent: H256::zero(),
    };
    let arguments = [pov.arguments(), extension.encode()].concat();
    refused_arguments(
        &arguments,
        "V3 extension present but V3 scheduling is disabled",
    );
}
