//! The stack as a function: no clock, no thread, no lock, no unsafe.
//!
//! [`Netisr::turn`](turn::netisr::Netisr::turn) is the architecture: a reader of it knows where everything else belongs. The
//! folders are layers. Each imports only from those above it in this list, and from the hub, [`turn`]:
//!
//! | folder | subject |
//! |---|---|
//! | [`base`], a crate | time, secrets, counters, drop reasons, collections |
//! | [`fib`] | tables of routes |
//! | [`link`] | interfaces, Ethernet, the interface to drivers |
//! | [`out`] | output queues, offload |
//! | [`ip`] | IPv4 and IPv6: input, forwarding, output, ICMP, reassembly, neighbours, next hops made ready, addresses, groups |
//! | [`firewall`] | rules, states, NAT, pipes |
//! | [`flow`] | the flow cache |
//! | [`host`] | TCP (connections are the crate [`tcb`]), UDP, raw and packet sockets, applications, channels to threads |
//! | [`turn`] | the hub: a CPU and its turns |
//!
//! Other crates name modules without their layer: `net::tcp`, `net::ifq`.
#![forbid(unsafe_code)]

pub mod turn;
pub mod fib;
pub mod link;
pub mod out;
pub mod ip;
pub mod firewall;
pub mod flow;
pub mod host;
#[cfg(test)]
mod testkit;

pub use ::base;
pub use base::{count, drop, secret, stage, time};
pub use host::{app, channel, dhcp, packet, pcb, ping, raw, sock, tcp, udp};
pub use ip::{
    addr, adj, arp, forward, group, host_cache, icmp, ip4, ip6, neigh, output, pmtu, reass, stp_io,
};
pub use link::{bridge, driver, ether, fdb, logical, pppoe, stp, tables, tunnel, vxlan};
pub use out::{ifq, offload};
pub use turn::{capture, cpu, msg, netisr, next, ringmap, rss, sysctl, timers, trace};
