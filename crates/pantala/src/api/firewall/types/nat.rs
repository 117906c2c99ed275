//! Translation: instances of NAT with the flows that they translate, and prefixes of IPv6 that are exchanged.

use core::net::{IpAddr, Ipv4Addr};

use serde::{Deserialize, Serialize};

/// An instance of NAT. Numbers are sums over all CPUs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct FirewallNat {
    /// Its number.
    pub number: u16,
    /// Configuration, as in `ip 192.0.2.1 same_ports`.
    pub config: String,
    /// The address that others see; `None` while its interface has none or is not there: nothing is translated then.
    pub address: Option<Ipv4Addr>,
    /// Flows that it translates, those of ICMP, TCP, UDP and other protocols.
    pub bindings: u64,
    /// Number of ICMP queries among them.
    pub icmp: u64,
    /// Number of TCP connections among them.
    pub tcp: u64,
    /// Number of UDP flows among them.
    pub udp: u64,
    /// Flows that there may be.
    pub limit: u64,
    /// Ports that flows of TCP have; one that serves several remote hosts is counted once.
    pub tcp_ports: u64,
    /// Ports in use by UDP.
    pub udp_ports: u64,
    /// Ports that flows of either may have.
    pub ports: u64,
    /// Flows that were begun since the instance was made.
    pub begun: u64,
    /// Packets that were refused because there was no address.
    pub no_address: u64,
    /// Because no port was left for the remote host.
    pub no_port: u64,
    /// Because there were as many flows as there may be.
    pub no_room: u64,
}

/// An instance of NAT64. Numbers are sums over all CPUs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct FirewallNat64 {
    /// Its name.
    pub name: String,
    /// Configuration, as in `prefix4 192.0.2.0/28 prefix6 64:ff9b::/96`.
    pub config: String,
    /// Flows that it translates.
    pub bindings: u64,
    /// Number of ICMP queries among them.
    pub icmp: u64,
    /// Number of TCP connections among them.
    pub tcp: u64,
    /// Number of UDP flows among them.
    pub udp: u64,
    /// Flows that there may be.
    pub limit: u64,
    /// Flows that were begun since the instance was made.
    pub begun: u64,
    /// Packets that were refused because no port was left for the remote host.
    pub no_port: u64,
    /// Because there were as many flows as there may be.
    pub no_room: u64,
}

/// A part of the flows that an instance translates.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct FirewallBindings {
    /// The flows, CPU by CPU.
    pub bindings: Vec<FirewallBinding>,
    /// Where the next part begins; `None` if this was the last.
    pub next: Option<String>,
}

/// A flow that is translated. Ports of ICMP are the identifier of its queries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct FirewallBinding {
    /// The CPU it belongs to.
    pub cpu: u32,
    /// The number of the protocol.
    pub proto: u8,
    /// Inside address: IPv6 with NAT64.
    pub inside: IpAddr,
    /// From this port; 0 if the protocol has none.
    pub inside_port: u16,
    /// Remote address.
    pub remote: Ipv4Addr,
    /// To this port.
    pub remote_port: u16,
    /// Outside address.
    pub outside: Ipv4Addr,
    /// From this port, as the remote host sees it.
    pub outside_port: u16,
    /// Packets from inside.
    pub packets_out: u32,
    /// Packets from the remote host.
    pub packets_in: u32,
    /// Seconds that are left of its life.
    pub expires_s: u32,
}

/// Prefixes of IPv6 that are exchanged (`nptv6`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct FirewallPrefixes {
    /// The instance's name.
    pub name: String,
    /// Configuration, as in `int_prefix fd00:1:: ext_prefix 2001:db8:1:: prefixlen 48`.
    pub config: String,
    /// Whether packets are translated: its interface is there and has an address.
    pub active: bool,
}
