//! Which numbers of a script stand for which on the wire.

use core::net::IpAddr;
use std::collections::BTreeMap;

use drill::packet::{Flags, Packet, Payload, Ports, SeqStart, Tcp, TcpOption, TcpOptions};

use super::pattern::Stream;

/// The first port of the other end; each connection that it begins has the next.
const REMOTE_PORT: u16 = 40_000;

/// The phase of a connection, as a script's packets and calls show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// A socket was made.
    New,
    /// It listens.
    Listening,
    /// A packet was sent to it from outside.
    Asked,
    /// It has answered with a SYN.
    Answered,
    /// Both ends know the other's first sequence number.
    Stands,
    /// The program has asked it to connect.
    Connecting,
    /// It should have sent its SYN.
    SynSent,
}

/// A connection, or what may become one.
#[derive(Clone, Debug)]
pub(super) struct Conn {
    /// Its phase.
    pub(super) phase: Phase,
    /// The descriptor of its socket, if it has one.
    pub(super) fd: Option<i64>,
    /// The host's port; 0 is none.
    pub(super) local_port: u16,
    /// The other end's port; 0 is none.
    pub(super) remote_port: u16,
    /// Where the host's sequence numbers begin: in the script, and on the wire.
    local_isn: Option<(u32, u32)>,
    /// Where those of the other end begin.
    pub(super) remote_isn: u32,
    /// Time stamps that the script expected, and those that came.
    stamps: BTreeMap<u32, u32>,
    /// The first of them.
    first_stamp: Option<(u32, u32)>,
    /// All that the program has sent.
    written: Vec<u8>,
    /// The other end's stream.
    incoming: Incoming,
}

/// The other end's stream, as the script's segments and the program's calls show it. Places are sequence numbers on the wire.
#[derive(Clone, Debug, Default)]
struct Incoming {
    /// The next byte that the program reads; `None` before there was a SYN.
    next: Option<u32>,
    /// A segment has brought bytes.
    has_begun: bool,
    /// Bytes that segments call urgent, the last one at the end.
    urgent: Vec<u32>,
}

/// The kind of read call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// Bytes of the stream; the urgent ones are in their place.
    Inline,
    /// Bytes of the stream; the urgent ones are not among them.
    Stream,
    /// Bytes of the stream, as with [`Reading::Inline`], which stay there.
    PeekInline,
    /// Bytes of the stream, as with [`Reading::Stream`], which stay there.
    Peek,
    /// The urgent byte.
    Urgent,
}

impl Incoming {
    /// A segment goes to the host, which begins with this number.
    fn take(&mut self, seq: u32, tcp: &Tcp) {
        let flags = tcp.flags.value;
        let first = first_byte(seq, flags);
        if flags.contains(Flags::SYN) && !self.has_begun {
            self.next = Some(first);
        }
        self.has_begun |= tcp.seq.value.len > 0;
        // The pointer leads behind the urgent byte, as it does everywhere (RFC 6093).
        let pointer = tcp.urgent.map_or(0, |urgent| u32::from(urgent.value));
        if flags.contains(Flags::URG) && pointer > 0 {
            let at = first.wrapping_add(pointer - 1);
            self.urgent.retain(|known| *known != at);
            self.urgent.push(at);
        }
    }

    /// Whether the bytes are those that come next; they are read with this, unless they were peeked at.
    fn read(&mut self, bytes: &[u8], how: Reading) -> bool {
        if how == Reading::Urgent {
            let byte = self.urgent.last().map(|at| Stream::ToHost.byte(*at));
            return byte.as_slice() == bytes;
        }
        let Some(mut at) = self.next else { return bytes.is_empty() };
        let is_inline = matches!(how, Reading::Inline | Reading::PeekInline);
        for byte in bytes {
            while !is_inline && self.urgent.contains(&at) {
                at = at.wrapping_add(1);
            }
            if *byte != Stream::ToHost.byte(at) {
                return false;
            }
            at = at.wrapping_add(1);
        }
        if matches!(how, Reading::Inline | Reading::Stream) {
            self.next = Some(at);
        }
        true
    }
}

/// The number of the first byte that a segment brings: a SYN is before it.
pub(super) const fn first_byte(seq: u32, flags: Flags) -> u32 {
    if flags.contains(Flags::SYN) { seq.wrapping_add(1) } else { seq }
}

