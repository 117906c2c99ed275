//! A packet as seen on the wire.

use core::net::{IpAddr, SocketAddr};

const TCP: u8 = 6;
const UDP: u8 = 17;

/// A datagram, or a segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) from: SocketAddr,
    pub(crate) to: SocketAddr,
    pub(crate) hops: u8,
    pub(crate) class: u8,
    /// Bytes that it carries.
    pub(crate) len: u32,
    /// Where they begin, and what is expected next: of segments.
    pub(crate) seq: u32,
    pub(crate) ack: u32,
}

impl Seen {
    /// Parses a packet from its network header on; `None` for other protocols, and later fragments.
    pub(crate) fn of(packet: &[u8]) -> Option<Self> {
        let short = |at: usize| packet.get(at..at + 2).map(|two| u16::from_be_bytes([two[0], two[1]]));
        let word =
            |at: usize| packet.get(at..at + 4).map(|four| u32::from_be_bytes(four.try_into().unwrap()));
        let (protocol, hops, class, [from, to], header, all) = match packet.first()? >> 4 {
            4 if short(6)? & 0x1fff == 0 => {
                let addrs = [12, 16].map(|at| word(at).map(|addr| IpAddr::from(addr.to_be_bytes())));
                let header = usize::from(packet[0] & 15) * 4;
                (packet[9], packet[8], packet[1], addrs, header, u32::from(short(2)?))
            }
            6 => {
                let addr = |at: usize| packet.get(at..at + 16).map(|ip| <[u8; 16]>::try_from(ip).unwrap());
                let addrs = [8, 24].map(|at| addr(at).map(IpAddr::from));
                let class = packet[0] << 4 | packet.get(1)? >> 4;
                (*packet.get(6)?, *packet.get(7)?, class, addrs, 40, 40 + u32::from(short(4)?))
            }
            _ => return None,
        };
        let (seq, ack, above) = match protocol {
            TCP => (word(header + 4)?, word(header + 8)?, u32::from(packet.get(header + 12)? >> 4) * 4),
            UDP => (0, 0, 8),
            _ => return None,
        };
        let len = all - u32::try_from(header).unwrap() - above;
        let (from, to) = ((from?, short(header)?).into(), (to?, short(header + 2)?).into());
        Some(Self { from, to, hops, class, len, seq, ack })
    }
}
