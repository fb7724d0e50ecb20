//! Blocks executed on several threads, with the state and the proof sizes of sequential execution.
//!
//! Transactions are executed ahead of their turn, on what the transactions before them have written so
//! far. At its turn, a transaction whose reads still have the same answers is committed to the
//! [`Block`](povmeter::Block) as it was executed; otherwise it is executed again. Some transactions are left to
//! the thread of the block, which executes them only at their turn, because that costs less. So the result is that
//! of sequential execution, on any number of threads: endings, root, changes, proof, and the proof size after
//! each transaction. The optimistic scheme is Block-STM's.
//!
//! ```
//! use povmeter::{Block, Root, StateVersion::V1, TrieId::Top};
//! use povmeter_parallel::{Addition, CounterWidth, Executor, Interrupt, Parallel, View};
//! use povmeter_store::MemoryStore;
//!
//! /// Transaction `i` moves the token of account `i`, and counts the tokens moved.
//! struct Moves;
//!
//! impl Executor for Moves {
//!     type Worker = ();
//!     type Output = bool;
//!
//!     fn worker(&self) {}
//!
//!     fn execute(&self, _: &mut (), index: u32, view: &mut View<'_>) -> Result<bool, Interrupt> {
//!         let account = index.to_be_bytes();
//!         let moved = view.get(Top, &account)?.is_none();
//!         view.set(Top, &account, b"moved")?;
//!         view.add(Top, b"moves", Addition::new(CounterWidth::U32, 1))?;
//!         Ok(moved)
//!     }
//! }
//!
//! let store = MemoryStore::new();
//! let mut block = Block::new(&store, Root::EMPTY);
//! let workers = std::thread::available_parallelism()?;
//! let batch = Parallel::new(workers).execute(&mut block, &store, &Moves, 100)?;
//! assert_eq!(batch.transactions.len(), 100);
//! assert_eq!(block.get(Top, b"moves")?, Some(&100_u32.to_le_bytes()[..]));
//! let sealed = block.seal(V1)?;
//! # assert_eq!(sealed.size(), batch.transactions[99].size);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Types
//! | type | what it is |
//! |---|---|
//! | [`Parallel`], [`Strategy`], [`SizeAfter`] | executes transactions on a block; how many workers, when ahead, and which sizes are returned |
//! | [`Executor`], [`Interrupt`] | executes one transaction; implemented by the caller |
//! | [`View`], [`Stopped`] | the state as a transaction sees it |
//! | [`Rule`], [`Addition`], [`CounterWidth`] | a change that is a function of the value below it |
//! | [`Batch`], [`Executed`], [`Ending`], [`Trap`] | the outcome of each transaction, and the size after it |
//! | [`Decided`], [`Verdict`] | an author's decision, at its turn, to keep a transaction or to leave it out |
//! | [`Statistics`] | how the transactions were executed |
//! | [`Experience`] | what a block measured of their speed, for the next block |
//! | [`FailedBatch`], [`ParallelError`] | what was executed before an error, and the error |
//! | [`VersionStore`], [`VersionRead`], [`WritesTooLong`] | the multi-version store alone |
//!
//! # Guarantees
//! - The result is that of [`Strategy::Adaptive`] with one worker, which executes each transaction on the
//!   block, in a transaction of the host, and asks for the size after it. Only [`Statistics`] differ.
//! - Nothing is committed on trust. Before a transaction is committed, the block itself answers every question that
//!   the transaction asked, and the answers are compared, values byte by byte. This also counts the reads. So a fault
//!   of the scheduler cannot change a result.
//! - The nodes that speculative executions load do not count.
//! - If a transaction fails or panics, its outcome is a [`Trap`], and it leaves no trace in the block. Only a panic at
//!   its turn counts: after one ahead of it, the transaction is left to its turn.
//! - A thread waits for other transactions only in [`View::wait_for_turn`] and in the calls that imply it. When
//!   [`Parallel::execute`] returns or panics, its threads have ended.
//!
//! # What does not conflict
//! Transactions conflict if one reads what another writes. These do not:
//! - a write of the value that is already there, with any read of it;
//! - [`View::exists`] and a write that keeps the key;
//! - [`View::next_key`] and a write outside of the gap that it looked at;
//! - [`View::append`]s to one list, and [`View::update`]s of one key, such as [`View::add`];
//! - a [`View::guess`] and any write;
//! - [`View::try_add`]s to one counter, as long as the answer is the same;
//! - reads that [`Executor::predict`] predicts, if the prediction is right.
//!
//! # Costs
//! - Ahead of its turn: a read is one or two look-ups under locks that are held for nanoseconds. The first read of a
//!   key of the parent state is also a walk: in the block, for the thread that owns it, else in the worker's own
//!   shadow trie. Each thread that reads the value of an update applies the update once. A transaction allocates
//!   twice for its writes, and a few times more for updates, for values of more than 256 bytes, and for keys that are
//!   new to the block. Workers reuse all other memory.
//! - At its turn: each distinct read is repeated on the block, and written values of less than 32 KiB are copied. The
//!   block loads the nodes of up to eight transactions together. One thread does this part, so it limits what more
//!   threads can gain.
//! - Memory: for each written key a number per writing transaction; the written values; the values of the parent
//!   state that were read, which share memory with their nodes; and a shadow trie for each worker. All are kept until
//!   the call returns. Reads are kept while a transaction waits for its turn.
//! - If parallel execution gains nothing, [`Strategy::Adaptive`] continues in order after at most three trials, or at
//!   once with the [`Experience`] of the block before.
//!
//! # Preparations
//! If the slow part of transactions depends on no state, as the check of a signature does, use [`Strategy::Prepare`]:
//! one thread executes the block in order, and the others [prepare](Executor::prepare) the next transactions. Then no
//! transaction is executed twice or compared.
//!
//! [The page about parallel execution](https://github.com/povmeter/povmeter/blob/main/docs/parallel.md) explains how it
//! works.
//!
//! # Features
//! None. The crate needs std.

mod attempts;
mod bell;
mod below;
mod caught;
mod commit;
mod commits;
mod executor;
mod fetch;
mod folds;
mod in_order;
#[cfg(all(test, any(povmeter_loom, povmeter_shuttle)))]
mod models;
mod outcome;
mod pace;
mod parallel;
mod preparations;
mod record;
mod scheduler;
mod shared;
mod speculation;
mod store;
mod sync;
mod turns;
mod update;
mod version_store;
mod view;
mod write_log;

pub use executor::{Executor, Interrupt, Stopped, Trap};
pub use outcome::{
    Batch, Decided, Ending, Executed, FailedBatch, ParallelError, Statistics, Verdict,
};
pub use pace::Experience;
pub use parallel::{Parallel, SizeAfter, Strategy};
pub use update::{Addition, CounterWidth, Rule};
pub use version_store::{VersionRead, VersionStore, WritesTooLong};
pub use view::View;
