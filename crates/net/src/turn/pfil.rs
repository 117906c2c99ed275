//! Packet filter hooks: where IP asks the firewall. The word is BSD's.

pub(crate) use crate::firewall::{ask, ask_frame, ask_outward, cross, owner_of_error};
