//! A FRAME runtime, plans of blocks for it, and the state machines that build them.
//!
//! A [`Plan`] is a parent state and one block on it: endowed accounts, a timestamp and signed
//! balance transfers for the FRAME runtime in [`runtime`]. [`build_block`] builds the block as an
//! author does, on any state machine that implements [`Host`]: [`Peer`] is sp-state-machine as
//! nodes run it, [`PovmeterBlock`] is povmeter, [`LockstepBlock`] runs both and compares them.
//!
//! ```
//! use povmeter_dev_runtime::{build_block, Peer, Plan, PlanOptions};
//!
//! let options = PlanOptions { accounts: 100, transfers: 10, ..Default::default() };
//! let plan = Plan::new(options)?;
//! let peer = Peer::in_memory(&plan)?;
//! let outcome = build_block(peer.block(), &plan, |_| {})?;
//! assert_eq!(outcome.applied, 10);
//! assert_eq!(peer.validate_from_compact(&plan, &outcome.compact)?, outcome.built.root);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Everything is single-threaded unless its documentation says otherwise.

extern crate alloc;

#[macro_use]
mod forward;

mod attributed;
mod author;
mod chain;
mod deletions_first;
mod entries;
mod entry;
mod host;
mod lockstep;
mod names;
mod parent_state;
mod peer;
mod plan;
mod pov;
mod povmeter_host;
mod recorder;
pub mod runtime;
mod spans;
mod stopwatch;
mod threads;
#[cfg(feature = "wasm")]
pub mod wasm;

pub use attributed::{adds_up, AttributedBlock};
pub use author::{
    build_block, build_block_timed, build_block_with, AuthorError, BlockOutcome, ExtrinsicTimes,
    Phases, Progress, Rejected,
};
pub use chain::Chain;
pub use deletions_first::{deletions_first, DeletionsFirst, NULL_NODE};
pub use entries::Entries;
pub use entry::{EntryPoints, Native, RememberSignatures, RuntimeError};
pub use host::{
    BoundarySize, Built, Host, HostError, NodeChange, ProofSizes, RootUpdate, TransactionStep,
};
pub use lockstep::{
    clock_cost, Calls, Difference, KeyHints, Lockstep, LockstepBlock, SizeRule, UsedKey,
};
pub use names::runtime_names;
pub use parent_state::{commit_parent, commit_state, StateError};
pub use peer::{
    panic_message, Finished, MemoryNodes, NodeStore, Parent, Peer, PeerBackend, PeerBlock,
    ValidateError,
};
pub use plan::{CallKind, Plan, PlanError, PlanOptions, Signatures};
pub use pov::PovSizes;
pub use povmeter_host::{Estimates, PovmeterBlock, PovmeterFinished, SealedUpdate, SharedNodes};
pub use recorder::{BlockRecorder, EstimateRecorder, SplitRecorder};
pub use stopwatch::Spent;
pub use threads::{execute_plan, parallel_of, runtime_rules, Execution, PlanBlock};
