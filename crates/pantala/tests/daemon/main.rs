//! The real daemon, on devices of this machine in network namespaces that these tests make and delete.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod admin;
mod changes;
mod devices;
mod ends;
mod hotplug;
mod lab;
mod memif;
mod privileges;
mod reloads;

harness::main![admin, changes, devices, ends, hotplug, memif, privileges, reloads];
