//! DHCP on an interface.

use core::net::Ipv4Addr;

use ipnet::Ipv4Net;
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
