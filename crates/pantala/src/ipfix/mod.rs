//! IPFIX (RFC 7011): flows of the firewall's states, told to a collector over UDP.
//!
//! | module | what it is |
//! |---|---|
//! | [`message`] | templates and records as bytes |
//! | [`exporter`] | which flows there are, and what of them is to be told: a function of states and of time |
//!
//! The states have the counters already, so no packet costs anything. The control thread reads them once a second.

pub(crate) mod exporter;
pub(crate) mod message;
