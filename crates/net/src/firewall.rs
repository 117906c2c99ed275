//! The firewall: ipfw, stateful on every CPU without a lock.
//!
//! A [`Ruleset`] is compiled, immutable, and shared by all CPUs; another one takes its place as a whole. What is
//! remembered of flows ([`state`], [`nat`]) is the CPU's whose flows they are. A packet is read once ([`PktInfo`]) and
//! walks the rules ([`walk`]) at each [`hook`] that has any; a hook without rules is not on its way.

mod hook;
mod layer2;
pub mod pkt_info;
pub mod ruleset;
pub mod table;
mod walk;
mod fastpath;
mod trace;
mod traced;
mod cached_verdict;
mod flow_match;
pub mod state;
mod rewrite;
mod resume;
mod nat64_errors;
pub mod nat;
pub mod fwd;
pub mod pipe;
pub mod pipe_io;
pub mod handoff;
pub mod log;

use core::time::Duration;
use std::sync::Arc;

use ipfw::rule::Hook;
use pkt::Pkt;
use wire::Protocol;

use crate::base::count::Count;
use crate::base::drop::DropReason;
use crate::base::secret::Secret;
use crate::base::time::Instant;
use crate::ip::{ip4, ip6, l4};
use crate::turn::cpu::{Cpu, CpuId};
use crate::turn::next::Next;
use crate::turn::timers::Timer;
use fastpath::Chunk;
use fwd::Vias;
use log::Log;
use nat::Nat;
use nat::nat64::Nat64;
use nat::nptv6::Nptv6;
use pipe::Pipes;
use pipe_io::ResumePoint;
use pkt_info::{Part, PktInfo};
use ruleset::{RuleCounters, RuleCountersReader, RuleId, Ruleset};
use state::{Keepalive, Kind, Limits, Loose, Settings, State, States};
use walk::{Verdict, Walk};

pub use fwd::Via;
pub use handoff::HandoffPoint;
pub use hook::Hooks;
pub(crate) use hook::{ask, ask_all, ask_outward, begin, settle};
pub(crate) use layer2::{ask_frame, owner_of_error};
pub(crate) use nat64_errors::cross;
pub use pipe_io::Shape;
pub(crate) use pipe_io::{release, shape};
pub(crate) use resume::go_onward;
pub(crate) use state::answering;
pub(crate) use trace::{Known, Lookups, Met, Trace};
pub use traced::{Asked, StateHit};
pub use walk::PairMessage;

/// One CPU's firewall: the rules that all share, and what it alone remembers.
pub struct Firewall {
    rules: Arc<Ruleset>,
    states: States,
    counters: RuleCounters,
    nat: Nat,
    nat64: Nat64,
    prefixes: Prefixes,
    pipes: Pipes<ResumePoint>,
    one_pass: bool,
    log: Log,
    chunk: Box<Chunk>,
    /// Number of ruleset changes.
    changes: u64,
    #[cfg(test)]
    only_walks: bool,
    is_enabled: bool,
    is_verbose: bool,
    vias: Vias,
    /// Packets that have left pipes, for a moment.
    left: Vec<(Pkt, ResumePoint)>,
    /// To be sent to the ends of idle connections, when the states have been looked at.
    keepalives: Vec<Keepalive>,
    timer_is_set: bool,
    /// Since rules have changed, up to where the states were looked through.
    swept: Option<u32>,
}

/// States whose ends are looked for in one turn.
const STATES_PER_TURN: usize = 1024;
/// Places for states that are looked through in one turn after a change of rules.
const SWEPT_PER_TURN: u32 = 1024;
/// Interval of searches.
const EVERY: Duration = Duration::from_secs(1);

/// Prefixes that are exchanged, by the name of their instance.
pub type Prefixes = Arc<std::collections::BTreeMap<String, Nptv6>>;

/// The part of the firewall that all CPUs share: rules, settings and limits.
#[derive(Clone, Debug)]
pub struct Shared {
    /// The rules in force.
    pub rules: Arc<Ruleset>,
    /// Whether a packet that left a pipe is not asked about again at its hook.
    pub one_pass: bool,
    /// Instances of NAT.
    pub nat: Vec<Arc<nat::spec::Spec>>,
    /// Instances of NAT64.
    pub nat64: Vec<Arc<nat::nat64::spec::Spec>>,
    /// Prefixes that are exchanged, by name.
    pub prefixes: Prefixes,
    /// Pipes and queues.
    pub pipes: Arc<pipe::Config>,
    /// Settings of states.
    pub settings: Settings,
    /// Global count of states.
    pub loose: Arc<Loose>,
    /// Counts of each `limit`.
    pub limits: Arc<Limits>,
    /// Log counts of each rule.
    pub amounts: Arc<log::Amounts>,
    /// Whether packets meet rules at all.
    pub is_enabled: bool,
    /// Whether rules with `log` are heard.
    pub is_verbose: bool,
}

