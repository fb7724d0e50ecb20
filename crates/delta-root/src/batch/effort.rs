//! How a root is computed; no part of what comes out.

use crate::Hashing;

/// What computes a root.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    pub(crate) hashing: Hashing,
    /// Changes below one branch from which on its children go to the threads that there are.
    #[cfg(feature = "parallel")]
    pub(crate) split_from: usize,
}

impl Effort {
    /// With the best hashing, apart from where it was measured to pay.
    pub(crate) fn best() -> Self {
        Self {
            hashing: Hashing::best(),
            #[cfg(feature = "parallel")]
            split_from: super::SPLIT_FROM,
        }
    }
}
