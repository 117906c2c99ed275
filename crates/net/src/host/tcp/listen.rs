//! Listeners and bound addresses: by port, and groups that share one.

use core::net::{IpAddr, SocketAddr};
use std::collections::VecDeque;
use std::sync::Arc;

use hashbrown::HashMap;

use super::build::IpTxParams;
use super::pcbs::{Id, Pcbs};
use super::settings::{Along, Settings, Shared};
use crate::base::secret::Folding;
use crate::base::time::{Duration, Instant};
use crate::host::app::Watch;
use crate::host::pcb::{Bound, FourTuple, choose};
use crate::host::sock::Error;
use crate::link::tables::IfIndex;

/// Listeners on one CPU at the most. A program has few; each is looked at when its port is asked for.
pub const LISTENERS_MAX: usize = 4096;

/// Default backlog.
const BACKLOG: usize = 128;

/// Time for which a connection counts as opened that was reset before it was established.
const RESET_LIFE: Duration = Duration::from_secs(60);

/// The request of a listener.
#[derive(Clone, Copy, Debug)]
pub struct Listen {
    /// Our address, or the unspecified one for all; and the port.
    pub addr: SocketAddr,
    /// The interface, where the address means something only with its link; else 0.
    pub zone: IfIndex,
    /// With the unspecified IPv6 address: that IPv4 connections are not for it.
    pub only_v6: bool,
    /// Connections that may wait to be accepted, on each CPU, up to [`Settings::backlog_max`].
    pub backlog: usize,
    /// Others may wait for the same (`SO_REUSEPORT`), and share what comes.
    pub is_shared: bool,
    /// Settings of its connections.
    pub settings: Settings,
    /// IP header fields of their packets.
    pub tx_params: IpTxParams,
}

impl Listen {
    /// At this address and port, of all interfaces, with all else as usual. `[::]` is all addresses of both families.
    #[must_use]
    pub fn at(addr: SocketAddr) -> Self {
        let (zone, only_v6, is_shared) = (0, false, false);
        let (settings, tx_params) = (Settings::default(), IpTxParams::default());
        Self { addr, zone, only_v6, backlog: BACKLOG, is_shared, settings, tx_params }
    }

    fn bound(&self) -> Bound {
        let &Self { addr, zone, only_v6, is_shared, .. } = self;
        Bound { addr, zone, device: self.settings.device, only_v6, is_shared }
    }
}

/// Names a listener on its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ListenerId {
    port: u16,
    serial: u32,
}

/// A listener, at the time of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListedListener {
    /// Local address.
    pub addr: SocketAddr,
    /// See [`Listen::zone`].
    pub zone: IfIndex,
    /// Whether IPv4 connections are for it as well.
    pub takes_mapped: bool,
    /// See [`Listen::is_shared`].
    pub is_shared: bool,
    /// Connections that wait to be accepted.
    pub waiting: usize,
    /// The backlog.
    pub backlog: usize,
}

/// One listener.
#[derive(Debug)]
pub(super) struct Listener {
    pub(super) id: ListenerId,
    pub(super) listen: Listen,
    /// It has not only its place: it takes connections.
    pub(super) is_open: bool,
    /// Connections that stand and wait to be accepted, the first to stand first; and those that brought data with a cookie.
    pub(super) waiting: VecDeque<Id>,
    /// The program of this CPU that is told of them.
    pub(super) watch: Option<Watch>,
    /// Connections that were opened with a cookie and do not stand yet.
    pub(super) opened: usize,
    /// Until when those of them that were reset count as if they were there: the first to be forgotten first.
    resets: VecDeque<Instant>,
    /// [`Listen::settings`] adapted to the last connection's route.
    suited: Option<(Along, Arc<Settings>)>,
}

/// A CPU's listeners.
pub(crate) struct Listeners {
    /// In the order in which they came.
    ports: HashMap<u16, Vec<Listener>, Folding>,
    count: usize,
    next: u32,
}

impl Listener {
    /// Whether no more may wait.
    pub(super) fn is_full(&self) -> bool {
        self.waiting.len() >= self.room()
    }

    /// Returns the room in its accept queue.
    fn room(&self) -> usize {
        self.listen.backlog.min(self.listen.settings.backlog_max).max(1)
    }

