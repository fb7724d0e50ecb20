//! Who may rely on the sizes a block reports.

use crate::attribution::Notes;

/// How a block accounts for the nodes that its estimates touch. Chosen by type: [`Consensus`] or
/// [`Advisory`], or either with notes of who needs what: [`Attributed`](crate::Attributed).
pub trait Accounting: Notes {
    /// Whether estimates touch nodes on behalf of the block, so that the proof must hold them.
    const PROVEN: bool;
}

/// Sizes that the runtime sees, and so may decide upon.
///
/// Whoever executes the block again must get the same sizes at the same places, a validator from the
/// proof alone. So every node that an estimate touches goes into the proof, and stays there when the
/// runtime rolls its transaction back, since the validator runs that transaction too. Only what the
/// host rolls back is gone as if it had never been.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Consensus {
    #[doc(hidden)]
    #[default]
    Only,
}

/// Sizes for the author's own use.
///
/// Estimates leave no trace: what they counted goes with the transaction they were made in, the
/// runtime's or the host's, and the sealed proof holds what reads and the root needed, no more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Advisory {
    #[doc(hidden)]
    #[default]
    Only,
}

impl Notes for Consensus {}
impl Notes for Advisory {}

impl Accounting for Consensus {
    const PROVEN: bool = true;
}

impl Accounting for Advisory {
    const PROVEN: bool = false;
}
