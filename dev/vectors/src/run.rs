//! Executes a vector and compares its results.

use crate::{
    answer::ask,
    format::{state_version, AccountingName, Part, Sealed, Sizes, Step, UnknownVersion, Vector},
    hex::Hex,
    op::Op,
};
use bytes::Bytes;
use povmeter::{
    Accounting, Advisory, Block, BlockError, Consensus, NodeSource, ProofError, ProofNodes,
    ProofSize, Root, RootError, RootUpdate, SealedBlock, StateVersion, StorageProof,
};
use povmeter_delta_root::{state_update, Changes, KeyChanges, ShadowState};
use std::fmt::Debug;

/// Why a vector does not hold.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VectorError {
    /// A call failed.
    #[error("a call failed: {0}")]
    Block(#[from] BlockError),
    /// The parent state could not be built.
    #[error("the parent state cannot be built: {0}")]
    Parent(#[from] RootError),
    /// The proof could not be packed.
    #[error("the proof cannot be packed: {0}")]
    Proof(#[from] ProofError),
    /// The block or a part of its parent state has an unknown state version.
    #[error(transparent)]
    Version(#[from] UnknownVersion),
    /// A result differs from the expected one.
    #[error("{place}: expected {expected}, found {found}")]
    Differs {
        /// Where: the number of the operation, or a name.
        place: String,
        /// The expected result.
        expected: String,
        /// The result of the block.
        found: String,
    },
}

impl Sizes {
    /// The sizes of `proof`, whose counted size is `size`.
    fn new(size: ProofSize, compact_bytes: u64, proof: &StorageProof) -> Self {
        Self {
            read_bytes: size.read_bytes,
            root_bytes: size.root_bytes,
            total_bytes: size.total_bytes(),
            compact_bytes,
            nodes: proof.nodes().len() as u64,
        }
    }
}

impl Step {
    /// Makes the call `op` on `block`, and notes the sizes if it is a boundary.
    ///
    /// # Errors
    /// Those of the block.
    pub fn make<S: NodeSource, A: Accounting>(
        block: &mut Block<S, A>,
        op: &Op,
        version: StateVersion,
    ) -> Result<Self, BlockError> {
        ask(block, op, version)?;
        let mut sizes = None;
        if *op == Op::Boundary {
            let compact_bytes = block.compact_proof_bytes()?;
            let (size, proof) = (block.recorded_size(), block.recorded_proof());
            sizes = Some(Sizes::new(size, compact_bytes, &proof));
        }
        let op = op.clone();
        Ok(Self { op, sizes })
    }
}

impl Sealed {
    /// The results of `block`.
    ///
    /// # Errors
    /// [`ProofError`] if the proof cannot be packed.
    pub fn new(block: &SealedBlock) -> Result<Self, ProofError> {
        let (update, proof) = (block.update(), block.proof());
        let compact_bytes = proof.to_compact(update.parent)?.encoded_bytes();
        Ok(Self {
            sizes: Sizes::new(block.size(), compact_bytes, proof),
            root: hex(update.root),
        })
    }
}

/// Executes the block of `vector`, and compares all results.
///
/// # Errors
/// [`VectorError`], with the first difference.
pub fn run(vector: &Vector) -> Result<(), VectorError> {
    match vector.accounting {
        AccountingName::Consensus => run_as::<Consensus>(vector),
        AccountingName::Advisory => run_as::<Advisory>(vector),
    }
}

fn run_as<A: Accounting>(vector: &Vector) -> Result<(), VectorError> {
    let (nodes, root) = parent(&vector.state)?;
    compare("parent root", &vector.parent_root, &hex(root))?;
    let version = state_version(vector.version)?;
    let mut block = Block::with_accounting(nodes, root, A::default());
    for (at, expected) in vector.operations.iter().enumerate() {
        let found = Step::make(&mut block, &expected.op, version)?;
        compare(&format!("operation {at}"), expected, &found)?;
    }
    let sealed = block.seal(version).map_err(BlockError::from)?;
    compare("sealed", &vector.sealed, &Sealed::new(&sealed)?)
}

fn hex(root: Root) -> Hex {
    Hex(root.as_bytes().to_vec())
}

fn compare<T: PartialEq + Debug>(place: &str, expected: &T, found: &T) -> Result<(), VectorError> {
    if expected == found {
        return Ok(());
    }
    Err(VectorError::Differs {
        place: place.to_owned(),
        expected: format!("{expected:?}"),
        found: format!("{found:?}"),
    })
}

fn entries(pairs: &[(Hex, Hex)]) -> KeyChanges<'_> {
    let entries = pairs.iter();
    entries
        .map(|(key, value)| (&key.0[..], Some(&value.0[..])))
        .collect()
}

/// The nodes and the root of the state that `parts` make, each written on top of the last.
fn parent(parts: &[Part]) -> Result<(ProofNodes, Root), VectorError> {
    let (mut nodes, mut root) = (Vec::new(), Root::EMPTY);
    for part in parts {
        let children = part.children.iter();
        let changes = Changes {
            top: entries(&part.top),
            children: children
                .map(|(key, of)| (&key.0[..], entries(of)))
                .collect(),
        };
        let update = grow(&nodes, root, &changes, state_version(part.version)?)?;
        nodes.extend(inserted(&update));
        root = update.root;
    }
    Ok((StorageProof::new(nodes).to_source(), root))
}

/// The root update of `changes` to the state of `root`, whose nodes are among `nodes`.
pub(crate) fn grow(
    nodes: &[Bytes],
    root: Root,
    changes: &Changes<'_>,
    version: StateVersion,
) -> Result<RootUpdate, RootError> {
    let source = StorageProof::new(nodes.iter().cloned()).to_source();
    state_update(
        &mut ShadowState::new(source, root),
        changes,
        version,
        &mut (),
    )
}

/// The nodes that `update` inserts.
pub(crate) fn inserted(update: &RootUpdate) -> impl Iterator<Item = Bytes> + '_ {
    let nodes = update.inserted();
    nodes.map(|node| Bytes::copy_from_slice(node.encoded))
}
