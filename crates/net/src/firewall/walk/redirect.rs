//! `rdr`: packets that go to another destination, whose answers come back as if from the first one.
//!
//! ```text
//!   client → first     CPU of that flow: the master. The destination is exchanged,
//!                      and the walk goes on behind the rule on the
//!   client → second    CPU of this flow: the slave, which the first packet to arrive makes.
//!   second → client    the slave. The source is exchanged, and the packet passes on the
//!   first  → client    CPU of the master.
//! ```
//!
//! So each of the two sees all packets of both directions. What is sent to the other CPU names the master by its number
//! and the flow; neither holds on to anything of another CPU. Where the slave cannot be, or the place is taken, the master is
//! told, and ends.

use ipfw::rule::{Action, Hook};
use pkt::Pkt;
use wire::Protocol;

use super::{Step, Verdict, Walk};
use crate::base::count::Count;
use crate::base::drop::DropReason;
use crate::firewall::Firewall;
use crate::firewall::flow_match::{self, FlowMatch};
use crate::firewall::handoff::{HandoffPoint, HandoffTask};
use crate::firewall::nat::headers::{self, Shape, Side};
use crate::firewall::nat::rewrite::translate;
use crate::firewall::pkt_info::{Part, PktInfo};
use crate::firewall::ruleset::{FlowId, RuleId};
use crate::firewall::state::{Direction, End, Flow, Kind, New, Pair, Parted, StateId};
use crate::turn::cpu::{Cpu, CpuId};
use crate::turn::msg::Msg;
use crate::turn::next::Next;

/// The message with a packet of a redirected flow to where it goes on.
#[derive(Clone, Copy, Debug)]
pub(in crate::firewall) struct Arrival {
    /// The CPU that exchanged one of its ends.
    pub(in crate::firewall) from: CpuId,
    /// The number of the master.
    pub(in crate::firewall) master: StateId,
    /// Where it was sent, if it goes to where it is redirected; `None` for an answer.
    pub(in crate::firewall) was: Option<End>,
}

/// A message between the CPUs of a master and of its slave.
#[derive(Clone, Copy, Debug)]
pub enum PairMessage {
    /// To the slave's: the master has gone.
    Parted {
        /// The CPU that had it.
        from: CpuId,
        /// Which it was.
        parted: Parted,
    },
    /// To the master's: there is no slave, and cannot be one now.
    Refused {
        /// The refused flow.
        slave: Flow,
        /// The number of the master.
        master: StateId,
    },
}

impl Firewall {
    /// Where rules look for a state for the first time: does what is to be done with a packet of a redirected flow.
    #[inline]
    pub(super) fn meet(&mut self, cpu: &mut Cpu, pkt: &mut Pkt, walk: &mut Walk) -> Option<Step> {
        let has_met = core::mem::replace(&mut walk.has_met, true);
        if has_met || !self.states.has_pairs() { None } else { self.meet_pair(cpu, pkt, walk) }
    }

    /// Routes a packet made by the firewall itself: a reset in the name of a redirected server must look
    /// as if it came from the original destination. `None`: it goes on.
    #[cold]
    pub(in crate::firewall) fn answer_of_own(&mut self, cpu: &mut Cpu, pkt: &mut Pkt) -> Option<Next> {
        let info = PktInfo::read(pkt, Hook::LocalOut, pkt.rcvif, 0).ok()?;
        let met = self.meet(cpu, pkt, &mut Walk::new(info, None));
        self.counters.settle();
        match met? {
            Step::Done(verdict) => self.next(verdict, Hook::LocalOut),
            Step::To(_) => None,
        }
    }

