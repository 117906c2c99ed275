//! Raw sockets of ICMP and ICMPv6: programs that send messages of their own making, and are shown those that come.
//!
//! A raw socket is on each CPU, as a socket of UDP that is not connected, and has on each what comes there, so that all of
//! them together have each message once. What two hosts say to each other is on the CPU of their pair of addresses; an error
//! is where what it quotes was sent; neighbour discovery is where the address lives that it is about, and what is said of
//! groups on the CPU that speaks for the link.
//!
//! A socket is shown what is intact and for this host, before it is dealt with and whatever comes of that: echo requests too,
//! which are answered all the same. What was sent to a group it is shown if the host itself is in that group, or if it has
//! joined it and wants the sender; what is said of groups, whichever they are.
//!
//! # Spec
//! RFC 3542 §3, and the same for IPv4 where BSD does not say otherwise: there a message's checksum is the program's.

mod calls;
mod filter;
mod input;
mod listing;
mod socket;

pub use self::calls::{
    Open, change, close, listen, memberships, open, ready, recv, send, send_to, set_filter,
};
pub use self::filter::Filter;
pub(crate) use self::input::{can_have_sent, show};
pub use self::listing::Listed;
pub use self::socket::{Id, Ready, SOCKETS_MAX, Sockets};

#[cfg(test)]
mod tests;
