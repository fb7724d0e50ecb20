//! Benchmarks a block of balance transfers, built by the peer, by each strategy on the peer, and by
//! povmeter.
//!
//! Times the work of a block author: initialize, extrinsics, estimates, finalize with the root, and
//! taking the result. Does not time the sizes of the proof, which are computed afterwards.

#![allow(missing_docs, clippy::unwrap_used)]

use criterion::{criterion_group, criterion_main, Criterion, Throughput};
use povmeter_dev_ladder::{LadderBlock, Strategy};
use povmeter_dev_oracle::on_one_thread;
use povmeter_dev_runtime::{
    build_block, commit_parent, BlockOutcome, Estimates, Host, Peer, Plan, PlanOptions,
    PovmeterBlock, SharedNodes,
};
use povmeter_store::MemoryStore;
use std::time::Duration;

/// A plan with its parent state in memory, for the peer and for povmeter.
struct Setting {
    plan: Plan,
    peer: Peer,
    nodes: SharedNodes,
}

impl Setting {
    fn new(transfers: u32) -> Self {
        let options = PlanOptions {
            transfers,
            ..PlanOptions::default()
        };
        let plan = Plan::new(options).unwrap();
        let mut store = MemoryStore::new();
        commit_parent(&mut store, &plan).unwrap();
        let nodes = SharedNodes::new(store);
        let parent = nodes.parent(plan.parent().state_root);
        let peer = Peer::new(parent, options.state_version);
        Self { plan, peer, nodes }
    }

    fn build(&self, host: impl Host) -> BlockOutcome {
        build_block(host, &self.plan, |_| {}).unwrap()
    }

    fn povmeter(&self, estimates: Estimates) -> BlockOutcome {
        self.build(PovmeterBlock::new(
            self.nodes.clone(),
            &self.plan,
            estimates,
        ))
    }
}

fn bench(c: &mut Criterion, name: &str, setting: &Setting, build: impl Fn() -> BlockOutcome) {
    let mut group = c.benchmark_group("block_production");
    let extrinsics = setting.plan.extrinsics().len() as u64;
    group.throughput(Throughput::Elements(extrinsics));
    group.sample_size(10);
    group.bench_function(name, |bencher| {
        bencher.iter_custom(|blocks| {
            let times = (0..blocks).map(|_| build().phases.total().wall);
            times.sum::<Duration>()
        });
    });
    group.finish();
}

fn block_production(c: &mut Criterion) {
    // One thread, as the peer uses.
    on_one_thread().unwrap();
    let usual = Setting::new(PlanOptions::default().transfers);
    // Short, because with this strategy each extrinsic costs as much as the end of a block.
    let short = Setting::new(50);
    bench(c, "peer-none", &usual, || usual.build(usual.peer.block()));
    for strategy in Strategy::ALL {
        let setting = if strategy == Strategy::ROOT_EACH_TX {
            &short
        } else {
            &usual
        };
        bench(c, strategy.name(), setting, || {
            setting.build(LadderBlock::new(&setting.peer, strategy))
        });
    }
    bench(c, "povmeter-none", &usual, || {
        usual.povmeter(Estimates::Nowhere)
    });
    bench(c, "povmeter", &usual, || {
        usual.povmeter(Estimates::Everywhere)
    });
}

criterion_group!(benches, block_production);
criterion_main!(benches);
