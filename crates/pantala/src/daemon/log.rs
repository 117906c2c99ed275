//! What the daemon says while it runs: plain lines on standard error, which a supervisor keeps.

use core::sync::atomic::{AtomicU8, Ordering};
use std::io::Write;

/// How much is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// What went wrong.
    Error,
    /// And what is not as it was asked for.
    Warning,
    /// And what happens.
    Info,
    /// And details for who looks for a fault.
    Debug,
}

static LEVEL: AtomicU8 = AtomicU8::new(Level::Info as u8);

/// Says no more than `level` from now on.
pub(crate) fn limit_to(level: Level) {
    LEVEL.store(level as u8, Ordering::Relaxed);
}

pub(crate) fn error(text: &str) {
    line(Level::Error, "error: ", text);
}

pub(crate) fn warning(text: &str) {
    line(Level::Warning, "warning: ", text);
}

pub(crate) fn info(text: &str) {
    line(Level::Info, "", text);
}

pub(crate) fn debug(text: &str) {
    line(Level::Debug, "debug: ", text);
}

fn line(level: Level, word: &str, text: &str) {
    if level as u8 <= LEVEL.load(Ordering::Relaxed) {
        // One write, so that lines of several threads do not mix. Nobody could be told that it failed.
        let _ = std::io::stderr().write_all(format!("pantala: {word}{text}\n").as_bytes());
    }
}
