//! A TCP relay: forwards each accepted connection to another address, by a connection of this host.
//!
//! ```text
//!   A ◀──connection──▶ relay ◀──connection──▶ B
//! ```
//!
//! Each connection is between its own two ends: losses are repaired where they happen, and what one of them does not read
//! waits in the other's buffers, and then at its sender. What A says arrives at B in its order, and the end of it; a
//! reset, and a connection that comes to nothing, is a reset on the other side.

mod budget;

use core::net::SocketAddr;

use self::budget::{BYTES_MAX, Budget, Progress};
use super::{BACKLOG, BYTES};
use crate::base::collections::slab::Slab;
use crate::base::count::Count;
use crate::host::app::{App, AppContext, Handle};
use crate::host::sock::Error;
use crate::host::tcp::{self, Accepted, Connect, Id, IpTxParams, Listen, tcb::State, tcb::Tcb};
use crate::turn::cpu::Cpu;

/// Pairs of connections of a relay on each CPU at the most.
const PAIRS_MAX: usize = 65_536;

/// A relay on one CPU.
#[derive(Debug)]
pub struct Relay {
    addr: SocketAddr,
    to: SocketAddr,
    pairs: Slab<Pair>,
    budget: Budget,
    /// Bytes on their way from one buffer to the other.
    bytes: Box<[u8]>,
}

/// Two connections: the accepted one, and the one to the target.
#[derive(Debug, Default)]
struct Pair {
    sides: [Option<Side>; 2],
    progress: Progress,
}

#[derive(Clone, Copy, Debug)]
struct Side {
    id: Id,
    /// Its other end sends no more, and all it has sent was passed on.
    is_over: bool,
}

/// A side of a pair, as the program calls its connection.
#[derive(Clone, Copy)]
struct Name {
    pair: u32,
    side: usize,
}

impl Name {
    const fn of(key: u32) -> Self {
        Self { pair: key / 2, side: (key % 2) as usize }
    }

    const fn key(self) -> u32 {
        self.pair * 2 + if self.side == 0 { 0 } else { 1 }
    }

    const fn other(self) -> Self {
        Self { side: 1 - self.side, ..self }
    }
}

impl Relay {
    /// From `addr`, the unspecified address of IPv6 for all of both families, to `to`. Its connections behave as the
    /// CPU's variables say when they begin.
    #[must_use]
    pub fn new(addr: SocketAddr, to: SocketAddr) -> Self {
        Self { addr, to, pairs: Slab::new(), budget: Budget::new(BYTES_MAX), bytes: vec![0; BYTES].into() }
    }

    /// Lets the buffers of its pairs take so many bytes on this CPU, instead of 256 MiB.
    #[must_use]
    pub fn bytes_max(self, bytes: usize) -> Self {
        Self { budget: Budget::new(bytes), ..self }
    }

    /// Begins the other connection of a pair.
    fn open(&mut self, cx: &mut AppContext<'_>, accepted: Id) -> Result<u32, Error> {
        if self.pairs.len() >= PAIRS_MAX || !self.budget.has_room() {
            return Err(Error::TooMany);
        }
        let pair = self.pairs.insert(Pair::default()).ok_or(Error::TooMany)?;
        let (near, far) = (Name { pair, side: 0 }, Name { pair, side: 1 });
        let (settings, tx_params) = (cx.cpu.sysctls.tcp, IpTxParams::default());
        let wanted = Connect { remote: self.to, local: None, port: None, zone: 0, settings, tx_params };
        let begun = cx.connect(&wanted, far.key()).inspect_err(|_| self.pairs.remove(pair))?;
        if let Some(pair) = self.pairs.get_mut(pair) {
            pair.sides = [accepted, begun].map(|id| Some(Side { id, is_over: false }));
        }
        if let Some(at) = self.budget.arm(cx.now()) {
            cx.wake_at(at);
        }
        Ok(near.key())
    }

    /// Takes all places.
    #[cfg(test)]
    pub(super) fn fill(&mut self) {
        (0..PAIRS_MAX).for_each(|_| _ = self.pairs.insert(Pair::default()));
    }

    fn side(&self, name: Name) -> Option<Side> {
        self.pairs.get(name.pair)?.sides[name.side]
    }

