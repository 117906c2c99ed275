//! DHCPv6 (RFC 8415): messages, a client and a server as functions of them. The control thread runs them (`daemon/dhcp6_clients`,
//! `daemon/dhcp6_servers`); netisrs bring messages and send them ([`net::dhcp`]).

pub(crate) mod client;
pub(crate) mod delegation;
pub(crate) mod lease;
pub(crate) mod message;
mod path;
pub(crate) mod relay;
pub(crate) mod server;
