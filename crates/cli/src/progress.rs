//! Progress of long work, on the terminal if there is one.

use indicatif::{ProgressBar, ProgressStyle};
use std::{borrow::Cow, time::Duration};

/// What `work` returns, with a spinner that says `what` is being done.
pub(crate) fn during<R>(what: impl Into<Cow<'static, str>>, work: impl FnOnce() -> R) -> R {
    let spinner = ProgressBar::new_spinner().with_message(what);
    spinner.enable_steady_tick(Duration::from_millis(100));
    let result = work();
    spinner.finish_and_clear();
    result
}

/// A bar that fills by `length` steps. It vanishes when it is dropped.
pub(crate) fn bar(length: impl TryInto<u64>, what: impl Into<Cow<'static, str>>) -> Bar {
    let style = ProgressStyle::with_template("{msg} [{bar:40}] {pos}/{len} {eta}");
    // The template is right, and if it were not, the usual one does.
    let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
    let length = length.try_into().unwrap_or(u64::MAX);
    Bar(ProgressBar::new(length)
        .with_style(style.progress_chars("=> "))
        .with_message(what))
}

/// A bar on the terminal; nothing where there is none.
pub(crate) struct Bar(ProgressBar);

impl Bar {
    /// One step more is done.
    pub(crate) fn step(&self) {
        self.0.inc(1);
    }

    /// One step more is done, and the one after it is `what`.
    pub(crate) fn next(&self, what: impl Into<Cow<'static, str>>) {
        self.say(what);
        self.step();
    }

    /// What is being done now.
    pub(crate) fn say(&self, what: impl Into<Cow<'static, str>>) {
        self.0.set_message(what);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
