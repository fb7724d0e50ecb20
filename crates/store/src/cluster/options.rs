//! The options of a cluster.

use super::ClusterError;
use std::time::Duration;

/// The most characters of a namespace.
const NAMESPACE_LIMIT: usize = 64;

/// The namespace of a chain in a cluster, and how long the client waits and tries.
///
/// ```
/// use povmeter_store::ClusterOptions;
/// use std::time::Duration;
///
/// let options = ClusterOptions::new("westend")?
///     .response_timeout(Duration::from_millis(300))
///     .total_timeout(Duration::from_secs(2));
/// assert!(ClusterOptions::new("{west}end").is_err());
/// # Ok::<_, povmeter_store::ClusterError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ClusterOptions {
    pub(super) namespace: String,
    pub(super) connect_timeout: Duration,
    pub(super) response_timeout: Duration,
    pub(super) total_timeout: Duration,
    pub(super) retries: u32,
    pub(super) retry_wait: [Duration; 2],
}

impl ClusterOptions {
    /// Options for the keys that begin with `namespace` and a colon. Chains that share a cluster need
    /// different namespaces, so that each has its own head and can be removed alone.
    ///
    /// # Errors
    /// [`ClusterError::Namespace`] if the namespace is empty, longer than 64 characters, or has
    /// characters other than letters, digits, `-`, `_`, `.` and `/` (ASCII). Braces would put all
    /// nodes on one master.
    pub fn new(namespace: &str) -> Result<Self, ClusterError> {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte);
        let length = namespace.len();
        if !(1..=NAMESPACE_LIMIT).contains(&length) || !namespace.bytes().all(is_allowed) {
            let found = namespace.to_owned();
            return Err(ClusterError::Namespace { found });
        }
        Ok(Self {
            namespace: namespace.to_owned(),
            connect_timeout: Duration::from_secs(2),
            response_timeout: Duration::from_secs(1),
            total_timeout: Duration::from_secs(5),
            retries: 8,
            retry_wait: [Duration::from_millis(20), Duration::from_millis(500)],
        })
    }

    /// The longest wait for a connection to one master. Default: 2 s.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// The longest wait for the answer of a master to one try. Default: 1 s.
    #[must_use]
    pub fn response_timeout(mut self, timeout: Duration) -> Self {
        self.response_timeout = timeout;
        self
    }

    /// The longest wait for one node, all tries, redirections and new connections included.
    /// Default: 5 s.
    #[must_use]
    pub fn total_timeout(mut self, timeout: Duration) -> Self {
        self.total_timeout = timeout;
        self
    }

    /// How often a command is tried again after a lost connection, a time-out, or an answer that
    /// the cluster is down or the slot moved; at most 50 times. Default: 8.
    #[must_use]
    pub fn retries(mut self, retries: u32) -> Self {
        // The client computes 2^retries.
        self.retries = retries.min(50);
        self
    }

    /// The shortest and the longest wait before a try. The wait grows from try to try and has a
    /// random part. Default: 20 ms to 500 ms.
    #[must_use]
    pub fn retry_wait(mut self, least: Duration, most: Duration) -> Self {
        self.retry_wait = [least, most.max(least)];
        self
    }
}
