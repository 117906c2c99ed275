//! memif: two ends of ours, ends that misbehave, and DPDK's.

#![cfg(test)]

mod crook;
mod dpdk;
mod end;
mod handshake;
mod pair;
mod restart;
mod rings;
#[path = "../support/mod.rs"]
mod support;

harness::main![dpdk, handshake, pair, restart, rings];
