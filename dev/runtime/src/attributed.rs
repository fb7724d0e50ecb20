//! A povmeter host for the block author that attributes each recorded node.

use crate::{
    host::BoundarySize, host::Host, host::HostError, host::TransactionStep,
    parent_state::parent_root, plan::Plan, povmeter_host::Estimates, povmeter_host::PovmeterBlock,
    povmeter_host::PovmeterFinished,
};
use codec::Encode;
use povmeter::{Attributed, NodeSource};
use povmeter_attribution::{BlockAttribution, BlockPart};
use povmeter_substrate::SizeSource;
use sp_io::hashing::blake2_256;
use sp_trie::StorageProof;

/// Checks that `noted` contains each node of the proof `expected` once, and that the proof `found` of
/// the attributed block is the same. Returns the result and a text with the numbers.
pub fn adds_up(
    noted: &BlockAttribution,
    found: &StorageProof,
    expected: &StorageProof,
) -> (bool, String) {
    let attribution = noted.attribution();
    let bytes = attribution.total_bytes();
    let recorded: u64 = expected
        .iter_nodes()
        .map(|node| node.encoded_size() as u64)
        .sum();
    let noted = attribution.entries().map(|entry| *entry.hash().as_bytes());
    let mut noted: Vec<[u8; 32]> = noted.collect();
    noted.sort_unstable();
    let nodes = expected.iter_nodes().map(|node| blake2_256(node));
    let mut nodes: Vec<[u8; 32]> = nodes.collect();
    nodes.sort_unstable();
    (
        noted == nodes && bytes == recorded && found == expected,
        format!(
            "{bytes} bytes in {} nodes, recorded {recorded} in {}",
            noted.len(),
            nodes.len()
        ),
    )
}

/// A block that povmeter builds with attribution, which is written to `into` when the block is
/// finished.
pub struct AttributedBlock<'a, S> {
    block: PovmeterBlock<S, Attributed>,
    parts: Vec<BlockPart>,
    into: &'a mut BlockAttribution,
}

impl<'a, S: NodeSource> AttributedBlock<'a, S> {
    /// Makes a block on the parent state of `plan`, whose nodes are in `source`. It estimates as an
    /// author does, and writes its attribution to `into`.
    pub fn new(source: S, plan: &Plan, into: &'a mut BlockAttribution) -> Self {
        let version = plan.options().state_version;
        let sizes = SizeSource::Estimate;
        let block = PovmeterBlock::with_accounting(
            source,
            parent_root(plan),
            version,
            Estimates::Everywhere,
            sizes,
        );
        Self::of(block, into)
    }

    /// Wraps `block`, whose attribution is written to `into`.
    pub fn of(block: PovmeterBlock<S, Attributed>, into: &'a mut BlockAttribution) -> Self {
        Self {
            block,
            parts: Vec::new(),
            into,
        }
    }
}

impl<S: NodeSource + 'static> Host for AttributedBlock<'_, S> {
    type Finished = PovmeterFinished;

    fn execute<R>(&mut self, call: impl FnOnce() -> R) -> Result<R, HostError> {
        self.block.execute(call)
    }

    fn transaction(&mut self, step: TransactionStep) -> Result<(), HostError> {
        self.block.transaction(step)
    }

    fn boundary(&mut self) -> Result<Option<BoundarySize>, HostError> {
        self.block.boundary()
    }

    fn begin(&mut self, part: BlockPart) {
        // The next call on a failed block returns the error.
        if let Ok(machine) = self.block.machine() {
            machine.begin_part();
            self.parts.push(part);
        }
    }

    fn recorded(&self) -> u64 {
        self.block.recorded()
    }

    fn told(&self) -> Vec<u64> {
        self.block.told()
    }

    fn finish(self) -> Result<PovmeterFinished, HostError> {
        let finished = self.block.finish()?;
        let attribution = finished.sealed.block.attribution().cloned();
        let none = || HostError::state("expected an attribution of the block, found none");
        let attributed = BlockAttribution::new(self.parts, attribution.ok_or_else(none)?);
        *self.into = attributed.map_err(|error| HostError::state(error.to_string()))?;
        Ok(finished)
    }
}
