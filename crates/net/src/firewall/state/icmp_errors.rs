//! Errors of ICMP: they belong to the flow of the packet that they quote.

use pkt::{Pkt, WINDOW};
use wire::{Protocol, ip4};

use super::entry::{Direction, bits};
use super::key::Flow;
use super::{Hit, States};
use crate::base::time::Instant;
use crate::firewall::pkt_info::{Part, PktInfo};
use crate::firewall::ruleset::FlowId;
use crate::ip::ip6::headers;

/// Bytes of the quoted packet that are looked at: IPv6 with a few extension headers, and the ports behind them.
const QUOTE_MAX: usize = 128;
/// Bytes of an error in front of what it quotes.
const QUOTE_AT: usize = 8;
/// Bytes of the upper layer that a quote has at the least (RFC 792).
const UPPER_MIN: usize = 8;

/// The packet that an error quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quoted {
    /// Its flow: [`Flow::ends`] are its source and its destination. Whose CPU this flow is, must judge the error.
    pub flow: Flow,
    /// Its sequence number, if it is TCP.
    seq: Option<u32>,
}

impl Quoted {
    /// Reads what an error quotes. `None` if the packet is no error that concerns a flow, or quotes too little, a later
    /// fragment, another error, or a packet of another sender than the destination of the error.
    #[must_use]
    pub fn read(info: &PktInfo, pkt: &Pkt) -> Option<Self> {
        if info.part != Part::Whole || !concerns_a_flow(info) {
            return None;
        }
        let mut bytes = [0; QUOTE_MAX];
        let len = pkt.copy_out(usize::from(info.l4) + QUOTE_AT, &mut bytes);
        Self::parse(info, bytes.get(..len)?).filter(|quoted| quoted.flow.ends()[0].addr == info.dst)
    }

    fn parse(info: &PktInfo, bytes: &[u8]) -> Option<Self> {
        let (src, dst, proto, upper) = if info.is_ip4 { read4(bytes)? } else { read6(bytes)? };
        if upper.len() < UPPER_MIN {
            return None;
        }
        let mut l4 = [0; WINDOW];
        let len = upper.len().min(WINDOW);
        l4[..len].copy_from_slice(&upper[..len]);
        let port = |at: usize| u16::from_be_bytes([l4[at], l4[at + 1]]);
        let quoted = PktInfo {
            part: Part::Whole,
            proto: proto.0,
            src,
            dst,
            src_port: port(0),
            dst_port: port(2),
            ..*info
        };
        let flow = Flow::of_parts(&quoted, &l4)?;
        let seq = u32::from_be_bytes([l4[4], l4[5], l4[6], l4[7]]);
        Some(Self { flow, seq: (proto == Protocol::TCP).then_some(seq) })
    }
}

/// Source, destination, and what is behind the network header.
type Parts<'a> = (u128, u128, Protocol, &'a [u8]);

fn read4(bytes: &[u8]) -> Option<Parts<'_>> {
    let view = ip4::View::new_quoted(bytes).ok().filter(|view| view.fragment_offset() == 0)?;
    Some((view.src().to_bits().into(), view.dst().to_bits().into(), view.protocol(), view.payload()))
}

fn read6(bytes: &[u8]) -> Option<Parts<'_>> {
    let view = wire::ip6::View::new_quoted(bytes).ok()?;
    let upper = headers::upper(bytes).filter(|upper| upper.fragment_offset.unwrap_or(0) == 0)?;
    Some((view.src().to_bits(), view.dst().to_bits(), upper.protocol, bytes.get(upper.at..)?))
}

/// Whether it is an error that ends a flow, or changes how its packets are to be. Redirects and source quench (RFC 6633)
/// are none.
const fn concerns_a_flow(info: &PktInfo) -> bool {
    match (Protocol(info.proto), info.is_ip4) {
        (Protocol::ICMP, true) => matches!(info.src_port, 3 | 11 | 12),
        (Protocol::ICMP6, false) => matches!(info.src_port, 1..=4),
        _ => false,
    }
}

impl States {
    /// The state, of this name or of [any](FlowId::ANY), of the flow that an error quotes, if the quoted packet can have been one of it: it went in a direction
    /// in which packets have been seen, and a segment of TCP says what was sent. [`Hit::direction`] is that of the quoted
    /// packet. The error does not lengthen the state's life.
    //= https://www.rfc-editor.org/rfc/rfc5927#section-4.1
    //# TCP SHOULD check that the TCP sequence number contained in the
    //# payload of the ICMP error message is within the range SND.UNA =<
    //# SEG.SEQ < SND.NXT.
    #[must_use]
    pub fn find_quoted(&self, quoted: &Quoted, name: FlowId, now: Instant) -> Option<Hit> {
        let id = self.find(&quoted.flow, self.hash(&quoted.flow), name, now)?;
        let state = self.get(id)?;
        let direction = state.direction(&quoted.flow);
        let was_sent = match quoted.seq {
            Some(seq) => state.tcp.has_sent(direction.index(), seq),
            None => direction == Direction::Forward || state.bits & bits::ANSWERED != 0,
        };
        was_sent.then_some(Hit { id, rule: state.rule, kind: state.kind, direction, is_denied: false })
    }
}
