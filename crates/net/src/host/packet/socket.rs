//! The packet sockets of one CPU.

use pkt::PktVec;
use wire::bpf::{Packet, Program};

use super::calls::Open;
use super::listing::Listed;
use crate::base::time::Instant;
use crate::host::app::{AppId, Noted, Watch};
use crate::host::dgram::{Queue, Record};
use crate::host::sock::Error;
use crate::link::logical::Path;
use crate::link::tables::{IfIndex, Tables};

/// Packet sockets of one CPU at the most: each frame is held to each of them.
pub const SOCKETS_MAX: usize = 64;
/// Bytes of frames that wait in a socket, if nothing else is said.
pub const QUEUE_BYTES: usize = 256 << 10;

/// Names a socket on its CPU, also when another one has its place later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Id {
    at: u32,
    serial: u32,
}

/// The readiness of a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ready {
    /// Frames that wait.
    pub frames: usize,
    /// Their bytes.
    pub bytes: usize,
}

/// A frame that was read, without its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// When the turn began in which it came.
    pub at: Instant,
    /// Its interface: the socket's, or its device.
    pub ifindex: IfIndex,
    /// Bytes that the socket has of it.
    pub len: usize,
    /// Bytes that it had.
    pub frame_len: usize,
    /// It was sent by this host.
    pub is_outgoing: bool,
    /// Its transport checksum is that of the pseudo header alone, or it is cut into segments by the device.
    pub is_partial: bool,
}

impl Record for Received {
    fn bytes(&self) -> usize {
        self.len
    }
}

/// One socket.
pub(super) struct Socket {
    id: Id,
    pub(super) wanted: Open,
    pub(super) queue: Queue<Received>,
    /// The program of this CPU that is told of it.
    pub(super) watch: Option<Watch>,
}

// docs/reference/LIMITS.md says so.
const _: () = assert!(size_of::<Socket>() <= 192);

/// A frame as sockets see it.
#[derive(Clone, Copy)]
pub(super) struct Seen<'f> {
    pub(super) at: Instant,
    pub(super) device: IfIndex,
    pub(super) bytes: &'f [u8],
    pub(super) is_outgoing: bool,
    pub(super) is_partial: bool,
}

impl Socket {
    /// Returns the frame as the socket has it, if it wants it: what is to be said of it, and its bytes.
    pub(super) fn select<'f>(
        &self,
        tables: &Tables,
        seen: Seen<'f>,
        room: &'f mut Vec<u8>,
    ) -> Option<(Received, &'f [u8])> {
        let Open { ifindex, filter, snap_len, .. } = &self.wanted;
        let is_wanted = if seen.is_outgoing { self.wanted.tx } else { self.wanted.rx };
        let ifindex = if *ifindex == 0 { seen.device } else { *ifindex };
        if !is_wanted || !tables.ifnet(ifindex)?.up {
            return None;
        }
        let path = Path::of(tables, ifindex).filter(|path| path.device == seen.device)?;
        let frame = path.frame(seen.bytes, room)?;
        let len = u32::try_from(frame.len()).unwrap_or(u32::MAX);
        let packet = Packet { bytes: frame, len, is_outgoing: seen.is_outgoing };
        let kept = filter.as_deref().map_or(u32::MAX, |filter: &Program<_>| filter.run(&packet));
        let kept = usize::try_from(kept).unwrap_or(usize::MAX).min(*snap_len);
        let bytes = frame.get(..kept).unwrap_or(frame);
        let Seen { at, is_outgoing, is_partial, .. } = seen;
        let (len, frame_len) = (bytes.len(), frame.len());
        let received = Received { at, ifindex, len, frame_len, is_outgoing, is_partial };
        (kept > 0).then_some((received, bytes))
    }

    /// Queues a frame; false if there is no room.
    pub(super) fn push(&mut self, received: Received, bytes: &[u8]) -> bool {
        let has_room = self.queue.has_room(bytes.len(), self.wanted.queue_bytes);
        if has_room {
            self.queue.push(received, core::iter::once(bytes));
        }
        has_room
    }
}

/// All of one CPU.
#[derive(Default)]
pub struct Sockets {
    slots: Vec<Option<Box<Socket>>>,
    serial: u32,
    /// Sockets with frames, each once.
    noted: Noted<Id>,
    /// Sockets that take frames away from the stack.
    takers: usize,
    pub(super) scratch: Scratch,
}

