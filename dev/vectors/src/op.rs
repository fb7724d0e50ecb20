//! Calls on a block, as data: random ones, those of test vectors and those of recorded blocks.

use crate::hex::{self, Digits, Hex};
use povmeter::TrieId;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A trie by name. In JSON the storage key of the child trie; the top trie has none.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "Option<Hex>", into = "Option<Hex>")]
pub enum TrieName {
    /// The top trie.
    #[default]
    Top,
    /// The child trie of this storage key.
    Child(Vec<u8>),
}

impl TrieName {
    /// The trie in povmeter's terms.
    pub fn id(&self) -> TrieId<'_> {
        match self {
            Self::Top => TrieId::Top,
            Self::Child(storage_key) => TrieId::Child(storage_key),
        }
    }

    fn is_top(&self) -> bool {
        *self == Self::Top
    }
}

impl From<Option<Hex>> for TrieName {
    fn from(child: Option<Hex>) -> Self {
        child.map_or(Self::Top, |storage_key| Self::Child(storage_key.0))
    }
}

impl From<TrieName> for Option<Hex> {
    fn from(trie: TrieName) -> Self {
        match trie {
            TrieName::Top => None,
            TrieName::Child(storage_key) => Some(Hex(storage_key)),
        }
    }
}

impl fmt::Display for TrieName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Top => f.write_str("top"),
            Self::Child(storage_key) => write!(f, "child {}", Digits(storage_key)),
        }
    }
}

/// One call on a block.
///
/// JSON has one name for a transaction of the host and one of the runtime, because the calls before it
/// tell which one it is. Reading a vector tells them apart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
pub enum Op {
    /// The host opens a transaction.
    #[serde(rename = "start", skip_deserializing)]
    HostStart,
    /// The host keeps its innermost transaction.
    #[serde(rename = "commit", skip_deserializing)]
    HostCommit,
    /// The host undoes its innermost transaction.
    #[serde(rename = "rollback", skip_deserializing)]
    HostRollback,
    /// Control goes to the runtime.
    Enter,
    /// Control comes back; what the runtime left open is undone.
    Exit,
    /// The runtime opens a transaction.
    Start,
    /// The runtime keeps its innermost transaction.
    Commit,
    /// The runtime undoes its innermost transaction.
    Rollback,
    /// A value is written.
    Set {
        /// The trie.
        #[serde(rename = "child", default, skip_serializing_if = "TrieName::is_top")]
        trie: TrieName,
        /// Key that is written.
        #[serde(with = "hex::bytes")]
        key: Vec<u8>,
        /// The new value.
        #[serde(with = "hex::bytes")]
        value: Vec<u8>,
    },
    /// A key is deleted, whether it has a value or not.
    Remove {
        /// The trie.
        #[serde(rename = "child", default, skip_serializing_if = "TrieName::is_top")]
        trie: TrieName,
        /// Key that is deleted.
        #[serde(with = "hex::bytes")]
        key: Vec<u8>,
    },
    /// An element is appended to a list.
    Append {
        /// The trie. Under a runtime always the top trie.
        #[serde(rename = "child", default, skip_serializing_if = "TrieName::is_top")]
        trie: TrieName,
        /// Key of the list.
        #[serde(with = "hex::bytes")]
        key: Vec<u8>,
        /// The encoded element.
        #[serde(rename = "value", with = "hex::bytes")]
        element: Vec<u8>,
    },
    /// A value is read.
    Get {
        /// The trie.
        #[serde(rename = "child", default, skip_serializing_if = "TrieName::is_top")]
        trie: TrieName,
        /// Key that is read.
        #[serde(with = "hex::bytes")]
        key: Vec<u8>,
    },
    /// The hash of a value is read.
    Hash {
        /// The trie.
        #[serde(rename = "child", default, skip_serializing_if = "TrieName::is_top")]
        trie: TrieName,
        /// Key that is read.
        #[serde(with = "hex::bytes")]
        key: Vec<u8>,
    },
    /// The runtime asks whether a key has a value.
    Exists {
        /// The trie.
        #[serde(rename = "child", default, skip_serializing_if = "TrieName::is_top")]
        trie: TrieName,
        /// Key that is asked for.
        #[serde(with = "hex::bytes")]
        key: Vec<u8>,
    },
    /// The next key is asked for.
    #[serde(rename = "next_key")]
    Next {
        /// The trie.
        #[serde(rename = "child", default, skip_serializing_if = "TrieName::is_top")]
        trie: TrieName,
        /// Key that the next key follows.
        #[serde(with = "hex::bytes")]
        key: Vec<u8>,
    },
    /// All keys with a prefix are deleted.
    #[serde(rename = "clear_prefix")]
    Clear {
        /// The trie.
        #[serde(rename = "child", default, skip_serializing_if = "TrieName::is_top")]
        trie: TrieName,
        /// The prefix of the keys.
        #[serde(with = "hex::bytes")]
        prefix: Vec<u8>,
        /// The most keys of the parent state to look at.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limit: Option<u32>,
        /// First key of the parent state to look at.
        #[serde(
            default,
            with = "hex::optional_bytes",
            skip_serializing_if = "Option::is_none"
        )]
        cursor: Option<Vec<u8>>,
    },
    /// The runtime asks for the storage root.
    Root,
    /// The runtime asks for the root of a child trie.
    ChildRoot {
        /// The child trie.
        child: Hex,
    },
    /// The proof size is asked for.
    Boundary,
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Set { trie, key, value } => {
                let bytes = value.len();
                write!(f, "set {trie} {} to {bytes} bytes", Digits(key))
            }
            Self::Remove { trie, key } => write!(f, "remove {trie} {}", Digits(key)),
            Self::Append { trie, key, element } => {
                let bytes = element.len();
                write!(f, "append {bytes} bytes to {trie} {}", Digits(key))
            }
            Self::Get { trie, key } => write!(f, "get {trie} {}", Digits(key)),
            Self::Hash { trie, key } => write!(f, "hash {trie} {}", Digits(key)),
            Self::Exists { trie, key } => write!(f, "exists {trie} {}", Digits(key)),
            Self::Next { trie, key } => write!(f, "next {trie} {}", Digits(key)),
            Self::Clear {
                trie,
                prefix,
                limit,
                cursor,
            } => {
                write!(f, "clear {trie} {} limit {limit:?}", Digits(prefix))?;
                match cursor {
                    Some(cursor) => write!(f, " from {}", Digits(cursor)),
                    None => Ok(()),
                }
            }
            Self::HostStart => f.write_str("host start"),
            Self::HostCommit => f.write_str("host commit"),
            Self::HostRollback => f.write_str("host rollback"),
            Self::Enter => f.write_str("enter runtime"),
            Self::Exit => f.write_str("exit runtime"),
            Self::Start => f.write_str("start"),
            Self::Commit => f.write_str("commit"),
            Self::Rollback => f.write_str("rollback"),
            Self::Root => f.write_str("root"),
            Self::ChildRoot { child } => write!(f, "root of child {}", Digits(&child.0)),
            Self::Boundary => f.write_str("boundary"),
        }
    }
}
