//! Worlds: what hosts and routers on bad and good cables must do, whoever goes next.

mod channels;
mod common;
mod ground;
mod control;
mod polling;
mod forwarding;
mod neighbours;
mod gateways;
mod patience;
mod autoconf;
mod icmp;
mod nonsense;
mod random;
mod redirections;
mod reassembly;
mod offload;
mod queues;
mod floods;
mod connections;
mod programs;
mod sockets;
mod raw;
mod groups;
mod attacks;
mod meddled;
mod dumps;
