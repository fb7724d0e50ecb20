//! Blocks on real tries, with child tries and with values that are nodes.

use povmeter_delta_root::{
    state_update, Changes, NodeSource, Root, RootUpdate, ShadowState, StateVersion,
};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;

/// Changes of one trie.
type TrieChanges = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// Changes of a block.
#[derive(Clone, Debug, Default)]
pub(crate) struct BlockChanges {
    pub(crate) top: TrieChanges,
    pub(crate) children: BTreeMap<Vec<u8>, TrieChanges>,
}

/// Returns random changes of `count` keys in the top trie and in two child tries, the same for the
/// same seed. There are few keys, so that keys are set, set again and deleted, and few values, so that
/// nodes are equal.
pub(crate) fn random_changes(seed: u64, count: usize) -> BlockChanges {
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut changes = BlockChanges::default();
    for _ in 0..count {
        let trie = match rng.random_range(0..6) {
            0 => changes.children.entry(b"first child".to_vec()).or_default(),
            1 => changes.children.entry(b"second".to_vec()).or_default(),
            _ => &mut changes.top,
        };
        let mut key = rng
            .random_range(0..60u16)
            .to_be_bytes()
            .repeat(1 + rng.random_range(0..3));
        key[0] = rng.random_range(0..4) << 6;
        let value = match rng.random_range(0..6) {
            0 | 1 => None,
            2 => Some(vec![rng.random_range(0..3); 33]),
            3 => Some(vec![7; 32]),
            4 => Some(vec![rng.random(); rng.random_range(0..100)]),
            _ => Some(b"value".to_vec()),
        };
        trie.insert(key, value);
    }
    changes
}

/// Returns the update that `changes` make to the state `parent` in `source`.
pub(crate) fn block(source: &impl NodeSource, parent: Root, changes: &BlockChanges) -> RootUpdate {
    fn borrowed(changes: &TrieChanges) -> Vec<(&[u8], Option<&[u8]>)> {
        let changes = changes.iter();
        changes
            .map(|(key, value)| (&key[..], value.as_deref()))
            .collect()
    }
    let children = changes.children.iter();
    let changes = Changes {
        top: borrowed(&changes.top),
        children: children
            .map(|(name, changes)| (&name[..], borrowed(changes)))
            .collect(),
    };
    let mut state = ShadowState::new(source, parent);
    state_update(&mut state, &changes, StateVersion::V1, &mut ()).unwrap()
}
