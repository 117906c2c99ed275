//! Fields of headers that only some rules ask for: read when one does.

use ipfw::rule::{Hook, ext6_header, frag, ip_option, tcp_option};
use pkt::{Flags as PktFlags, Pkt};
use wire::ether::HEADER_LEN;
use wire::tcp::Flags;
use wire::{Protocol, ip4, tcp};

use super::program::Asked;
use crate::firewall::pkt_info::{Part, PktInfo};
use crate::ip::ip6::headers;
use crate::link::ether::TAG_LEN;

/// The field of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    SrcPort,
    DstPort,
    Recv,
    Xmit,
    Via,
    Tag,
    Fib,
    IpLen,
    IpTtl,
    /// IPv4's identification.
    IpId,
    /// IPv4's type of service.
    IpTos,
    /// IPv4's precedence.
    IpPrecedence,
    Dscp,
    /// IPv4's options, as [`ip_option`].
    IpOptions,
    /// IPv6's flow label.
    FlowLabel,
    /// IPv6's headers, as [`ext6_header`].
    Ext6,
    /// Fragment bits, as [`frag`].
    Frag,
    TcpFlags,
    /// TCP's options, as [`tcp_option`].
    TcpOptions,
    TcpSeq,
    TcpAck,
    TcpWin,
    TcpMss,
    TcpDataLen,
    /// ICMP's type, of IPv4.
    IcmpType,
    /// ICMP's type, of IPv6.
    Icmp6Type,
    /// ICMP's code, of either family.
    IcmpCode,
    MacType,
}

impl Field {
    /// Whether it is the same in all packets of a flow.
    pub(super) const fn is_pure(self) -> bool {
        matches!(
            self,
            Self::SrcPort
                | Self::DstPort
                | Self::Recv
                | Self::Xmit
                | Self::Via
                | Self::Fib
                | Self::IpPrecedence
                | Self::Dscp
                | Self::IcmpType
                | Self::Icmp6Type
                | Self::IcmpCode
                | Self::MacType
        )
    }

    /// Its value; `None` if the packet has no such field.
    pub(super) fn of(self, asked: &Asked<'_>) -> Option<u32> {
        let Asked { info, pkt, .. } = asked;
        let ip = pkt.window(0);
        let of_ip4 = |value: u32| info.is_ip4.then_some(value);
        match self {
            Self::SrcPort => info.has_ports().then_some(info.src_port.into()),
            Self::DstPort => info.has_ports().then_some(info.dst_port.into()),
            // Interface 0 is none.
            Self::Recv => some(info.recv),
            Self::Xmit => some(info.xmit),
            Self::Via => some(info.via()),
            Self::Tag => some(info.tag),
            Self::Fib => Some(asked.tables.fib_of(pkt).into()),
            Self::IpLen => Some(u32::try_from(pkt.len()).unwrap_or(u32::MAX).min(u16::MAX.into())),
            Self::IpTtl => Some(if info.is_ip4 { ip[8] } else { ip[7] }.into()),
            Self::IpId => of_ip4(u16::from_be_bytes([ip[4], ip[5]]).into()),
            Self::IpTos => of_ip4(ip[1].into()),
            Self::IpPrecedence => of_ip4((ip[1] >> 5).into()),
            Self::Dscp => Some((tos(info, pkt) >> 2).into()),
            Self::IpOptions => of_ip4(ip4_options(pkt)),
            Self::FlowLabel => {
                let [a, b, c] = [ip[1] & 0xf, ip[2], ip[3]];
                (!info.is_ip4).then_some(u32::from_be_bytes([0, a, b, c]))
            }
            Self::Ext6 => (!info.is_ip4).then(|| ext6(pkt)),
            Self::Frag => Some(fragment(info, pkt)),
            Self::MacType if info.hook == Hook::Frame => frame_type(pkt),
            Self::MacType => Some(if info.is_ip4 { 0x0800 } else { 0x86dd }),
            Self::IcmpType => (info.is_icmp() && info.is_ip4).then_some(info.src_port.into()),
            Self::Icmp6Type => (info.is_icmp() && !info.is_ip4).then_some(info.src_port.into()),
            Self::IcmpCode => info.is_icmp().then_some(info.dst_port.into()),
            _ if info.is_tcp() => self.of_tcp(info, pkt),
            _ => None,
        }
    }

    fn of_tcp(self, info: &PktInfo, pkt: &Pkt) -> Option<u32> {
        let segment = pkt.head().get(usize::from(info.l4)..)?;
        let word = |at: usize| segment.get(at..)?.first_chunk().map(|word| u32::from_be_bytes(*word));
        match self {
            Self::TcpFlags => Some(info.tcp_flags.into()),
            Self::TcpSeq => word(4),
            Self::TcpAck => word(8),
            Self::TcpWin => word(12).map(|word| word & 0xffff),
            Self::TcpOptions => Some(tcp_options(segment)),
            Self::TcpMss if Flags(info.tcp_flags).syn() => tcp_mss(segment),
            Self::TcpDataLen => {
                let headers = usize::from(info.l4) + usize::from(segment.get(12)? >> 4) * 4;
                u32::try_from(pkt.len().saturating_sub(headers)).ok()
            }
            _ => None,
        }
    }
}

