//! The keys that each balance transfer changes.

use povmeter_dev_ladder::{Changes, LadderBlock, Trial};
use povmeter_dev_runtime::{build_block, AuthorError, HostError, Peer, Plan};
use sp_core::{storage::ChildInfo, H256};
use std::{cell::RefCell, rc::Rc};

/// A trial that only notes the changes of each boundary.
#[derive(Clone, Default)]
struct Notes(Rc<RefCell<Vec<Changes>>>);

impl Trial for Notes {
    fn wants_values(&self) -> bool {
        false
    }

    fn child(
        &mut self,
        _: &ChildInfo,
        parent: Option<H256>,
        _: &Changes,
    ) -> Result<Option<H256>, HostError> {
        // Transfers do not touch child tries.
        Ok(parent)
    }

    fn top(&mut self, changes: &Changes) -> Result<(), HostError> {
        self.0.borrow_mut().push(changes.clone());
        Ok(())
    }
}

/// Returns the changes of each extrinsic of the block of `plan`, in order.
pub(super) fn transfer_changes(plan: &Plan) -> Result<Vec<Changes>, AuthorError> {
    let notes = Notes::default();
    let peer = Peer::in_memory(plan)?;
    let block = LadderBlock::with_trial(&peer, Box::new(notes.clone()));
    build_block(block, plan, |_| {})?;
    Ok(notes.0.take())
}
