//! A router on a wire that costs next to nothing, so that what is counted is the stack.
#![forbid(unsafe_code)]

#[cfg(test)]
mod allocations;
pub mod bare;
pub mod cable;
pub mod callgrind;
pub mod changed;
pub mod clock;
pub mod cpus;
pub mod echo;
pub mod unused_features;
pub mod firewall;
pub mod frames;
pub mod indirect;
pub mod internet;
pub mod links;
pub mod overload;
pub mod ping;
pub mod program;
pub mod router;
pub mod short;
#[cfg(feature = "web")]
pub mod threads;
pub mod veth;
pub mod wire;
pub mod workload;
