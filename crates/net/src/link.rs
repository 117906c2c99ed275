//! Interfaces, Ethernet, and the interface to drivers.

pub mod tables;
pub mod ether;
pub mod logical;
pub mod tunnel;
pub mod pppoe;
pub(crate) mod mss;
pub mod vxlan;
pub mod bridge;
pub mod stp;
pub mod fdb;
pub mod driver;
