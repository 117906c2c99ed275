//! Keepalives of idle connections' states: a probe to both ends, whose replies pass by.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use pkt::{Flags, Pkt, Pool};
use wire::tcp::{self, Header, Options};

use super::entry::{Direction, Kind, State, bits};
use super::key::{End, Flow};
use crate::ip::ip_tx::{IpTxParams, put_segment};

/// A segment in the name of one end to the other: it repeats the byte before what the receiver expects, so that the
/// receiver says what it expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keepalive {
    /// The flow, from the end in whose name it is.
    pub flow: Flow,
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgement.
    pub ack: u32,
}

impl Keepalive {
    /// Returns the keepalives of a state. The two states of a redirected connection have one each, as each end sees only one of them.
    pub(super) fn of(state: &State) -> impl Iterator<Item = Self> + use<> {
        let directions: &[Direction] = match state.kind {
            Kind::RedirectMaster => &[Direction::Reverse],
            Kind::RedirectSlave => &[Direction::Forward],
            // Both ends of what was redirected are asked by those two.
            Kind::Keep | Kind::Limit if state.bits & bits::REDIRECTED != 0 => &[],
            Kind::Keep | Kind::Limit => &[Direction::Forward, Direction::Reverse],
        };
        let (creator, tcp) = (state.creator(), state.tcp);
        directions.iter().map(move |direction| {
            let (seq, ack) = tcp.keepalive(direction.index());
            let flow = if *direction == Direction::Forward { creator } else { creator.reversed() };
            Self { flow, seq, ack }
        })
    }

    /// The packet, which the firewall will not be asked about. `None` if no buffer is free.
    pub fn packet(&self, pool: &mut Pool) -> Option<Pkt> {
        let [from, to] = self.flow.ends();
        let header = Header {
            src_port: from.port,
            dst_port: to.port,
            seq: self.seq,
            ack: self.ack,
            flags: tcp::Flags::ACK,
            window: 0,
            urgent: 0,
            options: Options::NONE,
        };
        let mut pkt = pool.take()?;
        if put_segment(&mut pkt, &header, (self.addr(from), self.addr(to)), IpTxParams::default()).is_none() {
            pool.give(pkt);
            return None;
        }
        pkt.flags.set(Flags::GENERATED);
        Some(pkt)
    }

    fn addr(&self, end: End) -> IpAddr {
        match u32::try_from(end.addr) {
            Ok(addr) if self.flow.key.is_ip4() => Ipv4Addr::from_bits(addr).into(),
            _ => Ipv6Addr::from_bits(end.addr).into(),
        }
    }
}
