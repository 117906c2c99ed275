//! Sources of routes.

use serde::{Deserialize, Serialize};

/// A source of routes: FRR by FPM, or a table of the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct RouteSource {
    /// `fpm` or `kernel`.
    pub name: String,
    /// Its state.
    pub state: RouteSourceState,
    /// Seconds since it is in that state.
    pub since_s: u64,
    /// Where FPM is listened for, or the table of the kernel.
    pub at: String,
    /// The peer that is connected.
    pub peer: Option<String>,
    /// Routes that it has told.
    pub routes: u64,
    /// Stale routes: not told again since the last session, or listing, began.
    pub stale: u64,
    /// Prefixes whose routes lead nowhere here: no interface, a gateway on no link, a next hop that is not known.
    pub idle: u64,
    /// Different next hops, or groups of them.
    pub targets: u64,
    /// Next hops and groups that have a number.
    pub next_hops: u64,
    /// Messages about routes and next hops.
    pub messages: u64,
    /// Messages that could not be read.
    pub malformed: u64,
    /// Routes of other tables, of ignored protocols and of other kinds.
    pub ignored: u64,
    /// Routes and next hops for which there was no room.
    pub refused: u64,
    /// Routes that went because a session, or a listing, did not have them any more.
    pub swept: u64,
    /// Sessions, or listings.
    pub resyncs: u64,
    /// Times that the kernel had no room for what it had to tell, so that all was listed again.
    pub overruns: u64,
}

/// The state of a source of routes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RouteSourceState {
    /// Nothing is connected.
    Waiting,
    /// Connected.
    Connected,
    /// The kernel's tables are listed.
    Reading,
    /// Changes of the kernel's tables are followed.
    Following,
    /// It cannot be followed.
    Failed,
}
