//! Conformance sequences of IPv6 hosts: frames that a tester sends, and those that the host must or must not send.
//!
//! Each sequence has a world of its own: one host, which configures itself, and a tester on its cable. A sequence that
//! begins with the host's first question is there when the host is switched on; to any other the host has been up for a
//! while.

mod compare;
mod sequence;
mod tester;

pub use sequence::{Except, Kind, Sequence, Step};
pub use tester::{Failure, run};
