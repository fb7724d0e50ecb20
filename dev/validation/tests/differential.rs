//! Random PoVs and damaged ones, validated by the stock function and by povmeter's: both accept the same,
//! with the same result.
#![cfg(feature = "wasm")]
#![allow(clippy::unwrap_used)]

use povmeter::{Root, StorageProof};
use povmeter_dev_runtime::{wasm::parachain, Plan, PlanOptions};
use povmeter_dev_validation::{Act, Collator, Draft, Pov, RandomPovs, RelayState, Step, Validator};
use povmeter_substrate::SizeSource;
use std::collections::BTreeMap;

const SEED: u64 = 1;
/// PoVs of the test that always runs, and damaged ones of each.
const POVS: usize = 30;
const DAMAGED: usize = 10;

struct Both {
    stock: Validator,
    ours: Validator,
}

/// How the PoVs of a run ended.
#[derive(Debug, Default)]
struct Tally {
    accepted: usize,
    refused: usize,
    blocks: usize,
    messages: usize,
    upgrades: usize,
    failed_calls: usize,
    /// PoVs that a panic of trie-db keeps stock validators from accepting.
    trie_db_panics: usize,
    /// Damaged PoVs that stock validators accept although a prefix cannot be cleared.
    cleared_in_part: usize,
}

/// Whether povmeter refuses a proof because it lacks what clearing a prefix needs. The stock function clears the keys that
/// it can read; see `docs/differences.md`.
fn cannot_be_cleared(reason: &str) -> bool {
    reason.contains("the proof does not hold what clearing a prefix needs")
}

/// Whether the stock function failed by the known panic of trie-db, at the removal of an absent key that
/// is the beginning of other keys; see `docs/differences.md`.
fn is_trie_db_panic(reason: &str) -> bool {
    reason.contains("trie-db-0.32") && reason.contains("nibbleslice.rs")
}

impl Both {
    fn new() -> Self {
        Self {
            stock: Validator::new(parachain::STOCK).unwrap(),
            ours: Validator::new(parachain::READS).unwrap(),
        }
    }

    /// Whether both accept `arguments`. Fails if they disagree.
    #[track_caller]
    fn accept(&self, arguments: &[u8], what: &str, tally: &mut Tally) -> bool {
        let stock = self.stock.validate(arguments).unwrap();
        let ours = self.ours.validate(arguments).unwrap();
        match (&stock.result, &ours.result) {
            (Ok(stock), Ok(ours)) => assert_eq!(stock, ours, "{what}"),
            (Err(_), Err(_)) => {}
            (Err(reason), Ok(_)) if is_trie_db_panic(reason) => tally.trie_db_panics += 1,
            (Ok(_), Err(reason)) if cannot_be_cleared(reason) => tally.cleared_in_part += 1,
            _ => panic!(
                "{what}: stock {:?}, povmeter {:?}",
                stock.result, ours.result
            ),
        }
        ours.result.is_ok()
    }
}

fn run(povs: usize, damaged: usize) {
    let both = Both::new();
    let mut random = RandomPovs::new(SEED, SizeSource::Reads, false);
    let mut tally = Tally::default();
    let mut last: Option<Pov> = None;
    for index in 0..povs {
        let candidate = random.candidate().unwrap();
        let arguments = candidate.pov.arguments();
        both.accept(&arguments, &format!("PoV {index}"), &mut tally);
        let validation = both.ours.validate(&arguments).unwrap();
        assert!(validation.result.is_ok(), "PoV {index}: {validation:?}");
        let result = validation.decoded().unwrap().unwrap();
        tally.blocks += candidate.pov.blocks.len();
        tally.failed_calls += candidate.failed;
        tally.messages += result.upward_messages.len() + result.horizontal_messages.len();
        tally.upgrades += usize::from(result.new_validation_code.is_some());
        let foreign = last
            .replace(candidate.pov.clone())
            .unwrap_or(candidate.pov.clone());
        for damage in 0..damaged {
            let arguments = random.damaged(&candidate.pov, &foreign);
            let what = format!("PoV {index}, damage {damage}");
            let accepted = both.accept(&arguments, &what, &mut tally);
            tally.accepted += usize::from(accepted);
            tally.refused += usize::from(!accepted);
        }
    }
    println!("{tally:?}");
    assert!(tally.blocks > povs, "{tally:?}");
    assert!(tally.messages > povs / 4, "{tally:?}");
    assert!(tally.upgrades > 0, "{tally:?}");
    assert!(10 * tally.trie_db_panics <= povs, "{tally:?}");
    assert!(200 * tally.cleared_in_part <= povs * damaged, "{tally:?}");
    assert!(tally.refused > 5 * tally.accepted, "{tally:?}");
}

