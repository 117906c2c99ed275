//! A thread whose call is answered: its descriptors and its memory.
//!
//! The number of a thread may be another's by now, and its memory may change while it is looked at. So what is opened by number is
//! used only if the call still waits afterwards, and each value is read once.

use core::cell::OnceCell;
use std::fs::{self, File};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt;

use dev::sys::epoll::{self, Registration};
use dev::sys::notify::{Call, Listener};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

/// `PIDFD_THREAD`: of any thread (Linux 6.9).
const THREAD: PidfdFlags = PidfdFlags::from_bits_retain(0o200);

/// A thread that waits for the answer to its call, by what was opened.
pub(super) struct Caller {
    thread: u32,
    process: OwnedFd,
    memory: File,
}

impl Caller {
    /// Opens what `call` is about.
    ///
    /// # Errors
    /// It has ended, or this process may not.
    pub(super) fn open(listener: &Listener, call: &Call) -> Result<Self, Errno> {
        let thread = call.thread;
        let process = match pidfd_open(pid(thread)?, THREAD) {
            Err(Errno::INVAL) => pidfd_open(pid(group(thread).ok_or(Errno::SRCH)?)?, PidfdFlags::empty()),
            done => done,
        }?;
        let memory = File::options().read(true).write(true).open(format!("/proc/{thread}/mem"));
        let memory = memory.map_err(|why| Errno::from_io_error(&why).unwrap_or(Errno::SRCH))?;
        listener.is_valid(call.id).then_some(Self { thread, process, memory }).ok_or(Errno::SRCH)
    }

    /// Returns a descriptor of this process for its own.
    pub(super) fn descriptor(&self, fd: RawFd) -> Result<OwnedFd, Errno> {
        pidfd_getfd(&self.process, fd, PidfdGetfdFlags::empty())
    }

    /// Whether `exec` closes its descriptor.
    pub(super) fn closes_on_exec(&self, fd: RawFd) -> bool {
        let about = fs::read_to_string(format!("/proc/{}/fdinfo/{fd}", self.thread)).unwrap_or_default();
        let flags = about.lines().find_map(|line| line.strip_prefix("flags:"));
        let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
        flags.is_some_and(|flags| flags & rustix::fs::OFlags::CLOEXEC.bits() != 0)
    }

    /// Returns the sets of `epoll` that a socket is in by this number, each with what it says of it.
    fn sets_with(&self, number: RawFd, socket: BorrowedFd<'_>) -> Vec<(OwnedFd, Registration)> {
        let (thread, inode) = (self.thread, rustix::fs::fstat(socket).map_or(0, |about| about.st_ino));
        let entries = fs::read_dir(format!("/proc/{thread}/fd")).into_iter().flatten().flatten();
        let is_set = |entry: &fs::DirEntry| {
            fs::read_link(entry.path()).is_ok_and(|to| to.as_os_str() == "anon_inode:[eventpoll]")
        };
        let sets = entries.filter(is_set).filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let found = sets.filter_map(|set: RawFd| {
            let info = fs::read_to_string(format!("/proc/{thread}/fdinfo/{set}")).ok()?;
            let it = epoll::registrations(&info).find(|it| it.number == number && it.inode == inode)?;
            Some((self.descriptor(set).ok()?, it))
        });
        found.collect()
    }

    /// Reads as many bytes as there is room for.
    pub(super) fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Errno> {
        if into.is_empty() {
            return Ok(());
        }
        self.memory.read_exact_at(into, at).map_err(|_| Errno::FAULT)
    }

    /// Writes bytes.
    pub(super) fn write(&self, at: u64, bytes: &[u8]) -> Result<(), Errno> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.memory.write_all_at(bytes, at).map_err(|_| Errno::FAULT)
    }

    /// Writes as many bytes as the program has room for, and how many there are, as calls return addresses; `shows_all` tells
    /// whether the number is that of all bytes, or of those that were written.
    pub(super) fn write_with_len(
        &self,
        bytes: &[u8],
        at: u64,
        len: u64,
        shows_all: bool,
    ) -> Result<(), Errno> {
        let mut room = [0; 4];
        self.read(len, &mut room)?;
        let room = usize::try_from(i32::from_ne_bytes(room)).map_err(|_| Errno::INVAL)?;
        let fits = bytes.get(..room.min(bytes.len())).unwrap_or_default();
        self.write(at, fits)?;
        let shown = if shows_all { bytes.len() } else { fits.len() };
        self.write(len, &u32::try_from(shown).unwrap_or(0).to_ne_bytes())
    }
}