impl Firewall {
    /// A firewall of one CPU that remembers nothing yet. `key` keys its tables.
    #[must_use]
    pub fn new(shared: &Shared, cpu: CpuId, cpus: u16, buffers: usize, key: u128) -> Self {
        let Shared { rules, one_pass, settings, loose, limits, amounts, is_enabled, is_verbose, .. } =
            shared.clone();
        Self {
            rules,
            counters: RuleCounters::new(),
            nat: Nat::default(),
            nat64: Nat64::default(),
            prefixes: Prefixes::default(),
            pipes: Pipes::new(cpu, cpus, buffers),
            one_pass,
            left: Vec::new(),
            states: States::new(&Secret::new(key), settings, loose, limits, cpu),
            log: Log::new(amounts),
            chunk: Box::new(Chunk::new()),
            changes: 0,
            #[cfg(test)]
            only_walks: false,
            is_enabled,
            is_verbose,
            vias: Vias::new(key),
            keepalives: Vec::new(),
            timer_is_set: false,
            swept: None,
        }
    }

    /// Puts other rules in force. What is remembered of flows stays, as far as its rules do.
    pub fn set(&mut self, shared: &Shared, now: Instant, secret: &mut Secret) {
        self.rules = Arc::clone(&shared.rules);
        self.swept = Some(0);
        self.changes += 1;
        self.states.configure(shared.settings);
        self.one_pass = shared.one_pass;
        self.pipes.configure(Arc::clone(&shared.pipes), now);
        self.prefixes = Arc::clone(&shared.prefixes);
        let gone: Vec<u16> = self.nat.iter().map(|instance| instance.spec().number).collect();
        let stays = |number: &u16| shared.nat.iter().any(|spec| spec.number == *number);
        for number in gone.into_iter().filter(|number| !stays(number)) {
            self.nat.delete(number);
        }
        for spec in &shared.nat {
            self.nat.configure(Arc::clone(spec), secret);
        }
        self.nat64.configure(&shared.nat64, secret);
        self.is_enabled = shared.is_enabled;
        self.is_verbose = shared.is_verbose;
    }

    /// The hooks at which packets meet rules.
    #[must_use]
    pub fn hooks(&self) -> Hooks {
        if !self.is_enabled {
            return Hooks::default();
        }
        // What answers here to what was redirected here must be seen when it leaves.
        let answers = |hook| hook == Hook::LocalOut && self.rules.redirects();
        let busy = Hook::ALL.into_iter().filter(|hook| answers(*hook) || !self.rules.is_empty_at(*hook));
        busy.fold(Hooks::default(), Hooks::with)
    }

    /// Is another whenever rules or tables have changed, the numbers of states or bindings begin again, or flows begin to be
    /// redirected.
    pub(crate) fn basis(&self) -> [u64; 4] {
        let redirects = u64::from(self.states.has_pairs());
        let epochs = self.states.epoch() + self.nat.epoch();
        [self.changes, self.rules.generation(), epochs, redirects]
    }

    /// Counts packets that have matched a rule.
    pub(crate) fn count_many(&mut self, rule: RuleId, packets: u64, bytes: u64, now: Instant) {
        self.counters.count(rule, packets, bytes, now);
    }

    /// The rules in force.
    #[must_use]
    pub fn rules(&self) -> &Ruleset {
        &self.rules
    }

    /// Where any thread can read what its rules have counted.
    #[must_use]
    pub fn counters(&self) -> RuleCountersReader {
        self.counters.reader()
    }

    /// This CPU's bindings of NAT.
    #[must_use]
    pub const fn nat(&self) -> &Nat {
        &self.nat
    }

    /// This CPU's bindings of NAT64.
    #[must_use]
    pub const fn nat64(&self) -> &Nat64 {
        &self.nat64
    }

    /// This CPU's part of the pipes.
    #[must_use]
    pub const fn pipes(&self) -> &Pipes<ResumePoint> {
        &self.pipes
    }

    /// When packets that wait here must be looked at.
    pub(crate) fn deadline(&self) -> Instant {
        self.pipes.deadline()
    }

    /// Takes out all packets that wait here, for the end.
    pub(crate) fn drain(&mut self) -> Vec<Pkt> {
        self.pipes.drain()
    }

    /// Returns the states.
    #[must_use]
    pub const fn states(&self) -> &States {
        &self.states
    }

    /// Returns the log.
    #[must_use]
    pub const fn log(&self) -> &Log {
        &self.log
    }

    /// While there are states, or groups of them, their ends are looked for once a second, or as soon as more of them are due than one
    /// turn has time for.
    fn set_timer(&mut self, cpu: &mut Cpu) {
        let has_memory = || {
            let states = &self.states;
            let bindings = self.nat.deadline().or_else(|| self.nat64.deadline());
            !states.is_empty() || states.tracks() > 0 || bindings.is_some()
        };
        if !self.timer_is_set && has_memory() {
            self.timer_is_set = true;
            cpu.timers.set(cpu.now + EVERY, Timer::Firewall);
        }
    }

