//! The caches that are compared, behind one interface.

mod fifo_ring;
mod keyed;
mod libraries;
mod ours;
mod peer;

use crate::{
    trace::{NodeNumber, Trace, TracedBlock},
    Keying,
};
use fifo_ring::FifoRing;
use keyed::{ByHash, ByPath, HashKey, PathKey, Sharded};
use libraries::{Foyer, Lru, Moka, QuickCache, Schnellru, Sieve};
use povmeter::RootUpdate;

/// What a look-up found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Miss,
    Hit,
    /// Bytes of another node.
    Stale,
}

/// A cache in a replay.
pub(crate) trait Policy: Sync {
    /// The cache as one block or thread uses it. A view hands over what it holds when it is dropped.
    fn view(&self) -> Box<dyn View + '_>;

    /// Number of nodes; `None` if the cache does not tell it.
    fn entries(&self) -> Option<usize>;

    /// Whether nodes left to make room for others; `None` if the cache does not tell it.
    fn has_evicted(&self) -> Option<bool> {
        None
    }
}

/// A cache as one block sees it.
pub(crate) trait View {
    fn look_up(&mut self, trace: &Trace, node: NodeNumber) -> Found;

    /// Adds a node that was missed, with the bytes that stand for it.
    fn fill(&mut self, trace: &Trace, node: NodeNumber, content: &[u8]);

    /// Applies the update of the block.
    fn update(&mut self, trace: &Trace, block: &TracedBlock, update: &RootUpdate);
}

/// A cache to compare.
#[derive(Clone, Copy)]
pub(crate) struct Contender {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    pub(crate) keying: Keying,
    make: fn(usize) -> Box<dyn Policy>,
}

impl Contender {
    /// An empty cache with a limit of `bytes`, as it counts them.
    pub(crate) fn make(&self, bytes: usize) -> Box<dyn Policy> {
        (self.make)(bytes)
    }

    pub(crate) fn is_ours(&self) -> bool {
        self.name == OURS
    }

    /// Whether it is a ring by hash.
    pub(crate) fn is_fifo_ring(&self) -> bool {
        self.name == FIFO_RING
    }
}

const OURS: &str = "povmeter";
const FIFO_RING: &str = "fifo-ring";

/// Both keyings of a library.
macro_rules! library {
    ($name:literal, $what:literal, $type:ident) => {
        [
            Contender {
                name: $name,
                what: $what,
                keying: Keying::Path,
                make: |bytes| Box::new(ByPath($type::<PathKey>::new(bytes))),
            },
            Contender {
                name: $name,
                what: $what,
                keying: Keying::Hash,
                make: |bytes| Box::new(ByHash($type::<HashKey>::new(bytes))),
            },
        ]
    };
}

/// All caches to compare, povmeter's first.
pub(crate) fn contenders() -> Vec<Contender> {
    let own = [
        Contender {
            name: OURS,
            what: "povmeter-node-cache: S3-FIFO in logs of bytes",
            keying: Keying::Path,
            make: |bytes| Box::new(ours::Ours::new(bytes)),
        },
        Contender {
            name: FIFO_RING,
            what: "a ring of bytes, first in, first out, as fastcache",
            keying: Keying::Hash,
            make: |bytes| Box::new(ByHash(Sharded::<FifoRing>::with(bytes, FifoRing::new))),
        },
        Contender {
            name: "sp-trie",
            what: "the shared trie cache of sp-trie, with decoded nodes and without values",
            keying: Keying::Hash,
            make: |bytes| Box::new(peer::Peer::new(bytes)),
        },
    ];
    own.into_iter()
        .chain(library!(
            "quick_cache",
            "S3-FIFO with Clock-PRO's lists",
            QuickCache
        ))
        .chain(library!("moka", "TinyLFU", Moka))
        .chain(library!("foyer", "S3-FIFO", Foyer))
        .chain(library!("schnellru", "LRU", Schnellru))
        .chain(library!("lru", "LRU", Lru))
        .chain(library!("sieve-cache", "SIEVE", Sieve))
        .collect()
}
