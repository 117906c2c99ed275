//! pantala's shell: what reads configuration, talks to people and, through the admin API, to a running stack.
#![forbid(unsafe_code)]

pub mod api;
mod cli;
pub mod config;
mod daemon;
mod demo;
mod firewall;
mod mac;
mod pktgen;
mod serve;
mod show;
mod stop;
mod suggest;
pub mod term;

pub use cli::{Exit, run};
pub use mac::Mac;
#[cfg(any(test, fuzzing))]
pub use pktgen::fuzz_bodies;