/// Memory that is used for one frame, or one vector of frames, after the other.
#[derive(Default)]
pub(super) struct Scratch {
    /// A frame that lies in several buffers.
    pub(super) contiguous: Vec<u8>,
    /// A frame without its tags.
    pub(super) untagged: Vec<u8>,
    /// Frames that the stack goes on with.
    pub(super) others: PktVec,
    /// Copies of frames that are offered to a device: the place in the vector, the socket, and what is said of it.
    pub(super) offered: Vec<(usize, Id, Received)>,
    /// Their bytes.
    pub(super) bytes: Vec<u8>,
}

impl Sockets {
    /// Adds a socket.
    ///
    /// # Errors
    ///
    /// [`Error::TooMany`].
    pub(super) fn add(&mut self, wanted: Open) -> Result<Id, Error> {
        let at = self.slots.iter().position(Option::is_none).unwrap_or(self.slots.len());
        if at >= SOCKETS_MAX {
            return Err(Error::TooMany);
        }
        self.serial = self.serial.wrapping_add(1);
        self.takers += usize::from(wanted.takes);
        let id = Id { at: u32::try_from(at).unwrap_or(u32::MAX), serial: self.serial };
        self.slots.resize_with(self.slots.len().max(at + 1), || None);
        self.slots[at] = Some(Box::new(Socket { id, wanted, queue: Queue::default(), watch: None }));
        Ok(id)
    }

    /// Removes a socket; false if there is no such one.
    pub(super) fn remove(&mut self, id: Id) -> bool {
        let Some(socket) = self.get(id) else { return false };
        self.takers -= usize::from(socket.wanted.takes);
        self.slots.get_mut(id.at as usize).is_some_and(|slot| slot.take().is_some())
    }

    pub(super) fn get(&self, id: Id) -> Option<&Socket> {
        self.slots.get(id.at as usize)?.as_deref().filter(|socket| socket.id == id)
    }

    pub(super) fn get_mut(&mut self, id: Id) -> Option<&mut Socket> {
        self.slots.get_mut(id.at as usize)?.as_deref_mut().filter(|socket| socket.id == id)
    }

    /// Whether a socket takes frames away from the stack.
    pub(super) const fn has_takers(&self) -> bool {
        self.takers > 0
    }

    /// Whether there is no socket.
    pub(super) fn is_empty(&self) -> bool {
        self.slots.iter().all(Option::is_none)
    }

    /// Returns what is said of each.
    pub(super) fn list(&self) -> impl Iterator<Item = Listed> + '_ {
        let listed = |socket: &Socket| {
            let Open { ifindex, takes, .. } = socket.wanted;
            Listed { ifindex, takes, ready: socket.ready() }
        };
        self.slots.iter().filter_map(Option::as_deref).map(listed)
    }

    /// The sockets, and the scratch memory.
    pub(super) fn each(&mut self) -> (impl Iterator<Item = &mut Socket>, &mut Noted<Id>, &mut Scratch) {
        let sockets = self.slots.iter_mut().filter_map(Option::as_deref_mut);
        (sockets, &mut self.noted, &mut self.scratch)
    }

    /// A socket is to be looked at, if it has a program.
    pub(crate) fn note(&mut self, id: Id) {
        let slot = self.slots.get_mut(id.at as usize).and_then(Option::as_deref_mut);
        if let Some(socket) = slot.filter(|socket| socket.id == id) {
            socket.is_noted(&mut self.noted);
        }
    }

    /// The next socket that its program is to look at: the program, and its name for it.
    pub(crate) fn next_event(&mut self) -> Option<(AppId, Id, u32)> {
        while let Some(id) = self.noted.next() {
            if let Some(watch) = self.get_mut(id).and_then(|socket| socket.watch.as_mut()) {
                watch.looked_at();
                return Some((watch.program, id, watch.key));
            }
        }
        None
    }

    /// When programs have something to look at.
    pub(crate) fn deadline(&self) -> Instant {
        self.noted.deadline()
    }

    /// A program holds a socket from now on.
    pub(crate) fn hold(&mut self, id: Id, watch: Watch) {
        if let Some(socket) = self.get_mut(id) {
            socket.watch = Some(watch);
        }
    }

    /// Returns the sockets that a program holds.
    pub(crate) fn held_by(&self, program: AppId) -> Vec<Id> {
        let is_own = |socket: &&Socket| socket.watch.is_some_and(|watch| watch.program == program);
        self.slots.iter().filter_map(Option::as_deref).filter(is_own).map(|socket| socket.id).collect()
    }
}

impl Socket {
    /// Something has come: its program is to look.
    pub(super) fn is_noted(&mut self, noted: &mut Noted<Id>) {
        noted.note(self.id, &mut self.watch);
    }

    pub(super) const fn id(&self) -> Id {
        self.id
    }

    pub(super) fn ready(&self) -> Ready {
        Ready { frames: self.queue.len(), bytes: self.queue.bytes() }
    }
}
