//! An adapter that runs a Substrate runtime on povmeter: `sp_externalities::Externalities` over a
//! [`Block`](povmeter::Block).
//!
//! A [`StateMachine`] holds a block and what its runtime produces besides state changes: extensions,
//! offchain changes, and operations on the transaction index. Its [`SizeSource`] says what the existing host function
//! `storage_proof_size` returns. With [`SizeSource::Estimate`] it is the proof size with the root computation included,
//! so runtimes that reclaim storage weight benefit without a change. This changes their results: all nodes and
//! validators of a chain must begin with it at the same block.
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
//! | [`StateMachine`] | a block and the runtime that executes on it |
//! | [`SizeSource`] | where proof sizes come from: the estimate, the recorder, or an earlier record; or that there are none |
//! | [`SealedMachine`] | the sealed block, offchain changes, index operations, and proof sizes |
//! | [`IndexOperation`], [`OffchainChange`] | one operation on the transaction index, one change |
//! | [`to_prefixed_memory_db`], [`from_prefixed_memory_db`] | a root update in the peer's form, and back |
//! | [`RuntimeExtensions`] | the extensions that a runtime registers during one call |
//! | [`FailedAccess`] | what a runtime's call panics with if the state cannot be accessed |
//! | [`Calls`], [`StorageRules`], [`ItemRule`], [`FrameLimits`], [`LimitsError`] | calls of a block on several threads, and what the runtime does to storage items that they share |
//! | [`BenchmarkCall`] | the error if such a call uses a part for benchmarks |
//! | [`MachineError`], [`ReplayError`] | why a call failed; why a record of sizes does not fit |
//!
//! # Guarantees
//! - The interface is complete, including the parts for benchmarks (`wipe`, `commit`, access counts).
//! - The runtime sees what `sp-state-machine` 0.54 shows it, except for the proof size, with
//!   [few exceptions](https://github.com/povmeter/povmeter/blob/main/docs/differences.md#what-a-chain-can-notice).
//! - The runtime cannot close a transaction of the host. Transactions that it leaves open are rolled back.
//! - The interface between runtime and host has no errors, so a failure below it panics with
//!   [`FailedAccess`]. The machine stays failed: it has no root and cannot be sealed.
//! - Calls on several threads have the result of calls in order, as long as the runtime keeps the
//!   promises of the rules for counters; without such rules, always.
//! - Each size that the runtime gets is recorded. A replay of too few or too many sizes is an error.
//!
//! # Costs
//! Those of [`povmeter`], plus one copy of each value that the runtime reads, because the interface
//! returns vectors.
//!
//! # Features
//! None. The crate needs std, as the `sp-` crates do outside a runtime.

mod accesses;
mod externalities;
mod layered;
mod machine;
mod nodes;
mod parallel;
mod runtime_extensions;
mod sizes;

pub use externalities::FailedAccess;
pub use machine::{
    state_version, IndexOperation, MachineError, OffchainChange, SealedMachine, StateMachine,
};
pub use nodes::{from_prefixed_memory_db, out_of, to_prefixed_memory_db, NodesError};
pub use parallel::{BenchmarkCall, Calls, FrameLimits, ItemRule, LimitsError, StorageRules};
pub use runtime_extensions::RuntimeExtensions;
pub use sizes::{ReplayError, SizeSource};
