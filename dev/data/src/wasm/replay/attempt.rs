//! Executions of one block on its parent state.

use super::{
    checks::{estimated, same_nodes, same_results},
    BlockTimes, Check, QuestionsAsked, ReplayError, ReplayedBlock, ReplayedExtrinsic,
};
use crate::{real_blocks::RealBlock, real_blocks::RealHeader};
use codec::{Compact, Decode, Encode};
use povmeter::{NodeSource, ProofError, Root};
use povmeter_attribution::{BlockAttribution, BlockPart};
use povmeter_dev_runtime::{
    wasm::reading_versions, wasm::WasmRuntime, AttributedBlock, BoundarySize, Built, Calls,
    Estimates, ExtrinsicTimes, Host, HostError, KeyHints, LockstepBlock, Peer, PeerBlock, PovSizes,
    PovmeterBlock, ProofSizes, RuntimeError, SharedNodes, SizeRule, Spent, TransactionStep,
};
use povmeter_substrate::SizeSource;
use sp_core::{storage::StateVersion, H256};
use sp_externalities::with_externalities;
use sp_runtime::{ApplyExtrinsicResult, DigestItem};
use sp_trie::CompactProof;

/// One block on its parent state.
pub(super) struct Attempt<'a> {
    pub(super) block: &'a RealBlock,
    pub(super) number: u32,
    pub(super) version: StateVersion,
    pub(super) nodes: SharedNodes,
    pub(super) parent: Root,
    pub(super) runtime: &'a WasmRuntime,
    /// The proof sizes that the runtime gets from our blocks.
    pub(super) sizes: SizeSource,
    /// The name of `sizes` in messages.
    pub(super) sizes_name: &'static str,
}

