//! povmeter under a Substrate runtime: `sp_externalities::Externalities` over a
//! [`Block`](povmeter::Block).
//!
//! A [`StateMachine`] is a block together with what a runtime does besides changing its state:
//! extensions, offchain changes, operations on the index of transactions. A runtime that asks for
//! the proof size through the existing `storage_proof_size` host function is told the size with the
//! root computation included, so runtimes that reclaim storage weight profit unchanged.
//!
//! ```
//! use povmeter_substrate::{SizeSource, StateMachine};
//! use povmeter_store::{MemoryStore, NodeStore};
//! use sp_core::storage::StateVersion::V1;
//! use sp_externalities::with_externalities;
//!
//! let store = MemoryStore::new();
//! let mut machine = StateMachine::new(&store, store.root(), SizeSource::Estimate);
//! // An extrinsic: a transaction of the host around a call into the runtime.
//! machine.start_transaction();
//! machine.execute(|| with_externalities(|ext| ext.set_storage(b"key".to_vec(), vec![1])))?;
//! machine.commit_transaction()?;
//! let sealed = machine.seal(V1)?;
//! assert!(sealed.block.top_changes().eq([(&b"key"[..], Some(&[1][..]))]));
//! # Ok::<(), povmeter_substrate::MachineError>(())
//! ```
//!
//! # Types
//! | type | what it is |
//! |---|---|
//! | [`StateMachine`] | a block under a runtime |
//! | [`SizeSource`] | whether sizes are estimated, or replayed from a record |
//! | [`SealedMachine`] | the sealed block, the offchain changes, the index operations, the sizes told |
//! | [`IndexOperation`], [`OffchainChange`] | one of each |
//! | [`to_prefixed_memory_db`], [`from_prefixed_memory_db`] | a root update as sp-state-machine's transaction, and back |
//! | [`FailedAccess`] | what a call of the runtime panics with if the state can't be accessed |
//! | [`MachineError`], [`ReplayError`] | what failed; a record of sizes that does not fit the block |
//!
//! # Guarantees
//! - The interface is complete, the parts for benchmarks included (`wipe`, `commit`, access counts).
//! - The runtime sees what `sp-state-machine` 0.54 shows it, except for the proof size.
//! - The runtime can't close a transaction of the host; what it leaves open is rolled back.
//! - The interface between runtime and host has no errors. A failure below it ends the call by a
//!   panic with [`FailedAccess`], and the machine stays failed: it has no root and can't be sealed.
//! - Sizes are recorded as they are told. A replay with too few or too many sizes is an error.
//!
//! # Costs
//! Those of [`povmeter`], plus one copy of each value that the runtime reads: the interface hands out
//! vectors.
//!
//! # Features
//! None. The crate needs std, as the `sp-` crates do outside of a runtime.

mod accesses;
mod externalities;
mod layered;
mod machine;
mod nodes;
mod runtime_extensions;
mod sizes;

pub use externalities::FailedAccess;
pub use machine::{
    state_version, IndexOperation, MachineError, OffchainChange, SealedMachine, StateMachine,
};
pub use nodes::{from_prefixed_memory_db, to_prefixed_memory_db, NodesError};
pub use sizes::{ReplayError, SizeSource};
