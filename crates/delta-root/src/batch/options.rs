//! Options of a root computation. Its result does not depend on them.

use crate::Hashing;

/// The hashing and the threads of a root computation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RootOptions {
    pub(crate) hashing: Hashing,
    /// The fewest changes below one branch for which its children are computed on several threads.
    #[cfg(feature = "parallel")]
    pub(crate) split_from: usize,
}

impl RootOptions {
    /// The best hashing, and several threads from `SPLIT_FROM` changes on.
    pub(crate) fn best() -> Self {
        Self {
            hashing: Hashing::best(),
            #[cfg(feature = "parallel")]
            split_from: super::SPLIT_FROM,
        }
    }
}
