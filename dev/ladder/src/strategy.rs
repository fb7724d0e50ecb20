//! The ways to know the size of the proof after every extrinsic.

use std::{fmt, str::FromStr};

/// A way to know the size of the proof after every extrinsic, on the peer's overlay and tries.
///
/// Each but the last two does less than the one before it. All of them only look: the root, the
/// proof and the sizes that the runtime is told are the same under every strategy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Strategy {
    /// No estimate, with the plumbing of the others: what they cost is their distance to it.
    None,
    /// The peer's own root of all changes so far, after every extrinsic; what it reads counts and
    /// the rest is dropped. Each boundary costs as much as a whole block's end. Never an
    /// underestimate, since it is the very computation it predicts; it overestimates if a later
    /// extrinsic makes a read unnecessary, because counts never fall.
    RootEachTx,
    /// Only the keys changed since the last boundary, put into a trie that starts from the last
    /// boundary's root, over the parent's nodes and those committed so far to memory, with real
    /// Blake2. It applies the changes in the order of the extrinsics, while the end of the block
    /// applies the net changes in the order of the keys. Where these read different siblings it
    /// underestimates.
    Incremental,
    /// The incremental one with a fast hash for the nodes that it makes: their hashes are never
    /// seen by anyone. Reads the same nodes, so it underestimates where that one does.
    FakeHasher,
    /// The one with the fake hasher, but a key which was handed over once is not handed over again
    /// until its fate changes from written to deleted or back: which nodes a key needs does not
    /// depend on the value. Underestimates where that one does.
    EachKeyOnce,
    /// The one with each key once, in a trie that is opened on the parent's root for each boundary
    /// and dropped without being committed. Nothing is hashed, and no node has to be kept. But no
    /// boundary knows what the others deleted: it underestimates where only the deletions of
    /// several extrinsics together merge a branch.
    Forget,
    /// The one that forgets, with a look-up in place of an insertion for every written key; only
    /// deletions change the trie. Underestimates where that one does, and overestimates where a
    /// look-up reads an old value of 33 bytes and more that nobody else reads: the root would not.
    GetForWrites,
    /// The proposal that is open upstream: an ephemeral trie per boundary, look-ups for writes,
    /// removals for deletions, nothing committed. That is [`Self::GetForWrites`], except that keys
    /// come as the overlay has them since the last boundary: one that was handed over before is
    /// handed over again.
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

    /// The name, as [`FromStr`] reads it.
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

    /// Whether a key is handed over again only if its fate has changed.
    pub fn hands_over_once(self) -> bool {
        matches!(self, Self::EachKeyOnce | Self::Forget | Self::GetForWrites)
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that no strategy has.
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
