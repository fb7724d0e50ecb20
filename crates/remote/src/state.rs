//! The state after a block, loaded from a running node.
//!
//! ```text
//! read a node by its hash:
//!     if it is in memory or in the cache on disk, return it
//!     find its place, noted from the node above it; a proof of any key below that place holds the node
//!     request that proof; keep its nodes by their own hashes, and note the places to which they refer
//!     if the node is still missing, the answer is wrong
//! announce a key:
//!     walk down from the root through the local nodes; if one is missing, request a proof of the key
//! ```

use crate::{
    answer, cache::Kind, client::Call, error::RemoteError, node::RemoteNode, places::Places,
};
use bytes::Bytes;
use povmeter_delta_root::{
    child_root_key, Blake2b256, NodeBatch, NodeHash, NodePrefix, NodeReferences, NodeSource, Root,
    SourceError,
};
use serde_json::{json, Value};
use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

const PROOF: &str = "state_getReadProof";
const CHILD_PROOF: &str = "state_getChildReadProof";
/// The encoded node of a trie without entries.
const NULL_NODE: &[u8] = &[0];

/// A key of a state: the storage key of the child trie, or `None` for the top trie; and the key in that trie.
pub type RemoteKey = (Option<Vec<u8>>, Vec<u8>);

/// A request for the proof of some keys of one trie: the storage key of the child trie, or `None`; and the keys.
type Request = (Option<Vec<u8>>, Vec<Vec<u8>>);

/// The state after a block. Requests nodes when a block reads them. A clone is another handle.
///
/// It finds the place of a node from the node above it, which it must have given out before. So put nothing over it that
/// has nodes of other states, such as a node cache or a `BlockPool` that carries nodes on: what is below such a node is
/// [`RemoteError::UnknownPlace`]. A [`DiskCache`](crate::DiskCache) below it serves several states.
#[derive(Clone)]
pub struct RemoteState {
    node: RemoteNode,
    /// Hash of the block, in the form that the RPC methods expect.
    at: Arc<str>,
    root: Root,
    known: Arc<Mutex<Known>>,
}

/// The part of the state that is known here.
struct Known {
    nodes: HashMap<NodeHash, Bytes>,
    places: Places,
    /// Announced keys, requested with the next key that is read or when they fill a request.
    announced: Vec<RemoteKey>,
    failure: Option<RemoteError>,
}

impl RemoteState {
    pub(crate) fn new(node: RemoteNode, at: [u8; 32], root: Root) -> Self {
        let mut places = Places::default();
        places.note_root(root.node_hash());
        let null = (Root::EMPTY.node_hash(), Bytes::from_static(NULL_NODE));
        Self {
            node,
            at: answer::hex_text(&at).into(),
            root,
            known: Arc::new(Mutex::new(Known {
                nodes: HashMap::from([null]),
                places,
                announced: Vec::new(),
                failure: None,
            })),
        }
    }

    /// Root of the state.
    pub fn root(&self) -> Root {
        self.root
    }

    /// The first error for this state, of a request or of the cache. A state machine can lose this error on the way up.
    pub fn failure(&self) -> Option<RemoteError> {
        self.known().failure.clone()
    }

    /// Number of nodes in memory.
    pub fn loaded_nodes(&self) -> usize {
        self.known().nodes.len()
    }

    /// Loads the paths of `keys`, with their values, unless they are in memory or in the cache. For a key that
    /// the state does not have, it loads the path to the place where the key would be.
    ///
    /// # Errors
    /// A [`RemoteError`] if the node does not answer or its answer is wrong.
    pub fn prefetch(&self, keys: &[RemoteKey]) -> Result<(), RemoteError> {
        let mut known = self.known();
        let mut missing = Vec::new();
        for key in keys {
            let is_known = self.is_known(&mut known, key);
            if !known.noted(is_known)? {
                missing.push(key.clone());
            }
        }
        self.load(&mut known, missing)
    }

    /// Announces that the value of a key will be read now. Requests its path at once, together with the paths
    /// of keys announced by [`Self::will_change`]. An error of the request is kept for the read that follows.
    pub fn will_read(&self, key: RemoteKey) {
        let mut known = self.known();
        // The error is returned by the next read.
        let _ = self.announce(&mut known, key, true);
    }

    /// Announces that a key will change, because the root computation needs its path.
    pub fn will_change(&self, key: RemoteKey) {
        let mut known = self.known();
        let _ = self.announce(&mut known, key, false);
    }

    fn announce(
        &self,
        known: &mut Known,
        key: RemoteKey,
        at_once: bool,
    ) -> Result<(), RemoteError> {
        let is_known = self.is_known(known, &key);
        if known.noted(is_known)? {
            return Ok(());
        }
        known.announced.push(key);
        let full = known.announced.len() >= self.node.keys_of_request();
        if at_once || full {
            let announced = std::mem::take(&mut known.announced);
            self.load(known, announced)?;
        }
        Ok(())
    }

