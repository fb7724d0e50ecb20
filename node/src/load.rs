//! Extrinsics for a running node.

use crate::{
    accounts,
    cli::{LoadOptions, UpgradeOptions},
    error::Error,
    extrinsics::{upgrade as upgrade_call, Workload},
    node_client::NodeClient,
    output::print_line,
};
use povmeter_node_runtime::{Hash, Nonce, Release};
use serde_json::{json, Value};
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};
use tokio::time::sleep;

/// How long to wait before the node is asked again.
const PAUSE: Duration = Duration::from_millis(20);

/// Waits until a node has extrinsics in its best chain.
struct Waiting<'a> {
    node: &'a NodeClient,
    /// Whether the node has to be told to make a block.
    create_blocks: bool,
    patience: u64,
}

impl Waiting<'_> {
    /// Waits until each account in `missing` has at least this number for its next extrinsic.
    async fn until(&self, mut missing: BTreeMap<u32, Nonce>, expected: u64) -> Result<(), Error> {
        let started = Instant::now();
        loop {
            if self.create_blocks {
                self.node.create_block(None).await?;
            }
            let (mut left, mut extrinsics) = (BTreeMap::new(), 0_u64);
            for (index, nonce) in missing {
                let found = self.node.nonce(&accounts::id(index)).await?;
                if found < nonce {
                    left.insert(index, nonce);
                    extrinsics += u64::from(nonce - found);
                }
            }
            if left.is_empty() {
                return Ok(());
            }
            if started.elapsed() > Duration::from_secs(self.patience) {
                let found = expected.saturating_sub(extrinsics);
                return Err(Error::NotIncluded {
                    expected,
                    found,
                    seconds: self.patience,
                });
            }
            missing = left;
            sleep(PAUSE).await;
        }
    }
}

/// Sends the extrinsics of blocks, one block after the other.
///
/// # Errors
/// Those of the node; [`Error::NotIncluded`] if extrinsics are in no block in time.
pub(crate) async fn load(options: &LoadOptions) -> Result<(), Error> {
    let node = NodeClient::new(&options.node)?;
    if let Some(parent) = options.parent {
        return fork(&node, parent, options.blocks).await;
    }
    let signed_for = node.signed_for().await?;
    let waiting = Waiting {
        node: &node,
        create_blocks: options.create_blocks,
        patience: options.patience,
    };
    let mut workload = Workload::new(options.accounts);
    let of_block = options.transfers + options.child_writes;
    let started = Instant::now();
    for _ in 0..options.blocks {
        let senders = workload.senders(of_block);
        for index in senders.iter().copied() {
            if !workload.knows(index) {
                workload.set_nonce(index, node.nonce(&accounts::id(index)).await?);
            }
        }
        for index in 0..of_block {
            let extrinsic = if index < options.transfers {
                workload.transfer(signed_for)
            } else {
                workload.child_write(signed_for)
            };
            node.submit(&extrinsic).await?;
        }
        let expected = senders
            .into_iter()
            .map(|index| (index, workload.nonce(index)))
            .collect();
        waiting.until(expected, u64::from(of_block)).await?;
    }
    let extrinsics = u64::from(of_block) * u64::from(options.blocks);
    print_line(format_args!(
        "{extrinsics} extrinsics in blocks, in {:.1} s",
        started.elapsed().as_secs_f64()
    ))?;
    Ok(())
}

/// Makes blocks on `parent`, one on top of the other, from the transactions that the pool has for them.
async fn fork(node: &NodeClient, parent: Hash, blocks: u32) -> Result<(), Error> {
    let mut hash = parent;
    for _ in 0..blocks {
        hash = node.create_block(Some(hash)).await?;
    }
    print_line(format_args!("{hash:?}"))
}

/// Upgrades the runtime of the node's chain to the present release, and checks that it is in use.
///
/// # Errors
/// Those of the node; [`Error::NotIncluded`] if the upgrade is in no block in time.
pub(crate) async fn upgrade(options: &UpgradeOptions) -> Result<(), Error> {
    let node = NodeClient::new(&options.node)?;
    let signed_for = node.signed_for().await?;
    let nonce = node.nonce(&accounts::id(0)).await?;
    let call = upgrade_call(Release::Present.code().to_vec());
    node.submit(&signed_for.sign(&accounts::key(0), nonce, call))
        .await?;
    let waiting = Waiting {
        node: &node,
        create_blocks: options.create_blocks,
        patience: options.patience,
    };
    waiting.until(BTreeMap::from([(0, nonce + 1)]), 1).await?;
    let version: Value = node
        .call("state_getRuntimeVersion", vec![json!(null)])
        .await?;
    print_line(format_args!(
        "spec version {} was {}",
        version["specVersion"], signed_for.spec_version
    ))
}
