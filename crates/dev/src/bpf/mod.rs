//! BPF programs of our own, assembled here and checked by the kernel's verifier: no clang, no library.
//!
//! - [`redirect`]: an XDP program that sends each frame to the AF_XDP socket of its receive queue.
//! - [`share`]: one that takes only what is for us, and leaves the rest to the kernel.
//! - [`steering`]: chooses the TAP queue of a frame by our placement hash.
//! - [`offload`]: forwards the packets of established flows in the driver.
//! - [`user`]: an XDP program of a user, before ours.
//! - [`holder`]: the process that holds a program on an interface.

pub mod asm;
pub mod holder;
pub mod link;
pub mod map;
pub mod offload;
pub mod prog;
pub mod redirect;
pub mod share;
pub mod steering;
mod syscall;
pub mod user;

pub use syscall::BpfError;
