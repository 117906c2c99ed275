//! Translation of addresses and ports.

pub mod fuzz_bodies;
pub mod ports;
pub mod rewrite;
pub mod shape;
