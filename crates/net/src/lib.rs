//! The stack as a function: no clock, no thread, no lock, no unsafe.
//!
//! The modules stand in the order in which a packet meets them. [`netisr::Netisr::turn`] is the architecture: a
//! reader of it knows where everything else belongs.
#![forbid(unsafe_code)]

// the loop
pub mod netisr;
pub mod cpu;
pub mod msg;
pub mod timers;
pub mod time;
pub mod rss;
pub mod ringmap;
pub mod driver;
pub mod next;
pub mod secret;
// the way in
pub mod ether;
pub mod arp;
pub mod ip4;
pub mod ip6;
pub mod reass;
pub mod icmp;
// the choice
pub mod firewall;
pub mod tables;
pub mod flow;
pub mod fib;
pub mod adj;
pub mod forward;
// what it was for
pub mod addr;
pub mod group;
mod l4;
pub mod pcb;
mod dgram;
pub mod udp;
pub mod raw;
pub mod tcp;
pub mod app;
pub mod channel;
pub mod ping;
pub mod sock;
pub mod sysctl;
// the way out
mod ip_tx;
pub mod output;
pub mod host_cache;
pub mod pmtu;
pub mod neigh;
pub mod offload;
pub mod ifq;
// the end of some
pub mod drop;
pub mod count;
// what tables are made of
mod collections;
// the bench on which all of it is tested
#[cfg(test)]
mod testkit;