    /// Passes on what has come from one side, as much as the other has room for.
    fn pass(&mut self, cx: &mut AppContext<'_>, name: Name) {
        let (Some(from), Some(to)) = (self.side(name), self.side(name.other())) else { return };
        loop {
            // What does not stand yet is told of when it does.
            let stands = |tcb: &&Tcb| tcb.state() >= State::Established;
            let Some(tcb) = tcp::connection(cx.cpu, to.id).map(|(_, tcb)| tcb).filter(stands) else {
                return;
            };
            // A byte too many is refused, and so the program is told when there is room.
            let room = tcb.writable().clamp(1, BYTES);
            match tcp::peek(cx.cpu, from.id, &mut self.bytes[..room]) {
                Ok(0) => return self.over(cx, name),
                Ok(come) if self.send(cx, name.pair, [from.id, to.id], come) => {}
                _ => return,
            }
        }
    }

    /// Moves so many bytes from one connection to the other; answers whether all of them.
    fn send(&mut self, cx: &mut AppContext<'_>, pair: u32, [from, to]: [Id; 2], come: usize) -> bool {
        let Ok(sent) = tcp::send(cx.cpu, to, &self.bytes[..come]) else { return false };
        // They were there a moment ago.
        let _ = tcp::read_in_place(cx.cpu, from, |_| (sent, ()));
        if let Some(pair) = self.pairs.get_mut(pair) {
            pair.progress.moved += sent as u64;
        }
        sent == come
    }

    /// One side sends no more; when neither does, both connections are closed.
    fn over(&mut self, cx: &mut AppContext<'_>, name: Name) {
        let Some(pair) = self.pairs.get_mut(name.pair) else { return };
        if let Some(side) = &mut pair.sides[name.side] {
            side.is_over = true;
        }
        let [Some(near), Some(far)] = pair.sides else { return };
        // What has ended meanwhile needs no closing.
        if near.is_over && far.is_over {
            let _ = (tcp::close(cx.cpu, near.id), tcp::close(cx.cpu, far.id));
            self.forget(name.pair);
        } else {
            let other = if name.side == 0 { far } else { near };
            let _ = tcp::shutdown(cx.cpu, other.id);
        }
    }

    /// Resets both connections of a pair that holds memory and hardly delivers anything.
    fn end_slow(&mut self, cpu: &mut Cpu, pair: u32) {
        let sides = self.pairs.get(pair).map(|pair| pair.sides).unwrap_or_default();
        for side in sides.into_iter().flatten() {
            // It may have ended meanwhile.
            let _ = tcp::abort(cpu, side.id);
        }
        cpu.count(Count::TcpRelaysSlow);
        self.forget(pair);
    }

    fn forget(&mut self, pair: u32) {
        if let Some(pair) = self.pairs.get_mut(pair) {
            *pair = Pair::default();
        }
        self.pairs.remove(pair);
    }
}

impl App for Relay {
    fn begin(&mut self, cx: &mut AppContext<'_>) -> Result<(), Error> {
        let (addr, settings, tx_params) = (self.addr, cx.cpu.sysctls.tcp, IpTxParams::default());
        let (zone, only_v6, is_shared, backlog) = (0, false, false, BACKLOG);
        cx.listen(&Listen { addr, zone, only_v6, backlog, is_shared, settings, tx_params }, 0).map(|_| ())
    }

    fn accepted(&mut self, cx: &mut AppContext<'_>, _: u32, accepted: Accepted) -> u32 {
        self.open(cx, accepted.id).unwrap_or_else(|_| {
            cx.cpu.count(Count::TcpRelaysRefused);
            let _ = tcp::abort(cx.cpu, accepted.id);
            u32::MAX
        })
    }

    fn readable(&mut self, cx: &mut AppContext<'_>, conn: Handle<Id>) {
        self.pass(cx, Name::of(conn.key));
    }

    fn writable(&mut self, cx: &mut AppContext<'_>, conn: Handle<Id>) {
        self.pass(cx, Name::of(conn.key).other());
    }

    fn time(&mut self, cx: &mut AppContext<'_>) {
        if let Some(at) = self.look(cx.cpu) {
            cx.wake_at(at);
        }
    }

    fn closed(&mut self, cx: &mut AppContext<'_>, conn: Handle<Id>, _: Option<Error>) {
        let name = Name::of(conn.key);
        let Some(other) = self.side(name.other()) else { return };
        // In order it ends only when both sides are over, and then the program has closed it.
        let _ = tcp::abort(cx.cpu, other.id);
        self.forget(name.pair);
    }
}
