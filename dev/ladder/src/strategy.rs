//! The strategies to estimate the size of the proof after every extrinsic.

use std::{fmt, str::FromStr};

/// A strategy to estimate the size of the proof after every extrinsic, on the peer's overlay and
/// tries.
///
/// Each but the last two does less than the one before it. None changes the block: the root, the
/// proof and the sizes that the runtime gets are the same under every strategy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Strategy {
    /// No estimate, with the bookkeeping of the others. The baseline for their cost.
    None,
    /// Computes the peer's root of all changes so far after every extrinsic, counts the nodes that it
    /// reads, and drops the rest. Each boundary costs as much as the end of a block. Never
    /// underestimates, because it is the predicted computation itself. Overestimates if a later
    /// extrinsic makes a read unnecessary, because counts never fall.
    RootEachTx,
    /// Applies only the keys changed since the last boundary, to a trie that continues from the last
    /// boundary's root, over the parent's nodes and those committed to memory so far, with real
    /// Blake2. Underestimates where the order of the extrinsics and the order of the keys read
    /// different siblings, because the end of the block applies the net changes in key order.
    Incremental,
    /// As [`Self::Incremental`], with a fast hasher for new nodes, because their hashes are never
    /// published. Reads the same nodes, so it underestimates in the same cases.
    FakeHasher,
    /// As [`Self::FakeHasher`], but applies a key again only if its fate changes from written to
    /// deleted or back, because the nodes that a key needs do not depend on its value.
    /// Underestimates in the same cases.
    EachKeyOnce,
    /// As [`Self::EachKeyOnce`], in a trie that is opened on the parent's root for each boundary and
    /// dropped without a commit. Hashes nothing and keeps no nodes. But a boundary does not see the
    /// deletions of the others, so it underestimates where only the deletions of several extrinsics
    /// together merge a branch.
    Forget,
    /// As [`Self::Forget`], with a look-up instead of an insertion for every written key; only
    /// deletions change the trie. Underestimates in the same cases. Overestimates where a look-up
    /// reads an old value of 33 bytes or more that nothing else reads, because the root does not.
    GetForWrites,
    /// The open proposal for sp-state-machine: an ephemeral trie per boundary, look-ups for writes,
    /// removals for deletions, no commit. As [`Self::GetForWrites`], but applies every key that the
    /// overlay changed since the last boundary, even if it was applied before.
    Upstream,
}

impl Strategy {
    /// All strategies, in the order of the research they come from.
    pub const ALL: [Self; 8] = [
        Self::None,
        Self::RootEachTx,
        Self::Incremental,
        Self::FakeHasher,
        Self::EachKeyOnce,
        Self::Forget,
        Self::GetForWrites,
        Self::Upstream,
    ];

    /// Name of the strategy, as [`FromStr`] reads it.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::RootEachTx => "root-each-tx",
            Self::Incremental => "incremental",
            Self::FakeHasher => "fake-hasher",
            Self::EachKeyOnce => "each-key-once",
            Self::Forget => "forget",
            Self::GetForWrites => "get-for-writes",
            Self::Upstream => "upstream",
        }
    }

    /// Whether the strategy claims never to underestimate.
    pub fn claims_complete(self) -> bool {
        self == Self::RootEachTx
    }

    /// Whether a key is applied again only if its fate has changed.
    pub fn hands_over_once(self) -> bool {
        matches!(self, Self::EachKeyOnce | Self::Forget | Self::GetForWrites)
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The error for a name that no strategy has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected one of {}, found {found:?}", Strategy::ALL.map(Strategy::name).join(", "))]
pub struct UnknownStrategy {
    /// The name.
    pub found: String,
}

impl FromStr for Strategy {
    type Err = UnknownStrategy;

    fn from_str(name: &str) -> Result<Self, UnknownStrategy> {
        let named = Self::ALL
            .into_iter()
            .find(|strategy| strategy.name() == name);
        named.ok_or_else(|| UnknownStrategy {
            found: name.to_owned(),
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for strategy in Strategy::ALL {
            assert_eq!(strategy.to_string().parse(), Ok(strategy));
        }
        let error = "fast".parse::<Strategy>().unwrap_err();
        assert!(
            error.to_string().contains("root-each-tx, incremental"),
            "{error}"
        );
    }
}
