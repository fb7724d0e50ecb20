//! The rungs of the ladder: each strategy is one file, which only this module names.

mod each_key_once;
mod fake_hasher;
mod forget;
mod get_for_writes;
mod incremental;
mod none;
mod root_each_tx;
mod upstream;

use crate::{estimator::Estimator, strategy::Strategy};
use povmeter_dev_runtime::{Peer, SplitRecorder};

/// What a strategy is to the rest of the crate.
pub(crate) struct Rung {
    /// The name, which no other strategy has.
    pub(crate) name: &'static str,
    /// Whether the strategy claims never to underestimate.
    pub(crate) claims_complete: bool,
    /// Begins the estimates of a block, given the peer and the recorder of the block.
    pub(crate) start: fn(&Peer, &SplitRecorder) -> Box<dyn Estimator>,
}

impl Strategy {
    /// Makes no estimate: the baseline for the cost of the others.
    pub const NONE: Self = Self(&none::RUNG);
    /// Computes the peer's root of all changes so far.
    pub const ROOT_EACH_TX: Self = Self(&root_each_tx::RUNG);
    /// Applies only the keys changed since the last boundary, to the trie of the last boundary.
    pub const INCREMENTAL: Self = Self(&incremental::RUNG);
    /// As [`Self::INCREMENTAL`], with a fast hasher for new nodes.
    pub const FAKE_HASHER: Self = Self(&fake_hasher::RUNG);
    /// As [`Self::FAKE_HASHER`], but applies a key again only if its fate changes from written to
    /// deleted or back.
    pub const EACH_KEY_ONCE: Self = Self(&each_key_once::RUNG);
    /// As [`Self::EACH_KEY_ONCE`], in a trie that is dropped after each boundary.
    pub const FORGET: Self = Self(&forget::RUNG);
    /// As [`Self::FORGET`], with a look-up instead of an insertion for every written key.
    pub const GET_FOR_WRITES: Self = Self(&get_for_writes::RUNG);
    /// The open proposal for sp-state-machine: as [`Self::GET_FOR_WRITES`], but applies every changed
    /// key, even if it was applied before.
    pub const UPSTREAM: Self = Self(&upstream::RUNG);

    /// All strategies, in the order of the research they come from.
    pub const ALL: [Self; 8] = [
        Self::NONE,
        Self::ROOT_EACH_TX,
        Self::INCREMENTAL,
        Self::FAKE_HASHER,
        Self::EACH_KEY_ONCE,
        Self::FORGET,
        Self::GET_FOR_WRITES,
        Self::UPSTREAM,
    ];
}
