//! JSON-RPC calls with a time-out, retries and a limit on those in flight.
//!
//! ```text
//! until all calls have an answer, or as many attempts as there may be brought none:
//!     pause (doubled each time since the last answer), connect again unless the node only refused more calls
//!     send as many calls as may be in flight
//!     for each answer: hand it out, send the next call
//! ```

use crate::{
    answer::{self, shortened},
    connection::{Connection, Interrupted, NotOpened},
    error::RemoteError,
    url::NodeUrl,
};
use serde_json::{json, Value};
use std::{
    collections::BTreeMap,
    sync::{
        atomic::{AtomicU64, Ordering},
        Mutex, PoisonError,
    },
    thread,
    time::{Duration, Instant},
};

/// The longest wait for an answer. The current time plus a much longer one could overflow.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

/// Options for requests to a node.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct RpcOptions {
    /// How long to wait for an answer; 30 seconds by default.
    pub timeout: Duration,
    /// Number of attempts since the last answer, including the first; 5 by default, at least 1. If an attempt brings
    /// some of the answers, counting begins anew with it.
    pub attempts: u32,
    /// The pause before the second attempt, doubled before each further one; half a second by default. After an answer
    /// it is as long as at first, unless the node refuses more requests: then it stays as long as it was.
    pub pause: Duration,
    /// How many requests may wait for an answer at a time; 8 by default, at least 1.
    pub in_flight: usize,
    /// The most keys in one request for a proof; 64 by default, at least 1.
    pub keys: usize,
}

impl Default for RpcOptions {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(30),
            attempts: 5,
            pause: Duration::from_millis(500),
            in_flight: 8,
            keys: 64,
        }
    }
}

/// One call of a method.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) method: &'static str,
    pub(crate) parameters: Value,
}

/// The node's reason to refuse a call.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub(crate) code: i64,
    pub(crate) message: String,
}

/// The result of a call, or why the node refuses it.
pub(crate) type Answer = Result<Value, Refusal>;

/// Takes the answer to the call with this index.
pub(crate) type Take<'t> = dyn FnMut(usize, Answer) -> Result<(), RemoteError> + 't;

/// A client of a node; connects at the first call.
pub(crate) struct RpcClient {
    url: NodeUrl,
    options: RpcOptions,
    connection: Mutex<Option<Connection>>,
    sent: AtomicU64,
}

/// Why an attempt ended before all calls had an answer.
enum Ended {
    Connect(NotOpened),
    Exchange(Interrupted),
    Limited(Refusal),
    /// Trying again would not help.
    For(RemoteError),
}

impl RpcClient {
    pub(crate) fn new(url: NodeUrl, options: RpcOptions) -> Self {
        Self {
            url,
            options,
            connection: Mutex::new(None),
            sent: AtomicU64::new(0),
        }
    }

    pub(crate) fn url(&self) -> &NodeUrl {
        &self.url
    }

    pub(crate) fn options(&self) -> &RpcOptions {
        &self.options
    }

    /// How many requests were sent, repeated ones included.
    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Makes one call and returns the answer.
    ///
    /// # Errors
    /// Those of [`Self::calls`].
    pub(crate) fn call(
        &self,
        method: &'static str,
        parameters: Value,
    ) -> Result<Answer, RemoteError> {
        let call = Call { method, parameters };
        let mut found = None;
        self.calls(std::slice::from_ref(&call), &mut |_, answer| {
            found = Some(answer);
            Ok(())
        })?;
        found.ok_or_else(|| RemoteError::Answer {
            method,
            expected: "one answer",
            found: "none".to_owned(),
        })
    }

