//! Real blocks to test and measure povmeter with, and the peer to compare it to.
//!
//! A [`Plan`] is a parent state and one block on top of it: endowed accounts, a timestamp and
//! signed balance transfers for the FRAME runtime in [`runtime`]. [`build_block`] does what a
//! block author does with it, under any state machine that implements [`Host`]. [`Peer`] is
//! sp-state-machine as nodes run it; [`LadderBlock`] is the same with one of the [`Strategy`]s that
//! tell the size of the proof after every extrinsic.
//!
//! ```
//! use povmeter_workload::{build_block, Peer, Plan, PlanOptions};
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

pub mod attribution;
mod author;
mod chain_spec;
mod data_files;
mod entry;
mod fake_hasher;
pub mod fuzzing;
mod host;
mod ladder;
mod lockstep;
pub mod oracle;
mod peer;
mod plan;
mod povmeter_host;
mod real_blocks;
mod recorder;
pub mod runtime;
mod snapshot;
pub mod speed;
mod stopwatch;
mod strategy;
mod touched;
mod trace;
mod trace_line;
mod trial;
#[cfg(feature = "wasm")]
pub mod wasm;

pub use author::{
    build_block, build_block_with, AuthorError, BlockOutcome, ExtrinsicTimes, Phases, Progress,
    Rejected,
};
pub use chain_spec::{genesis_hash, ChainSpec, ChainSpecError, Entries};
pub use data_files::{data_dir, read_file, FileError, FILE_LIMIT};
pub use entry::{EntryPoints, Native, RuntimeError};
pub use fake_hasher::FakeHasher;
pub use host::{
    BlockPart, BoundarySize, Built, Host, HostError, NodeChange, ProofSizes, RootUpdate,
    TransactionStep,
};
pub use ladder::LadderBlock;
pub use lockstep::{clock_cost, Calls, Difference, Lockstep, LockstepBlock, SizeRule};
pub use peer::{Finished, MemoryNodes, NodeStore, Parent, Peer, PeerBlock, ValidateError};
pub use plan::{CallKind, Plan, PlanError, PlanOptions, Signatures};
pub use povmeter_host::{
    commit_parent, commit_state, Estimates, PovmeterBlock, PovmeterFinished, SharedNodes,
    StateError,
};
pub use real_blocks::{block_files, RealBlock, RealBlocks, RealBlocksError, RealHeader};
pub use recorder::{BlockRecorder, SplitRecorder};
pub use stopwatch::Spent;
pub use strategy::{Strategy, UnknownStrategy};
pub use trace::{
    parse_trace, read_trace, Removal, StorageCall, TraceError, TracePhase, TraceRecord,
    TraceRecordError,
};