    /// Where a packet goes from a hook that has been on its way already, up to this rule: on from behind it or, if it is to be
    /// obeyed `here` because it could not be on another CPU, from its action.
    fn ask_at(&mut self, cpu: &mut Cpu, pkt: &mut Pkt, hook: Hook, rule: RuleId, here: bool) -> Option<Next> {
        let xmit = if matches!(hook, Hook::Forward | Hook::Egress) { pkt.outif } else { 0 };
        let Ok(info) = PktInfo::at_hook(pkt, hook, pkt.rcvif, xmit) else {
            return Some(Next::Drop(DropReason::FirewallBogus));
        };
        let walk = Walk::new(PktInfo { tag: pkt.tag, ..info }, None);
        let verdict = match self.rules.by_id(rule) {
            Some(at) if here => self.walk_on(cpu, pkt, walk.from(at), at),
            Some(at) => self.walk(cpu, pkt, walk.from(at + 1)),
            // Others may stand in its place: all are asked.
            None => self.walk(cpu, pkt, walk),
        };
        self.counters.settle();
        self.next(verdict, hook)
    }

    fn next(&mut self, verdict: Verdict, hook: Hook) -> Option<Next> {
        match verdict {
            Verdict::Pass => None,
            Verdict::Go(next) => Some(next),
            Verdict::Via(to) => {
                Some(self.vias.number(to, hook).map_or(Next::Drop(DropReason::NoRoute), Next::Via))
            }
        }
    }

    /// After a change of rules: ends the states of those that are gone, as many as one turn has time for.
    fn sweep(&mut self, now: Instant) {
        let Self { rules, states, swept, .. } = self;
        // A slave goes when its master does.
        let is_orphan =
            |state: &State| state.kind != Kind::RedirectSlave && rules.by_id(state.rule).is_none();
        *swept = swept.and_then(|from| states.end(from, SWEPT_PER_TURN, now, is_orphan));
    }

    /// Whether a packet is a piece of a datagram that may have to be redirected: its later pieces do not say so.
    fn must_be_whole(&self, info: &PktInfo) -> bool {
        let speaks = matches!(Protocol(info.proto), Protocol::TCP | Protocol::UDP);
        let is_piece = info.part != Part::Whole && info.hook == Hook::Ingress;
        is_piece && speaks && (self.rules.redirects() || self.states.has_pairs())
    }

    /// The other CPU that has the state of what an error of ICMP quotes: the error itself came where its own addresses
    /// place it.
    fn elsewhere(&self, cpu: &Cpu, pkt: &Pkt, info: &PktInfo) -> Option<CpuId> {
        let may_be = info.hook == Hook::Ingress && info.is_icmp() && cpu.placement.cpus() > 1;
        if !may_be || self.rules.probe_from(0).is_none() {
            return None;
        }
        let owner = flow_match::owner_of_quoted(cpu, info, pkt)?;
        (owner != cpu.id).then_some(owner)
    }
}

/// Ends the states whose time has come, a bounded number of them, and keeps those of idle connections alive.
pub(crate) fn timer(cpu: &mut Cpu) {
    let keepalives = hook::with(cpu, |firewall, cpu| {
        let mut keepalives = core::mem::take(&mut firewall.keepalives);
        let looked_at = firewall.states.tick(cpu.now, STATES_PER_TURN, &mut keepalives);
        let bindings = firewall.nat.expire(cpu.now, STATES_PER_TURN);
        let bindings = bindings.max(firewall.nat64.expire(cpu.now, STATES_PER_TURN));
        firewall.sweep(cpu.now);
        firewall.timer_is_set = looked_at.max(bindings) == STATES_PER_TURN || firewall.swept.is_some();
        if firewall.timer_is_set {
            // In the next turn, and not once more in this one.
            cpu.timers.set(cpu.now + Duration::from_nanos(1), Timer::Firewall);
        }
        keepalives
    });
    let Some(mut keepalives) = keepalives else { return };
    for keepalive in keepalives.drain(..) {
        send(cpu, keepalive);
    }
    if let Some(firewall) = &mut cpu.firewall {
        firewall.keepalives = keepalives;
    }
}

/// Without a free buffer the connection gets its next keepalive, or ends.
fn send(cpu: &mut Cpu, keepalive: Keepalive) {
    let Some(pkt) = keepalive.packet(&mut cpu.pool) else { return };
    cpu.count(Count::StateKeepalives);
    if l4::is_ip4(&pkt) { ip4::output::output(cpu, pkt) } else { ip6::output::output(cpu, pkt) }
}

/// Ends expendable states: another CPU has found no room for one.
pub(crate) fn reap(cpu: &mut Cpu) {
    hook::with(cpu, |firewall, cpu| firewall.states.reap(cpu.now, &mut cpu.counters));
}

#[cfg(test)]
mod tests;
