//! Datagrams that wait to be read.

use core::net::{IpAddr, SocketAddr};
use std::collections::VecDeque;

use crate::host::tcp::buffer::Buffer;
use crate::ip::ip_tx::IpTxParams;
use crate::link::tables::IfIndex;

/// Bytes that may wait to be read unless a program says otherwise: FreeBSD's number.
pub const QUEUE_BYTES: usize = 42_080;
/// Largest receive buffer of a program, in bytes.
pub const QUEUE_BYTES_MAX: usize = 2 << 20;
/// Datagrams that may wait to be read, however short.
pub const DATAGRAMS_MAX: usize = 4096;
/// A datagram that was read, without its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Bytes that it has: more than were read, if there was no room for all.
    pub len: usize,
    /// Source; without ports, 0.
    pub from: SocketAddr,
    /// To which address of ours, or to which group.
    pub to: IpAddr,
    /// By which interface it came.
    pub ifindex: IfIndex,
    /// The time to live, or hop limit, and the type of service, or traffic class, that it came with.
    pub tx_params: IpTxParams,
}

/// The record of a datagram or frame that waits, besides its bytes.
pub(crate) trait Record: Copy {
    /// Bytes that wait.
    fn bytes(&self) -> usize;
}

impl Record for Received {
    fn bytes(&self) -> usize {
        self.len
    }
}

/// Datagrams, or frames, that wait to be read, the first to come first.
pub(crate) struct Queue<R = Received> {
    datagrams: VecDeque<R>,
    bytes: Buffer,
}

impl<R> Default for Queue<R> {
    fn default() -> Self {
        Self { datagrams: VecDeque::new(), bytes: Buffer::default() }
    }
}

impl<R: Record> Queue<R> {
    /// Returns the number of queued datagrams.
    pub(crate) fn len(&self) -> usize {
        self.datagrams.len()
    }

    /// Their bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Whether one more, of `len` bytes, may wait, where `room` bytes may.
    pub(crate) fn has_room(&self, len: usize, room: usize) -> bool {
        self.datagrams.len() < DATAGRAMS_MAX && self.bytes.len() + len <= room.min(QUEUE_BYTES_MAX)
    }

    /// A datagram of the bytes of `pieces` has come, and there is room for it.
    pub(crate) fn push<'a>(&mut self, received: R, pieces: impl Iterator<Item = &'a [u8]>) {
        pieces.for_each(|piece| self.bytes.push(piece));
        self.datagrams.push_back(received);
    }

    /// Shows the first datagram to `what`, in two pieces where it stands, which says whether it is read with that.
    pub(crate) fn show<T>(&mut self, what: impl FnOnce(&R, [&[u8]; 2]) -> (bool, T)) -> Option<T> {
        let received = self.datagrams.front()?;
        let len = received.bytes();
        let (is_read, done) = what(received, self.bytes.read(0, len));
        if is_read {
            self.forget(len);
        }
        Some(done)
    }

    /// The first datagram, of `len` bytes, was read.
    fn forget(&mut self, len: usize) {
        let Self { datagrams, bytes } = self;
        bytes.forget(len);
        datagrams.pop_front();
        if datagrams.is_empty() {
            *datagrams = VecDeque::new();
        }
    }

    /// Bytes of the datagram that is read next.
    pub(crate) fn next_len(&self) -> Option<usize> {
        self.datagrams.front().map(Record::bytes)
    }

    /// Copies the first datagram into `into`, as much of it as there is room for.
    pub(crate) fn pop(&mut self, into: &mut [u8]) -> Option<R> {
        let received = *self.datagrams.front()?;
        let len = received.bytes().min(into.len());
        self.bytes.copy_to(0, &mut into[..len]);
        self.forget(received.bytes());
        Some(received)
    }
}
