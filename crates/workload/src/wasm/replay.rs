//! Blocks of real chains, executed again by the chain's own runtime.
//!
//! ```text
//! for each block, on the state after the one before it:
//!     execute it as a whole, as an importer does             root of the header, proof
//!     initialize, apply each extrinsic, finalize             the header, estimate
//!     execute it from the compact proof alone                same root, sizes and proof
//!     the same, on sp-state-machine
//!     execute it on sp-state-machine                         same recorded nodes
//!     commit it
//! ```

use crate::{
    chain_spec::ChainSpec,
    entry::RuntimeError,
    host::{BoundarySize, Built, Host, HostError, ProofSizes, TransactionStep},
    lockstep::{Calls, LockstepBlock, SizeRule},
    peer::{MemoryNodes, Parent, Peer, PeerBlock},
    povmeter_host::{commit_state, Estimates, PovmeterBlock, SharedNodes, StateError},
    real_blocks::{RealBlock, RealBlocks, RealHeader},
    runtime::Hashing,
    stopwatch::Spent,
    wasm::WasmRuntime,
};
use codec::{Decode, Encode};
use povmeter::{
    Block, BlockError, NodeChange, NodeHash, NodeSource, ProofError, ProofNodes, Root, RootUpdate,
    TrieId,
};
use povmeter_store::{MemoryStore, NodeStore, StoreError};
use povmeter_substrate::SizeSource;
use sp_core::{
    storage::{
        well_known_keys::{CODE, HEAP_PAGES},
        StateVersion,
    },
    H256,
};
use sp_externalities::with_externalities;
use sp_runtime::{ApplyExtrinsicResult, DigestItem};
use sp_trie::{CompactProof, StorageProof};
use std::{sync::Arc, vec};

/// The encoding of a trie without entries.
const NULL_NODE: [u8; 1] = [0];

/// Which state machine executes the blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplayMode {
    /// povmeter.
    #[default]
    Ours,
    /// sp-state-machine.
    Peer,
    /// Both, with every result compared.
    Lockstep,
}

/// How blocks are replayed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplayOptions {
    /// Which state machine executes the blocks.
    pub mode: ReplayMode,
    /// Whether each proof is tried without each of its nodes. Executes a block once for each.
    pub every_node: bool,
}

/// A block that was executed again, and whose header has the root that came out.
#[derive(Clone, Debug)]
pub struct ReplayedBlock {
    /// Its number.
    pub number: u32,
    /// Its hash.
    pub hash: H256,
    /// The state root after it.
    pub state_root: H256,
    /// Extrinsics in it, inherents included.
    pub extrinsics: usize,
    /// How long it took.
    pub times: BlockTimes,
    /// What its runtime asked for, executing it as a whole.
    pub calls: Calls,
    /// The sizes of its proof.
    pub sizes: ProofSizes,
    /// Its proof.
    pub proof: StorageProof,
    /// The estimate after the last extrinsic; `None` of the peer's.
    pub estimate: Option<BoundarySize>,
    /// What the peer would have recorded, had the block ended there.
    pub truth: Option<u64>,
    /// What must hold besides the root.
    pub checks: Vec<Check>,
}

/// How long the ways to execute a block took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockTimes {
    /// As a whole.
    pub whole: Spent,
    /// Initialized, applied, finalized.
    pub steps: Spent,
}

/// Something that must hold for a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// What.
    pub name: &'static str,
    /// Whether it does.
    pub holds: bool,
    /// Numbers to it.
    pub detail: String,
}

