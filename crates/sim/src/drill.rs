//! Runs packetdrill scripts: one host with the stack, a program on it, the wire in front of it, and virtual time.
//!
//! A script plays the network and the program. What it gives to the stack is made to bytes ([`build`]), what the stack
//! sends is read ([`seen`]) and held to what the script says ([`compare`]), at the time that it says ([`clock`]).
//! Sequence numbers, ports and time stamps of the stack are its own; a [`conn`] knows which of them stand for which of
//! the script's.
//!
//! It is as strict as packetdrill, and stricter in three points. A packet of the host that no line expects is a failure,
//! of whatever connection or protocol, and also behind the last line that expects one, until the program begins to clean
//! up. The bytes of segments, and those that the program reads, are held to what was sent in their place ([`pattern`]).

mod play;
mod clock;
// the wire
mod lab;
mod ends;
mod conn;
mod build;
mod pattern;
mod signature;
mod seen;
mod compare;
// the program
mod pending;
mod calls;
mod program;
mod options;
mod expr;
mod errno;
// without a script
mod machine;
// what else there is
mod shell;
mod sysctl;
mod linux;
mod orders;
mod sockstat;
mod assert;
mod formula;
#[cfg(test)]
mod planted;
#[cfg(test)]
mod tests;

pub use self::errno::Errno;
pub use self::machine::{CallFlags, Description, Kind, Machine, Progress, Read, Readiness, Scene};
pub use self::options::Value;
pub use self::program::Outcome;

use core::fmt;

use ::drill::script::IpVersion;
use ::drill::{Pos, Script};

use crate::mem::Rss;

/// The host that a script runs against.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// Its CPUs, each with a ring of its card.
    pub cpus: u16,
    /// Which ring a packet comes by: that of the CPU that owns it, or another.
    pub rss: Rss,
    /// The addresses of scripts that do not say which they are for.
    pub version: IpVersion,
    /// Seed of its keys, and so of its ports and sequence numbers.
    pub seed: u64,
}

impl Default for Setup {
    fn default() -> Self {
        Self { cpus: 1, rss: Rss::Right, version: IpVersion::Ipv4, seed: 1 }
    }
}

/// An unmet expectation of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Where it demands it.
    pub pos: Pos,
    /// The expectation, and what came instead.
    pub message: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.pos.line, self.message)
    }
}

impl core::error::Error for Failure {}

/// Runs a script.
///
/// # Errors
///
/// The first demand that is not met.
pub fn run(script: &Script, setup: &Setup) -> Result<(), Failure> {
    let named = linux::cookie::named(script, setup);
    play::Play::new(named.as_ref().unwrap_or(script), setup)?.run()
}
