//! File descriptors: a process has so many, and what serves strangers must leave some for what has to go on.

use std::os::fd::{AsFd, AsRawFd, RawFd};

use rustix::process::{Resource, getrlimit};
#[cfg(feature = "cli")]
use rustix::process::{Rlimit, setrlimit};

/// Descriptors that visitors of the web server do not get: they are for devices, and for administrators.
const RESERVE: u64 = 128;

/// The parties for which descriptors are opened on request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum For {
    /// Visitors of the web server.
    #[cfg(feature = "web")]
    Visitors,
    /// Clients of the control socket: they leave a quarter of the reserve to devices.
    #[cfg(feature = "admin")]
    Administrators,
}

#[cfg(feature = "cli")]
/// More are of no use, and some programs count them all.
const ENOUGH: u64 = 1 << 20;

#[cfg(feature = "cli")]
/// Lets this process have as many as it may (the soft limit becomes the hard one).
pub(crate) fn raise_the_limit() {
    let limit = getrlimit(Resource::Nofile);
    let most = Some(limit.maximum.unwrap_or(ENOUGH).min(ENOUGH));
    if limit.current.is_some_and(|current| Some(current) < most) {
        // Then those that there are must do.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: most, ..limit });
    }
}

/// Tells whether a descriptor is one of the last, which are reserved. The kernel gives the lowest
/// number that is free, so a high number says that nearly all are taken.
pub(crate) fn is_of_the_reserve(descriptor: &impl AsFd, whom: For) -> bool {
    let limit = getrlimit(Resource::Nofile).current;
    limit.is_some_and(|limit| is_high(descriptor.as_fd().as_raw_fd(), limit, whom))
}

fn is_high(number: RawFd, limit: u64, whom: For) -> bool {
    let kept = match whom {
        #[cfg(feature = "web")]
        For::Visitors => RESERVE.min(limit / 4),
        #[cfg(feature = "admin")]
        For::Administrators => (RESERVE / 4).min(limit / 16),
    };
    u64::try_from(number).unwrap_or(u64::MAX) >= limit - kept
}

#[cfg(all(test, feature = "cli"))]
mod tests {
    use super::*;

    #[test]
    fn the_last_descriptors_are_kept_whatever_the_limit() {
        let visitors = |number, limit| is_high(number, limit, For::Visitors);
        let administrators = |number, limit| is_high(number, limit, For::Administrators);
        assert!(!visitors(895, 1024) && visitors(896, 1024));
        assert!(!administrators(991, 1024) && administrators(992, 1024));
        assert!(!visitors(74, 100) && visitors(75, 100) && !administrators(75, 100));
        assert!(visitors(0, 0), "without any, each is one too many");
        assert!(!is_of_the_reserve(&std::io::stderr(), For::Visitors));
    }
}
