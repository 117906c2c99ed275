//! One connection of a channel: bytes between its lane and its buffers.

use pkt::byte_channel::{Broken, Reader, Writer};

use super::end::{END, code};
use super::record::{Event, Setting};
use super::setting::{apply, prepare};
use super::socket::Socket;
use crate::host::pcb::FourTuple;
use crate::host::sock::Error;
use crate::host::tcp::settings::Settings;
use crate::host::tcp::{self, Id};
use crate::ip::ip_tx::IpTxParams;
use crate::turn::cpu::Cpu;

/// The connection of a lane.
pub(super) struct Conn {
    /// Received bytes go there, and bytes to be sent come from there; gone when the netisr has left the lane.
    lane: Option<(Writer, Reader)>,
    pub(super) stage: Stage,
    ends: Option<FourTuple>,
    /// The listener that has accepted it.
    listener: u32,
    /// The program has left the lane.
    pub(super) is_closing: bool,
    /// The end of what is sent was passed on.
    is_shut: bool,
    /// The end of what comes was passed on.
    is_ended: bool,
    untold: u8,
    /// It stands in the list of those that have something untold.
    pub(super) is_listed: bool,
}

// docs/reference/LIMITS.md says so.
const _: () = assert!(size_of::<Conn>() <= 216);

/// The stage of a lane.
pub(super) enum Stage {
    /// A connection will behave like this.
    Prepared(Box<(Settings, IpTxParams)>),
    /// It waits for a connection that this listener accepts.
    Offered(u32),
    /// It carries this connection.
    Up(Id),
    /// It carries the datagrams of this socket.
    Socket(Box<Socket>),
    /// The connection has ended. What there was no room for in the lane, and how the stream ends behind it.
    Over { rest: Vec<u8>, told: usize, how: u32 },
}

/// Events of a lane for the program: a bit each, the lowest first.
const ACCEPTED: u8 = 1;
const CONNECTED: u8 = 2;
const READABLE: u8 = 4;
const WRITABLE: u8 = 8;
const ENDED: u8 = 16;
const FAILED: u8 = 32;
const FREE: u8 = 64;

/// The result of sending bytes.
enum Sent {
    All,
    /// There was no room for the others.
    Some,
    /// The connection takes no more.
    None,
}

/// The result of moving received bytes.
enum Moved {
    All,
    /// There was no room for the others.
    Some,
    /// There were none to be read now.
    None,
    Broken,
}

impl Conn {
    pub(super) const fn new(lane: (Writer, Reader), stage: Stage) -> Self {
        Self {
            lane: Some(lane),
            stage,
            ends: None,
            listener: 0,
            is_closing: false,
            is_shut: false,
            is_ended: false,
            untold: 0,
            is_listed: false,
        }
    }

    /// Carries this connection from now on, that a listener has accepted.
    pub(super) fn accepted(&mut self, listener: u32, id: Id, ends: FourTuple) {
        (self.stage, self.listener, self.ends) = (Stage::Up(id), listener, Some(ends));
        self.untold |= ACCEPTED;
    }

    /// Its connection stands, if it was begun from here and that is new.
    pub(super) fn stands(&mut self, cpu: &Cpu) {
        if let (Stage::Up(id), None) = (&self.stage, self.ends) {
            self.ends = tcp::connection(cpu, *id).map(|(ends, _)| *ends);
            self.untold |= CONNECTED;
        }
    }

    /// Moves what the program has written to the connection, as much as it takes. True if that is all there will be.
    ///
    /// # Errors
    ///
    /// [`Broken`].
    pub(super) fn send(&mut self, cpu: &mut Cpu) -> Result<bool, Broken> {
        let (Stage::Up(id), Some((_, from)), false) = (&self.stage, &mut self.lane, self.is_shut) else {
            return Ok(self.is_shut);
        };
        let id = *id;
        loop {
            // First whether the writer has ended, then the bytes that are there.
            let is_left = self.is_closing || from.is_abandoned();
            let sent = from.read_in_place(|pieces| send(cpu, id, pieces))?;
            if from.release()? {
                self.untold |= WRITABLE;
            }
            match sent {
                Sent::Some => return Ok(false),
                Sent::None => return Ok(is_left),
                Sent::All => {}
            }
            if from.end()?.is_some() || is_left {
                self.is_shut = true;
                // One that is gone has ended already.
                let _ = tcp::shutdown(cpu, id);
                return Ok(true);
            }
            if from.waits()? {
                return Ok(false);
            }
        }
    }

    /// Moves what has come to the program, as much as there is room for, and the end behind it.
    ///
    /// # Errors
    ///
    /// [`Broken`].
    pub(super) fn receive(&mut self, cpu: &mut Cpu) -> Result<(), Broken> {
        let (Stage::Up(id), Some((to, _))) = (&self.stage, &mut self.lane) else {
            return self.receive_rest();
        };
        while !self.is_ended {
            let moved = tcp::read_in_place(cpu, *id, |pieces| write(to, pieces));
            let has_end = matches!(moved, Ok(None));
            let is_told = if has_end { to.finish(END) } else { to.publish() };
            self.untold |= if is_told { READABLE } else { 0 };
            self.is_ended = has_end;
            match moved {
                Ok(Some(Moved::All)) => {}
                Ok(Some(Moved::Some)) if !to.waits()? => {}
                Ok(Some(Moved::Broken)) => return Err(Broken),
                Ok(_) | Err(_) => break,
            }
        }
        Ok(())
    }

