//! sFlow (sFlow version 5): samples of received frames and counters of interfaces, told to a collector over UDP.
//!
//! | module | what it is |
//! |---|---|
//! | [`datagram`] | samples as bytes |
//!
//! Frames are sampled where they come from devices, by a capture that looks at one of so many ([`net::capture`]).

pub(crate) mod datagram;
