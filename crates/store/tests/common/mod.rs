//! Updates made of stand-ins for nodes: stores don't decode, so any bytes will do.
#![allow(dead_code, reason = "each test program uses its part")]

use bytes::Bytes;
use povmeter_delta_root::{Blake2b256, NodeChange, NodeHash, Root, RootUpdate};
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

/// The node `name` gains or loses references at the place `path`.
pub(crate) fn change(name: &str, path: &[u8], references: i32) -> NodeChange {
    let encoded = if references > 0 {
        encoded(name)
    } else {
        Bytes::new()
    };
    NodeChange {
        path: path.to_vec().into(),
        odd_nibble: None,
        hash: hash(name),
        references,
        encoded,
    }
}

/// Moves `store` from whatever root it is at to the root `name`, whose node it gains; the changes
/// are `nodes` beside it.
pub(crate) fn step(store: &impl NodeStore, name: &str, nodes: Vec<NodeChange>) -> RootUpdate {
    let nodes = nodes.into_iter().chain([change(name, &[], 1)]).collect();
    RootUpdate {
        parent: store.root(),
        root: root(name),
        children: vec![],
        nodes,
    }
}

/// The bytes that `store` answers with for the node `name`.
pub(crate) fn read(store: &impl NodeStore, name: &str) -> Option<Bytes> {
    store.node(&hash(name), (&[], None)).unwrap()
}