    /// Moves the bytes left when the connection ended.
    fn receive_rest(&mut self) -> Result<(), Broken> {
        let (Stage::Over { rest, told, how }, Some((to, _)), false) =
            (&mut self.stage, &mut self.lane, self.is_ended)
        else {
            return Ok(());
        };
        loop {
            *told += to.write(&rest[*told..])?;
            self.is_ended = *told == rest.len();
            let is_told = if self.is_ended { to.finish(*how) } else { to.publish() };
            self.untold |= if is_told { READABLE } else { 0 };
            if self.is_ended || to.waits()? {
                return Ok(());
            }
        }
    }

    /// The connection has ended, and this is the last time that it can be asked for bytes.
    ///
    /// # Errors
    ///
    /// [`Broken`].
    pub(super) fn end(&mut self, cpu: &mut Cpu, id: Id, why: Option<Error>) -> Result<(), Broken> {
        self.receive(cpu)?;
        let mut rest = Vec::new();
        let all = |pieces: [&[u8]; 2]| (pieces[0].len() + pieces[1].len(), pieces.concat());
        if !self.is_closing
            && let Ok(Some(bytes)) = tcp::read_in_place(cpu, id, all)
        {
            rest = bytes;
        }
        self.fail(rest, why.map_or(END, code))
    }

    /// There is no connection, or no longer: `rest` is what the program has still to read.
    ///
    /// # Errors
    ///
    /// [`Broken`].
    pub(super) fn fail(&mut self, rest: Vec<u8>, how: u32) -> Result<(), Broken> {
        self.stage = Stage::Over { rest, told: 0, how };
        self.untold |= ENDED;
        self.receive_rest()
    }

    /// Whether something has come that the program has not read, and will not.
    pub(super) fn has_unread(&self, cpu: &Cpu) -> bool {
        let in_lane = self.lane.as_ref().is_some_and(|(to, _)| to.is_drained() == Ok(false));
        let Stage::Up(id) = &self.stage else { return in_lane };
        in_lane || tcp::connection(cpu, *id).is_some_and(|(_, tcb)| tcb.readable() > 0)
    }

    /// The netisr has nothing to do with the lane any more.
    pub(super) fn leave(&mut self) {
        self.lane = None;
        self.stage = Stage::Over { rest: Vec::new(), told: 0, how: END };
        self.untold = FREE;
    }

    /// Returns the next event for the program.
    pub(super) fn news(&self, lane: u32) -> Option<Event> {
        Some(match (self.untold & self.untold.wrapping_neg(), self.ends) {
            (ACCEPTED, Some(ends)) => Event::Accepted { listener: self.listener, lane, ends },
            (CONNECTED, Some(ends)) => Event::Connected(lane, ends),
            (READABLE, _) => Event::Readable(lane),
            (WRITABLE, _) => Event::Writable(lane),
            (ENDED, _) => Event::Ended(lane),
            (FAILED, _) => self.socket()?.failed(lane)?,
            (FREE, _) => Event::Free(lane),
            _ => return None,
        })
    }

    /// The program has been told what was next.
    pub(super) fn told(&mut self) {
        let is_failure = self.untold & self.untold.wrapping_neg() == FAILED;
        if let (true, Stage::Socket(socket)) = (is_failure, &mut self.stage)
            && socket.told()
        {
            return;
        }
        self.untold &= self.untold.wrapping_sub(1);
    }

    /// The socket whose datagrams it carries.
    pub(super) fn socket(&self) -> Option<&Socket> {
        match &self.stage {
            Stage::Socket(socket) => Some(socket),
            _ => None,
        }
    }

    /// Moves datagrams, as many as may be at once, in both directions; true if there are more.
    ///
    /// # Errors
    ///
    /// [`Broken`].
    pub(super) fn exchange(&mut self, cpu: &mut Cpu, whole: &mut Vec<u8>) -> Result<bool, Broken> {
        let (Stage::Socket(socket), Some((to, from))) = (&mut self.stage, &mut self.lane) else {
            return Ok(false);
        };
        let sent = socket.send(cpu, from, whole)?;
        // Received bytes are discarded after the program has left.
        let come = if self.is_closing { super::socket::Moved::default() } else { socket.receive(cpu, to)? };
        self.untold |= if come.readable { READABLE } else { 0 };
        self.untold |= if sent.writable { WRITABLE } else { 0 };
        self.untold |= if socket.has_failed() { FAILED } else { 0 };
        Ok(sent.more || come.more)
    }

    /// Changes how the connection behaves, or will.
    pub(super) fn set(&mut self, cpu: &mut Cpu, setting: Setting) {
        match &mut self.stage {
            Stage::Prepared(how) => prepare(&mut how.0, &mut how.1, setting),
            Stage::Up(id) => apply(cpu, *id, setting),
            Stage::Socket(socket) => socket.set(cpu, setting),
            Stage::Offered(_) | Stage::Over { .. } => {}
        }
    }
}

/// Sends as much of the pieces as there is room for.
fn send(cpu: &mut Cpu, id: Id, pieces: [&[u8]; 2]) -> (usize, Sent) {
    let mut count = 0;
    for piece in pieces.into_iter().filter(|piece| !piece.is_empty()) {
        match tcp::send(cpu, id, piece) {
            Ok(taken) => {
                count += taken;
                if taken < piece.len() {
                    return (count, Sent::Some);
                }
            }
            Err(Error::WouldBlock) => return (count, Sent::Some),
            Err(_) => return (count, Sent::None),
        }
    }
    (count, Sent::All)
}

/// Writes as much of the pieces as there is room for.
fn write(to: &mut Writer, pieces: [&[u8]; 2]) -> (usize, Moved) {
    let mut count = 0;
    for piece in pieces {
        let Ok(taken) = to.write(piece) else { return (count, Moved::Broken) };
        count += taken;
        if taken < piece.len() {
            return (count, Moved::Some);
        }
    }
    (count, if count == 0 { Moved::None } else { Moved::All })
}
