//! The JSON form of test vectors, which docs/proof-size.md describes. Read and written here alone.

use serde::{de::Error as _, Deserialize, Deserializer, Serialize, Serializer};

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
    pub operations: Vec<Operation>,
    /// The results after all operations.
    pub sealed: Sealed,
}

/// Bytes, in JSON as hex with `0x` in front.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hex(pub Vec<u8>);

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

/// One call on a block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
pub enum Operation {
    /// Opens a transaction: the runtime's if it executes, otherwise the host's.
    Start,
    /// Commits the innermost transaction.
    Commit,
    /// Rolls the innermost transaction back.
    Rollback,
    /// Gives control to the runtime.
    Enter,
    /// Takes control back.
    Exit,
    /// Computes the storage root.
    Root,
    /// Asks for the proof size, which is this.
    Boundary(Sizes),
    /// Reads a value.
    Get(Keyed),
    /// Asks whether a key has a value.
    Exists(Keyed),
    /// Reads the hash of a value.
    Hash(Keyed),
    /// Searches the next key.
    NextKey(Keyed),
    /// Deletes a key.
    Remove(Keyed),
    /// Writes a value.
    Set(KeyValue),
    /// Appends an encoded element to a list.
    Append(KeyValue),
    /// Deletes the keys with a prefix.
    ClearPrefix {
        /// Storage key of the child trie; the top trie without.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        child: Option<Hex>,
        /// The prefix.
        prefix: Hex,
        /// The most keys of the parent state to delete.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        limit: Option<u32>,
        /// The key of the parent state to begin with.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        cursor: Option<Hex>,
    },
}

/// A key of a trie.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Keyed {
    /// Storage key of the child trie; the top trie without.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub child: Option<Hex>,
    /// The key.
    pub key: Hex,
}

/// A key of a trie, and bytes for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyValue {
    /// Storage key of the child trie; the top trie without.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub child: Option<Hex>,
    /// The key.
    pub key: Hex,
    /// The value or the element.
    pub value: Hex,
}

/// A file is not one of vectors.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// The JSON is another.
    #[error("expected a file of test vectors: {0}")]
    Json(#[from] serde_json::Error),
    /// This reader does not know the format.
    #[error("expected format {FORMAT}, found {found}")]
    Format {
        /// The format of the file.
        found: u32,
    },
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

impl Serialize for Hex {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let digit = |nibble: u8| char::from_digit(u32::from(nibble), 16).into_iter();
        let digits = self.0.iter();
        let digits = digits.flat_map(|byte| digit(byte >> 4).chain(digit(byte & 15)));
        serializer.serialize_str(&"0x".chars().chain(digits).collect::<String>())
    }
}

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
