//! DHCP on an interface.

use core::net::{Ipv4Addr, Ipv6Addr};

use ipnet::{Ipv4Net, Ipv6Net};
use serde::{Deserialize, Serialize};

use crate::Mac;

/// DHCP on all interfaces.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct Dhcp {
    /// Its servers.
    pub servers: Vec<DhcpServer>,
    /// Its clients.
    pub clients: Vec<DhcpClient>,
    /// Its relays.
    pub relays: Vec<DhcpRelay>,
    /// Its DHCPv6 relays.
    pub relays6: Vec<Dhcp6Relay>,
    /// Its DHCPv6 servers.
    pub servers6: Vec<Dhcp6Server>,
    /// Its DHCPv6 clients.
    pub clients6: Vec<Dhcp6Client>,
}

/// An interface with a DHCP client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct DhcpClient {
    /// The interface.
    pub interface: String,
    /// The state, by its name in RFC 2131 §4.4, in lower case.
    pub state: String,
    /// The address, with its network.
    #[cfg_attr(feature = "admin", schemars(with = "Option<String>"))]
    pub address: Option<Ipv4Net>,
    /// The server that has given it.
    pub server: Option<Ipv4Addr>,
    /// Routers of the link; the first is the gateway of the default route.
    pub routers: Vec<Ipv4Addr>,
    /// Name servers.
    pub dns: Vec<Ipv4Addr>,
    /// Domain name.
    pub domain: Option<String>,
    /// Seconds until the lease is renewed.
    pub renew_s: Option<u64>,
    /// Seconds until it ends.
    pub expires_s: Option<u64>,
    /// Messages sent.
    pub sent: u64,
    /// Acknowledgments received.
    pub acks: u64,
    /// Refusals received.
    pub naks: u64,
    /// Messages that were not for it, not expected or not usable.
    pub ignored: u64,
    /// Addresses found in use by another host, and declined.
    pub conflicts: u64,
}

/// An interface with a DHCP server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct DhcpServer {
    /// The interface.
    pub interface: String,
    /// The server's address.
    pub address: Ipv4Addr,
    /// The first and the last address that it gives.
    pub pool: [Ipv4Addr; 2],
    /// Its leases, in the order of their addresses; also those that have ended, whose clients get the same address again.
    pub leases: Vec<DhcpLease>,
    /// Addresses that are offered to clients which have not taken them yet.
    pub offered: u64,
    /// Addresses that other hosts were found to use.
    pub conflicts: u64,
    /// Counters.
    pub counters: DhcpCounters,
}

/// A lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct DhcpLease {
    /// The address.
    pub address: Ipv4Addr,
    /// Ethernet address of the client.
    pub mac: Mac,
    /// The client's identifier, in hexadecimal digits.
    pub client: String,
    /// The client's name for itself, if it says one.
    pub name: Option<String>,
    /// Seconds until it ends; 0 if it has.
    pub expires_s: u64,
}

/// Counters of a DHCP server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct DhcpCounters {
    /// Messages received.
    pub received: u64,
    /// Messages that could not be read.
    pub malformed: u64,
    /// Offers sent.
    pub offers: u64,
    /// Acknowledgments sent.
    pub acks: u64,
    /// Refusals sent.
    pub naks: u64,
    /// Messages for other servers, or about unknown leases.
    pub ignored: u64,
    /// Requests for an address when none was free.
    pub exhausted: u64,
    /// Addresses found in use by another host.
    pub conflicts: u64,
    /// Requests that found too many probes under way.
    pub probes_full: u64,
    /// Leases not given because they could not be written to disk.
    pub not_written: u64,
}

/// An interface with a DHCP relay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct DhcpRelay {
    /// The interface.
    pub interface: String,
    /// Our address on its link.
    pub address: Ipv4Addr,
    /// Servers that requests are sent to.
    pub servers: Vec<Ipv4Addr>,
    /// Requests passed on.
    pub requests: u64,
    /// Replies passed on.
    pub replies: u64,
    /// Messages that could not be read.
    pub malformed: u64,
    /// Requests dropped because they have passed 16 relays.
    pub hops: u64,
    /// Requests of clients with a relay's option, and replies for no client here.
    pub ignored: u64,
    /// Requests without room for option 82, passed on without it.
    pub no_room: u64,
}

