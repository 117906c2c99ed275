//! Demultiplexes datagrams to connected and unconnected sockets.

use pkt::{Gso, Pkt};
use wire::Protocol;
use wire::udp::{HEADER_LEN, Header};

use super::socket::Socket;
use crate::base::count::Count;
use crate::base::drop::DropReason;
use crate::fib::FibIndex;
use crate::host::dgram::Received;
use crate::host::dhcp;
use crate::host::pcb::FourTuple;
use crate::ip::group::Key;
use crate::ip::icmp::{Problem, is_one_host};
use crate::ip::ip_tx::IpTxParams;
use crate::ip::{l4, punt, vxlan_io};
use crate::turn::cpu::Cpu;
use crate::turn::netisr::dispatch;
use crate::turn::next::Next;

/// Takes a datagram for this host in. `pkt` starts with its network header, `pkt.l4` is where UDP starts.
///
/// Next   a socket, [`dhcp::input`], [`vxlan_io::input`], the CPU of its flow, [`punt::offer`],
///        [`Problem::PortUnreachable`].
/// Drops  [`DropReason::UdpMalformed`], [`DropReason::UdpBadChecksum`], [`DropReason::UdpQueueFull`],
///        [`DropReason::GroupSource`].
///
/// # Spec
/// RFC 768; RFC 1122 §4.1; RFC 8200 §8.1.
pub fn input(cpu: &mut Cpu, pkt: Pkt) {
    match judge(cpu, &pkt) {
        Ok(header) => deliver(cpu, pkt, &header),
        Err(reason) => {
            cpu.count(Count::UdpIn);
            cpu.drop_pkt(pkt, reason);
        }
    }
}

/// The header of a datagram that is as long as it says, intact, and for a port that there can be.
fn judge(cpu: &Cpu, pkt: &Pkt) -> Result<Header, DropReason> {
    let range = l4::range(pkt);
    let bytes = pkt.head().get(range.start..).and_then(<[u8]>::first_chunk::<HEADER_LEN>);
    let header = Header::from_bytes(bytes.ok_or(DropReason::UdpMalformed)?);
    let len = usize::from(header.len);
    if !(HEADER_LEN..=range.len()).contains(&len) || header.dst_port == 0 {
        return Err(DropReason::UdpMalformed);
    }
    let intact = match header.checksum {
        //= https://www.rfc-editor.org/rfc/rfc768
        //# An all zero transmitted checksum value means that the
        //# transmitter generated no checksum
        //= https://www.rfc-editor.org/rfc/rfc8200#section-8.1
        //# IPv6 receivers must discard UDP packets containing a
        //# zero checksum
        0 => l4::is_ip4(pkt) || vxlan_io::needs_no_checksum(cpu, header.dst_port),
        _ => {
            l4::is_intact(cpu, pkt, Protocol::UDP, range.start..range.start + len)
                || vxlan_io::may_go_unverified(cpu, pkt, header.dst_port)
        }
    };
    if intact { Ok(header) } else { Err(DropReason::UdpBadChecksum) }
}

fn deliver(cpu: &mut Cpu, mut pkt: Pkt, header: &Header) {
    let (src, dst) = l4::ends(&pkt);
    let ends = FourTuple::new((dst, header.dst_port).into(), (src, header.src_port).into(), pkt.rcvif);
    // What had extension headers was placed without its ports.
    let owner = cpu.placement.owner(ends.flow());
    if owner != cpu.id {
        pkt.resume = l4::resume(&pkt) as u8;
        return dispatch(cpu, pkt, Next::HandOff(owner));
    }
    cpu.count(Count::UdpIn);
    let is_for_one = is_one_host(cpu, dst);
    match cpu.udp.take() {
        Some(mut sockets) => {
            let found_by = sockets.scoped(ends, pkt.rcvif);
            let arrived =
                Arrived { pkt: &pkt, fib: cpu.tables.fib_of(&pkt), header, ends, fate: Fate::Nobody };
            let fate = match is_for_one {
                true => arrived.for_one(sockets.find(&found_by)),
                false => arrived.for_all(|each| sockets.each(&found_by, each)),
            };
            cpu.udp = Some(sockets);
            end(cpu, pkt, fate, (&ends, header.len));
        }
        None => end(cpu, pkt, Fate::Nobody, (&ends, header.len)),
    }
}

