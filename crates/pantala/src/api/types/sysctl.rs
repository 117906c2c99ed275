//! Variables of the stack.

use serde::{Deserialize, Serialize};

/// A variable, under BSD's name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct Sysctl {
    /// Its name: `net.inet.tcp.delacktime`.
    pub name: String,
    /// Its value, as people write it.
    pub value: String,
    /// Default value.
    pub default: String,
    /// Unit: `bytes`, `ms`; empty for switches, which are 0 or 1, for words, and for mere numbers.
    pub unit: String,
    /// The least and the greatest number that it can be.
    pub min: i64,
    /// See [`Self::min`].
    pub max: i64,
    /// The words that it can be, if it is no number.
    pub words: Vec<String>,
    /// Whether it can be changed.
    pub writable: bool,
    /// Description.
    pub description: String,
}

/// A new value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SysctlChange {
    /// As people write it.
    pub value: String,
}

/// The result of a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct SysctlChanged {
    /// The variable.
    pub name: String,
    /// The old value.
    pub old: String,
    /// The new value.
    pub new: String,
}
