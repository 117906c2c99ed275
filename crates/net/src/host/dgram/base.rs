//! The common part of datagram sockets, and its lookup.

use super::queue::Queue;
use super::settings::Settings;
use crate::host::app::Watch;
use crate::host::{raw, udp};
use crate::ip::group::{Filter, Key, Membership};
use crate::turn::cpu::Cpu;

/// Names a socket on its CPU, of whichever kind it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Id {
    Udp(udp::Id),
    Raw(raw::Id),
}

impl From<udp::Id> for Id {
    fn from(id: udp::Id) -> Self {
        Self::Udp(id)
    }
}

impl From<raw::Id> for Id {
    fn from(id: raw::Id) -> Self {
        Self::Raw(id)
    }
}

impl Id {
    /// The socket of this name.
    pub(crate) fn base(self, cpu: &Cpu) -> Option<&Base> {
        match self {
            Self::Udp(id) => cpu.udp.as_ref()?.base(id),
            Self::Raw(id) => cpu.raw.as_ref()?.base(id),
        }
    }

    /// Returns it for change.
    pub(crate) fn base_mut(self, cpu: &mut Cpu) -> Option<&mut Base> {
        match self {
            Self::Udp(id) => cpu.udp.as_mut()?.base_mut(id),
            Self::Raw(id) => cpu.raw.as_mut()?.base_mut(id),
        }
    }
}

/// The common part of a datagram socket.
pub(crate) struct Base {
    pub(crate) settings: Settings,
    /// Groups that it listens to.
    pub(super) memberships: Vec<Membership>,
    /// The program of this CPU that is told of it.
    pub(crate) watch: Option<Watch>,
    /// Receive queue.
    pub(crate) queue: Queue,
}

impl Base {
    pub(crate) fn new(settings: Settings) -> Self {
        Self { settings, memberships: Vec::new(), watch: None, queue: Queue::default() }
    }

    /// Returns its source filter for a group; `None` if it is not a member.
    pub(crate) fn filter(&self, key: Key) -> Option<&Filter> {
        self.memberships.iter().find(|membership| membership.key == key).map(|membership| &membership.filter)
    }

    pub(crate) fn set_filter(&mut self, key: Key, filter: Filter) {
        self.memberships.retain(|membership| membership.key != key);
        if !filter.is_none() {
            self.memberships.push(Membership { key, filter });
        }
    }
}
