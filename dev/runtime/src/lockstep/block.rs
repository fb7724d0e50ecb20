//! A whole block on two state machines.

use super::{Calls, KeyHints, Lockstep, SizeRule};
use crate::{
    host::BoundarySize, host::Built, host::Host, host::HostError, host::TransactionStep,
    peer::PeerBlock,
};
use povmeter_attribution::BlockPart;
use sp_externalities::{set_and_run_with_externalities, with_externalities, Externalities};
use std::fmt;

/// A block that counts every call of the runtime, and compares each result with the peer's if there
/// is a peer.
pub struct LockstepBlock<'c, H> {
    ours: H,
    peer: Option<PeerBlock>,
    rule: SizeRule,
    timed: bool,
    hints: Option<KeyHints>,
    calls: &'c mut Calls,
}

impl<'c, H: Host> LockstepBlock<'c, H> {
    /// Pairs two blocks on the same parent state. Their calls are added to `calls`.
    pub fn new(ours: H, peer: Option<PeerBlock>, rule: SizeRule, calls: &'c mut Calls) -> Self {
        Self {
            ours,
            peer,
            rule,
            timed: false,
            hints: None,
            calls,
        }
    }

    /// Also tells `hints` each key before it is used.
    #[must_use]
    pub fn telling_keys(mut self, hints: KeyHints) -> Self {
        self.hints = Some(hints);
        self
    }

    /// Also adds up the time of the calls of our side.
    #[must_use]
    pub fn timed(mut self) -> Self {
        self.timed = true;
        self
    }
}

impl<H: Host> Host for LockstepBlock<'_, H> {
    type Finished = Built;

    fn execute<R>(&mut self, call: impl FnOnce() -> R) -> Result<R, HostError> {
        let Self {
            ours,
            peer,
            rule,
            timed,
            hints,
            calls,
        } = self;
        let none = || HostError::Runtime { expected: "inside" };
        ours.execute(|| {
            let both = |ours: &mut dyn Externalities| match peer {
                None => {
                    let ext = Lockstep::new(ours, None, calls, *rule);
                    let mut ext = ext.timed(*timed).telling_keys(hints.clone());
                    Ok(set_and_run_with_externalities(&mut ext, call))
                }
                Some(peer) => peer.inside(|theirs| {
                    let ext = Lockstep::new(ours, Some(theirs), calls, *rule);
                    let mut ext = ext.timed(*timed).telling_keys(hints.clone());
                    set_and_run_with_externalities(&mut ext, call)
                }),
            };
            with_externalities(both).unwrap_or_else(|| Err(none()))
        })?
    }

    fn transaction(&mut self, step: TransactionStep) -> Result<(), HostError> {
        self.ours.transaction(step)?;
        match &mut self.peer {
            None => Ok(()),
            Some(peer) => peer.transaction(step),
        }
    }

    fn boundary(&mut self) -> Result<Option<BoundarySize>, HostError> {
        self.ours.boundary()
    }

    fn begin(&mut self, part: BlockPart) {
        self.ours.begin(part);
    }

    fn recorded(&self) -> u64 {
        self.ours.recorded()
    }

    fn told(&self) -> Vec<u64> {
        self.ours.told()
    }

    fn finish(self) -> Result<Built, HostError> {
        let ours = self.ours.finish()?.into();
        if let Some(peer) = self.peer {
            compare_built(self.calls, &peer.finish()?.into(), &ours);
        }
        Ok(ours)
    }
}

/// Compares the two finished blocks as one more call.
fn compare_built(calls: &mut Calls, expected: &Built, found: &Built) {
    calls.all += 1;
    let mut compare =
        |what: &str, same: bool, expected: &dyn fmt::Debug, found: &dyn fmt::Debug| {
            if !same {
                calls.note(what.to_owned(), expected, found);
            }
        };
    compare(
        "final root",
        expected.root == found.root,
        &expected.root,
        &found.root,
    );
    let (theirs, ours) = (&expected.main_changes, &found.main_changes);
    compare("changes", theirs == ours, &theirs.len(), &ours.len());
    let (theirs, ours) = (&expected.child_changes, &found.child_changes);
    compare("child changes", theirs == ours, &theirs.len(), &ours.len());
    let (theirs, ours) = (&expected.update, &found.update);
    compare(
        "nodes",
        theirs == ours,
        &theirs.nodes().len(),
        &ours.nodes().len(),
    );
}
