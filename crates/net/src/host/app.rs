//! Programs on the netisr: they live on a CPU, and use its TCP and UDP by calling functions. Nothing is handed over and
//! no thread is woken; a byte is copied once from the packet to the buffer that is read, and once from the program to the
//! buffer that is sent.
//!
//! ```text
//!   messages ─▶ receive a chunk ─▶ programs ─▶ connections send ─┐      what they send goes out with the same chunk
//!                  ▲  │             ▲ │                          │
//!                  │  └─▶ noted ────┘ └─▶ tcp::send, udp::send_to, …
//!                  └─────────────────────────────────────────────┴─▶ timers ─▶ programs ─▶ roll up
//! ```
//!
//! A CPU notes each listener, connection and socket that something has happened with, once, until its program has looked
//! at it: so many segments of one connection in a chunk are one call, and unwatched events cost nothing. Behind each chunk
//! of packets the first [`CHUNK_EVENTS_MAX`] of them are told to their programs, and at the end of a turn another
//! [`EVENTS_MAX`]; the rest waits for the next, which follows at once.
//!
//! A program is one value on one CPU. To be on all of them, begin one on each ([`crate::turn::msg::Broadcast`]); a
//! connection is then accepted where its packets come, by the program of that CPU. This is the lowest of the faces that
//! the stack shows to programs. What serves threads elsewhere is a program, too: its end of their channel, at which they knock ([`App::called`]).
//!
//! A program must return soon: everything else on its CPU waits for it. What takes long it does in pieces, and asks to
//! be called again ([`AppContext::again`]).

mod context;
mod notify;
pub mod services;
mod watch;

pub use self::context::{AppContext, Handle};
pub use self::notify::NOTIFIERS_MAX;
pub use self::watch::AppId;
pub(crate) use self::watch::{Noted, Watch};

use pkt::notify_bits::Flag;

use self::context::Own;
use self::notify::Notifications;
use crate::base::count::Count;
use crate::base::time::Instant;
use crate::host::sock::Error;
use crate::host::tcp::watch::Event;
use crate::host::tcp::{self, Accepted, ListenerId};
use crate::host::{dgram, packet, raw, udp};
use crate::turn::cpu::Cpu;
use crate::turn::netisr::CHUNK;

/// Programs on one CPU at the most.
pub const PROGRAMS_MAX: usize = 1024;
/// Events that programs are told of at the end of a turn at the most.
pub const EVENTS_MAX: usize = 256;
/// Events that programs are told of behind a chunk of packets at the most: two for each, as one that completes a handshake
/// and brings a request has.
pub const CHUNK_EVENTS_MAX: usize = 2 * CHUNK;
/// Connections that a program is given of one listener before others are told of something.
pub const ACCEPTS_MAX: usize = 32;
/// Connections, and sockets, that are looked at in one turn, whether a program that has left holds them.
const LEFT_MAX: u32 = 256;

