//! When an interface interrupts: the two settings of its NAPI that let a program poll it undisturbed.

use core::time::Duration;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// Interrupt deferral of an interface that is polled by a program.
///
/// Both 0: it interrupts at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deferral {
    /// Empty polls after which it interrupts again (`napi_defer_hard_irqs`).
    pub polls: u32,
    /// Time it waits for the next poll before it looks by itself (`gro_flush_timeout`).
    pub timeout: Duration,
}

impl Deferral {
    /// For an interface that a program polls all the time: the kernel looks by itself only when that has stopped.
    ///
    /// The odd nanoseconds are a mark: an interface with exactly these settings was left so by a process that was killed.
    pub const POLLED: Self = Self { polls: 2, timeout: Duration::from_nanos(200_003) };
    /// The kernel's default: the interface interrupts at once.
    pub const NONE: Self = Self { polls: 0, timeout: Duration::ZERO };

    /// Returns the settings of interface `name`.
    ///
    /// # Errors
    /// `NotFound` if sysfs does not show an interface of this name and `ifindex`: it shows those of the network namespace
    /// in which it was mounted.
    pub fn of(name: &str, ifindex: u32) -> io::Result<Self> {
        let read = |what| -> io::Result<u64> {
            let text = fs::read_to_string(path(name, what))?;
            text.trim().parse().map_err(io::Error::other)
        };
        if read("ifindex")? != u64::from(ifindex) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let polls = u32::try_from(read(POLLS)?).map_err(io::Error::other)?;
        Ok(Self { polls, timeout: Duration::from_nanos(read(TIMEOUT)?) })
    }

    /// Makes the interface do so, until what is returned puts it back. Settings that a killed process left behind
    /// ([`Self::POLLED`]) are put back to the kernel's default.
    ///
    /// # Errors
    /// As [`Self::of`]; `PermissionDenied` if this user may not write to sysfs.
    pub fn begin(self, name: &str, ifindex: u32) -> io::Result<Deferring> {
        let found = Self::of(name, ifindex)?;
        let before = if found == Self::POLLED { Self::NONE } else { found };
        let open = |what| OpenOptions::new().write(true).open(path(name, what));
        let deferring = Deferring { polls: open(POLLS)?, timeout: open(TIMEOUT)?, before };
        deferring.set(self)?;
        Ok(deferring)
    }
}

/// An interface whose interrupts are put off. Its settings are held open, so that they can be put back by a process that may
/// not open them any more, and are never those of another interface with the same name.
#[derive(Debug)]
pub struct Deferring {
    polls: File,
    timeout: File,
    before: Deferral,
}

impl Deferring {
    /// Makes the interface do what it did before.
    ///
    /// # Errors
    /// `ENODEV` if it is gone.
    pub fn put_back(&self) -> io::Result<()> {
        self.set(self.before)
    }

    fn set(&self, to: Deferral) -> io::Result<()> {
        self.polls.write_all_at(to.polls.to_string().as_bytes(), 0)?;
        self.timeout.write_all_at(to.timeout.as_nanos().to_string().as_bytes(), 0)
    }
}

const POLLS: &str = "napi_defer_hard_irqs";
const TIMEOUT: &str = "gro_flush_timeout";

fn path(name: &str, what: &str) -> PathBuf {
    ["/sys/class/net", name, what].iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_that_is_not_there_is_not_found() {
        for (name, ifindex) in [("pt-nobody", 1), ("lo", 4_000_000)] {
            assert_eq!(Deferral::of(name, ifindex).unwrap_err().kind(), io::ErrorKind::NotFound);
        }
    }
}
