//! Nodes in a Redis or Valkey Cluster, shared by machines.
//!
//! ```text
//! NAMESPACE:n<hash>   the encoded node; written once, by anybody, never changed
//! NAMESPACE:r<root>   the root is published: all nodes of its state are there; holds the parent's root
//! NAMESPACE:head      the root that writers agree on
//!
//! insert(update):  its parent must be published
//!                  write all inserted nodes, in any order; wait until each is acknowledged
//!                  publish the root
//! ```
//! By induction, a published root has all of its nodes, as long as nobody removes any.

mod client;
mod connection;
mod error;
mod options;

pub use error::ClusterError;
pub use options::ClusterOptions;

use crate::net::NULL_NODE;
use crate::verified::check_hash;
use bytes::Bytes;
use client::Client;
use povmeter_delta_root::{
    NodeBatch, NodeHash, NodePrefix, NodeSource, Root, RootUpdate, SourceError,
};
use redis::{cmd, Cmd};
use std::fmt;
use std::sync::Arc;

/// Nodes that many machines share, in a Redis or Valkey Cluster.
///
/// Nodes are immutable and named by their hash, so any number of workers read and insert at once,
/// without locks. A node goes to the master that has the slot of its hash, so nodes spread evenly. The
/// requests of one [`NodeBatch`] reach each master as a pipeline, all masters at the same time.
///
/// ```no_run
/// use povmeter::{Block, StateVersion::V1, TrieId::Top};
/// use povmeter_store::{ClusterOptions, RedisCluster};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let options = ClusterOptions::new("westend")?; // a namespace for each chain
/// let nodes = RedisCluster::connect(&["redis://10.0.0.1:6379"], options)?;
///
/// let head = nodes.head()?; // a worker starts from a published root
/// let mut block = Block::new(&nodes, head);
/// block.set(Top, b"alice", b"paid")?;
/// let sealed = block.seal(V1)?;
///
/// nodes.insert(sealed.update())?; // nodes first, then their root
/// nodes.move_head(head, sealed.update().root)?; // one of several writers succeeds
/// # Ok(())
/// # }
/// ```
///
/// # Guarantees
/// - A returned node has the hash that was asked for, because every node read is hashed.
///   [`Verified`](crate::Verified) is not needed. A foreign value under the key is a
///   [`ClusterError::Corrupt`] or [`ClusterError::WrongType`] in the [`SourceError`].
/// - A root is published after all of its nodes were acknowledged, and only on a published parent. So
///   a worker that starts from a published root finds every node, unless the cluster lost some.
/// - A call ends within the times of [`ClusterOptions`]: for each node at most the total time-out.
/// - Redirections (`MOVED`, `ASK`) are followed by the client while slots move. If a master fails, the
///   answer is the right node or an error; after the master or its replica is back, reads go on. If no
///   call gets an answer for the total time-out, the connection is replaced.
///
/// A cluster replicates a write after it has acknowledged it, so a failover may lose the last writes. A
/// lost node is missing, never wrong. Inserting the update again restores the node.
///
/// # Nothing is removed
/// There is no pruning, and this is no [`NodeStore`](crate::NodeStore). A store that prunes must count
/// references in the same step as it writes nodes and root. A cluster has no transactions over several
/// slots, and two workers that insert the same block must not count it twice. To shrink the cluster,
/// copy the states to keep to another namespace, and remove the old one.
///
/// Set the masters to evict nothing (`maxmemory-policy noeviction`). With another policy they drop nodes.
///
/// # Costs
/// A read is one round trip and a hash; put a cache in front of it. A clone shares the connections: one to
/// each master, served by one thread. Calls block until they have their answers, so an asynchronous
/// program must make them where it may block. Nodes are read from masters only, because replicas lag
/// behind.
#[derive(Clone)]
pub struct RedisCluster {
    client: Arc<Client>,
    /// The namespace and a colon.
    prefix: Arc<str>,
}

