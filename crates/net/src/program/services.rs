//! Two services that every host once had, as programs: what a program looks like, and something to measure against.

use core::net::SocketAddr;

use super::{Desk, Handle, Program};
use crate::sock::Error;
use crate::tcp::{self, Accepted, Id, Listen, Look, settings::Settings};
use crate::udp;

/// Which service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Sends back what comes (RFC 862).
    Echo,
    /// Reads what comes, and does nothing with it (RFC 863).
    Discard,
}

/// A service at an address: over TCP, and over UDP, where a datagram is answered by one.
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

impl Service {
    /// Begins at `addr`, the unspecified address of IPv6 for all of both families; its connections behave as `settings`
    /// say.
    #[must_use]
    pub fn new(kind: Kind, addr: SocketAddr, settings: Settings) -> Self {
        Self { kind, addr, settings, bytes: vec![0; BYTES].into() }
    }

    /// Sends back what has come, as much as there is room for; ends its stream behind the other's.
    fn echo(&mut self, desk: &mut Desk<'_>, id: Id) {
        loop {
            let come = tcp::peek(desk.cpu, id, &mut self.bytes);
            let Ok(come @ 1..) = come else { return end(desk, id, come) };
            let sent = tcp::send(desk.cpu, id, &self.bytes[..come]).unwrap_or(0);
            // It was there a moment ago.
            let _ = tcp::read_in_place(desk.cpu, id, |_| (sent, ()));
            if sent < come {
                return;
            }
        }
    }

    fn answer(&self, desk: &mut Desk<'_>, socket: udp::Id, got: &udp::Received) {
        // Two echoes that answer each other would never end.
        let is_echo = got.from.port() == self.addr.port();
        if self.kind == Kind::Echo && !is_echo {
            // What cannot be sent is lost, as any datagram may be.
            let _ = udp::send_to(desk.cpu, socket, got.from, &self.bytes[..got.len.min(BYTES)]);
        }
    }
}

impl Program for Service {
    fn begin(&mut self, desk: &mut Desk<'_>) -> Result<(), Error> {
        let &mut Self { addr, settings, .. } = self;
        let (zone, only_v6, is_shared, look) = (0, false, false, Look::default());
        desk.listen(&Listen { addr, zone, only_v6, backlog: BACKLOG, is_shared, settings, look }, 0)?;
        let settings = udp::Settings::default();
        let socket = udp::bind(desk.cpu, &udp::Bind { addr, zone, only_v6, is_shared, settings })?;
        desk.hold(socket, 0);
        Ok(())
    }

    fn accepted(&mut self, _: &mut Desk<'_>, _: u32, _: Accepted) -> u32 {
        0
    }

    fn readable(&mut self, desk: &mut Desk<'_>, conn: Handle<Id>) {
        match self.kind {
            Kind::Echo => self.echo(desk, conn.id),
            Kind::Discard => discard(desk, conn.id),
        }
    }

    fn writable(&mut self, desk: &mut Desk<'_>, conn: Handle<Id>) {
        self.readable(desk, conn);
    }

    fn datagrams(&mut self, desk: &mut Desk<'_>, socket: Handle<udp::Id>) {
        for _ in 0..DATAGRAMS_AT_ONCE {
            let Ok(got) = udp::recv(desk.cpu, socket.id, &mut self.bytes) else { return };
            self.answer(desk, socket.id, &got);
        }
        desk.again_at(socket.id);
    }
}

/// Reads all that has come.
fn discard(desk: &mut Desk<'_>, id: Id) {
    let all = |[first, second]: [&[u8]; 2]| (first.len() + second.len(), ());
    if let Ok(None) = tcp::read_in_place(desk.cpu, id, all) {
        end(desk, id, Ok(0));
    }
}

/// The other end sends no more, and neither does this one.
fn end(desk: &mut Desk<'_>, id: Id, come: Result<usize, Error>) {
    if come == Ok(0) {
        // What has ended meanwhile needs no closing.
        let _ = tcp::close(desk.cpu, id);
    }
}
