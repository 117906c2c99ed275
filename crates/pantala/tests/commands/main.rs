//! Every command, from the command line over a real Unix socket to a stack of a few vectors, and back as text.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod changes;
mod connections;
mod drill;
mod failures;
mod fake;
mod firewall;
mod looks;
mod metrics;
mod pings;
mod pktgen;
mod sockets;
mod sysctls;
mod world;
