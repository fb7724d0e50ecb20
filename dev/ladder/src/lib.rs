//! The strategies that were tried to estimate the proof size on sp-state-machine.
//!
//! [`LadderBlock`] is a block of the peer that uses one [`Strategy`] to estimate the size of the
//! proof after every extrinsic.

mod fake_hasher;
mod ladder;
mod snapshot;
mod strategy;
mod touched;
mod trial;

pub use fake_hasher::FakeHasher;
pub use ladder::{estimate, LadderBlock};
pub use snapshot::{Changed, Changes};
pub use strategy::{Strategy, UnknownStrategy};
pub use touched::{TouchLog, Tracked};
pub use trial::{Ephemeral, Trial, Writes};
