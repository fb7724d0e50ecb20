//! Reads that leave no leaf behind.

use super::{hash_at, Loader, Progress, ShadowTrie, Walk};
use crate::{
    decode::{self, ChildOffsets, DecodedNode, DecodedValue},
    nibbles::{self, Partial},
    table::Looked,
    KeptValue, LoadError, NodeHash, NodeRequest, NodeSource,
};

/// The value that a leaf holds at a key.
enum LeafValue {
    /// None, because the leaf is that of another key.
    Absent,
    Inline(KeptValue),
    Hashed(NodeHash),
}

/// The value at `key` in the leaf `data`, which begins at nibble `depth` of `key`; `None` if it is no leaf.
fn in_leaf(data: &[u8], key: &[u8], depth: usize) -> Option<LeafValue> {
    let mut children = ChildOffsets::default();
    let decoded = decode::decode(data, &mut children).ok()?;
    let DecodedNode::Node {
        partial,
        partial_nibbles,
        value: Some(value),
        is_branch: false,
        ..
    } = decoded
    else {
        return None;
    };
    let partial = Partial::new(&data[partial], partial_nibbles);
    if depth + partial.len() != nibbles::count(key) || !partial.is_prefix_at(key, depth) {
        return Some(LeafValue::Absent);
    }
    Some(match value {
        DecodedValue::Inline(range) => LeafValue::Inline(KeptValue::copy_of(&data[range])),
        DecodedValue::Hash(range) => LeafValue::Hashed(hash_at(data, range.start)),
    })
}

/// How far a walk is that keeps no leaf.
enum Step {
    Goes(Walk),
    Ended(Option<KeptValue>),
}

impl ShadowTrie {
    /// The value at `key`. A leaf that is not loaded, and a value that is a node of its own, are not kept.
    pub(crate) fn read_once<S: NodeSource>(
        &mut self,
        key: &[u8],
        loader: &mut Loader<'_, S>,
    ) -> Result<Option<KeptValue>, LoadError> {
        let mut walk = self.begin(loader)?;
        loop {
            let step = match self.step(key, walk, loader.table, &mut ()) {
                Progress::Goes(on) => Step::Goes(on),
                Progress::Ended(None) => Step::Ended(None),
                Progress::Ended(Some(at)) => {
                    let place = self.value(at, key, loader, &mut ())?;
                    Step::Ended(place.map(|place| place.keep(loader.table)))
                }
                Progress::Stopped(stopped) => self.pass(key, stopped, loader)?,
            };
            match step {
                Step::Goes(on) => walk = on,
                Step::Ended(value) => return Ok(value),
            }
        }
    }

    /// Continues a stopped walk: past a branch, which is loaded, or to its end at a leaf, which is not.
    fn pass<S: NodeSource>(
        &mut self,
        key: &[u8],
        stopped: Walk,
        loader: &mut Loader<'_, S>,
    ) -> Result<Step, LoadError> {
        let looked = match self.request(key, stopped, loader.table) {
            None => None,
            // A leaf that is loaded at another place is requested again: to search for every leaf costs more.
            Some(NodeRequest { hash, prefix }) => {
                let look = |node: &[u8]| in_leaf(node, key, stopped.depth());
                let looked = self.requested(&hash, prefix, |request| {
                    loader.table.look(request, loader.source, look)
                });
                Some(looked?)
            }
        };
        let loaded = match looked {
            None => None,
            Some(Looked::Kept(id)) => Some(id),
            Some(Looked::Seen(LeafValue::Absent)) => return Ok(Step::Ended(None)),
            Some(Looked::Seen(LeafValue::Inline(value))) => return Ok(Step::Ended(Some(value))),
            Some(Looked::Seen(LeafValue::Hashed(hash))) => {
                let value = self.requested(&hash, (key, None), |request| {
                    loader.table.share(request, loader.source)
                });
                return Ok(Step::Ended(Some(KeptValue::sharing(value?))));
            }
        };
        self.resume(key, stopped, loaded, loader).map(Step::Goes)
    }
}
