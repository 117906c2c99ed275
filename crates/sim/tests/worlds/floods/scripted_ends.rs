//! Two scripted ends of many TCP connections: what they say follows from what they hear, so they remember nothing.

use core::net::IpAddr;

use net::time::Duration;
use sim::builder::{self, Ip};
use sim::plan::Family;
use sim::station::Content;
use sim::world::{StationId, World};
use wire::tcp::{Flags, Header, Options};

/// First sequence numbers of all clients, and of all servers.
const CLIENT: u32 = 1000;
const SERVER: u32 = 5000;
/// Clients have ports from here on, and so many of them; then the server's next port is spoken to.
const PORTS: u32 = 60_000;
/// Interval at which the ends read what they have received.
pub(crate) const STEP: Duration = Duration::from_micros(250);
/// The server's ports: those of short connections begin here.
pub(crate) const SHORT: u16 = 8000;
/// That of long ones.
pub(crate) const LONG: u16 = 443;
/// A port without a listener.
pub(crate) const SILENT: u16 = 9000;

/// The fate of a short connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// The client opens it, sends a byte and closes it; so does the server.
    Closed,
    /// The client never answers the server's answer.
    HalfOpen,
    /// The client says nothing after the handshake.
    Abandoned,
    /// The client resets it.
    Reset,
}

/// The client's last acknowledgement is marked, so that the server knows it without remembering anything.
const LAST: Flags = Flags::URG;

/// The ends, and what they have counted.
#[derive(Default)]
pub(crate) struct Crowd {
    /// Short connections begun.
    pub(crate) begun: u32,
    /// SYNs that a server has heard.
    pub(crate) opened: u32,
    /// Acknowledgements of its FIN that a server has heard: connections that lived to their end.
    pub(crate) closed: u32,
    /// Bytes of each long connection that its server has heard.
    pub(crate) long: Vec<u32>,
    /// Addresses and ports of connection attempts to a silent port.
    pub(crate) silent: Vec<(IpAddr, u16)>,
}

/// The fate of the connections of a client's port: five of eight live to their end.
const fn fate(port: u16) -> Fate {
    match port % 8 {
        0 => Fate::HalfOpen,
        1 => Fate::Abandoned,
        2 => Fate::Reset,
        _ => Fate::Closed,
    }
}

/// Returns how many of the first `begun` connections are closed in the end.
pub(crate) fn to_be_closed(begun: u32) -> u32 {
    (0..begun).map(|n| u32::from(fate(client(n).1) == Fate::Closed)).sum()
}

/// Family and ports of short connection `n`.
fn client(n: u32) -> (Family, u16, u16) {
    let (family, n) = (Family::BOTH[n as usize % 2], n / 2);
    let port = |port: u32| u16::try_from(port).unwrap_or(0);
    (family, port(5000 + n % PORTS), SHORT + port(n / PORTS))
}

/// A segment, with or without a byte of payload.
pub(crate) fn segment(
    src: IpAddr,
    dst: IpAddr,
    ports: [u16; 2],
    flags: Flags,
    seq: u32,
    ack: u32,
) -> Vec<u8> {
    let [src_port, dst_port] = ports;
    let header =
        Header { src_port, dst_port, seq, ack, flags, window: 8000, urgent: 0, options: Options::NONE };
    let payload: &[u8] = if flags.contains(Flags::PSH) { b"x" } else { b"" };
    builder::tcp(Ip::new(src, dst), &header, payload)
}

const fn with_ack(flags: Flags) -> Flags {
    Flags(flags.0 | Flags::ACK.0)
}

impl Crowd {
    /// Begins short connections, and lets a step pass.
    pub(crate) fn step(&mut self, world: &mut World, [a, b]: [StationId; 2], per_step: u32) {
        for n in self.begun..self.begun + per_step {
            let (family, from, to) = client(n);
            let (src, dst) = (family.addr(1, 2), family.addr(2, 2));
            world.at(a).send(segment(src, dst, [from, to], Flags::SYN, CLIENT, 0));
        }
        self.begun += per_step;
        world.run_for(STEP);
        self.speak_as_server(world, b);
        Self::speak_as_client(world, a);
    }

