//! Attacks on TCP and UDP, segment by segment: what becomes of them, and that nothing is left of it.

#![expect(clippy::unwrap_used, reason = "a world that cannot begin has failed")]

mod lab;
mod handshake;
mod established;
mod silent_peers;
mod forged;
mod clock_jumps;

use lab::{CHARGEN, DISCARD, ECHO, Got, Hand, Lab, MS, SECOND};
