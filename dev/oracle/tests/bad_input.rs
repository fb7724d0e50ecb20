//! Damaged states and proofs give errors that say what was expected and found, and never a root.

#![allow(clippy::unwrap_used)]

use bytes::Bytes;
use codec::Encode;
use povmeter::{NodeBatch, NodeHash, NodePrefix, NodeSource, ProofError, Root, SourceError};
use povmeter_dev_runtime::{
    build_block, commit_parent, commit_state, AuthorError, BlockOutcome, CallKind, Estimates,
    HostError, Plan, PlanOptions, PovmeterBlock, SharedNodes, StateError,
};
use povmeter_store::{MemoryStore, NodeStore, ParityDbStore, Verified};
use povmeter_substrate::MachineError;
use sp_core::storage::StateVersion::V1;
use sp_trie::CompactProof;
use std::{collections::BTreeMap, error::Error, io};

fn plan(seed: u64) -> Plan {
    Plan::new(PlanOptions {
        accounts: 200,
        transfers: 10,
        call: CallKind::TransferAll,
        seed,
        ..Default::default()
    })
    .unwrap()
}

fn in_memory(plan: &Plan) -> MemoryStore {
    let mut store = MemoryStore::new();
    commit_parent(&mut store, plan).unwrap();
    store
}

fn build(
    source: impl NodeSource + 'static,
    plan: &Plan,
    estimates: Estimates,
) -> Result<BlockOutcome, AuthorError> {
    build_block(PovmeterBlock::new(source, plan, estimates), plan, |_| {})
}

/// How a node is damaged.
#[derive(Clone, Copy, Debug)]
enum Damage {
    Missing,
    /// One bit is flipped.
    Flipped,
    /// The end is missing.
    Cut,
    /// The store fails to read it.
    Unreadable,
}

/// A store with one damaged node.
#[derive(Clone)]
struct Damaged {
    store: SharedNodes,
    node: NodeHash,
    damage: Damage,
}

impl NodeSource for Damaged {
    fn node(&self, hash: &NodeHash, prefix: NodePrefix<'_>) -> Result<Option<Bytes>, SourceError> {
        let node = self.store.node(hash, prefix)?;
        if *hash != self.node {
            return Ok(node);
        }
        let mut bytes = node.unwrap().to_vec();
        match self.damage {
            Damage::Missing => return Ok(None),
            Damage::Unreadable => {
                return Err(SourceError::new(io::Error::other("the disk is gone")))
            }
            Damage::Flipped => *bytes.last_mut().unwrap() ^= 1,
            Damage::Cut => bytes.truncate(bytes.len() - 1),
        }
        Ok(Some(bytes.into()))
    }

    /// Passes the whole batch to the store, then replaces the damaged answer.
    fn nodes(&self, batch: &mut NodeBatch<'_>) {
        let asked = batch.open();
        self.store.nodes(batch);
        for index in asked {
            let request = batch.request(index);
            if request.hash == self.node {
                batch.answer(index, self.node(&request.hash, request.prefix));
            }
        }
    }
}

/// The messages of an error and of its sources.
fn messages(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut below = error.source();
    while let Some(error) = below {
        text = format!("{text}: {error}");
        below = error.source();
    }
    text
}

/// The state machine's error inside an author's error.
#[track_caller]
fn machine_error(error: &AuthorError) -> &MachineError {
    let AuthorError::Host(HostError::State(error)) = error else {
        panic!("{error:?}");
    };
    error.downcast_ref().unwrap()
}

#[test]
fn a_damaged_node_is_an_error_that_names_it() {
    let plan = plan(1);
    let store = SharedNodes::new(in_memory(&plan));
    let proof = build(store.clone(), &plan, Estimates::Everywhere)
        .unwrap()
        .built
        .proof;
    assert!(proof.len() > 40);
    let expectations = [
        (Damage::Missing, "found nothing in the store"),
        (Damage::Flipped, "corrupt node: expected one with hash"),
        (Damage::Cut, "corrupt node: expected one with hash"),
        (Damage::Unreadable, "the disk is gone"),
    ];
    for (damage, expected) in expectations {
        // Each node of the proof is needed by some read, some estimate or the root.
        for node in proof.iter_nodes() {
            let node = povmeter_delta_root::Blake2b256::hash(node);
            let store = store.clone();
            let damaged = Verified::new(Damaged {
                store,
                node,
                damage,
            });
            for estimates in [Estimates::Everywhere, Estimates::Nowhere] {
                let error = build(damaged.clone(), &plan, estimates).unwrap_err();
                let text = messages(&error);
                assert!(
                    matches!(machine_error(&error), MachineError::Block(_)),
                    "{text}"
                );
                assert!(text.contains(expected), "{damage:?}: {text}");
                assert!(text.contains(&node.to_string()), "{damage:?}: {text}");
            }
        }
    }
}

#[test]
fn a_node_that_does_not_decode_is_an_error() {
    let plan = plan(1);
    let store = SharedNodes::new(in_memory(&plan));
    let node = Root::from(plan.parent().state_root.0).node_hash();
    let damage = Damage::Cut;
    let error = build(
        Damaged {
            store,
            node,
            damage,
        },
        &plan,
        Estimates::Everywhere,
    )
    .unwrap_err();
    let text = messages(machine_error(&error));
    assert!(text.contains(&node.to_string()), "{text}");
    assert!(text.contains("expected"), "{text}");
}

