//! The connections to the masters, and the thread that serves them.

use super::connection::Connection;
use super::{ClusterError, ClusterOptions};
use futures_util::{future, stream, StreamExt, TryStreamExt};
use redis::cluster::{ClusterClient, ClusterClientBuilder};
use redis::{Cmd, FromRedisValue, RedisError, RedisResult};
use std::future::Future;
use std::sync::{mpsc, Arc};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

/// The most writes that wait for an answer at the same time.
const WRITES: usize = 256;

/// A client of a cluster. All threads share its connections, one to each master. Commands that are
/// sent together reach a master as a pipeline.
///
/// The client is asynchronous, because then a time-out or a moving slot affects only one command of a
/// pipeline. The synchronous client gives up a pipeline whose answers are still to come.
pub(super) struct Client {
    /// `Some` until the client is dropped.
    runtime: Option<Runtime>,
    connection: Arc<Connection>,
    /// The longest time that the client takes for one command.
    limit: Duration,
}

impl Client {
    pub(super) fn connect(
        addresses: &[&str],
        options: &ClusterOptions,
    ) -> Result<Self, ClusterError> {
        const TASK: &str = "connect to the cluster";
        let limit = options.total_timeout;
        let failed = |error| ClusterError::of_client(error, TASK, limit);
        let client = build(addresses, options).map_err(|source| ClusterError::Configuration {
            source: Box::new(source),
        })?;
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("povmeter-redis")
            .enable_all()
            .build()
            .map_err(|source| ClusterError::Thread { source })?;
        let connected = run(&runtime, Connection::open(client, limit))
            .ok_or(ClusterError::Stopped { task: TASK })
            .and_then(|connected| connected.map_err(failed));
        match connected {
            Ok(connection) => Ok(Self {
                runtime: Some(runtime),
                connection: Arc::new(connection),
                limit,
            }),
            Err(error) => {
                // Does not wait, because the caller may be a thread that must not wait.
                runtime.shutdown_background();
                Err(error)
            }
        }
    }

    /// Returns the answer to `command`.
    pub(super) fn ask<T>(&self, command: Cmd, task: &'static str) -> Result<T, ClusterError>
    where
        T: FromRedisValue + Send + 'static,
    {
        self.run(self.connection.clone().query(command))
            .ok_or(ClusterError::Stopped { task })?
            .map_err(|error| self.failed(error, task))
    }

    /// Sends all `commands` at once, and returns their answers in the same order.
    pub(super) fn ask_all<T>(
        &self,
        commands: Vec<Cmd>,
        task: &'static str,
    ) -> Result<impl Iterator<Item = Result<T, ClusterError>> + use<'_, T>, ClusterError>
    where
        T: FromRedisValue + Send + 'static,
    {
        let queries = commands
            .into_iter()
            .map(|command| self.connection.clone().query(command));
        let answers: Vec<RedisResult<T>> = self
            .run(future::join_all(queries))
            .ok_or(ClusterError::Stopped { task })?;
        Ok(answers
            .into_iter()
            .map(move |answer| answer.map_err(|error| self.failed(error, task))))
    }

    /// Sends `commands` in any order, and returns when all are acknowledged. Stops at the first
    /// failure.
    pub(super) fn write_all(
        &self,
        commands: Vec<Cmd>,
        task: &'static str,
    ) -> Result<(), ClusterError> {
        let connection = self.connection.clone();
        let writes = stream::iter(commands)
            .map(move |command| connection.clone().query::<()>(command))
            .buffer_unordered(WRITES)
            .try_for_each(|()| future::ready(Ok(())));
        self.run(writes)
            .ok_or(ClusterError::Stopped { task })?
            .map_err(|error| self.failed(error, task))
    }

    fn run<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> Option<T> {
        run(self.runtime.as_ref()?, work)
    }

    fn failed(&self, error: RedisError, task: &'static str) -> ClusterError {
        ClusterError::of_client(error, task, self.limit)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Dropping it would wait, which panics in a thread of another runtime.
            runtime.shutdown_background();
        }
    }
}

/// Waits until a thread of `runtime` has done `work`; `None` if the runtime ended before. The caller
/// may be a thread of another runtime.
fn run<T: Send + 'static>(
    runtime: &Runtime,
    work: impl Future<Output = T> + Send + 'static,
) -> Option<T> {
    let (sender, receiver) = mpsc::sync_channel(1);
    runtime.spawn(async move {
        // This fails only if the caller panicked and no longer waits.
        let _ = sender.send(work.await);
    });
    receiver.recv().ok()
}

fn build(addresses: &[&str], options: &ClusterOptions) -> RedisResult<ClusterClient> {
    let millis = |wait: Duration| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
    let [least, most] = options.retry_wait;
    ClusterClientBuilder::new(addresses.iter().copied())
        .connection_timeout(options.connect_timeout)
        .response_timeout(options.response_timeout)
        .overall_response_timeout(Some(options.total_timeout))
        .retries(options.retries)
        .min_retry_wait(millis(least))
        .max_retry_wait(millis(most))
        .build()
}
