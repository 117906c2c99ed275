//! The hooks while a packet is traced: what rules do with it is noted, and in a dry run they do it from a copy of what the
//! firewall remembers of its flow.

use core::time::Duration;
use std::sync::Arc;

use ipfw::rule::Hook;
use pkt::Pkt;

use super::flow_match::FlowMatch;
use super::hook;
use super::nat::instance::Instance;
use super::pkt_info::PktInfo;
use super::ruleset::RuleId;
use super::state::{Direction, Limits, Loose, Phase};
use super::trace::{Trace, Translation};
use super::{Firewall, Shared};
use crate::base::count::Count;
use crate::base::time::Instant;
use crate::turn::cpu::Cpu;
use crate::turn::netisr::CHUNK;
use crate::turn::next::Next;
use crate::turn::trace::{self, Headers};

/// The answer of a hook to one packet.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// The hook.
    pub hook: Hook,
    /// The rules that the packet matched, in their order: the first few.
    pub rules: Vec<RuleId>,
    /// Whether these are all.
    pub is_all: bool,
    /// The state that it hit.
    pub hit: Option<StateHit>,
    /// Whether it made a state.
    pub installs: bool,
    /// Whether it made a binding of NAT.
    pub binds: bool,
    /// The number of the instance of NAT that translated it, if one with a number did.
    pub nat: Option<u16>,
    /// Where it goes; `None` for on.
    pub next: Option<Next>,
}

/// A state that a packet hit.
#[derive(Clone, Debug, PartialEq)]
pub struct StateHit {
    /// The rule that made it.
    pub rule: RuleId,
    /// Whether the packet goes as the one that made the state.
    pub is_forward: bool,
    /// Remaining lifetime.
    pub left: Duration,
    /// Phase of the connection, if it is TCP.
    pub phase: Option<Phase>,
}

/// Facts that are compared before and behind a hook.
struct Before {
    headers: Option<Headers>,
    rules: usize,
    hits: u8,
    counts: [u64; 2],
    is_translated: bool,
}

const COUNTS: [Count; 2] = [Count::StateInstalled, Count::NatBindings];

/// [`hook::ask_all`] about the packet in hand.
#[cold]
#[inline(never)]
pub(super) fn ask_all(
    cpu: &mut Cpu,
    hook: Hook,
    pkts: &mut [Pkt],
    next: &mut [Next; CHUNK],
    which: u64,
) -> u64 {
    let Some(pkt) = pkts.first() else { return which };
    let before = before(cpu, pkt, hook, 0);
    let judge = |firewall: &mut Firewall, cpu: &mut Cpu| firewall.judge_all(cpu, hook, pkts, next, which);
    let passing = hook::with(cpu, judge).unwrap_or(which);
    if let Some(pkt) = pkts.first() {
        let to = (passing & 1 == 0).then_some(next[0]);
        after(cpu, pkt, (hook, 0), to, &before);
    }
    passing
}

/// [`hook::ask`] about the packet in hand, or one that it has caused.
#[cold]
#[inline(never)]
pub(super) fn ask(cpu: &mut Cpu, pkt: &mut Pkt, hook: Hook) -> Option<Next> {
    if let Some(firewall) = &mut cpu.firewall {
        firewall.begin_alone();
    }
    let before = before(cpu, pkt, hook, CHUNK);
    let next = hook::with(cpu, |firewall, cpu| firewall.judge_alone(cpu, pkt, hook)).flatten();
    after(cpu, pkt, (hook, CHUNK), next, &before);
    next
}

fn before(cpu: &mut Cpu, pkt: &Pkt, hook: Hook, at: usize) -> Before {
    let now = cpu.now;
    if let Some((real, copy)) = trace::remembering(cpu) {
        copy.learn(real, pkt, hook, now);
    }
    let counts = COUNTS.map(|count| cpu.counters.get(count));
    let trace = cpu.firewall.as_ref().map(|firewall| *firewall.trace_at(at)).unwrap_or_default();
    Before {
        headers: Headers::read(pkt),
        rules: trace.met.rules().len(),
        hits: trace.how.times(),
        counts,
        is_translated: trace.met.translation().is_some(),
    }
}

fn after(cpu: &mut Cpu, pkt: &Pkt, (hook, at): (Hook, usize), next: Option<Next>, before: &Before) {
    let Some(firewall) = &cpu.firewall else { return };
    let trace = firewall.trace_at(at);
    let rules = trace.met.rules();
    let hit = (trace.how.times() > before.hits).then(|| firewall.hit(trace, cpu.now)).flatten();
    let nat = match trace.met.translation().filter(|_| !before.is_translated) {
        Some(Translation::Nat(number, _)) => Some(number),
        _ => None,
    };
    let [installs, binds] = [0, 1].map(|at| cpu.counters.get(COUNTS[at]) > before.counts[at]);
    let is_all = !trace.is_full();
    let rules = rules.get(before.rules..).unwrap_or_default().to_vec();
    let headers = Headers::read(pkt).filter(|headers| before.headers != Some(*headers));
    trace::asked(cpu, Asked { hook, rules, is_all, hit, installs, binds, nat, next }, headers);
}

impl Firewall {
    /// A packet that is none of a chunk has met nothing yet.
    fn begin_alone(&mut self) {
        self.chunk.begin_alone();
    }

    fn hit(&self, trace: &Trace, now: Instant) -> Option<StateHit> {
        let state = self.states.marked(trace.known.state)?;
        Some(StateHit {
            rule: state.rule,
            is_forward: matches!(trace.how.direction(), Direction::Forward),
            left: state.left(now),
            phase: state.phase(),
        })
    }

    /// Copies what another firewall with the same rules remembers of a packet's flow.
    fn learn(&mut self, real: &Self, pkt: &Pkt, hook: Hook, now: Instant) {
        self.nat.learn(&real.nat, pkt, now);
        let xmit = if matches!(hook, Hook::Forward | Hook::Egress) { pkt.outif } else { 0 };
        let Ok(info) = PktInfo::at_hook(pkt, hook, pkt.rcvif, xmit) else { return };
        if let Some((flow, hash)) = FlowMatch::of(&info, pkt, &real.states).flow() {
            self.states.learn(&real.states, &flow, hash, now);
        }
    }

    /// Returns what it shares with the other CPUs.
    #[must_use]
    pub fn shared(&self) -> Shared {
        Shared {
            rules: Arc::clone(&self.rules),
            one_pass: self.one_pass,
            nat: self.nat.iter().map(Instance::shared_spec).collect(),
            nat64: self.nat64.specs(),
            prefixes: Arc::clone(&self.prefixes),
            pipes: self.pipes.config(),
            settings: *self.states.settings(),
            loose: self.states.loose(),
            limits: self.states.limits(),
            amounts: self.log.amounts(),
            is_enabled: self.is_enabled,
            is_verbose: self.is_verbose,
        }
    }
}

impl Shared {
    /// Returns the same rules and settings, with counts that go on from those of all CPUs, and without a log.
    pub(crate) fn with_counts_of_its_own(&self) -> Self {
        Self {
            loose: Loose::above(&self.loose),
            limits: Limits::above(&self.limits),
            pipes: Arc::new(self.pipes.apart()),
            is_verbose: false,
            ..self.clone()
        }
    }
}
