//! Groups that a socket listens to.

use core::net::IpAddr;

use super::base::{Base, Id};
use super::membership;
use super::output::group_if;
use crate::host::sock::Error;
use crate::ip::group::{
    Filter, Key, Membership, SOURCES_MAX, is_everybodys, is_of_the_host, is_source_specific,
};
use crate::link::tables::IfIndex;
use crate::turn::cpu::Cpu;

/// Groups that one socket may listen to.
pub const MEMBERSHIPS_MAX: usize = 64;

/// A socket's membership of a group.
#[derive(Clone, Debug)]
pub struct Listen {
    /// Which.
    pub group: IpAddr,
    /// On the link of which interface; 0: where the route leads, or the first.
    pub ifindex: IfIndex,
    /// Which senders are listened to; with none, the group is left.
    pub filter: Filter,
}

/// Listens to a group from now on, or to other senders of it than before, or leaves it.
///
/// # Errors
///
/// [`Error::BadAddress`] for what is no group, needs senders that are named (RFC 4607), or names senders that cannot be;
/// [`Error::AddrNotAvailable`] if there is no such interface, or the socket is not in a group that it leaves;
/// [`Error::TooMany`], [`Error::NotFound`].
//= https://www.rfc-editor.org/rfc/rfc3376#section-2
pub(crate) fn listen(cpu: &mut Cpu, id: Id, wanted: &Listen) -> Result<(), Error> {
    let Listen { group, ifindex, filter } = wanted;
    check(*group, filter)?;
    let settings = id.base(cpu).ok_or(Error::NotFound)?.settings;
    let ifindex = match *ifindex {
        0 => group_if(cpu, &settings, *group).ok_or(Error::AddrNotAvailable)?,
        given => cpu.tables.ifnet(given).map(|ifnet| ifnet.index).ok_or(Error::AddrNotAvailable)?,
    };
    let key = Key { ifindex, group: *group };
    let base = id.base_mut(cpu).ok_or(Error::NotFound)?;
    let before = base.filter(key).cloned();
    if before.is_none() && filter.is_none() {
        return Err(Error::AddrNotAvailable);
    }
    if before.is_none() && base.memberships.len() >= MEMBERSHIPS_MAX {
        return Err(Error::TooMany);
    }
    base.set_filter(key, filter.clone());
    let settled = membership::settle(cpu, id, key);
    if settled.is_err() {
        id.base_mut(cpu).ok_or(Error::NotFound)?.set_filter(key, before.unwrap_or(Filter::NONE));
    }
    settled
}

/// The groups that a socket listens to.
pub(crate) fn memberships(cpu: &Cpu, id: Id) -> &[Membership] {
    id.base(cpu).map(|base| &base.memberships[..]).unwrap_or_default()
}

/// Returns a socket's filter for a group; `None` if it is not a member.
pub(crate) fn filter(cpu: &Cpu, id: Id, key: Key) -> Option<&Filter> {
    id.base(cpu)?.filter(key)
}

/// The link of a group is gone.
pub(crate) fn forget(cpu: &mut Cpu, id: Id, key: Key) {
    if let Some(base) = id.base_mut(cpu) {
        base.set_filter(key, Filter::NONE);
    }
}

/// Leaves all groups of a socket that has ended, unless other sockets are members.
pub(crate) fn leave_all(cpu: &mut Cpu, id: Id, base: &Base) {
    for membership in &base.memberships {
        // To want less is never too much.
        let _ = membership::settle(cpu, id, membership.key);
    }
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
