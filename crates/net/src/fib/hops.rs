//! Where routes lead: next hops, what is known of the way behind them, and groups of equally good ones.

use core::net::IpAddr;

use crate::base::ids::IfIndex;

mod group;

pub use group::{Group, GroupId, MEMBERS_MAX};

/// The hop that a route leads to: a small index in [`Hops`], so that lookups answer with nothing else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HopId(u16);

/// Where a route leads, and what it says of the way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Hop {
    /// Where to.
    pub to: To,
    /// Metrics of the route.
    pub metrics: Metrics,
}

/// Where a route leads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum To {
    /// Nowhere: nothing is known of that destination.
    #[default]
    NoRoute,
    /// To this host: the destination is an own address.
    Local {
        /// The interface that has the address.
        ifindex: IfIndex,
    },
    /// To every host of a link: the destination is its IPv4 broadcast address.
    Broadcast {
        /// The link's interface.
        ifindex: IfIndex,
    },
    /// To a host on a link: the destination itself is the neighbour.
    OnLink {
        /// The link's interface.
        ifindex: IfIndex,
    },
    /// To another router.
    Gateway {
        /// The interface of the link that the router is on.
        ifindex: IfIndex,
        /// The router's address on that link.
        via: IpAddr,
    },
    /// To one of several hops, each flow to its own: [`Hops::member`] says which.
    Group(GroupId),
    /// To a refusal that the sender is told of.
    Reject,
    /// To a blackhole.
    Blackhole,
}

/// The metrics of a route; 0 where it gives none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Metrics {
    /// Bytes of the largest packet; the link's MTU limits it too.
    pub mtu: u32,
    /// TCP's maximum segment lifetime, milliseconds (RFC 9293 §3.4.1).
    pub msl_ms: u32,
    /// TCP's initial window, segments (RFC 6928).
    pub initial_window: u16,
}

/// All next hops: an immutable snapshot, replaced as a whole when one is new.
///
/// A change of routes between hops that exist does not touch it.
#[derive(Clone, Debug)]
pub struct Hops {
    hops: Vec<Hop>,
    groups: Vec<Option<Group>>,
}

impl HopId {
    /// No route: the hop of every destination that nothing is known of.
    pub const NO_ROUTE: Self = Self(0);

    #[inline]
    pub(super) const fn from_bits(bits: u16) -> Self {
        Self(bits)
    }

    pub(super) const fn bits(self) -> u16 {
        self.0
    }

    /// Its place in arrays by hop; below [`Hops::len`] of the snapshot that knows it.
    #[inline]
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl Default for Hops {
    fn default() -> Self {
        Self { hops: vec![Hop::default()], groups: Vec::new() }
    }
}

impl Hops {
    /// Hops in all, those out of use included: the length of arrays by [`HopId::index`].
    #[must_use]
    pub const fn len(&self) -> usize {
        self.hops.len()
    }

    /// Never: there is always [`HopId::NO_ROUTE`].
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.hops.is_empty()
    }

    /// Where `id` leads; nowhere, if it is not of this snapshot.
    #[inline]
    #[must_use]
    pub fn get(&self, id: HopId) -> Hop {
        self.hops.get(id.index()).copied().unwrap_or_default()
    }

    /// Whether it leads to this host.
    #[inline]
    #[must_use]
    pub fn is_local(&self, id: HopId) -> bool {
        self.hops.get(id.index()).is_some_and(|hop| matches!(hop.to, To::Local { .. }))
    }

    /// A group's members, and what they share.
    #[must_use]
    pub fn group(&self, id: GroupId) -> Option<&Group> {
        self.groups.get(id.index())?.as_ref()
    }

    /// The one hop that a flow takes: of a group the member that `flow` falls to, else `id` itself.
    #[inline]
    #[must_use]
    pub fn member(&self, id: HopId, flow: impl FnOnce() -> u32) -> HopId {
        match self.get(id).to {
            To::Group(group) => self.group(group).map_or(HopId::NO_ROUTE, |group| group.member(flow())),
            _ => id,
        }
    }

    /// The hops of a route: the members of a group, else the one.
    pub fn each(&self, id: HopId) -> impl Iterator<Item = Hop> + '_ {
        let one = [id];
        let members = match self.get(id).to {
            To::Group(group) => self.group(group).map(Group::members).unwrap_or_default(),
            _ => &[],
        };
        let one = one.into_iter().filter(|_| members.is_empty());
        members.iter().copied().chain(one).map(|id| self.get(id))
    }

    pub(super) fn push(&mut self, hop: Hop) -> HopId {
        let id = HopId(u16::try_from(self.hops.len()).unwrap_or_default());
        self.hops.push(hop);
        id
    }

    pub(super) fn set(&mut self, id: HopId, hop: Hop) {
        if let Some(slot) = self.hops.get_mut(id.index()) {
            *slot = hop;
        }
    }

    /// Makes a hop the group of these members.
    pub(super) fn set_group(&mut self, id: HopId, members: &[HopId]) {
        let tos: Vec<_> = members.iter().map(|id| (*id, self.get(*id).to)).collect();
        let free = self.groups.iter().position(Option::is_none).unwrap_or(self.groups.len());
        self.groups.resize(self.groups.len().max(free + 1), None);
        self.groups[free] = Some(Group::of(&tos));
        self.set(id, To::Group(GroupId::new(free)).into());
    }

    pub(super) fn free_group(&mut self, id: GroupId) {
        if let Some(group) = self.groups.get_mut(id.index()) {
            *group = None;
        }
    }
}

impl From<To> for Hop {
    fn from(to: To) -> Self {
        Self { to, metrics: Metrics::default() }
    }
}

impl To {
    /// The interface that the hop leads out by, or that has the address.
    #[must_use]
    pub const fn ifindex(self) -> Option<IfIndex> {
        match self {
            Self::Local { ifindex }
            | Self::Broadcast { ifindex }
            | Self::OnLink { ifindex }
            | Self::Gateway { ifindex, .. } => Some(ifindex),
            Self::NoRoute | Self::Group(_) | Self::Reject | Self::Blackhole => None,
        }
    }
}

impl Metrics {
    /// Bytes of the largest packet over a link whose MTU is `link`.
    #[inline]
    #[must_use]
    pub const fn mtu_over(self, link: u32) -> u32 {
        if self.mtu != 0 && self.mtu < link { self.mtu } else { link }
    }
}

#[cfg(test)]
mod tests;
