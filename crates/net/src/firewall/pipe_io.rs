//! Packets that rules send through pipes: in, once or twice, to another CPU and back, and on.

use core::net::IpAddr;

use ipfw::rule::Hook;
use pkt::Pkt;

use super::pipe::{Refused, To};
use super::pkt_info::PktInfo;
use super::ruleset::RuleId;
use super::{hook, resume};
use crate::base::count::Count;
use crate::base::drop::DropReason;
use crate::out::offload;
use crate::turn::cpu::{Cpu, CpuId};
use crate::turn::msg::Msg;
use crate::turn::netisr::dispatch;

/// Packets that leave pipes in one turn, counted in steps of [`Pipes::due`](super::pipe::Pipes::due).
const STEPS_PER_TURN: usize = 512;

/// A rule sends a packet through a pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The pipe or queue.
    pub(super) to: To,
    /// The hook at which it was asked about …
    pub(super) hook: Hook,
    /// … and the rule that said so.
    pub(super) rule: RuleId,
}

impl Shape {
    /// Returns the pipe or queue.
    #[must_use]
    pub const fn to(&self) -> To {
        self.to
    }
}

/// The place to resume a packet after a pipe.
#[derive(Clone, Copy, Debug)]
pub struct ResumePoint {
    hook: Hook,
    rule: RuleId,
    /// The next hop, if it is not its route's.
    via: Option<IpAddr>,
    /// The CPU that it goes on on.
    home: CpuId,
    /// [`Cpu::epoch`] when it met the rule.
    epoch: u32,
}

/// A message between CPUs about a pipe that one of them owns.
pub enum Message {
    /// To the owner: a packet for it.
    Enter {
        /// The pipe or queue.
        to: To,
        /// The packet.
        pkt: Pkt,
        /// Where it goes on.
        ticket: ResumePoint,
    },
    /// From the owner: it has left.
    Leave {
        /// The packet.
        pkt: Pkt,
        /// Where it goes on.
        ticket: ResumePoint,
    },
}

impl Message {
    /// The packet, which goes nowhere any more.
    pub(crate) fn into_packet(self) -> Pkt {
        match self {
            Self::Enter { pkt, .. } | Self::Leave { pkt, .. } => pkt,
        }
    }
}

/// Sends a packet through a pipe, to go on behind its hook, and there to `via` if that is not its route's next hop.
///
/// Drops  [`DropReason::PipeGone`], [`DropReason::PipeLoss`], [`DropReason::PipeFull`], [`DropReason::PipeEarly`],
///        [`DropReason::PipeBuffers`], [`DropReason::PipeCodel`].
pub(crate) fn shape(cpu: &mut Cpu, pkt: Pkt, shape: Shape, via: Option<IpAddr>) {
    let Shape { to, hook, rule } = shape;
    let ticket = ResumePoint { hook, rule, via, home: cpu.id, epoch: cpu.epoch };
    // A copy has no frame in front of it.
    let copy = if hook.is_layer2() { None } else { copy(cpu, to, &pkt) };
    enter(cpu, to, pkt, ticket);
    if let Some(copy) = copy {
        enter(cpu, to, copy, ticket);
    }
}

/// A copy of a packet, in buffers of its own, if chance wants one and there are buffers.
fn copy(cpu: &mut Cpu, to: To, pkt: &Pkt) -> Option<Pkt> {
    let is_wanted = cpu.firewall.as_ref()?.pipes.copies(to, &mut cpu.secret);
    if !is_wanted {
        return None;
    }
    let Some(mut copy) = offload::copy(cpu, pkt, &[], 0, pkt.len()) else {
        cpu.count(Count::CopiesNoBuffer);
        return None;
    };
    (copy.gso, copy.gso_size, copy.tag, copy.fib) = (pkt.gso, pkt.gso_size, pkt.tag, pkt.fib);
    copy.moved = true;
    cpu.count(Count::PipeCopied);
    Some(copy)
}

/// Handles a message from another CPU.
pub(crate) fn message(cpu: &mut Cpu, message: Message) {
    match message {
        Message::Enter { to, pkt, ticket } => enter(cpu, to, pkt, ticket),
        Message::Leave { pkt, ticket } => go_on(cpu, pkt, ticket),
    }
}

/// Takes packets whose time has come out of their pipes, a bounded number, and on. Answers how many.
pub(crate) fn release(cpu: &mut Cpu) -> usize {
    let Some(firewall) = &mut cpu.firewall else { return 0 };
    if firewall.pipes.deadline() > cpu.now {
        return 0;
    }
    let mut left = core::mem::take(&mut firewall.left);
    firewall.pipes.due(cpu.now, STEPS_PER_TURN, &mut cpu.secret, &mut left);
    cpu.counters.add(Count::PipeMoved, firewall.pipes.moved());
    cpu.counters.add(Count::EcnMarked, firewall.pipes.marked());
    bury_dropped(cpu);
    let count = left.len();
    for (pkt, ticket) in left.drain(..) {
        if ticket.home == cpu.id {
            go_on(cpu, pkt, ticket);
        } else {
            cpu.peers.send(ticket.home, Msg::Shape(Message::Leave { pkt, ticket }));
        }
    }
    if let Some(firewall) = &mut cpu.firewall {
        firewall.left = left;
    }
    count
}

fn enter(cpu: &mut Cpu, to: To, pkt: Pkt, ticket: ResumePoint) {
    let Some(firewall) = &mut cpu.firewall else { return cpu.drop_pkt(pkt, DropReason::PipeGone) };
    let xmit = if matches!(ticket.hook, Hook::Forward | Hook::Egress) { pkt.outif } else { 0 };
    let Ok(info) = PktInfo::at_hook(&pkt, ticket.hook, pkt.rcvif, xmit) else {
        return cpu.drop_pkt(pkt, DropReason::FirewallBogus);
    };
    firewall.pipes.shortage(cpu.pool.shortage());
    match firewall.pipes.enqueue(to, &info, pkt, ticket, cpu.now, &mut cpu.secret) {
        Ok(()) => {}
        Err(Refused::Drop { pkt, reason, .. }) => cpu.drop_pkt(pkt, reason),
        Err(Refused::Elsewhere { cpu: owner, pkt, ticket }) => {
            cpu.peers.send(owner, Msg::Shape(Message::Enter { to, pkt, ticket }));
        }
    }
    bury_dropped(cpu);
}

/// Drops packets that pipes gave up.
pub(crate) fn bury_dropped(cpu: &mut Cpu) {
    let Some(firewall) = &mut cpu.firewall else { return };
    let dead: Vec<_> = firewall.pipes.dropped().collect();
    for (pkt, reason) in dead {
        cpu.drop_pkt(pkt, reason);
    }
}

/// Takes a packet on that has left its pipe: behind its hook or, without `one_pass`, to the next rule.
///
/// Drops  [`DropReason::Reconfigured`].
fn go_on(cpu: &mut Cpu, mut pkt: Pkt, ticket: ResumePoint) {
    if ticket.epoch != cpu.epoch {
        return cpu.drop_pkt(pkt, DropReason::Reconfigured);
    }
    let again = hook::with(cpu, |firewall, cpu| {
        let is_over = firewall.one_pass;
        if is_over { None } else { firewall.ask_at(cpu, &mut pkt, ticket.hook, ticket.rule, false) }
    });
    match again.flatten() {
        Some(next) => dispatch(cpu, pkt, next),
        None => resume::go(cpu, pkt, ticket.hook, ticket.via),
    }
}

#[cfg(test)]
mod tests;
