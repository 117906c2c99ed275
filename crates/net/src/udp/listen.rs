//! Groups that a socket listens to.

use core::net::IpAddr;

use super::calls::socket;
use super::socket::{Id, Socket};
use super::table::Sockets;
use crate::cpu::Cpu;
use crate::dgram::group_if;
use crate::group::{
    self, Filter, Key, Membership, SOURCES_MAX, is_everybodys, is_of_the_host, is_source_specific,
};
use crate::sock::Error;
use crate::tables::IfIndex;

/// Groups that one socket may listen to.
pub const MEMBERSHIPS_MAX: usize = 64;

/// What a socket wants of a group.
#[derive(Clone, Debug)]
pub struct Listen {
    /// Which.
    pub group: IpAddr,
    /// On the link of which interface; 0: where the route leads, or the first.
    pub ifindex: IfIndex,
    /// Which senders are listened to; with none, the group is left.
    pub filter: Filter,
}

/// Listens to a group from now on, or to other senders of it than before, or leaves it. A socket that is on each CPU has
/// to be asked on each, as with [`bind`](super::bind); a datagram to the group comes to one of them.
///
/// # Errors
///
/// [`Error::BadAddress`] for what is no group, needs senders that are named (RFC 4607), or names senders that cannot be;
/// [`Error::AddrNotAvailable`] if there is no such interface, or the socket is not in a group that it leaves;
/// [`Error::TooMany`], [`Error::NotFound`].
//= https://www.rfc-editor.org/rfc/rfc3376#section-2
pub fn listen(cpu: &mut Cpu, id: Id, wanted: &Listen) -> Result<(), Error> {
    let Listen { group, ifindex, filter } = wanted;
    check(*group, filter)?;
    let settings = socket(cpu, id)?.settings;
    let ifindex = match *ifindex {
        0 => group_if(cpu, &settings, *group).ok_or(Error::AddrNotAvailable)?,
        given => cpu.tables.ifnet(given).map(|ifnet| ifnet.index).ok_or(Error::AddrNotAvailable)?,
    };
    let key = Key { ifindex, group: *group };
    let socket = socket(cpu, id)?;
    let before = socket.filter(key).cloned();
    if before.is_none() && filter.is_none() {
        return Err(Error::AddrNotAvailable);
    }
    if before.is_none() && socket.memberships.len() >= MEMBERSHIPS_MAX {
        return Err(Error::TooMany);
    }
    socket.set_filter(key, filter.clone());
    let settled = group::settle(cpu, id, key);
    if settled.is_err() {
        self::socket(cpu, id)?.set_filter(key, before.unwrap_or(Filter::NONE));
    }
    settled
}

/// The groups that a socket listens to.
#[must_use]
pub fn memberships(cpu: &Cpu, id: Id) -> &[Membership] {
    let socket = cpu.udp.as_ref().and_then(|sockets| sockets.get(id));
    socket.map(|socket| &socket.memberships[..]).unwrap_or_default()
}

//= https://www.rfc-editor.org/rfc/rfc4604#section-2.2.1
fn check(group: IpAddr, filter: &Filter) -> Result<(), Error> {
    let is_sender = |sender: &IpAddr| {
        sender.is_ipv4() == group.is_ipv4() && !sender.is_multicast() && !sender.is_unspecified()
    };
    let is_group = group.is_multicast() && (!is_of_the_host(group) || is_everybodys(group));
    let needs_senders = is_source_specific(group) && filter.excludes();
    if !is_group || needs_senders || !filter.sources().iter().all(is_sender) {
        return Err(Error::BadAddress);
    }
    if filter.sources().len() > SOURCES_MAX { Err(Error::TooMany) } else { Ok(()) }
}

/// What a socket wants of a group; `None` if it is not in it.
pub(crate) fn filter(cpu: &Cpu, id: Id, key: Key) -> Option<&Filter> {
    cpu.udp.as_ref()?.get(id)?.filter(key)
}

/// The link of a group is gone.
pub(crate) fn forget(sockets: Option<&mut Sockets>, id: Id, key: Key) {
    if let Some(socket) = sockets.and_then(|sockets| sockets.get_mut(id)) {
        socket.set_filter(key, Filter::NONE);
    }
}

/// A socket has ended.
pub(super) fn leave_all(cpu: &mut Cpu, socket: &Socket) {
    for membership in &socket.memberships {
        // To want less is never too much.
        let _ = group::settle(cpu, socket.id, membership.key);
    }
}

impl Socket {
    fn set_filter(&mut self, key: Key, filter: Filter) {
        self.memberships.retain(|membership| membership.key != key);
        if !filter.is_none() {
            self.memberships.push(Membership { key, filter });
        }
    }
}
