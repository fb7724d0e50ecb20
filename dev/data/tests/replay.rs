//! Replays blocks of real chains on their own runtimes.

#![cfg(feature = "wasm")]
#![allow(clippy::unwrap_used)]

use povmeter_attribution::{ByteTally, Item, Names};
use povmeter_dev_data::{
    block_files, expect_data, wasm::relay_chain_block, wasm::Replay, wasm::ReplayMode,
    wasm::ReplayOptions, wasm::ReplayedBlock, ChainSpec, RealBlocks,
};
use std::path::Path;

fn replay(path: &Path, options: ReplayOptions) -> Vec<ReplayedBlock> {
    let file = RealBlocks::read(path).unwrap();
    let state = file.read_state().unwrap();
    let replay = Replay::new(file, &state, options).unwrap();
    replay.map(Result::unwrap).collect()
}

/// Replays all blocks of the data folder; the results by file.
fn all(options: ReplayOptions) -> Vec<(String, Vec<ReplayedBlock>)> {
    let data = expect_data();
    let files = block_files(&data).unwrap();
    let named = files.iter().map(|path| {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        (name, replay(path, options))
    });
    named.collect()
}

fn assert_checks(files: &[(String, Vec<ReplayedBlock>)]) {
    for (name, blocks) in files {
        for block in blocks {
            for check in &block.checks {
                let number = block.number;
                assert!(check.holds, "{name}, block {number}: {check:?}");
            }
        }
    }
    let blocks: usize = files.iter().map(|(_, blocks)| blocks.len()).sum();
    assert_eq!(blocks, 68);
}

#[test]
#[ignore = "needs the real chain data"]
fn every_block_has_the_root_of_its_header() {
    let files = all(ReplayOptions::default());
    assert_checks(&files);
    for (name, blocks) in &files {
        for block in blocks {
            // Nothing that was counted is deleted later, so the estimate is exact.
            let estimate = block.estimate.map(|estimate| estimate.total());
            assert_eq!(estimate, block.truth, "{name}, block {}", block.number);
        }
    }
    // The first contract makes the first child trie. The proof shows that there was none before.
    let create = files
        .iter()
        .find(|(name, _)| name == "child-trie-create-one");
    let create = create.map(|(_, blocks)| &blocks[0].proof);
    assert!(create.is_none_or(|proof| proof.iter_nodes().any(|node| *node == [0])));
}

#[test]
#[ignore = "needs the real chain data"]
fn no_node_can_be_left_out_of_a_proof() {
    assert_checks(&all(ReplayOptions {
        every_node: true,
        ..ReplayOptions::default()
    }));
}

#[test]
#[ignore = "needs the real chain data"]
fn sp_state_machine_comes_to_the_same_roots() {
    assert_checks(&all(ReplayOptions {
        mode: ReplayMode::Peer,
        ..ReplayOptions::default()
    }));
}

#[test]
#[ignore = "needs the real chain data"]
fn every_result_is_sp_state_machines() {
    let files = all(ReplayOptions {
        mode: ReplayMode::Lockstep,
        ..ReplayOptions::default()
    });
    assert_checks(&files);
    let calls = files.iter().flat_map(|(_, blocks)| blocks);
    let calls: u64 = calls.map(|block| block.calls.all).sum();
    assert!(calls > 9_000, "{calls} calls");
}

#[test]
#[ignore = "needs the real chain data"]
fn every_byte_of_a_proof_has_an_owner() {
    let files = all(ReplayOptions {
        attribute: true,
        ..ReplayOptions::default()
    });
    assert_checks(&files);
    for (name, blocks) in &files {
        for block in blocks {
            let number = block.number;
            let attribution = block.attribution.as_ref().unwrap();
            let mut names = Names::well_known();
            match attribution.names.as_ref() {
                Ok(of_runtime) => of_runtime.iter().cloned().for_each(|name| names.add(name)),
                // A runtime of 2019, whose keys do not begin with the pallet's hash.
                Err(error) => assert_eq!(name, "kusama-1", "{error}"),
            }
            let tally = ByteTally::of(&attribution.block, &names);
            assert_eq!(tally.total.nodes, block.sizes.nodes);
            for (breakdown, sum) in tally.sums() {
                assert_eq!(sum, block.sizes.recorded, "{name}, {number}, {breakdown}");
            }
            let stacks = tally.folded();
            let bytes = stacks.iter().map(|line| line.rsplit_once(' ').unwrap().1);
            let sum: u64 = bytes.map(|bytes| bytes.parse::<u64>().unwrap()).sum();
            assert_eq!(sum, block.sizes.recorded, "{name}, {number}");
            let known = |item: &Item| item.frames().all(|frame| !frame.starts_with("0x"));
            let named = tally.by_item.iter().filter(|(item, _)| known(item));
            let named: u64 = named.map(|(_, row)| row.bytes).sum();
            println!(
                "{name}, {number}: {named} of {} bytes have a name",
                tally.total.bytes
            );
        }
    }
}

#[test]
#[ignore = "needs the real chain data"]
fn each_extrinsic_adds_to_what_is_read() {
    for mode in [ReplayMode::Ours, ReplayMode::Peer] {
        let files = all(ReplayOptions {
            mode,
            each_extrinsic: true,
            ..ReplayOptions::default()
        });
        for (name, blocks) in &files {
            for block in blocks {
                assert_eq!(block.steps.len(), block.extrinsics);
                // Only the recorded size is sorted. `root_adds` shrinks if a deleted key is written.
                let sizes: Vec<_> = block.steps.iter().map(|step| step.size.recorded).collect();
                assert!(
                    sizes.is_sorted(),
                    "{name}, block {}: {sizes:?}",
                    block.number
                );
                let last = block.steps.last().map(|step| step.size);
                match mode {
                    ReplayMode::Peer => assert!(last.is_none_or(|last| last.root_adds == 0)),
                    _ => assert_eq!(last, block.estimate, "{name}, block {}", block.number),
                }
            }
        }
    }
}

#[test]
#[ignore = "needs the real chain data"]
fn transfers_on_a_relay_chain() {
    let data = expect_data();
    let spec = ChainSpec::read(&data.join("chain-specs/paseo.json.gz")).unwrap();
    let (blocks, state) = relay_chain_block(spec, 20, 1).unwrap();
    for mode in [ReplayMode::Ours, ReplayMode::Lockstep] {
        let options = ReplayOptions {
            mode,
            ..ReplayOptions::default()
        };
        let replay = Replay::new(blocks.clone(), &state, options).unwrap();
        let replayed: Vec<_> = replay.map(Result::unwrap).collect();
        // Two inherents, and the transfers.
        assert_eq!(replayed[0].extrinsics, 22);
        let mut checks = replayed[0].checks.iter();
        assert!(checks.all(|check| check.holds), "{:?}", replayed[0].checks);
    }
}
