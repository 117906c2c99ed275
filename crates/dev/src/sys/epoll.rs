//! Unsafe: `unshare(2)`, `dup3(2)` and `epoll_ctl(2)` take numbers of descriptors.
//!
//! Registrations of `epoll`: a set knows a file under the number that it was put in with.
#![expect(unsafe_code, reason = "the numbers of descriptors are those of another process")]

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::thread;

use rustix::io::Errno;

/// A descriptor in a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registration {
    /// Its number.
    pub number: RawFd,
    /// The inode of its file.
    pub inode: u64,
    /// Events that are waited for, and their mode.
    pub events: u32,
    /// Its events and data, as the set has them.
    pub data: u64,
}

/// Reads the descriptors of a set from its description (`/proc/PID/fdinfo`).
pub fn registrations(info: &str) -> impl Iterator<Item = Registration> {
    info.lines().filter_map(|line| {
        let words = line.strip_prefix("tfd:")?.replace(':', ": ");
        let mut words = words.split_whitespace();
        let number = words.next()?.parse().ok()?;
        let mut hex = |name: &str| {
            words.by_ref().find(|word| *word == name)?;
            words.next().and_then(|word| u64::from_str_radix(word, 16).ok())
        };
        let (events, data, inode) = (hex("events:")?, hex("data:")?, hex("ino:")?);
        Some(Registration { number, inode, events: u32::try_from(events).ok()?, data })
    })
}

/// Puts `new` into a set in place of `old`, under the same number: the process whose set it is can change and remove it.
///
/// # Errors
/// Errors of `epoll_ctl(2)`; `EBADF` for a number beyond this process's limit.
pub fn replace(
    set: BorrowedFd<'_>,
    old: BorrowedFd<'_>,
    new: BorrowedFd<'_>,
    it: Registration,
) -> Result<(), Errno> {
    // A thread with a table of its own may use any number.
    let done = thread::scope(|scope| scope.spawn(|| replace_here(set, old, new, it)).join());
    done.unwrap_or(Err(Errno::NOMEM))
}

fn replace_here(
    set: BorrowedFd<'_>,
    old: BorrowedFd<'_>,
    new: BorrowedFd<'_>,
    it: Registration,
) -> Result<(), Errno> {
    // SAFETY: no pointer; from here on this thread's descriptors are copies, which end with it.
    check(unsafe { libc::unshare(libc::CLONE_FILES) })?;
    let above = it.number.checked_add(1).ok_or(Errno::BADF)?;
    let [set, old, new] = [set, old, new].map(|fd| rustix::io::fcntl_dupfd_cloexec(fd, above));
    let (set, old, new) = (set?, old?, new?);
    let mut event = libc::epoll_event { events: it.events, u64: it.data };
    for (file, what) in [(old.as_fd(), libc::EPOLL_CTL_DEL), (new.as_fd(), libc::EPOLL_CTL_ADD)] {
        // SAFETY: no pointer; the number is this thread's alone, and nothing here uses what was there.
        check(unsafe { libc::dup3(file.as_raw_fd(), it.number, libc::O_CLOEXEC) })?;
        // SAFETY: the event outlives the call.
        check(unsafe { libc::epoll_ctl(set.as_raw_fd(), what, it.number, &raw mut event) })?;
    }
    Ok(())
}

fn check(result: i32) -> Result<(), Errno> {
    if result >= 0 {
        Ok(())
    } else {
        Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::fd::OwnedFd;

    use rustix::event::epoll;

    use super::*;

    #[test]
    fn a_descriptor_in_a_set_is_replaced_under_its_number_with_its_events_and_data() {
        let set = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
        let [old, new] =
            [0; 2].map(|_| rustix::event::eventfd(0, rustix::event::EventfdFlags::NONBLOCK).unwrap());
        let data = epoll::EventData::new_u64(0xfeed_0000_1234_5678);
        epoll::add(&set, &old, data, epoll::EventFlags::IN | epoll::EventFlags::ET).unwrap();
        let seen = |set: &OwnedFd| {
            let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", set.as_raw_fd())).unwrap();
            registrations(&info).collect::<Vec<_>>()
        };
        let before = seen(&set);
        let number = old.as_raw_fd();
        assert_eq!((before.len(), before[0].number, before[0].data), (1, number, 0xfeed_0000_1234_5678));
        replace(set.as_fd(), old.as_fd(), new.as_fd(), before[0]).unwrap();
        assert_eq!(seen(&set), before, "the same number, events and data");
        assert!(rustix::io::fcntl_getfd(&old).is_ok(), "this thread's own descriptors are untouched");
        rustix::io::write(&new, &1_u64.to_ne_bytes()).unwrap();
        let mut events = Vec::with_capacity(2);
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        epoll::wait(&set, rustix::buffer::spare_capacity(&mut events), Some(&now)).unwrap();
        assert_eq!(events.len(), 1);
        assert_eq!({ events[0].data }.u64(), 0xfeed_0000_1234_5678);
        // Where the number is the new one's, its owner changes and removes it.
        let mut old = old;
        rustix::io::dup2(&new, &mut old).unwrap();
        epoll::modify(&set, &old, data, epoll::EventFlags::OUT).unwrap();
        epoll::delete(&set, &old).unwrap();
    }

    #[test]
    fn a_description_of_anything_is_read_or_not() {
        assert_eq!(registrations("pos:\t0\nflags:\t02\ntfd: x events: 1\ntfd:").count(), 0);
        let line = "tfd:        5 events: 80002019 data: 7f00c001d00d0001  pos:0 ino:1a2b sdev:8";
        let expected =
            Registration { number: 5, inode: 0x1a2b, events: 0x8000_2019, data: 0x7f00_c001_d00d_0001 };
        assert_eq!(registrations(line).collect::<Vec<_>>(), [expected]);
    }
}
