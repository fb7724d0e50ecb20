//! Updates with placeholders for nodes: stores do not decode nodes, so any bytes will do.
#![allow(dead_code, reason = "each test program uses its part")]

#[cfg(any(feature = "parity-db", feature = "rocksdb"))]
pub(crate) mod folders;
pub(crate) mod stores;
pub(crate) mod tries;

/// A module with a test of each case for one store.
#[allow(unused_macros, reason = "each test program uses its part")]
macro_rules! cases {
    ($module:ident, $store:ty: $($case:ident)*) => {
        mod $module {
            $(#[test]
            fn $case() {
                super::$case::<$store>();
            })*
        }
    };
}

use bytes::Bytes;
use povmeter_delta_root::{Blake2b256, NodeChange, NodeChanges, NodeHash, Root, RootUpdate};
use povmeter_store::NodeStore;

/// The placeholder node `name`.
pub(crate) fn encoded(name: &str) -> Bytes {
    format!("encoded node {name}").into_bytes().into()
}

/// Hash of the node `name`.
pub(crate) fn hash(name: &str) -> NodeHash {
    Blake2b256::hash(&encoded(name))
}

/// The root whose node is `name`.
pub(crate) fn root(name: &str) -> Root {
    Root::from(*hash(name).as_bytes())
}

/// A [`NodeChange`] that owns its bytes.
#[derive(Clone)]
pub(crate) struct Change {
    pub(crate) path: Vec<u8>,
    pub(crate) odd_nibble: Option<u8>,
    pub(crate) hash: NodeHash,
    pub(crate) references: i32,
    pub(crate) encoded: Bytes,
}

/// Converts the changes to those of an update.
pub(crate) fn changes(nodes: &[Change]) -> NodeChanges {
    let nodes = nodes.iter().map(|change| NodeChange {
        path: &change.path,
        odd_nibble: change.odd_nibble,
        hash: change.hash,
        references: change.references,
        encoded: &change.encoded,
    });
    nodes.collect()
}

/// A change of the references to the node `name` at the position `path`.
pub(crate) fn change(name: &str, path: &[u8], references: i32) -> Change {
    let encoded = if references > 0 {
        encoded(name)
    } else {
        Bytes::new()
    };
    Change {
        path: path.to_vec(),
        odd_nibble: None,
        hash: hash(name),
        references,
        encoded,
    }
}

/// An update of `store` from its current root to the root `name`: adds that root's node, and makes
/// the changes `nodes`.
pub(crate) fn step(store: &impl NodeStore, name: &str, nodes: Vec<Change>) -> RootUpdate {
    let nodes: Vec<_> = nodes.into_iter().chain([change(name, &[], 1)]).collect();
    RootUpdate {
        parent: store.root(),
        root: root(name),
        children: vec![],
        nodes: changes(&nodes),
    }
}

/// Reads the node `name` from `store`.
pub(crate) fn read(store: &impl NodeStore, name: &str) -> Option<Bytes> {
    store.node(&hash(name), (&[], None)).unwrap()
}
