//! Every request for a node has the node's hash and prefix, alone or in a batch.

#![allow(clippy::unwrap_used)]

use bytes::Bytes;
use povmeter_delta_root::{
    state_update, Blake2b256, Changes, KeyChanges, NodeHash, NodePrefix, NodeSource, Root,
    RootUpdate, ShadowState, SourceError, StateVersion,
};
use std::collections::BTreeMap;

type Place = (Vec<u8>, Option<u8>, NodeHash);

/// Nodes by place and hash.
#[derive(Default)]
struct Nodes(BTreeMap<Place, Bytes>);

impl NodeSource for Nodes {
    fn node(&self, hash: &NodeHash, prefix: NodePrefix<'_>) -> Result<Option<Bytes>, SourceError> {
        let place = (prefix.0.to_vec(), prefix.1, *hash);
        Ok(self.0.get(&place).cloned())
    }
}

impl Nodes {
    fn commit(&mut self, update: &RootUpdate) {
        for change in update.inserted() {
            let place = (change.path.to_vec(), change.odd_nibble, change.hash);
            self.0.insert(place, Bytes::copy_from_slice(change.encoded));
        }
        for change in update.removed() {
            let place = (change.path.to_vec(), change.odd_nibble, change.hash);
            assert!(self.0.remove(&place).is_some(), "{place:?}");
        }
    }
}

fn key(number: u32) -> [u8; 32] {
    Blake2b256::hash(&number.to_le_bytes()).into()
}

/// Two values for each trie. No tries share a value, because equal nodes would be loaded once for all tries.
const VALUES: [[&[u8]; 2]; 3] = [
    [&[1; 40], &[2; 50]],
    [&[3; 40], &[4; 50]],
    [&[5; 40], &[6; 50]],
];

/// By the index of a key: the value that the key gets, by its index in [`VALUES`]; `Some(None)` deletes the
/// key, `None` leaves it unchanged.
type Step = fn(usize) -> Option<Option<usize>>;

/// The changes of a step, in the top trie and in two child tries.
fn everywhere<'a>(keys: &[&'a [u8; 32]], step: Step) -> Changes<'a> {
    let [top, farm, pool] = VALUES.map(|values| -> KeyChanges<'a> {
        let changes = keys.iter().enumerate();
        let change = |(index, key): (usize, &&'a [u8; 32])| {
            Some((key.as_slice(), step(index)?.map(|value| values[value])))
        };
        changes.filter_map(change).collect()
    });
    Changes {
        top,
        children: vec![(b"farm", farm), (b"pool", pool)],
    }
}

#[test]
fn every_node_is_asked_for_at_its_place() {
    let keys: Vec<_> = (0..2_000).map(key).collect();
    let mut sorted: Vec<_> = keys.iter().collect();
    sorted.sort();
    let mut nodes = Nodes::default();
    let mut root = Root::EMPTY;
    // All keys are written, then some are overwritten, then all but each 50th are deleted. The nodes left are
    // merged, mostly with nodes that are on no path to a changed key.
    let steps: [Step; 3] = [
        |_| Some(Some(0)),
        |index| (index % 17 == 0).then_some(Some(1)),
        |index| (index % 50 != 0).then_some(None),
    ];
    for step in steps {
        let mut state = ShadowState::new(&nodes, root);
        let changes = everywhere(&sorted, step);
        let update = state_update(&mut state, &changes, StateVersion::V1, &mut ()).unwrap();
        assert_ne!(update.root, root);
        root = update.root;
        nodes.commit(&update);
    }
    // The nodes left are those of a state that was made of the entries left.
    let left = everywhere(&sorted, |index| match (index % 50, index % 17) {
        (0, 0) => Some(Some(1)),
        (0, _) => Some(Some(0)),
        _ => None,
    });
    let mut empty = ShadowState::new(Nodes::default(), Root::EMPTY);
    let expected = state_update(&mut empty, &left, StateVersion::V1, &mut ()).unwrap();
    assert_eq!(root, expected.root);
    assert_eq!(nodes.0.len(), expected.inserted().count());
}
