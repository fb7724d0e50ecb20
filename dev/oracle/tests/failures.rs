//! A failed call leaves the block as it was, at whichever node it fails.
//!
//! Two blocks take the same random calls. The source of one never fails. The source of the other fails
//! at every node that is loaded for the first time, and then the call is made again. So each call fails
//! once at each node that it loads. Some failed calls are not made again; then the first block skips
//! them, too.

#![allow(clippy::unwrap_used)]

use povmeter::{
    Accounting, Advisory, Attributed, Attribution, Block, BlockError, Consensus, NodeHash,
    NodePrefix, NodeSource, ProofSize, SealedBlock, SourceError, StorageProof, TrieId, Why,
};
use povmeter_dev_oracle::{ask, Answer, Case, Flavour, Op, ParentNodes};
use rand::{rngs::SmallRng, Rng, SeedableRng};
use std::cell::Cell;

/// A source that answers `answers` times and then fails: every time if `lasting`, once otherwise.
struct Failing {
    nodes: ParentNodes,
    answers: Cell<Option<u32>>,
    lasting: Cell<bool>,
}

impl NodeSource for Failing {
    fn node(
        &self,
        hash: &NodeHash,
        prefix: NodePrefix<'_>,
    ) -> Result<Option<bytes::Bytes>, SourceError> {
        match self.answers.get() {
            Some(0) => {
                if !self.lasting.get() {
                    self.answers.set(None);
                }
                Err(SourceError::new(std::io::Error::other("disk on fire")))
            }
            left => {
                self.answers.set(left.map(|left| left - 1));
                self.nodes.node(hash, prefix)
            }
        }
    }
}

/// The result of a call.
#[derive(Debug, PartialEq, Eq)]
enum Told {
    Answer(Answer),
    Size(ProofSize),
    Compact(u64),
}

/// How a boundary is asked for.
#[derive(Clone, Copy)]
enum Question {
    Size,
    Compact,
    Peek,
    PeekCompact,
}

fn make<S: NodeSource, A: Accounting>(
    block: &mut Block<S, A>,
    case: &Case,
    op: &Op,
    question: Question,
) -> Result<Told, BlockError> {
    Ok(match (op, question) {
        (Op::Boundary, Question::Size) => Told::Size(block.proof_size()?),
        (Op::Boundary, Question::Compact) => Told::Compact(block.compact_proof_bytes()?),
        (Op::Boundary, Question::Peek) => Told::Size(block.peek_proof_size()?),
        (Op::Boundary, Question::PeekCompact) => Told::Compact(block.peek_compact_proof_bytes()?),
        _ => Told::Answer(ask(block, op, case.our_version())?),
    })
}

/// A changed key: its child trie, and the key.
type ChangedKey = (Option<Vec<u8>>, Vec<u8>);

/// All that a block shows without asking its source.
#[derive(Debug, PartialEq)]
struct Seen {
    size: ProofSize,
    proof: StorageProof,
    depth: usize,
    changed: Vec<ChangedKey>,
    attribution: Option<Vec<String>>,
}

/// The attribution that an accounting shows besides sizes.
trait Watched: Accounting + Sized {
    fn wants<S: NodeSource>(_: &Block<S, Self>) -> Option<Vec<String>> {
        None
    }

    /// Begins a part of the block, if there are any.
    fn part<S: NodeSource>(_: &mut Block<S, Self>) {}
}

impl Watched for Consensus {}
impl Watched for Advisory {}

impl<A: Accounting> Watched for Attributed<A> {
    fn wants<S: NodeSource>(block: &Block<S, Self>) -> Option<Vec<String>> {
        Some(entries(&block.attribution(), false))
    }

    fn part<S: NodeSource>(block: &mut Block<S, Self>) {
        block.begin_part();
    }
}

/// Returns the entries, sorted, because a failed call changes the order in which nodes are loaded.
///
/// Includes merges only if `merges`: a node at several places is merged at the places that are
/// loaded, and a call that failed may have loaded one more.
fn entries(attribution: &Attribution, merges: bool) -> Vec<String> {
    let entry = |entry: povmeter::RecordedEntry<'_>| {
        let wants = entry.wants();
        let wants: Vec<_> = wants
            .filter(|want| merges || want.why != Why::Merge)
            .collect();
        format!("{:?} {:?} {wants:?}", entry.hash(), entry.kind())
    };
    let mut entries: Vec<String> = attribution.entries().map(entry).collect();
    entries.sort_unstable();
    entries
}

