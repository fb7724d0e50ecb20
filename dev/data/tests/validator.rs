//! Runs the core crates in wasm without std, as a validator does: they must get the author's sizes and
//! root from the compact proof alone. Also calls the host functions from wasm.

#![cfg(feature = "wasm")]
#![allow(clippy::unwrap_used)]

use crate::core_in_wasm as validator;
use codec::Encode;
use povmeter::CompactProof;
use povmeter_dev_data::{expect_data, read_trace, TraceRecord};
use povmeter_dev_oracle::{Case, Flavour, Op, ParentNodes, TrieName};
use povmeter_dev_runtime::{commit_parent, commit_state, wasm::WasmRuntime, Plan, PlanOptions};
use povmeter_store::{MemoryStore, NodeStore};
use povmeter_substrate::{SizeSource, StateMachine};
use sp_core::storage::StateVersion;
use sp_state_machine::BasicExternalities;
use validator::{execute, validate, Outcome, Step};

fn trie(name: &TrieName) -> validator::Trie {
    match name {
        TrieName::Top => None,
        TrieName::Child(key) => Some(key.clone()),
    }
}

fn step(op: &Op) -> Step {
    match op.clone() {
        Op::HostStart | Op::Start => Step::Start,
        Op::HostCommit | Op::Commit => Step::Commit,
        Op::HostRollback | Op::Rollback => Step::Rollback,
        Op::Enter => Step::Enter,
        Op::Exit => Step::Exit,
        Op::Set {
            trie: t,
            key,
            value,
        } => Step::Set(trie(&t), key, value),
        Op::Remove { trie: t, key } => Step::Remove(trie(&t), key),
        Op::Append { key, element, .. } => Step::Append(key, element),
        Op::Get { trie: t, key } => Step::Get(trie(&t), key),
        Op::Hash { trie: t, key } => Step::Hash(trie(&t), key),
        Op::Exists { trie: t, key } => Step::Exists(trie(&t), key),
        Op::Next { trie: t, key } => Step::Next(trie(&t), key),
        Op::Clear {
            trie: t,
            prefix,
            limit,
            cursor,
        } => Step::Clear(trie(&t), prefix, limit, cursor),
        Op::Root => Step::Root,
        Op::ChildRoot { child } => Step::ChildRoot(child.0),
        Op::Boundary => Step::Size,
    }
}

/// Returns the steps of the block, without those that the host rolled back.
fn kept(case: &Case) -> Vec<Step> {
    let (mut steps, mut starts) = (Vec::new(), Vec::new());
    for op in &case.ops {
        match op {
            Op::HostStart => starts.push(steps.len()),
            Op::HostRollback => {
                steps.truncate(starts.pop().unwrap());
                continue;
            }
            Op::HostCommit => drop(starts.pop()),
            _ => {}
        }
        steps.push(step(op));
    }
    steps
}

fn number(version: StateVersion) -> u8 {
    match version {
        StateVersion::V0 => 0,
        StateVersion::V1 => 1,
    }
}

/// The result of the validator in wasm.
fn in_wasm(
    runtime: &WasmRuntime,
    root: [u8; 32],
    proof: &CompactProof,
    version: u8,
    steps: &[Step],
) -> Result<Outcome, String> {
    let arguments = (root, proof.encode(), version, steps).encode();
    let call = || runtime.call_for("Checks_validate", &arguments);
    BasicExternalities::default().execute_with(call).unwrap()
}

#[test]
fn a_validator_without_std_gets_the_authors_sizes() {
    let runtime = WasmRuntime::workload();
    let mut sizes = 0;
    for flavour in Flavour::ALL {
        for seed in 0..60 {
            let case = Case::random(seed, flavour);
            let nodes = ParentNodes::new(&case.parent);
            let (root, version) = (nodes.root(), number(case.version));
            let steps = kept(&case);
            let (author, proof) = execute(nodes, root, version, &steps).unwrap();
            let proof = proof.to_compact(root).unwrap();
            let found = in_wasm(&runtime, root.into(), &proof, version, &steps);
            assert_eq!(found, Ok(author.clone()), "{flavour:?} {seed}");
            sizes += author.0.len();
        }
    }
    assert!(sizes > 500, "{sizes} sizes");
    // An empty proof gives the same error in wasm.
    let (none, steps) = (
        CompactProof::decode(&[0]).unwrap(),
        [Step::Get(None, vec![1])],
    );
    let found = in_wasm(&runtime, [7; 32], &none, 1, &steps);
    assert!(found.is_err());
    assert_eq!(found, validate([7; 32], &none.encode(), 1, &steps));
}

#[test]
#[ignore = "needs the real chain data"]
fn the_recorded_block_in_wasm() {
    let trace = read_trace(&expect_data().join("traces/transfers-544.trace.gz")).unwrap();
    let steps = trace.records.iter().filter_map(|record| match record {
        TraceRecord::Call(op, _) => Some(step(op)),
        _ => None,
    });
    let steps: Vec<_> = steps.collect();
    let mut store = MemoryStore::new();
    let version = StateVersion::V1;
    commit_state(&mut store, &trace.top, &trace.children, version, None).unwrap();
    let root = store.root();
    let (author, proof) = execute(&store, root, 1, &steps).unwrap();
    assert_eq!(author.0.len(), 1_088);
    let proof = proof.to_compact(root).unwrap();
    assert_eq!(proof.encoded_bytes(), 251_928);
    let found = in_wasm(&WasmRuntime::workload(), root.into(), &proof, 1, &steps);
    assert_eq!(found, Ok(author));
}

#[test]
fn both_host_functions_answer_in_wasm() {
    let plan = Plan::new(PlanOptions {
        accounts: 200,
        transfers: 1,
        ..PlanOptions::default()
    });
    let mut store = MemoryStore::new();
    commit_parent(&mut store, &plan.unwrap()).unwrap();
    let runtime = WasmRuntime::workload();
    let account = frame_support::storage::storage_prefix(b"System", b"Account");
    let key = [&account[..], &[1; 48]].concat().encode();
    let ask = |sizes| {
        let mut machine = StateMachine::new(&store, store.root(), sizes);
        let call = || runtime.call_for::<(u64, u64)>("Checks_proof_sizes", &key);
        machine.execute(call).unwrap().unwrap()
    };
    let (first, second) = ask(SizeSource::Estimate);
    assert!(first == second && first > 0);
    assert_eq!(ask(SizeSource::Reads), (0, second));
    assert_eq!(ask(SizeSource::Unrecorded), (u64::MAX, u64::MAX));
    assert_eq!(ask(SizeSource::Replay(vec![3, 5])), (3, 5));
}
