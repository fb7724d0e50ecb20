//! The last error that a runtime logged.
//!
//! A runtime in wasm logs why it panics, and then traps. The error of its executor says only that it trapped.

use log::{LevelFilter, Log, Metadata, Record};
use std::{cell::RefCell, sync::Once};

thread_local! {
    static LAST: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Keeps the last error of each thread. The level of the logger excludes all other messages.
struct Keep;

impl Log for Keep {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "runtime"
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            LAST.set(Some(record.args().to_string()));
        }
    }

    fn flush(&self) {}
}

/// Forgets the last error of this thread. From now on keeps errors, unless the program has a logger.
pub fn forget_logged_error() {
    static INSTALL: Once = Once::new();
    INSTALL.call_once(|| {
        if log::set_logger(&Keep).is_ok() {
            log::set_max_level(LevelFilter::Error);
        }
    });
    LAST.set(None);
}

/// Takes the last error that a runtime logged on this thread, by `ext_logging_log` with the target `runtime`.
pub fn take_logged_error() -> Option<String> {
    LAST.take()
}
