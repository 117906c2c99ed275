//! The stack behind packetdrill's interface for shared objects, so that others can judge it with their own tool:
//!
//! ```text
//! packetdrill --so_filename=libpantala_packetdrill.so --so_flags=linux script.pkt
//! ```
//!
//! packetdrill loads `libpantala_packetdrill.so`, calls `packetdrill_interface_init` in it, and then calls the functions of
//! the table that it has filled ([`abi`]) where it would else ask the kernel. Behind them is one host of [`sim::drill`] in
//! virtual time ([`host`]): packets go in and come out as they are from their IP header on, and time passes only while
//! packetdrill sleeps, or waits for a packet or for a call ([`clock`]). What the flags may say is in [`flags`].
//!
//! packetdrill makes calls that have to wait from a second thread, after it has slept there until it is time. In such a call
//! it sleeps here until the first one, that which has called `packetdrill_interface_init`, lets time pass or gives the host a
//! packet; when it is done, time stands until it has asked for it, so that it learns when that was.

mod abi;
mod address;
mod boundary;
mod clock;
mod commands;
mod errno;
mod files;
mod flags;
mod host;
mod hosts;
mod info;
mod messages;
mod notes;
mod options;
mod pipes;
mod poll;
mod whole;