/// An application on a netisr. Its callbacks may send, read, begin and close connections through [`AppContext::cpu`].
pub trait App: Send {
    /// It begins: to listen, to connect, to ask for a time.
    ///
    /// # Errors
    ///
    /// Why it cannot; then it has never been there.
    fn begin(&mut self, cx: &mut AppContext<'_>) -> Result<(), Error>;

    /// Returns the number of connections of a listener that the program accepts now; the others wait. When it accepts some again, it looks at the
    /// listener again.
    fn room(&mut self, listener: u32) -> usize {
        let _ = listener;
        ACCEPTS_MAX
    }

    /// A listener that the program calls `listener` has got a connection. The program holds it from now on, and calls it
    /// what it answers. There may be something to read already: if so, [`Self::readable`] follows.
    fn accepted(&mut self, cx: &mut AppContext<'_>, listener: u32, accepted: Accepted) -> u32 {
        let _ = (listener, tcp::abort(cx.cpu, accepted.id));
        0
    }

    /// Bytes have come, or the end of the stream, which a read of no bytes says. What is not read stays, and the program
    /// is called with the next segment that comes, or when it asked to be ([`AppContext::again`]).
    fn readable(&mut self, cx: &mut AppContext<'_>, conn: Handle<tcp::Id>) {
        let _ = (cx, conn);
    }

    /// A connection that was begun stands; or there is room again in one that has not taken all that was to be sent: a
    /// third of its buffer.
    fn writable(&mut self, cx: &mut AppContext<'_>, conn: Handle<tcp::Id>) {
        let _ = (cx, conn);
    }

    /// A connection has ended: in order, and all that came is read; or before its time. The program does not hold it any
    /// more when this returns. Of one that it has closed itself, it is told nothing.
    fn closed(&mut self, cx: &mut AppContext<'_>, conn: Handle<tcp::Id>, why: Option<Error>) {
        let _ = (cx, conn, why);
    }

    /// Datagrams have come, or it was learned what became of one that was sent. What is not taken stays, and the program
    /// is called when more has come, or when it asked to be ([`AppContext::again_at`]).
    fn datagrams(&mut self, cx: &mut AppContext<'_>, socket: Handle<udp::Id>) {
        let _ = (cx, socket);
    }

    /// Messages of ICMP have come to a raw socket. As with datagrams, what is not taken stays.
    fn messages(&mut self, cx: &mut AppContext<'_>, socket: Handle<raw::Id>) {
        let _ = (cx, socket);
    }

    /// Frames have come to a packet socket. As with datagrams, what is not taken stays.
    fn frames(&mut self, cx: &mut AppContext<'_>, socket: Handle<packet::Id>) {
        let _ = (cx, socket);
    }

    /// Called after another thread's notification ([`crate::turn::netisr::Netisr::call`]).
    fn called(&mut self, cx: &mut AppContext<'_>) {
        let _ = cx;
    }

    /// The time has come that the program has asked for ([`AppContext::wake_at`]).
    fn time(&mut self, cx: &mut AppContext<'_>) {
        let _ = cx;
    }

    /// The program has been told all that this turn had for it, and had asked to be called then ([`AppContext::roll_up`]).
    fn roll_up(&mut self, cx: &mut AppContext<'_>) {
        let _ = cx;
    }
}

/// The programs of one CPU.
pub(crate) struct Apps {
    slots: Vec<Slot>,
    serial: u32,
    /// No program asked for a sooner time than this.
    soonest: Instant,
    /// Programs that have left and still hold something.
    leaving: usize,
    notifiers: Notifications,
    /// Programs to be called after all events of the turn.
    rolls_up: Vec<AppId>,
}

/// A place for a program.
struct Slot {
    own: Own,
    stage: Stage,
}

impl Slot {
    fn runs(&self, id: AppId) -> bool {
        self.own.id == id && matches!(self.stage, Stage::Runs(_))
    }
}

enum Stage {
    Free,
    Runs(Box<dyn App>),
    /// It has left; what stands in places before this is closed.
    Leaves(u32),
}

impl Apps {
    pub(crate) fn new() -> Self {
        let (notifiers, rolls_up) = (Notifications::new(), Vec::new());
        Self { slots: Vec::new(), serial: 0, soonest: Instant::NEVER, leaving: 0, notifiers, rolls_up }
    }

    /// Begins a program with a notification flag: a holder of the flag can call it.
    ///
    /// # Errors
    ///
    /// As [`Self::begin`], and [`Error::TooMany`] if each notifier is another application's.
    pub(crate) fn open(&mut self, cpu: &mut Cpu, program: Box<dyn App>) -> Result<(AppId, Flag), Error> {
        let Self { notifiers, slots, .. } = self;
        let runs = |id: AppId| slots.get(id.at as usize).is_some_and(|slot| slot.runs(id));
        let slot = notifiers.free(runs).ok_or(Error::TooMany)?;
        let id = self.begin(cpu, program)?;
        let flag = self.notifiers.give(slot, id).ok_or(Error::TooMany)?;
        Ok((id, flag))
    }

    /// Begins a program.
    ///
    /// # Errors
    ///
    /// [`Error::TooMany`], and why the program cannot begin.
    pub(crate) fn begin(&mut self, cpu: &mut Cpu, mut program: Box<dyn App>) -> Result<AppId, Error> {
        // One that was ended in this turn may hold the address that this one wants.
        self.close_left(cpu);
        let id = self.place()?;
        let mut own = Own::new(id);
        let begun = program.begin(&mut AppContext { cpu, own: &mut own });
        self.soonest = self.soonest.min(own.wakes);
        self.rolls_up.extend(own.rolls_up.then_some(id));
        if let Some(slot) = self.slots.get_mut(id.at as usize) {
            *slot = Slot { own, stage: Stage::Runs(program) };
        }
        if begun.is_err() || self.has_left(id) {
            self.end(cpu, id);
        }
        begun.map(|()| id)
    }

    /// A free place, and the name that its next program has.
    fn place(&mut self) -> Result<AppId, Error> {
        self.serial = self.serial.wrapping_add(1);
        let free = self.slots.iter().position(|slot| matches!(slot.stage, Stage::Free));
        let at = free.unwrap_or(self.slots.len());
        if at >= PROGRAMS_MAX {
            return Err(Error::TooMany);
        }
        let id = AppId { at: u32::try_from(at).unwrap_or(u32::MAX), serial: self.serial };
        if free.is_none() {
            self.slots.push(Slot { own: Own::new(id), stage: Stage::Free });
        }
        Ok(id)
    }

    fn has_left(&self, id: AppId) -> bool {
        self.slots.get(id.at as usize).is_some_and(|slot| slot.own.id == id && slot.own.leaves)
    }