    /// A poisoned lock does no harm: nodes are added whole.
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The node, if it is in memory or on disk.
    fn local(&self, known: &mut Known, hash: &NodeHash) -> Result<Option<Bytes>, RemoteError> {
        if let Some(node) = known.nodes.get(hash) {
            return Ok(Some(node.clone()));
        }
        let Some(cache) = self.node.cache() else {
            return Ok(None);
        };
        let cached = cache.get(Kind::Node, hash.as_bytes())?;
        // A damaged node is requested again.
        let cached = cached.filter(|node| Blake2b256::hash(node) == *hash);
        let Some(node) = cached.map(Bytes::from) else {
            return Ok(None);
        };
        known.add(*hash, node.clone());
        Ok(Some(node))
    }

    /// Whether all nodes on the path of a key are local, its value included.
    fn is_known(&self, known: &mut Known, (child, key): &RemoteKey) -> Result<bool, RemoteError> {
        let mut root = self.root.node_hash();
        if let Some(child) = child {
            match self.value(known, root, &child_root_key(child))? {
                Found::Missing => return Ok(false),
                Found::Inline(value) => match <[u8; 32]>::try_from(&value[..]) {
                    Ok(value) => root = NodeHash::from(value),
                    Err(_) => return Ok(true),
                },
                Found::Nothing | Found::Node => return Ok(true),
            }
        }
        Ok(!matches!(self.value(known, root, key)?, Found::Missing))
    }

    /// Looks up the value of `key` in the local nodes of the trie with this root.
    fn value(&self, known: &mut Known, root: NodeHash, key: &[u8]) -> Result<Found, RemoteError> {
        let nibbles: Vec<u8> = key.iter().flat_map(|byte| [byte >> 4, byte & 15]).collect();
        let (mut hash, mut rest) = (root, &nibbles[..]);
        loop {
            let Some(node) = self.local(known, &hash)? else {
                return Ok(Found::Missing);
            };
            let Ok(references) = NodeReferences::of(&node) else {
                return Ok(Found::Nothing);
            };
            let Some(below) = rest.strip_prefix(&references.partial[..]) else {
                return Ok(Found::Nothing);
            };
            let Some((nibble, below)) = below.split_first() else {
                return Ok(match (references.value, references.inline_value) {
                    (Some(value), _) => match self.local(known, &value)? {
                        Some(_) => Found::Node,
                        None => Found::Missing,
                    },
                    (_, Some(range)) => Found::Inline(node.slice(range)),
                    _ => Found::Nothing,
                });
            };
            let mut children = references.children.iter();
            let Some((_, child)) = children.find(|(at, _)| at == nibble) else {
                // The child is missing, or it lies inside this node.
                return Ok(Found::Nothing);
            };
            (hash, rest) = (*child, below);
        }
    }

    /// Requests the paths of `keys`, and adds their nodes. After a failure it returns the same error again.
    fn load(&self, known: &mut Known, keys: Vec<RemoteKey>) -> Result<(), RemoteError> {
        if let Some(failure) = &known.failure {
            return Err(failure.clone());
        }
        let loaded = self.request(known, keys);
        known.noted(loaded)
    }

    /// Requests the nodes on the paths of `keys`, and keeps those of each answer as it arrives: if a later request
    /// fails, the next run continues from there. Splits a request whose answer would be too large.
    fn request(&self, known: &mut Known, keys: Vec<RemoteKey>) -> Result<(), RemoteError> {
        let mut requests = self.requests(keys);
        while !requests.is_empty() {
            let calls: Vec<Call> = requests.iter().map(|request| self.call(request)).collect();
            let mut smaller = Vec::new();
            self.node.client().calls(&calls, &mut |index, answer| {
                let (method, (child, keys)) = (calls[index].method, &requests[index]);
                match answer {
                    Ok(value) => self.keep(known, proof(method, &self.at, &value)?),
                    Err(refusal) if refusal.is_too_large() && keys.len() > 1 => {
                        let (first, second) = keys.split_at(keys.len() / 2);
                        smaller.push((child.clone(), first.to_vec()));
                        smaller.push((child.clone(), second.to_vec()));
                        Ok(())
                    }
                    Err(refusal) => Err(self.node.state_refused(method, &self.at, refusal)),
                }
            })?;
            requests = smaller;
        }
        Ok(())
    }

    /// The requests for `keys`: each for one trie, and for as many keys as one request may have.
    fn requests(&self, keys: Vec<RemoteKey>) -> Vec<Request> {
        let mut by_trie = BTreeMap::<Option<Vec<u8>>, Vec<Vec<u8>>>::new();
        for (child, key) in keys {
            by_trie.entry(child).or_default().push(key);
        }
        let mut requests = Vec::new();
        for (child, mut keys) in by_trie {
            keys.sort();
            keys.dedup();
            let chunks = keys.chunks(self.node.keys_of_request());
            requests.extend(chunks.map(|keys| (child.clone(), keys.to_vec())));
        }
        requests
    }

