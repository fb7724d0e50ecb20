//! The oracle: executes the same block on povmeter and on the peer, and compares every result.
//!
//! A [`Case`] is a parent state and a list of [`Op`]s, made at random or from a fuzzer's bytes.
//! [`run_case`] runs it on both sides:
//! ```text
//! for each op:      the same answer, and the same number of bytes read
//! at each boundary: truth = recorded nodes + nodes that the peer's root of the net changes records
//!                   our proof holds the truth's nodes, our estimate is at least the truth's bytes
//!                   the size by the rule, without history, is at least the truth and at most ours
//!                   the compact size told = the length of the packed proof
//! at the end:       the same root, nodes inserted and removed, and changes; the same compact proof
//!                   of the same nodes; importers and a validator get the author's sizes; a
//!                   validator on the peer gets the same root from the proof alone
//! ```
//! A case ends at its first [`Mismatch`]; [`run_cases`] counts mismatches over many cases.
//!
//! [`compare_compact`] compares only the length told for the compact proof with that of the packed
//! proof. It is fast enough to make every op a boundary.
//!
//! [`compare_stock_nodes`] compares the recorded nodes of blocks whose roots count in key order with the peer's: they
//! must be the same.
//!
//! [`compare_roots`] compares only the root update of a case, in every [`RootMode`]; [`run_roots`]
//! compares those of many cases, and [`KnownState`] those of real states.

mod case;
mod compact;
mod dice;
mod equal_nodes;
pub mod fuzzing;
mod generator;
mod known_states;
mod lockstep;
mod mismatch;
mod net;
#[cfg(test)]
mod patched;
mod peer_side;
mod report;
mod roles;
mod root_tally;
mod roots;
mod rule;
mod shrink;
mod stock_nodes;
mod tally;
mod traps;
mod vectors;

pub use case::{Case, Flavour, ParentNodes, ParentState, TrieEntries};
pub use compact::{compare_compact, CompactCounts, EqualNodeKinds};
pub use dice::ByteDice;
pub use known_states::{KnownState, KnownStatesError};
pub use lockstep::run_case;
pub use mismatch::{Mismatch, MismatchKind, Role, RoleDifference};
pub use peer_side::ask_externalities;
pub use povmeter_delta_root::SPLIT_FROM;
pub use povmeter_vectors::{ask, Answer, Op, TrieName};
pub use report::CaseReport;
pub use root_tally::{run_roots, RootFailure, RootTally};
pub use roots::PeersUpdate;
pub use roots::{compare_roots, on_one_thread, RootCounts, RootMismatch, RootMode};
pub use shrink::shrink;
pub use stock_nodes::{compare_stock_nodes, StockNodes};
pub use tally::{run_cases, CaseName, Failure, Tally};
pub use vectors::{case_of, generate_vectors, vectors_of};
