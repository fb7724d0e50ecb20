//! Calls on a block, as data.

use povmeter::TrieId;
use sp_core::{hexdisplay::HexDisplay, storage::ChildInfo};
use std::fmt;

/// A trie by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TrieName {
    /// The top trie.
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

    /// The child trie in the peer's terms, `None` for the top trie.
    pub fn child_info(&self) -> Option<ChildInfo> {
        match self {
            Self::Top => None,
            Self::Child(storage_key) => Some(ChildInfo::new_default(storage_key)),
        }
    }
}

impl fmt::Display for TrieName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Top => f.write_str("top"),
            Self::Child(storage_key) => write!(f, "child {}", HexDisplay::from(storage_key)),
        }
    }
}

/// One call on a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// The host opens a transaction.
    HostStart,
    /// The host keeps its innermost transaction.
    HostCommit,
    /// The host undoes its innermost transaction.
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
        /// Where.
        trie: TrieName,
        /// Key that is written.
        key: Vec<u8>,
        /// Its value from now on.
        value: Vec<u8>,
    },
    /// A key is deleted, whether it has a value or not.
    Remove {
        /// Where.
        trie: TrieName,
        /// Key that is deleted.
        key: Vec<u8>,
    },
    /// An element is appended to a list in the top trie.
    Append {
        /// Key of the list.
        key: Vec<u8>,
        /// The encoded element.
        element: Vec<u8>,
    },
    /// A value is read.
    Get {
        /// Where.
        trie: TrieName,
        /// Key that is read.
        key: Vec<u8>,
    },
    /// The hash of a value is read.
    Hash {
        /// Where.
        trie: TrieName,
        /// Key that is read.
        key: Vec<u8>,
    },
    /// The runtime asks whether a key has a value.
    Exists {
        /// Where.
        trie: TrieName,
        /// Key that is asked for.
        key: Vec<u8>,
    },
    /// The next key is asked for.
    Next {
        /// Where.
        trie: TrieName,
        /// Key that it follows.
        key: Vec<u8>,
    },
    /// All keys with a prefix are deleted.
    Clear {
        /// Where.
        trie: TrieName,
        /// The prefix of the keys.
        prefix: Vec<u8>,
        /// Most keys of the parent state to look at.
        limit: Option<u32>,
        /// First key of the parent state to look at.
        cursor: Option<Vec<u8>>,
    },
    /// The runtime asks for the storage root.
    Root,
    /// The proof size is asked for.
    Boundary,
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hex = |bytes: &[u8]| format!("0x{}", HexDisplay::from(&bytes));
        match self {
            Self::Set { trie, key, value } => {
                let bytes = value.len();
                write!(f, "set {trie} {} to {bytes} bytes", hex(key))
            }
            Self::Remove { trie, key } => write!(f, "remove {trie} {}", hex(key)),
            Self::Append { key, element } => {
                write!(f, "append {} bytes to {}", element.len(), hex(key))
            }
            Self::Get { trie, key } => write!(f, "get {trie} {}", hex(key)),
            Self::Hash { trie, key } => write!(f, "hash {trie} {}", hex(key)),
            Self::Exists { trie, key } => write!(f, "exists {trie} {}", hex(key)),
            Self::Next { trie, key } => write!(f, "next {trie} {}", hex(key)),
            Self::Clear {
                trie,
                prefix,
                limit,
                cursor,
            } => {
                write!(f, "clear {trie} {} limit {limit:?}", hex(prefix))?;
                match cursor {
                    Some(cursor) => write!(f, " from {}", hex(cursor)),
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
            Self::Boundary => f.write_str("boundary"),
        }
    }
}