    /// Whether one more may be opened before it stands.
    //= https://www.rfc-editor.org/rfc/rfc7413#section-5.1
    //# PendingFastOpenRequests tracks the number of TFO requests
    pub(super) fn may_open(&self, now: Instant) -> bool {
        let most = self.listen.settings.fast_open_max.min(self.listen.backlog);
        let reset = self.resets.iter().filter(|until| **until > now).count();
        self.opened + reset < most && !self.is_full()
    }

    /// A connection that was opened with a cookie stands now, or has ended. One that was reset before it stood goes on
    /// counting for a while: hosts whose addresses were forged send such resets, and would make room for the next flood.
    //= https://www.rfc-editor.org/rfc/rfc7413#section-5.1
    //# by continuing to account for those connection requests that have
    //# just been reset against the listener's PendingFastOpenRequests until
    //# a timeout period has passed
    pub(super) fn is_opened(&mut self, reset: Option<Instant>) {
        self.opened -= 1;
        if let Some(now) = reset {
            while self.resets.front().is_some_and(|until| *until <= now) {
                self.resets.pop_front();
            }
            self.resets.push_back(now + RESET_LIFE);
        }
    }

    /// Returns the length of the accept queue as reported to programs.
    pub(super) fn reported(&self) -> usize {
        match self.listen.settings.reported_max {
            0 => self.waiting.len(),
            most => self.waiting.len().min(most),
        }
    }

    /// Takes connections from now on, which behave so.
    pub(super) fn open(&mut self, backlog: usize, settings: Settings) {
        self.listen = Listen { backlog, settings, ..self.listen };
        (self.is_open, self.suited) = (true, None);
    }

    /// Changes how connections behave that are accepted from now on.
    pub(super) fn change(&mut self, what: impl FnOnce(&mut Settings, &mut IpTxParams)) {
        what(&mut self.listen.settings, &mut self.listen.tx_params);
        self.suited = None;
    }

    /// Returns the settings for a connection on this route.
    pub(super) fn suited(&mut self, along: Along, shared: &mut Shared) -> Arc<Settings> {
        match &self.suited {
            Some((known, suited)) if *known == along => Arc::clone(suited),
            _ => {
                let suited = shared.share(&self.listen.settings, along);
                self.suited = Some((along, Arc::clone(&suited)));
                suited
            }
        }
    }

    fn listed(&self) -> ListedListener {
        let &Listen { addr, zone, is_shared, .. } = &self.listen;
        let takes_mapped = self.listen.bound().takes_mapped();
        let (waiting, backlog) = (self.waiting.len(), self.room());
        ListedListener { addr, zone, takes_mapped, is_shared, waiting, backlog }
    }
}

impl Listeners {
    pub(super) fn new(key: u64) -> Self {
        Self { ports: HashMap::with_hasher(Folding::new(key)), count: 0, next: 0 }
    }

    /// Adds one that has its place and takes no connections yet.
    ///
    /// # Errors
    ///
    /// [`Error::AddrInUse`], [`Error::TooMany`].
    pub(super) fn add(&mut self, listen: Listen) -> Result<ListenerId, Error> {
        if self.count >= LISTENERS_MAX {
            return Err(Error::TooMany);
        }
        let others = self.ports.entry(listen.addr.port()).or_default();
        if others.iter().any(|other| other.listen.bound().excludes(&listen.bound())) {
            return Err(Error::AddrInUse);
        }
        self.next = self.next.wrapping_add(1);
        let id = ListenerId { port: listen.addr.port(), serial: self.next };
        others.push(Listener {
            id,
            listen,
            is_open: false,
            waiting: VecDeque::new(),
            watch: None,
            opened: 0,
            resets: VecDeque::new(),
            suited: None,
        });
        self.count += 1;
        Ok(id)
    }

    /// Takes a listener out. Of its connections that were not accepted, others of its group get what they have room for,
    /// and `inherit` is told their new owners; the rest is returned, to be reset.
    pub(super) fn remove(
        &mut self,
        id: ListenerId,
        mut inherit: impl FnMut(Id, ListenerId),
    ) -> Option<VecDeque<Id>> {
        let listeners = self.ports.get_mut(&id.port)?;
        let at = listeners.iter().position(|listener| listener.id == id)?;
        let Listener { listen, mut waiting, .. } = listeners.remove(at);
        self.count -= 1;
        let is_like = |other: &&mut Listener| other.is_open && other.listen.bound().is_like(&listen.bound());
        for heir in listeners.iter_mut().filter(is_like) {
            while !heir.is_full()
                && let Some(conn) = waiting.pop_front()
            {
                inherit(conn, heir.id);
                heir.waiting.push_back(conn);
            }
        }
        if listeners.is_empty() {
            self.ports.remove(&id.port);
        }
        Some(waiting)
    }

