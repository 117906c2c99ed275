//! Logging: records of the crate `log`, with the target `pantala`. A program that embeds a stack
//! hears them with whatever logger it has; the `pantala` program writes them to standard error, which a supervisor keeps.

#[cfg(feature = "cli")]
mod stderr;

#[cfg(feature = "cli")]
pub(crate) use stderr::{Level, to_stderr};

/// The target of all records.
const TARGET: &str = "pantala";

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
