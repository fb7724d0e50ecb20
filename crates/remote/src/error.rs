//! Why a running node could not be used.

use crate::{cache::CacheError, header::HeaderError};
use povmeter_delta_root::{NodeHash, Root};

/// Why a running node could not be used. Can be cloned, so that later callers get the same error.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteError {
    /// There is no connection.
    #[error("{url}: expected a node that accepts WebSocket connections, found: {reason}")]
    Connect {
        /// The node's address.
        url: String,
        /// What the system or the node says.
        reason: String,
    },
    /// The address needs TLS, and this build has none.
    #[error("{url}: expected a build with the feature `tls` for an address with wss://, found one without it")]
    NoTls {
        /// The node's address.
        url: String,
    },
    /// The node accepted the connection, but did not answer the WebSocket handshake in time.
    #[error("{url}: expected an answer to the WebSocket handshake within {seconds} s, found none in {attempts} attempts")]
    NoHandshake {
        /// The node's address.
        url: String,
        /// The time-out in seconds.
        seconds: f64,
        /// Number of attempts.
        attempts: u32,
    },
    /// The node did not answer in time.
    #[error("{url}: expected an answer to {method} within {seconds} s, found none in {attempts} attempts")]
    TimedOut {
        /// The node's address.
        url: String,
        /// The first method without an answer.
        method: &'static str,
        /// The time-out in seconds.
        seconds: f64,
        /// Number of attempts.
        attempts: u32,
    },
    /// The connection broke.
    #[error("{url}: expected an answer to {method}, found that the connection broke in each of {attempts} attempts: {reason}")]
    Broken {
        /// The node's address.
        url: String,
        /// The first method without an answer.
        method: &'static str,
        /// Number of attempts.
        attempts: u32,
        /// Reason of the last attempt.
        reason: String,
    },
    /// The node refuses requests because there are too many.
    #[error("{url}: expected an answer to {method}, found that the node limits requests in each of {attempts} attempts: {message} (code {code})")]
    Limited {
        /// The node's address.
        url: String,
        /// The method.
        method: &'static str,
        /// Number of attempts.
        attempts: u32,
        /// The node's code.
        code: i64,
        /// The node's message.
        message: String,
    },
    /// The node no longer has the state.
    #[error("expected the state after block {block}, found that the node does not have it: {message} (code {code})")]
    NoState {
        /// Hash of the block.
        block: String,
        /// The node's code.
        code: i64,
        /// The node's message.
        message: String,
    },
    /// The node does not know the block.
    #[error("expected block {block}, found none on this chain")]
    UnknownBlock {
        /// The block, as it was asked for.
        block: String,
    },
    /// The chain has no block with this number yet.
    #[error("expected block {block}, found that the chain's best block is {best}, so block {block} does not exist yet")]
    BeyondBest {
        /// Number of the block that was asked for.
        block: u64,
        /// Number of the best block.
        best: u64,
    },
    /// The genesis block was asked for.
    #[error("expected a block that was executed, such as block 1, found the genesis block")]
    GenesisBlock,
    /// The node refuses a request.
    #[error("expected a result of {method}, found error {code}: {message}")]
    Refused {
        /// The method.
        method: &'static str,
        /// The node's code.
        code: i64,
        /// The node's message.
        message: String,
    },
    /// An answer is larger than this client or the node allows.
    #[error("expected an answer to {method} within the node's or this program's limit of bytes, found a larger one: {reason}")]
    TooLarge {
        /// The method.
        method: &'static str,
        /// The message of the node or of this client.
        reason: String,
    },
    /// An answer does not have the form that the method returns.
    #[error("expected {expected} in the answer to {method}, found {found}")]
    Answer {
        /// The method.
        method: &'static str,
        /// The form.
        expected: &'static str,
        /// What was there, shortened.
        found: String,
    },
    /// A header does not have the hash that names its block.
    #[error("expected a header with the hash {expected} (Blake2b-256), found one with {found}: the node's answer is wrong, or the chain has another hasher")]
    HeaderHash {
        /// The hash asked for.
        expected: String,
        /// The hash of the header.
        found: String,
    },
    /// The extrinsics of a block are not those that its header commits to.
    #[error("expected extrinsics with the root {expected} of the header of block {block}, found others: the node's answer is wrong, or the chain has another way to compute this root")]
    ExtrinsicsRoot {
        /// Hash of the block.
        block: String,
        /// The root in the header.
        expected: String,
    },
    /// A header is not of the usual form.
    #[error("block {block}: {source}")]
    Header {
        /// Hash of the block.
        block: String,
        /// What is wrong with it.
        source: HeaderError,
    },
    /// A header has another number than the block that was asked for.
    #[error("expected block {expected}, found a header with the number {found}")]
    Number {
        /// The number asked for.
        expected: u64,
        /// The number in the header.
        found: u64,
    },
    /// A proof does not hold the node that it must hold.
    #[error("expected the node {hash} {place} in a proof, found none with this hash among the {nodes} nodes loaded so far: the node's answer is wrong, or the chain has another hasher")]
    NodeHash {
        /// Hash of the node.
        hash: NodeHash,
        /// Where it lies in its trie.
        place: String,
        /// Number of nodes loaded so far.
        nodes: usize,
    },
    /// No loaded node refers to the requested node, so its place is unknown. A cache between the state and the block had
    /// the node above it, from another state.
    #[error("expected a node of the state {root}, found a request for {hash}, which no loaded node refers to")]
    UnknownPlace {
        /// Root of the state.
        root: Root,
        /// Hash of the node.
        hash: NodeHash,
    },
    /// The cache cannot be read or written.
    #[error(transparent)]
    Cache(#[from] CacheError),
}
