//! Calls into a runtime on several threads.

mod calls;
mod counting;
mod forecast;
mod numbers;
mod rules;
mod view_ext;

pub use calls::Calls;
pub use rules::{FrameLimits, ItemRule, LimitsError, StorageRules};
pub use view_ext::BenchmarkCall;
