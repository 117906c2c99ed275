//! Tokens for numbers. They are built in: what a rule means does not depend on files of the machine that reads it.

mod ports;

use crate::rule::{ext6_header, frag, ip_option, tcp_option};
pub(crate) use ports::{SERVICES, port};

/// A list of words for numbers; of several words for a number the first is printed.
pub(crate) type Names<T> = [(&'static str, T)];

pub(crate) fn value<T: Copy>(names: &Names<T>, word: &str) -> Option<T> {
    names.iter().find(|(name, _)| *name == word).map(|&(_, value)| value)
}

pub(crate) fn word<T: Copy + PartialEq>(names: &Names<T>, value: T) -> Option<&'static str> {
    names.iter().find(|&&(_, other)| other == value).map(|&(name, _)| name)
}

pub(crate) fn words<T>(names: &Names<T>) -> impl Iterator<Item = &'static str> + Clone {
    names.iter().map(|&(name, _)| name)
}

/// Protocols (IANA, Protocol Numbers), with the words of FreeBSD's protocols(5). `ip`, `ip4` and `ip6` are no
/// protocols here, but say which version a packet is of.
pub(crate) const PROTOCOLS: &Names<u8> = &[
    ("icmp", 1),
    ("igmp", 2),
    ("ggp", 3),
    ("ipencap", 4),
    ("tcp", 6),
    ("egp", 8),
    ("igp", 9),
    ("udp", 17),
    ("rdp", 27),
    ("dccp", 33),
    ("ipv6-route", 43),
    ("ipv6-frag", 44),
    ("rsvp", 46),
    ("gre", 47),
    ("esp", 50),
    ("ipsec-esp", 50),
    ("ah", 51),
    ("ipsec-ah", 51),
    ("ipv6-icmp", 58),
    ("icmp6", 58),
    ("icmpv6", 58),
    ("ipv6-nonxt", 59),
    ("ipv6-opts", 60),
    ("eigrp", 88),
    ("ospf", 89),
    ("ospfigp", 89),
    ("ipip", 94),
    ("etherip", 97),
    ("encap", 98),
    ("pim", 103),
    ("ipcomp", 108),
    ("carp", 112),
    ("vrrp", 112),
    ("l2tp", 115),
    ("sctp", 132),
    ("udplite", 136),
    ("mpls-in-ip", 137),
];

/// Codes of ICMP's destination unreachable (RFC 792, 1122, 1812), with the words of ipfw(8).
pub(crate) const UNREACH: &Names<u8> = &[
    ("net", 0),
    ("host", 1),
    ("protocol", 2),
    ("port", 3),
    ("needfrag", 4),
    ("srcfail", 5),
    ("net-unknown", 6),
    ("host-unknown", 7),
    ("isolated", 8),
    ("net-prohib", 9),
    ("host-prohib", 10),
    ("tosnet", 11),
    ("toshost", 12),
    ("filter-prohib", 13),
    ("host-precedence", 14),
    ("precedence-cutoff", 15),
];

/// Codes of ICMPv6's destination unreachable (RFC 4443 §3.1), with the words of ipfw(8).
pub(crate) const UNREACH6: &Names<u8> = &[
    ("no-route", 0),
    ("admin-prohib", 1),
    ("beyond-scope", 2),
    ("address", 3),
    ("port", 4),
    ("policy", 5),
    ("reject-route", 6),
];

/// Classes of service (RFC 2474, 2597, 3246, 5865, 8622).
pub(crate) const DSCP: &Names<u8> = &[
    ("be", 0),
    ("cs0", 0),
    ("le", 1),
    ("cs1", 8),
    ("af11", 10),
    ("af12", 12),
    ("af13", 14),
    ("cs2", 16),
    ("af21", 18),
    ("af22", 20),
    ("af23", 22),
    ("cs3", 24),
    ("af31", 26),
    ("af32", 28),
    ("af33", 30),
    ("cs4", 32),
    ("af41", 34),
    ("af42", 36),
    ("af43", 38),
    ("cs5", 40),
    ("va", 44),
    ("ef", 46),
    ("cs6", 48),
    ("cs7", 56),
];

/// Flags of TCP, as in the header (RFC 9293, RFC 3168).
pub(crate) const TCP_FLAGS: &Names<u8> =
    &[("fin", 1), ("syn", 2), ("rst", 4), ("psh", 8), ("ack", 16), ("urg", 32), ("ece", 64), ("cwr", 128)];

pub(crate) const TCP_OPTIONS: &Names<u8> = &[
    ("mss", tcp_option::MSS),
    ("maxseg", tcp_option::MSS),
    ("window", tcp_option::WINDOW),
    ("sack", tcp_option::SACK),
    ("ts", tcp_option::TS),
    ("timestamp", tcp_option::TS),
    ("cc", tcp_option::CC),
];

pub(crate) const IP_OPTIONS: &Names<u8> =
    &[("lsrr", ip_option::LSRR), ("ssrr", ip_option::SSRR), ("rr", ip_option::RR), ("ts", ip_option::TS)];

/// Bits of the type of service (RFC 1349), and of its lowest two the meaning of today (RFC 3168): `congestion` is CE,
/// `ecntransport` ECT(0).
pub(crate) const IP_TOS: &Names<u8> = &[
    ("lowdelay", 0x10),
    ("throughput", 0x08),
    ("reliability", 0x04),
    ("congestion", 0x03),
    ("mincost", 0x02),
    ("ecntransport", 0x02),
];

pub(crate) const FRAG: &Names<u8> =
    &[("df", frag::DF), ("mf", frag::MF), ("rf", frag::RF), ("offset", frag::OFFSET)];

pub(crate) const EXT6_HEADERS: &Names<u8> = &[
    ("frag", ext6_header::FRAG),
    ("hopopt", ext6_header::HOP_OPTIONS),
    ("route", ext6_header::ROUTE),
    ("dstopt", ext6_header::DST_OPTIONS),
    ("ah", ext6_header::AH),
    ("esp", ext6_header::ESP),
    ("rthdr0", ext6_header::ROUTE0),
    ("rthdr2", ext6_header::ROUTE2),
];

/// Types of frames (IEEE 802 numbers), with the words of ipfw(8). Numbers are hexadecimal.
pub(crate) const ETHER_TYPES: &Names<u16> = &[
    ("ip", 0x0800),
    ("ipv4", 0x0800),
    ("ipv6", 0x86dd),
    ("arp", 0x0806),
    ("rarp", 0x8035),
    ("vlan", 0x8100),
    ("loop", 0x9000),
    ("at", 0x809b),
    ("atalk", 0x809b),
    ("aarp", 0x80f3),
    ("pppoe_disc", 0x8863),
    ("pppoe_sess", 0x8864),
];
