//! All interleavings of the ends of rings and of wake-ups, by [loom](https://docs.rs/loom).
//!
//! `cargo xtask loom`, or `RUSTFLAGS="--cfg loom" cargo test -p pkt --release --test loom FILTER`.
#![cfg(loom)]
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod byte_channel;
mod mpsc;
mod notify_bits;
mod ring;
mod shared_limit;
mod wake;
