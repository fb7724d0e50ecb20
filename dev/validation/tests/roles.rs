//! Author, importer and validator of parachain blocks, in real wasm.
#![cfg(feature = "wasm")]
#![allow(clippy::unwrap_used)]

use codec::Encode;
use povmeter_dev_runtime::{wasm::parachain, CallKind, Plan, PlanOptions};
use povmeter_dev_validation::{Candidate, Collator, Draft, RelayState, Validator};
use povmeter_substrate::SizeSource;
use std::collections::BTreeMap;

fn plan(transfers: u32, call: CallKind) -> Plan {
    let options = PlanOptions {
        accounts: 200,
        transfers,
        call,
        ..PlanOptions::default()
    };
    Plan::new(options).unwrap()
}

fn candidate(plan: &Plan, sizes: &SizeSource) -> Candidate {
    let mut collator = Collator::new(plan.genesis(), &BTreeMap::new(), parachain::STOCK).unwrap();
    let draft = Draft {
        extrinsics: plan.extrinsics().to_vec(),
        ..Draft::default()
    };
    collator
        .author(&[draft], &RelayState::default(), sizes)
        .unwrap()
}

#[test]
fn a_block_with_the_sizes_of_stock_nodes_is_valid_everywhere() {
    let plan = plan(20, CallKind::TransferAll);
    let candidate = candidate(&plan, &SizeSource::Reads);
    assert!(candidate.sizes[0].len() >= 40, "{:?}", candidate.sizes);
    let (head, _) = &candidate.pov.blocks[0];
    let arguments = candidate.pov.arguments();
    for blob in [parachain::STOCK, parachain::READS] {
        let validation = Validator::new(blob).unwrap().validate(&arguments).unwrap();
        println!("{:?} {} pages", validation.time, validation.pages);
        let result = validation
            .decoded()
            .unwrap()
            .unwrap_or_else(|| panic!("{validation:?}"));
        assert_eq!(result.head_data.0, head.encode());
    }
    // The rule for sizes is part of the chain: a validator with another one refuses the block.
    let validation = Validator::new(parachain::ESTIMATE).unwrap();
    let validation = validation.validate(&arguments).unwrap();
    assert!(validation.result.is_err(), "{validation:?}");
}

#[test]
fn a_block_with_sizes_of_the_root_is_valid_where_validators_have_them() {
    let plan = plan(20, CallKind::TransferAll);
    let candidate = candidate(&plan, &SizeSource::Estimate);
    let (head, _) = &candidate.pov.blocks[0];
    let arguments = candidate.pov.arguments();
    let validation = Validator::new(parachain::ESTIMATE).unwrap();
    let validation = validation.validate(&arguments).unwrap();
    let result = validation
        .decoded()
        .unwrap()
        .unwrap_or_else(|| panic!("{validation:?}"));
    assert_eq!(result.head_data.0, head.encode());
    for blob in [parachain::STOCK, parachain::READS] {
        let validation = Validator::new(blob).unwrap().validate(&arguments).unwrap();
        assert!(validation.result.is_err(), "{validation:?}");
    }
}
