//! Who waits for connections: listeners by port, and groups that share one.

use core::net::{IpAddr, SocketAddr};
use std::collections::VecDeque;

use hashbrown::HashMap;

use super::emit::Look;
use super::pcbs::Id;
use super::settings::Settings;
use crate::pcb::Ends;
use crate::secret::Secret;
use crate::sock::Error;
use crate::tables::IfIndex;

/// Listeners on one CPU at the most. A program has few; each is looked at when its port is asked for.
pub const LISTENERS_MAX: usize = 4096;

/// What a listener waits for.
#[derive(Clone, Copy, Debug)]
pub struct Listen {
    /// Our address, or the unspecified one for all; and the port.
    pub addr: SocketAddr,
    /// The interface, where the address means something only with its link; else 0.
    pub zone: IfIndex,
    /// With the unspecified IPv6 address: that IPv4 connections are not for it.
    pub only_v6: bool,
    /// Connections that may wait to be accepted, on each CPU.
    pub backlog: usize,
    /// Others may wait for the same (`SO_REUSEPORT`), and share what comes.
    pub is_shared: bool,
    /// How its connections behave.
    pub settings: Settings,
    /// How their packets look.
    pub look: Look,
}

/// Names a listener on its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ListenerId {
    port: u16,
    serial: u32,
}

/// One listener.
#[derive(Debug)]
pub(super) struct Listener {
    pub(super) id: ListenerId,
    pub(super) listen: Listen,
    /// Connections that stand and wait to be accepted, the first to stand first.
    pub(super) waiting: VecDeque<Id>,
}

/// A CPU's listeners.
pub(super) struct Listeners {
    /// In the order in which they came.
    ports: HashMap<u16, Vec<Listener>, Secret>,
    count: usize,
    next: u32,
}

impl Listener {
    /// Whether no more may wait.
    pub(super) fn is_full(&self) -> bool {
        self.waiting.len() >= self.listen.backlog.max(1)
    }

    /// How well a listener suits: an address of its own is better than all, and one family better than both. `None` if
    /// what comes is not for it.
    fn rank(&self, ends: &Ends) -> Option<u8> {
        let listen = &self.listen;
        let is_same_family = listen.addr.is_ipv4() == ends.local.is_ipv4();
        let own = listen.addr.ip();
        if !own.is_unspecified() {
            let is_same_zone = listen.zone == 0 || ends.zone == 0 || listen.zone == ends.zone;
            return (own == ends.local && is_same_zone).then_some(2);
        }
        let takes_mapped = listen.addr.is_ipv6() && !listen.only_v6;
        match (is_same_family, takes_mapped) {
            (true, _) => Some(1),
            (false, true) => Some(0),
            (false, false) => None,
        }
    }

    /// Whether both would wait for the same.
    fn is_like(&self, listen: &Listen) -> bool {
        let other = &self.listen;
        let (a, b) = (other.addr.ip(), listen.addr.ip());
        let is_mapped =
            |listen: &Listen| listen.addr.is_ipv6() && !listen.only_v6 && listen.addr.ip().is_unspecified();
        a == b && other.zone == listen.zone && is_mapped(other) == is_mapped(listen)
    }
}

impl Listeners {
    pub(super) fn new(secret: Secret) -> Self {
        Self { ports: HashMap::with_hasher(secret), count: 0, next: 0 }
    }

    /// # Errors
    ///
    /// [`Error::AddrInUse`], [`Error::TooMany`].
    pub(super) fn add(&mut self, listen: Listen) -> Result<ListenerId, Error> {
        if self.count >= LISTENERS_MAX {
            return Err(Error::TooMany);
        }
        let others = self.ports.entry(listen.addr.port()).or_default();
        if others.iter().any(|other| other.is_like(&listen) && !(other.listen.is_shared && listen.is_shared))
        {
            return Err(Error::AddrInUse);
        }
        self.next = self.next.wrapping_add(1);
        let id = ListenerId { port: listen.addr.port(), serial: self.next };
        others.push(Listener { id, listen, waiting: VecDeque::new() });
        self.count += 1;
        Ok(id)
    }

    /// Takes a listener out. Of its connections that were not accepted, others of its group get what they have room for;
    /// the rest is answered, and nobody will.
    pub(super) fn remove(&mut self, id: ListenerId) -> Option<VecDeque<Id>> {
        let listeners = self.ports.get_mut(&id.port)?;
        let at = listeners.iter().position(|listener| listener.id == id)?;
        let Listener { listen, mut waiting, .. } = listeners.remove(at);
        self.count -= 1;
        for heir in listeners.iter_mut().filter(|other| other.is_like(&listen)) {
            while !heir.is_full()
                && let Some(conn) = waiting.pop_front()
            {
                heir.waiting.push_back(conn);
            }
        }
        if listeners.is_empty() {
            self.ports.remove(&id.port);
        }
        Some(waiting)
    }

    pub(super) fn get_mut(&mut self, id: ListenerId) -> Option<&mut Listener> {
        self.ports.get_mut(&id.port)?.iter_mut().find(|listener| listener.id == id)
    }

    /// Who a connection between `ends` is for. Of a group, the flow's hash chooses one.
    pub(super) fn find(&mut self, ends: &Ends) -> Option<&mut Listener> {
        let listeners = self.ports.get_mut(&ends.local_port)?;
        let best = listeners.iter().filter_map(|listener| listener.rank(ends)).max()?;
        let is_best = |listener: &Listener| listener.rank(ends) == Some(best);
        let group = listeners.iter().filter(|listener| is_best(listener)).count();
        let chosen = usize::from(ends.flow()) % group.max(1);
        listeners.iter_mut().filter(|listener| is_best(listener)).nth(chosen)
    }
}

/// Whether somebody could wait for connections to `addr`.
pub(super) fn is_address(addr: IpAddr) -> bool {
    !addr.is_multicast() && addr != IpAddr::V4(core::net::Ipv4Addr::BROADCAST)
}