    /// Makes `calls`, and hands each answer to `take` as soon as it arrives, with the index of its call. So an answer
    /// is not lost if a later call fails.
    ///
    /// # Errors
    /// A [`RemoteError`] if all attempts since the last answer brought none, or another attempt would not help; the
    /// first error of `take`, which ends the calls.
    pub(crate) fn calls(&self, calls: &[Call], take: &mut Take<'_>) -> Result<(), RemoteError> {
        // A poisoned lock does no harm, because answers to earlier calls are skipped by their id.
        let mut connection = self
            .connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let mut answered = vec![false; calls.len()];
        let attempts = self.options.attempts.max(1);
        let (mut attempt, mut pause, mut open) = (0, self.options.pause, calls.len());
        loop {
            let ended = match self.attempt(&mut connection, calls, &mut answered, take) {
                Ok(()) => return Ok(()),
                Err(ended) => ended,
            };
            // Otherwise a long batch would fail at a connection that breaks now and then, however often it goes on.
            let still_open = answered.iter().filter(|answered| !**answered).count();
            let goes_on = still_open < open;
            let is_limited = matches!(ended, Ended::Limited(_));
            if goes_on {
                (attempt, open) = (0, still_open);
            }
            attempt += 1;
            if !is_limited {
                *connection = None;
                if goes_on {
                    pause = self.options.pause;
                }
            }
            let first = answered.iter().position(|answered| !answered);
            let first = first.unwrap_or_default();
            let method = calls.get(first).map_or("", |call| call.method);
            if attempt == attempts
                || matches!(
                    ended,
                    Ended::For(_) | Ended::Connect(NotOpened::For(RemoteError::NoTls { .. }))
                )
            {
                return Err(self.error(ended, method, attempt));
            }
            if let Ended::Exchange(Interrupted::TooLarge(reason)) = ended {
                return Err(RemoteError::TooLarge { method, reason });
            }
            thread::sleep(pause);
            if !(goes_on && is_limited) {
                pause = pause.saturating_mul(2).min(self.options.timeout);
            }
        }
    }

    fn error(&self, ended: Ended, method: &'static str, attempts: u32) -> RemoteError {
        let url = self.url.to_string();
        match ended {
            Ended::Connect(NotOpened::For(error)) | Ended::For(error) => error,
            Ended::Connect(NotOpened::TimedOut) => RemoteError::NoHandshake {
                url,
                seconds: self.options.timeout.as_secs_f64(),
                attempts,
            },
            Ended::Exchange(Interrupted::TimedOut) => RemoteError::TimedOut {
                url,
                method,
                seconds: self.options.timeout.as_secs_f64(),
                attempts,
            },
            Ended::Exchange(Interrupted::TooLarge(reason)) => {
                RemoteError::TooLarge { method, reason }
            }
            Ended::Exchange(Interrupted::Broken(reason)) => RemoteError::Broken {
                url,
                method,
                attempts,
                reason,
            },
            Ended::Limited(Refusal { code, message }) => RemoteError::Limited {
                url,
                method,
                attempts,
                code,
                message,
            },
        }
    }

    fn deadline(&self) -> Instant {
        Instant::now() + self.options.timeout.min(LONGEST)
    }

    /// The connection; connects if there is none.
    fn opened<'c>(
        &self,
        connection: &'c mut Option<Connection>,
    ) -> Result<&'c mut Connection, Ended> {
        match connection {
            Some(connection) => Ok(connection),
            None => {
                let opened = Connection::open(&self.url, self.deadline());
                Ok(connection.insert(opened.map_err(Ended::Connect)?))
            }
        }
    }

    /// Makes all calls that have no answer yet. The time-out begins anew with each request and with each answer to
    /// one. Other messages do not count, because a node could send them for ever.
    fn attempt(
        &self,
        connection: &mut Option<Connection>,
        calls: &[Call],
        answered: &mut [bool],
        take: &mut Take<'_>,
    ) -> Result<(), Ended> {
        let connection = self.opened(connection)?;
        let open = (0..calls.len()).filter(|index| !answered[*index]);
        let mut open = open.collect::<Vec<_>>().into_iter();
        let (mut waiting, mut limited) = (BTreeMap::new(), None);
        loop {
            while waiting.len() < self.options.in_flight.max(1) && limited.is_none() {
                let Some(index) = open.next() else { break };
                let id = self.sent.fetch_add(1, Ordering::Relaxed);
                connection.until(self.deadline());
                connection
                    .send(request(id, &calls[index]))
                    .map_err(Ended::Exchange)?;
                waiting.insert(id, index);
            }
            if waiting.is_empty() {
                return limited.map_or(Ok(()), |refusal| Err(Ended::Limited(refusal)));
            }
            let message = connection.receive().map_err(Ended::Exchange)?;
            let method = waiting
                .values()
                .next()
                .map_or("", |index| calls[*index].method);
            let Some((id, answer)) = response(method, &message).map_err(Ended::For)? else {
                continue;
            };
            let Some(index) = waiting.remove(&id) else {
                continue;
            };
            match answer {
                Err(refusal) if refusal.is_limit() => limited = Some(refusal),
                answer => {
                    take(index, answer).map_err(Ended::For)?;
                    answered[index] = true;
                }
            }
            // Taking the answer needs time, too.
            connection.until(self.deadline());
        }
    }
}

