//! Replays blocks of a parachain whose runtime asks for the proof size, with differences by design.

#![cfg(feature = "wasm")]
#![allow(clippy::unwrap_used)]

use crate::core_in_wasm as validator;
use codec::Encode;
use povmeter_dev_data::{
    wasm::Parachain, wasm::ParachainAuthor, wasm::QuestionsAsked, wasm::Replay, wasm::ReplayError,
    wasm::ReplayMode, wasm::ReplayOptions, wasm::ReplaySizes, wasm::ReplayedBlock,
    wasm::SizeRecord, wasm::STEPS_ENGINE, RealBlocks,
};
use povmeter_dev_runtime::{CallKind, Entries, Plan, PlanOptions};
use povmeter_substrate::SizeSource;
use sp_runtime::DigestItem;
use std::collections::BTreeMap;
use validator::Step;

const MODES: [ReplayMode; 3] = [ReplayMode::Ours, ReplayMode::Peer, ReplayMode::Lockstep];

fn parachain(transfers: u32) -> Parachain {
    let options = PlanOptions {
        accounts: 40,
        transfers,
        // Deletes the sender, so that the root needs siblings.
        call: CallKind::TransferAll,
        ..PlanOptions::default()
    };
    let entries = |keys: &[u8]| -> Entries {
        keys.iter()
            .map(|key| (vec![*key], vec![*key; 40]))
            .collect()
    };
    let children = BTreeMap::from([
        (b"one".to_vec(), entries(&[0x1a])),
        (b"many".to_vec(), entries(&[0x1a, 0x1b, 0x1c, 0x2d])),
    ]);
    Parachain::new(Plan::new(options).unwrap(), children).unwrap()
}

fn replay(
    chain: &Parachain,
    blocks: &RealBlocks,
    mode: ReplayMode,
    sizes: &ReplaySizes,
) -> Result<ReplayedBlock, ReplayError> {
    let options = ReplayOptions {
        mode,
        attribute: true,
        each_extrinsic: true,
        ..ReplayOptions::default()
    };
    let replay = Replay::new(blocks.clone(), chain.state(), options).unwrap();
    let mut replay = replay.with_sizes(sizes.clone());
    replay.next().unwrap()
}

/// The difference by design, if there is one. Checks that everything else is the same.
#[track_caller]
fn by_design(block: &ReplayedBlock) -> Option<String> {
    let mut by_design = None;
    for check in &block.checks {
        assert!(check.holds, "{check:?}");
        if let Some(text) = &check.by_design {
            assert_eq!(check.name, "sp-state-machine records the same");
            by_design = Some(text.clone());
        }
    }
    by_design
}

/// The questions that the runtime asked before the replay failed.
#[track_caller]
fn refused(result: Result<ReplayedBlock, ReplayError>) -> QuestionsAsked {
    match result.unwrap_err() {
        ReplayError::Runtime { asked, .. } | ReplayError::Header { asked, .. } => asked.unwrap(),
        other => panic!("{other:?}"),
    }
}

fn record(blocks: &RealBlocks, sizes: Vec<u64>) -> ReplaySizes {
    let (mut record, block) = (SizeRecord::default(), &blocks.blocks[0]);
    record.add(block.header.number, block.hash, sizes);
    ReplaySizes::Record(record)
}

#[test]
fn a_block_holds_with_its_authors_sizes_and_no_others() {
    let chain = parachain(8);
    let block = |author| chain.block(author, Vec::new()).unwrap();
    let (stock, stock_built) = block(ParachainAuthor::Stock);
    let (with_reads, _) = block(ParachainAuthor::Povmeter(SizeSource::Reads));
    assert_eq!(stock.blocks[0].hash, with_reads.blocks[0].hash);
    let (estimated, estimated_built) = block(ParachainAuthor::Povmeter(SizeSource::Estimate));
    assert_ne!(stock_built.root, estimated_built.root);

    let (reads, estimate) = (&ReplaySizes::Reads, &ReplaySizes::Estimate);
    for (blocks, built, sizes) in [
        (&stock, &stock_built, reads),
        (&estimated, &estimated_built, estimate),
    ] {
        let told = built.told.clone().unwrap();
        assert!(told.len() >= 16, "{told:?}");
        for sizes in [sizes, &record(blocks, told.clone())] {
            for mode in MODES {
                if (mode, sizes) == (ReplayMode::Peer, estimate) {
                    continue;
                }
                let block = replay(&chain, blocks, mode, sizes).unwrap();
                assert_eq!(block.told, told, "{mode:?}");
                // No later change makes a touched node unnecessary, so the root needs all nodes
                // that the estimates touched.
                assert_eq!(by_design(&block), None);
            }
        }
    }
    for mode in MODES {
        let asked = refused(replay(&chain, &estimated, mode, reads));
        assert_eq!(asked.told, "the bytes read so far");
        assert!(asked.questions >= 16, "{asked:?}");
    }
    for mode in [ReplayMode::Ours, ReplayMode::Lockstep] {
        refused(replay(&chain, &stock, mode, estimate));
    }
    let none = replay(&chain, &stock, ReplayMode::Peer, estimate).unwrap_err();
    assert!(matches!(none, ReplayError::NoEstimates));
}

