//! Neighbours: what ARP and neighbour discovery know.

use core::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::Mac;

/// A host on one of our links.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct Neighbour {
    /// Its address.
    pub address: IpAddr,
    /// Its Ethernet address, once it has answered.
    pub mac: Option<Mac>,
    /// The interface on whose link it is.
    pub interface: String,
    /// Its state.
    pub state: NeighbourState,
    /// Seconds until it is forgotten or asked again; `None` if permanent.
    pub expires_s: Option<u64>,
    /// Whether it was entered by hand, or is ourselves.
    pub permanent: bool,
    /// Whether it said that it is a router (IPv6 only).
    pub router: bool,
    /// Whether it is an address of a host elsewhere that is answered for.
    #[serde(default)]
    pub published: bool,
}

/// The state of a neighbour (RFC 4861 §7.3.2; ARP uses the first two).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum NeighbourState {
    /// It was asked and has not answered.
    Incomplete,
    /// It answered lately.
    Reachable,
    /// It answered once.
    Stale,
    /// As `stale`, but packets were sent: a sign of life from above is waited for.
    Delay,
    /// It is being asked again.
    Probe,
}

/// A permanent entry to be made, or an address to be published.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct NeighbourRequest {
    /// Its Ethernet address; in answers for a published one that of the interface, if it is left out.
    #[serde(default)]
    pub mac: Option<Mac>,
    /// On whose link it is; may be left out where the address tells. On the link of which it is published.
    #[serde(default)]
    pub interface: Option<String>,
    /// It is not entered, but answered for, as a proxy does.
    #[serde(default)]
    pub publish: bool,
}