#[test]
fn a_block_that_has_failed_goes_no_further() {
    use povmeter_dev_runtime::{Host, TransactionStep};
    let plan = plan(1);
    let mut block = PovmeterBlock::new(MemoryStore::new(), &plan, Estimates::Everywhere);
    let read = || sp_io::storage::get(b"key");
    let error = block.execute(read).unwrap_err();
    assert!(messages(&error).contains(&Root::from(plan.parent().state_root.0).to_string()));
    assert!(block.execute(|| ()).is_err());
    assert!(block.transaction(TransactionStep::Start).is_err());
    assert!(block.boundary().is_err());
    assert!(block.finish().is_err());
}

#[test]
fn a_panic_of_the_runtime_itself_is_passed_on() {
    use povmeter_dev_runtime::Host;
    let plan = plan(1);
    let mut block = PovmeterBlock::new(in_memory(&plan), &plan, Estimates::Everywhere);
    let panicking = std::panic::AssertUnwindSafe(|| block.execute(|| panic!("not the state")));
    let panic = std::panic::catch_unwind(panicking).map(drop).unwrap_err();
    assert_eq!(*panic.downcast_ref::<&str>().unwrap(), "not the state");
}

#[test]
fn a_truncated_proof_is_an_error() {
    let plan = plan(1);
    let outcome = build(in_memory(&plan), &plan, Estimates::Everywhere).unwrap();
    let encoded = outcome.compact.encode();
    let open = |proof: &[u8]| PovmeterBlock::from_compact(proof, &plan, Estimates::InRuntime);
    assert!(open(&encoded).is_ok());
    for length in (0..encoded.len()).step_by(97).chain([encoded.len() - 1]) {
        let error = open(&encoded[..length]).map(drop).unwrap_err();
        assert!(
            matches!(error, ProofError::Encoding { .. }),
            "{length}: {error}"
        );
    }
    let items = &outcome.compact.encoded_nodes;
    // A proof without items is valid, for a block that reads nothing; a later test has one.
    for count in 1..items.len() {
        let cut = CompactProof {
            encoded_nodes: items[..count].to_vec(),
        };
        let error = open(&cut.encode()).map(drop).unwrap_err();
        assert!(
            matches!(error, ProofError::Truncated { .. }),
            "{count}: {error}"
        );
    }
    let twice = CompactProof {
        encoded_nodes: [&items[..], &items[..]].concat(),
    };
    let error = open(&twice.encode()).map(drop).unwrap_err();
    assert!(matches!(error, ProofError::Trailing { .. }), "{error}");
}

#[test]
fn a_proof_of_another_state_is_an_error() {
    let (plan, other) = (plan(1), plan(2));
    let proof = build(in_memory(&other), &other, Estimates::Everywhere)
        .unwrap()
        .compact
        .encode();
    let error = PovmeterBlock::from_compact(&proof, &plan, Estimates::InRuntime);
    let roots = [&plan, &other].map(|plan| Root::from(plan.parent().state_root.0));
    let error = error.map(drop).unwrap_err();
    let [expected, found] = roots;
    assert!(
        matches!(error, ProofError::WrongRoot { expected: e, found: f } if [e, f] == roots),
        "{error}"
    );
    let text = error.to_string();
    assert!(
        text.contains(&expected.to_string()) && text.contains(&found.to_string()),
        "{text}"
    );
}

#[test]
fn a_proof_that_lacks_what_the_block_reads_yields_no_root() {
    let plan = plan(1);
    let root = Root::from(plan.parent().state_root.0);
    let nodes = build(in_memory(&plan), &plan, Estimates::Everywhere);
    let nodes = nodes.unwrap().built.proof;
    let top = nodes
        .iter_nodes()
        .find(|node| povmeter_delta_root::Blake2b256::hash(node) == root.node_hash());
    // Valid proofs of the state, one of its root node only and one of nothing.
    let bare = povmeter::StorageProof::new([top.unwrap().clone().into()]);
    let bare = bare.to_compact(root).unwrap().encode();
    for proof in [bare, povmeter::CompactProof::default().encode()] {
        for estimates in [Estimates::InRuntime, Estimates::Nowhere] {
            let block = PovmeterBlock::from_compact(&proof, &plan, estimates).unwrap();
            let error = build_block(block, &plan, |_| {}).unwrap_err();
            let text = messages(machine_error(&error));
            assert!(text.contains("found nothing"), "{text}");
        }
    }
}

#[test]
fn a_state_with_another_root_is_not_written() {
    let top = BTreeMap::from([(b"key".to_vec(), b"value".to_vec())]);
    let children = BTreeMap::from([(b"child".to_vec(), top.clone())]);
    let expected = Some(Root::from([7; 32]));
    let mut memory = MemoryStore::new();
    let error = commit_state(&mut memory, &top, &children, V1, expected).unwrap_err();
    assert!(matches!(error, StateError::Root { expected: e, .. } if Some(e) == expected));
    assert_eq!((memory.root(), memory.node_count()), (Root::EMPTY, 0));

    let folder = tempfile::tempdir().unwrap();
    let mut disk = ParityDbStore::create(folder.path()).unwrap();
    commit_state(&mut disk, &top, &children, V1, expected).unwrap_err();
    drop(disk);
    let disk = ParityDbStore::open(folder.path()).unwrap();
    assert_eq!(disk.root(), Root::EMPTY);
}