impl Attempt<'_> {
    pub(super) fn our_block<S: NodeSource>(
        &self,
        source: S,
        estimates: Estimates,
    ) -> PovmeterBlock<S> {
        let sizes = self.sizes.clone();
        PovmeterBlock::on(source, self.parent, self.version, estimates, sizes)
    }

    /// Makes a block of the peer. The peer does not estimate, so if our block does, the peer's runtime
    /// gets our sizes `told`.
    pub(super) fn peer_block(&self, told: Option<&Vec<u64>>) -> PeerBlock {
        let parent = self.nodes.parent(H256(self.parent.into()));
        self.peer_block_of(&Peer::new(parent, self.version), told)
    }

    pub(super) fn peer_block_of(&self, peer: &Peer, told: Option<&Vec<u64>>) -> PeerBlock {
        match (&self.sizes, told) {
            (SizeSource::Replay(sizes), _) | (SizeSource::Estimate, Some(sizes)) => {
                peer.block_told(sizes)
            }
            _ => peer.block_recording_sizes(),
        }
    }

    /// Executes the block on povmeter and makes all checks.
    pub(super) fn ours(&self, every_node: bool) -> Result<(ReplayedBlock, Built), ReplayError> {
        let mut times = BlockTimes::default();
        let host = self.our_block(self.nodes.clone(), Estimates::Nowhere);
        let (built, recorded) = self.whole(host, &mut times.whole)?;
        let (sizes, compact) = self.measure(&built, recorded)?;

        let host = self.our_block(self.nodes.clone(), Estimates::Everywhere);
        let (estimate, in_steps) = self.steps(host, &mut times.steps)?;

        let mut calls = Calls::default();
        let counted = self.our_block(self.nodes.clone(), Estimates::Nowhere);
        let counted = LockstepBlock::new(counted, None, SizeRule::AtLeast, &mut calls);
        self.whole(counted, &mut Spent::default())?;

        let truth = self.truth(&built)?;
        let mut checks = vec![estimated(estimate, truth), same_nodes(&built, &in_steps)];
        checks.extend(self.against_peer(&built, recorded)?);
        checks.push(self.again(&built, &compact)?);
        checks.push(self.stock_validator(&built, &compact));
        if every_node {
            checks.push(self.without_each(&built));
        }
        let replayed = self.report(
            times,
            calls,
            ((sizes, &compact), &built),
            (estimate, Some(truth)),
            checks,
        );
        Ok((replayed, built))
    }

    /// Executes the block once, and tells `hints` each key before it is used.
    pub(super) fn telling_keys(&self, hints: &KeyHints) -> Result<(), ReplayError> {
        let (ours, mut calls) = (
            self.our_block(self.nodes.clone(), Estimates::Nowhere),
            Calls::default(),
        );
        let host = LockstepBlock::new(ours, None, SizeRule::AtLeast, &mut calls);
        let host = host.telling_keys(hints.clone());
        self.whole(host, &mut Spent::default())?;
        Ok(())
    }

    /// Executes the block on the peer.
    pub(super) fn peer(&self) -> Result<(ReplayedBlock, Built), ReplayError> {
        let mut times = BlockTimes::default();
        let (built, recorded) = self.whole(self.peer_block(None), &mut times.whole)?;
        let (sizes, compact) = self.measure(&built, recorded)?;
        let (_, in_steps) = self.steps(self.peer_block(None), &mut times.steps)?;
        let checks = vec![same_nodes(&built, &in_steps)];
        let replayed = self.report(
            times,
            Calls::default(),
            ((sizes, &compact), &built),
            (None, None),
            checks,
        );
        Ok((replayed, built))
    }

    /// Executes the block on both state machines and compares every call.
    pub(super) fn lockstep(&self) -> Result<(ReplayedBlock, Built), ReplayError> {
        let (mut times, mut calls, mut in_steps) = <(BlockTimes, Calls, Calls)>::default();
        let rule = match self.sizes {
            SizeSource::Estimate => SizeRule::AtLeast,
            _ => SizeRule::Equal,
        };
        let both = |calls, estimates| {
            let ours = self.our_block(self.nodes.clone(), estimates);
            LockstepBlock::new(ours, Some(self.peer_block(None)), rule, calls)
        };
        let host = both(&mut calls, Estimates::Nowhere);
        let (built, recorded) = self.whole(host, &mut times.whole)?;
        let (sizes, compact) = self.measure(&built, recorded)?;
        let host = both(&mut in_steps, Estimates::Everywhere);
        let (estimate, _) = self.steps(host, &mut times.steps)?;
        let mut checks = vec![
            same_results("every result is sp-state-machine's, as a whole", &calls),
            same_results("every result is sp-state-machine's, in steps", &in_steps),
        ];
        checks.extend(self.against_peer(&built, recorded)?);
        let replayed = self.report(
            times,
            calls,
            ((sizes, &compact), &built),
            (estimate, None),
            checks,
        );
        Ok((replayed, built))
    }

    fn report(
        &self,
        times: BlockTimes,
        calls: Calls,
        ((sizes, compact), built): ((ProofSizes, &CompactProof), &Built),
        estimate: (Option<BoundarySize>, Option<u64>),
        checks: Vec<Check>,
    ) -> ReplayedBlock {
        let (estimate, truth) = estimate;
        ReplayedBlock {
            number: self.number,
            hash: self.block.hash,
            state_root: self.block.header.state_root,
            extrinsics: self.block.body.len(),
            times,
            calls,
            sizes,
            pov: PovSizes::measure(&self.block.header, &self.block.body, compact),
            proof: built.proof.clone(),
            changes: built.main_changes.clone(),
            told: built.told.clone().unwrap_or_default(),
            estimate,
            truth,
            attribution: None,
            steps: Vec::new(),
            checks,
        }
    }

    /// Executes the block in steps with attribution.
    pub(super) fn attributed(
        &self,
        built: &Built,
    ) -> Result<(BlockAttribution, Check), ReplayError> {
        let mut block = BlockAttribution::default();
        let noting = PovmeterBlock::with_accounting(
            self.nodes.clone(),
            self.parent,
            self.version,
            Estimates::Nowhere,
            self.sizes.clone(),
        );
        let host = AttributedBlock::of(noting, &mut block);
        let (_, found) = self.steps(host, &mut Spent::default())?;
        let (holds, detail) = povmeter_dev_runtime::adds_up(&block, &found.proof, &built.proof);
        Ok((block, Check::new("attribution adds up", holds, detail)))
    }

    /// Returns the header without the author's seal.
    fn unsealed(&self) -> RealHeader {
        let mut header = self.block.header.clone();
        let logs = &mut header.digest.logs;
        logs.retain(|item| !matches!(item, DigestItem::Seal(..)));
        header
    }

    /// Executes the block as a whole; returns the built block and the bytes recorded.
    pub(super) fn whole<H: Host>(
        &self,
        mut host: H,
        spent: &mut Spent,
    ) -> Result<(Built, u64), ReplayError> {
        let encoded = (self.unsealed(), &self.block.body).encode();
        spent.during(|| {
            self.enter(&mut host, || {
                self.runtime.call("Core_execute_block", &encoded)
            })
        })?;
        let recorded = host.recorded();
        let built = self.finish(host)?;
        Ok((built, recorded))
    }

    /// Executes the block in steps; returns the estimate after the last extrinsic, and the built block.
    fn steps<H: Host>(
        &self,
        mut host: H,
        spent: &mut Spent,
    ) -> Result<(Option<BoundarySize>, Built), ReplayError> {
        spent.during(|| self.up_to_finalize(&mut host))?;
        let estimate = host.boundary().map_err(|source| self.host(source))?;
        host.begin(BlockPart::Finalize);
        let header: RealHeader = spent.during(|| {
            self.enter(&mut host, || {
                self.runtime.call_for("BlockBuilder_finalize_block", &[])
            })
        })?;
        let expected = self.unsealed();
        let asked = self.asked(&host);
        self.expect(
            "state root",
            asked,
            &expected.state_root,
            &header.state_root,
        )?;
        self.expect("header", asked, &expected, &header)?;
        Ok((estimate, self.finish(host)?))
    }

    /// Returns the size, the times and the bytes so far after each extrinsic.
    pub(super) fn each_extrinsic<H: Host>(
        &self,
        mut host: H,
    ) -> Result<Vec<ReplayedExtrinsic>, ReplayError> {
        self.initialize(&mut host)?;
        let RealBlock { header, body, .. } = self.block;
        let length = Compact(body.len() as u64).encoded_size();
        let mut block_bytes = (header.encoded_size() + length) as u64;
        let steps = body.iter().enumerate();
        let steps = steps.map(|(index, extrinsic)| {
            let mut times = ExtrinsicTimes::default();
            let applied = times
                .execute
                .during(|| self.apply(&mut host, index, extrinsic));
            applied?;
            let size = times.estimate.during(|| host.boundary());
            let size = size.map_err(|source| self.host(source))?;
            let size = size.unwrap_or_else(|| BoundarySize {
                recorded: host.recorded(),
                root_adds: 0,
            });
            block_bytes += extrinsic.encoded_size() as u64;
            Ok(ReplayedExtrinsic {
                size,
                times,
                block_bytes,
            })
        });
        steps.collect()
    }

    /// Initializes the block and applies its extrinsics.
    fn up_to_finalize<H: Host>(&self, host: &mut H) -> Result<(), ReplayError> {
        self.initialize(host)?;
        let mut body = self.block.body.iter().enumerate();
        body.try_for_each(|(index, extrinsic)| self.apply(host, index, extrinsic))
    }

    fn initialize<H: Host>(&self, host: &mut H) -> Result<(), ReplayError> {
        let RealHeader {
            parent_hash,
            number,
            digest,
            ..
        } = &self.block.header;
        let mut header = RealHeader {
            parent_hash: *parent_hash,
            number: *number,
            state_root: H256::zero(),
            extrinsics_root: H256::zero(),
            digest: digest.clone(),
        };
        // The runtime writes the rest of the digest.
        let logs = &mut header.digest.logs;
        logs.retain(|item| matches!(item, DigestItem::PreRuntime(..)));
        host.begin(BlockPart::Initialize);
        // Ignore the result: new runtimes return a mode, old ones nothing.
        self.enter(host, || {
            self.runtime.call("Core_initialize_block", &header.encode())
        })?;
        Ok(())
    }

    /// Applies one extrinsic in a transaction of the host.
    fn apply<H: Host>(
        &self,
        host: &mut H,
        index: usize,
        extrinsic: &[u8],
    ) -> Result<(), ReplayError> {
        host.begin(BlockPart::Extrinsic(index));
        let step = |host: &mut H, step| {
            let done = host.transaction(step);
            done.map_err(|source| self.host(source))
        };
        step(host, TransactionStep::Start)?;
        let applied: AppliedExtrinsic = self.enter(host, || {
            self.runtime
                .call("BlockBuilder_apply_extrinsic", &extrinsic.encode())
                .map(|answer| AppliedExtrinsic::of(&answer))
        })?;
        if applied == AppliedExtrinsic::Refused {
            let accepted = AppliedExtrinsic::Accepted;
            let asked = self.asked(host);
            return self.expect("extrinsic", asked, &accepted, &applied);
        }
        step(host, TransactionStep::Commit)
    }

    /// Returns the bytes that the peer would have recorded if the block had ended after its last
    /// extrinsic.
    fn truth(&self, built: &Built) -> Result<u64, ReplayError> {
        let mut host = self.peer_block(built.told.as_ref());
        self.up_to_finalize(&mut host)?;
        self.enter(&mut host, || {
            let root = with_externalities(|ext| ext.storage_root(self.version));
            root.ok_or_else(|| RuntimeError {
                call: "storage root".to_owned(),
                reason: "no externalities".to_owned(),
            })
        })?;
        Ok(host.recorded())
    }

    fn measure(
        &self,
        built: &Built,
        recorded: u64,
    ) -> Result<(ProofSizes, CompactProof), ReplayError> {
        let parent = H256(self.parent.into());
        let measured = ProofSizes::measure(&built.proof, recorded, parent);
        measured.map_err(|source| self.host(source))
    }

    fn finish<H: Host>(&self, host: H) -> Result<Built, ReplayError> {
        let asked = self.asked(&host);
        let built: Built = host.finish().map_err(|source| self.host(source))?.into();
        self.expect(
            "state root",
            asked,
            &self.block.header.state_root,
            &built.root,
        )?;
        Ok(built)
    }

    /// Returns the result of `call`, run on `host`.
    fn enter<H: Host, R>(
        &self,
        host: &mut H,
        call: impl FnOnce() -> Result<R, RuntimeError>,
    ) -> Result<R, ReplayError> {
        let number = self.number;
        let answer = host.execute(|| reading_versions(call));
        let answer = answer.map_err(|source| self.host(source))?;
        answer.map_err(|source| ReplayError::Runtime {
            number,
            asked: self.asked(host),
            source,
        })
    }

    /// Returns the questions for the proof size so far; `None` if the runtime asked none.
    fn asked<H: Host>(&self, host: &H) -> Option<QuestionsAsked> {
        let (questions, told) = (host.told().len(), self.sizes_name);
        (questions > 0).then_some(QuestionsAsked { questions, told })
    }

    pub(super) fn host(&self, source: HostError) -> ReplayError {
        let number = self.number;
        ReplayError::Host { number, source }
    }

    pub(super) fn proof(&self, source: ProofError) -> ReplayError {
        let number = self.number;
        ReplayError::Proof { number, source }
    }

    fn expect<T: PartialEq + std::fmt::Debug>(
        &self,
        part: &'static str,
        asked: Option<QuestionsAsked>,
        expected: &T,
        found: &T,
    ) -> Result<(), ReplayError> {
        if expected == found {
            return Ok(());
        }
        Err(ReplayError::Header {
            number: self.number,
            part,
            asked,
            expected: format!("{expected:?}"),
            found: format!("{found:?}"),
        })
    }
}

/// The runtime's result for an extrinsic, as far as runtimes of all versions agree on its encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AppliedExtrinsic {
    Accepted,
    Refused,
}

impl AppliedExtrinsic {
    /// Uses the first byte if `answer` does not decode, because only the outermost tag never
    /// changed between versions.
    fn of(answer: &[u8]) -> Self {
        let decoded = ApplyExtrinsicResult::decode(&mut &answer[..]);
        match (decoded, answer.first()) {
            (Ok(Ok(_)), _) | (Err(_), Some(0)) => Self::Accepted,
            _ => Self::Refused,
        }
    }
}
