//! Parameters of a link from router advertisements, as far as packets use them.

use core::cmp::Reverse;
use core::net::{IpAddr, Ipv6Addr};

use crate::base::time::Duration;
use crate::fib::{Hop, Metrics, Origin, Prefix, To};

use super::{IfAddr, IfIndex};

/// The results of [`crate::ip::ip6::autoconf`] for a link: an immutable part of [`super::Ifnet`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Learned {
    /// Our addresses in prefixes that routers advertise.
    pub addrs: Vec<LearnedAddr>,
    /// Prefixes that are on the link.
    pub on_link: Vec<Prefix>,
    /// Prefixes that routers advertise here and that are not believed, because they overlap another interface's. Of them
    /// there is neither a route nor an address. [`super::settle()`] decides.
    pub refused: Vec<Prefix>,
    /// The router for whatever no other route leads to.
    pub router: Option<DefaultRouter>,
    /// All routers that would be one, whether they answer or not.
    pub routers: Vec<Ipv6Addr>,
    /// Bytes of the largest IPv6 packet, if routers say less than the device.
    pub mtu: Option<u32>,
    /// The last router heard says that addresses are to be had by DHCPv6.
    pub managed: bool,
    /// It says that other configuration is.
    pub other: bool,
    /// Hop limit of what we send, if routers say so.
    pub hop_limit: Option<u8>,
    /// Reachable time of neighbours.
    pub reachable: Duration,
    /// Time between two questions.
    pub retrans: Duration,
}

/// One of our addresses, made from a router's prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LearnedAddr {
    /// The address.
    pub addr: Ipv6Addr,
    /// Its preferred lifetime is over: used only by what uses it already.
    pub is_deprecated: bool,
    /// Temporary (RFC 8981), so that a host cannot be tracked by it.
    pub is_temporary: bool,
}

/// The default router of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DefaultRouter {
    /// Its link-local address.
    pub addr: Ipv6Addr,
    /// Better than one of another link if more: whether it answers, and how much it wants.
    pub rank: (bool, wire::nd::Preference),
}

/// `REACHABLE_TIME` of RFC 4861 §10.
pub const REACHABLE: Duration = Duration::from_secs(30);
/// `RETRANS_TIMER` of RFC 4861 §10.
pub const RETRANS: Duration = Duration::from_secs(1);
/// The hop limit of what is sent where no router has said another.
pub const HOP_LIMIT: u8 = 64;

impl Default for Learned {
    fn default() -> Self {
        Self {
            addrs: Vec::new(),
            on_link: Vec::new(),
            refused: Vec::new(),
            router: None,
            routers: Vec::new(),
            managed: false,
            other: false,
            mtu: None,
            hop_limit: None,
            reachable: REACHABLE,
            retrans: RETRANS,
        }
    }
}

impl Learned {
    /// Returns the data of one of our addresses.
    #[must_use]
    pub fn of(&self, addr: IpAddr) -> Option<&LearnedAddr> {
        self.addrs.iter().find(|own| IpAddr::V6(own.addr) == addr)
    }

    /// Returns the metrics that the link imposes.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        Metrics { mtu: self.mtu.unwrap_or(0), ..Metrics::default() }
    }

    /// The addresses, as an interface has them. That their prefixes are on the link is said by [`Self::on_link`] alone.
    //= https://www.rfc-editor.org/rfc/rfc5942#section-4
    pub(super) fn own(&self) -> impl Iterator<Item = IfAddr> + '_ {
        self.addrs.iter().map(|own| IfAddr { addr: own.addr.into(), prefix_len: 128 })
    }

    /// The routes to the prefixes that are on the link: weaker than any that was configured.
    pub(super) fn routes(&self, ifindex: IfIndex) -> impl Iterator<Item = (Prefix, Origin, Hop)> + '_ {
        let hop = Hop { to: To::OnLink { ifindex }, metrics: self.metrics() };
        self.on_link.iter().map(move |to| (*to, Origin::Learned, hop))
    }
}

/// The default route by the best of these links' routers, if there is one.
pub(super) fn default_route<'i>(
    ifs: impl DoubleEndedIterator<Item = &'i super::Ifnet>,
) -> Option<(Prefix, Origin, Hop)> {
    let up = ifs.filter(|ifnet| ifnet.up);
    let of = |ifnet: &super::Ifnet| {
        let router = ifnet.learned.router?;
        let (answers, preference) = router.rank;
        // The administrator's word stands above the router's, but a router that does not answer is no use.
        let worth = (answers, Reverse(ifnet.metric), preference);
        Some((worth, ifnet.index, router, ifnet.learned.metrics()))
    };
    // Of equally good ones the first: `max_by_key` would answer the last.
    let (_, ifindex, router, metrics) = up.filter_map(of).rev().max_by_key(|(worth, ..)| *worth)?;
    let to = Prefix::new(Ipv6Addr::UNSPECIFIED.into(), 0)?;
    Some((to, Origin::Learned, Hop { to: To::Gateway { ifindex, via: router.addr.into() }, metrics }))
}
