//! What went wrong below interfaces that cannot return errors.
//!
//! Substrate's interface to a database returns values and no errors, and so does the interface between a
//! runtime and its state. A failure there ends the call by unwinding. The cause is kept here first, so that
//! the program can report it at its end instead of the unwinding.

use std::{
    panic::{resume_unwind, set_hook},
    sync::{Arc, OnceLock},
};
use tokio::sync::Notify;

/// Why the database has no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DatabaseFault {
    /// A value cannot be read.
    #[error(
        "expected the value of key 0x{key} in column `{column}` of the database, found: {source}"
    )]
    Read {
        /// The name of the column.
        column: &'static str,
        /// The key in hexadecimal digits.
        key: String,
        /// What parity-db found.
        source: parity_db::Error,
    },
    /// A node of the state does not have the hash by which it was read.
    #[error("expected the trie node of hash 0x{key} in column `state` of the database, found {length} bytes of hash 0x{found}")]
    Node {
        /// The hash by which the node was read.
        key: String,
        /// The hash of what was read.
        found: String,
        /// How many bytes were read.
        length: usize,
    },
    /// Changes cannot be written.
    #[error("expected to write to the database, found: {0}")]
    Write(parity_db::Error),
    /// The database panicked, perhaps on a thread of its own. Later changes may stay in its memory.
    #[error("expected a database that works, found a panic in it: {0}")]
    Panic(String),
}

static FIRST_FAULT: OnceLock<Arc<DatabaseFault>> = OnceLock::new();
static REPORTED: Notify = Notify::const_new();

/// Keeps `fault` if it is the first one.
pub(crate) fn report(fault: DatabaseFault) {
    if FIRST_FAULT.set(Arc::new(fault)).is_ok() {
        REPORTED.notify_one();
    }
}

/// Keeps `fault`, and unwinds, because the caller cannot get an answer. Calls no panic hook.
pub(crate) fn unwind(fault: DatabaseFault) -> ! {
    let message = fault.to_string();
    report(fault);
    resume_unwind(Box::new(message))
}

/// The first fault of a database of this program, if there is one.
pub(crate) fn first_fault() -> Option<Arc<DatabaseFault>> {
    FIRST_FAULT.get().cloned()
}

/// Waits for the first fault. Only one caller may wait.
pub(crate) async fn fault() -> Arc<DatabaseFault> {
    loop {
        if let Some(fault) = first_fault() {
            return fault;
        }
        REPORTED.notified().await;
    }
}

static FIRST_PANIC: OnceLock<String> = OnceLock::new();

/// Logs each panic as one line, and keeps the message of the first. One inside of the database is a fault of it.
pub(crate) fn keep_panics() {
    set_hook(Box::new(|info| {
        let message = info.payload();
        let message = message
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .or_else(|| message.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "no message".to_owned());
        let place = info.location().map_or(String::new(), |place| {
            format!(" ({}:{})", place.file(), place.line())
        });
        let message = format!("{message}{place}");
        // Nothing returns those of the database's own threads.
        if info
            .location()
            .is_some_and(|place| place.file().contains("parity-db"))
        {
            log::error!("panic: {message}");
            report(DatabaseFault::Panic(message.clone()));
        } else {
            log::debug!("panic: {message}");
        }
        // Only the first is the cause; others are about its consequences.
        let _ = FIRST_PANIC.set(message);
    }));
}

/// The message of the first panic of this program.
pub(crate) fn first_panic() -> Option<&'static str> {
    FIRST_PANIC.get().map(String::as_str)
}
