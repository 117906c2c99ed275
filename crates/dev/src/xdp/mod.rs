//! XDP programs of users: read from object files ([`object`]), run in the kernel before ours on AF_XDP interfaces
//! ([`crate::bpf::user`]), and on others in this process ([`vm`]).

pub mod fuzz_bodies;
mod maps;
mod memory;
pub mod object;
pub mod vm;

pub use maps::MapError;
