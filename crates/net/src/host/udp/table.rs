//! The sockets of one CPU: connected ones by their ends, the others by their port.

use hashbrown::HashMap;

use super::socket::{Id, Socket};
use crate::base::collections::index::Index;
use crate::base::collections::slab::Slab;
use crate::base::secret::Secret;
use crate::host::app::Noted;
use crate::host::dgram::Base;
use crate::host::pcb::{self, FourTuple};
use crate::host::sock::Error;
use crate::link::tables::IfIndex;

/// Sockets of one CPU at the most.
pub const SOCKETS_MAX: usize = 1 << 16;

/// All of one CPU.
pub struct Sockets {
    secret: [u64; 4],
    index: Index,
    slab: Slab<Option<Box<Socket>>>,
    /// Places of those that are not connected, in the order in which they came.
    ports: HashMap<u16, Vec<u32>, Secret>,
    serial: u32,
    /// Sockets with events, each once.
    pub(crate) noted: Noted<Id>,
    /// There is, or was, a socket that is bound to an interface.
    pub(super) has_devices: bool,
    /// Sockets at the most.
    pub(super) room: usize,
}

impl Sockets {
    pub(super) fn new(secret: &mut Secret) -> Self {
        Self {
            secret: pcb::secrets(secret),
            index: Index::new(),
            slab: Slab::new(),
            ports: HashMap::with_hasher(Secret::new(secret.draw().into())),
            serial: 0,
            noted: Noted::default(),
            has_devices: false,
            room: SOCKETS_MAX,
        }
    }

    /// Adds a socket.
    ///
    /// # Errors
    ///
    /// [`Error::AddrInUse`], [`Error::TooMany`].
    pub(super) fn add(&mut self, mut socket: Socket) -> Result<Id, Error> {
        if self.slab.len() >= self.room {
            return Err(Error::TooMany);
        }
        if self.is_excluded(&socket) {
            return Err(Error::AddrInUse);
        }
        self.has_devices |= socket.base.settings.device != 0;
        self.serial = self.serial.wrapping_add(1);
        let (ends, port) = (socket.ends, socket.bound.addr.port());
        let at = self.slab.insert(None).ok_or(Error::TooMany)?;
        let id = Id { at, serial: self.serial };
        if let Some(place) = self.slab.get_mut(at) {
            socket.id = id;
            *place = Some(Box::new(socket));
        }
        match ends {
            Some(ends) => {
                let Self { secret, slab, index, .. } = self;
                index.insert(ends.hash(secret), at, |at| hash_of(slab, secret, at));
            }
            None => self.ports.entry(port).or_default().push(at),
        }
        Ok(id)
    }

    fn is_excluded(&self, socket: &Socket) -> bool {
        match &socket.ends {
            Some(ends) => self.connected(ends).is_some(),
            None => {
                self.at_port(socket.bound.addr.port()).any(|other| other.bound().excludes(&socket.bound()))
            }
        }
    }

    /// Takes a socket out.
    pub(super) fn remove(&mut self, id: Id) -> Option<Box<Socket>> {
        let ends = self.get_mut(id)?.ends;
        if let Some(ends) = ends {
            let Self { secret, slab, index, .. } = self;
            index.remove(ends.hash(secret), id.at, |at| hash_of(slab, secret, at));
        }
        let socket = self.slab.get_mut(id.at)?.take()?;
        self.slab.remove(id.at);
        if ends.is_none() {
            self.leave_port(socket.bound.addr.port(), id.at);
        }
        Some(socket)
    }

    fn leave_port(&mut self, port: u16, at: u32) {
        let Some(places) = self.ports.get_mut(&port) else { return };
        places.retain(|place| *place != at);
        if places.is_empty() {
            self.ports.remove(&port);
        }
    }

    pub(super) fn get(&self, id: Id) -> Option<&Socket> {
        self.slab.get(id.at)?.as_deref().filter(|socket| socket.id == id)
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
        self.slab.get(at)?.as_deref()
    }

