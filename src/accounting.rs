//! The accountings of a block: who may rely on its sizes.

use crate::attribution::{NoNotes, Notes};
use core::fmt::Debug;

/// How a block accounts for the nodes that its estimates touch. Only [`Consensus`], [`Advisory`] and
/// [`Attributed`](crate::Attributed), which adds notes to either of them, implement it.
pub trait Accounting: Default + Debug + Send {
    /// Whether the nodes that estimates touch must be in the proof.
    const PROVEN: bool;

    /// What the block notes about each node.
    #[doc(hidden)]
    type Notes: Notes;
}

/// Sizes that the runtime sees and may base decisions on.
///
/// Importers and validators must get the author's sizes at the same points, and a validator has the
/// proof alone. So every node that an estimate touches goes into the proof. It stays there when the
/// runtime rolls its transaction back, because the validator runs that transaction too. Only a rollback
/// by the host removes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Consensus;

/// Sizes for the author's own use.
///
/// Estimates leave no trace: what they counted is rolled back with the transaction in which they were
/// made, whether the runtime or the host opened it. The sealed proof holds only what reads and the root
/// needed.
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
