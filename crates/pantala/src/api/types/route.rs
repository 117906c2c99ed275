//! Routes.

use core::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

/// A route in the table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// The destination.
    pub to: IpNet,
    /// What happens to its packets.
    pub action: RouteAction,
    /// Where they go, chosen by their hash; empty if they go nowhere.
    pub next_hops: Vec<NextHop>,
    /// Why the route is there.
    pub origin: RouteOrigin,
    /// Seconds until it goes by itself.
    pub expires_s: Option<u64>,
}

/// What a route does with packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RouteAction {
    /// Sends them on.
    Forward,
    /// They are for us.
    Local,
    /// Answers with an ICMP error.
    Reject,
    /// Discards them in silence.
    Blackhole,
}

/// One way to go on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NextHop {
    /// The router; `None` if the destination itself is on the link.
    pub gateway: Option<IpAddr>,
    /// The interface by which packets leave.
    pub interface: String,
}

/// Why a route is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RouteOrigin {
    /// An interface has an address in it.
    Connected,
    /// It was configured, or added by hand.
    Static,
}

/// A route to be made. Exactly one of `via` (with or without `dev`), `dev`, `reject`, `blackhole`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouteRequest {
    /// The destination.
    pub to: IpNet,
    /// Gateways.
    #[serde(default)]
    pub via: Vec<IpAddr>,
    /// The interface on whose link the destination or, with `via`, the gateway is.
    #[serde(default)]
    pub dev: Option<String>,
    /// Answer packets with an ICMP error.
    #[serde(default)]
    pub reject: bool,
    /// Lose packets in silence.
    #[serde(default)]
    pub blackhole: bool,
}

/// Which way a packet would go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteAnswer {
    /// Where to.
    pub to: IpAddr,
    /// The route that matches best.
    pub route: Route,
    /// The address from which we would send.
    pub source: Option<IpAddr>,
    /// Bytes of the largest packet that goes this way.
    pub mtu: Option<u32>,
}