    /// Adds those of `nodes` to which a known node refers to the nodes in memory and to the cache. A node could send any
    /// number of others, and nobody would ever read them.
    fn keep(&self, known: &mut Known, nodes: Vec<Bytes>) -> Result<(), RemoteError> {
        let hashes: Vec<_> = nodes.iter().map(|node| Blake2b256::hash(node)).collect();
        let mut sent: HashMap<_, _> = hashes.iter().zip(&nodes).collect();
        let referred = hashes.iter().filter(|hash| known.places.has(hash));
        let mut referred: Vec<NodeHash> = referred.copied().collect();
        while let Some(hash) = referred.pop() {
            if let Some(node) = sent.remove(&hash) {
                referred.extend(known.add(hash, node.clone()));
            }
        }
        let Some(cache) = self.node.cache() else {
            return Ok(());
        };
        for (hash, node) in hashes.iter().zip(&nodes) {
            if !sent.contains_key(hash) {
                cache.put(Kind::Node, hash.as_bytes(), node)?;
            }
        }
        Ok(())
    }

    fn call(&self, (child, keys): &Request) -> Call {
        let keys: Vec<String> = keys.iter().map(|key| answer::hex_text(key)).collect();
        let at = &*self.at;
        match child {
            None => Call {
                method: PROOF,
                parameters: json!([keys, at]),
            },
            Some(child) => Call {
                method: CHILD_PROOF,
                parameters: json!([answer::hex_text(&child_root_key(child)), keys, at]),
            },
        }
    }

    /// The nodes with these hashes.
    fn get(&self, hashes: &[NodeHash]) -> Result<Vec<Bytes>, RemoteError> {
        let mut known = self.known();
        let mut keys = Vec::new();
        for hash in hashes {
            let local = self.local(&mut known, hash);
            if known.noted(local)?.is_some() {
                continue;
            }
            let key = known.places.key(hash).ok_or(RemoteError::UnknownPlace {
                root: self.root,
                hash: *hash,
            });
            keys.push(known.noted(key)?);
        }
        if !keys.is_empty() {
            self.load(&mut known, keys)?;
        }
        let nodes = hashes.iter().map(|hash| {
            let node = known.nodes.get(hash).cloned();
            node.ok_or_else(|| self.missing(&mut known, *hash))
        });
        nodes.collect()
    }

    /// Notes and returns the error for a node that was not in the proof of its place.
    fn missing(&self, known: &mut Known, hash: NodeHash) -> RemoteError {
        let error = RemoteError::NodeHash {
            hash,
            place: known.places.describe(&hash).unwrap_or_default(),
            nodes: known.nodes.len(),
        };
        known.failure.get_or_insert(error).clone()
    }
}

/// What the local nodes tell about a value.
enum Found {
    /// A node on the path to the value, or the value node, is missing.
    Missing,
    Nothing,
    Inline(Bytes),
    Node,
}

impl Known {
    /// The result, or if it is an error, the first error, which is noted.
    fn noted<T>(&mut self, result: Result<T, RemoteError>) -> Result<T, RemoteError> {
        result.map_err(|error| self.failure.get_or_insert(error).clone())
    }

    /// Adds a node, and notes the places that follow from it. Returns the hashes of those that were not known before.
    fn add(&mut self, hash: NodeHash, node: Bytes) -> Vec<NodeHash> {
        self.nodes.insert(hash, node);
        let (mut open, mut new) = (vec![hash], Vec::new());
        while let Some(hash) = open.pop() {
            if let Some(node) = self.nodes.get(&hash) {
                let below = self.places.note_below(&hash, node);
                new.extend(&below);
                open.extend(below);
            }
        }
        new
    }
}

/// The nodes in the answer `value` to a request for a proof of the state after block `at`.
fn proof(method: &'static str, at: &str, value: &Value) -> Result<Vec<Bytes>, RemoteError> {
    if value["at"].as_str() != Some(at) {
        return Err(answer::unexpected(
            method,
            "a proof of the state asked for",
            value,
        ));
    }
    let nodes = answer::list(method, &value["proof"])?.iter();
    let nodes = nodes.map(|node| answer::bytes(method, node).map(Bytes::from));
    nodes.collect()
}

impl NodeSource for RemoteState {
    fn node(&self, hash: &NodeHash, _: NodePrefix<'_>) -> Result<Option<Bytes>, SourceError> {
        let nodes = self.get(std::slice::from_ref(hash));
        nodes.map(|mut nodes| nodes.pop()).map_err(SourceError::new)
    }

    fn nodes(&self, batch: &mut NodeBatch<'_>) {
        let open: Vec<usize> = batch.open().collect();
        let hashes: Vec<NodeHash> = open
            .iter()
            .map(|index| batch.request(*index).hash)
            .collect();
        match self.get(&hashes) {
            Ok(nodes) => {
                for (index, node) in open.into_iter().zip(nodes) {
                    batch.answer(index, Ok(Some(node)));
                }
            }
            Err(error) => {
                for index in open {
                    batch.answer(index, Err(SourceError::new(error.clone())));
                }
            }
        }
    }
}

impl std::fmt::Debug for RemoteState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RemoteState")
            .field("at", &self.at)
            .field("root", &self.root)
            .finish_non_exhaustive()
    }
}
