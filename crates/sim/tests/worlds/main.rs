//! Worlds: hosts and routers on bad and good cables, in any order of turns.

mod channels;
mod common;
mod simulator;
mod control;
mod polling;
mod forwarding;
mod tunnels;
mod vlans;
mod vxlans;
mod neighbours;
mod ecmp_failover;
mod time_limits;
mod autoconf;
mod advertising;
mod icmp;
mod malformed;
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
mod mitm;
mod listings;
mod congestion;
#[cfg(shuttle)]
mod interleavings;
