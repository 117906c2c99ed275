//! Lookup of connections and sockets by four-tuples.

mod bound;
mod local_end;

pub(crate) use self::bound::{Bound, choose};
pub(crate) use self::local_end::{Wanted, free_port, local_end};
pub use crate::base::four_tuple::FourTuple;
pub(crate) use crate::base::four_tuple::{is_of_a_link, secrets};

/// Ports that are given to conversations whose program names none: FreeBSD's range. More than RFC 6335 §6 calls dynamic,
/// since each of them makes guessing harder (RFC 6056 §3.2).
pub const EPHEMERAL: core::ops::RangeInclusive<u16> = 10_000..=65_535;
