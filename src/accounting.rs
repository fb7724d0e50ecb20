//! The accountings of a block: who may rely on its sizes.

use crate::attribution::{NoNotes, Notes};
use core::fmt::Debug;

/// Keeps other crates from implementing [`Accounting`], because the notes of a block are internal.
pub(crate) mod sealed {
    pub trait Sealed {}
}

/// How a block accounts for the nodes that its estimates touch. Only [`Consensus`], [`Advisory`] and
/// [`Attributed`](crate::Attributed), which adds notes to either of them, implement it; other crates can't.
pub trait Accounting: Default + Debug + Send + sealed::Sealed {
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

/// Accountings whose sizes no runtime is told, so that they may depend on the author: [`Advisory`], and
/// [`Attributed`](crate::Attributed) of it.
pub trait Untold: Accounting {}

impl Untold for Advisory {}

impl Untold for crate::Attributed<Advisory> {}

impl sealed::Sealed for Consensus {}
impl sealed::Sealed for Advisory {}

impl Accounting for Consensus {
    const PROVEN: bool = true;
    type Notes = NoNotes;
}

impl Accounting for Advisory {
    const PROVEN: bool = false;
    type Notes = NoNotes;
}

/// [`Accounting`] is sealed:
/// ```compile_fail,E0277
/// #[derive(Debug, Default)]
/// struct Other;
///
/// impl povmeter::Accounting for Other {
///     const PROVEN: bool = false;
///     type Notes = <povmeter::Consensus as povmeter::Accounting>::Notes;
/// }
/// ```
#[cfg(doctest)]
struct Outside;
