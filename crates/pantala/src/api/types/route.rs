//! Routes.

use core::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use super::{Error, Family};

/// A route in the table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct Route {
    /// Its routing table.
    #[serde(default)]
    pub fib: u8,
    /// The destination.
    #[cfg_attr(feature = "admin", schemars(with = "String"))]
    pub to: IpNet,
    /// Action on its packets.
    pub action: RouteAction,
    /// Where they go, chosen by their hash; empty if they go nowhere.
    pub next_hops: Vec<NextHop>,
    /// Its metrics.
    #[serde(default)]
    pub metrics: RouteMetrics,
    /// Why the route is there.
    pub origin: RouteOrigin,
    /// Whether packets go by it; a static route does not while its interfaces are down.
    #[serde(default = "yes")]
    pub in_force: bool,
    /// Seconds until it goes by itself.
    pub expires_s: Option<u64>,
    /// The routing protocol that announced it.
    #[serde(default)]
    pub protocol: Option<String>,
    /// Administrative distance of that protocol.
    #[serde(default)]
    pub distance: Option<u8>,
    /// Seconds since the protocol announced it as it is.
    #[serde(default)]
    pub age_s: Option<u64>,
}

/// Metrics of a route; `None` where it gives none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct RouteMetrics {
    /// Bytes of the largest packet. The interface's MTU limits it too.
    pub mtu: Option<u32>,
    /// TCP's maximum segment lifetime, milliseconds.
    pub msl_ms: Option<u32>,
    /// TCP's initial window, segments.
    pub initial_window: Option<u16>,
}

/// The action of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct NextHop {
    /// The router; `None` if the destination itself is on the link.
    pub gateway: Option<IpAddr>,
    /// The interface by which packets leave.
    pub interface: String,
    /// Its shares of the flows.
    #[serde(default = "one")]
    pub weight: u32,
}

/// Why a route is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RouteOrigin {
    /// An interface has an address in it.
    Connected,
    /// It was configured, or added by hand.
    Static,
    /// A router advertises it.
    Advertised,
    /// A routing protocol announced it.
    Dynamic,
}

const fn one() -> u32 {
    1
}

const fn yes() -> bool {
    true
}

/// A route to be made. Exactly one of `via` (with or without `dev`), `dev`, `reject`, `blackhole`; for a change of
/// the metrics alone, none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RouteRequest {
    /// The routing table.
    #[serde(default)]
    pub fib: u8,
    /// The destination.
    #[cfg_attr(feature = "admin", schemars(with = "String"))]
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
    /// Its metrics.
    #[serde(default)]
    pub metrics: RouteMetrics,
}

/// One change of the table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum RouteEdit {
    /// Makes a route where there is none.
    Add(RouteRequest),
    /// Leads a route elsewhere, or says something else of its way.
    Change(RouteRequest),
    /// Ends a route, or takes one gateway out of it.
    Delete {
        /// The routing table.
        #[serde(default)]
        fib: u8,
        /// Its destination.
        #[cfg_attr(feature = "admin", schemars(with = "String"))]
        to: IpNet,
        /// The gateway.
        #[serde(default)]
        via: Option<IpAddr>,
    },
}

/// The result of many changes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct RouteEdits {
    /// Changes that were made.
    pub done: u64,
    /// Refused changes.
    pub refused: Vec<RefusedEdit>,
}

/// A change that was not made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct RefusedEdit {
    /// Which one of them, from 0.
    pub at: usize,
    /// Why.
    pub error: Error,
}

/// A part of the table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RoutePage {
    /// The routing table.
    pub fib: u8,
    /// Only routes of this family.
    pub family: Option<Family>,
    /// Only what comes after this prefix in the order of the table.
    pub after: Option<IpNet>,
    /// Page length; routes to the last prefix are complete.
    pub limit: Option<usize>,
}

/// Which way a packet would go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
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
