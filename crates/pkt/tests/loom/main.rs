//! All interleavings of the ends of rings and of wake-ups, by [loom](https://docs.rs/loom).
//!
//! `cargo xtask loom`, or `cargo test -p pkt --features loom --test loom FILTER`.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod byte_channel;
mod mpsc;
mod notify_bits;
mod ring;
mod shared_limit;
mod wake;