/// An interface with a DHCPv6 relay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct Dhcp6Relay {
    /// The interface.
    pub interface: String,
    /// Servers that requests are sent to.
    pub servers: Vec<Ipv6Addr>,
    /// Requests passed on.
    pub requests: u64,
    /// Replies passed on.
    pub replies: u64,
    /// Messages that could not be read.
    pub malformed: u64,
    /// Requests dropped because they have passed 8 relays.
    pub hops: u64,
    /// Messages that a relay does not pass on, or cannot because the interface has no global address.
    pub ignored: u64,
    /// Requests that are too long with what a relay adds.
    pub no_room: u64,
}

/// An interface with a DHCPv6 client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct Dhcp6Client {
    /// The interface.
    pub interface: String,
    /// The state: `idle`, `soliciting`, `requesting`, `confirming`, `bound`, `renewing`, `rebinding`, `declining`, `informing` or
    /// `informed`.
    pub state: String,
    /// Addresses and delegated prefixes.
    pub leases: Vec<Dhcp6Lease>,
    /// DUID of the server that has given them, in hexadecimal digits.
    pub server: Option<String>,
    /// Name servers.
    pub dns: Vec<Ipv6Addr>,
    /// Search list of domain names.
    pub search: Vec<String>,
    /// Time servers.
    pub sntp: Vec<Ipv6Addr>,
    /// Seconds until the lease is renewed.
    pub renew_s: Option<u64>,
    /// Seconds until it is rebound.
    pub rebind_s: Option<u64>,
    /// Messages sent.
    pub sent: u64,
    /// Replies received.
    pub replies: u64,
    /// Answers without what was asked for.
    pub refused: u64,
    /// Messages that could not be read.
    pub malformed: u64,
    /// Messages that were not for it, not expected or not usable.
    pub ignored: u64,
    /// Addresses found in use by another host, and declined.
    pub conflicts: u64,
    /// Leases with other prefixes than the one before.
    pub renumbered: u64,
}

/// An address, with 128 bits, or a delegated prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct Dhcp6Lease {
    /// The address or prefix.
    #[cfg_attr(feature = "admin", schemars(with = "String"))]
    pub prefix: Ipv6Net,
    /// Seconds until it is deprecated.
    pub preferred_s: u64,
    /// Seconds until it ends.
    pub valid_s: u64,
}

/// An interface with a DHCPv6 server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct Dhcp6Server {
    /// The interface.
    pub interface: String,
    /// Name servers that it tells.
    pub dns: Vec<Ipv6Addr>,
    /// Search list of domain names.
    pub search: Vec<String>,
    /// Time servers.
    pub sntp: Vec<Ipv6Addr>,
    /// Prefixes that are delegated to routers.
    #[serde(default)]
    pub delegations: Vec<Dhcp6Delegation>,
    /// Counters.
    pub counters: Dhcp6Counters,
}

/// Prefixes that are delegated to a router.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct Dhcp6Delegation {
    /// The router's identifier (DUID), in hexadecimal digits.
    pub duid: String,
    /// The number of its association.
    pub iaid: u32,
    /// The router's link-local address.
    pub router: Ipv6Addr,
    /// Its prefixes.
    #[cfg_attr(feature = "admin", schemars(with = "Vec<String>"))]
    pub prefixes: Vec<Ipv6Net>,
    /// Seconds until the lease ends.
    pub expires_s: u64,
}

/// Counters of a DHCPv6 server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct Dhcp6Counters {
    /// Messages received.
    pub received: u64,
    /// Replies sent.
    pub replies: u64,
    /// Messages that could not be read.
    pub malformed: u64,
    /// Messages for other servers, or about leases.
    pub ignored: u64,
    /// Questions dropped because they came faster than 100 in a second.
    pub limited: u64,
    /// Requests for prefixes of which none was free.
    #[serde(default)]
    pub exhausted: u64,
    /// Delegations that were not given because they could not be written to disk.
    #[serde(default)]
    pub not_written: u64,
}