/// Link addresses, receiver and sender, of the frame that a packet has just come in: its header lies in front of the
/// packet still. `None` behind the way in, where another may have been written over it, and of what no frame brought as
/// it is.
pub(super) fn frame(asked: &Asked<'_>) -> Option<[u64; 2]> {
    let Asked { info, pkt, .. } = asked;
    if info.hook.is_layer2() {
        return addrs(pkt, HEADER_LEN);
    }
    let no_frame = pkt.moved || pkt.flags.any(PktFlags::LOCAL.with(PktFlags::REASSEMBLED));
    if info.hook != Hook::Ingress || no_frame {
        return None;
    }
    let tags = asked.tables.logical.tags(pkt.rcvif).max(usize::from(pkt.flags.has(PktFlags::VLAN)));
    addrs(pkt, HEADER_LEN + tags * TAG_LEN)
}

/// The link addresses that lie so many bytes in front of a packet.
fn addrs(pkt: &Pkt, before: usize) -> Option<[u64; 2]> {
    let [a, b, c, d, e, f, g, h, i, j, k, l] = *pkt.before(before)?.first_chunk::<12>()?;
    Some([[0, 0, a, b, c, d, e, f], [0, 0, g, h, i, j, k, l]].map(u64::from_be_bytes))
}

/// The type of the frame whose header lies in front of its payload.
fn frame_type(pkt: &Pkt) -> Option<u32> {
    let [hi, lo] = *pkt.before(2)?.first_chunk()?;
    Some(u16::from_be_bytes([hi, lo]).into())
}

fn some(index: u16) -> Option<u32> {
    (index != 0).then_some(index.into())
}

/// Type of service, or traffic class.
fn tos(info: &PktInfo, pkt: &Pkt) -> u8 {
    let ip = pkt.window(0);
    if info.is_ip4 { ip[1] } else { ip[0] << 4 | ip[1] >> 4 }
}

fn ip4_options(pkt: &Pkt) -> u32 {
    let len = usize::from(pkt.window(0)[0] & 0xf) * 4;
    let options = ip4::OptionIter::new(pkt.head().get(ip4::HEADER_LEN..len).unwrap_or_default());
    let kinds = options.map_while(Result::ok).map(|option| match option {
        ip4::Opt::LooseSourceRoute(_) => ip_option::LSRR,
        ip4::Opt::StrictSourceRoute(_) => ip_option::SSRR,
        ip4::Opt::RecordRoute(_) => ip_option::RR,
        ip4::Opt::Timestamps(_) => ip_option::TS,
        _ => 0,
    });
    kinds.fold(0, |all, kind| all | u32::from(kind))
}

fn ext6(pkt: &Pkt) -> u32 {
    let kind = |(protocol, at): (Protocol, usize)| match protocol {
        Protocol::FRAGMENT => ext6_header::FRAG,
        Protocol::HOP_BY_HOP => ext6_header::HOP_OPTIONS,
        Protocol::DESTINATION_OPTIONS => ext6_header::DST_OPTIONS,
        Protocol::AH => ext6_header::AH,
        Protocol::ESP => ext6_header::ESP,
        Protocol::ROUTING => match pkt.head().get(at + 2) {
            Some(0) => ext6_header::ROUTE | ext6_header::ROUTE0,
            Some(2) => ext6_header::ROUTE | ext6_header::ROUTE2,
            _ => ext6_header::ROUTE,
        },
        _ => 0,
    };
    headers::each(pkt.head()).fold(0, |all, header| all | u32::from(kind(header)))
}

fn fragment(info: &PktInfo, pkt: &Pkt) -> u32 {
    let mut bits = match info.part {
        Part::Whole => 0,
        Part::First => frag::PART,
        Part::Later => frag::PART | frag::OFFSET,
    };
    let more = if info.is_ip4 {
        let flags = pkt.window(0)[6];
        bits |= if flags & 0x40 != 0 { frag::DF } else { 0 };
        bits |= if flags & 0x80 != 0 { frag::RF } else { 0 };
        flags & 0x20 != 0
    } else {
        info.part != Part::Whole && headers::upper(pkt.head()).is_some_and(|upper| upper.more_fragments)
    };
    u32::from(bits | if more { frag::MF } else { 0 })
}

fn options(segment: &[u8]) -> tcp::OptionIter<'_> {
    let len = segment.get(12).map_or(0, |offset| usize::from(offset >> 4) * 4);
    tcp::OptionIter::new(segment.get(tcp::HEADER_LEN..len).unwrap_or_default())
}

fn tcp_mss(segment: &[u8]) -> Option<u32> {
    options(segment).map_while(Result::ok).find_map(|option| match option {
        tcp::Opt::Mss(mss) => Some(mss.into()),
        _ => None,
    })
}

fn tcp_options(segment: &[u8]) -> u32 {
    let kinds = options(segment).map_while(Result::ok).map(|option| match option {
        tcp::Opt::Mss(_) => tcp_option::MSS,
        tcp::Opt::WindowScale(_) => tcp_option::WINDOW,
        tcp::Opt::SackPermitted | tcp::Opt::Sack(_) => tcp_option::SACK,
        tcp::Opt::Timestamps { .. } => tcp_option::TS,
        tcp::Opt::Unknown { kind: 11..=13, .. } => tcp_option::CC,
        _ => 0,
    });
    kinds.fold(0, |all, kind| all | u32::from(kind))
}
