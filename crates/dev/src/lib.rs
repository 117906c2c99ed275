//! Devices, and the part of the operating system they stand on.
//!
//! | module | what it is |
//! |---|---|
//! | [`af_xdp`] | any Linux interface, by AF_XDP: native, generic or zero-copy |
//! | [`tap`] | an interface of the kernel whose other end is this process |
//! | [`mem`] | a wire between two stacks of this process |
//! | [`memif`] | shared memory with another program: VPP, DPDK, or another pantala |
//! | [`pcap`] | replay from a file, capture into one |
//! | [`sys`] | safe wrappers over system calls: AF_XDP sockets and rings, TAP queues, memory, waiting, ethtool, privileges |
//! | [`netlink`] | interfaces, addresses and routes of the kernel |
//! | [`netns`] | network namespaces: make, enter, run in, delete |
//! | [`xdp`] | XDP programs of users: read from object files, run in the kernel before ours or in this process |
//! | [`bpf`] | the XDP redirect and the TAP steering programs, assembled here and loaded without clang |

pub mod af_xdp;
pub mod bpf;
pub mod mem;
pub mod memif;
pub mod netlink;
pub mod netns;
pub mod null;
pub mod pcap;
pub mod sys;
pub mod tap;
mod waiter;
pub mod xdp;

pub use waiter::Waiter;
