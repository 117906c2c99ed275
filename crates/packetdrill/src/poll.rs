//! `poll` and `epoll`: watched descriptors and their events. Both have the same bits.

use core::ffi::{c_int, c_short};

use sim::drill::{Machine, Readiness};

use crate::files::{Files, Object};

/// Events reported without being asked for.
const ALWAYS: u32 = bit(libc::POLLERR) | bit(libc::POLLHUP) | bit(libc::POLLNVAL);
/// `EPOLLET` and `EPOLLONESHOT`.
const EDGE: u32 = 1 << 31;
const ONE_SHOT: u32 = 1 << 30;

const fn bit(bits: c_short) -> u32 {
    bits.cast_unsigned() as u32
}

/// A descriptor watched by an `epoll` instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Watched {
    /// The descriptor.
    pub(crate) fd: c_int,
    /// For what, and how.
    pub(crate) events: u32,
    /// The program's data.
    pub(crate) data: u64,
    /// Reported events, and the bytes and completed calls at that time, for edge triggering.
    told: (u32, usize),
}

impl Watched {
    /// From now on.
    pub(crate) const fn new(fd: c_int, events: u32, data: u64) -> Self {
        Self { fd, events, data, told: (0, 0) }
    }

    /// Returns the events to report, if any.
    pub(crate) fn happened(&mut self, machine: &mut Machine, files: &Files) -> Option<(u32, u64)> {
        let wanted = self.events & !(EDGE | ONE_SHOT);
        if wanted == 0 {
            return None;
        }
        let (readable, unacknowledged) = machine.queued(self.fd).unwrap_or_default();
        let done = files.notes(self.fd).map_or(0, |notes| notes.done_ever(unacknowledged));
        let now = (revents(self.fd, wanted, machine, files), readable.saturating_add(done));
        let is_new = now.0 & !self.told.0 != 0 || now.1 > self.told.1;
        self.told = now;
        if now.0 == 0 || self.events & EDGE != 0 && !is_new {
            return None;
        }
        if self.events & ONE_SHOT != 0 {
            self.events &= EDGE | ONE_SHOT;
        }
        Some((now.0, self.data))
    }
}

/// Returns the events of a descriptor among those wanted.
pub(crate) fn revents(fd: c_int, wanted: u32, machine: &mut Machine, files: &Files) -> u32 {
    let bits = match files.get(fd) {
        Ok(Object::Socket(_)) => {
            let unacknowledged = machine.queued(fd).map_or(0, |queued| queued.1);
            let is_done = files.notes(fd).is_some_and(|notes| notes.done(unacknowledged) > 0);
            machine.readiness(fd).map_or(bit(libc::POLLNVAL), bits)
                | if is_done { bit(libc::POLLERR) } else { 0 }
        }
        Ok(Object::Epoll(_)) => 0,
        Ok(Object::Reader(bytes)) if bytes.is_empty() && files.is_written(fd) => 0,
        Ok(Object::Reader(_)) => bit(libc::POLLIN) | bit(libc::POLLRDNORM),
        Ok(Object::Writer(_)) if files.room(fd) == Ok(0) => 0,
        Ok(Object::Writer(_)) => bit(libc::POLLOUT) | bit(libc::POLLWRNORM),
        Err(_) => bit(libc::POLLNVAL),
    };
    bits & (wanted | ALWAYS)
}

fn bits(ready: Readiness) -> u32 {
    let pairs = [
        (ready.readable, bit(libc::POLLIN) | bit(libc::POLLRDNORM)),
        (ready.writable, bit(libc::POLLOUT) | bit(libc::POLLWRNORM)),
        (ready.urgent, bit(libc::POLLPRI)),
        (ready.error, bit(libc::POLLERR)),
        (ready.hangup, bit(libc::POLLHUP)),
        (ready.read_hangup, bit(libc::POLLRDHUP)),
    ];
    pairs.iter().filter(|(is_so, _)| *is_so).fold(0, |all, (_, bits)| all | bits)
}
