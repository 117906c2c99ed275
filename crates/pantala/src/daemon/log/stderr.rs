//! Records as lines on standard error.

use std::io::Write;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use log::{LevelFilter, Log, Metadata, Record};

use super::TARGET;
use crate::show::utc;

/// The verbosity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    /// Failures, and deviations from the request.
    Warning,
    /// And what happens.
    Info,
    /// And details for debugging.
    Debug,
}

/// Writes records up to `level` to standard error from now on, with the time unless the journal adds it.
pub(crate) fn to_stderr(level: Level) {
    let _ = STAMPED.set(!is_journal());
    // A program that has a logger of its own keeps it.
    let _ = log::set_logger(&Lines);
    log::set_max_level(match level {
        Level::Warning => LevelFilter::Warn,
        Level::Info => LevelFilter::Info,
        Level::Debug => LevelFilter::Debug,
    });
}

/// Whether lines begin with the time.
static STAMPED: OnceLock<bool> = OnceLock::new();

/// Whether standard error is the journal of systemd, by device and inode as systemd.exec(5) describes `JOURNAL_STREAM`.
fn is_journal() -> bool {
    let Ok(named) = std::env::var("JOURNAL_STREAM") else { return false };
    rustix::fs::fstat(std::io::stderr()).is_ok_and(|stat| named == format!("{}:{}", stat.st_dev, stat.st_ino))
}

/// The time as RFC 3339 writes it, with milliseconds, and a space.
fn stamp() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{}.{:03}Z ", utc(now.as_secs()), now.subsec_millis())
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
        let stamp = if STAMPED.get().is_some_and(|stamped| *stamped) { stamp() } else { String::new() };
        // One write, so that lines of several threads do not mix. A failure could be reported to no one.
        let _ = std::io::stderr().write_all(format!("{stamp}pantala: {word}{}\n", record.args()).as_bytes());
    }

    fn flush(&self) {}
}
