//! memif: two ends of ours, ends that misbehave, and DPDK's.

mod rogue_peer;
mod dpdk;
mod end;
mod handshake;
mod pair;
mod restart;
mod rings;

harness::modules![dpdk, handshake, pair, restart, rings];