impl Conn {
    /// One that nothing is known of.
    pub(super) const fn new(phase: Phase, fd: Option<i64>) -> Self {
        Self {
            phase,
            fd,
            local_port: 0,
            remote_port: 0,
            local_isn: None,
            remote_isn: 0,
            stamps: BTreeMap::new(),
            first_stamp: None,
            written: Vec::new(),
            incoming: Incoming { next: None, has_begun: false, urgent: Vec::new() },
        }
    }

    /// Whether the bytes of a segment, in the script's numbers, are those that the program has sent in this place.
    pub(super) fn has_written(&self, tcp: &Tcp, payload: &[u8]) -> bool {
        let SeqStart::Relative(start) = tcp.seq.value.start else { return true };
        // Our SYN comes before the first byte, and what is sent with it is behind it.
        let at = if tcp.flags.value.contains(Flags::SYN) { 0 } else { start.wrapping_sub(1) };
        let rest = self.written.get(at as usize..);
        payload.is_empty() || rest.is_some_and(|rest| rest.starts_with(payload))
    }

    /// Whether a packet from the host with these ports is of this connection.
    pub(super) const fn sends(&self, ports: Ports) -> bool {
        self.local_port == ports.src && self.remote_port == ports.dst
    }

    /// The number on the wire of a segment from the other end, if the script has one.
    pub(super) const fn remote_seq(&self, tcp: &Tcp) -> Option<u32> {
        match tcp.seq.value.start {
            SeqStart::Relative(seq) => Some(seq.wrapping_add(self.remote_offset(tcp.flags.value))),
            SeqStart::Absolute(seq) => Some(seq),
            SeqStart::Any => None,
        }
    }

    /// Returns the offset of a sequence number of the remote end.
    pub(super) const fn remote_offset(&self, flags: Flags) -> u32 {
        if flags.contains(Flags::SYN) { 0 } else { self.remote_isn }
    }

    /// Returns the offset of a sequence number of the host, in a segment with these flags.
    ///
    /// Segments with a SYN have absolute numbers in a script, all others count from it.
    pub(super) const fn local_offset(&self, flags: Flags) -> u32 {
        let (script, live) = match self.local_isn {
            Some(isn) => isn,
            None => (0, 0),
        };
        if flags.contains(Flags::SYN) { live.wrapping_sub(script) } else { live }
    }

    /// Returns the timestamp on the wire for one that a script echoes; `None` if the script expected no such timestamp.
    pub(super) fn live_stamp(&self, script: u32) -> Option<u32> {
        self.stamps.get(&script).copied()
    }

    /// The script's time stamp for one on the wire.
    pub(super) fn script_stamp(&self, live: u32) -> u32 {
        let (script, first) = self.first_stamp.unwrap_or((live, live));
        script.wrapping_add(live.wrapping_sub(first))
    }

    /// A packet goes to the host.
    fn meet(&mut self, packet: &Packet) {
        let Payload::Tcp(tcp) = &packet.payload else { return };
        let flags = tcp.flags.value;
        if self.phase == Phase::Answered && flags.contains(Flags::ACK) {
            self.phase = Phase::Stands;
        } else if self.phase == Phase::SynSent && flags.contains(Flags::SYN.with(Flags::ACK)) {
            self.phase = Phase::Stands;
            self.remote_isn = start(tcp);
        }
        if let Some(seq) = self.remote_seq(tcp) {
            self.incoming.take(seq, tcp);
        }
    }

    /// The script expects a packet from the host.
    fn foresee(&mut self, packet: &Packet) {
        let Payload::Tcp(tcp) = &packet.payload else { return };
        let flags = tcp.flags.value;
        if self.phase == Phase::Connecting && flags.contains(Flags::SYN) && !flags.contains(Flags::ACK) {
            self.phase = Phase::SynSent;
        }
    }

    /// A packet came from the host where the script expects one.
    pub(super) fn hear(&mut self, demanded: &Packet, came: &Packet) {
        let (Payload::Tcp(demanded), Payload::Tcp(came)) = (&demanded.payload, &came.payload) else { return };
        let flags = came.flags.value;
        let is_answer = self.phase == Phase::Asked && flags.contains(Flags::SYN.with(Flags::ACK));
        if is_answer || self.phase == Phase::SynSent && flags.contains(Flags::SYN) {
            self.local_isn.get_or_insert_with(|| (start(demanded), start(came)));
        }
        if is_answer {
            self.phase = Phase::Answered;
        }
        if let (Some(script), Some(live)) = (stamp(demanded), stamp(came)) {
            self.stamps.insert(script, live);
            self.first_stamp.get_or_insert((script, live));
        }
    }
}

