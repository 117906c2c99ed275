//! The `pantala` program and its library: configuration, commands, the daemon on devices of this machine, stacks inside of a
//! program, and their sockets.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod bad_configuration;
mod commands;
mod daemon;
mod devices;
mod examples;
mod readme;
mod restart;
mod sockets;
mod stack;

harness::main![bad_configuration, commands, daemon, devices, examples, readme, restart, sockets, stack];
