//! Channels: a program's threads use TCP and UDP of one netisr without a lock, a system call or a wait between them.
//!
//! ```text
//!   threads: Client                                     netisr: Channel, a program
//!     commands ──────────── records of 64 bytes ──────────▶
//!              ◀─────────── events, records of 64 bytes ───
//!     for each connection a lane ([`pkt::byte_channel`]):
//!     what is sent ──────── bytes, and how they end ──────▶  tcp::send
//!              ◀─────────── bytes, and how they end ───────  tcp::read_in_place
//! ```
//!
//! What a program sends it copies into a lane, and knows at once how much has found room; what has come it copies from
//! there. No request is sent, so neither end waits. The other end is notified if it waits, and only then: a command, and a
//! set the netisr's notification flag, which wakes it if it sleeps; an event, and a bell that the program's thread hears if it
//! sleeps. All that a turn has to tell is told with one bell.
//!
//! There is nothing in a channel but numbers and bytes, and the netisr believes none of them: a position that cannot be, a
//! record that says nothing, a lane that was not begun: the channel is closed, counted, and what it held is closed with it.
//! A program that reads slowly fills its lane, then the connection's buffer, and then the other end's window; one that does
//! not look at its events finds each lane's last state when it does, since what there was no room for is remembered as a
//! bit. The netisr never waits.
//!
//! A socket of datagrams has a lane, too, and on each CPU one: each datagram stands whole in it ([`datagram`]). What there is
//! no room for waits where it has come, and then is dropped, as datagrams are.
//!
//! A connection that is accepted needs a lane, and the program offers a few to each of its listeners: as many connections
//! are handed to it ahead of its asking, on each CPU, and the others wait where they have come.

mod bytes;
mod client;
mod conn;
pub mod datagram;
mod end;
mod record;
mod server;
mod setting;
mod socket;
mod sockets;

pub use self::client::Client;
pub use self::end::{END, ERRORS, error};
pub use self::record::{
    Bind, Command, Connect, Event, Join, Link, Listen, Question, Quote, Sender, Setting, Target,
};
pub use self::server::Channel;
pub use self::setting::{apply, prepare, prepare_socket};

use pkt::byte_channel::{TooLarge, lanes};
use pkt::wake::Waker;

use self::bytes::RECORD;

/// Lanes of a channel, if nothing else is said.
pub const LANES: u32 = 16_384;
/// Bytes that a lane has room for in each direction, if nothing else is said.
pub const LANE_BYTES: usize = 64 << 10;
/// Records that wait in a channel, in each direction.
pub const RECORDS: usize = 1024;
/// Listeners of a channel.
pub const LISTENERS_MAX: u32 = 1024;
/// Lanes that a program can offer to a listener at a time.
pub const OFFERS_MAX: usize = 1024;
/// Answers that wait to be told, until which commands are obeyed.
pub const ANSWERS_MAX: usize = 2048;
/// Commands that are obeyed in a turn.
pub const COMMANDS_MAX: usize = 256;

/// The size of a channel.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Lanes: connections that it carries at a time.
    pub lanes: u32,
    /// Bytes that each has room for, in each direction.
    pub lane_bytes: usize,
}

impl Default for Size {
    fn default() -> Self {
        Self { lanes: LANES, lane_bytes: LANE_BYTES }
    }
}

/// Makes a channel: the program's end, and the netisr's, which is begun there ([`crate::turn::netisr::Netisr::open`]). `waker` wakes the thread
/// that serves the program's end.
///
/// # Errors
///
/// [`TooLarge`].
pub fn channel(size: Size, waker: Waker) -> Result<(Client, Channel), TooLarge> {
    let (near, far) = lanes(1, RECORDS * RECORD)?;
    let control = near.take(0).zip(far.take(0)).ok_or(TooLarge)?;
    let (near, far) = lanes(size.lanes, size.lane_bytes)?;
    Ok((Client::new(control.0, near), Channel::new(control.1, far, waker)))
}

#[cfg(test)]
mod tests;
