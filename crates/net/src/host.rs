//! TCP, UDP, raw and packet sockets, applications on the netisr, and channels to threads.

pub mod pcb;
pub(crate) mod dgram;
pub mod udp;
pub mod dhcp;
pub mod raw;
pub mod packet;
pub mod tcp;
pub mod app;
pub mod channel;
pub mod ping;
pub mod sock;
