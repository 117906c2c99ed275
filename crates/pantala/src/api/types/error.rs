//! A failure that somebody can do something about.

use serde::{Deserialize, Serialize};

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{error}")]
pub struct Error {
    /// Of which kind.
    pub kind: ErrorKind,
    /// What is wrong, in a sentence without a full stop.
    pub error: String,
    /// What to do about it; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hint: String,
}

/// The kinds of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ErrorKind {
    /// The request makes no sense (HTTP 400).
    Invalid,
    /// This socket, or its user, may not do that (403).
    Denied,
    /// What it names does not exist (404).
    NotFound,
    /// What it would make exists (409).
    Exists,
    /// This version or this device cannot (501).
    Unsupported,
    /// A table is full, or too much is going on; try again (503).
    Busy,
    /// It went wrong on our side, or the operating system refused (500).
    Failed,
}

impl Error {
    /// An error without a hint.
    #[must_use]
    pub fn new(kind: ErrorKind, error: impl Into<String>) -> Self {
        Self { kind, error: error.into(), hint: String::new() }
    }

    /// The same with a hint.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: hint.into(), ..self }
    }
}
