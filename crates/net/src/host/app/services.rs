//! Services that every host once had, as programs: what a program looks like, and something to measure against. And a
//! relay, which is on both sides of connections.

mod relay;

use core::net::{IpAddr, SocketAddr};

pub use self::relay::Relay;

use super::{App, AppContext, Handle};
use crate::host::sock::Error;
use crate::host::tcp::{self, Accepted, Id, IpTxParams, Listen, settings::Settings};
use crate::host::udp;
use crate::ip::group::Filter;

/// Which service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Sends back what comes (RFC 862).
    Echo,
    /// Reads what comes, and does nothing with it (RFC 863).
    Discard,
    /// Sends lines of characters for as long as the peer reads them (RFC 864).
    Chargen,
}

/// A service at an address: over TCP, and over UDP, where a datagram is answered by one. At a group it is over UDP alone.
#[derive(Debug)]
pub struct Service {
    kind: Kind,
    addr: SocketAddr,
    settings: Settings,
    /// Bytes on their way from one buffer to the other.
    bytes: Box<[u8]>,
}

/// Bytes of the longest datagram, and those of a stream that are moved at once.
const BYTES: usize = 65_535;
/// Datagrams that are answered before others on the CPU have their turn.
const DATAGRAMS_AT_ONCE: usize = 32;
/// Connections that may wait to be accepted: more than come in a turn.
const BACKLOG: usize = 1024;
/// Where services are: a datagram from there is the answer of one, and two that answer each other would never end.
const SERVICES: u16 = 1024;
/// Characters that can be seen, blanks among them; those of a line; and how long that is with its end.
const CHARACTERS: usize = 95;
const SHOWN: usize = 72;
const LINE: usize = SHOWN + 2;
/// After so many bytes the lines begin again: each begins with another character.
const PERIOD: usize = CHARACTERS * LINE;
/// The longest datagram of characters.
const CHARGEN_MAX: usize = 512;

impl Service {
    /// Begins at `addr`, the unspecified address of IPv6 for all of both families; its connections behave as `settings`
    /// say. At the address of a group, it listens to that on all links that there are when it begins.
    #[must_use]
    pub fn new(kind: Kind, addr: SocketAddr, settings: Settings) -> Self {
        let bytes = if kind == Kind::Chargen { characters() } else { vec![0; BYTES].into() };
        Self { kind, addr, settings, bytes }
    }

    /// Sends back what has come, as much as there is room for; ends its stream behind the other's.
    fn echo(&mut self, cx: &mut AppContext<'_>, id: Id) {
        loop {
            let come = tcp::peek(cx.cpu, id, &mut self.bytes);
            let Ok(come @ 1..) = come else { return end(cx, id, come) };
            let sent = tcp::send(cx.cpu, id, &self.bytes[..come]).unwrap_or(0);
            // It was there a moment ago.
            let _ = tcp::read_in_place(cx.cpu, id, |_| (sent, ()));
            if sent < come {
                return;
            }
        }
    }

    /// Sends characters, as many as there is room for, until the other end sends no more; what that says is of no
    /// interest.
    fn generate(&self, cx: &mut AppContext<'_>, id: Id) {
        let Some(mut at) = position(cx, id).filter(|_| discard(cx, id)) else { return };
        while let Ok(sent) = tcp::send(cx.cpu, id, &self.bytes[at..at + PERIOD]) {
            at = (at + sent) % PERIOD;
        }
    }

    fn answer(&self, cx: &mut AppContext<'_>, socket: udp::Id, got: &udp::Received) {
        if got.from.port() < SERVICES || got.from.port() == self.addr.port() {
            return;
        }
        let len = match self.kind {
            Kind::Echo => got.len.min(BYTES),
            Kind::Discard => return,
            // As long as it likes, says RFC 864; no longer than what came, or others would be flooded in its name.
            Kind::Chargen => got.len.min(CHARGEN_MAX),
        };
        // What cannot be sent is lost, as any datagram may be.
        let _ = udp::send_to(cx.cpu, socket, got.from, &self.bytes[..len]);
    }

