//! The state version: how values are laid out in a trie.

/// How a trie stores the values that it writes. Values written earlier keep their form until they are
/// written again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StateVersion {
    /// Every value lies in its node.
    V0,
    /// A value of [`StateVersion::V1_NODE_VALUE`] bytes or more is a node of its own, and its trie
    /// node holds the hash.
    #[default]
    V1,
}

impl StateVersion {
    /// Length in bytes from which version 1 stores a value as a node of its own.
    pub const V1_NODE_VALUE: u32 = 33;
}