/// Why a block can't be replayed, or not the one after it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The state before the first block can't be had.
    #[error(transparent)]
    State(#[from] StateError),
    /// There is no runtime in the state.
    #[error("block {number}: expected a runtime under `:code`, found none")]
    NoCode {
        /// Number of the block.
        number: u32,
    },
    /// The header is not what came out.
    #[error("block {number}: expected {part} {expected}, found {found}")]
    Header {
        /// Number of the block.
        number: u32,
        /// Which part of it.
        part: &'static str,
        /// As published.
        expected: String,
        /// As computed.
        found: String,
    },
    /// The runtime failed.
    #[error("block {number}: the runtime failed")]
    Runtime {
        /// Number of the block.
        number: u32,
        /// How.
        source: RuntimeError,
    },
    /// A host failed.
    #[error("block {number}: the host failed")]
    Host {
        /// Number of the block.
        number: u32,
        /// How.
        source: HostError,
    },
    /// The state below a block can't be read.
    #[error("block {number}: the state can't be read")]
    Block {
        /// Number of the block.
        number: u32,
        /// Why not.
        source: BlockError,
    },
    /// A proof is none.
    #[error("block {number}: the proof that was made is none")]
    Proof {
        /// Number of the block.
        number: u32,
        /// Why not.
        source: ProofError,
    },
    /// The state after a block can't be kept.
    #[error("block {number}: the state can't be kept")]
    Store {
        /// Number of the block.
        number: u32,
        /// Why not.
        source: StoreError,
    },
}

/// The blocks of a file, one after the other, and the state between them.
pub struct Replay {
    blocks: vec::IntoIter<RealBlock>,
    version: StateVersion,
    store: MemoryStore,
    runtime: WasmRuntime,
    options: ReplayOptions,
}

impl Replay {
    /// The blocks of `file` on top of `state`.
    ///
    /// # Errors
    /// [`ReplayError::State`].
    pub fn new(
        file: RealBlocks,
        state: &ChainSpec,
        options: ReplayOptions,
    ) -> Result<Self, ReplayError> {
        let mut store = MemoryStore::new();
        let version = file.state_version;
        commit_state(&mut store, &state.top, &state.children, version, None)?;
        Ok(Self {
            blocks: file.blocks.into_iter(),
            version,
            store,
            runtime: WasmRuntime::new(Vec::new(), None),
            options,
        })
    }

    /// Makes the runtime that of the state.
    fn find_runtime(&mut self, number: u32) -> Result<(), ReplayError> {
        let mut state: Block<_> = Block::new(&self.store, self.store.root());
        let mut value = |key| {
            let value = state.get(TrieId::Top, key);
            let value = value.map_err(|source| ReplayError::Block { number, source })?;
            Ok::<_, ReplayError>(value.map(<[u8]>::to_vec))
        };
        let code = value(CODE)?.ok_or(ReplayError::NoCode { number })?;
        let pages = value(HEAP_PAGES)?.and_then(|pages| u64::decode(&mut pages.as_slice()).ok());
        self.runtime = WasmRuntime::new(code, pages);
        let prepared = self.runtime.prepare();
        prepared.map_err(|source| ReplayError::Runtime { number, source })
    }

    fn replay(&mut self, block: &RealBlock) -> Result<ReplayedBlock, ReplayError> {
        let number = block.header.number;
        self.find_runtime(number)?;
        let attempt = Attempt {
            block,
            number,
            version: self.version,
            nodes: SharedNodes::new(self.store.clone()),
            parent: self.store.root(),
            runtime: &self.runtime,
        };
        let (replayed, built) = match self.options.mode {
            ReplayMode::Ours => attempt.ours(self.options.every_node),
            ReplayMode::Peer => attempt.peer(),
            ReplayMode::Lockstep => attempt.lockstep(),
        }?;
        let update = update(self.store.root(), &built);
        let committed = self.store.commit(&update);
        committed.map_err(|source| ReplayError::Store { number, source })?;
        Ok(replayed)
    }
}

impl Iterator for Replay {
    type Item = Result<ReplayedBlock, ReplayError>;

    /// The next block. After an error there is none.
    fn next(&mut self) -> Option<Self::Item> {
        let block = self.blocks.next()?;
        let replayed = self.replay(&block);
        if replayed.is_err() {
            self.blocks = Vec::new().into_iter();
        }
        Some(replayed)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.blocks.size_hint()
    }
}

impl ExactSizeIterator for Replay {}

