//! Trial tries: they are changed only to find out which nodes the changes need.

mod committing;
mod ephemeral;
mod nodes;

pub(crate) use committing::Committing;
pub use ephemeral::{Ephemeral, Writes};

use crate::snapshot::Changes;
use povmeter_dev_runtime::HostError;
use sp_core::{storage::ChildInfo, H256};

/// Trial tries: they apply changes to note the nodes that these need.
pub trait Trial {
    /// Whether the values of written keys matter.
    fn wants_values(&self) -> bool;

    /// Changes a child trie whose root in the parent state is `parent`. Returns the new root, or any
    /// `Some` if the trial computes no roots; `None` if the child trie is now empty.
    fn child(
        &mut self,
        child: &ChildInfo,
        parent: Option<H256>,
        changes: &Changes,
    ) -> Result<Option<H256>, HostError>;

    /// Changes the top trie.
    fn top(&mut self, changes: &Changes) -> Result<(), HostError>;
}
