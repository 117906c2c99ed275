//! The context passed to an application's callbacks.

use super::watch::{AppId, Watch};
use crate::base::time::Instant;
use crate::host::sock::Error;
use crate::host::tcp::{self, ListenerId};
use crate::host::{dgram, packet, raw, udp};
use crate::turn::cpu::Cpu;

/// A connection or a socket of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle<Id> {
    /// Its name on this CPU.
    pub id: Id,
    /// The program's own name for it.
    pub key: u32,
}

/// The CPU, for as long as a program is called.
pub struct AppContext<'a> {
    /// The CPU, argument of [`crate::host::tcp`], [`crate::host::udp`], [`crate::host::raw`] and [`crate::host::packet`].
    pub cpu: &'a mut Cpu,
    pub(super) own: &'a mut Own,
}

/// The netisr's part of a program.
#[derive(Debug)]
pub(super) struct Own {
    pub(super) id: AppId,
    /// When it wants to be called.
    pub(super) wakes: Instant,
    /// It wants to leave.
    pub(super) leaves: bool,
    /// It wants to be called behind all that this turn tells.
    pub(super) rolls_up: bool,
    /// Whether there is something in the next three.
    pub(super) asks: bool,
    /// Connections and sockets that it wants to look at again in the next turn.
    pub(super) again: Vec<tcp::Id>,
    pub(super) again_at: Vec<dgram::Id>,
    pub(super) again_packet: Vec<packet::Id>,
}

impl Own {
    pub(super) const fn new(id: AppId) -> Self {
        Self {
            id,
            wakes: Instant::NEVER,
            leaves: false,
            rolls_up: false,
            asks: false,
            again: Vec::new(),
            again_at: Vec::new(),
            again_packet: Vec::new(),
        }
    }
}

impl AppContext<'_> {
    /// Waits for connections on this CPU; what comes is told under the name `key`.
    ///
    /// # Errors
    ///
    /// As [`tcp::listen`].
    pub fn listen(&mut self, wanted: &tcp::Listen, key: u32) -> Result<ListenerId, Error> {
        tcp::watch::listen(self.cpu, wanted, Watch::new(self.own.id, key))
    }

    /// Takes a place to wait for connections later; what comes then is told under the name `key`.
    ///
    /// # Errors
    ///
    /// As [`tcp::bind`].
    pub fn bind(&mut self, wanted: &tcp::Listen, key: u32) -> Result<ListenerId, Error> {
        tcp::watch::bind(self.cpu, wanted, Watch::new(self.own.id, key))
    }

    /// Begins a connection, which the program calls `key`. It is writable when it stands.
    ///
    /// # Errors
    ///
    /// As [`tcp::connect`].
    pub fn connect(&mut self, wanted: &tcp::Connect, key: u32) -> Result<tcp::Id, Error> {
        let id = tcp::connect(self.cpu, wanted)?;
        let mut watch = Watch::new(self.own.id, key);
        watch.wants_room = true;
        tcp::watch::hold(self.cpu, id, watch);
        Ok(id)
    }

    /// Holds a socket that the program has made on this CPU, and calls it `key`.
    pub fn hold(&mut self, socket: udp::Id, key: u32) {
        dgram::watch::hold(self.cpu, socket.into(), Watch::new(self.own.id, key));
    }

    /// Holds a raw socket that the program has opened on this CPU, and calls it `key`.
    pub fn hold_raw(&mut self, socket: raw::Id, key: u32) {
        dgram::watch::hold(self.cpu, socket.into(), Watch::new(self.own.id, key));
    }

    /// In the next turn the program wants to look at a connection again, whether something happens or not: it has left
    /// something undone, because others on this CPU wait.
    pub fn again(&mut self, conn: tcp::Id) {
        self.own.again.push(conn);
        self.own.asks = true;
    }

    /// Calls again for a UDP socket.
    pub fn again_at(&mut self, socket: udp::Id) {
        self.own.again_at.push(socket.into());
        self.own.asks = true;
    }

    /// When programs have been told all that this turn has for them, this one wants to be called once more
    /// ([`super::App::roll_up`]).
    pub const fn roll_up(&mut self) {
        self.own.rolls_up = true;
    }

    /// Calls again for a raw socket.
    pub fn again_raw(&mut self, socket: raw::Id) {
        self.own.again_at.push(socket.into());
        self.own.asks = true;
    }

    /// Holds a packet socket that the program has opened on this CPU, and calls it `key`.
    pub fn hold_packet(&mut self, socket: packet::Id, key: u32) {
        let watch = Watch::new(self.own.id, key);
        self.cpu.packets.iter_mut().for_each(|sockets| sockets.hold(socket, watch));
    }

    /// Calls again for a packet socket.
    pub fn again_packet(&mut self, socket: packet::Id) {
        self.own.again_packet.push(socket);
        self.own.asks = true;
    }

    /// Returns the program's id, for notifications.
    #[must_use]
    pub const fn program(&self) -> AppId {
        self.own.id
    }

    /// The time.
    #[must_use]
    pub const fn now(&self) -> Instant {
        self.cpu.now
    }

    /// Asks for a call at `at`, instead of at the time that was asked for before.
    pub const fn wake_at(&mut self, at: Instant) {
        self.own.wakes = at;
    }

    /// The program leaves when it returns. What it holds is closed.
    pub const fn leave(&mut self) {
        self.own.leaves = true;
    }
}
