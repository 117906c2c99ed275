//! The firewall: ipfw, stateful on every CPU without a lock.
//!
//! A [`Ruleset`](ruleset::Ruleset) is compiled, immutable, and shared by all CPUs; another one takes its place as a
//! whole. What is remembered of flows ([`state`], [`nat`]) is the CPU's whose flows they are. A packet is read once
//! ([`Subject`](subject::Subject)) and walks the rules at each hook that has any; a hook without rules is not on its way.

pub mod subject;
pub mod ruleset;
pub mod state;
pub mod nat;
pub mod pipe;
