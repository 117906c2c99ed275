//! Attacks on TCP and UDP, segment by segment: what becomes of them, and that nothing is left of it.

#![expect(clippy::unwrap_used, reason = "a world that cannot begin has failed")]

mod siege;
mod opening;
mod standing;
mod silence;
mod forged;
mod leaps;

use siege::{CHARGEN, DISCARD, ECHO, Got, Hand, MS, SECOND, Siege};
