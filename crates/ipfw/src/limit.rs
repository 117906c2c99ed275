//! Bounds of the language: what is longer is refused, with an error that says so.

pub use crate::file::{COMMANDS_MAX, ERRORS_MAX, LINE_MAX};

/// Bytes of a name of a table, a flow, an instance, and of a pattern for interfaces.
pub const NAME_MAX: usize = 63;
/// Bytes of an interface's name (`IFNAMSIZ` less its end).
pub const IF_NAME_MAX: usize = 15;
/// Bytes of a rule's comment.
pub const COMMENT_MAX: usize = 255;
/// Matches of a rule, or-blocks counted as one.
pub const CLAUSES_MAX: usize = 64;
/// Alternatives of an or-block.
pub const OR_MAX: usize = 64;
/// Networks of a list with commas.
pub const NETS_MAX: usize = 64;
/// Ports, lengths, types of a list with commas; as in FreeBSD and DragonFly.
pub const LIST_MAX: usize = 30;
/// Numbers and ranges of rules in a command.
pub const NUMBERS_MAX: usize = 256;
/// Entries of a table, if `limit` asks for so many.
pub const TABLE_LIMIT_MAX: u32 = 1 << 24;
/// Redirections of an instance of NAT, and hosts that share the load of one.
pub const REDIRECTS_MAX: usize = 256;
/// Bits per second that a pipe may have.
pub const BANDWIDTH_MAX: u64 = 1_000_000_000_000;
/// Milliseconds that a pipe may delay.
pub const DELAY_MAX_MS: u32 = 60_000;
/// Packets that may overtake one that a pipe holds back.
pub const REORDER_MAX: u8 = 100;
/// Bytes of a pipe's burst.
pub const BURST_MAX: u64 = 1 << 40;
/// Packets that may wait in a queue.
pub const QUEUE_MAX: u32 = 100;
/// Bytes that may wait in a queue.
pub const QUEUE_BYTES_MAX: u32 = 1 << 20;
/// The largest number of a routing table.
pub const FIB_MAX: u8 = 15;
