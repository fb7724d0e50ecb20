//! What is compared of each kind of result.

mod attribution;
mod block;
mod cache;
mod chain;
mod compare;
mod estimator;
mod genesis;
mod overlay;
mod parallel;
mod pool;
mod pov_limit;
mod replay;
mod root;
mod validation;
