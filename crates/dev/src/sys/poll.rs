//! Waiting: `ppoll` on many descriptors, and an eventfd to be woken by another thread.

use core::time::Duration;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};
use rustix::io::Errno;

pub use rustix::event::{PollFd, PollFlags};

/// Waits until a descriptor is ready, or for `timeout` (`None`: for ever, nanosecond resolution).
///
/// Answers how many are ready; 0 on timeout, and when a signal arrived.
///
/// # Errors
/// What `ppoll` says; `InvalidInput` if there are more descriptors than the process may open.
pub fn wait(fds: &mut [PollFd<'_>], timeout: Option<Duration>) -> io::Result<usize> {
    let timeout = timeout.map(timespec);
    match rustix::event::poll(fds, timeout.as_ref()) {
        Err(Errno::INTR) => Ok(0),
        other => Ok(other?),
    }
}

/// An eventfd: `notify` from any thread makes it readable until `clear`.
#[derive(Debug)]
pub struct EventFd(OwnedFd);

impl EventFd {
    /// Opens one; non-blocking, closed on exec.
    ///
    /// # Errors
    /// When the process or the machine is out of descriptors.
    pub fn new() -> io::Result<Self> {
        Ok(Self(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Makes it readable. Calls that come before the next `clear` are one.
    ///
    /// # Errors
    /// None is expected; a full counter (which is readable already) is not an error.
    pub fn notify(&self) -> io::Result<()> {
        ignore_again(rustix::io::write(&self.0, &1_u64.to_ne_bytes()))
    }

    /// Makes it unreadable again.
    ///
    /// # Errors
    /// None is expected; being clear already is not an error.
    pub fn clear(&self) -> io::Result<()> {
        ignore_again(rustix::io::read(&self.0, &mut [0_u8; 8]))
    }
}

impl AsFd for EventFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A descriptor that is readable if one of several others is.
///
/// It does not keep the others open: one that is closed is none of them any more.
#[derive(Debug)]
pub struct AnyOf(OwnedFd);

impl AnyOf {
    /// Opens one; closed on exec.
    ///
    /// # Errors
    /// When the process or the machine is out of descriptors.
    pub fn new(all: &[BorrowedFd<'_>]) -> io::Result<Self> {
        let any = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for fd in all {
            epoll::add(&any, fd, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
        }
        Ok(Self(any))
    }
}

impl AsFd for AnyOf {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn ignore_again(result: Result<usize, Errno>) -> io::Result<()> {
    match result {
        Ok(_) | Err(Errno::AGAIN) => Ok(()),
        Err(e) => Err(e.into()),
    }
}

fn timespec(d: Duration) -> Timespec {
    Timespec { tv_sec: i64::try_from(d.as_secs()).unwrap_or(i64::MAX), tv_nsec: i64::from(d.subsec_nanos()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_ready(event: &EventFd, timeout: Option<Duration>) -> bool {
        wait(&mut [PollFd::new(event, PollFlags::IN)], timeout).unwrap() == 1
    }

    #[test]
    fn an_event_is_ready_from_notify_until_clear() {
        let event = EventFd::new().unwrap();
        assert!(!is_ready(&event, Some(Duration::ZERO)));
        event.notify().unwrap();
        event.notify().unwrap();
        assert!(is_ready(&event, Some(Duration::ZERO)));
        event.clear().unwrap();
        assert!(!is_ready(&event, Some(Duration::from_nanos(1))));
        event.clear().unwrap();
    }

    #[test]
    fn any_of_two_is_ready_as_long_as_one_is() {
        let [one, other] = [(); 2].map(|()| EventFd::new().unwrap());
        let any = AnyOf::new(&[one.as_fd(), other.as_fd()]).unwrap();
        let is_any_ready =
            || wait(&mut [PollFd::new(&any, PollFlags::IN)], Some(Duration::ZERO)).unwrap() == 1;
        assert!(!is_any_ready());
        other.notify().unwrap();
        assert!(is_any_ready() && is_any_ready());
        drop(other);
        assert!(!is_any_ready());
        one.notify().unwrap();
        assert!(is_any_ready());
    }

    #[test]
    fn a_sleeper_without_timeout_is_woken_by_another_thread() {
        let event = EventFd::new().unwrap();
        std::thread::scope(|s| {
            s.spawn(|| event.notify().unwrap());
            assert!(is_ready(&event, None));
        });
    }
}