/// Moves the head if it is at the root that the caller expects, and returns the root at which it was.
const MOVE_HEAD: &str = "local head = redis.call('GET', KEYS[1]) or ARGV[3] \
    if head == ARGV[1] then redis.call('SET', KEYS[1], ARGV[2]) end \
    return head";

impl RedisCluster {
    /// Connects to the cluster that the masters at `addresses` belong to; the cluster names the other
    /// masters. An address is `redis://USER:PASSWORD@HOST:PORT`, user and password optional but the same
    /// for all.
    ///
    /// # Errors
    /// If an address is malformed, no address answers in time, the server is not part of a cluster, or
    /// it denies access.
    pub fn connect(addresses: &[&str], options: ClusterOptions) -> Result<Self, ClusterError> {
        Ok(Self {
            client: Arc::new(Client::connect(addresses, &options)?),
            prefix: format!("{}:", options.namespace).into(),
        })
    }

    /// Writes the nodes that `update` inserts, then publishes its root. Nodes that are already there
    /// are written again, so repeating an insertion repairs a cluster that lost nodes. Removed nodes
    /// stay.
    ///
    /// # Errors
    /// If the update's parent is not published, a node lacks its encoding or has another hash, or the root
    /// has no node; then nothing was written. Or if the cluster failed; then some nodes may have been
    /// written, and the root is published only if the answer to this last step was lost.
    ///
    /// # Cost
    /// Three round trips or more, depending on the number of nodes: up to 256 writes wait for answers at
    /// once.
    pub fn insert(&self, update: &RootUpdate) -> Result<(), ClusterError> {
        let nodes = inserted_nodes(update)?;
        if !self.is_published(update.parent)? {
            let parent = update.parent;
            return Err(ClusterError::UnknownParent { parent });
        }
        let root_node = update.root.node_hash();
        if !nodes.iter().any(|(hash, _)| *hash == root_node) && !self.is_published(update.root)? {
            let root = update.root;
            return Err(ClusterError::MissingRoot { root });
        }
        let writes = nodes.iter().map(|(hash, encoded)| {
            let mut set = cmd("SET");
            set.arg(self.key(b'n', hash.as_bytes())).arg(&encoded[..]);
            set
        });
        self.client.write_all(writes.collect(), "write nodes")?;
        if update.root == Root::EMPTY {
            return Ok(());
        }
        let mut publish = cmd("SET");
        publish
            .arg(self.key(b'r', update.root.as_bytes()))
            .arg(update.parent.as_bytes());
        self.client.ask(publish, "publish the root")
    }

    /// Whether the root is published: all nodes of its state were inserted. The empty state always is.
    ///
    /// # Errors
    /// If the cluster failed.
    pub fn is_published(&self, root: Root) -> Result<bool, ClusterError> {
        if root == Root::EMPTY {
            return Ok(true);
        }
        let mut exists = cmd("EXISTS");
        exists.arg(self.key(b'r', root.as_bytes()));
        self.client.ask(exists, "look up a root")
    }

    /// Returns the root that writers agree on, [`Root::EMPTY`] at first.
    ///
    /// # Errors
    /// If the cluster failed, or holds something other than a root.
    pub fn head(&self) -> Result<Root, ClusterError> {
        let mut get = cmd("GET");
        get.arg(self.head_key());
        let found: Option<Vec<u8>> = self.client.ask(get, "read the head")?;
        found.map_or(Ok(Root::EMPTY), |bytes| parse_root(&bytes))
    }

    /// Moves the head from one published root to another, such as the next block or the tip of another
    /// fork. Of several writers that move it from the same root to different ones, one succeeds.
    ///
    /// Succeeds also if the head is at `to` already: if an answer is lost, the client tries again, and finds what
    /// its first try did. So two writers of the same block both succeed.
    ///
    /// # Errors
    /// [`ClusterError::HeadMoved`] if the head is at a third root; [`ClusterError::Unpublished`] if `to`
    /// is not published; or if the cluster failed. Then the head may have moved, so repeat the call. A repeated
    /// call fails if another writer has moved the head on from `to`.
    pub fn move_head(&self, from: Root, to: Root) -> Result<(), ClusterError> {
        if !self.is_published(to)? {
            return Err(ClusterError::Unpublished { root: to });
        }
        let mut eval = cmd("EVAL");
        eval.arg(MOVE_HEAD).arg(1).arg(self.head_key());
        for root in [from, to, Root::EMPTY] {
            eval.arg(root.as_bytes());
        }
        let found: Vec<u8> = self.client.ask(eval, "move the head")?;
        let found = parse_root(&found)?;
        if found == from || found == to {
            return Ok(());
        }
        Err(ClusterError::HeadMoved {
            expected: from,
            found,
        })
    }

