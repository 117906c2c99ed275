//! The firewall: ipfw, stateful on every CPU without a lock.
//!
//! A [`Ruleset`] is compiled, immutable, and shared by all CPUs; another one takes its place as a whole. What is
//! remembered of flows ([`state`], [`nat`]) is the CPU's whose flows they are. A packet is read once
//! ([`subject::Subject`]) and walks the rules at each hook that has any; a hook without rules is not on its way.

pub mod subject;
pub mod ruleset;
pub mod state;
pub mod nat;
pub mod pipe;
mod hook;

pub use hook::Hooks;
pub(crate) use hook::{ask, ask_all, ask_inward, ask_outward};

use std::sync::Arc;

use ipfw::rule::Hook;
use pkt::{Pkt, PktVec};

use crate::cpu::Cpu;
use crate::next::Next;
use ruleset::Ruleset;

/// One CPU's firewall: the rules that all share, and what it alone remembers.
pub struct Firewall {
    rules: Arc<Ruleset>,
}

impl Firewall {
    /// What becomes of a packet at a hook. `None`: it goes on.
    fn judge(&mut self, _cpu: &mut Cpu, _pkt: &mut Pkt, _hook: Hook) -> Option<Next> {
        let _ = &self.rules;
        None
    }

    /// The same of those of which `next` is `pass`.
    fn judge_all(
        &mut self,
        _cpu: &mut Cpu,
        _hook: Hook,
        _pkts: &mut PktVec,
        _next: &mut [Next],
        _pass: Next,
    ) {
    }
}
