//! Packets that another CPU must be asked about: at the rule where they are, and on from there.

use ipfw::rule::Hook;
use pkt::Pkt;

use super::ruleset::RuleId;
use super::state::{End, StateId};
use super::walk::{Arrival, PairMessage};
use super::{hook, resume};
use crate::base::count::Count;
use crate::base::drop::DropReason;
use crate::turn::cpu::{Cpu, CpuId};
use crate::turn::msg::Msg;
use crate::turn::netisr::dispatch;
use crate::turn::next::Next;

/// A rule at which a packet goes on on another CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandoffPoint {
    /// The CPU.
    pub(super) owner: CpuId,
    /// The hook at which the packet was asked about …
    pub(super) hook: Hook,
    /// … and the rule.
    pub(super) rule: RuleId,
    /// The task there.
    pub(super) task: HandoffTask,
}

impl HandoffPoint {
    /// Returns the CPU that goes on with the packet.
    #[must_use]
    pub const fn owner(&self) -> CpuId {
        self.owner
    }
}

/// The task of another CPU on a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HandoffTask {
    /// Carry out the rule, which this CPU cannot.
    Obey,
    /// To go on behind the rule: the packet was changed, and its flow is that CPU's now.
    GoOn,
    /// Continue: it was redirected by this CPU's master of this number.
    Redirected(StateId),
    /// Continue: it is a reply to a flow that the other CPU's master of this number has redirected.
    Answer(StateId),
}

/// A packet on its way to another CPU.
pub struct Message {
    pkt: Pkt,
    hook: Hook,
    rule: RuleId,
    task: HandoffTask,
    from: CpuId,
    /// [`Cpu::epoch`] of the CPU that sent it.
    epoch: u32,
    /// Original destination of a redirected packet: address and port.
    was: ([u8; 16], u16),
}

impl Message {
    /// The packet, which goes nowhere any more.
    pub(crate) fn into_packet(self) -> Pkt {
        self.pkt
    }
}

/// Sends a packet to the CPU that goes on with it. Messages are not dropped, and come in their order.
///
/// Drops  [`DropReason::FirewallRedirect`].
pub(crate) fn send(cpu: &mut Cpu, pkt: Pkt, away: HandoffPoint) {
    let HandoffPoint { owner, hook, rule, task } = away;
    let was = match task {
        HandoffTask::Redirected(master) => match where_sent(cpu, master) {
            Some(was) => was,
            None => return cpu.drop_pkt(pkt, DropReason::FirewallRedirect),
        },
        _ => End::default(),
    };
    if is_redirected(task) {
        cpu.count(Count::RedirectGiven);
    }
    let was = (was.addr.to_be_bytes(), was.port);
    cpu.peers.send(owner, Msg::Away(Message { pkt, hook, rule, task, from: cpu.id, epoch: cpu.epoch, was }));
}

/// Where the packets of a master were sent. `None` if it has gone since.
fn where_sent(cpu: &Cpu, master: StateId) -> Option<End> {
    let states = cpu.firewall.as_ref()?.states();
    states.pair(master).and_then(|_| states.get(master)).map(|state| state.ends()[1])
}

const fn is_redirected(task: HandoffTask) -> bool {
    matches!(task, HandoffTask::Redirected(_) | HandoffTask::Answer(_))
}

/// Goes on with a packet that came from another CPU. It is counted, and perhaps logged, already at the rule that it
/// matched there.
///
/// Drops  [`DropReason::FirewallRedirect`], [`DropReason::Reconfigured`].
pub(crate) fn message(cpu: &mut Cpu, message: Message) {
    let Message { mut pkt, hook, rule, task, from, epoch, was: (addr, port) } = message;
    if epoch != cpu.epoch {
        return cpu.drop_pkt(pkt, DropReason::Reconfigured);
    }
    let was = End { addr: u128::from_be_bytes(addr), port };
    if is_redirected(task) {
        cpu.count(Count::RedirectTaken);
    }
    let next = hook::with(cpu, |firewall, cpu| match task {
        HandoffTask::Obey => firewall.ask_at(cpu, &mut pkt, hook, rule, true),
        HandoffTask::GoOn if firewall.one_pass => None,
        HandoffTask::GoOn => firewall.ask_at(cpu, &mut pkt, hook, rule, false),
        HandoffTask::Redirected(master) => {
            let arrival = Arrival { from, master, was: Some(was) };
            firewall.ask_redirected(cpu, &mut pkt, hook, rule, arrival)
        }
        HandoffTask::Answer(master) => {
            firewall.ask_redirected(cpu, &mut pkt, hook, rule, Arrival { from, master, was: None })
        }
    });
    // A CPU that has no rules yet cannot know the flow.
    let unknown = is_redirected(task).then_some(Next::Drop(DropReason::FirewallRedirect));
    match next.unwrap_or(unknown) {
        Some(next) => dispatch(cpu, pkt, next),
        None => resume::go(cpu, pkt, hook, None),
    }
}

/// Hears what another CPU says of a redirected flow.
pub(crate) fn notice(cpu: &mut Cpu, notice: &PairMessage) {
    cpu.count(Count::RedirectTaken);
    hook::with(cpu, |firewall, cpu| firewall.hear(cpu, notice));
}
