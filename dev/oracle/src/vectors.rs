//! Test vectors of the counting rule, for other implementations.
//!
//! A vector is a [`Case`] with the sizes that povmeter tells at each boundary, in the JSON that
//! docs/proof-size.md describes.

use super::{
    answer::ask, case::ParentNodes, traps, Case, Flavour, Op, ParentState, TrieEntries, TrieName,
};
use povmeter::{Accounting, Advisory, Block, BlockError, Consensus};
use serde::{Deserialize, Serialize};
use sp_core::storage::StateVersion;

/// The format that is written and read.
const FORMAT: u32 = 1;

/// A file of vectors.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VectorFile {
    format: u32,
    vectors: Vec<Vector>,
}

/// Bytes, in JSON as hex with `0x` in front.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Hex(#[serde(with = "sp_core::bytes")] Vec<u8>);

type Pairs = Vec<(Hex, Hex)>;

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Part {
    version: u8,
    top: Pairs,
    children: Vec<(Hex, Pairs)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Book {
    Consensus,
    Advisory,
}

/// One block with its sizes.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vector {
    name: String,
    state: Vec<Part>,
    parent_root: Hex,
    version: u8,
    accounting: Book,
    operations: Vec<Operation>,
    sealed: Sealed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Sizes {
    read_bytes: u64,
    root_bytes: u64,
    total_bytes: u64,
    compact_bytes: u64,
    nodes: u64,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Sealed {
    #[serde(flatten)]
    sizes: Sizes,
    root: Hex,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
enum Operation {
    Start,
    Commit,
    Rollback,
    Enter,
    Exit,
    Root,
    Boundary {
        read_bytes: u64,
        root_bytes: u64,
        total_bytes: u64,
        compact_bytes: u64,
        nodes: u64,
    },
    Get(Keyed),
    Exists(Keyed),
    Hash(Keyed),
    NextKey(Keyed),
    Remove(Keyed),
    Set(KeyValue),
    Append(KeyValue),
    ClearPrefix {
        #[serde(skip_serializing_if = "Option::is_none", default)]
        child: Option<Hex>,
        prefix: Hex,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        limit: Option<u32>,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        cursor: Option<Hex>,
    },
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Keyed {
    #[serde(skip_serializing_if = "Option::is_none", default)]
    child: Option<Hex>,
    key: Hex,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct KeyValue {
    #[serde(skip_serializing_if = "Option::is_none", default)]
    child: Option<Hex>,
    key: Hex,
    value: Hex,
}

/// Why a file of vectors can't be read, or a vector does not hold.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VectorError {
    /// Not the JSON that is expected.
    #[error("expected a file of test vectors: {0}")]
    Json(#[from] serde_json::Error),
    /// A format that this reader does not know.
    #[error("expected format {FORMAT}, found {found}")]
    Format {
        /// The format.
        found: u32,
    },
    /// The block could not be built.
    #[error("vector {name}: {source}")]
    Block {
        /// Name of the vector.
        name: String,
        /// What went wrong.
        source: BlockError,
    },
    /// Sizes, or a root, that differ.
    #[error("vector {name}: expected its sizes and root, found others")]
    Differs {
        /// Name of the vector.
        name: String,
    },
}

impl VectorFile {
    /// The vectors of the project: the traps of the rule, written by hand, and small random blocks.
    ///
    /// # Errors
    /// [`VectorError::Block`], which does not happen.
    pub fn generate() -> Result<Self, VectorError> {
        let mut cases = traps::blocks();
        for flavour in Flavour::ALL {
            // Small enough to be read.
            let random = (0..5_000).map(|seed| (seed, Case::random(seed, flavour)));
            let small = random.filter(|(_, case)| {
                (8..30).contains(&case.ops.len()) && (1..16).contains(&case.parent.top.len())
            });
            cases.extend(
                small
                    .take(8)
                    .map(|(seed, case)| (format!("{flavour:?} {seed}").to_lowercase(), case)),
            );
        }
        Self::of_cases(&cases)
    }

    /// The vectors that `cases` make, each with its name, in both accountings.
    ///
    /// # Errors
    /// [`VectorError::Block`] if a block can't be built.
    pub fn of_cases(cases: &[(String, Case)]) -> Result<Self, VectorError> {
        let mut vectors = Vec::new();
        for (name, case) in cases {
            for accounting in [Book::Consensus, Book::Advisory] {
                vectors.push(Vector::new(name, case, accounting)?);
            }
        }
        Ok(Self {
            format: FORMAT,
            vectors,
        })
    }

    /// The file that `json` holds.
    ///
    /// # Errors
    /// [`VectorError::Json`] or [`VectorError::Format`].
    pub fn read(json: &str) -> Result<Self, VectorError> {
        let file: Self = serde_json::from_str(json)?;
        match file.format {
            FORMAT => Ok(file),
            found => Err(VectorError::Format { found }),
        }
    }

    /// The file as JSON, one operation a line.
    ///
    /// # Errors
    /// [`VectorError::Json`], which does not happen.
    pub fn to_json(&self) -> Result<String, VectorError> {
        let vectors = self
            .vectors
            .iter()
            .map(Vector::to_json)
            .collect::<Result<Vec<_>, _>>()?;
        Ok(format!(
            "{{\"format\":{FORMAT},\"vectors\":[\n{}\n]}}\n",
            vectors.join(",\n")
        ))
    }

    /// The vectors.
    pub fn vectors(&self) -> &[Vector] {
        &self.vectors
    }
}

impl Vector {
    fn new(name: &str, case: &Case, accounting: Book) -> Result<Self, VectorError> {
        let told = match accounting {
            Book::Consensus => told::<Consensus>(case),
            Book::Advisory => told::<Advisory>(case),
        };
        let (operations, sealed) = told.map_err(|source| VectorError::Block {
            name: name.to_owned(),
            source,
        })?;
        Ok(Self {
            name: name.to_owned(),
            state: parts(&case.parent),
            parent_root: Hex(ParentNodes::new(&case.parent).root().as_bytes().to_vec()),
            version: u8::from(case.version == StateVersion::V1),
            accounting,
            operations,
            sealed,
        })
    }

    fn to_json(&self) -> Result<String, serde_json::Error> {
        let operations = self.operations.iter().map(serde_json::to_string);
        let operations = operations.collect::<Result<Vec<_>, _>>()?.join(",\n  ");
        Ok(format!(
            "{{\"name\":{},\"state\":{},\n \"parent_root\":{},\"version\":{},\"accounting\":{},\n \
             \"operations\":[\n  {operations}],\n \"sealed\":{}}}",
            serde_json::to_string(&self.name)?,
            serde_json::to_string(&self.state)?,
            serde_json::to_string(&self.parent_root)?,
            self.version,
            serde_json::to_string(&self.accounting)?,
            serde_json::to_string(&self.sealed)?,
        ))
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The block, to run it elsewhere.
    pub fn case(&self) -> Case {
        let mut parent = ParentState {
            version: version(self.state.first().map_or(1, |part| part.version)),
            ..ParentState::default()
        };
        if let Some(first) = self.state.first() {
            parent.top = entries(&first.top);
            parent.children = first
                .children
                .iter()
                .map(|(key, pairs)| (key.0.clone(), entries(pairs)))
                .collect();
        }
        parent.rewritten = self
            .state
            .get(1)
            .map(|part| entries(&part.top))
            .unwrap_or_default();
        let mut in_runtime = false;
        let ops = self
            .operations
            .iter()
            .map(|operation| operation.op(&mut in_runtime))
            .collect();
        Case {
            parent,
            ops,
            version: version(self.version),
        }
    }

    /// Builds the block with povmeter and compares every size told.
    ///
    /// # Errors
    /// [`VectorError::Differs`], or what kept the block from being built.
    pub fn check(&self) -> Result<(), VectorError> {
        let again = Self::new(&self.name, &self.case(), self.accounting)?;
        if again == *self {
            Ok(())
        } else {
            Err(VectorError::Differs {
                name: self.name.clone(),
            })
        }
    }
}

fn version(version: u8) -> StateVersion {
    match version {
        0 => StateVersion::V0,
        _ => StateVersion::V1,
    }
}

fn entries(pairs: &Pairs) -> TrieEntries {
    pairs
        .iter()
        .map(|(key, value)| (key.0.clone(), value.0.clone()))
        .collect()
}

fn pairs(entries: &TrieEntries) -> Pairs {
    entries
        .iter()
        .map(|(key, value)| (Hex(key.clone()), Hex(value.clone())))
        .collect()
}

fn parts(parent: &ParentState) -> Vec<Part> {
    let children = parent
        .children
        .iter()
        .map(|(key, of)| (Hex(key.clone()), pairs(of)));
    let mut parts = vec![Part {
        version: u8::from(parent.version == StateVersion::V1),
        top: pairs(&parent.top),
        children: children.collect(),
    }];
    if !parent.rewritten.is_empty() {
        let top = pairs(&parent.rewritten);
        parts.push(Part {
            version: 1,
            top,
            children: Vec::new(),
        });
    }
    parts
}

/// The operations of `case` with the sizes at its boundaries and at its end.
fn told<A: Accounting>(case: &Case) -> Result<(Vec<Operation>, Sealed), BlockError> {
    let parent = ParentNodes::new(&case.parent);
    let root = parent.root();
    let mut block = Block::with_accounting(parent, root, A::default());
    let mut operations = Vec::new();
    for op in &case.ops {
        ask(&mut block, op, case.our_version())?;
        operations.push(match op {
            Op::Boundary => {
                let compact_bytes = block.compact_proof_bytes()?;
                let size = block.recorded_size();
                Operation::Boundary {
                    read_bytes: size.read_bytes,
                    root_bytes: size.root_bytes,
                    total_bytes: size.total_bytes(),
                    compact_bytes,
                    nodes: block.recorded_proof().nodes().len() as u64,
                }
            }
            op => Operation::of(op),
        });
    }
    let sealed = block.seal(case.our_version())?;
    let size = sealed.size();
    let sizes = Sizes {
        read_bytes: size.read_bytes,
        root_bytes: size.root_bytes,
        total_bytes: size.total_bytes(),
        compact_bytes: sealed.proof().to_compact(root)?.encoded_bytes(),
        nodes: sealed.proof().nodes().len() as u64,
    };
    let root = Hex(sealed.update().root.as_bytes().to_vec());
    Ok((operations, Sealed { sizes, root }))
}

impl Operation {
    /// The operation for `op`. A boundary is made in `told`, with its sizes.
    fn of(op: &Op) -> Self {
        let child = |trie: &TrieName| match trie {
            TrieName::Top => None,
            TrieName::Child(key) => Some(Hex(key.clone())),
        };
        let keyed = |trie: &TrieName, key: &[u8]| Keyed {
            child: child(trie),
            key: Hex(key.to_vec()),
        };
        match op {
            Op::HostStart | Op::Start => Self::Start,
            Op::HostCommit | Op::Commit => Self::Commit,
            Op::HostRollback | Op::Rollback => Self::Rollback,
            Op::Enter => Self::Enter,
            Op::Exit => Self::Exit,
            Op::Root | Op::Boundary => Self::Root,
            Op::Get { trie, key } => Self::Get(keyed(trie, key)),
            Op::Exists { trie, key } => Self::Exists(keyed(trie, key)),
            Op::Hash { trie, key } => Self::Hash(keyed(trie, key)),
            Op::Next { trie, key } => Self::NextKey(keyed(trie, key)),
            Op::Remove { trie, key } => Self::Remove(keyed(trie, key)),
            Op::Set { trie, key, value } => Self::Set(KeyValue {
                child: child(trie),
                key: Hex(key.clone()),
                value: Hex(value.clone()),
            }),
            Op::Append { key, element } => Self::Append(KeyValue {
                child: None,
                key: Hex(key.clone()),
                value: Hex(element.clone()),
            }),
            Op::Clear {
                trie,
                prefix,
                limit,
                cursor,
            } => Self::ClearPrefix {
                child: child(trie),
                prefix: Hex(prefix.clone()),
                limit: *limit,
                cursor: cursor.clone().map(Hex),
            },
        }
    }

    fn op(&self, in_runtime: &mut bool) -> Op {
        let trie = |child: &Option<Hex>| match child {
            None => TrieName::Top,
            Some(key) => TrieName::Child(key.0.clone()),
        };
        let by = |runtime: Op, host: Op| if *in_runtime { runtime } else { host };
        match self {
            Self::Start => by(Op::Start, Op::HostStart),
            Self::Commit => by(Op::Commit, Op::HostCommit),
            Self::Rollback => by(Op::Rollback, Op::HostRollback),
            Self::Enter => {
                *in_runtime = true;
                Op::Enter
            }
            Self::Exit => {
                *in_runtime = false;
                Op::Exit
            }
            Self::Root => Op::Root,
            Self::Boundary { .. } => Op::Boundary,
            Self::Get(at) => Op::Get {
                trie: trie(&at.child),
                key: at.key.0.clone(),
            },
            Self::Exists(at) => Op::Exists {
                trie: trie(&at.child),
                key: at.key.0.clone(),
            },
            Self::Hash(at) => Op::Hash {
                trie: trie(&at.child),
                key: at.key.0.clone(),
            },
            Self::NextKey(at) => Op::Next {
                trie: trie(&at.child),
                key: at.key.0.clone(),
            },
            Self::Remove(at) => Op::Remove {
                trie: trie(&at.child),
                key: at.key.0.clone(),
            },
            Self::Set(set) => Op::Set {
                trie: trie(&set.child),
                key: set.key.0.clone(),
                value: set.value.0.clone(),
            },
            Self::Append(append) => Op::Append {
                key: append.key.0.clone(),
                element: append.value.0.clone(),
            },
            Self::ClearPrefix {
                child,
                prefix,
                limit,
                cursor,
            } => Op::Clear {
                trie: trie(child),
                prefix: prefix.0.clone(),
                limit: *limit,
                cursor: cursor.as_ref().map(|cursor| cursor.0.clone()),
            },
        }
    }
}
