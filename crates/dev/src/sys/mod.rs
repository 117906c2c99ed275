//! Safe wrappers over the system calls that drivers need.
//!
//! Nothing here knows a packet: buffers are byte slices, UMEM addresses are offsets.

pub mod affinity;
pub mod append;
pub mod caps;
pub mod carrier;
pub mod cycles;
pub mod epoll;
pub mod ethtool;
pub mod fdinfo;
pub mod heap;
pub mod libpcap;
pub mod mmap;
pub mod napi;
pub mod notify;
pub mod packet;
pub mod poll;
pub mod process;
pub mod promisc;
pub mod sched;
pub mod seccomp;
pub mod sockopt;
pub mod sysctl;
pub mod tun;
pub mod tun_reserve;
pub mod unix_socket;
pub mod uring;
pub mod user;
pub mod vnet_hdr;
pub mod xsk;
pub mod xsk_ring;
