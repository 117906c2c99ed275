//! One socket: what it waits for, what has come, what has gone wrong.

use super::failures::Failures;
use crate::host::dgram::{Base, Settings};
use crate::host::pcb::{Bound, FourTuple};
use crate::host::sock::Error;
use crate::ip::group::{Key, is_everybodys};
use core::net::{IpAddr, SocketAddr};

/// Names a socket on its CPU, also when another one has its place later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Id {
    pub(super) at: u32,
    pub(super) serial: u32,
}

/// The error of a sent datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Destination.
    pub to: SocketAddr,
    /// Why it did not arrive.
    pub error: Error,
    /// The ICMP error that says so; `None` if it was not sent at all.
    pub icmp: Option<Icmp>,
}

/// The header of an ICMP error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Icmp {
    /// Its sender: a router, the destination, or this host.
    pub from: IpAddr,
    /// Its type.
    pub kind: u8,
    /// Its code.
    pub code: u8,
    /// The MTU of the next hop, or the place of a wrong byte; else 0.
    pub info: u32,
}

// docs/reference/LIMITS.md says so.
const _: () = assert!(size_of::<Failure>() <= 72);

/// The readiness of a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ready {
    /// There is a datagram to read, or an error.
    pub readable: bool,
    /// Datagrams that wait.
    pub datagrams: usize,
    /// Their bytes.
    pub bytes: usize,
    /// Failures that wait.
    pub failures: usize,
}

/// One socket.
pub(crate) struct Socket {
    pub(crate) id: Id,
    /// Local address.
    pub(super) bound: Bound,
    /// Four-tuple, if connected.
    pub(super) ends: Option<FourTuple>,
    /// Common part.
    pub(crate) base: Base,
    failures: Failures,
}

// docs/reference/LIMITS.md says so.
const _: () = assert!(size_of::<Socket>() <= 256);

impl Socket {
    pub(super) fn new(bound: Bound, ends: Option<FourTuple>, settings: Settings) -> Self {
        let id = Id { at: 0, serial: 0 };
        Self { id, bound, ends, base: Base::new(settings), failures: Failures::default() }
    }

    /// Local address, and the interface that it is bound to.
    pub(super) const fn bound(&self) -> Bound {
        Bound { device: self.base.settings.device, ..self.bound }
    }

    /// Whether it listens to what `sender` sends to a group. It need not have joined what everybody is in; `None` if it
    /// is not in the group.
    pub(super) fn admits(&self, key: Key, sender: IpAddr) -> Option<bool> {
        match self.base.filter(key) {
            Some(filter) => Some(filter.admits(sender)),
            None => is_everybodys(key.group).then_some(true),
        }
    }

    /// Notes what became of a datagram; of too many, the oldest is forgotten.
    pub(super) fn fail(&mut self, failure: Failure, quote: &[u8]) {
        self.failures.push(failure, quote, 0);
    }

    /// The oldest that is not known yet, and what an error quotes of its datagram.
    pub(super) fn failure(&mut self, quote: &mut Vec<u8>) -> Option<Failure> {
        self.failures.pop(quote)
    }

    /// Returns the pending error of a connected socket.
    pub(super) fn check(&mut self) -> Result<(), Error> {
        match self.ends.and_then(|_| self.failures.pop(&mut Vec::new())) {
            Some(failure) => Err(failure.error),
            None => Ok(()),
        }
    }

    pub(super) fn ready(&self) -> Ready {
        let (datagrams, failures) = (self.base.queue.len(), self.failures.len());
        let readable = datagrams > 0 || failures > 0 && self.ends.is_some();
        Ready { readable, datagrams, bytes: self.base.queue.bytes(), failures }
    }
}