fn seen<S: NodeSource, A: Watched>(block: &Block<S, A>) -> Seen {
    let mut changed = Vec::new();
    block.for_each_changed(|trie, key| {
        let child = match trie {
            TrieId::Top => None,
            TrieId::Child(child) => Some(child.to_vec()),
        };
        changed.push((child, key.to_vec()));
    });
    Seen {
        size: block.recorded_size(),
        proof: block.recorded_proof(),
        depth: block.transaction_depth(),
        changed,
        attribution: A::wants(block),
    }
}

/// How many calls failed, how many of these were not repeated, and how many seals failed.
#[derive(Debug, Default)]
struct Failures {
    failed: u32,
    left_out: u32,
    seals: u32,
}

fn run<A: Watched>(case: &Case, seed: u64, counts: &mut Failures) {
    let mut dice = SmallRng::seed_from_u64(seed);
    let nodes = ParentNodes::new(&case.parent);
    let failing = Failing {
        nodes: nodes.clone(),
        answers: Cell::new(None),
        lasting: Cell::new(false),
    };
    let left_out = counts.left_out;
    let mut sound = Block::with_accounting(nodes.clone(), nodes.root(), A::default());
    let mut tried = Block::with_accounting(&failing, nodes.root(), A::default());
    for (at, op) in case.ops.iter().enumerate() {
        let place = || format!("call {at}, {op}, of\n{case}");
        if dice.random_ratio(1, 8) {
            A::part(&mut sound);
            A::part(&mut tried);
        }
        let questions = [
            Question::Size,
            Question::Compact,
            Question::Peek,
            Question::PeekCompact,
        ];
        let question = questions[dice.random_range(0..questions.len())];
        let before = seen(&tried);
        let mut answers = 0;
        let told = loop {
            failing.answers.set(Some(answers));
            failing.lasting.set(dice.random_bool(0.5));
            let told = make(&mut tried, case, op, question);
            failing.answers.set(None);
            match told {
                Ok(told) => break Some(told),
                Err(error) => assert!(matches!(error, BlockError::Load(_)), "{error}, {}", place()),
            }
            counts.failed += 1;
            assert_eq!(seen(&tried), before, "{}", place());
            if dice.random_ratio(1, 16) {
                counts.left_out += 1;
                break None;
            }
            answers = 1;
        };
        if let Some(told) = told {
            let expected = make(&mut sound, case, op, question).unwrap();
            assert_eq!(told, expected, "{}", place());
        }
        assert_eq!(seen(&tried), seen(&sound), "{}", place());
    }
    let sealed = seal(tried, &failing, case, counts);
    let expected = sound.seal(case.our_version()).unwrap();
    assert_eq!(sealed.update(), expected.update(), "{case}");
    assert_eq!(sealed.size(), expected.size(), "{case}");
    assert_eq!(sealed.proof(), expected.proof(), "{case}");
    let merges = counts.left_out == left_out;
    let attributions = [&sealed, &expected].map(|sealed| {
        let attribution = sealed.attribution();
        attribution.map(|attribution| entries(attribution, merges))
    });
    assert_eq!(attributions[0], attributions[1], "{case}");
}

/// Seals a block. A seal that fails returns the block, and is repeated.
fn seal<'a, A: Watched>(
    mut block: Block<&'a Failing, A>,
    failing: &'a Failing,
    case: &Case,
    counts: &mut Failures,
) -> SealedBlock {
    let before = seen(&block);
    let mut answers = 0;
    loop {
        failing.answers.set(Some(answers));
        let refused = match block.seal(case.our_version()) {
            Ok(sealed) => return sealed,
            Err(refused) => refused,
        };
        counts.seals += 1;
        block = refused.into_parts().0;
        assert_eq!(seen(&block), before, "{case}");
        answers = 1;
    }
}

fn run_all<A: Watched>(seeds: u64) {
    let mut counts = Failures::default();
    for flavour in Flavour::ALL {
        for seed in 0..seeds {
            run::<A>(&Case::random(seed, flavour), seed, &mut counts);
        }
    }
    assert!(
        counts.failed > 1_000 && counts.left_out > 50 && counts.seals > 10,
        "{counts:?}"
    );
}

#[test]
fn a_failed_call_leaves_a_consensus_block_as_it_was() {
    run_all::<Consensus>(150);
}

#[test]
fn a_failed_call_leaves_an_advisory_block_as_it_was() {
    run_all::<Advisory>(150);
}

#[test]
fn a_failed_call_leaves_the_notes_as_they_were() {
    run_all::<Attributed>(100);
    run_all::<Attributed<Advisory>>(100);
}
