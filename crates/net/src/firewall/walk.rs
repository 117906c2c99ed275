//! A packet's walk over the rules.

mod redirect;

use core::net::{IpAddr, Ipv4Addr};

use ipfw::rule::{Action, Arg, Hook, NatTarget, Number, TableArg, Tag, Unreach};
use pkt::Pkt;
use wire::{icmp4, icmp6};

use super::cached_verdict::note_translation;
use super::flow_match::{self, FlowMatch};
use super::handoff::{HandoffPoint, HandoffTask};
use super::log::Entry;
use super::nat::instance::{Here, Verdict as Translated};
use super::nat::table::BindingDirection;
use super::pipe::To;
use super::pipe_io::Shape;
use super::pkt_info::{Part, PktInfo};
use super::ruleset::{Compiled, FlowId, Ruleset, Seen};
use super::{Firewall, layer2, rewrite};
use crate::base::drop::DropReason;
use crate::fib;
use crate::ip::icmp::{Problem, RejectCode};
use crate::turn::cpu::{Cpu, CpuId};
use crate::turn::next::Next;
use crate::turn::rss;

pub(super) use redirect::Arrival;
pub use redirect::PairMessage;

/// Rules that match one packet at one hook at the most: a `call` that leads back to itself ends here.
const MATCHES_MAX: usize = 4096;
/// `call`s that a packet has not returned from yet, at the most.
const CALLS_MAX: usize = 16;

/// The verdict of the rules on a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It goes on.
    Pass,
    /// It goes on to this next hop.
    Via(IpAddr),
    /// It goes elsewhere, or dies.
    Go(Next),
}

/// Where a walk is.
pub(super) struct Walk {
    info: PktInfo,
    /// The position from which rules are asked.
    at: usize,
    /// The position from which rules that look for a state have not been reached yet.
    unprobed: usize,
    /// The packet's flow data, once a rule has looked for a state.
    flow_match: Option<FlowMatch>,
    /// Among the states of this name it has none.
    missed: Option<FlowId>,
    /// Positions behind the `call`s that have not returned.
    calls: [u32; CALLS_MAX],
    depth: usize,
    /// The first matching rule, if it is known already.
    found: Option<Option<usize>>,
    seen: Seen,
    /// Whether it is known if the packet's flow is redirected …
    has_met: bool,
    /// … and whether one of its ends has been exchanged.
    is_redirected: bool,
    /// Whether the packet is one of the other family now.
    has_crossed: bool,
}

/// The effect of one rule on the walk.
enum Step {
    /// It goes on at this position.
    To(usize),
    /// It is over.
    Done(Verdict),
}

impl Walk {
    /// From the first rule.
    pub(super) fn new(info: PktInfo, flow_match: Option<FlowMatch>) -> Self {
        let seen = Seen::default();
        let calls = [0; CALLS_MAX];
        let (has_met, is_redirected) = (false, false);
        Self {
            info,
            at: 0,
            unprobed: 0,
            flow_match,
            missed: None,
            calls,
            depth: 0,
            found: None,
            seen,
            has_met,
            is_redirected,
            has_crossed: false,
        }
    }

    /// Continues with the known first match.
    pub(super) fn having_found(self, first: Option<usize>, seen: Seen) -> Self {
        Self { found: Some(first), seen, ..self }
    }

    /// From this position, as one that has come so far before.
    pub(super) fn from(self, at: usize) -> Self {
        Self { at, unprobed: at, ..self }
    }
}

impl Firewall {
    /// Walks the rules. The last one answers for all packets that come in or leave; at the hooks between, which rules
    /// must name, a packet that meets none goes on.
    pub(super) fn walk(&mut self, cpu: &mut Cpu, pkt: &mut Pkt, mut walk: Walk) -> Verdict {
        for _ in 0..MATCHES_MAX {
            let step = match self.state_on_the_way(cpu, pkt, &mut walk) {
                Ok(step) => step,
                Err(Some(at)) => self.apply(cpu, pkt, &mut walk, at),
                Err(None) => Step::Done(Verdict::Pass),
            };
            match step {
                Step::To(at) => walk.at = at,
                Step::Done(verdict) => {
                    self.chunk.trace().holds &= walk.seen.is_pure;
                    return walk.end(verdict);
                }
            }
        }
        Verdict::Go(Next::Drop(DropReason::FirewallLoop))
    }