    /// Ends a program: it is called no more, and what it holds is closed as if it had done so itself. Nothing happens if
    /// it has left before.
    pub(crate) fn end(&mut self, cpu: &mut Cpu, id: AppId) {
        let Some(slot) = self.slots.get_mut(id.at as usize).filter(|slot| slot.own.id == id) else { return };
        if matches!(slot.stage, Stage::Runs(_)) {
            (slot.stage, slot.own.wakes) = (Stage::Leaves(0), Instant::NEVER);
            self.leaving += 1;
            tcp::watch::listeners_of(cpu, id).into_iter().for_each(|listener| tcp::unlisten(cpu, listener));
        }
    }

    /// Tells programs what has happened and that their times have come, a bounded amount of it, and answers how much.
    pub(crate) fn run(&mut self, cpu: &mut Cpu) -> usize {
        if self.slots.is_empty() {
            return 0;
        }
        let closed = self.close_left(cpu);
        let times = self.times(cpu);
        let knocks = self.run_notified(cpu);
        let frames = if cpu.packets.is_some() { self.frames(cpu) } else { 0 };
        let events = self.events(cpu, EVENTS_MAX);
        cpu.counters.add(Count::ProgramsCut, u64::from(events == EVENTS_MAX));
        self.roll_up(cpu);
        self.look_again(cpu);
        cpu.counters.add(Count::ProgramEvents, (knocks + times + frames + events) as u64);
        closed + knocks + times + frames + events
    }

    /// Tells programs of the packet sockets that have frames, each once.
    #[cold]
    fn frames(&mut self, cpu: &mut Cpu) -> usize {
        let mut told = 0;
        while let Some((program, id, key)) = cpu.packets.as_mut().and_then(|sockets| sockets.next_event()) {
            self.call(cpu, program, |program, cx| program.frames(cx, Handle { id, key }));
            told += 1;
        }
        told
    }

    /// Tells programs what a chunk of packets has brought. Their times, and what they want to look at again, wait for the end
    /// of the turn.
    #[inline]
    pub(crate) fn answer(&mut self, cpu: &mut Cpu) {
        if self.slots.is_empty() {
            return;
        }
        let events = self.events(cpu, CHUNK_EVENTS_MAX);
        cpu.counters.add(Count::ProgramEvents, events as u64);
    }

    /// Calls notified programs.
    fn run_notified(&mut self, cpu: &mut Cpu) -> usize {
        let mut knocks = 0;
        self.notifiers.look();
        while let Some(id) = self.notifiers.next_knocked() {
            self.notify(cpu, id);
            knocks += 1;
        }
        knocks
    }

    /// Calls those that have been told something and wanted to be called behind all of it.
    fn roll_up(&mut self, cpu: &mut Cpu) {
        while let Some(id) = self.rolls_up.pop() {
            self.call(cpu, id, |program, cx| {
                cx.own.rolls_up = false;
                program.roll_up(cx);
                // What it asks for now would come to nothing: it is called now.
                cx.own.rolls_up = false;
            });
        }
    }

    /// Tells whether a notification waits.
    pub(crate) fn is_called(&self) -> bool {
        self.notifiers.is_knocked()
    }

    /// Tells programs of so many events at the most, and answers of how many.
    fn events(&mut self, cpu: &mut Cpu, most: usize) -> usize {
        for done in 0..most {
            let conn = cpu.tcp.as_mut().and_then(|pcbs| pcbs.next_event());
            let sockets = dgram::watch::next_events(cpu);
            match conn {
                Some(Event::Listener(id)) => self.listener(cpu, id),
                Some(Event::Conn(id)) => self.connection(cpu, id),
                None if sockets == [None; 2] => return done,
                None => {}
            }
            sockets.into_iter().flatten().for_each(|id| self.socket(cpu, id));
        }
        most
    }

    /// Notifies a program.
    pub(crate) fn notify(&mut self, cpu: &mut Cpu, id: AppId) {
        self.call(cpu, id, |program, cx| program.called(cx));
    }