/// What a block does to a store that keys by hash alone.
fn update(parent: Root, built: &Built) -> RootUpdate {
    let nodes = built.update.nodes().iter().map(|change| {
        let (path, hash) = change.key.split_at(change.key.len().saturating_sub(32));
        let mut bytes = [0; 32];
        bytes.copy_from_slice(hash);
        NodeChange {
            path: path.to_vec().into(),
            odd_nibble: None,
            hash: NodeHash::from(bytes),
            references: change.count,
            encoded: change.node.clone().into(),
        }
    });
    RootUpdate {
        parent,
        root: Root::from(built.root.0),
        children: Vec::new(),
        nodes: nodes.collect(),
    }
}

/// One block on the state before it.
struct Attempt<'a> {
    block: &'a RealBlock,
    number: u32,
    version: StateVersion,
    nodes: SharedNodes,
    parent: Root,
    runtime: &'a WasmRuntime,
}

impl Attempt<'_> {
    fn our_block<S: NodeSource>(&self, source: S, estimates: Estimates) -> PovmeterBlock<S> {
        let sizes = SizeSource::Estimate;
        PovmeterBlock::on(source, self.parent, self.version, estimates, sizes)
    }

    fn peer_block(&self) -> PeerBlock {
        let parent = self.nodes.parent(H256(self.parent.into()));
        Peer::new(parent, self.version).block()
    }

    /// On povmeter, with all that follows from it.
    fn ours(&self, every_node: bool) -> Result<(ReplayedBlock, Built), ReplayError> {
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

        let truth = self.truth()?;
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
            (sizes, &built.proof),
            (estimate, Some(truth)),
            checks,
        );
        Ok((replayed, built))
    }

    /// On the peer.
    fn peer(&self) -> Result<(ReplayedBlock, Built), ReplayError> {
        let mut times = BlockTimes::default();
        let (built, recorded) = self.whole(self.peer_block(), &mut times.whole)?;
        let (sizes, _) = self.measure(&built, recorded)?;
        let (_, in_steps) = self.steps(self.peer_block(), &mut times.steps)?;
        let checks = vec![same_nodes(&built, &in_steps)];
        let replayed = self.report(
            times,
            Calls::default(),
            (sizes, &built.proof),
            (None, None),
            checks,
        );
        Ok((replayed, built))
    }

    /// On both, call by call.
    fn lockstep(&self) -> Result<(ReplayedBlock, Built), ReplayError> {
        let (mut times, mut calls, mut in_steps) = <(BlockTimes, Calls, Calls)>::default();
        let both = |calls, estimates| {
            let ours = self.our_block(self.nodes.clone(), estimates);
            LockstepBlock::new(ours, Some(self.peer_block()), SizeRule::AtLeast, calls)
        };
        let host = both(&mut calls, Estimates::Nowhere);
        let (built, recorded) = self.whole(host, &mut times.whole)?;
        let (sizes, _) = self.measure(&built, recorded)?;
        let host = both(&mut in_steps, Estimates::Everywhere);
        let (estimate, _) = self.steps(host, &mut times.steps)?;
        let mut checks = Vec::new();
        for (name, calls) in [
            ("every result is sp-state-machine's, as a whole", &calls),
            ("every result is sp-state-machine's, in steps", &in_steps),
        ] {
            let first = calls.first.first();
            checks.push(Check {
                name,
                holds: calls.differences == 0,
                detail: match first {
                    None => format!("{} calls", calls.all),
                    Some(first) => {
                        format!("{} of {}, the first: {first}", calls.differences, calls.all)
                    }
                },
            });
        }
        checks.extend(self.against_peer(&built, recorded)?);
        let replayed = self.report(
            times,
            calls,
            (sizes, &built.proof),
            (estimate, None),
            checks,
        );
        Ok((replayed, built))
    }

    fn report(
        &self,
        times: BlockTimes,
        calls: Calls,
        (sizes, proof): (ProofSizes, &StorageProof),
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
            proof: proof.clone(),
            estimate,
            truth,
            checks,
        }
    }

    /// The header as it was before its author signed it.
    fn unsealed(&self) -> RealHeader {
        let mut header = self.block.header.clone();
        let logs = &mut header.digest.logs;
        logs.retain(|item| !matches!(item, DigestItem::Seal(..)));
        header
    }

    /// The block executed as a whole, and what was recorded.
    fn whole<H: Host>(&self, mut host: H, spent: &mut Spent) -> Result<(Built, u64), ReplayError> {
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

    /// The block as its author made it: the estimate after the last extrinsic, and what came out.
    fn steps<H: Host>(
        &self,
        mut host: H,
        spent: &mut Spent,
    ) -> Result<(Option<BoundarySize>, Built), ReplayError> {
        spent.during(|| self.up_to_finalize(&mut host))?;
        let estimate = host.boundary().map_err(|source| self.host(source))?;
        let header: RealHeader = spent.during(|| {
            self.enter(&mut host, || {
                self.runtime.call_for("BlockBuilder_finalize_block", &[])
            })
        })?;
        let expected = self.unsealed();
        self.expect("state root", &expected.state_root, &header.state_root)?;
        self.expect("header", &expected, &header)?;
        Ok((estimate, self.finish(host)?))
    }

    /// Initializes the block and applies its extrinsics, each in a transaction of the host.
    fn up_to_finalize<H: Host>(&self, host: &mut H) -> Result<(), ReplayError> {
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
        // The rest of the digest is for the runtime to write.
        let logs = &mut header.digest.logs;
        logs.retain(|item| matches!(item, DigestItem::PreRuntime(..)));
        // Answers with nothing or a mode, depending on the age of the runtime.
        self.enter(host, || {
            self.runtime.call("Core_initialize_block", &header.encode())
        })?;
        for extrinsic in &self.block.body {
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
                return self.expect("extrinsic", &accepted, &applied);
            }
            step(host, TransactionStep::Commit)?;
        }
        Ok(())
    }

    /// What the peer would have recorded, had the block ended after its last extrinsic.
    fn truth(&self) -> Result<u64, ReplayError> {
        let mut host = self.peer_block();
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

    /// Whether the peer records the same.
    fn against_peer(&self, built: &Built, recorded: u64) -> Result<[Check; 2], ReplayError> {
        let (theirs, their_bytes) = self.whole(self.peer_block(), &mut Spent::default())?;
        Ok([
            Check {
                name: "sp-state-machine records the same",
                holds: built.proof == theirs.proof && recorded == their_bytes,
                detail: format!(
                    "{their_bytes} bytes in {} nodes, found {recorded} in {}",
                    theirs.proof.len(),
                    built.proof.len()
                ),
            },
            Check {
                name: "sp-state-machine changes the same",
                holds: same_nodes(&theirs, built).holds
                    && theirs.main_changes == built.main_changes
                    && theirs.child_changes == built.child_changes,
                detail: format!("{} keys of the top trie", theirs.main_changes.len()),
            },
        ])
    }

    /// The block from its compact proof and nothing else.
    fn again(&self, built: &Built, compact: &CompactProof) -> Result<Check, ReplayError> {
        let proof = povmeter::CompactProof::decode(&compact.encode());
        let nodes = proof.and_then(|proof| proof.to_source(self.parent));
        let nodes = nodes.map_err(|source| self.proof(source))?;
        let host = self.our_block(nodes, Estimates::Nowhere);
        let again = self.whole(host, &mut Spent::default());
        let holds = again.as_ref().is_ok_and(|(again, _)| {
            again.root == built.root && again.told == built.told && again.proof == built.proof
        });
        let told = built.told.as_ref().map_or(0, Vec::len);
        Ok(Check {
            name: "executes again from the compact proof alone",
            holds,
            detail: match again {
                Ok(_) => format!("{} bytes, {told} sizes told", compact.encoded_size()),
                Err(error) => error.to_string(),
            },
        })
    }

    /// The same with a validator of today.
    fn stock_validator(&self, built: &Built, compact: &CompactProof) -> Check {
        let root = H256(self.parent.into());
        let found = compact
            .to_memory_db::<Hashing>(&root)
            .map_err(|error| error.to_string())
            .and_then(|(nodes, root)| {
                let nodes = Arc::new(MemoryNodes(nodes));
                let block = Peer::new(Parent { root, nodes }, self.version).block();
                let executed = self.whole(block, &mut Spent::default());
                executed.map_err(|error| error.to_string())
            });
        Check {
            name: "sp-state-machine validates the proof",
            holds: found
                .as_ref()
                .is_ok_and(|(found, _)| found.root == built.root),
            detail: match found {
                Ok((found, _)) => format!("root {:?}", found.root),
                Err(error) => error,
            },
        }
    }

    /// Whether every node is needed. The null node, which stands for a trie without entries, is
    /// recorded, but known to everybody by its hash.
    fn without_each(&self, built: &Built) -> Check {
        let nodes: Vec<_> = built.proof.iter_nodes().collect();
        let mut spare = 0;
        for (left_out, node) in nodes.iter().enumerate() {
            if **node == NULL_NODE {
                continue;
            }
            let rest = nodes.iter().enumerate();
            let rest = rest.filter(|(index, _)| *index != left_out);
            let rest = rest.map(|(_, node)| node.to_vec().into());
            let source: ProofNodes = povmeter::StorageProof::new(rest).to_source();
            let host = self.our_block(source, Estimates::Nowhere);
            spare += usize::from(self.whole(host, &mut Spent::default()).is_ok());
        }
        Check {
            name: "no node can be left out of the proof",
            holds: spare == 0,
            detail: format!("{spare} of {} can", nodes.len()),
        }
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
        let built: Built = host.finish().map_err(|source| self.host(source))?.into();
        self.expect("state root", &self.block.header.state_root, &built.root)?;
        Ok(built)
    }

    /// What `call` returns under `host`.
    fn enter<H: Host, R>(
        &self,
        host: &mut H,
        call: impl FnOnce() -> Result<R, RuntimeError>,
    ) -> Result<R, ReplayError> {
        let number = self.number;
        let answer = host.execute(call).map_err(|source| self.host(source))?;
        answer.map_err(|source| ReplayError::Runtime { number, source })
    }

    fn host(&self, source: HostError) -> ReplayError {
        let number = self.number;
        ReplayError::Host { number, source }
    }

    fn proof(&self, source: ProofError) -> ReplayError {
        let number = self.number;
        ReplayError::Proof { number, source }
    }

    fn expect<T: PartialEq + std::fmt::Debug>(
        &self,
        part: &'static str,
        expected: &T,
        found: &T,
    ) -> Result<(), ReplayError> {
        if expected == found {
            return Ok(());
        }
        Err(ReplayError::Header {
            number: self.number,
            part,
            expected: format!("{expected:?}"),
            found: format!("{found:?}"),
        })
    }
}

/// What a runtime says to an extrinsic, as far as runtimes of all ages say it alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AppliedExtrinsic {
    Accepted,
    Refused,
}

impl AppliedExtrinsic {
    /// Errors inside of the answer have changed over the years; the outermost tag has not.
    fn of(answer: &[u8]) -> Self {
        let decoded = ApplyExtrinsicResult::decode(&mut &answer[..]);
        match (decoded, answer.first()) {
            (Ok(Ok(_)), _) | (Err(_), Some(0)) => Self::Accepted,
            _ => Self::Refused,
        }
    }
}

fn estimated(estimate: Option<BoundarySize>, truth: u64) -> Check {
    let estimate = estimate.map_or(0, |estimate| estimate.total());
    Check {
        name: "estimate complete",
        holds: estimate >= truth,
        detail: format!("{estimate} bytes after the last extrinsic, truth {truth}"),
    }
}

/// Values that come and go within a block are changes of one way and not of the other.
fn same_nodes(expected: &Built, found: &Built) -> Check {
    Check {
        name: "as a whole and in steps the same nodes change",
        holds: expected.root == found.root && expected.update == found.update,
        detail: format!("{} nodes", found.update.nodes().len()),
    }
}
