//! The spans that host functions of a native runtime open.

use tracing::subscriber::{set_global_default, NoSubscriber};

/// Gives this program a subscriber of spans that wants none, unless it has one.
///
/// Each host function that a native runtime calls opens a span at level trace. A node has a
/// subscriber, whose usual filter leaves such spans out by a glance at the level. In a program
/// without one, `tracing` makes each span for the crate `log` instead: one millisecond of 544
/// transfers for every contender, a seventh of the instructions of povmeter's block.
pub(crate) fn leave_out() {
    // An error means that the program has a subscriber.
    let _ = set_global_default(NoSubscriber::new());
}
