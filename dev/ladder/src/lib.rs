//! The strategies that were tried to estimate the proof size on sp-state-machine.
//!
//! [`LadderBlock`] is a block of the peer that uses one [`Strategy`] to estimate the size of the
//! proof after every extrinsic. Each strategy is one file in `src/rungs`, which begins with its idea.

mod estimator;
mod fake_hasher;
mod ladder;
mod rungs;
mod snapshot;
mod strategy;
mod touched;
mod trial;

pub use estimator::estimate;
pub use fake_hasher::FakeHasher;
pub use ladder::LadderBlock;
pub use snapshot::{Changed, Changes};
pub use strategy::{Strategy, UnknownStrategy};
pub use touched::{TouchLog, Tracked};
pub use trial::{Ephemeral, Trial, Writes};