fn end(cpu: &mut Cpu, pkt: Pkt, fate: Fate, (ends, len): (&FourTuple, u16)) {
    match fate {
        Fate::Taken => {
            cpu.count(Count::UdpTaken);
            cpu.pool.give(pkt);
        }
        Fate::Full => cpu.drop_pkt(pkt, DropReason::UdpQueueFull),
        Fate::Unwanted => cpu.drop_pkt(pkt, DropReason::GroupSource),
        //= https://www.rfc-editor.org/rfc/rfc1122#section-4.1.3.1
        //# If a datagram arrives addressed to a UDP port for which
        //# there is no pending LISTEN call, UDP SHOULD send an ICMP
        //# Port Unreachable message.
        Fate::Nobody if cpu.dhcp.is_some() || !cpu.tables.logical.vxlans.is_empty() => {
            without_socket(cpu, pkt, ends, len);
        }
        Fate::Nobody => punt::offer_or(cpu, pkt, Next::Answer(Problem::PortUnreachable)),
    }
}

/// Ends a datagram that no socket takes where there are VXLANs or DHCP.
#[cold]
fn without_socket(cpu: &mut Cpu, pkt: Pkt, ends: &FourTuple, len: u16) {
    let left = dhcp::input(cpu, pkt, ends, len).map_or_else(Some, |()| None);
    if let Some(Err(pkt)) = left.map(|pkt| vxlan_io::input(cpu, pkt)) {
        punt::offer_or(cpu, pkt, Next::Answer(Problem::PortUnreachable));
    }
}

/// The fate of a datagram. The best of several sockets counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fate {
    /// No socket.
    Nobody,
    /// Members of the group do not want its source.
    Unwanted,
    /// Its socket has no room.
    Full,
    /// A socket has it.
    Taken,
}

/// A datagram that came.
struct Arrived<'a> {
    pkt: &'a Pkt,
    /// The table that it was routed by.
    fib: FibIndex,
    header: &'a Header,
    ends: FourTuple,
    fate: Fate,
}

impl Arrived<'_> {
    fn for_one(mut self, socket: Option<&mut Socket>) -> Fate {
        if let Some(socket) = socket {
            self.put(socket);
        }
        self.fate
    }

    fn for_all(mut self, sockets: impl FnOnce(&mut dyn FnMut(&mut Socket))) -> Fate {
        let key = Key { ifindex: self.pkt.rcvif, group: self.ends.local };
        sockets(&mut |socket| match socket.admits(key, self.ends.remote) {
            _ if !key.group.is_multicast() => self.put(socket),
            Some(true) => self.put(socket),
            Some(false) => self.fate = self.fate.max(Fate::Unwanted),
            None => {}
        });
        self.fate
    }

    /// Each segment of a super-packet is a datagram.
    fn put(&mut self, socket: &mut Socket) {
        let begin = usize::from(self.pkt.l4) + HEADER_LEN;
        let end = usize::from(self.pkt.l4) + usize::from(self.header.len);
        let step = match self.pkt.gso {
            Gso::Udp => usize::from(self.pkt.gso_size).max(1),
            _ => usize::MAX,
        };
        let mut at = begin;
        loop {
            let segment = at..end.min(at.saturating_add(step));
            at = segment.end;
            self.put_segment(socket, segment);
            if at >= end {
                return;
            }
        }
    }

    fn put_segment(&mut self, socket: &mut Socket, range: core::ops::Range<usize>) {
        if !socket.base.queue.has_room(range.len(), socket.base.settings.queue_bytes) {
            self.fate = self.fate.max(Fate::Full);
            return;
        }
        let received = Received {
            len: range.len(),
            from: self.ends.remote(),
            to: self.ends.local,
            ifindex: self.pkt.rcvif,
            tx_params: IpTxParams { fib: self.fib, ..l4::tx_params(self.pkt) },
        };
        socket.base.queue.push(received, l4::pieces(self.pkt, range));
        self.fate = Fate::Taken;
    }
}

#[cfg(test)]
mod tests;
