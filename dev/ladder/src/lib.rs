//! Every way that was tried to estimate a proof size on sp-state-machine.
//!
//! [`LadderBlock`] is the peer with one of the [`Strategy`]s that tell the size of the proof after
//! every extrinsic.

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
