//! Where in the stack rules are asked, and where they need not be.

use ipfw::rule::Hook;
use pkt::{Flags, Pkt};

use super::{Firewall, traced};
use crate::turn::cpu::Cpu;
use crate::turn::netisr::CHUNK;
use crate::turn::next::Next;
use crate::turn::trace;

/// Hooks that have rules, one bit each. One that has none is not on any packet's way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hooks(u8);

impl Hooks {
    /// This one too.
    #[must_use]
    pub const fn with(self, hook: Hook) -> Self {
        Self(self.0 | bit(hook))
    }

    /// Whether it has rules.
    #[inline]
    #[must_use]
    pub const fn has(self, hook: Hook) -> bool {
        self.0 & bit(hook) != 0
    }

    /// Whether IP packets meet rules anywhere but at bridges.
    #[must_use]
    pub const fn has_of_ip(self) -> bool {
        self.0 & !(bit(Hook::Layer2) | bit(Hook::Frame)) != 0
    }

    /// Whether packets that are forwarded meet rules once their route is known.
    #[inline]
    #[must_use]
    pub const fn has_outward(self) -> bool {
        self.has(Hook::Forward) || self.has(Hook::Egress)
    }
}

const fn bit(hook: Hook) -> u8 {
    1 << hook as u8
}

/// Asks the rules at a hook about one packet, which begins with its network header. `None`: it goes on.
///
/// Next   [`Next::Drop`], [`Next::Answer`], [`Next::Reset`], and where else rules send packets.
#[inline(always)]
pub(crate) fn ask(cpu: &mut Cpu, pkt: &mut Pkt, hook: Hook) -> Option<Next> {
    let is_answer = hook == Hook::LocalOut && pkt.flags.has(Flags::GENERATED);
    if cpu.hooks.has(hook) || is_answer {
        return ask_there(cpu, pkt, hook);
    }
    pkt.flags.clear(Flags::ASKED);
    None
}

/// [`ask`] at a hook that has rules, or about an answer of the firewall's.
#[inline(never)]
fn ask_there(cpu: &mut Cpu, pkt: &mut Pkt, hook: Hook) -> Option<Next> {
    if cpu.hooks.has(hook) && !is_own(pkt, hook) {
        return ask_rules(cpu, pkt, hook);
    }
    if hook == Hook::LocalOut && pkt.flags.has(Flags::GENERATED) {
        return with(cpu, |firewall, cpu| firewall.answer_of_own(cpu, pkt)).flatten();
    }
    pkt.flags.clear(Flags::ASKED);
    None
}

/// [`ask`] about a packet that is to be forwarded by `pkt.outif`.
#[inline]
pub(crate) fn ask_outward(cpu: &mut Cpu, pkt: &mut Pkt) -> Option<Next> {
    ask(cpu, pkt, Hook::Forward).or_else(|| ask(cpu, pkt, Hook::Egress))
}

/// Whether a packet is ours in a way that no rule is asked about it: what the firewall makes itself, and on the way in
/// what is from us to us.
#[inline]
pub(super) fn is_own(pkt: &Pkt, hook: Hook) -> bool {
    let own = if hook == Hook::Ingress { Flags::GENERATED.with(Flags::LOCAL) } else { Flags::GENERATED };
    pkt.flags.any(own.with(Flags::ASKED))
}

fn ask_rules(cpu: &mut Cpu, pkt: &mut Pkt, hook: Hook) -> Option<Next> {
    if cpu.watched && trace::is_on(cpu) {
        return traced::ask(cpu, pkt, hook);
    }
    if cpu.firewall.as_mut().is_some_and(|firewall| firewall.passes_alone(pkt, hook, cpu.now)) {
        return None;
    }
    with(cpu, |firewall, cpu| firewall.judge_alone(cpu, pkt, hook)).flatten()
}

/// Writes down what the last rule that was asked has counted, where any thread can read it: at the end of the turn.
pub(crate) fn settle(cpu: &mut Cpu) {
    if let Some(firewall) = &mut cpu.firewall {
        firewall.counters.settle();
    }
}

/// Another chunk of so many packets comes to the hooks. `is_cached` if the flow cache may remember what they meet.
pub(crate) fn begin(cpu: &mut Cpu, packets: usize, is_cached: bool) {
    if let Some(firewall) = &mut cpu.firewall {
        let is_read = is_cached || cpu.hooks.has_outward() || cpu.watched;
        firewall.begin(packets, is_read && cpu.tables.forwarding);
    }
}

/// Asks the rules at a hook about those packets of a chunk that have a bit in `which`. Answers which of them go on; where
/// the others are sent, stands in `next` then.
pub(crate) fn ask_all(
    cpu: &mut Cpu,
    hook: Hook,
    pkts: &mut [Pkt],
    next: &mut [Next; CHUNK],
    which: u64,
) -> u64 {
    if which == 0 || !cpu.hooks.has(hook) {
        return which;
    }
    if cpu.watched && trace::is_on(cpu) {
        return traced::ask_all(cpu, hook, pkts, next, which);
    }
    with(cpu, |firewall, cpu| firewall.judge_all(cpu, hook, pkts, next, which)).unwrap_or(which)
}

/// The firewall is put aside while it works, so that it may read what else its CPU owns.
pub(super) fn with<T>(cpu: &mut Cpu, work: impl FnOnce(&mut Firewall, &mut Cpu) -> T) -> Option<T> {
    let mut firewall = cpu.firewall.take()?;
    let done = work(&mut firewall, cpu);
    firewall.part(cpu);
    firewall.set_timer(cpu);
    cpu.firewall = Some(firewall);
    Some(done)
}
