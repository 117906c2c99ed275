//! Real Linux hosts in network namespaces, and the real binary between them.
//!
//! Each test builds a [`lab`]: hosts, links and a `pantala up` of its own, all of which vanish with the value. What
//! cannot run here prints `SKIPPED:` and why. On failure, what pantala said and counted is printed.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]
#![expect(clippy::print_stdout, reason = "what pantala said is shown with the test that failed")]

mod lab;
mod need;
mod pantala;
mod raw;
mod socket;
mod wait;

mod attacks;
mod autoconf;
mod crossing;
mod crossing_families;
mod errors;
mod firewall;
mod interop;
mod lifecycle;
mod load;
mod memif;
mod neighbours;
mod offload;
mod order;
mod own;
mod pipes;
mod pktgen;
mod pmtu;
mod polling;
mod reload;
mod rings;
mod routes;
mod translation;
mod web;
mod wrong;
