//! Upstream's own tests of `sp-state-machine`, run on the crate that takes its place. The tests are taken from the
//! registry's copy when this crate is built; none is stored here.
//!
//! - `tests/replaced.rs`: the modules that have code of this project, with upstream's tests of these modules;
//! - `tests/kept.rs`: upstream's crate as it is. The tests of its other modules count, because our crate
//!   re-exports their code.
//!
//! What is changed in upstream's tests, and why, is the table `CHANGES` of `build.rs`. `compat/run-upstream-tests`
//! prints how many pass.
