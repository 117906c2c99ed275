//! Short connections: two hosts of ours with an application each, client and server, and a [cable](crate::cable) between
//! any two of their CPUs.
//!
//! A connection is a handshake, a question, an answer of about a kilobyte, and both goodbyes; the server closes first, so that
//! it has what waits. Or it stays, and one question follows the other.

mod client;
pub mod memory;
pub mod other;
mod pair;
mod server;
mod stream;

pub use self::client::{Client, Pace, Seen};
pub use self::memory::Rate;
pub use self::other::Other;
pub use self::pair::{PORT, Pair, Pairs, Wanted};
pub use self::server::{Server, Serves};
pub use self::stream::PIECE;

/// Length of a request to [`Server`], as in the benchmark that other stacks in memory were measured with.
pub const QUESTION: usize = 64;
/// Bytes of an answer: a kilobyte, and a head as web servers send it.
pub const ANSWER: usize = 1224;

/// Continuation after a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behind {
    /// The server closes.
    Close,
    /// The next question follows.
    Ask,
    /// Nothing does; the connection stays.
    Rest,
}
