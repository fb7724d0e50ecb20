//! povmeter under a Substrate runtime.

mod accesses;
mod externalities;
mod layered;
mod machine;
mod sizes;

pub use machine::{
    state_version, IndexOperation, MachineError, OffchainChange, SealedMachine, StateMachine,
};
pub use sizes::{ReplayError, SizeSource};
