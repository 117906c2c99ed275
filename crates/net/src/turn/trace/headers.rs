//! The addresses and ports of a packet.

use core::net::IpAddr;

use ipfw::rule::Hook;
use pkt::Pkt;
use wire::ip6_ext::{Role, walk};
use wire::{Protocol, ip4, ip6};

use crate::firewall::pkt_info::{Part, PktInfo};
use crate::turn::rss;

/// The ends of a packet that begins with its network header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers {
    /// Source.
    pub src: IpAddr,
    /// Destination.
    pub dst: IpAddr,
    /// The upper layer's protocol.
    pub protocol: Protocol,
    /// Source and destination port, if the protocol has ports and the packet is no later fragment.
    pub ports: Option<(u16, u16)>,
}

impl Headers {
    /// Reads them; `None` if rules could not read them either.
    #[must_use]
    pub fn read(pkt: &Pkt) -> Option<Self> {
        let info = PktInfo::read(pkt, Hook::Ingress, 0, 0).ok()?;
        let protocol = Protocol(info.proto);
        let has_ports = matches!(protocol, Protocol::TCP | Protocol::UDP) && info.part != Part::Later;
        let ports = has_ports.then_some((info.src_port, info.dst_port));
        Some(Self { src: info.addr(info.src), dst: info.dst_addr(), protocol, ports })
    }

    /// Returns the hash by which a packet with these ends is placed on a CPU.
    pub(super) fn hash(&self) -> u16 {
        let Self { src, dst, ports, .. } = *self;
        match ports {
            Some((src_port, dst_port)) => rss::hash_flow((src, src_port), (dst, dst_port)),
            None => rss::hash_pair(src, dst),
        }
    }

    /// Reads them from bytes that begin with a network header, and may be cut off.
    #[must_use]
    pub fn of_bytes(bytes: &[u8]) -> Option<Self> {
        let (src, dst, protocol, upper): (IpAddr, IpAddr, _, _) = match bytes.first()? >> 4 {
            4 => {
                let view = ip4::View::new_quoted(bytes).ok()?;
                let upper = (view.fragment_offset() == 0).then(|| view.header_len());
                (view.src().into(), view.dst().into(), view.protocol(), upper)
            }
            6 => {
                let view = ip6::View::new_quoted(bytes).ok()?;
                let chain = walk(&view, Role::Router).ok();
                let (protocol, upper) = chain.map_or_else(
                    || (view.next_header(), None),
                    |chain| (chain.upper, chain.has_upper().then_some(chain.upper_at)),
                );
                (view.src().into(), view.dst().into(), protocol, upper)
            }
            _ => return None,
        };
        let has_ports = matches!(protocol, Protocol::TCP | Protocol::UDP);
        let ports = upper.filter(|_| has_ports).and_then(|at| bytes.get(at..at + 4));
        let ports = ports.map(|ports| {
            (u16::from_be_bytes([ports[0], ports[1]]), u16::from_be_bytes([ports[2], ports[3]]))
        });
        Some(Self { src, dst, protocol, ports })
    }
}