    fn key(&self, kind: u8, hash: &[u8; 32]) -> Vec<u8> {
        let mut key = Vec::with_capacity(self.prefix.len() + 1 + hash.len());
        key.extend_from_slice(self.prefix.as_bytes());
        key.push(kind);
        key.extend_from_slice(hash);
        key
    }

    fn head_key(&self) -> String {
        format!("{}head", self.prefix)
    }

    fn get(&self, hash: &NodeHash) -> Cmd {
        let mut get = cmd("GET");
        get.arg(self.key(b'n', hash.as_bytes()));
        get
    }
}

const READ: &str = "read a node";

impl NodeSource for RedisCluster {
    fn node(&self, hash: &NodeHash, _: NodePrefix<'_>) -> Result<Option<Bytes>, SourceError> {
        if *hash == Root::EMPTY.node_hash() {
            return Ok(Some(Bytes::from_static(NULL_NODE)));
        }
        let found = self.client.ask(self.get(hash), READ);
        found
            .and_then(|found| checked(hash, found))
            .map_err(SourceError::new)
    }

    fn nodes(&self, batch: &mut NodeBatch<'_>) {
        let null_node = Root::EMPTY.node_hash();
        let mut asked = Vec::with_capacity(batch.len());
        for index in batch.open() {
            let hash = batch.request(index).hash;
            if hash == null_node {
                batch.answer(index, Ok(Some(Bytes::from_static(NULL_NODE))));
            } else {
                asked.push((index, hash));
            }
        }
        // A cache in front may have answered all requests, and a call of the client without any costs tens
        // of microseconds.
        if asked.is_empty() {
            return;
        }
        let commands = asked.iter().map(|(_, hash)| self.get(hash)).collect();
        match self.client.ask_all(commands, READ) {
            Ok(answers) => {
                for ((index, hash), found) in asked.into_iter().zip(answers) {
                    let found = found.and_then(|found| checked(&hash, found));
                    batch.answer(index, found.map_err(SourceError::new));
                }
            }
            Err(_stopped) => {
                for (index, _) in asked {
                    let error = ClusterError::Stopped { task: READ };
                    batch.answer(index, Err(SourceError::new(error)));
                }
            }
        }
    }
}

impl fmt::Debug for RedisCluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisCluster")
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}

/// Checks and returns the node that was found under the key of `hash`.
fn checked(hash: &NodeHash, found: Option<Vec<u8>>) -> Result<Option<Bytes>, ClusterError> {
    let Some(encoded) = found else {
        return Ok(None);
    };
    check_hash(hash, &encoded)?;
    Ok(Some(encoded.into()))
}

/// The nodes that `update` inserts, each checked against its hash, without the null node.
fn inserted_nodes(update: &RootUpdate) -> Result<Vec<(NodeHash, Bytes)>, ClusterError> {
    let null_node = Root::EMPTY.node_hash();
    let inserted = update.inserted().filter(|node| node.hash != null_node);
    inserted
        .map(|node| {
            let hash = node.hash;
            if node.encoded.is_empty() {
                return Err(ClusterError::MissingEncoding { hash });
            }
            check_hash(&hash, node.encoded)?;
            Ok((hash, update.nodes.share(node.encoded)))
        })
        .collect()
}

fn parse_root(bytes: &[u8]) -> Result<Root, ClusterError> {
    let length = bytes.len();
    <[u8; 32]>::try_from(bytes)
        .map(Root::from)
        .map_err(|_| ClusterError::CorruptRoot { length })
}