    /// Does a number of steps.
    pub(crate) fn steps(&mut self, world: &mut World, ends: [StationId; 2], steps: u32, per_step: u32) {
        (0..steps).for_each(|_| self.step(world, ends, per_step));
    }

    /// Begins `count` long connections of each family, and opens them.
    pub(crate) fn open_long(&mut self, world: &mut World, ends: [StationId; 2], count: u16) {
        self.long = vec![0; 2 * usize::from(count)];
        for n in 0..2 * count {
            let family = Family::BOTH[usize::from(n % 2)];
            let syn = segment(family.addr(1, 2), family.addr(2, 2), [n, LONG], Flags::SYN, CLIENT, 0);
            world.at(ends[0]).send(syn);
        }
        self.steps(world, ends, 8, 0);
    }

    /// Each long connection's client sends a byte, if the server has heard all before.
    pub(crate) fn send_long(&self, world: &mut World, a: StationId) {
        for (n, heard) in (0_u16..).zip(&self.long) {
            let family = Family::BOTH[usize::from(n % 2)];
            let (seq, flags) = (CLIENT + 1 + heard, with_ack(Flags::PSH));
            let byte = segment(family.addr(1, 2), family.addr(2, 2), [n, LONG], flags, seq, SERVER + 1);
            world.at(a).send(byte);
        }
    }

    fn speak_as_server(&mut self, world: &mut World, b: StationId) {
        for heard in core::mem::take(&mut world.at(b).heard) {
            let Content::Tcp { ports: [from, to], flags, len, .. } = heard.what else { continue };
            let (flags, is_long) = (Flags(flags), to == LONG);
            if to == SILENT {
                self.silent.push((heard.from, from));
                continue;
            }
            let (answer, seq, ack) = if flags.syn() {
                self.opened += u32::from(!is_long);
                (Flags::SYN, SERVER, CLIENT + 1)
            } else if len > 0 && is_long {
                let bytes = &mut self.long[usize::from(from)];
                *bytes += 1;
                (Flags::ACK, SERVER + 1, CLIENT + 1 + *bytes)
            } else if len > 0 {
                (Flags::ACK, SERVER + 1, CLIENT + 2)
            } else if flags.fin() {
                (Flags::FIN, SERVER + 1, CLIENT + 3)
            } else {
                self.closed += u32::from(flags.contains(LAST));
                continue;
            };
            world.at(b).send(segment(heard.to, heard.from, [to, from], with_ack(answer), seq, ack));
        }
    }

    fn speak_as_client(world: &mut World, a: StationId) {
        for heard in core::mem::take(&mut world.at(a).heard) {
            let Content::Tcp { ports: [from, to], flags, .. } = heard.what else { continue };
            let (flags, is_long) = (Flags(flags), from == LONG);
            let mut say = |flags, seq, ack| {
                world.at(a).send(segment(heard.to, heard.from, [to, from], with_ack(flags), seq, ack));
            };
            match fate(to) {
                _ if is_long && !flags.syn() => {}
                _ if is_long => say(Flags::ACK, CLIENT + 1, SERVER + 1),
                Fate::HalfOpen => {}
                _ if !flags.syn() && !flags.fin() => say(Flags::FIN, CLIENT + 2, SERVER + 1),
                _ if flags.fin() => say(LAST, CLIENT + 3, SERVER + 2),
                Fate::Abandoned => say(Flags::ACK, CLIENT + 1, SERVER + 1),
                Fate::Reset => say(Flags::RST, CLIENT + 1, SERVER + 1),
                Fate::Closed => say(Flags::PSH, CLIENT + 1, SERVER + 1),
            }
        }
    }
}
