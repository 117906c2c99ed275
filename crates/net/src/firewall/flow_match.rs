//! A packet as a party to a flow: the state that it belongs to, and the one that it may make.

use ipfw::rule::{Keep, KeepKind};
use pkt::Pkt;
use wire::Protocol;

use super::pkt_info::{self, PktInfo};
use super::ruleset::{self, Compiled, FlowId};
use super::state::{Direction, Flow, Hash, Hit, Kind, Limit, Mark, New, Quoted, Seen, Segment, StateError};
use super::state::{StateId, States};
use super::walk;
use crate::base::count::Count;
use crate::base::drop::DropReason;
use crate::base::time::Instant;
use crate::turn::cpu::{Cpu, CpuId};
use crate::turn::msg::Msg;
use crate::turn::rss;

/// The parts of a packet that states need.
#[derive(Clone, Copy, Debug)]
pub(super) struct FlowMatch {
    /// Its flow; `None` if it says nothing about that.
    flow: Option<(Flow, Hash)>,
    /// Quote of an ICMP error.
    quoted: Option<Quoted>,
    seen: Seen,
}

/// Asks all other CPUs to make room.
#[cold]
fn ask_all(cpu: &mut Cpu) {
    cpu.count(Count::StateAskAll);
    let others = (0..cpu.placement.cpus()).map(CpuId).filter(|other| *other != cpu.id);
    others.for_each(|other| cpu.peers.send(other, Msg::Reap));
}

impl FlowMatch {
    /// The flow that a packet belongs to, and what it does in it.
    #[inline]
    pub(super) fn of(info: &PktInfo, pkt: &Pkt, states: &States) -> Self {
        let flow = Flow::of(info, pkt).map(|flow| (flow, states.hash(&flow)));
        let quoted = if flow.is_none() { Quoted::read(info, pkt) } else { None };
        let bytes = u32::try_from(pkt.len()).unwrap_or(u32::MAX);
        Self { flow, quoted, seen: Seen { bytes, segment: Segment::of(info, pkt) } }
    }

    /// Its state among those of this name; the packet is part of its story from now on. It is only counted where that state
    /// was its `judge` at a hook before: a segment cannot be in its connection's windows in one place and outside in another.
    pub(super) fn state(
        &self,
        states: &mut States,
        name: FlowId,
        judge: Option<Mark>,
        cpu: &mut Cpu,
    ) -> Option<Hit> {
        let Some((flow, hash)) = self.flow else {
            return states.find_quoted(&self.quoted?, name, cpu.now);
        };
        let again = judge.and_then(|judge| states.hit_again(&flow, hash, name, judge, &self.seen, cpu.now));
        again.or_else(|| states.hit(&flow, hash, name, &self.seen, cpu.now, &mut cpu.counters))
    }

    /// Makes the state that a rule wants. A packet that does not say what flow it is of makes none, and goes on.
    pub(super) fn keep(
        &self,
        states: &mut States,
        rule: &Compiled,
        keep: &Keep,
        asked: &ruleset::Seen,
        cpu: &mut Cpu,
    ) -> Result<(), DropReason> {
        let Some((flow, hash)) = self.flow else { return Ok(()) };
        let limit = match keep.kind {
            KeepKind::State | KeepKind::Record => None,
            KeepKind::Limit(limit) | KeepKind::RecordLimit(limit) => {
                // A table that does not say how many allows none.
                Some(Limit { mask: limit.mask, max: walk::value(limit.max, asked).unwrap_or(0) })
            }
        };
        let new = New { rule: rule.id, flow: rule.flow, kind: Kind::Keep, limit, pair: None };
        match states.install(&flow, hash, new, &self.seen, cpu.now, &mut cpu.counters) {
            Ok(_) => Ok(()),
            Err(refused) => Err(reason(cpu, refused)),
        }
    }

    /// The flow that the packet belongs to, and its hash.
    pub(super) const fn flow(&self) -> Option<(Flow, Hash)> {
        self.flow
    }

    /// Returns the packet's part in the flow.
    pub(super) const fn seen(&self) -> &Seen {
        &self.seen
    }

    /// Its state, if the packet, or what it quotes, is of a flow that is redirected; and which way the packet itself goes.
    /// Nothing is taken into account yet.
    pub(super) fn redirected(&self, states: &States, now: Instant) -> Option<(StateId, Direction)> {
        match (&self.flow, &self.quoted) {
            (Some((flow, hash)), _) => {
                let id = states.find(flow, *hash, FlowId::REDIRECT, now)?;
                Some((id, states.get(id)?.direction(flow)))
            }
            (None, Some(quoted)) => {
                let hit = states.find_quoted(quoted, FlowId::REDIRECT, now)?;
                Some((hit.id, hit.direction.reversed()))
            }
            (None, None) => None,
        }
    }
}

/// Returns the drop reason of a packet that cannot have its state. Asks all CPUs to make room, if it is time to.
pub(super) fn reason(cpu: &mut Cpu, refused: StateError) -> DropReason {
    match refused {
        StateError::Limit => return DropReason::FirewallLimit,
        StateError::Full { ask_all: true } => ask_all(cpu),
        _ => {}
    }
    DropReason::FirewallStateFull
}

/// The CPU that owns the flow which an error of ICMP quotes a packet of.
pub(super) fn owner_of_quoted(cpu: &Cpu, info: &PktInfo, pkt: &Pkt) -> Option<CpuId> {
    Some(owner(cpu, &Quoted::read(info, pkt)?.flow))
}

/// The CPU that owns a flow.
pub(super) fn owner(cpu: &Cpu, flow: &Flow) -> CpuId {
    let addr = |bits| pkt_info::addr(flow.key.is_ip4(), bits);
    let [src, dst] = flow.ends().map(|end| (addr(end.addr), end.port));
    let has_ports = matches!(Protocol(flow.key.proto()), Protocol::TCP | Protocol::UDP);
    let hash = if has_ports { rss::hash_flow(src, dst) } else { rss::hash_pair(src.0, dst.0) };
    cpu.placement.owner(hash)
}