/// The sequence number that a segment begins with; 0 if the script leaves it open.
fn start(tcp: &Tcp) -> u32 {
    match tcp.seq.start {
        SeqStart::Relative(start) => start,
        SeqStart::Absolute(_) | SeqStart::Any => 0,
    }
}

/// The time stamp of a segment, if it has one.
fn stamp(tcp: &Tcp) -> Option<u32> {
    let TcpOptions::List(list) = &tcp.options.value else { return None };
    list.iter().find_map(|option| match option.value {
        TcpOption::Timestamps { val, .. } => val,
        _ => None,
    })
}

/// All connections that were there so far. Packets without ports are of the last.
#[derive(Debug)]
pub(super) struct Conns {
    list: Vec<Conn>,
    bind_port: u16,
    next_port: u16,
}

impl Conns {
    /// None.
    pub(super) const fn new(bind_port: u16) -> Self {
        Self { list: Vec::new(), bind_port, next_port: REMOTE_PORT }
    }

    /// A socket was made.
    pub(super) fn make(&mut self, fd: i64) {
        self.list.push(Conn::new(Phase::New, Some(fd)));
    }

    /// The one of a descriptor, made the last.
    pub(super) fn turn_to(&mut self, fd: i64) -> Option<&mut Conn> {
        let at = self.list.iter().rposition(|conn| conn.fd == Some(fd))?;
        let conn = self.list.remove(at);
        self.list.push(conn);
        self.list.last_mut()
    }

    /// The one with this port of the other end has got a descriptor.
    pub(super) fn accepted(&mut self, fd: i64, remote_port: u16) {
        let conn = self.list.iter_mut().rev().find(|conn| conn.remote_port == remote_port);
        if let Some(conn) = conn {
            conn.fd = Some(fd);
        }
    }

    /// Returns the number of bytes that a program has sent.
    pub(super) fn written(&self, fd: i64) -> u32 {
        let conn = self.list.iter().rev().find(|conn| conn.fd == Some(fd));
        conn.map_or(0, |conn| u32::try_from(conn.written.len()).unwrap_or(u32::MAX))
    }

    /// A program has read bytes; whether they are those that segments have brought in that place.
    pub(super) fn read(&mut self, fd: i64, bytes: &[u8], how: Reading) -> bool {
        let conn = self.list.iter_mut().rev().find(|conn| conn.fd == Some(fd));
        conn.is_some_and(|conn| conn.incoming.read(bytes, how))
    }

    /// A program has sent bytes.
    pub(super) fn wrote(&mut self, fd: i64, bytes: &[u8]) {
        let conn = self.list.iter_mut().rev().find(|conn| conn.fd == Some(fd));
        if let Some(conn) = conn {
            conn.written.extend_from_slice(bytes);
        }
    }

    /// A descriptor is closed; its number may be another socket's later.
    pub(super) fn closed(&mut self, fd: i64) {
        self.list.iter_mut().filter(|conn| conn.fd == Some(fd)).for_each(|conn| conn.fd = None);
    }

    /// The one that a packet goes to; a new one, if there is none.
    pub(super) fn receiver(&mut self, packet: &Packet) -> &mut Conn {
        let at = self.receiver_at(packet);
        let conn = &mut self.list[at];
        conn.meet(packet);
        conn
    }

    fn receiver_at(&mut self, packet: &Packet) -> usize {
        if let Some(ports) = packet.ports {
            let ports = Ports { src: ports.dst, dst: ports.src };
            let known = self.list.iter().rposition(|conn| conn.sends(ports));
            return known.unwrap_or_else(|| self.called(packet, ports));
        }
        match self.list.last() {
            Some(last) if last.phase != Phase::Listening && last.remote_port != 0 => self.list.len() - 1,
            last => {
                let known = last.map(|last| last.local_port).filter(|port| *port != 0);
                let ports = Ports { src: known.unwrap_or(self.bind_port), dst: self.next_port };
                self.next_port += 1;
                self.called(packet, ports)
            }
        }
    }

