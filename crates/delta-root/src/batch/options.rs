//! The means to compute a root; the result does not depend on them.

use crate::Hashing;

/// How a root is computed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RootOptions {
    pub(crate) hashing: Hashing,
    /// The fewest changes below one branch for which its children are computed on several threads.
    #[cfg(feature = "parallel")]
    pub(crate) split_from: usize,
}

impl RootOptions {
    /// The best hashing, and several threads from where they were measured to be faster.
    pub(crate) fn best() -> Self {
        Self {
            hashing: Hashing::best(),
            #[cfg(feature = "parallel")]
            split_from: super::SPLIT_FROM,
        }
    }
}