    /// Tells whether the listener for a connection between `ends` is bound to an interface.
    pub(super) fn is_on_device(&self, ends: &FourTuple) -> bool {
        let listeners = self.ports.get(&ends.local_port);
        let chosen = listeners.and_then(|listeners| listeners.get(chosen(listeners, ends)?));
        chosen.is_some_and(|listener| listener.listen.settings.device != 0)
    }

    pub(super) fn get(&self, id: ListenerId) -> Option<&Listener> {
        self.ports.get(&id.port)?.iter().find(|listener| listener.id == id)
    }

    pub(super) fn get_mut(&mut self, id: ListenerId) -> Option<&mut Listener> {
        self.ports.get_mut(&id.port)?.iter_mut().find(|listener| listener.id == id)
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Listener> {
        self.ports.values().flatten()
    }

    /// Changes how what they accept behaves.
    pub(crate) fn each(&mut self, mut change: impl FnMut(&mut Settings)) {
        for listener in self.ports.values_mut().flatten() {
            change(&mut listener.listen.settings);
            listener.suited = None;
        }
    }

    /// Up to `limit` listeners from `from` on, by port and in the order in which they came, and where the next page begins;
    /// `None` if nothing can follow.
    fn page(&self, from: u128, limit: usize) -> (Vec<ListedListener>, Option<u128>) {
        let key = |id: ListenerId| u128::from(id.port) << 32 | u128::from(id.serial);
        let open = self.ports.values().flatten().filter(|listener| listener.is_open);
        let all = open.map(|listener| (key(listener.id), listener));
        let mut left: Vec<_> = all.filter(|(key, _)| *key >= from).collect();
        left.sort_unstable_by_key(|(key, _)| *key);
        let next = left.get(limit.max(1)).map(|(key, _)| *key);
        (left.iter().take(limit.max(1)).map(|(_, listener)| listener.listed()).collect(), next)
    }

    /// Returns the listener for a connection between `ends`. Of a group, the flow's hash chooses one.
    pub(super) fn find(&mut self, ends: &FourTuple) -> Option<&mut Listener> {
        let listeners = self.ports.get_mut(&ends.local_port)?;
        let at = match &**listeners {
            [only] => (only.is_open && only.listen.bound().rank(ends).is_some()).then_some(0),
            several => chosen(several, ends),
        };
        listeners.get_mut(at?)
    }

    /// Tells whether there is one for a connection between `ends`.
    pub(super) fn has(&self, ends: &FourTuple) -> bool {
        self.ports.get(&ends.local_port).is_some_and(|listeners| chosen(listeners, ends).is_some())
    }

    /// Returns the IP header fields of replies by the owner of the local address of `ends`, listening or not.
    pub(super) fn tx_params(&self, ends: &FourTuple) -> Option<IpTxParams> {
        let places = self.ports.get(&ends.local_port)?;
        let chosen = choose(places.iter().map(|place| place.listen.bound()), ends)?;
        places.get(chosen).map(|place| place.listen.tx_params)
    }

    /// Tells whether a port is bound.
    pub(super) fn is_port_taken(&self, port: u16) -> bool {
        self.ports.contains_key(&port)
    }
}

/// The place of the one that takes connections and that a connection between `ends` is for.
fn chosen(listeners: &[Listener], ends: &FourTuple) -> Option<usize> {
    let open = || listeners.iter().enumerate().filter(|(_, listener)| listener.is_open);
    let chosen = choose(open().map(|(_, listener)| listener.listen.bound()), ends)?;
    open().nth(chosen).map(|(at, _)| at)
}

impl Pcbs {
    /// Up to `limit` listeners from `from` on, and where the next page begins; `None` if nothing can follow. The first
    /// page begins at 0. One that stays is seen once, and none twice.
    #[must_use]
    pub fn page_of_listeners(&self, from: u128, limit: usize) -> (Vec<ListedListener>, Option<u128>) {
        self.listeners.page(from, limit)
    }
}

/// Tells whether a listener could be bound to `addr`.
pub(super) fn is_address(addr: IpAddr) -> bool {
    !addr.is_multicast() && addr != IpAddr::V4(core::net::Ipv4Addr::BROADCAST)
}
