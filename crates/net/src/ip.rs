//! IPv4 and IPv6: input, forwarding, output, ICMP, reassembly, neighbours, next hops made ready, addresses
//! and groups.

pub mod ip4;
pub mod ip6;
pub mod punt;
pub mod reass;
pub mod icmp;
pub mod forward;
pub mod output;
pub mod pmtu;
pub(crate) mod tunnel_io;
pub(crate) mod vxlan_io;
pub(crate) mod bridge_io;
pub mod stp_io;
pub mod snoop_io;
pub mod host_cache;
pub(crate) mod l4;
pub(crate) mod ip_tx;
pub mod group;
pub mod addr;
pub mod neigh;
pub mod arp;
pub mod adj;
pub mod cached_route;
