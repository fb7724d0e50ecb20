//! Hands out the connection that commands use, and replaces it when it stops answering.

use redis::aio::ConnectionLike;
use redis::cluster::ClusterClient;
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::SingleNodeRoutingInfo;
use redis::{
    from_redis_value, Cmd, ErrorKind, FromRedisValue, RedisError, RedisResult, ServerErrorKind,
    Value,
};
use std::future::Future;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How often a command whose slot moves is sent through the client, which has its own tries each time.
const ROUNDS: u32 = 5;

/// A connection to all masters of a cluster, which is replaced when it is stuck.
///
/// The client reconnects to a master that was away. But the task that serves its connection can deadlock
/// with itself: with redis 1.8 and tokio 1.54 it does if many commands are sent while a slot moves or a
/// master fails. The task holds a lock for a command that must wait because the task's budget is used up,
/// and then requests the same lock to look up the masters. Only another connection helps then.
pub(super) struct Connection {
    cluster: ClusterClient,
    /// The longest time for one command, and for connecting.
    limit: Duration,
    current: Mutex<Current>,
    /// Held by the task that replaces the connection; released if that task panics.
    replacing: tokio::sync::Mutex<()>,
}

#[derive(Clone)]
struct Current {
    connection: ClusterConnection,
    /// Number of answers over this connection, errors included, time-outs excluded.
    answers: Arc<AtomicUsize>,
}

impl Current {
    fn new(connection: ClusterConnection) -> Self {
        Self {
            connection,
            answers: Arc::default(),
        }
    }
}

impl Connection {
    /// Connects within `limit`.
    pub(super) async fn open(cluster: ClusterClient, limit: Duration) -> RedisResult<Self> {
        let connection = connect(&cluster, limit).await?;
        Ok(Self {
            cluster,
            limit,
            current: Mutex::new(Current::new(connection)),
            replacing: tokio::sync::Mutex::default(),
        })
    }

    /// Returns the answer to `command`, within the limit.
    pub(super) async fn query<T: FromRedisValue>(self: Arc<Self>, command: Cmd) -> RedisResult<T> {
        let current = self.current();
        let before = current.answers.load(Ordering::Relaxed);
        let answer = within(self.limit, follow(current.connection.clone(), command)).await;
        if !answer.as_ref().is_err_and(RedisError::is_timeout) {
            current.answers.fetch_add(1, Ordering::Relaxed);
        } else if current.answers.load(Ordering::Relaxed) == before {
            // The connection answered no caller in all this time. Spawned, because this caller has waited
            // long enough.
            tokio::spawn(self.replace(current));
        }
        Ok(from_redis_value(answer?)?)
    }

    /// Replaces the connection `stuck`, unless it was replaced before or is being replaced. If no other
    /// connection can be made, `stuck` stays.
    async fn replace(self: Arc<Self>, stuck: Current) {
        let Ok(_replacing) = self.replacing.try_lock() else {
            return;
        };
        if Arc::ptr_eq(&self.current().answers, &stuck.answers) {
            if let Ok(connection) = connect(&self.cluster, self.limit).await {
                self.set(connection);
            }
        }
    }

