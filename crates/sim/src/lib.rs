//! Many hosts in virtual time: the second shell around [`net`], for tests.
//!
//! A [`World`] has [cables](cable), [hosts](host) that run the stack on one or several CPUs, and
//! [stations](station) that speak IP without it and see what is really on the wire. Nothing here waits for a clock:
//! the world turns one CPU after the other, in an order that its seed decides, and moves its time forward when no CPU
//! has anything to do. Whatever happens once happens again with the same seed.
//!
//! [`World::finish`] checks what must hold in any world: buffers come home, packets are lost for a reason only, flows
//! keep their order, and each packet was handled by the CPU that owns it.
#![forbid(unsafe_code)]

pub mod world;
pub mod host;
pub mod firewall;
pub mod station;
pub mod mem;
pub mod cable;
pub mod builder;
pub mod drill;
pub mod frame;
pub mod fuzz_bodies;
pub mod mitm;
pub mod mutate;
pub mod pcap;
pub mod plan;
pub mod random;
pub mod tahi;

pub use world::World;
