//! The two states of a redirected flow: the master's flow is as it came, the slave's as it went on.
//!
//! Each is on the CPU that its own flow belongs to, so mostly on two. They know each other by name: the flow, and the
//! number of the master, so that neither holds on to the other. Only the end of the master ends both: the code that removes it
//! from the table finds here the CPU to be told ([`States::parted`]).

use super::entry::{Kind, State, bits};
use super::key::{End, Flow};
use super::{Hash, StateId, States};
use crate::base::collections::wheel::NIL;
use crate::base::time::Instant;
use crate::firewall::ruleset::FlowId;
use crate::turn::cpu::CpuId;

/// The link from one state to the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pair {
    /// The end that stands in the place of this one's second: of the master where the flow goes on, of the slave where
    /// it was sent.
    pub end: End,
    /// The CPU that has the other.
    pub cpu: CpuId,
    /// The number of the master; of a master to be it is not asked.
    pub master: StateId,
}

/// A master has gone: its slave is to go, too.
#[derive(Clone, Copy, Debug)]
pub struct Parted {
    /// The CPU that has the slave.
    pub cpu: CpuId,
    /// The slave's flow.
    pub slave: Flow,
    /// The number that the master had.
    pub master: StateId,
}

impl States {
    /// Whether any flow is redirected.
    #[inline]
    #[must_use]
    pub const fn has_pairs(&self) -> bool {
        !self.pairs.is_empty()
    }

    /// Returns the link of a state of a redirected flow.
    #[must_use]
    pub fn pair(&self, id: StateId) -> Option<Pair> {
        let state = self.get(id).filter(|state| is_redirected(state))?;
        self.pairs.get(state.link).copied()
    }

    /// Notes of a new state what it knows of the other one; false if there is no number left.
    pub(super) fn tie(&mut self, id: StateId, pair: Pair) -> bool {
        let Some(state) = self.slab.get_mut(id.0) else { return false };
        let master = if state.kind == Kind::RedirectMaster { id } else { pair.master };
        let link = self.pairs.insert(Pair { master, ..pair });
        state.link = link.unwrap_or(NIL);
        if state.kind == Kind::RedirectSlave {
            // Its first packet is still to come.
            (state.packets, state.bytes) = (0, 0);
        }
        link.is_some()
    }

    /// Forgets what a state that goes knows of the other one. A slave on the same CPU goes with its master; one on another
    /// is noted.
    pub(super) fn untie(&mut self, id: StateId, link: u32, now: Instant) {
        let Some(pair) = self.pairs.get(link).copied().filter(|_| self.pairs.is_used(link)) else { return };
        self.pairs.remove(link);
        let Some(master) = self.get(id).filter(|state| state.kind == Kind::RedirectMaster) else { return };
        let parted = Parted { cpu: pair.cpu, slave: other(master, &pair), master: id };
        if parted.cpu == self.cpu {
            self.unfollow(&parted, self.cpu, now);
        } else {
            self.parted.push(parted);
        }
    }

    /// Ends the slave whose master, on CPU `of`, has gone. One that has another master meanwhile stays.
    pub fn unfollow(&mut self, parted: &Parted, of: CpuId, now: Instant) {
        let found = self.lookup(&parted.slave, self.hash(&parted.slave), FlowId::REDIRECT).map(StateId);
        let is_its = |pair: Pair| pair.cpu == of && pair.master == parted.master;
        if let Some(id) = found
            && self.get(id).is_some_and(|state| state.kind == Kind::RedirectSlave)
            && self.pair(id).is_some_and(is_its)
        {
            self.remove(id, now);
        }
    }

    /// Takes out the masters that have gone whose slaves are on other CPUs.
    pub(in super::super) fn parted(&mut self) -> Option<Parted> {
        self.parted.pop()
    }

    /// The flow of the other state; `None` if this is none of a redirected flow.
    #[must_use]
    pub fn other(&self, id: StateId) -> Option<Flow> {
        self.pair(id).zip(self.get(id)).map(|(pair, state)| other(state, &pair))
    }

    /// Whether another flow has this one's name: a live state, that was not made of what was redirected to it.
    #[must_use]
    pub fn is_taken(&self, flow: &Flow, hash: Hash, now: Instant) -> bool {
        let id = self.find(flow, hash, FlowId::ANY, now);
        id.and_then(|id| self.get(id)).is_some_and(|state| state.bits & bits::REDIRECTED == 0)
    }

    /// Whether a state is of a connection that is over.
    #[must_use]
    pub fn is_spent(&self, id: StateId, now: Instant) -> bool {
        self.get(id).is_none_or(|state| state.is_spent(super::ms(now)))
    }
}

/// Returns the flow of the other state, from the same sender.
fn other(state: &State, pair: &Pair) -> Flow {
    Flow::new(state.key.is_ip4(), state.key.proto(), state.ends()[0], pair.end)
}

const fn is_redirected(state: &State) -> bool {
    matches!(state.kind, Kind::RedirectMaster | Kind::RedirectSlave)
}