    /// Walks on from the action of a rule that has matched on another CPU, which could not obey it.
    pub(super) fn walk_on(&mut self, cpu: &mut Cpu, pkt: &mut Pkt, mut walk: Walk, at: usize) -> Verdict {
        match self.translate(cpu, pkt, &mut walk, at) {
            Step::To(at) => self.walk(cpu, pkt, walk.from(at)),
            Step::Done(verdict) => walk.end(verdict),
        }
    }

    /// Goes to the first rule that the packet matches, and looks for its state at each rule before it, and at that rule
    /// itself, that says to. What the state's rule says, if there is one; else where the packet matches, if anywhere.
    fn state_on_the_way(
        &mut self,
        cpu: &mut Cpu,
        pkt: &mut Pkt,
        walk: &mut Walk,
    ) -> Result<Step, Option<usize>> {
        let mut matches = walk.found.take();
        loop {
            let from = walk.at.max(walk.unprobed);
            let probe =
                if walk.has_met { self.rules.named_probe_from(from) } else { self.rules.probe_from(from) };
            if probe != Some(walk.at) && matches.is_none() {
                matches = Some(self.rules.first(&walk.info, pkt, &cpu.tables, walk.at, &mut walk.seen));
            }
            let Some(probe) = probe.filter(|probe| matches.flatten().is_none_or(|at| *probe <= at)) else {
                return Err(matches.unwrap_or_else(|| {
                    self.rules.first(&walk.info, pkt, &cpu.tables, walk.at, &mut walk.seen)
                }));
            };
            walk.unprobed = probe + 1;
            if let Some(step) = self.obey_state(cpu, pkt, walk, probe) {
                return Ok(step);
            }
            if probe == walk.at && matches.is_none() && self.rules.only_lists(probe, &walk.info) {
                self.count(cpu, pkt, probe);
                walk.at = probe + 1;
            }
        }
    }

    /// Does what the rule says that made the packet's state, if there is one among those that the rule at `probe` looks
    /// for.
    fn obey_state(&mut self, cpu: &mut Cpu, pkt: &mut Pkt, walk: &mut Walk, probe: usize) -> Option<Step> {
        if !walk.info.hook.is_layer2()
            && let Some(step) = self.meet(cpu, pkt, walk)
        {
            return Some(step);
        }
        let name = self.rules.rule(probe)?.flow;
        if name == FlowId::REDIRECT || walk.missed.is_some_and(|missed| name.is_among(missed)) {
            return None;
        }
        let flow_match = walk.flow_match.get_or_insert_with(|| FlowMatch::of(&walk.info, pkt, &self.states));
        let hit = flow_match.state(&mut self.states, name, self.chunk.judge_of(), cpu);
        // One state among several may be another tomorrow, and where there was none there may be one.
        walk.seen.is_pure &= hit.is_some() && name != FlowId::ANY;
        let Some(hit) = hit else {
            walk.missed = Some(name);
            return None;
        };
        let Some(at) = self.rules.by_id(hit.rule) else {
            // Its rule is gone, and has taken its states along: this one had not been reached yet.
            self.states.remove(hit.id, cpu.now);
            walk.seen.is_pure = false;
            return None;
        };
        if hit.is_denied {
            return Some(Step::die(DropReason::FirewallWindow));
        }
        self.chunk.trace().hit(self.states.mark(hit.id), hit.direction, false);
        Some(self.obey(cpu, pkt, walk, at))
    }

