//! pantala's shell: what reads the clock, opens devices, starts threads and talks to people.

pub mod api;
pub mod config;
mod mac;
mod suggest;
pub mod term;

pub use mac::{Mac, NotMac};
