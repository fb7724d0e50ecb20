//! Who may rely on the sizes a block reports.

use crate::attribution::{NoNotes, Notes};
use core::fmt::Debug;

/// How a block accounts for the nodes that its estimates touch: [`Consensus`] or [`Advisory`], or either
/// with notes of who needs what: [`Attributed`](crate::Attributed). It is implemented by these alone.
pub trait Accounting: Default + Debug {
    /// Whether estimates touch nodes on behalf of the block, so that the proof must hold them.
    const PROVEN: bool;

    /// What the block notes about each node.
    #[doc(hidden)]
    type Notes: Notes;
}

/// Sizes that the runtime sees, and so may decide upon.
///
/// Whoever executes the block again must get the same sizes at the same places, a validator from the
/// proof alone. So every node that an estimate touches goes into the proof. It stays there when the
/// runtime rolls its transaction back, because the validator runs that transaction too. Only what the
/// host rolls back is gone as if it had never been.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Consensus;

/// Sizes for the author's own use.
///
/// Estimates leave no trace: what they counted goes with the transaction they were made in, the
/// runtime's or the host's. The sealed proof holds what reads and the root needed, no more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Advisory;

impl Accounting for Consensus {
    const PROVEN: bool = true;
    type Notes = NoNotes;
}

impl Accounting for Advisory {
    const PROVEN: bool = false;
    type Notes = NoNotes;
}
