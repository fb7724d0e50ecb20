//! What the changes of a block do to a key.

/// What the changes of a block do to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fate {
    /// The key gets a value.
    Written,
    /// The key is deleted.
    Deleted,
    /// No change of the key is left, because all of them were rolled back.
    Untouched,
}
