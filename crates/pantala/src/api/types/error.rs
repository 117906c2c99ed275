//! A failure that the user can act on.

use serde::{Deserialize, Serialize};

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{error}")]
pub struct Error {
    /// The kind.
    pub kind: ErrorKind,
    /// The error, a sentence without a full stop.
    pub error: String,
    /// The remedy; may be empty.
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
    /// The named object does not exist (404).
    NotFound,
    /// The object exists already (409).
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

    /// Adds a hint.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: hint.into(), ..self }
    }
}
