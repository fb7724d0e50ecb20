//! Who may rely on the sizes a block reports.

use crate::attribution::{NoNotes, Notes};
use core::fmt::Debug;

/// How a block accounts for the nodes that its estimates touch. Only [`Consensus`], [`Advisory`] and
/// [`Attributed`](crate::Attributed), which notes who needs what for either, implement it.
pub trait Accounting: Default + Debug + Send {
    /// Whether the nodes that estimates touch must be in the proof.
    const PROVEN: bool;

    /// What the block notes about each node.
    #[doc(hidden)]
    type Notes: Notes;
}

/// Sizes that the runtime sees and may base decisions on.
///
/// Whoever executes the block again must get the same sizes at the same points, a validator from the
/// proof alone. So every node that an estimate touches goes into the proof. It stays there when the
/// runtime rolls its transaction back, because the validator runs that transaction too. Only a rollback
/// by the host removes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Consensus;

/// Sizes for the author's own use.
///
/// Estimates leave no trace: what they counted is rolled back with the transaction in which they were
/// made, the runtime's or the host's. The sealed proof holds only what reads and the root needed.
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