    /// Does what the rule at a position says, if it has luck, and remembers what it wants remembered.
    fn apply(&mut self, cpu: &mut Cpu, pkt: &mut Pkt, walk: &mut Walk, at: usize) -> Step {
        let Self { rules, states, chunk, .. } = self;
        let Some(rule) = rules.rule(at) else { return Step::die(DropReason::FirewallDeny) };
        chunk.trace().holds &= rule.prob.is_none() && rule.keep.is_none();
        if rule.prob.is_some_and(|prob| !has_luck(cpu, prob)) {
            return Step::To(at + 1);
        }
        if matches!(rule.action, Action::Redirect { .. }) && !walk.info.hook.is_layer2() {
            return self.redirect(cpu, pkt, walk, at);
        }
        if let Some(keep) = &rule.keep {
            let flow_match = walk.flow_match.get_or_insert_with(|| FlowMatch::of(&walk.info, pkt, states));
            if let Err(reason) = flow_match.keep(states, rule, keep, &walk.seen, cpu) {
                return Step::die(reason);
            }
            walk.missed = None;
            if keep.defer {
                self.count(cpu, pkt, at);
                return Step::To(at + 1);
            }
        }
        self.obey(cpu, pkt, walk, at)
    }

    /// Does what the rule at a position says.
    fn obey(&mut self, cpu: &mut Cpu, pkt: &mut Pkt, walk: &mut Walk, at: usize) -> Step {
        self.note(cpu, pkt, walk, at);
        let Some(rule) = self.rules.rule(at) else { return Step::To(at + 1) };
        match rule.action {
            ref action if walk.info.hook.is_layer2() && !layer2::obeys(action) => Step::To(at + 1),
            Action::Nat(_) | Action::Nptv6(_) | Action::Nat64(_) => self.translate(cpu, pkt, walk, at),
            _ => act(&self.rules, rule, pkt, walk, at),
        }
    }

    /// Counts a packet that a rule matched, marks it, and writes it down, as the rule says.
    fn note(&mut self, cpu: &Cpu, pkt: &mut Pkt, walk: &mut Walk, at: usize) {
        self.count(cpu, pkt, at);
        let Self { rules, log, chunk, .. } = self;
        let Some(rule) = rules.rule(at) else { return };
        chunk.trace().holds &= is_repeatable(rule);
        if rule.tag.is_some() {
            mark(pkt, rule.tag, &walk.seen);
            walk.info.tag = pkt.tag;
        }
        if let Some(amount) = rule.log.filter(|_| self.is_verbose) {
            let PktInfo { hook, recv, xmit, .. } = walk.info;
            let (number, done) = (rule.number, word(&rule.action));
            log.write(cpu.now, pkt, &Entry { rule: rule.id, number, log: amount, done, hook, recv, xmit });
        }
    }

