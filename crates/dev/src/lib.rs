//! Devices, and the part of the operating system they stand on.
//!
//! | module | what it is |
//! |---|---|
//! | [`sys`] | safe wrappers over system calls: AF_XDP sockets and rings, TAP queues, memory, waiting, ethtool, privileges |
//! | [`netlink`] | interfaces, addresses and routes of the kernel |
//! | [`netns`] | network namespaces: make, enter, run in, delete |
//! | [`bpf`] | the XDP redirect and the TAP steering programs, assembled here and loaded without clang |

pub mod bpf;
pub mod netlink;
pub mod netns;
pub mod sys;
