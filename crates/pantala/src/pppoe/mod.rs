//! PPPoE (RFC 2516) and PPP (RFC 1661), as functions of messages and time. The control thread runs them (`daemon/pppoe_clients`);
//! netisrs bring frames and carry packets of sessions (`net::pppoe`).

pub(crate) mod automaton;
pub(crate) mod client;
pub(crate) mod discovery;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz_bodies;
pub(crate) mod ipcp;
pub(crate) mod ipv6cp;
pub(crate) mod lcp;