    /// Has a packet translated. What no instance wants passes like what one has translated, as in FreeBSD.
    fn translate(&mut self, cpu: &mut Cpu, pkt: &mut Pkt, walk: &mut Walk, at: usize) -> Step {
        let Self { rules, nat, nat64, prefixes, chunk, .. } = self;
        let Some(rule) = rules.rule(at) else { return Step::To(at + 1) };
        let hook = walk.info.hook;
        let direction = if matches!(hook, Hook::Ingress | Hook::LocalIn) {
            BindingDirection::In
        } else {
            BindingDirection::Out
        };
        let Cpu { id, placement, now, secret, counters, tables, .. } = cpu;
        let mut here = Here { now: *now, cpu: *id, placement: *placement, secret, counters };
        let crosses = matches!(rule.action, Action::Nat64(_));
        let translated = match &rule.action {
            Action::Nat(NatTarget::Global) => nat.translate_by_any(&mut here, pkt, direction),
            Action::Nat(NatTarget::Instance(number)) => value(*number, &walk.seen)
                .map_or(Translated::Untouched, |number| nat.translate(number, &mut here, pkt, direction)),
            Action::Nptv6(name) => {
                prefixes.get(name).map_or(Translated::Untouched, |prefixes| prefixes.translate(pkt))
            }
            // Behind its route a packet cannot become one of the other family.
            Action::Nat64(name) if hook == Hook::Ingress => nat64.translate(name, &mut here, tables, pkt),
            _ => Translated::Untouched,
        };
        walk.has_crossed |= crosses && translated == Translated::Translated;
        note_translation(chunk.trace(), nat, rule, &walk.seen, (direction, translated), walk.info.is_ip4);
        let rule = rule.id;
        if translated == Translated::Translated
            && let Some(owner) = self.elsewhere_now(cpu, pkt, hook)
        {
            return Step::go(Next::Away(HandoffPoint { owner, hook, rule, task: HandoffTask::GoOn }));
        }
        match translated {
            Translated::Untouched if crosses => Step::To(at + 1),
            Translated::Translated | Translated::Untouched if self.one_pass => Step::Done(Verdict::Pass),
            Translated::Translated => walk.read_again(pkt).unwrap_or(Step::To(at + 1)),
            Translated::Untouched => Step::To(at + 1),
            Translated::Owner(owner) => {
                Step::go(Next::Away(HandoffPoint { owner, hook, rule, task: HandoffTask::Obey }))
            }
            Translated::Reassemble => Step::go(Next::Reassemble),
            Translated::Drop(reason) => Step::die(reason),
            Translated::Refuse(reason) => {
                let refusal = RejectCode { reason, ..refusal(Unreach::Host) };
                Step::go(Next::Answer(Problem::Refused(refusal)))
            }
        }
    }

    /// The other CPU that a packet's flow belongs to now that it has other ends, if rules are still to look for its state.
    fn elsewhere_now(&self, cpu: &Cpu, pkt: &Pkt, hook: Hook) -> Option<CpuId> {
        let is_over = self.one_pass && hook == Hook::Egress;
        if cpu.placement.cpus() == 1 || is_over || self.rules.probe_from(0).is_none() {
            return None;
        }
        let ip = pkt.window(0);
        let hash = if ip[0] >> 4 == 4 { rss::hash4(ip) } else { rss::hash6(ip) };
        let info = PktInfo::read(pkt, hook, pkt.rcvif, 0).ok()?;
        let quoted = if info.is_icmp() { flow_match::owner_of_quoted(cpu, &info, pkt) } else { None };
        Some(quoted.unwrap_or_else(|| cpu.placement.owner(hash))).filter(|owner| *owner != cpu.id)
    }

    fn count(&mut self, cpu: &Cpu, pkt: &Pkt, at: usize) {
        let Self { rules, counters, chunk, .. } = self;
        if let Some(rule) = rules.rule(at) {
            chunk.trace().meet(rule.id);
            counters.count_later(rule.id, pkt.len() as u64, cpu.now);
        }
    }
}

/// Whether what the rule does to one packet of a flow, it does to all, with nothing else to show for it.
const fn is_repeatable(rule: &Compiled) -> bool {
    let is_simple = matches!(
        rule.action,
        Action::Allow
            | Action::Count
            | Action::CheckState(_)
            | Action::SkipTo(_)
            | Action::Call(_)
            | Action::Return
            | Action::Nat(_)
            | Action::Nptv6(_)
            | Action::SetFib(_)
    );
    is_simple && rule.log.is_none() && rule.tag.is_none()
}