fn pid(number: u32) -> Result<Pid, Errno> {
    i32::try_from(number).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)
}

/// The process of a thread.
fn group(thread: u32) -> Option<u32> {
    field(&status(thread), "Tgid:")?.parse().ok()
}

fn status(thread: u32) -> String {
    fs::read_to_string(format!("/proc/{thread}/status")).unwrap_or_default()
}

fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

/// A signal that waits for a thread to return from its call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Interrupt {
    /// It is this thread's.
    Own,
    /// Another thread of the process may take it.
    Shared,
}

/// Returns the signal that a thread would return for; `None` if there is none.
pub(super) fn interrupt(thread: u32) -> Option<Interrupt> {
    pending(&status(thread))
}

/// Reads `/proc/PID/status`.
fn pending(status: &str) -> Option<Interrupt> {
    let set = |name| field(status, name).and_then(|set| u64::from_str_radix(set, 16).ok()).unwrap_or(0);
    let open = !set("SigBlk:");
    let is_alone = field(status, "Threads:") == Some("1");
    match (set("SigPnd:") & open, set("ShdPnd:") & open) {
        (0, 0) => None,
        (0, _) if !is_alone => Some(Interrupt::Shared),
        _ => Some(Interrupt::Own),
    }
}

/// A program's socket, by a descriptor of this process.
pub(super) struct Theirs<'a> {
    pub(super) listener: &'a Listener,
    pub(super) call: &'a Call,
    pub(super) caller: &'a Caller,
    pub(super) number: RawFd,
    pub(super) fd: BorrowedFd<'a>,
    /// It may be in sets of `epoll`, where what is put in its place waits instead.
    pub(super) may_wait: bool,
    /// The socket that was put in its place.
    pub(super) placed: OnceCell<OwnedFd>,
}

impl program::Socket for Theirs<'_> {
    fn fd(&self) -> BorrowedFd<'_> {
        self.fd
    }

    fn put_in_place(&self, new: OwnedFd) -> Result<(), Errno> {
        program::stream::prepare(self.fd, new.as_fd())?;
        let cloexec = self.caller.closes_on_exec(self.number);
        let sets = if self.may_wait { self.caller.sets_with(self.number, self.fd) } else { Vec::new() };
        self.listener.replace(self.call.id, new.as_fd(), self.number, cloexec)?;
        for (set, it) in sets {
            // In a set that cannot be changed, the kernel's socket stays.
            let _ = epoll::replace(set.as_fd(), self.fd, new.as_fd(), it);
        }
        let _ = self.placed.set(new);
        Ok(())
    }

    fn option(fd: BorrowedFd<'_>, level: i32, number: i32) -> Option<[u8; program::options::VALUE_MAX]> {
        dev::sys::sockopt::get(fd, level, number).ok().map(|(bytes, _)| bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_that_waits_is_seen_unless_it_is_blocked() {
        let status = |own: u64, shared: u64, blocked: u64, threads: u32| {
            pending(&format!(
                "Threads:\t{threads}\nSigPnd:\t{own:016x}\nShdPnd:\t{shared:016x}\nSigBlk:\t{blocked:016x}\n"
            ))
        };
        assert_eq!(status(0, 0, 0, 1), None);
        assert_eq!(status(2, 0, 2, 1), None);
        assert_eq!(status(2, 0, 0, 9), Some(Interrupt::Own));
        assert_eq!(status(0, 2, 0, 9), Some(Interrupt::Shared));
        assert_eq!(status(0, 2, 0, 1), Some(Interrupt::Own));
        assert_eq!(pending(""), None);
    }
}
