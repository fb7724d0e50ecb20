//! The bytes that an extrinsic or another runtime would add to the next block.
//!
//! ```text
//! twice, on the same state: without the item, and with it
//!     initialize the next block, as the chain's author would
//!     apply the extrinsic, or initialize with the other runtime in place of the chain's
//!     end the block there: root, proof
//! the difference is what the item adds
//! ```
//!
//! The block is not finalized, because that would need the inherents of an author.

use super::{applied::Applied, runtime_version, storage_names, ParentState, ReplayError};
use crate::real_blocks::RealHeader;
use codec::{Compact, Decode, Encode};
use povmeter::{Attributed, Consensus, Root};
use povmeter_attribution::{BlockAttribution, BlockPart, StorageName};
use povmeter_dev_runtime::{
    wasm::{reading_versions, WasmRuntime},
    AttributedBlock, Built, Calls, Estimates, Host, HostError, LockstepBlock, PovSizes,
    PovmeterBlock, ProofSizes, RuntimeError, SharedNodes, SizeRule, Spent, TransactionStep,
};
use povmeter_substrate::SizeSource;
use sp_core::{storage::StateVersion, H256};
use sp_crypto_hashing::twox_128;
use sp_runtime::{generic::Digest, DigestItem};
use sp_trie::StorageProof;
use sp_version::RuntimeVersion;
use std::collections::BTreeSet;

/// An item to try in the next block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DryRunItem {
    /// An encoded extrinsic, without its length prefix.
    Extrinsic(Vec<u8>),
    /// The code of a runtime, as `:code` would hold it. Its migrations run when it initializes a block.
    Runtime(Vec<u8>),
}

/// The outcome of an item that a block can hold.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DryRunOutcome {
    /// The call or the migrations succeeded.
    Succeeded,
    /// The extrinsic is in the block and pays, but its call failed with this error.
    CallFailed(String),
}

/// The weight that a block has consumed, summed over all classes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConsumedWeight {
    /// Picoseconds of the reference machine.
    pub ref_time: u64,
    /// Bytes of the proof, by the runtime's own count.
    pub proof_size: u64,
}

/// A block that ends early, without being finalized.
#[derive(Clone, Debug)]
pub struct PartialBlock {
    /// Sizes of its proof, the root included.
    pub sizes: ProofSizes,
    /// Sizes of its PoV: the header as far as it is known, the extrinsic, the compact proof.
    pub pov: PovSizes,
    /// The proof.
    pub proof: StorageProof,
    /// The weight consumed; `None` if the runtime does not record it.
    pub weight: Option<ConsumedWeight>,
    /// Time of `initialize_block`.
    pub initialize: Spent,
    /// Time of the extrinsic.
    pub apply: Spent,
}

/// The next block without and with an item.
#[derive(Clone, Debug)]
pub struct DryRunResult {
    /// Number of the block that would hold the item.
    pub number: u32,
    /// Version of the chain's runtime.
    pub spec_version: u32,
    /// Version of the new runtime; `None` if the item is an extrinsic.
    pub new_spec_version: Option<u32>,
    /// Names of the chain's runtime and of the new one; `None` if the item is an extrinsic. The call `set_code` refuses
    /// a runtime of another name.
    pub spec_names: Option<[String; 2]>,
    /// The outcome of the item.
    pub outcome: DryRunOutcome,
    /// The block without the item.
    pub without: PartialBlock,
    /// The block with the item.
    pub with: PartialBlock,
    /// The parts of the block with the item that need its nodes.
    pub attribution: BlockAttribution,
    /// Names of the runtime's storage items; empty if the runtime does not tell them.
    pub names: Vec<StorageName>,
}

