//! A traffic generator and the place where its frames end, in the kernel: for measurements and tests of what is between them.
//!
//! - [`flood`]: an XDP program that writes frames and sends them out of an interface.
//! - [`sink`]: an XDP program that counts datagrams and drops them.
#![forbid(unsafe_code)]

pub mod flood;
pub mod sink;