#[test]
fn a_record_that_does_not_fit_is_refused() {
    let chain = parachain(4);
    let (blocks, built) = chain.block(ParachainAuthor::Stock, Vec::new()).unwrap();
    let told = built.told.unwrap();
    let with = |sizes| replay(&chain, &blocks, ReplayMode::Ours, &record(&blocks, sizes));

    let mut other = told.clone();
    *other.last_mut().unwrap() += 1_000_000;
    let asked = refused(with(other));
    assert_eq!(asked.questions, told.len());
    let message = refused(with(told.iter().map(|_| 0).collect())).to_string();
    assert!(
        message.ends_with("was told the sizes of a record"),
        "{message}"
    );

    let host = |result: Result<ReplayedBlock, ReplayError>| match result.unwrap_err() {
        ReplayError::Host { source, .. } => format!("{source:?}"),
        other => panic!("{other:?}"),
    };
    let few = host(with(told[1..].to_vec()));
    assert!(few.contains("Exhausted"), "{few}");
    let many = host(with([&told[..], &[7]].concat()));
    assert!(many.contains("LeftOver"), "{many}");

    let empty = ReplaySizes::Record(SizeRecord::default());
    let missing = replay(&chain, &blocks, ReplayMode::Ours, &empty).unwrap_err();
    assert!(matches!(missing, ReplayError::NoSizes { .. }), "{missing}");
}

fn digest(steps: &[Step]) -> Vec<DigestItem> {
    vec![DigestItem::PreRuntime(STEPS_ENGINE, steps.encode())]
}

fn remove(trie: &[u8], key: u8) -> Step {
    Step::Remove(Some(trie.to_vec()), vec![key])
}

fn set(trie: &[u8], key: u8) -> Step {
    Step::Set(Some(trie.to_vec()), vec![key], vec![0xff; 40])
}

/// Returns the difference by design in a block of these steps, replayed with the sizes of its
/// author.
fn designed(steps: &[Step], sizes: &ReplaySizes) -> Option<String> {
    let chain = parachain(2);
    let author = match sizes {
        ReplaySizes::Estimate => ParachainAuthor::Povmeter(SizeSource::Estimate),
        _ => ParachainAuthor::Stock,
    };
    let (blocks, _) = chain.block(author, digest(steps)).unwrap();
    let block = replay(&chain, &blocks, ReplayMode::Ours, sizes).unwrap();
    by_design(&block)
}

#[test]
fn an_emptied_child_trie_differs_by_the_null_node_alone() {
    let steps = [remove(b"one", 0x1a)];
    let found = designed(&steps, &ReplaySizes::Estimate);
    let expected = "2 bytes more than sp-state-machine: 2 null node of an emptied trie";
    assert_eq!(found.as_deref(), Some(expected));
    assert_eq!(designed(&steps, &ReplaySizes::Reads), None);
}

#[test]
fn a_sibling_that_only_the_rule_needs_is_by_design() {
    let steps = [
        remove(b"many", 0x1a),
        remove(b"many", 0x1b),
        set(b"many", 0x10),
    ];
    let found = designed(&steps, &ReplaySizes::Estimate).unwrap();
    assert!(found.ends_with(" siblings of deleted keys"), "{found}");
    assert_eq!(designed(&steps, &ReplaySizes::Reads), None);
}

#[test]
fn what_a_question_touched_is_by_design() {
    let steps = [
        remove(b"many", 0x1a),
        remove(b"many", 0x1b),
        Step::Size,
        set(b"many", 0x1a),
        set(b"many", 0x1b),
    ];
    let found = designed(&steps, &ReplaySizes::Estimate).unwrap();
    assert!(
        found.ends_with(" touched by questions for the proof size"),
        "{found}"
    );
    // Without an estimate no node is touched.
    assert_eq!(designed(&steps, &ReplaySizes::Reads), None);
}