    /// One that the other end begins with this packet.
    fn called(&mut self, packet: &Packet, ports: Ports) -> usize {
        let is_listened = self.list.last().is_some_and(|last| last.phase == Phase::Listening);
        let mut conn = Conn::new(Phase::Asked, None);
        (conn.local_port, conn.remote_port) = (ports.src, ports.dst);
        if let (Payload::Tcp(tcp), true) = (&packet.payload, is_listened) {
            conn.remote_isn = start(tcp);
        }
        self.list.push(conn);
        self.list.len() - 1
    }

    /// The place of the one that a packet must come from.
    pub(super) fn sender_at(&mut self, demanded: &Packet) -> Option<usize> {
        let ports = demanded.ports.map(|ports| ports.value);
        let known = ports.and_then(|ports| self.list.iter().rposition(|conn| conn.sends(ports)));
        let at = known.or_else(|| self.list.len().checked_sub(1))?;
        self.list[at].foresee(demanded);
        Some(at)
    }

    /// The place of the last.
    pub(super) fn last_at(&self) -> Option<usize> {
        self.list.len().checked_sub(1)
    }

    /// The descriptor of the last that has one: where nothing is accepted, that is the listener's.
    pub(super) fn last_fd(&self) -> Option<i64> {
        self.list.iter().rev().find_map(|conn| conn.fd)
    }

    /// The one at this place.
    pub(super) fn at(&mut self, at: usize) -> &mut Conn {
        &mut self.list[at]
    }

    /// Whether there is one at this place, and a packet with these ports is of it.
    pub(super) fn knows(&self, at: usize, ports: Ports) -> bool {
        self.list.get(at).is_some_and(|conn| conn.sends(ports))
    }

    /// Whether a packet with these ports can be of the one at this place. Those without ports, as of echo, can be of any.
    pub(super) fn may_send(&self, at: usize, ports: Ports) -> bool {
        let conn = &self.list[at];
        let is_known = conn.local_port != 0 && conn.remote_port != 0 && (ports.src, ports.dst) != (0, 0);
        !is_known || conn.sends(ports)
    }

    /// Whether a packet with these ports is to be held to what is expected of the one at this place: not if it is of
    /// another. A connection whose port was not known has it from its first packet.
    pub(super) fn concerns(&mut self, at: usize, ports: Ports) -> bool {
        if self.list.iter().enumerate().any(|(other, conn)| other != at && conn.sends(ports)) {
            return false;
        }
        let conn = &mut self.list[at];
        if conn.local_port == 0 && conn.remote_port == ports.dst {
            conn.local_port = ports.src;
        }
        true
    }
}

/// Addresses and ports of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FourTuple {
    /// The sender.
    pub(super) src: (IpAddr, u16),
    /// The receiver.
    pub(super) dst: (IpAddr, u16),
}

impl FourTuple {
    /// The way back.
    pub(super) const fn back(self) -> Self {
        Self { src: self.dst, dst: self.src }
    }
}

#[cfg(test)]
mod tests {
    use drill::packet::{Seq, TcpOptions};
    use drill::script::{At, Pos};

    use super::*;

    #[test]
    fn bytes_of_segments_are_held_to_what_the_program_has_sent_in_that_place() {
        let mut conns = Conns::new(8080);
        conns.make(3);
        conns.wrote(3, b"abc");
        conns.wrote(4, b"of another");
        conns.wrote(3, b"def");
        let segment = |flags, start| Tcp {
            flags: At::new(Pos::default(), flags),
            seq: At::new(Pos::default(), Seq { start: SeqStart::Relative(start), len: 3 }),
            ack: None,
            window: None,
            urgent: None,
            options: At::new(Pos::default(), TcpOptions::List(Vec::new())),
        };
        let conn = conns.at(0);
        for (flags, start, bytes, is_written) in [
            (Flags::ACK, 1, &b"abc"[..], true),
            (Flags::ACK, 4, b"def", true),
            (Flags::ACK, 4, b"dex", false),
            (Flags::ACK, 2, b"abc", false),
            (Flags::ACK, 5, b"efg", false),
            (Flags::ACK, 99, b"", true),
            (Flags::SYN, 7, b"abc", true),
            (Flags::SYN, 7, b"bcd", false),
        ] {
            assert_eq!(conn.has_written(&segment(flags, start), bytes), is_written, "{start} {bytes:?}");
        }
    }
}