    #[inline(never)]
    fn meet_pair(&mut self, cpu: &mut Cpu, pkt: &mut Pkt, walk: &mut Walk) -> Option<Step> {
        let flow_match = *walk.flow_match.get_or_insert_with(|| FlowMatch::of(&walk.info, pkt, &self.states));
        let (id, direction) = flow_match.redirected(&self.states, cpu.now)?;
        if walk.info.part == Part::First && !walk.info.is_ip4 {
            return Some(Step::die(DropReason::FirewallRedirectFragment));
        }
        let (kind, hook) = (self.states.get(id)?.kind, walk.info.hook);
        match (kind, direction) {
            (Kind::RedirectMaster, Direction::Forward) if hook == Hook::Ingress => {
                self.turn(cpu, pkt, walk, &flow_match, id, Side::Dst)
            }
            (Kind::RedirectSlave, Direction::Reverse) if hook != Hook::LocalIn => {
                self.turn(cpu, pkt, walk, &flow_match, id, Side::Src)
            }
            // An answer that was let pass when it came in.
            (Kind::RedirectMaster, Direction::Reverse) if hook != Hook::Ingress => {
                Some(Step::Done(Verdict::Pass))
            }
            // Sent where the other flow is redirected, from the same port: answers could not be told apart.
            (Kind::RedirectSlave, Direction::Forward)
                if hook == Hook::Ingress && !self.states.is_spent(id, cpu.now) =>
            {
                cpu.count(Count::RedirectConflicts);
                Some(Step::die(DropReason::FirewallRedirect))
            }
            _ => None,
        }
    }

    /// Exchanges an end of a packet whose flow has this state, and goes on where it belongs then.
    fn turn(
        &mut self,
        cpu: &mut Cpu,
        pkt: &mut Pkt,
        walk: &mut Walk,
        flow_match: &FlowMatch,
        id: StateId,
        side: Side,
    ) -> Option<Step> {
        let (state, pair) = (self.states.get(id)?, self.states.pair(id)?);
        let (rule, was) = (state.rule, state.ends()[1]);
        let Some(at) = self.rules.by_id(rule) else {
            if side == Side::Dst {
                self.states.remove(id, cpu.now);
            }
            return None;
        };
        if self.take(cpu, flow_match, id)? {
            return Some(Step::die(DropReason::FirewallWindow));
        }
        if side == Side::Src && self.is_denied_behind(cpu, flow_match) {
            return Some(Step::die(DropReason::FirewallWindow));
        }
        self.note(cpu, pkt, walk, at);
        let was = (side == Side::Dst).then_some(was);
        let arrival = Arrival { from: cpu.id, master: pair.master, was };
        Some(self.exchange(cpu, pkt, walk, rule, (side, pair.end), (pair.cpu, arrival)))
    }

    /// Takes a packet into account of its state. Whether it is denied; `None` if it opens another connection, and the
    /// state of the last is gone.
    fn take(&mut self, cpu: &mut Cpu, flow_match: &FlowMatch, id: StateId) -> Option<bool> {
        // An error changes nothing.
        let Some((flow, hash)) = flow_match.flow() else { return Some(false) };
        let hash = hash.likely(id);
        let Cpu { now, counters, .. } = cpu;
        let hit = self.states.hit(&flow, hash, FlowId::REDIRECT, flow_match.seen(), *now, counters)?;
        Some(hit.is_denied)
    }

    /// Takes an answer into account of the state that a rule behind the redirection has made.
    fn is_denied_behind(&mut self, cpu: &mut Cpu, flow_match: &FlowMatch) -> bool {
        flow_match.state(&mut self.states, FlowId::ANY, None, cpu).is_some_and(|hit| hit.is_denied)
    }

    /// Obeys a rule that redirects. What it does not make sense for meets the next rule.
    pub(super) fn redirect(&mut self, cpu: &mut Cpu, pkt: &mut Pkt, walk: &mut Walk, at: usize) -> Step {
        let next = Step::To(at + 1);
        let Some(rule) = self.rules.rule(at) else { return next };
        let Action::Redirect { to, port } = rule.action else { return next };
        let id = rule.id;
        if walk.is_redirected || to.is_ipv4() != walk.info.is_ip4 || !may_be(&walk.info) {
            return next;
        }
        // A flow that came in fragments was reassembled, unless no redirection existed then.
        if walk.info.part == Part::First {
            return Step::die(DropReason::FirewallRedirectFragment);
        }
        let flow_match = *walk.flow_match.get_or_insert_with(|| FlowMatch::of(&walk.info, pkt, &self.states));
        let Some((flow, hash)) = flow_match.flow() else { return next };
        let [client, was] = flow.ends();
        let end = End { addr: bits(to), port: port.unwrap_or(was.port) };
        if end == was {
            return next;
        }
        if !self.is_free(cpu, &flow, hash) {
            return Step::die(DropReason::FirewallRedirect);
        }
        let owner = flow_match::owner(cpu, &Flow::new(walk.info.is_ip4, walk.info.proto, client, end));
        let pair = Some(Pair { end, cpu: owner, master: StateId::default() });
        let new = New { rule: id, flow: FlowId::REDIRECT, kind: Kind::RedirectMaster, limit: None, pair };
        let made = self.states.install(&flow, hash, new, flow_match.seen(), cpu.now, &mut cpu.counters);
        let master = match made {
            Ok(master) => master,
            Err(refused) => return Step::die(flow_match::reason(cpu, refused)),
        };
        self.note(cpu, pkt, walk, at);
        let arrival = Arrival { from: cpu.id, master, was: Some(was) };
        self.exchange(cpu, pkt, walk, id, (Side::Dst, end), (owner, arrival))
    }

