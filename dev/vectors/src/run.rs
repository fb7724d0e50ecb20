//! Executes a vector and compares its results.

use crate::format::{AccountingName, Hex, KeyValue, Keyed, Operation, Part, Sizes, Vector};
use bytes::Bytes;
use povmeter::{
    Accounting, Advisory, Block, BlockError, Consensus, NodeSource, ProofError, ProofNodes,
    ProofSize, Root, RootError, RootUpdate, StateVersion, StorageProof, TrieId,
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
    /// The sizes of `proof`, of which `size` was counted.
    pub fn new(size: ProofSize, compact_bytes: u64, proof: &StorageProof) -> Self {
        Self {
            read_bytes: size.read_bytes,
            root_bytes: size.root_bytes,
            total_bytes: size.total_bytes(),
            compact_bytes,
            nodes: proof.nodes().len() as u64,
        }
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
    let version = version(vector.version);
    let mut block = Block::with_accounting(nodes, root, A::default());
    for (at, operation) in vector.operations.iter().enumerate() {
        match operation {
            Operation::Boundary(expected) => {
                let compact_bytes = block.compact_proof_bytes()?;
                let found = Sizes::new(
                    block.recorded_size(),
                    compact_bytes,
                    &block.recorded_proof(),
                );
                compare(&format!("operation {at}"), expected, &found)?;
            }
            _ => make(&mut block, operation, version)?,
        }
    }
    let sealed = block.seal(version).map_err(BlockError::from)?;
    let compact_bytes = sealed.proof().to_compact(root)?.encoded_bytes();
    let found = Sizes::new(sealed.size(), compact_bytes, sealed.proof());
    compare("sealed", &vector.sealed.sizes, &found)?;
    compare("root", &vector.sealed.root, &hex(sealed.update().root))
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

fn version(version: u8) -> StateVersion {
    match version {
        0 => StateVersion::V0,
        _ => StateVersion::V1,
    }
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
        let update = grow(&nodes, root, &changes, version(part.version))?;
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

/// Makes one call.
fn make<S: NodeSource, A: Accounting>(
    block: &mut Block<S, A>,
    operation: &Operation,
    version: StateVersion,
) -> Result<(), BlockError> {
    match operation {
        Operation::Start => block.start_transaction(),
        Operation::Commit => block.commit_transaction()?,
        Operation::Rollback => block.rollback_transaction()?,
        Operation::Enter => block.enter_runtime()?,
        Operation::Exit => drop(block.exit_runtime()?),
        Operation::Root => _ = block.root(version)?,
        // The caller compares it.
        Operation::Boundary(_) => {}
        Operation::Get(Keyed { child, key }) => _ = block.get(trie(child), &key.0)?,
        Operation::Exists(Keyed { child, key }) => _ = block.exists(trie(child), &key.0)?,
        Operation::Hash(Keyed { child, key }) => _ = block.value_hash(trie(child), &key.0)?,
        Operation::NextKey(Keyed { child, key }) => _ = block.next_key(trie(child), &key.0)?,
        Operation::Remove(Keyed { child, key }) => block.remove(trie(child), &key.0)?,
        Operation::Set(KeyValue { child, key, value }) => {
            block.set(trie(child), &key.0, &value.0)?;
        }
        Operation::Append(KeyValue { child, key, value }) => {
            block.append(trie(child), &key.0, &value.0)?;
        }
        Operation::ClearPrefix {
            child,
            prefix,
            limit,
            cursor,
        } => {
            let cursor = cursor.as_ref().map(|cursor| &cursor.0[..]);
            block.clear_prefix(trie(child), &prefix.0, *limit, cursor)?;
        }
    }
    Ok(())
}

fn trie(child: &Option<Hex>) -> TrieId<'_> {
    match child {
        None => TrieId::Top,
        Some(key) => TrieId::Child(&key.0),
    }
}
