//! The HTTP listener.

use serde::{Deserialize, Serialize};

/// The HTTP listener and its counters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct HttpListener {
    /// Its address and port.
    pub listen: String,
    /// Whether requests must carry a token.
    pub token: bool,
    /// Whether requests may change something.
    pub write: bool,
    /// Its counters since the start.
    pub counters: Vec<HttpCounter>,
}

/// A counter of the HTTP listener.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct HttpCounter {
    /// Its name.
    pub name: String,
    /// Its meaning.
    pub sentence: String,
    /// Its value.
    pub count: u64,
}
