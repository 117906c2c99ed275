//! DHCP (RFC 2131): messages, and a server as a function of them. The control thread runs it (`daemon/dhcp`); netisrs bring
//! messages and send them ([`net::dhcp`]).

pub(crate) mod leases;
pub(crate) mod message;
pub(crate) mod server;
