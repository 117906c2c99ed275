#![forbid(unsafe_code)]
#![no_std]
#![cfg_attr(not(any(test, fuzzing)), deny(clippy::indexing_slicing))]
//! Headers and checksums: bytes to values and back.
//!
//! Everything here is a pure function of its arguments: no state, no allocation, no clock. A header is seen
//! twice. A *view* (`ip4::View`) borrows the bytes, has checked that they can be asked, and answers questions;
//! it is what the fast path uses. A *value* (`ip4::Header`) owns what the bytes said, can be changed, and is
//! emitted again. `parse(emit(value)) == value` holds for every value and is what most tests here are.
//!
//! Numbers are in host byte order everywhere outside the bytes themselves; lengths and offsets are in bytes,
//! also where the wire counts in words of four or eight.
//!
//! The modules stand in the order in which a packet meets them; below the line stand those it does not meet.

pub mod ether;
pub mod pppoe;
pub mod ppp;
pub mod gre;
pub mod bpdu;
pub mod arp;
pub mod ip4;
pub mod ip6;
pub mod ip6_ext;
pub mod icmp4;
pub mod icmp6;
pub mod nd;
pub mod mld;
pub mod igmp;
pub mod membership;
pub mod udp;
pub mod tcp;

// ---
pub mod addr;
pub mod bpf;
pub mod checksum;
pub mod dhcp6;
pub mod fpm;
pub mod pcap;
pub mod program;
pub mod protocol;
pub mod rtnetlink;
pub mod toeplitz;
mod build;
#[cfg(any(test, fuzzing))]
pub mod fuzz_bodies;

#[cfg(test)]
extern crate std;

pub use build::NoRoom;
pub use ether::{EtherType, Mac};
pub use protocol::Protocol;
