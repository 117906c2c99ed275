//! Packet memory, and everything in which it crosses from one CPU to another.
//!
//! Memory moves between threads here and nowhere else, so this is the crate to read with miri and loom:
//!
//! - [`Pkt`]: an owned, 8-byte handle of a packet buffer. It moves and is never cloned.
//! - [`PktVec`]: up to 256 packets that travel together.
//! - [`Pool`]: the free buffers of one CPU, last in first out, cut from an [`Arena`] that a device may share.
//! - [`ring`], [`mpsc`], [`wake`], [`counters`]: how CPUs hand each other packets, messages and numbers.
//! - [`byte_channel`]: streams of bytes between a program's thread and a netisr, many in one piece of memory.
//! - [`shared_limit`]: numbers that all CPUs count together, up to limits.
//! - [`shared`]: the atomics that all of these, and what CPUs share in the stack, are made of.
//! - [`atomic_array`]: large arrays that all CPUs read and one thread changes in place.
//!
//! # Which files need unsafe
//!
//! `arena`, `pkt`, `vec`, `ring`, `mpsc`, `counters`, `byte_channel::region`, `byte_channel::stream`, `map` and `atomic_array`; the first line of each
//! says what for.

pub mod notify_bits;
pub mod counters;
pub mod byte_channel;
pub mod mpsc;
pub mod ring;
pub mod shared;
pub mod shared_limit;
pub mod wake;
pub mod atomic_array;

mod arena;
mod pool_ids;
mod map;
mod pkt;
mod pool;
mod slot;
mod sync;
mod vec;

pub use arena::{Arena, ArenaError, PageKind};
pub use pkt::{Fragments, NoRoom, Pkt};
pub use pool::{Outgoing, Pool, PoolStats, RingId};
pub use slot::{BUF_LEN, DATA_LEN, Flags, Gso, HEADROOM, META_LEN, Meta, Note, STRIDE, WINDOW};
pub use vec::{PktVec, VEC_MAX, prefetch_ref, prefetch_whole};
