//! Variables of the stack.

use serde::{Deserialize, Serialize};

/// A variable, under BSD's name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sysctl {
    /// Its name: `net.inet.tcp.delacktime`.
    pub name: String,
    /// Its value, as people write it.
    pub value: String,
    /// The value that it has if nobody says otherwise.
    pub default: String,
    /// What it is a number of: `bytes`, `ms`; empty for switches, which are 0 or 1, for words, and for mere numbers.
    pub unit: String,
    /// The least and the greatest number that it can be.
    pub min: i64,
    /// See [`Self::min`].
    pub max: i64,
    /// The words that it can be, if it is no number.
    pub words: Vec<String>,
    /// Whether it can be changed.
    pub writable: bool,
    /// What it is.
    pub description: String,
}

/// A new value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SysctlChange {
    /// As people write it.
    pub value: String,
}

/// What became of a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SysctlChanged {
    /// The variable.
    pub name: String,
    /// What it was.
    pub old: String,
    /// What it is.
    pub new: String,
}
