//! Povmeter's cache.

use super::{Found, Policy, View};
use crate::trace::{NodeNumber, Trace, TracedBlock};
use povmeter::RootUpdate;
use povmeter_node_cache::NodeCache;

pub(crate) struct Ours(NodeCache);

impl Ours {
    pub(crate) fn new(bytes: usize) -> Self {
        Self(NodeCache::new(bytes))
    }
}

impl Policy for Ours {
    fn view(&self) -> Box<dyn View + '_> {
        Box::new(self)
    }

    fn entries(&self) -> Option<usize> {
        usize::try_from(self.0.counters().entries).ok()
    }

    fn has_evicted(&self) -> Option<bool> {
        Some(self.0.counters().evictions > 0)
    }
}

impl View for &Ours {
    fn look_up(&mut self, trace: &Trace, node: NodeNumber) -> Found {
        let of = trace.node(node);
        match self.0.get(&of.hash, trace.prefix(of.path)) {
            None => Found::Miss,
            Some(found) if trace.is_content(node, &found) => Found::Hit,
            Some(_) => Found::Stale,
        }
    }

    fn fill(&mut self, trace: &Trace, node: NodeNumber, content: &[u8]) {
        let of = trace.node(node);
        self.0.insert(&of.hash, trace.prefix(of.path), content);
    }

    fn update(&mut self, _: &Trace, _: &TracedBlock, update: &RootUpdate) {
        self.0.apply(update);
    }
}
