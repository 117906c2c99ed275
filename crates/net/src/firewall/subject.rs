//! What rules ask of a packet again and again, read once.

use ipfw::rule::Hook;

use crate::tables::IfIndex;

/// A packet, as rules see it.
#[derive(Clone, Copy, Debug)]
pub struct Subject {
    /// Where in the stack it is.
    pub hook: Hook,
    /// Whether it is IPv4's; else it is IPv6's.
    pub is_ip4: bool,
    /// What it is a part of.
    pub part: Part,
    /// The upper layer's protocol, behind IPv6's extension headers.
    pub proto: u8,
    /// Source; an IPv4 address in the lower 32 bits.
    pub src: u128,
    /// Destination.
    pub dst: u128,
    /// Source port of TCP, UDP and SCTP; ICMP's type; else, and in later fragments, 0.
    pub src_port: u16,
    /// Destination port; ICMP's code.
    pub dst_port: u16,
    /// TCP's flags, as in the header.
    pub tcp_flags: u8,
    /// Where the upper layer begins in the packet, which begins with its network header.
    pub l4: u16,
    /// The interface it came in by; 0 if we made it.
    pub recv: IfIndex,
    /// The interface it leaves by; 0 while that is not known.
    pub xmit: IfIndex,
}

/// What of a datagram a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// All of it.
    Whole,
    /// The first fragment: with the upper layer's header.
    First,
    /// A later one.
    Later,
}
