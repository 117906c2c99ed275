//! The stack as a shared object: as packetdrill calls it, and in the original packetdrill.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod interface;
mod judge;
mod original;

harness::main![interface, original];
