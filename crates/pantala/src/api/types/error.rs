//! A failure that the user can act on.

use serde::{Deserialize, Serialize};

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
#[error("{error}")]
pub struct Error {
    /// The kind.
    pub kind: ErrorKind,
    /// The error, a sentence without a full stop.
    pub error: String,
    /// The remedy; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hint: String,
    /// The mistakes of a text that the request brought, one by one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<TextProblem>,
}

/// A mistake in a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct TextProblem {
    /// The text's name, as the request gave it.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// The column in characters, from 1.
    pub column: u32,
    /// The mistake.
    pub message: String,
    /// The expected text, and the remedy; may be empty.
    pub help: String,
}

/// The kinds of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
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
        Self { kind, error: error.into(), hint: String::new(), problems: Vec::new() }
    }

    /// Refuses a text: as it is shown to a person, and mistake by mistake.
    pub(crate) fn of_text(mistakes: &[diagnostic::Error]) -> Self {
        let text = mistakes.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        Self {
            problems: mistakes.iter().map(TextProblem::of).collect(),
            ..Self::new(ErrorKind::Invalid, text)
        }
    }

    /// Adds a hint.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: hint.into(), ..self }
    }
}

impl TextProblem {
    fn of(mistake: &diagnostic::Error) -> Self {
        Self {
            file: mistake.file.clone(),
            line: mistake.line,
            column: mistake.column,
            message: mistake.message.clone(),
            help: mistake.expected.iter().chain(&mistake.help).cloned().collect::<Vec<_>>().join("; "),
        }
    }
}