    fn current(&self) -> Current {
        self.current
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn set(&self, connection: ClusterConnection) {
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Current::new(connection);
    }
}

async fn connect(cluster: &ClusterClient, limit: Duration) -> RedisResult<ClusterConnection> {
    within(limit, cluster.get_async_connection()).await
}

async fn within<T>(limit: Duration, work: impl Future<Output = RedisResult<T>>) -> RedisResult<T> {
    tokio::time::timeout(limit, work)
        .await
        .unwrap_or_else(|_elapsed| Err(io::Error::from(io::ErrorKind::TimedOut).into()))
}

/// Sends `command`, and follows redirections to the master that its slot moves to. The client gives up
/// there: it sends `ASKING` and the command separately over a shared connection, so another command may come
/// between and use up the `ASKING`. Here both are one pipeline.
async fn follow(mut connection: ClusterConnection, command: Cmd) -> RedisResult<Value> {
    for _ in 1..ROUNDS {
        let error = match answer(&mut connection, &command).await {
            Err(error) if is_moving(&error) => error,
            answered => return answered,
        };
        let Some(at) = asked_at(&error) else {
            continue;
        };
        let mut pipeline = redis::pipe();
        pipeline.cmd("ASKING").add_command(command.clone());
        let mut answers = connection.route_pipeline(pipeline, 0, 2, at).await?;
        match answers.pop().map(Value::extract_error) {
            Some(Err(error)) if is_moving(&error) => {}
            Some(answered) => return answered,
            None => return Err(error),
        }
    }
    answer(&mut connection, &command).await
}

async fn answer(connection: &mut ClusterConnection, command: &Cmd) -> RedisResult<Value> {
    connection
        .req_packed_command(command)
        .await?
        .extract_error()
}

/// Whether `error` says that the slot moves.
fn is_moving(error: &RedisError) -> bool {
    use ServerErrorKind::{Ask, Moved, TryAgain};
    matches!(error.kind(), ErrorKind::Server(Ask | Moved | TryAgain))
}

/// Returns the master to which `error` redirects, if it is an `ASK`.
fn asked_at(error: &RedisError) -> Option<SingleNodeRoutingInfo> {
    if error.kind() != ErrorKind::Server(ServerErrorKind::Ask) {
        return None;
    }
    let (address, _slot) = error.redirect_node()?;
    let (host, port) = address.rsplit_once(':')?;
    Some(SingleNodeRoutingInfo::ByAddress {
        host: host.to_owned(),
        port: port.parse().ok()?,
    })
}

#[cfg(test)]
#[path = "../../tests/common/cluster.rs"]
#[allow(clippy::unwrap_used)]
mod test_cluster;

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::test_cluster::{TestCluster, PATIENT};
    use super::*;
    use redis::cluster::ClusterClientBuilder;
    use redis::cmd;
    use std::time::Instant;
    use tokio::runtime::{Builder, Runtime};

    /// The longest wait for an answer that does not come.
    const LIMIT: Duration = Duration::from_millis(500);

    /// A client that waits long where there is no fault, because on a busy machine a process may stand still for
    /// seconds.
    fn client(servers: &TestCluster) -> ClusterClient {
        ClusterClientBuilder::new(servers.addresses())
            .connection_timeout(PATIENT)
            .response_timeout(PATIENT)
            .build()
            .unwrap()
    }

    fn runtime() -> Runtime {
        Builder::new_current_thread().enable_all().build().unwrap()
    }

    async fn read(connection: &Arc<Connection>) -> RedisResult<Option<String>> {
        let mut get = cmd("GET");
        get.arg("key");
        connection.clone().query(get).await
    }

    #[test]
    fn a_connection_that_answers_nothing_is_replaced() {
        let Some(servers) = TestCluster::start(PATIENT) else {
            return;
        };
        let cluster = client(&servers);
        // The task that serves a connection belongs to the runtime that made it. This runtime is not run
        // again.
        let idle = runtime();
        let stuck = idle.block_on(cluster.get_async_connection()).unwrap();
        runtime().block_on(async {
            let opened = Connection::open(cluster, PATIENT).await.unwrap();
            let mut connection = Arc::new(opened);
            assert_eq!(read(&connection).await.unwrap(), None);
            Arc::get_mut(&mut connection).unwrap().limit = LIMIT;
            connection.set(stuck);
            assert!(read(&connection).await.unwrap_err().is_timeout());
            let started = Instant::now();
            while let Err(error) = read(&connection).await {
                assert!(started.elapsed() < PATIENT, "{error}");
            }
        });
    }

    #[test]
    fn the_connection_stays_where_no_other_can_be_made() {
        let Some(mut servers) = TestCluster::start(PATIENT) else {
            return;
        };
        let cluster = client(&servers);
        let idle = runtime();
        let stuck = idle.block_on(cluster.get_async_connection()).unwrap();
        runtime().block_on(async {
            let connection = Arc::new(Connection::open(cluster, PATIENT).await.unwrap());
            connection.set(stuck);
            (0..test_cluster::MASTERS).for_each(|index| servers.kill(index));
            let stuck = connection.current();
            connection.clone().replace(stuck.clone()).await;
            assert!(Arc::ptr_eq(&connection.current().answers, &stuck.answers));
            (0..test_cluster::MASTERS).for_each(|index| servers.start_again(index));
            servers.wait_until_healthy();
            connection.clone().replace(stuck.clone()).await;
            assert!(!Arc::ptr_eq(&connection.current().answers, &stuck.answers));
            // A late caller changes nothing.
            let replaced = connection.current();
            connection.clone().replace(stuck).await;
            assert!(Arc::ptr_eq(
                &connection.current().answers,
                &replaced.answers
            ));
        });
    }
}