    /// One beyond the last place, or more.
    pub(crate) const fn places_end(&self) -> usize {
        self.slab.end()
    }

    pub(super) fn get_mut(&mut self, id: Id) -> Option<&mut Socket> {
        self.slab.get_mut(id.at)?.as_deref_mut().filter(|socket| socket.id == id)
    }

    /// A socket is to be looked at, if it has a program.
    pub(crate) fn note(&mut self, id: Id) {
        let socket = self.slab.get_mut(id.at).and_then(Option::as_deref_mut);
        if let Some(socket) = socket.filter(|socket| socket.id == id) {
            self.noted.note(id, &mut socket.base.watch);
        }
    }

    /// Returns the ends by which the socket is found for a packet that came by `rcvif`: those of a socket that is bound to an interface
    /// name it, whatever their addresses are.
    #[inline]
    pub(crate) fn scoped(&self, ends: FourTuple, rcvif: IfIndex) -> FourTuple {
        match self.has_devices && self.connected(&ends).is_none() {
            true => FourTuple { zone: rcvif, ..ends },
            false => ends,
        }
    }

    /// Returns the socket for a datagram, or an error, between `ends`: a connected socket before any other.
    pub(super) fn find(&mut self, ends: &FourTuple) -> Option<&mut Socket> {
        let at = self.connected(ends).or_else(|| self.waiting(ends))?;
        let socket = self.slab.get_mut(at)?.as_deref_mut()?;
        self.noted.note(socket.id, &mut socket.base.watch);
        Some(socket)
    }

    /// Whether there is a socket for datagrams between `ends`.
    pub(crate) fn has(&self, ends: &FourTuple) -> bool {
        self.connected(ends).or_else(|| self.waiting(ends)).is_some()
    }

    /// All that a datagram to a group, or to everybody on a link, is for.
    pub(super) fn each(&mut self, ends: &FourTuple, mut each: impl FnMut(&mut Socket)) {
        let Self { ports, slab, noted, .. } = self;
        for at in ports.get(&ends.local_port).into_iter().flatten() {
            let socket = slab.get_mut(*at).and_then(|socket| socket.as_deref_mut());
            if let Some(socket) = socket.filter(|socket| socket.bound().rank(ends).is_some()) {
                noted.note(socket.id, &mut socket.base.watch);
                each(socket);
            }
        }
    }

    /// Whether a conversation between `ends` would take from another socket what is its own.
    pub(super) fn is_taken(&self, ends: &FourTuple) -> bool {
        self.connected(ends).is_some() || self.is_port_taken(ends.local_port)
    }

    /// Tells whether a port is bound.
    pub(super) fn is_port_taken(&self, port: u16) -> bool {
        self.ports.contains_key(&port)
    }

    fn connected(&self, ends: &FourTuple) -> Option<u32> {
        let ends_of = |at| self.slab.get(at)?.as_ref()?.ends.as_ref();
        self.index.find(ends.hash(&self.secret), |at| ends_of(at) == Some(ends))
    }

    fn waiting(&self, ends: &FourTuple) -> Option<u32> {
        let bounds = self.at_port(ends.local_port).map(Socket::bound);
        let chosen = pcb::choose(bounds, ends)?;
        self.ports.get(&ends.local_port)?.get(chosen).copied()
    }

    fn at_port(&self, port: u16) -> impl Iterator<Item = &Socket> + Clone {
        let places = self.ports.get(&port).into_iter().flatten();
        places.filter_map(|at| self.slab.get(*at)?.as_deref())
    }
}

fn hash_of(slab: &Slab<Option<Box<Socket>>>, secret: &[u64; 4], at: u32) -> u64 {
    let socket = slab.get(at).and_then(Option::as_ref);
    socket.and_then(|socket| socket.ends).map_or(0, |ends| ends.hash(secret))
}