impl Refusal {
    /// Whether the node refuses because there are too many requests, so that a later attempt can succeed.
    fn is_limit(&self) -> bool {
        let message = self.message.to_lowercase();
        [429, -32005, -32029, -32999].contains(&self.code)
            || ["rate limit", "too many requests", "server is busy"]
                .iter()
                .any(|part| message.contains(part))
    }

    /// Whether the answer would be larger than the node's limit.
    pub(crate) fn is_too_large(&self) -> bool {
        self.code == -32008 || self.message.to_lowercase().contains("too big")
    }
}

/// Text of a request. Its id is a string, because every server repeats a string unchanged.
fn request(id: u64, call: &Call) -> String {
    let Call { method, parameters } = call;
    json!({"jsonrpc": "2.0", "id": id.to_string(), "method": method, "params": parameters})
        .to_string()
}

/// The id and the answer in a message; `None` for a notification.
fn response(method: &'static str, message: &[u8]) -> Result<Option<(u64, Answer)>, RemoteError> {
    let wrong = || answer::no_response(method, message);
    let mut value = answer::parsed(method, message)?;
    if value.get("method").is_some() {
        return Ok(None);
    }
    let id = match &value["id"] {
        Value::String(id) => id.parse().ok(),
        // An error without an id is about a message that the node could not read.
        Value::Null if value.get("error").is_some() => {
            return Err(wrong());
        }
        _ => None,
    };
    let id = id.ok_or_else(wrong)?;
    // Some servers send a null beside the result.
    if let Some(error) = value.get("error").filter(|error| !error.is_null()) {
        let code = error["code"].as_i64();
        let text = error["message"].as_str();
        let (Some(code), Some(text)) = (code, text) else {
            return Err(wrong());
        };
        let more = error.get("data").filter(|data| !data.is_null());
        let more = more.map_or_else(String::new, |data| match data.as_str() {
            Some(text) => format!(": {text}"),
            None => format!(": {data}"),
        });
        let message = shortened(format!("{text}{more}").as_bytes());
        return Ok(Some((id, Err(Refusal { code, message }))));
    }
    match value.get_mut("result") {
        Some(result) => Ok(Some((id, Ok(result.take())))),
        None => Err(wrong()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_null_beside_a_result_is_no_error() {
        let message = br#"{"jsonrpc":"2.0","id":"7","result":"0x01","error":null}"#;
        let (id, answer) = response("method", message).unwrap().unwrap();
        assert_eq!((id, answer.ok()), (7, Some(json!("0x01"))));
        let error = r#""code":1,"message":"no","data":""#;
        let long = "x".repeat(100_000);
        let message = format!(r#"{{"jsonrpc":"2.0","id":"7","error":{{{error}{long}"}}}}"#);
        let (_, answer) = response("method", message.as_bytes()).unwrap().unwrap();
        let refusal = answer.unwrap_err().message;
        assert!(
            refusal.starts_with("no: xxx") && refusal.len() < 10_000,
            "{}",
            refusal.len()
        );
    }
}
