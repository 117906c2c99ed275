//! Packets that another CPU must be asked about: at the rule where they are, and on from there.

use ipfw::rule::Hook;
use pkt::Pkt;

use super::ruleset::RuleId;
use super::{hook, onward};
use crate::cpu::{Cpu, CpuId};
use crate::msg::Msg;
use crate::netisr::dispatch;

/// A rule that another CPU can obey.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Away {
    /// The CPU.
    pub(super) owner: CpuId,
    /// The hook at which the packet was asked about …
    pub(super) hook: Hook,
    /// … and the rule.
    pub(super) rule: RuleId,
}

/// A packet on its way to a rule that this CPU can obey.
pub struct Message {
    pkt: Pkt,
    hook: Hook,
    rule: RuleId,
}

/// Sends a packet to the CPU that can do what a rule says. Messages are not dropped, and come in their order.
pub(crate) fn send(cpu: &mut Cpu, pkt: Pkt, away: Away) {
    let Away { owner, hook, rule } = away;
    cpu.peers.send(owner, Msg::Away(Message { pkt, hook, rule }));
}

/// Asks about a packet that came from another CPU, from the action of the rule on that it matched there: it is counted,
/// and perhaps logged, already.
pub(crate) fn message(cpu: &mut Cpu, message: Message) {
    let Message { mut pkt, hook, rule } = message;
    let next = hook::with(cpu, |firewall, cpu| firewall.ask_at(cpu, &mut pkt, hook, rule, true)).flatten();
    match next {
        Some(next) => dispatch(cpu, pkt, next),
        None => onward::go(cpu, pkt, hook, None),
    }
}
