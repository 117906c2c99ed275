//! UDP: sockets, and the answers of closed ports.
//!
//! A socket that is not connected is on each CPU, and has on each what comes there: the datagrams of one pair of ends are
//! all on one. A connected socket is on the CPU of its ends.

mod input;
mod table;
mod socket;
mod failures;
mod batch;
mod calls;
mod output;
mod error;
mod listing;

pub use self::batch::{Datagram, recv_batch, send_batch};
pub use self::calls::{
    Bind, Connect, bind, change, close, connect, failure, failure_with_quote, listen, local, memberships,
    read_in_place, ready, recv,
};
pub(crate) use self::error::{can_have_sent, error, is_too_big};
pub(super) use self::failures::Failures;
pub use self::failures::{FAILURES_MAX, QUOTE_MAX};
pub use self::input::input;
pub use self::listing::Listed;
pub(super) use self::output::put_headers;
pub use self::output::{send, send_to};
pub use self::socket::{Failure, Icmp, Id, Ready};
pub use self::table::{SOCKETS_MAX, Sockets};
pub use crate::host::dgram::{
    DATAGRAMS_MAX, Listen, MEMBERSHIPS_MAX, QUEUE_BYTES, QUEUE_BYTES_MAX, Received, Settings, To, link_mtu,
};

#[cfg(test)]
mod tests;
