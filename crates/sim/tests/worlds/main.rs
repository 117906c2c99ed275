//! Worlds: hosts and routers on bad and good cables, in any order of turns.

mod channels;
mod common;
mod ground;
mod control;
mod polling;
mod forwarding;
mod vlans;
mod neighbours;
mod gateways;
mod patience;
mod autoconf;
mod icmp;
mod nonsense;
mod random;
mod accounts;
mod redirections;
mod relays;
mod reassembly;
mod offload;
mod queues;
mod floods;
mod connections;
mod programs;
mod sockets;
mod paths;
mod raw;
mod groups;
mod attacks;
mod meddled;
mod dumps;
mod congestion;
#[cfg(shuttle)]
mod interleavings;
