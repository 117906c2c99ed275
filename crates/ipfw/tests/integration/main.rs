//! The language of the firewall, from outside.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod files;
mod golden;
mod limits;
mod refused;
