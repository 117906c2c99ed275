//! Control data of a connection: the number of bytes left to read (`TCP_INQ`), and the
//! completion of sends without a copy (`SO_ZEROCOPY`). Here all is copied, and reported so when it is acknowledged.

use core::ffi::c_int;
use std::collections::VecDeque;

use sim::drill::Machine;

use crate::address::Domain;
use crate::errno::Code;
use crate::files::Files;
use crate::host::Host;

/// Calls whose bytes are under way at the most.
const CALLS_MAX: usize = 1024;
/// `TCP_INQ` and `TCP_CM_INQ`.
const TCP_INQ: c_int = 36;
/// Where an error of `struct sock_extended_err` came from, and what it says of itself (`linux/errqueue.h`).
const ORIGIN_ZEROCOPY: u8 = 5;
const CODE_COPIED: u8 = 1;
/// Bytes of `struct sock_extended_err`, and of the address behind it.
const ERROR_LEN: usize = 16;
const ADDRESS_LEN: [usize; 2] = [16, 28];

/// The control data that a program asked for, and what it has received.
#[derive(Clone, Debug, Default)]
pub(crate) struct Notes {
    /// Bytes left.
    wants_left: bool,
    /// Which calls are done.
    wants_done: bool,
    /// Bytes that were sent in all.
    sent: u64,
    /// Where the bytes of calls end that it wants to know of.
    ends: VecDeque<u64>,
    /// Completed calls that were reported.
    told: u32,
}

impl Notes {
    /// Returns the completed calls not yet reported; `queued` bytes are not acknowledged.
    pub(crate) fn done(&self, queued: usize) -> usize {
        let acknowledged = self.sent.saturating_sub(u64::try_from(queued).unwrap_or(u64::MAX));
        self.ends.iter().take_while(|end| **end <= acknowledged).count()
    }

    /// Returns all completed calls.
    pub(crate) fn done_ever(&self, queued: usize) -> usize {
        usize::try_from(self.told).unwrap_or(usize::MAX).saturating_add(self.done(queued))
    }

    /// The first and the last call of those that it is told of now.
    fn take_done(&mut self, queued: usize) -> Option<(u32, u32)> {
        let count = self.done(queued);
        self.ends.drain(..count);
        let first = self.told;
        self.told = first.wrapping_add(u32::try_from(count).ok()?);
        (count > 0).then(|| (first, self.told.wrapping_sub(1)))
    }

    /// A connection that was accepted wants to know what its listener does.
    pub(crate) fn inherited(&self) -> Self {
        Self { wants_left: self.wants_left, wants_done: self.wants_done, ..Self::default() }
    }
}

/// One message of control data (`struct cmsghdr`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Control {
    level: c_int,
    kind: c_int,
    data: Vec<u8>,
}

impl Control {
    /// Returns its length without padding.
    pub(crate) fn len(&self) -> usize {
        size_of::<usize>() + 2 * size_of::<c_int>() + self.data.len()
    }

    /// Its bytes, with those that fill it up.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.len().to_ne_bytes().to_vec();
        bytes.extend(self.level.to_ne_bytes());
        bytes.extend(self.kind.to_ne_bytes());
        bytes.extend(&self.data);
        bytes.resize(bytes.len().next_multiple_of(size_of::<usize>()), 0);
        bytes
    }
}

/// Returns the control data that this socket option asks for.
fn wish<'a>(
    files: &'a mut Files,
    machine: &mut Machine,
    fd: c_int,
    option: (c_int, c_int),
) -> Option<&'a mut bool> {
    let place = match option {
        (libc::IPPROTO_TCP, TCP_INQ) => |notes: &'a mut Notes| &mut notes.wants_left,
        (libc::SOL_SOCKET, libc::SO_ZEROCOPY) => |notes: &'a mut Notes| &mut notes.wants_done,
        _ => return None,
    };
    machine.describe(fd).ok()?;
    Some(place(files.notes_mut(fd)))
}

