//! What is said while a stack runs: records of the crate `log`, with the target `pantala`. A program that embeds a stack
//! hears them with whatever logger it has; the `pantala` program writes them to standard error, which a supervisor keeps.

use std::io::Write;

use log::{LevelFilter, Log, Metadata, Record};

/// What all records are about.
const TARGET: &str = "pantala";

/// How much is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    /// What went wrong, and what is not as it was asked for.
    Warning,
    /// And what happens.
    Info,
    /// And details for who looks for a fault.
    Debug,
}

/// Says it on standard error, and no more than `level`, from now on.
pub(crate) fn to_stderr(level: Level) {
    // A program that has a logger of its own keeps it.
    let _ = log::set_logger(&Lines);
    log::set_max_level(match level {
        Level::Warning => LevelFilter::Warn,
        Level::Info => LevelFilter::Info,
        Level::Debug => LevelFilter::Debug,
    });
}

pub(crate) fn error(text: &str) {
    log::error!(target: TARGET, "{text}");
}

pub(crate) fn warning(text: &str) {
    log::warn!(target: TARGET, "{text}");
}

pub(crate) fn info(text: &str) {
    log::info!(target: TARGET, "{text}");
}

pub(crate) fn debug(text: &str) {
    log::debug!(target: TARGET, "{text}");
}

/// Plain lines on standard error.
struct Lines;

impl Log for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == TARGET
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let word = match record.level() {
            log::Level::Error => "error: ",
            log::Level::Warn => "warning: ",
            log::Level::Info => "",
            log::Level::Debug | log::Level::Trace => "debug: ",
        };
        // One write, so that lines of several threads do not mix. Nobody could be told that it failed.
        let _ = std::io::stderr().write_all(format!("pantala: {word}{}\n", record.args()).as_bytes());
    }

    fn flush(&self) {}
}
