//! Counts how often a block calls its node source: if every wrapper between them forwards batches,
//! and if one splits them into single nodes.
//!
//! `cargo run --release -p povmeter-dev-measure --example source_calls -- [ACCOUNTS [TRANSFERS]]`

use povmeter::{
    Block, Bytes, NodeBatch, NodeHash, NodePrefix, NodeSource, SourceError,
    TrieId::{Child, Top},
};
use povmeter_dev_runtime::{
    build_block, commit_parent, Built, Estimates, Plan, PlanOptions, PovmeterBlock,
};
use povmeter_store::{MemoryStore, NodeStore};
use std::{cell::Cell, error::Error, rc::Rc, sync::Arc};

/// The calls of a source, of both methods, and the number of nodes asked for.
#[derive(Clone, Copy, Debug, Default)]
struct Calls {
    calls: usize,
    nodes: usize,
}

/// A store that counts its calls.
#[derive(Clone)]
struct Counting {
    store: Arc<MemoryStore>,
    calls: Rc<Cell<Calls>>,
}

impl Counting {
    fn count(&self, asked: usize) {
        let Calls { calls, nodes } = self.calls.get();
        self.calls.set(Calls {
            calls: calls + 1,
            nodes: nodes + asked,
        });
    }
}

impl NodeSource for Counting {
    fn node(&self, hash: &NodeHash, prefix: NodePrefix<'_>) -> Result<Option<Bytes>, SourceError> {
        self.count(1);
        self.store.node(hash, prefix)
    }

    fn nodes(&self, batch: &mut NodeBatch<'_>) {
        self.count(batch.open().len());
        self.store.nodes(batch);
    }
}

/// A wrapper that does not implement `nodes`, so it splits batches.
struct Splitting(Counting);

impl NodeSource for Splitting {
    fn node(&self, hash: &NodeHash, prefix: NodePrefix<'_>) -> Result<Option<Bytes>, SourceError> {
        self.0.node(hash, prefix)
    }
}

/// The calls of a block through the wrapper `wrap`: up to its last extrinsic, and at its end.
fn calls_of_block<S: NodeSource + 'static>(
    source: &Counting,
    wrap: impl FnOnce(Counting) -> S,
    plan: &Plan,
    estimates: Estimates,
) -> Result<([Calls; 2], Built), Box<dyn Error>> {
    let source = Counting {
        calls: Rc::default(),
        ..source.clone()
    };
    let calls = Rc::clone(&source.calls);
    let mut extrinsics = Calls::default();
    let block = PovmeterBlock::new(wrap(source), plan, estimates);
    let outcome = build_block(block, plan, |_| extrinsics = calls.get())?;
    let all = calls.get();
    let end = Calls {
        calls: all.calls - extrinsics.calls,
        nodes: all.nodes - extrinsics.nodes,
    };
    Ok(([extrinsics, end], outcome.built))
}

/// The calls of one boundary over all keys that `built` changes, in a block that has read none of them.
fn calls_of_boundary<S: NodeSource>(
    source: &Counting,
    wrap: impl FnOnce(Counting) -> S,
    built: &Built,
) -> Result<Calls, Box<dyn Error>> {
    let source = Counting {
        calls: Rc::default(),
        ..source.clone()
    };
    let calls = Rc::clone(&source.calls);
    let root = source.store.root();
    let mut block = Block::new(wrap(source), root);
    let top = built.main_changes.iter().map(|change| (Top, change));
    let children = built.child_changes.iter();
    let children = children
        .flat_map(|(name, changes)| changes.iter().map(move |change| (Child(name), change)));
    for (trie, (key, value)) in top.chain(children) {
        match value {
            Some(value) => block.set(trie, key, value)?,
            None => block.remove(trie, key)?,
        }
    }
    block.proof_size()?;
    Ok(calls.get())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut numbers = std::env::args().skip(1).map(|number| number.parse());
    let plan = Plan::new(PlanOptions {
        accounts: numbers.next().unwrap_or(Ok(10_000))?,
        transfers: numbers.next().unwrap_or(Ok(544))?,
        ..PlanOptions::default()
    })?;
    let mut store = MemoryStore::new();
    commit_parent(&mut store, &plan)?;
    let source = Counting {
        store: Arc::new(store),
        calls: Rc::default(),
    };

    println!("| what | nodes asked for | calls, batches split up | calls, batches handed on |");
    println!("|---|--:|--:|--:|");
    let row = |what: &str, split: Calls, handed_on: Calls| {
        println!(
            "| {what} | {} | {} | {} |",
            split.nodes, split.calls, handed_on.calls
        );
    };
    let nowhere = Estimates::Nowhere;
    let ([reads, end], _) = calls_of_block(&source, Splitting, &plan, nowhere)?;
    let ([reads_on, end_on], _) = calls_of_block(&source, |source| source, &plan, nowhere)?;
    row("extrinsics, no estimates", reads, reads_on);
    row("the end of that block", end, end_on);
    let everywhere = Estimates::Everywhere;
    let ([reads, end], built) = calls_of_block(&source, Splitting, &plan, everywhere)?;
    let ([reads_on, end_on], _) = calls_of_block(&source, |source| source, &plan, everywhere)?;
    row(
        "extrinsics, with a boundary after each and in each",
        reads,
        reads_on,
    );
    row("the end of that block", end, end_on);
    let split = calls_of_boundary(&source, Splitting, &built)?;
    let handed_on = calls_of_boundary(&source, |source| source, &built)?;
    row(
        "one boundary over all keys that it changes, none of them read",
        split,
        handed_on,
    );
    Ok(())
}
