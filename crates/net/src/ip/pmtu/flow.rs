//! The key of a conversation, read from its own packets and from those that errors quote.

use core::net::{IpAddr, SocketAddr};

use pkt::Pkt;
use wire::{Protocol, ip4, ip6, udp};

use crate::base::four_tuple::FourTuple;
use crate::ip::icmp::Quoted;
use crate::ip::l4;
use crate::link::tables::IfIndex;

/// Types of ICMP messages whose identifier tells one ping from another.
const ECHO_REQUESTS: [(Protocol, u8); 2] = [(Protocol::ICMP, 8), (Protocol::ICMP6, 128)];

/// A conversation of datagrams between two ports, or of ICMP messages of one type between two hosts; of echo requests with
/// one identifier; or a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flow {
    protocol: Protocol,
    /// In the place of ports, ICMP has its type and the identifier.
    ends: FourTuple,
}

impl Flow {
    /// Makes the key of a conversation of datagrams.
    #[must_use]
    pub const fn udp(ends: FourTuple) -> Self {
        Self { protocol: Protocol::UDP, ends }
    }

    /// Makes the key of the echo requests from `src` to `dst` with an identifier, by the interface `zone` where addresses mean
    /// something only with it.
    #[must_use]
    pub fn echo(src: IpAddr, dst: IpAddr, ident: u16, zone: IfIndex) -> Self {
        let [(icmp4, kind4), (icmp6, kind6)] = ECHO_REQUESTS;
        let (protocol, kind) = if dst.is_ipv4() { (icmp4, kind4) } else { (icmp6, kind6) };
        Self {
            protocol,
            ends: FourTuple::new(SocketAddr::new(src, kind.into()), SocketAddr::new(dst, ident), zone),
        }
    }

    /// Makes the key of a tunnel's packets.
    #[must_use]
    pub fn tunnel(local: IpAddr, remote: IpAddr, protocol: Protocol) -> Self {
        Self { protocol, ends: FourTuple::new((local, 0).into(), (remote, 0).into(), 0) }
    }

    /// Returns the remote address.
    #[must_use]
    pub const fn remote(&self) -> IpAddr {
        self.ends.remote
    }

    /// The interface, where the address means something only with its link; else 0.
    pub(super) const fn zone(&self) -> IfIndex {
        self.ends.zone
    }

    pub(super) fn hash(&self, secret: &[u64; 4]) -> u64 {
        self.ends.hash(secret) ^ u64::from(self.protocol.0)
    }

    /// Reads the key from the first bytes of the upper layer; `None` if that is neither a datagram, nor of ICMP, nor of a tunnel.
    #[inline]
    fn of(local: IpAddr, remote: IpAddr, zone: IfIndex, protocol: Protocol, upper: [u8; 8]) -> Option<Self> {
        let [a, b, c, d, id0, id1, ..] = upper;
        let (near, far) = match protocol {
            Protocol::UDP => (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])),
            Protocol::ICMP | Protocol::ICMP6 if ECHO_REQUESTS.contains(&(protocol, a)) => {
                (a.into(), u16::from_be_bytes([id0, id1]))
            }
            Protocol::ICMP | Protocol::ICMP6 => (a.into(), 0),
            Protocol::IPIP | Protocol::IPV6 | Protocol::GRE => (0, 0),
            _ => return None,
        };
        Some(Self { protocol, ends: FourTuple::new((local, near).into(), (remote, far).into(), zone) })
    }
}

/// Returns the conversation of a packet that is made here, and the bytes of the longest packet that it is sent as; `None` if
/// routers may cut it, or it is of none.
pub(super) fn of_packet(pkt: &Pkt) -> Option<(Flow, u32)> {
    const DONT_FRAGMENT: u8 = 0x40;
    let ip = pkt.window(0);
    let (protocol, header) = match l4::is_ip4(pkt) {
        true if ip[6] & DONT_FRAGMENT == 0 => return None,
        true => (Protocol(ip[9]), usize::from(ip[0] & 0xf) * 4),
        false => (Protocol(ip[6]), ip6::HEADER_LEN),
    };
    debug_assert!(header >= ip4::HEADER_LEN, "a packet made here has a header");
    let upper = pkt.head().get(header..)?.first_chunk()?;
    let (local, remote) = l4::ends(pkt);
    let flow = Flow::of(local, remote, pkt.outif, protocol, *upper)?;
    let segment = usize::from(pkt.gso_size);
    let len = if segment > 0 { header + udp::HEADER_LEN + segment } else { pkt.len() };
    Some((flow, u32::try_from(len).ok()?))
}

/// Returns the conversation of a packet that is quoted by what came by `rcvif`.
pub(super) fn of_quote(quoted: &Quoted, rcvif: IfIndex) -> Option<Flow> {
    Flow::of(quoted.local, quoted.remote, rcvif, quoted.protocol, quoted.upper)
}
