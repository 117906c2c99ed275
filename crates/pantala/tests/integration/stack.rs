//! Whole stacks inside of a program, without rights: two of them, and a wire in memory.

pub(crate) mod caller;
mod captures;
mod changes;
mod ends;
mod extcap;
mod frames;
pub(crate) mod resources;
mod ready;
mod rights;
mod scrape;
mod tunnels;
mod vlans;
mod wires;

harness::modules![captures, changes, ends, extcap, frames, ready, rights, scrape, tunnels, vlans, wires];
