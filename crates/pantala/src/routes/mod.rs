//! Routes of others: of FRR's zebra, and of the kernel's tables. What a source has said, as a function of its messages.
//!
//! ```text
//!   messages ─▶ Table: prefix ─▶ paths ─▶ target ─▶ hops of this stack ─▶ edits ─▶ net::fib::Rib
//!                        protocol, metric   │  ▲
//!                        age, round         ▼  │ links of the source, interfaces here
//!                                      next-hop objects, groups
//! ```
//!
//! | module | what it is |
//! |---|---|
//! | [`protocol`] | names, numbers and administrative distances |
//! | [`table`] | the routes of a source: what changes, what is stale, what is in force |
//! | [`target`] | where routes lead: each list of hops once, and next hops that have a number |
//!
//! Routes say where they lead in the words of the source: an interface by its number there, a next hop by its number. Many
//! routes share few targets. What a target amounts to here is worked out once, and again when interfaces or next hops change;
//! only then are its routes looked for. So a group may be told before its members, and a link that goes takes its routes along.
//!
//! Of several routes to a prefix [`net::fib::Rib`] has the one with the smallest administrative distance in force. Of several
//! that one source has, the one with the smallest metric that leads somewhere is given to it.
//!
//! Nothing here is read, opened or waited for: that is in `daemon/route_sources`.

#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz_bodies;
pub(crate) mod protocol;
pub(crate) mod table;
pub(crate) mod target;
