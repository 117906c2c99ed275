//! Received errors: they belong to the sender of the packet that they quote.

use core::net::IpAddr;

use pkt::{Pkt, WINDOW};
use wire::{Protocol, ip4, ip6};

use super::{Message, Problem};
use crate::base::count::Count;
use crate::base::drop::{DropReason, Fate};
use crate::ip::ip6::headers;
use crate::ip::{l4, pmtu, punt, tunnel_io};
use crate::turn::cpu::{Cpu, CpuId};
use crate::turn::deliver;
use crate::turn::netisr::dispatch;
use crate::turn::next::Next;
use crate::turn::rss;

/// Bytes of the quoted packet that are looked at: IPv6 with a few extension headers, and the ports behind them.
const QUOTE_MAX: usize = 128;

/// Bytes of an IPv6 header.
const HEADER6_LEN: u16 = 40;

/// Bytes of an error in front of what it quotes, in both families.
const QUOTE_AT: usize = 8;

/// The packet that an error quotes, as we had sent it.
pub(crate) struct Quoted {
    /// From which of our addresses.
    pub(crate) local: IpAddr,
    /// Destination.
    pub(crate) remote: IpAddr,
    /// Its protocol.
    pub(crate) protocol: Protocol,
    /// The first bytes of the upper layer: ports, or the echo's header.
    pub(crate) upper: [u8; 8],
    /// The place of the upper layer in the packet that was read.
    pub(crate) upper_at: usize,
    /// Its length, as it says.
    pub(crate) len: u16,
    /// Whether routers may not cut it.
    pub(crate) dont_fragment: bool,
    /// The CPU that sent it.
    owner: CpuId,
}

/// Reports a received error to the sender of the quoted packet, if it was sent from here.
///
/// An error comes to the CPU of its sender's address; what it quotes may be of a flow of another.
///
/// Next   [`deliver::raw`], [`deliver::icmp_error`], [`tunnel_io::report`], the CPU that owns what is quoted.
/// Drops  [`DropReason::IcmpMalformed`], [`DropReason::IcmpNotSent`], [`DropReason::IcmpUnsolicited`].
pub(crate) fn report(cpu: &mut Cpu, mut pkt: Pkt, message: Message) {
    let Some(quoted) =
        Quoted::read(cpu, &pkt, usize::from(pkt.l4) + QUOTE_AT).filter(|_| is_credible(message))
    else {
        return cpu.drop_pkt(pkt, DropReason::IcmpMalformed);
    };
    if quoted.owner != cpu.id {
        pkt.resume = l4::resume(&pkt) as u8;
        return dispatch(cpu, pkt, Next::HandOff(quoted.owner));
    }
    cpu.count(if l4::is_ip4(&pkt) { Count::IcmpErrorsIn } else { Count::Icmp6ErrorsIn });
    let is_shown = deliver::raw(cpu, &pkt);
    if !cpu.tables.is_ours(quoted.local) {
        return cpu.finish(pkt, fate(is_shown));
    }
    let (from, mtu) = (l4::ends(&pkt).0, path_mtu(message, &quoted));
    if tunnel_io::is_of_tunnel(cpu, &quoted) {
        return tunnel_io::report(cpu, pkt, from, &quoted, mtu);
    }
    if mtu.is_some_and(|mtu| !pmtu::is_credible(cpu, pkt.rcvif, &quoted, mtu)) {
        return punt::offer_or(cpu, pkt, Next::Drop(DropReason::IcmpNotSent));
    }
    let is_known = deliver::icmp_error(cpu, from, pkt.rcvif, (&quoted, &pkt), message);
    // TCP knows best whether its segment is real, and makes smaller ones itself.
    if let Some(mtu) = mtu.filter(|_| is_known || quoted.protocol != Protocol::UDP) {
        pmtu::learn(cpu, pkt.rcvif, from, &quoted, mtu);
    }
    match fate(is_known || is_shown) {
        Ok(consumed) => cpu.finish(pkt, Ok(consumed)),
        Err(reason) => punt::offer_or(cpu, pkt, Next::Drop(reason)),
    }
}

fn fate(is_consumed: bool) -> Fate {
    if is_consumed { Ok(Count::IcmpConsumed) } else { Err(DropReason::IcmpUnsolicited) }
}

/// Reports to a local sender that its packet could not be sent.
pub(super) fn failed(cpu: &mut Cpu, pkt: &Pkt, problem: Problem) {
    if let (Some(quoted), Some(message)) = (Quoted::read(cpu, pkt, 0), Message::about(pkt, problem)) {
        deliver::icmp_error(cpu, quoted.local, pkt.outif, (&quoted, pkt), message);
        if let Problem::TooBig { mtu } = problem {
            pmtu::learn(cpu, pkt.outif, quoted.local, &quoted, mtu);
        }
    }
}