/// The rule's action, as far as it is about the walk itself or ends it.
fn act(rules: &Ruleset, rule: &Compiled, pkt: &mut Pkt, walk: &mut Walk, at: usize) -> Step {
    let next = Step::To(at + 1);
    match &rule.action {
        Action::Allow => Step::Done(Verdict::Pass),
        Action::Deny => Step::die(DropReason::FirewallDeny),
        // A bridge has no address to answer from.
        Action::Unreach(_) | Action::Reset if walk.info.hook.is_layer2() => {
            Step::die(DropReason::FirewallReject)
        }
        Action::Unreach(unreach) => Step::go(Next::Answer(Problem::Refused(refusal(*unreach)))),
        Action::Reset => Step::go(Next::Reset),
        Action::Count | Action::CheckState(_) => next,
        Action::SkipTo(to) => Step::To(target(rules, rule, *to, walk).max(at + 1)),
        Action::Call(to) => walk.call(at + 1, target(rules, rule, *to, walk)),
        Action::Return => walk.come_back().map_or(next, Step::To),
        Action::Forward { to, .. } => via(*to, walk).map_or(next, |to| Step::Done(Verdict::Via(to))),
        Action::TcpSetMss(mss) => {
            rewrite::lower_mss(pkt, *mss);
            next
        }
        Action::SetDscp(dscp) => {
            if let Some(dscp) = value(*dscp, &walk.seen) {
                rewrite::set_dscp(pkt, dscp & 0x3f);
            }
            next
        }
        Action::SetFib(fib) => {
            pkt.fib = value(*fib, &walk.seen).map_or(pkt.fib, fib::mark);
            next
        }
        // Of IPv6, routers put nothing together (RFC 8200 §4.5).
        Action::Reass if walk.info.part != Part::Whole && walk.info.is_ip4 => Step::go(Next::Reassemble),
        Action::Reass => next,
        Action::Pipe(number) => shape(To::Pipe, *number, rule, walk),
        Action::Queue(number) => shape(To::Queue, *number, rule, walk),
        _ => Step::die(DropReason::FirewallDeny),
    }
}

/// Through a pipe or queue. One that a table was to name and did not is as good as gone.
fn shape(to: fn(u16) -> To, number: Arg<u16>, rule: &Compiled, walk: &Walk) -> Step {
    let hook = walk.info.hook;
    value(number, &walk.seen).map_or(Step::die(DropReason::PipeGone), |number| {
        Step::go(Next::Shape(Shape { to: to(number), hook, rule: rule.id }))
    })
}

impl Step {
    const fn go(next: Next) -> Self {
        Self::Done(Verdict::Go(next))
    }

    const fn die(reason: DropReason) -> Self {
        Self::go(Next::Drop(reason))
    }
}

impl Walk {
    /// Ends the walk: a packet that is of the other family now starts over.
    fn end(&self, verdict: Verdict) -> Verdict {
        if self.has_crossed && verdict == Verdict::Pass { Verdict::Go(Next::Onward) } else { verdict }
    }

    /// Reads a packet that has been changed. What ends the walk, if that cannot be done.
    fn read_again(&mut self, pkt: &Pkt) -> Option<Step> {
        let PktInfo { hook, recv, xmit, tag, .. } = self.info;
        (self.flow_match, self.missed) = (None, None);
        match PktInfo::read(pkt, hook, recv, xmit) {
            Ok(info) => {
                self.info = PktInfo { tag, ..info };
                None
            }
            Err(_) => Some(Step::die(DropReason::FirewallBogus)),
        }
    }

    /// Goes on at `to`, to come back to `back`. Where too many calls have not returned, the packet dies.
    fn call(&mut self, back: usize, to: usize) -> Step {
        let Some(place) = self.calls.get_mut(self.depth) else { return Step::die(DropReason::FirewallLoop) };
        *place = u32::try_from(back).unwrap_or(u32::MAX);
        self.depth += 1;
        Step::To(to)
    }

    /// Where the last `call` wanted to be come back to.
    fn come_back(&mut self) -> Option<usize> {
        self.depth = self.depth.checked_sub(1)?;
        self.calls.get(self.depth).map(|back| *back as usize)
    }
}

/// Whether a chance of `prob` in 2³² comes true.
fn has_luck(cpu: &mut Cpu, prob: u32) -> bool {
    cpu.secret.below(1 << 32) < u64::from(prob)
}

