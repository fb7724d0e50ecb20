//! Updates made of stand-ins for nodes: stores don't decode, so any bytes will do.
#![allow(dead_code, reason = "each test program uses its part")]

use bytes::Bytes;
use povmeter_delta_root::{Blake2b256, NodeChange, NodeChanges, NodeHash, Root, RootUpdate};
use povmeter_store::NodeStore;

/// The node that goes by `name`.
pub(crate) fn encoded(name: &str) -> Bytes {
    format!("encoded node {name}").into_bytes().into()
}

/// Hash of the node that goes by `name`.
pub(crate) fn hash(name: &str) -> NodeHash {
    Blake2b256::hash(&encoded(name))
}

/// The root whose node goes by `name`.
pub(crate) fn root(name: &str) -> Root {
    Root::from(*hash(name).as_bytes())
}

/// A change of references, with what it is made of.
#[derive(Clone)]
pub(crate) struct Change {
    pub(crate) path: Vec<u8>,
    pub(crate) odd_nibble: Option<u8>,
    pub(crate) hash: NodeHash,
    pub(crate) references: i32,
    pub(crate) encoded: Bytes,
}

/// The changes as those of an update.
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

/// The node `name` gains or loses references at the place `path`.
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

/// Moves `store` from whatever root it is at to the root `name`, whose node it gains; the changes
/// are `nodes` beside it.
pub(crate) fn step(store: &impl NodeStore, name: &str, nodes: Vec<Change>) -> RootUpdate {
    let nodes: Vec<_> = nodes.into_iter().chain([change(name, &[], 1)]).collect();
    RootUpdate {
        parent: store.root(),
        root: root(name),
        children: vec![],
        nodes: changes(&nodes),
    }
}

/// The bytes that `store` answers with for the node `name`.
pub(crate) fn read(store: &impl NodeStore, name: &str) -> Option<Bytes> {
    store.node(&hash(name), (&[], None)).unwrap()
}
