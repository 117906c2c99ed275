//! Interfaces, Ethernet, and next hops made ready on a CPU.

pub mod tables;
pub mod ether;
pub mod driver;