    /// Exchanges an end of a packet, and goes on: here, or on the CPU that its flow now belongs to.
    fn exchange(
        &mut self,
        cpu: &mut Cpu,
        pkt: &mut Pkt,
        walk: &mut Walk,
        rule: RuleId,
        (side, end): (Side, End),
        (owner, arrival): (CpuId, Arrival),
    ) -> Step {
        let Some(shape) = Shape::read(pkt.head()) else { return Step::die(DropReason::FirewallBogus) };
        translate(pkt, &shape, side, headers::End { addr: end.addr, port: end.port });
        cpu.count(Count::Redirected);
        if owner == cpu.id {
            return walk.read_again(pkt).unwrap_or_else(|| self.arrive(cpu, pkt, walk, rule, arrival));
        }
        cpu.count(Count::RedirectSplit);
        let Arrival { master, was, .. } = arrival;
        let task = if was.is_some() { HandoffTask::Redirected(master) } else { HandoffTask::Answer(master) };
        Step::go(Next::Away(HandoffPoint { owner, hook: walk.info.hook, rule, task }))
    }

    /// Goes on with a packet that another CPU has exchanged an end of.
    pub(in crate::firewall) fn ask_redirected(
        &mut self,
        cpu: &mut Cpu,
        pkt: &mut Pkt,
        hook: Hook,
        rule: RuleId,
        arrival: Arrival,
    ) -> Option<Next> {
        let xmit = if matches!(hook, Hook::Forward | Hook::Egress) { pkt.outif } else { 0 };
        let Ok(info) = PktInfo::read(pkt, hook, pkt.rcvif, xmit) else {
            return Some(Next::Drop(DropReason::FirewallBogus));
        };
        let mut walk = Walk::new(PktInfo { tag: pkt.tag, ..info }, None);
        let verdict = match self.arrive(cpu, pkt, &mut walk, rule, arrival) {
            Step::To(at) => self.walk(cpu, pkt, walk.from(at)),
            Step::Done(verdict) => verdict,
        };
        self.counters.settle();
        self.next(verdict, hook)
    }

    /// A packet is where it belongs under its new ends. If it goes to where it was redirected, the walk goes on behind the
    /// rule; an answer passes.
    fn arrive(&mut self, cpu: &mut Cpu, pkt: &Pkt, walk: &mut Walk, rule: RuleId, arrival: Arrival) -> Step {
        (walk.has_met, walk.is_redirected) = (true, true);
        let Some(at) = self.rules.by_id(rule) else { return Step::die(DropReason::FirewallRedirect) };
        let flow_match = FlowMatch::of(&walk.info, pkt, &self.states);
        walk.flow_match = Some(flow_match);
        let found = flow_match.redirected(&self.states, cpu.now).filter(|(id, _)| self.is_of(*id, &arrival));
        let taken = match found.and_then(|(id, _)| self.take(cpu, &flow_match, id)) {
            Some(is_denied) => Ok(is_denied),
            None => self.follow(cpu, &flow_match, rule, &arrival),
        };
        match (taken, arrival.was) {
            (Ok(true), _) => Step::die(DropReason::FirewallWindow),
            (Ok(false), Some(_)) => Step::To(at + 1),
            (Ok(false), None) => Step::Done(Verdict::Pass),
            (Err(reason), _) => Step::die(reason),
        }
    }

