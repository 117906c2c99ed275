//! One socket: what it waits for, what has come, what has gone wrong.

use core::net::{IpAddr, SocketAddr};
use std::collections::VecDeque;

use crate::emit::Look;
use crate::group::{Filter, Key, Membership, is_everybodys};
use crate::pcb::{Bound, Ends};
use crate::program::Watch;
use crate::sock::Error;
use crate::tables::IfIndex;
use crate::tcp::buffer::Buffer;

/// Bytes that may wait to be read unless a program says otherwise: FreeBSD's number.
pub const QUEUE_BYTES: usize = 42_080;
/// As many bytes as a program can let wait.
pub const QUEUE_BYTES_MAX: usize = 2 << 20;
/// Datagrams that may wait to be read, however short.
pub const DATAGRAMS_MAX: usize = 4096;
/// Failures that wait to be asked for; the oldest give way.
pub const FAILURES_MAX: usize = 16;

/// Names a socket on its CPU, also when another one has its place later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Id {
    pub(super) at: u32,
    pub(super) serial: u32,
}

/// How a socket behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How its packets look.
    pub look: Look,
    /// Time to live, or hop limit, of what it sends to groups.
    pub group_hops: u8,
    /// The interface by which it sends to groups and to everybody on a link; 0: where the route leads, or the first.
    pub group_if: IfIndex,
    /// What it sends to groups, those who listen on this host do not have.
    pub no_loop: bool,
    /// It may send to everybody on a link.
    pub may_broadcast: bool,
    /// What is too big for a link on the way is not cut, and the program is told.
    pub dont_fragment: bool,
    /// Bytes that may wait to be read, [`QUEUE_BYTES_MAX`] at the most.
    pub queue_bytes: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            look: Look::default(),
            //= https://www.rfc-editor.org/rfc/rfc1112#section-6.1
            //# If the upper-layer protocol
            //# chooses not to specify a time-to-live, it should default to 1 for all
            //# multicast IP datagrams, so that an explicit choice is required to
            //# multicast beyond a single network.
            group_hops: 1,
            group_if: 0,
            no_loop: false,
            may_broadcast: false,
            dont_fragment: false,
            queue_bytes: QUEUE_BYTES,
        }
    }
}

/// A datagram that was read, without its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Bytes that it has: more than were read, if there was no room for all.
    pub len: usize,
    /// Who sent it.
    pub from: SocketAddr,
    /// To which address of ours, or to which group.
    pub to: IpAddr,
    /// By which interface it came.
    pub ifindex: IfIndex,
    /// The time to live, or hop limit, and the type of service, or traffic class, that it came with.
    pub look: Look,
}

/// What became of a datagram that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// To whom it was.
    pub to: SocketAddr,
    /// Why it did not arrive.
    pub error: Error,
}

/// What a program could do now without being told to wait.
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
pub(super) struct Socket {
    pub(super) id: Id,
    /// What it waits for.
    pub(super) bound: Bound,
    /// Whom it speaks with, if with one only.
    pub(super) ends: Option<Ends>,
    pub(super) settings: Settings,
    /// Groups that it listens to.
    pub(super) memberships: Vec<Membership>,
    /// The program of this CPU that is told of it.
    pub(super) watch: Option<Watch>,
    queue: Queue,
    failures: VecDeque<Failure>,
}

/// Datagrams that wait to be read, the first to come first.
#[derive(Default)]
struct Queue {
    datagrams: VecDeque<Received>,
    bytes: Buffer,
}

impl Socket {
    pub(super) fn new(bound: Bound, ends: Option<Ends>, settings: Settings) -> Self {
        let id = Id { at: 0, serial: 0 };
        let (memberships, queue, failures) = (Vec::new(), Queue::default(), VecDeque::new());
        Self { id, bound, ends, settings, watch: None, memberships, queue, failures }
    }

    /// Whom it listens to in a group; `None` if it is not in it.
    pub(super) fn filter(&self, key: Key) -> Option<&Filter> {
        self.memberships.iter().find(|membership| membership.key == key).map(|membership| &membership.filter)
    }

    /// Whether it listens to what `sender` sends to a group. It need not have joined what everybody is in; `None` if it
    /// is not in the group.
    pub(super) fn admits(&self, key: Key, sender: IpAddr) -> Option<bool> {
        match self.filter(key) {
            Some(filter) => Some(filter.admits(sender)),
            None => is_everybodys(key.group).then_some(true),
        }
    }

    /// Whether a datagram of `len` bytes may wait.
    pub(super) fn has_room(&self, len: usize) -> bool {
        let room = self.settings.queue_bytes.min(QUEUE_BYTES_MAX);
        self.queue.datagrams.len() < DATAGRAMS_MAX && self.queue.bytes.len() + len <= room
    }

    /// A datagram of the bytes of `pieces` has come, and there is room for it.
    pub(super) fn push<'a>(&mut self, received: Received, pieces: impl Iterator<Item = &'a [u8]>) {
        pieces.for_each(|piece| self.queue.bytes.push(piece));
        self.queue.datagrams.push_back(received);
    }

    /// Bytes of the datagram that is read next.
    pub(super) fn next_len(&self) -> Option<usize> {
        self.queue.datagrams.front().map(|datagram| datagram.len)
    }

    /// Copies the first datagram into `into`, as much of it as there is room for.
    pub(super) fn pop(&mut self, into: &mut [u8]) -> Option<Received> {
        let Queue { datagrams, bytes } = &mut self.queue;
        let received = datagrams.pop_front()?;
        let len = received.len.min(into.len());
        bytes.copy_to(0, &mut into[..len]);
        bytes.forget(received.len);
        if datagrams.is_empty() {
            *datagrams = VecDeque::new();
        }
        Some(received)
    }

    /// Notes what became of a datagram; of too many, the oldest is forgotten.
    pub(super) fn fail(&mut self, failure: Failure) {
        if self.failures.len() >= FAILURES_MAX {
            self.failures.pop_front();
        }
        self.failures.push_back(failure);
    }

    /// The oldest that is not known yet.
    pub(super) fn failure(&mut self) -> Option<Failure> {
        self.failures.pop_front()
    }

    /// Of a connected socket: the next call says what became of what was sent.
    pub(super) fn check(&mut self) -> Result<(), Error> {
        match self.ends.and_then(|_| self.failures.pop_front()) {
            Some(failure) => Err(failure.error),
            None => Ok(()),
        }
    }

    pub(super) fn ready(&self) -> Ready {
        let (datagrams, failures) = (self.queue.datagrams.len(), self.failures.len());
        let readable = datagrams > 0 || failures > 0 && self.ends.is_some();
        Ready { readable, datagrams, bytes: self.queue.bytes.len(), failures }
    }
}