    /// Calls a program that is still there.
    fn call<R>(
        &mut self,
        cpu: &mut Cpu,
        id: AppId,
        what: impl FnOnce(&mut dyn App, &mut AppContext<'_>) -> R,
    ) -> Option<R> {
        let slot = self.slots.get_mut(id.at as usize).filter(|slot| slot.own.id == id)?;
        let Stage::Runs(program) = &mut slot.stage else { return None };
        let was_listed = slot.own.rolls_up;
        let done = what(&mut **program, &mut AppContext { cpu, own: &mut slot.own });
        self.soonest = self.soonest.min(slot.own.wakes);
        if slot.own.rolls_up && !was_listed {
            self.rolls_up.push(id);
        }
        if slot.own.leaves {
            self.end(cpu, id);
        }
        Some(done)
    }

    fn listener(&mut self, cpu: &mut Cpu, id: ListenerId) {
        let Some((program, name)) = tcp::watch::look_at_listener(cpu, id) else { return };
        let room = self.call(cpu, program, |program, _| program.room(name)).unwrap_or(0);
        for _ in 0..ACCEPTS_MAX.min(room) {
            let Ok(accepted) = tcp::accept(cpu, id) else { return };
            let key = self.call(cpu, program, |program, cx| program.accepted(cx, name, accepted));
            tcp::watch::hold(cpu, accepted.id, Watch::new(program, key.unwrap_or(0)));
        }
        if room >= ACCEPTS_MAX {
            tcp::watch::look_again_at_listener(cpu, id);
        }
    }

    fn connection(&mut self, cpu: &mut Cpu, id: tcp::Id) {
        let Some(news) = tcp::watch::look(cpu, id) else { return };
        let (program, conn) = (news.program, Handle { id, key: news.key });
        if news.readable {
            self.call(cpu, program, |program, cx| program.readable(cx, conn));
        }
        if news.writable && tcp::watch::is_held(cpu, id) {
            self.call(cpu, program, |program, cx| program.writable(cx, conn));
        }
        if !tcp::watch::is_held(cpu, id) {
            return;
        }
        if let Some(why) = news.ended {
            self.call(cpu, program, |program, cx| program.closed(cx, conn, why));
            let _ = tcp::close(cpu, id);
        }
    }

    fn socket(&mut self, cpu: &mut Cpu, id: dgram::Id) {
        let Some((program, key)) = dgram::watch::look(cpu, id) else { return };
        self.call(cpu, program, |program, cx| match id {
            dgram::Id::Udp(id) => program.datagrams(cx, Handle { id, key }),
            dgram::Id::Raw(id) => program.messages(cx, Handle { id, key }),
        });
    }

    /// Tells programs that their times have come.
    fn times(&mut self, cpu: &mut Cpu) -> usize {
        if self.soonest > cpu.now {
            return 0;
        }
        let mut told = 0;
        self.soonest = Instant::NEVER;
        for at in 0..self.slots.len() {
            let Own { id, wakes, .. } = &mut self.slots[at].own;
            if *wakes <= cpu.now {
                let id = *id;
                *wakes = Instant::NEVER;
                self.call(cpu, id, |program, cx| program.time(cx));
                told += 1;
            }
            self.soonest = self.soonest.min(self.slots[at].own.wakes);
        }
        told
    }

    /// Notes what programs want to look at again: in the next turn, so that none has two shares of one.
    fn look_again(&mut self, cpu: &mut Cpu) {
        for slot in self.slots.iter_mut().filter(|slot| slot.own.asks) {
            slot.own.asks = false;
            slot.own.again.drain(..).for_each(|id| tcp::watch::look_again(cpu, id));
            slot.own.again_at.drain(..).for_each(|id| dgram::watch::look_again(cpu, id));
            let packets = &mut cpu.packets;
            slot.own.again_packet.drain(..).for_each(|id| packets.iter_mut().for_each(|all| all.note(id)));
        }
    }

    /// Closes what programs hold that have left, a bounded number of things.
    fn close_left(&mut self, cpu: &mut Cpu) -> usize {
        if self.leaving == 0 {
            return 0;
        }
        let mut looked_at = 0;
        for slot in &mut self.slots {
            let (id, Stage::Leaves(from)) = (slot.own.id, &slot.stage) else { continue };
            let (conns, more) = tcp::watch::held_by(cpu, id, *from, LEFT_MAX);
            let (sockets, more_sockets) = dgram::watch::held_by(cpu, id, *from, LEFT_MAX);
            // Each was found in this turn, so it is there.
            for conn in conns {
                let _ = tcp::close(cpu, conn);
            }
            for socket in sockets {
                let _ = match socket {
                    dgram::Id::Udp(id) => udp::close(cpu, id),
                    dgram::Id::Raw(id) => raw::close(cpu, id),
                };
            }
            let frames = cpu.packets.as_ref().map(|sockets| sockets.held_by(id)).unwrap_or_default();
            for socket in frames {
                let _ = packet::close(cpu, socket);
            }
            looked_at += 1;
            if more || more_sockets {
                slot.stage = Stage::Leaves(from + LEFT_MAX);
            } else {
                slot.stage = Stage::Free;
                self.leaving -= 1;
            }
        }
        looked_at
    }

    /// When to [`Self::run`] at the latest. What was noted is in the deadlines of TCP and UDP.
    pub(crate) const fn deadline(&self) -> Instant {
        if self.leaving > 0 { Instant::START } else { self.soonest }
    }
}

#[cfg(test)]
mod tests;