/// Gives the packet its mark, or takes it.
fn mark(pkt: &mut Pkt, tag: Option<Tag>, seen: &Seen) {
    match tag {
        Some(Tag::Set(arg)) => pkt.tag = value(arg, seen).unwrap_or(pkt.tag),
        Some(Tag::Unset(arg)) if value(arg, seen) == Some(pkt.tag) => pkt.tag = 0,
        _ => {}
    }
}

/// A number that the rule says, or the table that matched.
pub(super) fn value<T: Copy + TryFrom<u32>>(arg: Arg<T>, seen: &Seen) -> Option<T> {
    match (arg, seen.arg) {
        (Arg::Value(value), _) => Some(value),
        (Arg::Table, Some(TableArg::Number(number))) => T::try_from(number).ok(),
        (Arg::Table, _) => None,
    }
}

/// The position that a `skipto` or `call` leads to. Where a table was to say it and says no number, the last rule.
fn target(rules: &Ruleset, rule: &Compiled, to: Arg<Number>, walk: &Walk) -> usize {
    let of_table = || rules.position_of_number(value(to, &walk.seen).unwrap_or(ipfw::rule::RULE_LAST));
    rule.target.unwrap_or_else(of_table)
}

/// The next hop that the rule says, or the table that matched: an address, or a number that is one of IPv4.
fn via(to: Arg<IpAddr>, walk: &Walk) -> Option<IpAddr> {
    let addr = match (to, walk.seen.arg) {
        (Arg::Value(addr), _) | (Arg::Table, Some(TableArg::Addr(addr))) => addr,
        (Arg::Table, Some(TableArg::Number(bits))) => Ipv4Addr::from_bits(bits).into(),
        (Arg::Table, None) => return None,
    };
    // A packet of the other family has no such next hop.
    (addr.is_ipv4() == walk.info.is_ip4).then_some(addr)
}

/// The codes that senders of both families are told.
//= https://www.rfc-editor.org/rfc/rfc7915#section-4.2
//= https://www.rfc-editor.org/rfc/rfc7915#section-5.2
fn refusal(unreach: Unreach) -> RejectCode {
    const HOST: u8 = icmp4::unreachable::HOST;
    let (code4, code6, mtu) = match unreach {
        Unreach::Host => (HOST, icmp6::unreachable::NO_ROUTE, 0),
        Unreach::Code { code, mtu } => {
            let code6 = match code {
                3 => icmp6::unreachable::PORT,
                9 | 10 | 13 | 15 => icmp6::unreachable::ADMIN_PROHIBITED,
                _ => icmp6::unreachable::NO_ROUTE,
            };
            (code, code6, mtu.unwrap_or(0))
        }
        Unreach::Code6(code6) => {
            let code4 = match code6 {
                1 => icmp4::unreachable::HOST_PROHIBITED,
                4 => icmp4::unreachable::PORT,
                _ => HOST,
            };
            (code4, code6, 0)
        }
    };
    RejectCode { code4, code6, mtu, reason: DropReason::FirewallReject }
}

/// Returns the log's word for an action.
const fn word(action: &Action) -> &'static str {
    match action {
        Action::Allow => "Accept",
        Action::Deny => "Deny",
        Action::Unreach(Unreach::Host) => "Reject",
        Action::Unreach(_) => "Unreach",
        Action::Reset => "Reset",
        Action::Count => "Count",
        Action::CheckState(_) => "CheckState",
        Action::SkipTo(_) => "SkipTo",
        Action::Call(_) => "Call",
        Action::Return => "Return",
        Action::Forward { .. } => "Forward",
        Action::Redirect { .. } => "Redirect",
        Action::Nat(_) => "Nat",
        Action::Nptv6(_) => "Nptv6",
        Action::Nat64(_) => "Nat64",
        Action::Reass => "Reass",
        Action::TcpSetMss(_) => "SetMSS",
        Action::SetDscp(_) => "SetDSCP",
        Action::SetFib(_) => "SetFib",
        Action::Pipe(_) => "Pipe",
        Action::Queue(_) => "Queue",
    }
}

#[cfg(test)]
mod tests;
