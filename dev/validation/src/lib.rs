//! Parachain blocks, as collators author them and as the relay chain's validators validate them.
//!
//! A [`Collator`] builds blocks of a parachain's runtime on povmeter and packs them into a [`Pov`]. A
//! [`Validator`] runs the `validate_block` of a blob on it, with the settings of the relay chain's nodes.
//! Needs the feature `wasm`.

#[cfg(feature = "wasm")]
extern crate alloc;

#[cfg(feature = "wasm")]
mod act;
#[cfg(feature = "wasm")]
mod collator;
#[cfg(feature = "wasm")]
mod measure;
#[cfg(feature = "wasm")]
mod pov;
#[cfg(feature = "wasm")]
mod random;
#[cfg(feature = "wasm")]
mod relay;
mod report;
/// The storage calls that the runtime in wasm takes from a header.
#[cfg(feature = "wasm")]
#[path = "../../runtime/wasm-runtime/src/validator.rs"]
#[allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    clippy::cast_possible_truncation
)]
#[cfg(feature = "wasm")]
mod steps;
#[cfg(feature = "wasm")]
mod validator;

#[cfg(feature = "wasm")]
pub use act::Act;
#[cfg(feature = "wasm")]
pub use collator::{Candidate, Collator, CollatorError, Draft};
#[cfg(feature = "wasm")]
pub use measure::{measure, MeasureError, MeasureOptions};
#[cfg(feature = "wasm")]
pub use pov::{BundlePlace, Pov, PovVersion, Scheduling};
#[cfg(feature = "wasm")]
pub use random::{RandomError, RandomPovs};
#[cfg(feature = "wasm")]
pub use relay::RelayState;
pub use report::{ValidationReport, ValidationRow};
#[cfg(feature = "wasm")]
pub use steps::{Step, Trie};
#[cfg(feature = "wasm")]
pub use validator::{Validation, Validator, ValidatorError};
