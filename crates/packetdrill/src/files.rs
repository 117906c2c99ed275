//! Descriptors. Each is one of this process, so that no other has its number, and packetdrill can close it by itself at the
//! end of a script, as it does.

use core::ffi::c_int;
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::os::fd::{AsRawFd, IntoRawFd};

use crate::address::Domain;
use crate::errno::Code;
use crate::notes::Notes;
use crate::poll::Watched;

/// Descriptors at the most.
const FILES_MAX: usize = 256;

/// The object behind a descriptor.
pub(crate) enum Object {
    /// A socket of the machine, under the same number.
    Socket(Domain),
    /// An `epoll` instance and its interest list.
    Epoll(Vec<Watched>),
    /// The end of a pipe to read from, with the bytes that wait there.
    Reader(VecDeque<u8>),
    /// The end to write to, and which the other one is; it may be gone.
    Writer(c_int),
}

/// All descriptors.
#[derive(Default)]
pub(crate) struct Files {
    list: BTreeMap<c_int, (File, Object)>,
    /// Connections with control data for their program.
    notes: BTreeMap<c_int, Notes>,
}

impl Files {
    /// Opens a descriptor; returns its number, and whether another one had it, which must have been closed
    /// elsewhere.
    pub(crate) fn open(&mut self, what: Object) -> Result<(c_int, bool), Code> {
        if self.list.len() >= FILES_MAX {
            return Err(Code(libc::EMFILE));
        }
        let file =
            File::open("/dev/null").map_err(|error| Code(error.raw_os_error().unwrap_or(libc::EMFILE)))?;
        let fd = file.as_raw_fd();
        let stale = self.list.insert(fd, (file, what));
        self.notes.remove(&fd);
        let was_there = stale.is_some();
        stale.into_iter().for_each(forget);
        Ok((fd, was_there))
    }

    /// Returns the object behind a descriptor.
    pub(crate) fn get(&self, fd: c_int) -> Result<&Object, Code> {
        self.list.get(&fd).map(|(_, what)| what).ok_or(Code(libc::EBADF))
    }

    /// Returns it for change.
    pub(crate) fn get_mut(&mut self, fd: c_int) -> Result<&mut Object, Code> {
        self.list.get_mut(&fd).map(|(_, what)| what).ok_or(Code(libc::EBADF))
    }

    /// Returns the control data of a socket, if its program asked for it.
    pub(crate) fn notes(&self, fd: c_int) -> Option<&Notes> {
        self.notes.get(&fd)
    }

    /// Returns it for change.
    pub(crate) fn notes_mut(&mut self, fd: c_int) -> &mut Notes {
        self.notes.entry(fd).or_default()
    }

    /// A new socket's program wants to know what it did of this one.
    pub(crate) fn inherit_notes(&mut self, from: c_int, to: c_int) {
        if let Some(notes) = self.notes.get(&from).map(Notes::inherited) {
            self.notes.insert(to, notes);
        }
    }

    /// Whether a pipe with this end to read from has one to write to.
    pub(crate) fn is_written(&self, reader: c_int) -> bool {
        self.list.values().any(|(_, what)| matches!(what, Object::Writer(known) if *known == reader))
    }

    /// The domain of a socket.
    pub(crate) fn domain(&self, fd: c_int) -> Result<Domain, Code> {
        match self.get(fd)? {
            Object::Socket(domain) => Ok(*domain),
            Object::Epoll(_) | Object::Reader(_) | Object::Writer(_) => Err(Code(libc::ENOTSOCK)),
        }
    }

    /// Returns the interest list of an `epoll` instance.
    pub(crate) fn watched(&mut self, fd: c_int) -> Result<&mut Vec<Watched>, Code> {
        match self.get_mut(fd)? {
            Object::Epoll(watched) => Ok(watched),
            _ => Err(Code(libc::EINVAL)),
        }
    }

    /// Closes one; no `epoll` watches it any more, and pipes lose an end.
    pub(crate) fn close(&mut self, fd: c_int) -> Result<Object, Code> {
        let (_, what) = self.list.remove(&fd).ok_or(Code(libc::EBADF))?;
        self.notes.remove(&fd);
        for (_, other) in self.list.values_mut() {
            match other {
                Object::Epoll(watched) => watched.retain(|watched| watched.fd != fd),
                Object::Writer(reader) if *reader == fd => *reader = -1,
                _ => {}
            }
        }
        Ok(what)
    }
}

/// Descriptors still open at the end were closed by packetdrill itself: the numbers may be another file's by now.
impl Drop for Files {
    fn drop(&mut self) {
        core::mem::take(&mut self.list).into_values().for_each(forget);
    }
}

fn forget((file, _): (File, Object)) {
    // The number is given up, not the file behind it.
    _ = file.into_raw_fd();
}
