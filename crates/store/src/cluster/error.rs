//! Why a cluster could not read or write.

use crate::HashMismatch;
use povmeter_delta_root::{NodeHash, Root};
use redis::{ErrorKind, RedisError, ServerErrorKind};
use std::io;
use std::time::Duration;

/// What the client reported.
type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Why a [`RedisCluster`](crate::RedisCluster) could not read or write.
///
/// After an error of the connection or the cluster, the call can be repeated: insertion is
/// idempotent, and the client connects anew.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// The namespace cannot be part of a key.
    #[error(
        "namespace {found:?}: expected 1 to 64 ASCII letters, digits, `-`, `_`, `.` and `/` only"
    )]
    Namespace {
        /// The namespace.
        found: String,
    },
    /// The client refused an address or an option.
    #[error("the client cannot use the addresses or options: {source}")]
    Configuration {
        /// What the client reported.
        source: Cause,
    },
    /// The thread of the client could not be started.
    #[error("could not start the client's thread: {source}")]
    Thread {
        /// Error of the operating system.
        source: io::Error,
    },
    /// The thread of the client ended.
    #[error("could not {task}: the client's thread ended")]
    Stopped {
        /// What the client was to do.
        task: &'static str,
    },
    /// There is no connection to a master, or it was lost.
    #[error("could not {task}: the cluster is unreachable: {source}")]
    Unreachable {
        /// What the client was to do.
        task: &'static str,
        /// What the client reported.
        source: Cause,
    },
    /// No answer came in time.
    #[error("could not {task}: no answer within {limit:?}, all tries included")]
    TimedOut {
        /// What the client was to do.
        task: &'static str,
        /// The longest wait, as in the options.
        limit: Duration,
    },
    /// The cluster does not serve the slot of the key: it is down, a master is missing or loads its
    /// data, or the slot is assigned to no master.
    #[error("could not {task}: the cluster does not serve the slot: {source}")]
    Down {
        /// What the client was to do.
        task: &'static str,
        /// What the client reported.
        source: Cause,
    },
    /// The cluster wants other credentials, or the user lacks a permission.
    #[error("could not {task}: the cluster denies access: {source}")]
    Denied {
        /// What the client was to do.
        task: &'static str,
        /// What the client reported.
        source: Cause,
    },
    /// The value under the key is a list or has another type that no node has. Another program
    /// writes to the namespace.
    #[error("could not {task}: another program's value is under the key: {source}")]
    WrongType {
        /// What the client was to do.
        task: &'static str,
        /// What the client reported.
        source: Cause,
    },
    /// A master has used up its memory (`maxmemory`).
    #[error("could not {task}: a master has no memory left: {source}")]
    Full {
        /// What the client was to do.
        task: &'static str,
        /// What the client reported.
        source: Cause,
    },
    /// Any other answer, such as that of a server that is not part of a cluster.
    #[error("could not {task}: {source}")]
    Other {
        /// What the client was to do.
        task: &'static str,
        /// What the client reported.
        source: Cause,
    },
    /// The bytes of a node have another hash: those under its key, or, when writing, those in the
    /// update.
    #[error(transparent)]
    Corrupt(#[from] HashMismatch),
    /// A stored root does not have 32 bytes.
    #[error("expected a root of 32 bytes, found {length} bytes")]
    CorruptRoot {
        /// Number of bytes found.
        length: usize,
    },
    /// The update adds references to a node but lacks its encoding.
    #[error("node {hash} gains references, but the update holds no encoding of it")]
    MissingEncoding {
        /// Hash of the node.
        hash: NodeHash,
    },
    /// The update starts from a state that is not published in the namespace, so nodes of the new
    /// state could be missing.
    #[error("the update starts from root {parent}, which is not published here")]
    UnknownParent {
        /// Root from which the update starts.
        parent: Root,
    },
    /// The update ends in a root that it does not insert and that is not published.
    #[error("the update ends in root {root}, but neither it nor the cluster holds that node")]
    MissingRoot {
        /// Root in which the update ends.
        root: Root,
    },
    /// The head cannot move to a state that is not published.
    #[error("the head cannot move to root {root}, which is not published here")]
    Unpublished {
        /// The root.
        root: Root,
    },
    /// The head is neither at the root from which nor at that to which it was to move: another writer moved it.
    #[error("expected the head at root {expected}, found it at {found}")]
    HeadMoved {
        /// Root at which the caller expected the head.
        expected: Root,
        /// Root at which the head is.
        found: Root,
    },
}

impl ClusterError {
    /// Converts the client's `error`, which it reported during `task` within `limit`.
    pub(super) fn of_client(error: RedisError, task: &'static str, limit: Duration) -> Self {
        use ServerErrorKind::{
            Ask, BusyLoading, ClusterDown, MasterDown, Moved, NoPerm, ReadOnly, TryAgain,
        };
        let kind = error.kind();
        let code = error.code().unwrap_or_default().to_owned();
        let is_timeout = error.is_timeout();
        // If the first connection fails, the error has only the text of the cause.
        let is_denied = error.detail().is_some_and(|detail| {
            let reasons = ["AuthenticationFailed", "NOAUTH", "WRONGPASS", "NOPERM"];
            reasons.iter().any(|reason| detail.contains(reason))
        });
        let source: Cause = Box::new(error);
        match kind {
            _ if is_timeout => Self::TimedOut { task, limit },
            ErrorKind::Io if is_denied => Self::Denied { task, source },
            ErrorKind::Io | ErrorKind::ClusterConnectionNotFound => {
                Self::Unreachable { task, source }
            }
            ErrorKind::AuthenticationFailed | ErrorKind::Server(NoPerm) => {
                Self::Denied { task, source }
            }
            ErrorKind::Server(
                Ask | BusyLoading | ClusterDown | MasterDown | Moved | ReadOnly | TryAgain,
            ) => Self::Down { task, source },
            ErrorKind::InvalidClientConfig => Self::Configuration { source },
            _ => match code.as_str() {
                "NOAUTH" | "WRONGPASS" => Self::Denied { task, source },
                "WRONGTYPE" => Self::WrongType { task, source },
                "OOM" => Self::Full { task, source },
                _ => Self::Other { task, source },
            },
        }
    }
}