/// Whether a message may be believed: no link is so small.
//= https://www.rfc-editor.org/rfc/rfc8201#section-4
//# If a node receives a Packet Too Big message reporting a next-hop MTU
//# that is less than the IPv6 minimum link MTU, it must discard it.
//= https://www.rfc-editor.org/rfc/rfc1191#section-3
//# A host MUST never reduce its estimate of the Path MTU below 68
//# octets.
fn is_credible(message: Message) -> bool {
    match message {
        // A router from before RFC 1191 says 0.
        Message::V4(wire::icmp4::Message::Unreachable {
            code: wire::icmp4::unreachable::FRAGMENTATION_NEEDED,
            mtu,
        }) => mtu == 0 || mtu >= ip4::MIN_MTU,
        Message::V6(wire::icmp6::Message::PacketTooBig { mtu }) => mtu >= u32::from(ip6::MIN_MTU),
        _ => true,
    }
}

/// Returns the path MTU that an error reports.
fn path_mtu(message: Message, quoted: &Quoted) -> Option<u32> {
    match message {
        Message::V4(wire::icmp4::Message::Unreachable {
            code: wire::icmp4::unreachable::FRAGMENTATION_NEEDED,
            mtu: 0,
        }) => Some(pmtu::plateau_below(quoted.len).into()),
        Message::V4(wire::icmp4::Message::Unreachable {
            code: wire::icmp4::unreachable::FRAGMENTATION_NEEDED,
            mtu,
        }) => Some(mtu as u32),
        Message::V6(wire::icmp6::Message::PacketTooBig { mtu }) => Some(mtu),
        _ => None,
    }
}

impl Quoted {
    /// Reads the packet that starts `at` bytes into `pkt`, perhaps cut off. `None` if there is too little of it to know
    /// whose it was, or it is a fragment that does not say.
    pub(crate) fn read(cpu: &Cpu, pkt: &Pkt, at: usize) -> Option<Self> {
        let mut bytes = [0; QUOTE_MAX];
        let len = pkt.copy_out(at, &mut bytes);
        let quoted = Self::of_bytes(cpu, l4::is_ip4(pkt), &bytes, len)?;
        Some(Self { upper_at: at + quoted.upper_at, ..quoted })
    }

    /// Reads the IPv6 packet that `quote` begins with.
    pub(crate) fn read_v6(cpu: &Cpu, quote: &[u8]) -> Option<Self> {
        let mut bytes = [0; QUOTE_MAX];
        let len = quote.len().min(QUOTE_MAX);
        bytes.get_mut(..len)?.copy_from_slice(quote.get(..len)?);
        Self::of_bytes(cpu, false, &bytes, len)
    }

    fn of_bytes(cpu: &Cpu, is_ip4: bool, bytes: &[u8; QUOTE_MAX], len: usize) -> Option<Self> {
        let (window, there) = (bytes.first_chunk::<WINDOW>()?, bytes.get(..len)?);
        let quoted = if is_ip4 { Self::read4(cpu, there, window) } else { Self::read6(cpu, there, window) };
        quoted.map(|quoted| quoted.of_its_flow(cpu))
    }

    /// The CPU that has sent the packet, if it was sent from here.
    pub(crate) const fn owner(&self) -> CpuId {
        self.owner
    }

    fn read4(cpu: &Cpu, bytes: &[u8], window: &[u8; WINDOW]) -> Option<Self> {
        let view = ip4::View::new_quoted(bytes).ok().filter(|view| view.fragment_offset() == 0)?;
        Some(Self {
            local: view.src().into(),
            remote: view.dst().into(),
            protocol: view.protocol(),
            upper: *view.payload().first_chunk()?,
            upper_at: view.header_len(),
            len: view.total_len(),
            dont_fragment: view.dont_fragment(),
            owner: cpu.placement.owner(rss::hash4(window)),
        })
    }

    fn read6(cpu: &Cpu, bytes: &[u8], window: &[u8; WINDOW]) -> Option<Self> {
        let view = ip6::View::new_quoted(bytes).ok()?;
        let upper = headers::upper(bytes).filter(|upper| upper.fragment_offset.unwrap_or(0) == 0)?;
        Some(Self {
            local: view.src().into(),
            remote: view.dst().into(),
            protocol: upper.protocol,
            upper: *bytes.get(upper.at..)?.first_chunk()?,
            upper_at: upper.at,
            len: view.payload_len().saturating_add(HEADER6_LEN),
            dont_fragment: true,
            owner: cpu.placement.owner(rss::hash6(window)),
        })
    }

    /// A fragment, and a packet with extension headers, is placed without its ports; its sender is where its flow is.
    fn of_its_flow(self, cpu: &Cpu) -> Self {
        let [a, b, c, d, ..] = self.upper.map(u16::from);
        let (local, remote) = ((self.local, a << 8 | b), (self.remote, c << 8 | d));
        match self.protocol {
            Protocol::TCP | Protocol::UDP => {
                Self { owner: cpu.placement.owner(rss::hash_flow(local, remote)), ..self }
            }
            _ => self,
        }
    }
}
