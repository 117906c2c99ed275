//! DHCP (RFC 2131): messages, a server and a client as functions of them. The control thread runs them (`daemon/dhcp`, `daemon/dhcp_clients`); netisrs bring
//! messages and send them ([`net::dhcp`]).

pub(crate) mod client;
pub(crate) mod file;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz_bodies;
pub(crate) mod leases;
pub(crate) mod message;
pub(crate) mod relay;
pub(crate) mod server;
