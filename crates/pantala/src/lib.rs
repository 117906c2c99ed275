//! pantala's shell: what reads configuration, talks to people and, through the admin API, to a running stack.
#![forbid(unsafe_code)]

pub mod api;
mod cli;
pub mod config;
mod daemon;
mod demo;
mod mac;
mod show;
mod suggest;
pub mod term;

pub use cli::{Exit, run};
pub use mac::Mac;
