//! Packet filter hooks: where IP asks the firewall. The word is BSD's.

pub(crate) use crate::firewall::{ask, ask_outward, cross};