    /// Takes a datagram; what it says is kept if it is to be sent back.
    fn take(&mut self, cx: &mut AppContext<'_>, socket: udp::Id) -> Result<udp::Received, Error> {
        let into: &mut [u8] = if self.kind == Kind::Chargen { &mut [] } else { &mut self.bytes };
        udp::recv(cx.cpu, socket, into)
    }
}

/// Listens to a group on all links.
fn join(cx: &mut AppContext<'_>, socket: udp::Id, group: IpAddr) -> Result<(), Error> {
    let links: Vec<_> = cx.cpu.tables.ifnets().map(|ifnet| ifnet.index).collect();
    let on = |ifindex| udp::Listen { group, ifindex, filter: Filter::ALL };
    links.into_iter().try_for_each(|ifindex| udp::listen(cx.cpu, socket, &on(ifindex)))
}

/// The lines of RFC 864, and as much of them once more.
fn characters() -> Box<[u8]> {
    let visible = |at: usize| b' ' + u8::try_from(at % CHARACTERS).unwrap_or(0);
    let line = |first: usize| (0..SHOWN).map(move |at| visible(first + at)).chain(*b"\r\n");
    (0..2 * CHARACTERS).flat_map(line).collect()
}

/// Where in the lines a connection is.
fn position(cx: &AppContext<'_>, id: Id) -> Option<usize> {
    let (_, tcb) = tcp::connection(cx.cpu, id)?;
    let before = tcb.info().tally.bytes_acknowledged + tcb.queued() as u64;
    usize::try_from(before % PERIOD as u64).ok()
}

impl App for Service {
    fn begin(&mut self, cx: &mut AppContext<'_>) -> Result<(), Error> {
        let &mut Self { addr, settings, .. } = self;
        let (zone, only_v6, is_shared, tx_params) = (0, false, false, IpTxParams::default());
        let is_group = addr.ip().is_multicast();
        if !is_group {
            cx.listen(&Listen { addr, zone, only_v6, backlog: BACKLOG, is_shared, settings, tx_params }, 0)?;
        }
        let settings = udp::Settings::default();
        let socket = udp::bind(cx.cpu, &udp::Bind { addr, zone, only_v6, is_shared, settings })?;
        cx.hold(socket, 0);
        if is_group { join(cx, socket, addr.ip()) } else { Ok(()) }
    }

    fn accepted(&mut self, cx: &mut AppContext<'_>, _: u32, accepted: Accepted) -> u32 {
        if self.kind == Kind::Chargen {
            cx.again(accepted.id);
        }
        0
    }

    fn readable(&mut self, cx: &mut AppContext<'_>, conn: Handle<Id>) {
        match self.kind {
            Kind::Echo => self.echo(cx, conn.id),
            Kind::Discard => _ = discard(cx, conn.id),
            Kind::Chargen => self.generate(cx, conn.id),
        }
    }

    fn writable(&mut self, cx: &mut AppContext<'_>, conn: Handle<Id>) {
        self.readable(cx, conn);
    }

    fn datagrams(&mut self, cx: &mut AppContext<'_>, socket: Handle<udp::Id>) {
        for _ in 0..DATAGRAMS_AT_ONCE {
            let Ok(got) = self.take(cx, socket.id) else { return };
            self.answer(cx, socket.id, &got);
        }
        cx.again_at(socket.id);
    }
}

/// Reads all that has come, and answers whether more may come.
fn discard(cx: &mut AppContext<'_>, id: Id) -> bool {
    let all = |[first, second]: [&[u8]; 2]| (first.len() + second.len(), ());
    let is_over = matches!(tcp::read_in_place(cx.cpu, id, all), Ok(None));
    if is_over {
        end(cx, id, Ok(0));
    }
    !is_over
}

/// The other end sends no more, and neither does this one.
fn end(cx: &mut AppContext<'_>, id: Id, come: Result<usize, Error>) {
    if come == Ok(0) {
        // What has ended meanwhile needs no closing.
        let _ = tcp::close(cx.cpu, id);
    }
}

#[cfg(test)]
mod tests;
