//! Upstream's own tests of `sp-state-machine`, run on the crate that takes its place. The tests are taken from the
//! registry's copy when this crate is built; none is stored here.
//!
//! - `tests/replaced.rs`: the modules that have code of this project, with upstream's tests of these modules;
//! - `tests/kept.rs`: upstream's crate as it is, of which the tests of the other modules count: their code is what
//!   the crate hands on.
//!
//! What is changed in upstream's tests, and why, is the table `CHANGES` of `build.rs`. `compat/run-upstream-tests`
//! prints how many pass.
