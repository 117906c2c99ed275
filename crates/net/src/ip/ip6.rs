//! IPv6.

pub mod input;
pub mod local;
pub(crate) mod headers;
pub mod icmp6;
pub mod nd;
pub mod autoconf;
pub mod rtadv;
pub mod output;

use core::net::{IpAddr, Ipv6Addr};

use pkt::{Flags, Pkt};
use wire::ether::EtherType;
use wire::icmp6::{Message, parameter_problem};
use wire::ip6_ext::{Error, IcmpReply};

use crate::base::count::Count;
use crate::base::drop::DropReason;
use crate::ip::forward::Family;
use crate::ip::icmp::Problem;
use crate::turn::next::Next;

/// IPv6, as [`crate::ip::forward`] sees it.
pub enum Ip6 {}

/// The destination of an IPv6 packet that [`input`] let pass.
#[inline]
#[must_use]
pub fn dst(pkt: &Pkt) -> Ipv6Addr {
    addr_at(pkt, 24)
}

/// The source of an IPv6 packet that [`input`] let pass.
#[inline]
#[must_use]
pub fn src(pkt: &Pkt) -> Ipv6Addr {
    addr_at(pkt, 8)
}

#[inline]
fn addr_at(pkt: &Pkt, at: usize) -> Ipv6Addr {
    let octets: Option<&[u8; 16]> = pkt.window(0).get(at..).and_then(<[u8]>::first_chunk);
    octets.map_or(Ipv6Addr::UNSPECIFIED, |octets| Ipv6Addr::from(*octets))
}

impl Family for Ip6 {
    const LOCAL: Next = Next::Local6;
    const RECEIVED: Count = Count::Ip6In;
    const FORWARDED: Count = Count::Ip6Forwarded;
    const ETHERTYPE: EtherType = EtherType::IPV6;

    fn ttl(pkt: &Pkt) -> u8 {
        pkt.window(0)[7]
    }

    #[inline]
    fn take_hop(pkt: &mut Pkt) -> bool {
        let hop_limit = &mut pkt.window_mut(0)[7];
        let is_left = *hop_limit > 1;
        *hop_limit = hop_limit.wrapping_sub(u8::from(is_left));
        is_left
    }

    fn dst(pkt: &Pkt) -> IpAddr {
        dst(pkt).into()
    }

    fn confined(pkt: &Pkt) -> Option<Next> {
        // RFC 4291 §2.5.6: routers must not forward any packets with link-local source or destination addresses.
        let confined = src(pkt).is_unicast_link_local() || dst(pkt).is_unicast_link_local();
        confined.then_some(Next::Answer(Problem::BeyondScope))
    }

    fn too_big(pkt: &Pkt, mtu: u32) -> Next {
        // RFC 8200 §5: only the source fragments; and it has, if this was put together on its way.
        if pkt.flags.has(Flags::REASSEMBLED) { Next::Fragment } else { Next::Answer(Problem::TooBig { mtu }) }
    }
}

/// Decides on a packet to `dst` whose extension headers cannot be accepted.
pub(crate) fn refuse(error: &Error, dst: Ipv6Addr) -> Next {
    let message = match error.answer() {
        IcmpReply::Always(message) => message,
        IcmpReply::UnlessMulticast(message) if !dst.is_multicast() => message,
        IcmpReply::UnlessMulticast(_) | IcmpReply::Silence => return Next::Drop(reason(error)),
    };
    let Message::ParameterProblem { code, pointer } = message else { return Next::Drop(reason(error)) };
    Next::Answer(match code {
        parameter_problem::UNKNOWN_OPTION => Problem::UnknownOption { pointer },
        parameter_problem::UNKNOWN_NEXT_HEADER => Problem::ProtocolUnreachable { pointer },
        parameter_problem::INCOMPLETE_CHAIN => Problem::IncompleteChain,
        _ => Problem::Parameter { pointer },
    })
}

const fn reason(error: &Error) -> DropReason {
    match error {
        Error::TooManyHeaders { .. } | Error::TooManyOptionBytes { .. } => DropReason::Ip6TooManyExtensions,
        Error::UnknownOption { .. } => DropReason::Ip6UnknownOption,
        Error::RoutingHeader { .. } => DropReason::Ip6RoutingHeader,
        _ => DropReason::Ip6BadExtension,
    }
}
