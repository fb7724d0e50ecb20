//! The JSON form of test vectors, which docs/proof-size.md describes. Read and written here alone.

use crate::{hex::Hex, op::Op};
use povmeter::StateVersion;
use serde::{Deserialize, Deserializer, Serialize};

/// The format that is written and read.
const FORMAT: u32 = 1;

/// A file of vectors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VectorFile {
    format: u32,
    /// The vectors.
    pub vectors: Vec<Vector>,
}

/// One block with all its results.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vector {
    /// Name of the vector.
    pub name: String,
    /// The parent state: blocks on the empty state, in this order.
    pub state: Vec<Part>,
    /// Root of the parent state.
    pub parent_root: Hex,
    /// State version of the block.
    pub version: u8,
    /// The accounting of the block.
    pub accounting: AccountingName,
    /// Calls on the block, in order.
    #[serde(deserialize_with = "steps")]
    pub operations: Vec<Step>,
    /// The results after all operations.
    pub sealed: Sealed,
}

/// Keys with their values.
pub type Pairs = Vec<(Hex, Hex)>;

/// Entries that one block on the empty state, or on the part before, writes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// State version of the entries.
    pub version: u8,
    /// Entries of the top trie.
    pub top: Pairs,
    /// Entries of child tries, by storage key.
    pub children: Vec<(Hex, Pairs)>,
}

/// An accounting by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AccountingName {
    /// `Consensus`.
    Consensus,
    /// `Advisory`.
    Advisory,
}

/// The sizes of a proof, in bytes, and the number of its nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sizes {
    /// Counted for reads.
    pub read_bytes: u64,
    /// Counted for the root alone.
    pub root_bytes: u64,
    /// Both.
    pub total_bytes: u64,
    /// Length of the compact proof.
    pub compact_bytes: u64,
    /// Counted nodes.
    pub nodes: u64,
}

/// The results of a sealed block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sealed {
    /// The sizes of its proof.
    #[serde(flatten)]
    pub sizes: Sizes,
    /// The state root after it.
    pub root: Hex,
}

/// One call on the block of a vector, and the sizes after it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// The call.
    #[serde(flatten)]
    pub op: Op,
    /// The sizes after a boundary; `None` after other calls.
    #[serde(flatten)]
    pub sizes: Option<Sizes>,
}

/// Reads the calls of a block. A transaction is the runtime's while the runtime executes, otherwise the
/// host's.
fn steps<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Step>, D::Error> {
    let mut steps = Vec::<Step>::deserialize(deserializer)?;
    let mut in_runtime = false;
    for Step { op, .. } in &mut steps {
        match op {
            Op::Enter => in_runtime = true,
            Op::Exit => in_runtime = false,
            Op::Start if !in_runtime => *op = Op::HostStart,
            Op::Commit if !in_runtime => *op = Op::HostCommit,
            Op::Rollback if !in_runtime => *op = Op::HostRollback,
            _ => {}
        }
    }
    Ok(steps)
}

/// Why a file is not a file of vectors.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// The file is not JSON of this form.
    #[error("expected a file of test vectors: {0}")]
    Json(#[from] serde_json::Error),
    /// This reader does not know the format.
    #[error("expected format {FORMAT}, found {found}")]
    Format {
        /// The format of the file.
        found: u32,
    },
}

/// A file names a state version that does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected state version 0 or 1, found {found}")]
pub struct UnknownVersion {
    /// The version in the file.
    pub found: u8,
}

/// The state version with this number.
///
/// # Errors
/// [`UnknownVersion`].
pub(crate) fn state_version(number: u8) -> Result<StateVersion, UnknownVersion> {
    match number {
        0 => Ok(StateVersion::V0),
        1 => Ok(StateVersion::V1),
        found => Err(UnknownVersion { found }),
    }
}

impl VectorFile {
    /// A file of these vectors.
    pub fn new(vectors: Vec<Vector>) -> Self {
        let format = FORMAT;
        Self { format, vectors }
    }

    /// The file that `json` holds.
    ///
    /// # Errors
    /// [`FormatError`].
    pub fn read(json: &str) -> Result<Self, FormatError> {
        let file: Self = serde_json::from_str(json)?;
        match file.format {
            FORMAT => Ok(file),
            found => Err(FormatError::Format { found }),
        }
    }

    /// The file as JSON, with one operation per line.
    ///
    /// # Errors
    /// [`FormatError::Json`], which no file is known to cause.
    pub fn to_json(&self) -> Result<String, FormatError> {
        let vectors = self.vectors.iter().map(Vector::to_json);
        let vectors = vectors.collect::<Result<Vec<_>, _>>()?.join(",\n");
        Ok(format!(
            "{{\"format\":{FORMAT},\"vectors\":[\n{vectors}\n]}}\n"
        ))
    }
}

impl Vector {
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
}