impl DryRunResult {
    /// Returns the hashes of the nodes that only the block with the item needs.
    pub fn added_nodes(&self) -> BTreeSet<[u8; 32]> {
        let hashes = |proof: &StorageProof| -> BTreeSet<[u8; 32]> {
            let nodes = proof.iter_nodes();
            nodes
                .map(|node| sp_crypto_hashing::blake2_256(node))
                .collect()
        };
        let without = hashes(&self.without.proof);
        let with = hashes(&self.with.proof);
        with.difference(&without).copied().collect()
    }
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DryRunError {
    /// The state has no runtime, or cannot be read.
    #[error(transparent)]
    Parent(#[from] ReplayError),
    /// A runtime failed.
    #[error("block {number}: the runtime failed at {part}")]
    Runtime {
        /// Number of the block.
        number: u32,
        /// The step at which it failed.
        part: &'static str,
        /// Error of the runtime.
        source: RuntimeError,
    },
    /// The host failed.
    #[error("block {number}: the host failed")]
    Host {
        /// Number of the block.
        number: u32,
        /// Error of the host.
        source: HostError,
    },
    /// No block can hold the extrinsic.
    #[error("block {number}: expected an extrinsic that can be applied, found one that the runtime refuses: {reason}")]
    Refused {
        /// Number of the block.
        number: u32,
        /// The runtime's reason.
        reason: String,
    },
    /// The extrinsic does not fit into a block, even an empty one.
    #[error("block {number}: expected an extrinsic that fits into a block, found one with more weight or length than it has room for")]
    Full {
        /// Number of the block.
        number: u32,
    },
    /// The new runtime has the chain's spec name, but no higher version. `set_code` refuses it, and no migrations would
    /// run.
    #[error("expected a runtime with a higher spec version than the chain's, {chain}, found {found}, which `set_code` refuses")]
    NotHigher {
        /// The version of the chain's runtime.
        chain: u32,
        /// The version of the new one.
        found: u32,
    },
}

impl DryRunError {
    /// The value of `part` in [`Self::Runtime`] when a new runtime fails to tell its version.
    pub const NEW_CODE: &'static str = "the version of the new code";
}

/// The next block of a chain, on which items are tried.
pub struct DryRun {
    parent: ParentState,
    header: RealHeader,
    runtime: WasmRuntime,
    version: StateVersion,
    spec_version: u32,
    spec_name: String,
}

impl DryRun {
    /// Returns the block after that of `header`, on `parent`, the state after `header`. The author's
    /// digest is that of `header`, one slot later.
    ///
    /// # Errors
    /// [`DryRunError`] if the state has no runtime.
    pub fn after(header: &RealHeader, parent: ParentState) -> Result<Self, DryRunError> {
        let next = RealHeader {
            parent_hash: sp_runtime::traits::Header::hash(header),
            number: header.number.saturating_add(1),
            state_root: H256::zero(),
            extrinsics_root: H256::zero(),
            digest: claims(header, 1),
        };
        Self::new(next, parent)
    }

    /// Returns a block in the place of that of `header`, on `parent`, the state before `header`.
    ///
    /// # Errors
    /// [`DryRunError`] if the state has no runtime.
    pub fn in_place_of(header: &RealHeader, parent: ParentState) -> Result<Self, DryRunError> {
        let next = RealHeader {
            state_root: H256::zero(),
            extrinsics_root: H256::zero(),
            digest: claims(header, 0),
            ..header.clone()
        };
        Self::new(next, parent)
    }

    fn new(header: RealHeader, parent: ParentState) -> Result<Self, DryRunError> {
        let number = header.number;
        let runtime = parent.runtime(number)?;
        let version = runtime_version(&runtime).map_err(|source| DryRunError::Runtime {
            number,
            part: "its version",
            source,
        })?;
        Ok(Self {
            header,
            version: parent.version.unwrap_or(version.state_version()),
            spec_version: version.spec_version,
            spec_name: version.spec_name.into_owned(),
            parent,
            runtime,
        })
    }

    /// Tries `item`, and returns the block without and with it.
    ///
    /// # Errors
    /// [`DryRunError`] if the item cannot be in a block, or the state cannot be read.
    pub fn run(&self, item: &DryRunItem) -> Result<DryRunResult, DryRunError> {
        let number = self.header.number;
        let (runtime, extrinsic, new_version) = match item {
            DryRunItem::Extrinsic(extrinsic) => (self.runtime.clone(), Some(&extrinsic[..]), None),
            DryRunItem::Runtime(code) => {
                let runtime = self.runtime.with_code(code.clone());
                let version = self.new_version(&runtime)?;
                (runtime, None, Some(version))
            }
        };
        self.tell_keys(&runtime, extrinsic)?;
        let (without, _, _) = self.measure(&self.runtime, None)?;
        let (with, outcome, attribution) = self.measure(&runtime, extrinsic)?;
        Ok(DryRunResult {
            number,
            spec_version: self.spec_version,
            new_spec_version: new_version.as_ref().map(|version| version.spec_version),
            spec_names: new_version
                .map(|version| [self.spec_name.clone(), version.spec_name.into_owned()]),
            outcome,
            without,
            with,
            attribution,
            names: storage_names(&runtime).unwrap_or_default(),
        })
    }

    /// The version of the new `runtime`.
    ///
    /// `set_code` compares the names and the versions. Another name is no error here, because some calls skip this
    /// comparison, and migrations run then, too.
    fn new_version(&self, runtime: &WasmRuntime) -> Result<RuntimeVersion, DryRunError> {
        let version = runtime_version(runtime).map_err(|source| DryRunError::Runtime {
            number: self.header.number,
            part: DryRunError::NEW_CODE,
            source,
        })?;
        let (chain, found) = (self.spec_version, version.spec_version);
        match version.spec_name == self.spec_name && found <= chain {
            true => Err(DryRunError::NotHigher { chain, found }),
            false => Ok(version),
        }
    }

    /// Tells a remote state the keys that the block will read.
    fn tell_keys(
        &self,
        runtime: &WasmRuntime,
        extrinsic: Option<&[u8]>,
    ) -> Result<(), DryRunError> {
        let Some(hints) = &self.parent.hints else {
            return Ok(());
        };
        let mut calls = Calls::default();
        let host = LockstepBlock::new(
            self.block::<Consensus>(),
            None,
            SizeRule::AtLeast,
            &mut calls,
        );
        let mut host = host.telling_keys(hints.clone());
        self.steps(&mut host, runtime, extrinsic).map(drop)
    }

    fn block<A: povmeter::Accounting>(&self) -> PovmeterBlock<SharedNodes, A> {
        let (nodes, sizes) = (self.parent.nodes.clone(), SizeSource::Reads);
        let (root, version): (Root, _) = (self.parent.root, self.version);
        PovmeterBlock::with_accounting(nodes, root, version, Estimates::Nowhere, sizes)
    }

    /// Executes the block up to the end of `extrinsic`, and ends it there.
    fn measure(
        &self,
        runtime: &WasmRuntime,
        extrinsic: Option<&[u8]>,
    ) -> Result<(PartialBlock, DryRunOutcome, BlockAttribution), DryRunError> {
        let mut attribution = BlockAttribution::default();
        let mut host = AttributedBlock::of(self.block::<Attributed>(), &mut attribution);
        let (initialize, apply, outcome) = self.steps(&mut host, runtime, extrinsic)?;
        let built: Built = host.finish().map_err(|source| self.host(source))?.into();
        let nodes = built.proof.iter_nodes();
        let recorded = nodes.map(|node| node.encoded_size() as u64).sum();
        let parent = H256(self.parent.root.into());
        let measured = ProofSizes::measure(&built.proof, recorded, parent);
        let (sizes, compact) = measured.map_err(|source| self.host(source))?;
        let body: Vec<&[u8]> = extrinsic.into_iter().collect();
        let weight = built
            .main_changes
            .iter()
            .find(|(key, _)| *key == weight_key());
        let weight = weight.and_then(|(_, value)| consumed(value.as_deref()?));
        let block = PartialBlock {
            sizes,
            pov: PovSizes::measure(&self.header, &body, &compact),
            proof: built.proof,
            weight,
            initialize,
            apply,
        };
        Ok((block, outcome, attribution))
    }

    fn steps<H: Host>(
        &self,
        host: &mut H,
        runtime: &WasmRuntime,
        extrinsic: Option<&[u8]>,
    ) -> Result<(Spent, Spent, DryRunOutcome), DryRunError> {
        let (mut initialize, mut apply) = <(Spent, Spent)>::default();
        let header = self.header.encode();
        host.begin(BlockPart::Initialize);
        let call = || runtime.call("Core_initialize_block", &header);
        initialize.during(|| self.enter(host, "initialize_block", call))?;
        let Some(extrinsic) = extrinsic else {
            return Ok((initialize, apply, DryRunOutcome::Succeeded));
        };
        host.begin(BlockPart::Extrinsic(0));
        let step = |host: &mut H, step| host.transaction(step).map_err(|source| self.host(source));
        step(host, TransactionStep::Start)?;
        let encoded = extrinsic.encode();
        let call = || runtime.call("BlockBuilder_apply_extrinsic", &encoded);
        let answer = apply.during(|| self.enter(host, "apply_extrinsic", call))?;
        let outcome = self.outcome(&answer)?;
        step(host, TransactionStep::Commit)?;
        Ok((initialize, apply, outcome))
    }

    fn outcome(&self, answer: &[u8]) -> Result<DryRunOutcome, DryRunError> {
        let number = self.header.number;
        match Applied::decode(answer) {
            Applied::Succeeded => Ok(DryRunOutcome::Succeeded),
            Applied::CallFailed(error) => Ok(DryRunOutcome::CallFailed(error)),
            Applied::Full => Err(DryRunError::Full { number }),
            Applied::Refused(reason) => Err(DryRunError::Refused { number, reason }),
        }
    }

    fn enter<H: Host, R>(
        &self,
        host: &mut H,
        part: &'static str,
        call: impl FnOnce() -> Result<R, RuntimeError>,
    ) -> Result<R, DryRunError> {
        let answer = host.execute(|| reading_versions(call));
        let answer = answer.map_err(|source| self.host(source))?;
        answer.map_err(|source| DryRunError::Runtime {
            number: self.header.number,
            part,
            source,
        })
    }

    fn host(&self, source: HostError) -> DryRunError {
        DryRunError::Host {
            number: self.header.number,
            source,
        }
    }
}

/// Returns the author's pre-runtime items of `header`, moved by `later` slots.
fn claims(header: &RealHeader, later: u64) -> Digest {
    let claims = header.digest.logs.iter().filter_map(|item| {
        let DigestItem::PreRuntime(engine, claim) = item else {
            return None;
        };
        let mut claim = claim.clone();
        // The slot: first in a claim of Aura; after the kind and the authority in one of BABE.
        let at = match engine {
            b"aura" => Some(0),
            b"BABE" => Some(5),
            _ => None,
        };
        if let Some(slot) = at.and_then(|at| claim.get_mut(at..at + 8)) {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(slot);
            let moved = u64::from_le_bytes(bytes).saturating_add(later);
            slot.copy_from_slice(&moved.to_le_bytes());
        }
        Some(DigestItem::PreRuntime(*engine, claim))
    });
    Digest {
        logs: claims.collect(),
    }
}

/// Returns the key of the weight that a block has consumed.
fn weight_key() -> Vec<u8> {
    [twox_128(b"System"), twox_128(b"BlockWeight")].concat()
}

/// Returns the sum of the weights of the three classes, in the form of present runtimes or in the old
/// one without proof sizes.
fn consumed(value: &[u8]) -> Option<ConsumedWeight> {
    type Present = [(Compact<u64>, Compact<u64>); 3];
    let mut input = value;
    if let (Ok(classes), true) = (Present::decode(&mut input), input.is_empty()) {
        let add =
            |sum: ConsumedWeight, (time, size): (Compact<u64>, Compact<u64>)| ConsumedWeight {
                ref_time: sum.ref_time.saturating_add(time.0),
                proof_size: sum.proof_size.saturating_add(size.0),
            };
        return Some(classes.into_iter().fold(ConsumedWeight::default(), add));
    }
    let mut input = value;
    let times = <[u64; 3]>::decode(&mut input)
        .ok()
        .filter(|_| input.is_empty())?;
    Some(ConsumedWeight {
        ref_time: times.into_iter().fold(0, u64::saturating_add),
        proof_size: 0,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use povmeter_dev_runtime::{commit_state, Entries};
    use povmeter_store::MemoryStore;
    use sp_core::storage::well_known_keys::{CODE, HEAP_PAGES};
    use std::collections::BTreeMap;

    /// Returns a runtime of this name and version. It traps when it initializes a block with a heap of about a
    /// thousand pages or more, such as the default.
    fn small_heaps_only(spec_name: &str, spec_version: u32) -> Vec<u8> {
        let version = RuntimeVersion {
            spec_name: spec_name.to_owned().into(),
            spec_version,
            system_version: 1,
            ..RuntimeVersion::default()
        };
        let bytes = version.encode();
        let escaped = bytes.iter().map(|byte| format!("\\{byte:02x}"));
        let answer = (bytes.len() as u64) << 32;
        let module = format!(
            r#"(module
                (import "env" "memory" (memory 18))
                (import "env" "ext_storage_exists_version_1" (func $exists (param i64) (result i32)))
                (global (export "__heap_base") i32 (i32.const 65536))
                (data (i32.const 0) "{}")
                (func (export "Core_version") (param i32 i32) (result i64) (i64.const {answer}))
                (func (export "Core_initialize_block") (param i32 i32) (result i64)
                    (if (i32.gt_u (memory.size) (i32.const 1000)) (then unreachable))
                    (; A block that reads nothing has no proof. ;)
                    (drop (call $exists (i64.const 0x100000000)))
                    (i64.const 0)))"#,
            escaped.collect::<String>()
        );
        wat::parse_str(module).unwrap()
    }

    /// Tries `runtime` on a chain named `spec`, whose runtime has version 5.
    fn upgraded(heap_pages: Option<u64>, runtime: Vec<u8>) -> Result<DryRunResult, DryRunError> {
        let mut top = Entries::from([(CODE.to_vec(), small_heaps_only("spec", 5))]);
        top.extend(heap_pages.map(|pages| (HEAP_PAGES.to_vec(), pages.encode())));
        let mut store = MemoryStore::new();
        let version = StateVersion::V1;
        let root = commit_state(&mut store, &top, &BTreeMap::new(), version, None).unwrap();
        let parent = ParentState::new(SharedNodes::new(store), root);
        let zero = H256::zero();
        let header = RealHeader {
            parent_hash: zero,
            number: 1,
            state_root: zero,
            extrinsics_root: zero,
            digest: Digest::default(),
        };
        let next = DryRun::after(&header, parent).unwrap();
        next.run(&DryRunItem::Runtime(runtime))
    }

    #[test]
    fn a_new_runtime_gets_the_heap_that_the_state_says() {
        let result = upgraded(Some(100), small_heaps_only("spec", 6)).unwrap();
        assert_eq!((result.spec_version, result.new_spec_version), (5, Some(6)));
        let default = upgraded(None, small_heaps_only("spec", 6));
        assert!(
            matches!(default, Err(DryRunError::Runtime { .. })),
            "{default:?}"
        );
    }

    #[test]
    fn a_runtime_of_the_same_name_needs_a_higher_version() {
        for found in [4, 5] {
            let error = upgraded(Some(100), small_heaps_only("spec", found)).unwrap_err();
            let is_told =
                matches!(error, DryRunError::NotHigher { chain: 5, found: told } if told == found);
            assert!(is_told, "{error}");
        }
        for found in [4, 5, 6] {
            let result = upgraded(Some(100), small_heaps_only("other", found)).unwrap();
            let names = ["spec", "other"].map(str::to_owned);
            assert_eq!(result.spec_names, Some(names));
        }
    }

    #[test]
    fn weights_of_both_forms_are_added_up() {
        let pair = |time: u64, size: u64| (Compact(time), Compact(size));
        let present = [pair(1, 10), pair(u64::MAX / 2, 0), pair(3, 30)].encode();
        let expected = ConsumedWeight {
            ref_time: u64::MAX / 2 + 4,
            proof_size: 40,
        };
        assert_eq!(consumed(&present), Some(expected));
        let old = consumed(&[7u64, 8, 9].encode());
        let expected = ConsumedWeight {
            ref_time: 24,
            proof_size: 0,
        };
        assert_eq!(old, Some(expected));
        for other in [&[][..], &[1], &[0; 7], &[0; 23]] {
            assert_eq!(consumed(other), None, "{other:?}");
        }
    }

    #[test]
    fn claims_move_by_slots_and_seals_go() {
        let slot = 41u64;
        let babe = (2u8, 7u32, slot).encode();
        let logs = vec![
            DigestItem::PreRuntime(*b"aura", slot.encode()),
            DigestItem::PreRuntime(*b"BABE", babe),
            DigestItem::PreRuntime(*b"else", vec![1]),
            DigestItem::PreRuntime(*b"aura", vec![1]),
            DigestItem::Seal(*b"aura", vec![2]),
        ];
        let zero = H256::zero();
        let digest = Digest { logs };
        let header = RealHeader {
            parent_hash: zero,
            number: 5,
            state_root: zero,
            extrinsics_root: zero,
            digest,
        };
        let moved = claims(&header, 1);
        let expected = vec![
            DigestItem::PreRuntime(*b"aura", 42u64.encode()),
            DigestItem::PreRuntime(*b"BABE", (2u8, 7u32, 42u64).encode()),
            DigestItem::PreRuntime(*b"else", vec![1]),
            DigestItem::PreRuntime(*b"aura", vec![1]),
        ];
        assert_eq!(moved.logs, expected);
        assert_eq!(claims(&header, 0).logs[..], header.digest.logs[..4]);
    }
}
