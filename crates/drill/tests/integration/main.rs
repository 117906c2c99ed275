//! The language of packetdrill scripts, from outside.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod corpus;
mod golden;
mod limits;
mod others;

harness::main![corpus, golden, limits, others];
