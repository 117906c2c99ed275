//! IPv4.

pub mod input;
pub mod local;
pub mod icmp;
pub mod output;

use core::net::{IpAddr, Ipv4Addr};

use pkt::Pkt;
use wire::checksum;
use wire::ether::EtherType;

use crate::base::count::Count;
use crate::base::drop::DropReason;
use crate::ip::forward::Family;
use crate::ip::icmp::Problem;
use crate::turn::next::Next;

/// IPv4, as [`crate::ip::forward`] sees it.
pub enum Ip4 {}

/// The destination of an IPv4 packet that [`input`] let pass.
#[inline]
#[must_use]
pub fn dst(pkt: &Pkt) -> Ipv4Addr {
    let [.., a, b, c, d] = *header(pkt);
    Ipv4Addr::new(a, b, c, d)
}

/// The source of an IPv4 packet that [`input`] let pass.
#[inline]
#[must_use]
pub fn src(pkt: &Pkt) -> Ipv4Addr {
    let [.., a, b, c, d, _, _, _, _] = *header(pkt);
    Ipv4Addr::new(a, b, c, d)
}

/// The 20 fixed bytes of the header.
#[inline]
#[must_use]
pub fn header(pkt: &Pkt) -> &[u8; 20] {
    pkt.window(0).first_chunk().unwrap_or(&[0; 20])
}

impl Family for Ip4 {
    const LOCAL: Next = Next::Local4;
    const RECEIVED: Count = Count::Ip4In;
    const FORWARDED: Count = Count::Ip4Forwarded;
    const ETHERTYPE: EtherType = EtherType::IPV4;

    fn ttl(pkt: &Pkt) -> u8 {
        header(pkt)[8]
    }

    #[inline]
    fn take_hop(pkt: &mut Pkt) -> bool {
        pkt.window_mut(0).first_chunk_mut().is_some_and(checksum::take_hop)
    }

    fn dst(pkt: &Pkt) -> IpAddr {
        dst(pkt).into()
    }

    fn confined(pkt: &Pkt) -> Option<Next> {
        // RFC 3927 §2.7: a router MUST NOT forward a packet with a link-local source or destination.
        let confined = src(pkt).is_link_local() || dst(pkt).is_link_local();
        confined.then_some(Next::Drop(DropReason::Ip4MartianDestination))
    }

    fn too_big(pkt: &Pkt, mtu: u32) -> Next {
        let dont_fragment = header(pkt)[6] & 0x40 != 0;
        if dont_fragment { Next::Answer(Problem::TooBig { mtu }) } else { Next::Fragment }
    }
}
