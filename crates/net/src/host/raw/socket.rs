//! The raw sockets of one CPU.

use core::net::IpAddr;

use super::filter::Filter;
use crate::host::app::Noted;
use crate::host::dgram::{Base, Settings};
use crate::host::pcb::{Bound, FourTuple};
use crate::host::sock::Error;
use crate::ip::group::Key;

/// Raw sockets of one CPU at the most: each message is held to each of them.
pub const SOCKETS_MAX: usize = 64;

/// Names a socket on its CPU, also when another one has its place later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Id {
    pub(super) at: u32,
    serial: u32,
}

/// The readiness of a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ready {
    /// Messages that wait.
    pub messages: usize,
    /// Their bytes.
    pub bytes: usize,
}

/// One socket.
pub(crate) struct Socket {
    pub(crate) id: Id,
    /// Local address; ports are 0.
    pub(super) bound: Bound,
    /// Peer, if connected.
    pub(super) remote: Option<IpAddr>,
    pub(super) filter: Filter,
    /// Common part.
    pub(crate) base: Base,
}

// docs/reference/LIMITS.md says so.
const _: () = assert!(size_of::<Socket>() <= 240);

impl Socket {
    pub(super) fn new(bound: Bound, remote: Option<IpAddr>, filter: Filter, settings: Settings) -> Self {
        let id = Id { at: 0, serial: 0 };
        Self { id, bound, remote, filter, base: Base::new(settings) }
    }

    /// Whether it is shown a message of type `kind` between `ends`.
    pub(super) fn wants(&self, ends: &FourTuple, kind: u8) -> bool {
        self.filter.passes(kind) && self.is_between(ends)
    }

    fn is_between(&self, ends: &FourTuple) -> bool {
        let is_same_zone = self.bound.zone == 0 || ends.zone == 0 || self.bound.zone == ends.zone;
        is_same_zone
            && self.bound.rank(ends).is_some()
            && self.remote.is_none_or(|remote| remote == ends.remote)
    }

    /// Whether it listens to what `sender` sends to a group, if it is one; `is_own` says whether the host is in it anyway.
    pub(super) fn hears(&self, key: Key, sender: IpAddr, is_own: bool) -> bool {
        self.base.filter(key).map_or(is_own, |filter| filter.admits(sender))
    }

    pub(super) fn ready(&self) -> Ready {
        Ready { messages: self.base.queue.len(), bytes: self.base.queue.bytes() }
    }
}

/// All of one CPU.
#[derive(Default)]
pub struct Sockets {
    slots: Vec<Option<Box<Socket>>>,
    serial: u32,
    /// Sockets with events, each once.
    pub(crate) noted: Noted<Id>,
}

impl Sockets {
    /// Adds a socket.
    ///
    /// # Errors
    ///
    /// [`Error::TooMany`].
    pub(super) fn add(&mut self, mut socket: Socket) -> Result<Id, Error> {
        let at = self.slots.iter().position(Option::is_none).unwrap_or(self.slots.len());
        if at >= SOCKETS_MAX {
            return Err(Error::TooMany);
        }
        self.serial = self.serial.wrapping_add(1);
        socket.id = Id { at: u32::try_from(at).unwrap_or(u32::MAX), serial: self.serial };
        let id = socket.id;
        if at == self.slots.len() {
            self.slots.push(None);
        }
        self.slots[at] = Some(Box::new(socket));
        Ok(id)
    }

    /// Takes a socket out.
    pub(super) fn remove(&mut self, id: Id) -> Option<Box<Socket>> {
        self.get(id)?;
        self.slots.get_mut(id.at as usize)?.take()
    }

    pub(super) fn get(&self, id: Id) -> Option<&Socket> {
        self.at(id.at).filter(|socket| socket.id == id)
    }

    pub(super) fn get_mut(&mut self, id: Id) -> Option<&mut Socket> {
        self.slots.get_mut(id.at as usize)?.as_deref_mut().filter(|socket| socket.id == id)
    }

    /// Returns the common part.
    pub(crate) fn base(&self, id: Id) -> Option<&Base> {
        self.get(id).map(|socket| &socket.base)
    }

    /// Returns the common part for change.
    pub(crate) fn base_mut(&mut self, id: Id) -> Option<&mut Base> {
        self.get_mut(id).map(|socket| &mut socket.base)
    }

    /// The socket in a place.
    pub(crate) fn at(&self, at: u32) -> Option<&Socket> {
        self.slots.get(at as usize)?.as_deref()
    }

    /// One beyond the last place.
    pub(crate) fn places_end(&self) -> usize {
        self.slots.len()
    }

    /// Whether there is a socket for messages between `ends`.
    pub(super) fn has(&self, ends: &FourTuple) -> bool {
        self.slots.iter().flatten().any(|socket| socket.is_between(ends))
    }

    /// Shows `each` all of them; where it answers that something has come, their programs are to look.
    pub(super) fn each(&mut self, mut each: impl FnMut(&mut Socket) -> bool) {
        for socket in self.slots.iter_mut().filter_map(Option::as_deref_mut) {
            if each(socket) {
                self.noted.note(socket.id, &mut socket.base.watch);
            }
        }
    }

    /// A socket is to be looked at, if it has a program.
    pub(crate) fn note(&mut self, id: Id) {
        let socket = self.slots.get_mut(id.at as usize).and_then(Option::as_deref_mut);
        if let Some(socket) = socket.filter(|socket| socket.id == id) {
            self.noted.note(id, &mut socket.base.watch);
        }
    }
}
