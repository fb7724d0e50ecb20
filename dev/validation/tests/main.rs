//! Parachain blocks validated by the stock function and by povmeter's.
//!
//! One program, because each that is linked with a runtime takes half a minute to build.

mod differential;
mod imports;
mod refusals;
mod roles;
mod scheduling;
