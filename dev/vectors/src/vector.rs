//! A vector: a parent state, a block on it, and the expected sizes and roots.

use bytes::Bytes;
use povmeter::{
    Accounting, Advisory, Block, BlockError, Consensus, NodeSource, ProofError, ProofNodes,
    ProofSize, Root, RootError, RootUpdate, StateVersion, StorageProof, TrieId,
};
use povmeter_delta_root::{state_update, Changes, KeyChanges, ShadowState};
use serde::{de::Error as _, Deserialize, Deserializer};
use std::fmt::Debug;

/// The file of vectors.
#[derive(Debug, Deserialize)]
pub struct VectorFile {
    format: u32,
    /// The vectors.
    pub vectors: Vec<Vector>,
}

/// One block with its expected results.
#[derive(Debug, Deserialize)]
pub struct Vector {
    /// What it tests.
    pub name: String,
    state: Vec<Part>,
    parent_root: Hex,
    version: u8,
    accounting: Book,
    operations: Vec<Operation>,
    sealed: Sealed,
}

/// Bytes, as hex with `0x` in front.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Hex(pub(crate) Vec<u8>);

impl<'de> Deserialize<'de> for Hex {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let digits = text.strip_prefix("0x").filter(|hex| hex.len() % 2 == 0);
        let byte = |at: usize, digits: &str| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
        let bytes = digits.and_then(|digits| {
            let places = (0..digits.len()).step_by(2);
            places.map(|at| byte(at, digits)).collect::<Option<_>>()
        });
        let expected = || D::Error::custom(format!("expected hex with 0x in front, found {text}"));
        bytes.map(Self).ok_or_else(expected)
    }
}

#[derive(Debug, Deserialize)]
struct Part {
    version: u8,
    top: Vec<(Hex, Hex)>,
    children: Vec<(Hex, Vec<(Hex, Hex)>)>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Book {
    Consensus,
    Advisory,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
struct Sizes {
    read_bytes: u64,
    root_bytes: u64,
    total_bytes: u64,
    compact_bytes: u64,
    nodes: u64,
}

impl Sizes {
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

#[derive(Debug, Deserialize)]
struct Sealed {
    #[serde(flatten)]
    sizes: Sizes,
    root: Hex,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
enum Operation {
    Start,
    Commit,
    Rollback,
    Enter,
    Exit,
    Root,
    Boundary(Sizes),
    Get(Keyed),
    Exists(Keyed),
    Hash(Keyed),
    NextKey(Keyed),
    Remove(Keyed),
    Set(KeyValue),
    Append(KeyValue),
    ClearPrefix {
        child: Option<Hex>,
        prefix: Hex,
        limit: Option<u32>,
        cursor: Option<Hex>,
    },
}

#[derive(Debug, Deserialize)]
struct Keyed {
    child: Option<Hex>,
    key: Hex,
}

#[derive(Debug, Deserialize)]
struct KeyValue {
    child: Option<Hex>,
    key: Hex,
    value: Hex,
}

/// Why a vector does not hold.
#[derive(Debug)]
pub enum VectorError {
    /// The file is no file of vectors.
    Json(serde_json::Error),
    /// A format that this reader does not know.
    Format {
        /// The one that it knows.
        expected: u32,
        /// The one that the file has.
        found: u32,
    },
    /// A call failed.
    Block(BlockError),
    /// The parent state could not be built.
    Parent(RootError),
    /// The proof could not be packed.
    Proof(ProofError),
    /// A result differs from the expected one.
    Differs {
        /// Where: the number of the operation, or a name.
        place: String,
        /// The expected result.
        expected: String,
        /// The result of the block.
        found: String,
    },
}

macro_rules! from {
    ($($kind:ident: $error:ty),*) => {$(
        impl From<$error> for VectorError {
            fn from(error: $error) -> Self {
                Self::$kind(error)
            }
        }
    )*};
}

from!(Json: serde_json::Error, Block: BlockError, Parent: RootError, Proof: ProofError);

/// The format that this reader knows.
const FORMAT: u32 = 1;

impl VectorFile {
    /// The file that `json` holds.
    ///
    /// # Errors
    /// [`VectorError::Json`] or [`VectorError::Format`].
    pub fn read(json: &str) -> Result<Self, VectorError> {
        let file: Self = serde_json::from_str(json)?;
        let (expected, found) = (FORMAT, file.format);
        if found != expected {
            return Err(VectorError::Format { expected, found });
        }
        Ok(file)
    }
}

/// Executes the block of `vector`, and compares all results.
///
/// # Errors
/// [`VectorError`], with the first difference.
pub fn run(vector: &Vector) -> Result<(), VectorError> {
    match vector.accounting {
        Book::Consensus => run_as::<Consensus>(vector),
        Book::Advisory => run_as::<Advisory>(vector),
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