/// Sets an option that is kept here; `None` if it is another one.
pub(crate) fn set(
    files: &mut Files,
    machine: &mut Machine,
    fd: c_int,
    option: (c_int, c_int),
    bytes: &[u8],
) -> Option<Result<(), Code>> {
    let queued = machine.queued(fd).map_or(0, |queued| queued.1);
    let wish = wish(files, machine, fd, option)?;
    let Some(value @ (0 | 1)) = bytes.first_chunk().map(|bytes| c_int::from_ne_bytes(*bytes)) else {
        return Some(Err(Code(libc::EINVAL)));
    };
    *wish = value == 1;
    let notes = files.notes_mut(fd);
    if notes.ends.is_empty() {
        notes.sent = u64::try_from(queued).unwrap_or(u64::MAX);
    }
    Some(Ok(()))
}

/// The value of an option that is kept here.
pub(crate) fn get(
    files: &mut Files,
    machine: &mut Machine,
    fd: c_int,
    option: (c_int, c_int),
) -> Option<Vec<u8>> {
    wish(files, machine, fd, option).map(|wish| c_int::from(*wish).to_ne_bytes().to_vec())
}

impl Host {
    /// Whether one more call may want to be told of.
    pub(crate) fn may_note(&self, fd: c_int, flags: c_int) -> Result<(), Code> {
        let is_full =
            self.with_files(|files| Ok(files.notes(fd).is_some_and(|notes| notes.ends.len() >= CALLS_MAX)))?;
        if is_full && flags & libc::MSG_ZEROCOPY != 0 { Err(Code(libc::ENOBUFS)) } else { Ok(()) }
    }

    /// Notes the bytes sent by one call.
    pub(crate) fn note_sent(&self, fd: c_int, count: usize, flags: c_int) -> Result<(), Code> {
        self.with_files(|files| {
            if files.notes(fd).is_some_and(|notes| notes.wants_done) && count > 0 {
                let notes = files.notes_mut(fd);
                notes.sent += u64::try_from(count).unwrap_or(0);
                if flags & libc::MSG_ZEROCOPY != 0 {
                    notes.ends.push_back(notes.sent);
                }
            }
            Ok(())
        })
    }

    /// Which calls are done, as an error that is none.
    pub(crate) fn done(&self, fd: c_int) -> Result<Control, Code> {
        self.with_state(|files, machine| {
            let domain = files.domain(fd)?;
            let queued = machine.queued(fd)?.1;
            let done = files.notes(fd).is_some().then(|| files.notes_mut(fd).take_done(queued)).flatten();
            let (first, last) = done.ok_or(Code(libc::EAGAIN))?;
            let mut data = [0, 0, 0, 0, ORIGIN_ZEROCOPY, 0, CODE_COPIED, 0].to_vec();
            data.extend([first.to_ne_bytes(), last.to_ne_bytes()].concat());
            let (level, kind, len) = match domain {
                Domain::V4 => (libc::SOL_IP, libc::IP_RECVERR, ADDRESS_LEN[0]),
                Domain::V6 => (libc::SOL_IPV6, libc::IPV6_RECVERR, ADDRESS_LEN[1]),
            };
            data.resize(ERROR_LEN + len, 0);
            Ok(Control { level, kind, data })
        })
    }

    /// Returns the bytes left, if the program asked for it; the end of the stream counts as one.
    pub(crate) fn left(&self, fd: c_int) -> Result<Option<Control>, Code> {
        self.with_state(|files, machine| {
            if !files.notes(fd).is_some_and(|notes| notes.wants_left) {
                return Ok(None);
            }
            let left = machine.queued(fd)?.0 + usize::from(machine.readiness(fd)?.read_hangup);
            let data = c_int::try_from(left).unwrap_or(c_int::MAX).to_ne_bytes().to_vec();
            Ok(Some(Control { level: libc::IPPROTO_TCP, kind: TCP_INQ, data }))
        })
    }
}