#[test]
fn both_validators_agree_on_random_povs() {
    run(POVS, DAMAGED);
}

#[test]
#[ignore = "takes minutes"]
fn both_validators_agree_on_many_povs_takes_long() {
    run(200, 50);
}

#[test]
fn collators_and_validators_tell_the_same_sizes() {
    for (sizes, blob) in [
        (SizeSource::Reads, parachain::READS),
        (SizeSource::Estimate, parachain::ESTIMATE),
    ] {
        let validator = Validator::new(blob).unwrap();
        // The runtime writes the sizes into the state, so other sizes lead to another root.
        let mut random = RandomPovs::new(2, sizes.clone(), true);
        for index in 0..30 {
            let candidate = random.candidate().unwrap();
            let validation = validator.validate(&candidate.pov.arguments()).unwrap();
            assert!(
                validation.result.is_ok(),
                "{sizes:?}, PoV {index}: {validation:?}"
            );
        }
    }
}

/// A collator with two keys that share a branch, and a draft that removes one of them after it has added a third. In
/// the order of the keys the branch always keeps two children, so nobody reads the leaf of the key that stays.
fn pair() -> (Collator, Draft) {
    let plan = Plan::new(PlanOptions {
        accounts: 20,
        transfers: 0,
        ..PlanOptions::default()
    });
    let mut genesis = plan.unwrap().genesis().clone();
    for last in [0x1a, 0x1b] {
        genesis.top.insert(of_pair(last), vec![last; 40]);
    }
    let collator = Collator::new(&genesis, &BTreeMap::new(), parachain::STOCK).unwrap();
    let draft = Draft {
        steps: vec![
            Step::Set(None, of_pair(0x10), vec![0x10; 40]),
            Step::Remove(None, of_pair(0x1a)),
        ],
        ..Draft::default()
    };
    (collator, draft)
}

fn of_pair(last: u8) -> Vec<u8> {
    [b"pair".as_slice(), &[last]].concat()
}

#[test]
fn a_proof_holds_nothing_that_only_another_order_needs() {
    let (mut collator, draft) = pair();
    let parent = Root::from(collator.head().state_root.0);
    let relay = RelayState::default();
    let candidate = collator
        .author(&[draft], &relay, &SizeSource::Reads)
        .unwrap();
    let (both, mut tally) = (Both::new(), Tally::default());
    assert!(both.accept(&candidate.pov.arguments(), "all nodes", &mut tally));
    let nodes = candidate.proof.nodes();
    assert!(!nodes.iter().any(|node| node.ends_with(&[0x1b; 40])));
    for (index, node) in nodes.iter().enumerate() {
        let others = nodes.iter().filter(|other| *other != node);
        // Without some nodes, others are not connected to the root.
        let Ok(compact) = StorageProof::new(others.cloned()).to_compact(parent) else {
            continue;
        };
        let pov = Pov {
            proof: compact.items().to_vec(),
            ..candidate.pov.clone()
        };
        let what = format!("without node {index}");
        assert!(!both.accept(&pov.arguments(), &what, &mut tally), "{what}");
        tally.refused += 1;
    }
    assert!(tally.refused > 0);
}

/// The second block reads what the first did not, so it counts it.
#[test]
fn a_later_block_counts_what_an_earlier_root_did_without() {
    let (mut collator, first) = pair();
    let second = Draft {
        steps: vec![Step::Get(None, of_pair(0x1b))],
        acts: vec![Act::Size(b"size of the second block".to_vec())],
        ..Draft::default()
    };
    let relay = RelayState::default();
    let candidate = collator
        .author(&[first, second], &relay, &SizeSource::Reads)
        .unwrap();
    let (both, mut tally) = (Both::new(), Tally::default());
    assert!(both.accept(&candidate.pov.arguments(), "two blocks", &mut tally));
}

/// The author gets the length of the rest of the value from its node, and stock validators count the whole value.
#[test]
fn a_read_from_an_offset_is_that_of_nodes() {
    for trie in [None, Some(b"child".to_vec())] {
        let (mut collator, _) = pair();
        // The runtime of the blobs reads from an offset under such keys.
        let key = b"offset of 3".to_vec();
        let draft = Draft {
            steps: vec![
                Step::Set(trie.clone(), key.clone(), vec![7; 40]),
                Step::Get(trie, key),
            ],
            ..Draft::default()
        };
        let relay = RelayState::default();
        let candidate = collator.author(&[draft], &relay, &SizeSource::Reads);
        let arguments = candidate.unwrap().pov.arguments();
        let both = Both::new();
        assert!(both.ours.validate(&arguments).unwrap().result.is_ok());
        assert!(both.stock.validate(&arguments).unwrap().result.is_err());
    }
}
