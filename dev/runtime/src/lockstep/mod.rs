//! Runs every call of a runtime on two state machines and compares the results.

mod block;
mod calls;
mod externalities;

pub use block::LockstepBlock;
pub use calls::{clock_cost, Calls, Difference};
pub use externalities::{KeyHints, Lockstep, SizeRule, UsedKey};
