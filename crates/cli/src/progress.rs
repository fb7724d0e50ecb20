//! Shows the progress of long work on the terminal, if there is one.

use indicatif::{ProgressBar, ProgressStyle};
use std::{borrow::Cow, time::Duration};

/// Returns what `work` returns, and shows a spinner with the text `what` until then.
pub(crate) fn during<R>(what: impl Into<Cow<'static, str>>, work: impl FnOnce() -> R) -> R {
    let spinner = ProgressBar::new_spinner().with_message(what);
    spinner.enable_steady_tick(Duration::from_millis(100));
    let result = work();
    spinner.finish_and_clear();
    result
}

/// A progress bar of `length` steps. Dropping it removes it from the screen.
pub(crate) fn bar(length: impl TryInto<u64>, what: impl Into<Cow<'static, str>>) -> Bar {
    let style = ProgressStyle::with_template("{msg} [{bar:40}] {pos}/{len} {eta}");
    // The template is valid; the fallback spares an `expect`.
    let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
    let length = length.try_into().unwrap_or(u64::MAX);
    Bar(ProgressBar::new(length)
        .with_style(style.progress_chars("=> "))
        .with_message(what))
}

/// A counter of steps whose total is unknown; `what` names them. Dropping it removes it from the screen.
pub(crate) fn counter(what: impl Into<Cow<'static, str>>) -> Counter {
    let style = ProgressStyle::with_template("{spinner} {human_pos} {msg}");
    let style = style.unwrap_or_else(|_| ProgressStyle::default_spinner());
    let spinner = ProgressBar::new_spinner()
        .with_style(style)
        .with_message(what);
    spinner.enable_steady_tick(Duration::from_millis(100));
    Counter(spinner)
}

/// A count of steps. Without a terminal it shows nothing.
pub(crate) struct Counter(ProgressBar);

impl Counter {
    /// Shows `steps` steps as done.
    pub(crate) fn at(&self, steps: u64) {
        self.0.set_position(steps);
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// A progress bar. Without a terminal it shows nothing.
pub(crate) struct Bar(ProgressBar);

impl Bar {
    /// Advances by one step.
    pub(crate) fn step(&self) {
        self.0.inc(1);
    }

    /// Advances by one step and shows `what` as the next one.
    pub(crate) fn next(&self, what: impl Into<Cow<'static, str>>) {
        self.say(what);
        self.step();
    }

    /// Shows `step` steps as done.
    pub(crate) fn reach(&self, step: usize) {
        self.0.set_position(step as u64);
    }

    /// Shows `what` as the current step.
    pub(crate) fn say(&self, what: impl Into<Cow<'static, str>>) {
        self.0.set_message(what);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
