//! Packet sockets: programs that receive whole frames, those that a filter selects, and send frames of their own making.
//!
//! ```text
//!   device ─▶ receive ─┬─▶ ether ─▶ …            … ─▶ ifq ─┬─▶ device
//!                      └─▶ queue of a socket               └─▶ queue of a socket
//! ```
//!
//! A packet socket is what `packet(7)` is on Linux and a descriptor of `bpf(4)` on BSD: for protocols over Ethernet (LLDP, PPPoE
//! discovery, EAPOL), probes and monitors. It is on each CPU, and has on each the frames of the rings there, so that all of them
//! together have each frame once. With [`Open::takes`] it is a channel by filter, as netchannels are: what it selects of
//! received frames is the program's alone, and passes neither the firewall nor the stack.
//!
//! A frame of a VLAN has no tag for a socket on the VLAN, and gets it when it is sent. Checksums and segments of what is sent
//! may still be left to the device, and of what came from a neighbour on this machine, too ([`Received::is_partial`]).
//!
//! Without a packet socket nothing here is called; while there is one, flows are not left to the driver.

mod calls;
mod input;
mod listing;
mod socket;

pub use self::calls::{Open, close, open, ready, recv, send, send_by, show};
pub(crate) use self::input::{Delivered, received, sent};
pub use self::listing::{Listed, list};
pub use self::socket::{Id, QUEUE_BYTES, Ready, Received, SOCKETS_MAX, Sockets};

#[cfg(test)]
mod tests;