    /// Whether a state is the one that an arriving packet is of: another flow's may bear the same name.
    fn is_of(&self, id: StateId, arrival: &Arrival) -> bool {
        let kind = self.states.get(id).map(|state| state.kind);
        let is_pair = |pair: Pair| pair.cpu == arrival.from && pair.master == arrival.master;
        match arrival.was {
            Some(_) => kind == Some(Kind::RedirectSlave) && self.states.pair(id).is_some_and(is_pair),
            None => kind == Some(Kind::RedirectMaster) && id == arrival.master,
        }
    }

    /// Makes the slave that an arriving packet is of, or tells its master that there is none.
    fn follow(
        &mut self,
        cpu: &mut Cpu,
        flow_match: &FlowMatch,
        rule: RuleId,
        arrival: &Arrival,
    ) -> Result<bool, DropReason> {
        let Arrival { from, master, was } = *arrival;
        let (Some((flow, hash)), Some(end)) = (flow_match.flow(), was) else {
            return Err(DropReason::FirewallRedirect);
        };
        let is_free = self.is_free(cpu, &flow, hash);
        let pair = Some(Pair { end, cpu: from, master });
        let new = New { rule, flow: FlowId::REDIRECT, kind: Kind::RedirectSlave, limit: None, pair };
        let made = if is_free && !self.states.is_taken(&flow, hash, cpu.now) {
            let made = self.states.install(&flow, hash, new, flow_match.seen(), cpu.now, &mut cpu.counters);
            made.map_err(|refused| flow_match::reason(cpu, refused))
        } else {
            if is_free {
                cpu.count(Count::RedirectConflicts);
            }
            Err(DropReason::FirewallRedirect)
        };
        match made {
            Ok(id) => Ok(self.take(cpu, flow_match, id).unwrap_or(false)),
            Err(reason) => {
                tell(cpu, from, PairMessage::Refused { slave: flow, master });
                Err(reason)
            }
        }
    }

    /// Whether no redirected flow has this name; one that is over makes room.
    fn is_free(&mut self, cpu: &mut Cpu, flow: &Flow, hash: crate::firewall::state::Hash) -> bool {
        let Some(id) = self.states.find(flow, hash, FlowId::REDIRECT, cpu.now) else { return true };
        let is_spent = self.states.is_spent(id, cpu.now);
        if is_spent {
            self.states.remove(id, cpu.now);
        }
        cpu.count(if is_spent { Count::RedirectResolved } else { Count::RedirectConflicts });
        is_spent
    }

    /// Tells other CPUs of the masters that have gone here.
    #[inline]
    pub(in crate::firewall) fn part(&mut self, cpu: &mut Cpu) {
        while let Some(parted) = self.states.parted() {
            tell(cpu, parted.cpu, PairMessage::Parted { from: cpu.id, parted });
        }
    }

    /// Hears of the end of a master, or that one has no slave.
    pub(in crate::firewall) fn hear(&mut self, cpu: &Cpu, notice: &PairMessage) {
        match notice {
            PairMessage::Parted { from, parted } => self.states.unfollow(parted, *from, cpu.now),
            PairMessage::Refused { slave, master } => {
                let is_its = |id| self.states.other(id).is_some_and(|other| other == *slave);
                let kind = self.states.get(*master).map(|state| state.kind);
                if kind == Some(Kind::RedirectMaster) && is_its(*master) {
                    self.states.remove(*master, cpu.now);
                }
            }
        }
    }
}

/// Sends a notice; to this CPU itself, too, which hears it in its next turn.
fn tell(cpu: &mut Cpu, to: CpuId, notice: PairMessage) {
    cpu.count(Count::RedirectGiven);
    cpu.peers.send(to, Msg::Redirect(notice));
}

/// Whether a packet can be redirected: it has just come in, and has the ports of a protocol with connections.
fn may_be(info: &PktInfo) -> bool {
    let speaks = matches!(Protocol(info.proto), Protocol::TCP | Protocol::UDP);
    info.hook == Hook::Ingress && info.part != Part::Later && speaks
}

fn bits(addr: core::net::IpAddr) -> u128 {
    match addr {
        core::net::IpAddr::V4(addr) => addr.to_bits().into(),
        core::net::IpAddr::V6(addr) => addr.to_bits(),
    }
}

#[cfg(test)]
mod tests;
