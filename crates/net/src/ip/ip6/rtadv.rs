//! Router advertisements that are sent: the router's side of neighbour discovery.
//!
//! One CPU speaks for a link, the one that would also keep what is learned of it ([`owner`]). Solicitations come to the CPU
//! of their sender's address, which tells that one. All advertisements go to all nodes: a flood of solicitations costs a link
//! one advertisement in three seconds.
//!
//! A prefix that is advertised no more is deprecated for two hours: hosts keep addresses in it for connections that they
//! have, and make none for new ones. A router that ceases to advertise says so.
//!
//! # Spec
//! RFC 4861 §6.2; RFC 4191 §2; RFC 4862 §5.5.3; RFC 8106 §5; RFC 8781 §4.

use core::net::Ipv6Addr;
use std::sync::Arc;

use wire::addr::ALL_NODES;
use wire::nd::{Opt, Options, Pref64, Prefix, RouteInfo, RouterAdvert};

use super::autoconf::{owner, speaker};
use super::nd;
use crate::base::count::Count;
use crate::base::drop::{DropReason, Fate};
use crate::base::secret::Secret;
use crate::base::time::{Duration, Instant};
use crate::ip::neigh::{self, NeighMessage};
use crate::link::tables::{IfIndex, Ifnet, RtadvSettings, Tables};
use crate::turn::cpu::Cpu;
use crate::turn::timers::Timer;

/// Deprecated prefixes that a link keeps telling of; the oldest gives way.
pub const DEPRECATED_MAX: usize = 4;
/// Time for which a prefix is announced as deprecated; hosts shorten no lifetime below it.
//= https://www.rfc-editor.org/rfc/rfc4862#section-5.5.3
const DEPRECATED_FOR: Duration = Duration::from_secs(7200);
/// `MAX_INITIAL_RTR_ADVERTISEMENTS`, and `MAX_INITIAL_RTR_ADVERT_INTERVAL` between them.
const INITIAL: u8 = 3;
const INITIAL_INTERVAL: Duration = Duration::from_secs(16);
/// `MAX_RA_DELAY_TIME`: routers do not all answer at once.
const DELAY_MAX_MS: u64 = 500;
/// `MIN_DELAY_BETWEEN_RAS`.
const GAP: Duration = Duration::from_secs(3);
/// Where we have no address yet, it is looked at again after this time.
const NO_ADDRESS: Duration = Duration::from_secs(1);

/// The links that this CPU advertises to.
#[derive(Default)]
pub struct Rtadv {
    links: Vec<Link>,
}

/// Advertisements to one link.
struct Link {
    ifindex: IfIndex,
    settings: Arc<RtadvSettings>,
    /// Whether packets are forwarded: otherwise this is no default router.
    is_router: bool,
    /// When to advertise next.
    at: Instant,
    /// When the timer that is set fires.
    armed: Instant,
    /// The last advertisement.
    last: Option<Instant>,
    /// Advertisements since the settings were new, up to [`INITIAL`].
    sent: u8,
    /// Prefixes that were advertised before, and until when they are told of.
    deprecated: Vec<(Prefix, Instant)>,
}

/// Begins with interfaces that advertise from now on, and goes on with others as their settings are now.
pub fn tables_changed(cpu: &mut Cpu) {
    let tables = cpu.tables.clone();
    cpu.rtadv.links.retain(|link| settings(&tables, link.ifindex).is_some());
    for ifnet in tables.ifnets() {
        let Some(settings) =
            settings(&tables, ifnet.index).filter(|_| owner(cpu.placement, ifnet.index) == cpu.id)
        else {
            continue;
        };
        let Cpu { rtadv, secret, now, .. } = cpu;
        match rtadv.links.iter_mut().find(|link| link.ifindex == ifnet.index) {
            Some(link) => link.change(settings, tables.forwarding, *now, secret),
            None => rtadv.links.push(Link::new(ifnet.index, settings, tables.forwarding, *now, secret)),
        }
        arm(cpu, ifnet.index);
    }
}

/// Says farewell to links that are not advertised to any more, while it can still be sent; answers whether there are any.
//= https://www.rfc-editor.org/rfc/rfc4861#section-6.2.5
//# the router SHOULD transmit one or more (but not more than MAX_FINAL_RTR_ADVERTISEMENTS) final multicast Router Advertisements on the interface with a Router Lifetime field of zero.
pub fn tables_will_change(cpu: &mut Cpu, next: &Tables) -> bool {
    let mut ends: Vec<Link> =
        cpu.rtadv.links.extract_if(.., |link| settings(next, link.ifindex).is_none()).collect();
    // One that has never spoken has nothing to take back.
    ends.retain(|link| link.last.is_some());
    ends.iter().for_each(|link| _ = link.send(cpu, true));
    !ends.is_empty()
}

/// The timer of an interface's link.
pub fn timer(cpu: &mut Cpu, ifindex: IfIndex) {
    let now = cpu.now;
    let Some(at) = cpu.rtadv.links.iter().position(|link| link.ifindex == ifindex) else { return };
    if cpu.rtadv.links[at].armed > now {
        return;
    }
    cpu.rtadv.links[at].armed = Instant::NEVER;
    if cpu.rtadv.links[at].at <= now {
        let mut link = cpu.rtadv.links.swap_remove(at);
        link.deprecated.retain(|(_, until)| *until > now);
        let is_sent = link.send(cpu, false);
        link.sent_at(now, is_sent, &mut cpu.secret);
        cpu.rtadv.links.push(link);
    }
    arm(cpu, ifindex);
}

/// A host asks for routers. It is a neighbour like others; where we advertise, it gets an answer.
//= https://www.rfc-editor.org/rfc/rfc4861#section-6.2.6
pub(super) fn solicited(
    cpu: &mut Cpu,
    tables: &Tables,
    ifnet: &Ifnet,
    from: Ipv6Addr,
    options: &Options<'_>,
) -> Fate {
    cpu.count(Count::NdRouterIn);
    let mac = options.source_link_addr();
    if mac.is_some_and(|mac| !mac.is_unicast()) {
        return Err(DropReason::NdMalformed);
    }
    if ifnet.rtadv.is_none() || ifnet.has(from.into()) {
        return Ok(Count::NdConsumed);
    }
    let key = neigh::Key { ifindex: ifnet.index, addr: from.into() };
    if let Some(mac) = mac.filter(|mac| *mac != ifnet.mac)
        && neigh::is_on_link(tables, &key)
    {
        neigh::heard(cpu, key, NeighMessage::Solicit { mac });
    }
    let to = owner(cpu.placement, ifnet.index);
    if to == cpu.id {
        answer(cpu, ifnet.index)
    } else {
        cpu.peers.send(to, crate::turn::msg::Msg::Rtadv(ifnet.index))
    }
    Ok(Count::NdConsumed)
}

/// A host on this link wants an advertisement: it comes after a moment, or at its time if that is sooner.
//= https://www.rfc-editor.org/rfc/rfc4861#section-6.2.6
//# If the router sent a multicast Router Advertisement (solicited or unsolicited) within the last MIN_DELAY_BETWEEN_RAS seconds, schedule the advertisement to be sent at a time corresponding to MIN_DELAY_BETWEEN_RAS plus the random value after the previous advertisement was sent.
pub fn answer(cpu: &mut Cpu, ifindex: IfIndex) {
    let Cpu { rtadv, secret, now, .. } = cpu;
    let Some(link) = rtadv.links.iter_mut().find(|link| link.ifindex == ifindex) else { return };
    link.at = link.at.min(link.soon(*now, secret));
    arm(cpu, ifindex);
}

/// Settings of an interface's advertisements, if it is up.
fn settings(tables: &Tables, ifindex: IfIndex) -> Option<Arc<RtadvSettings>> {
    tables.ifnet(ifindex).filter(|ifnet| ifnet.up)?.rtadv.clone()
}

fn arm(cpu: &mut Cpu, ifindex: IfIndex) {
    let Cpu { rtadv, timers, .. } = cpu;
    let Some(link) = rtadv.links.iter_mut().find(|link| link.ifindex == ifindex) else { return };
    if link.at < link.armed {
        link.armed = link.at;
        timers.set(link.at, Timer::Rtadv(ifindex));
    }
}

/// A prefix with no longer lifetimes than it has itself.
//= https://www.rfc-editor.org/rfc/rfc9096#section-3.4
fn limited(settings: &RtadvSettings, prefix: &Prefix, now: Instant) -> Prefix {
    let own = settings.expiring.iter().find(|own| (own.addr, own.len) == (prefix.addr, prefix.len));
    own.map_or(*prefix, |own| own.limit(*prefix, now))
}

impl Link {
    fn new(
        ifindex: IfIndex,
        settings: Arc<RtadvSettings>,
        is_router: bool,
        now: Instant,
        secret: &mut Secret,
    ) -> Self {
        let mut link = Self {
            ifindex,
            settings,
            is_router,
            at: Instant::NEVER,
            armed: Instant::NEVER,
            last: None,
            sent: 0,
            deprecated: Vec::new(),
        };
        link.at = link.soon(now, secret);
        link
    }

    /// Advertises something else from now on, and deprecates the prefixes that are gone.
    fn change(&mut self, settings: Arc<RtadvSettings>, is_router: bool, now: Instant, secret: &mut Secret) {
        if (&self.settings, self.is_router) == (&settings, is_router) {
            return;
        }
        let is_in = |list: &[Prefix], one: &Prefix| {
            list.iter().any(|other| (other.addr, other.len) == (one.addr, one.len))
        };
        let gone = self.settings.prefixes.iter().filter(|prefix| !is_in(&settings.prefixes, prefix));
        let gone = gone.map(|prefix| (limited(&self.settings, prefix, now), now + DEPRECATED_FOR));
        self.deprecated.extend(gone);
        self.deprecated.retain(|(prefix, _)| !is_in(&settings.prefixes, prefix));
        let excess = self.deprecated.len().saturating_sub(DEPRECATED_MAX);
        self.deprecated.drain(..excess);
        (self.settings, self.is_router, self.sent) = (settings, is_router, 0);
        self.at = self.at.min(self.soon(now, secret));
    }

    /// After a short random time, and not too soon after the last one.
    fn soon(&self, now: Instant, secret: &mut Secret) -> Instant {
        let earliest = self.last.map_or(now, |last| now.max(last + GAP));
        earliest + Duration::from_millis(secret.below(DELAY_MAX_MS))
    }

    /// Sets the time of the next advertisement.
    //= https://www.rfc-editor.org/rfc/rfc4861#section-6.2.4
    fn sent_at(&mut self, now: Instant, is_sent: bool, secret: &mut Secret) {
        if !is_sent {
            self.at = now + NO_ADDRESS;
            return;
        }
        self.last = Some(now);
        self.sent = (self.sent + 1).min(INITIAL);
        let (least, most) = self.settings.interval;
        let spread = u64::try_from(most.saturating_sub(least).as_millis()).unwrap_or(u64::MAX);
        let interval = least + Duration::from_millis(secret.below(spread.saturating_add(1)));
        self.at = now + if self.sent < INITIAL { interval.min(INITIAL_INTERVAL) } else { interval };
    }

    /// Sends an advertisement to all nodes; answers whether we have an address to send from. `is_last`: we are no router of
    /// this link any more, nor know one of its name servers.
    fn send(&self, cpu: &mut Cpu, is_last: bool) -> bool {
        let Some(src) = speaker(cpu, self.ifindex) else { return false };
        let Some(mac) = cpu.tables.ifnet(self.ifindex).map(|ifnet| ifnet.mac) else { return false };
        let settings = &*self.settings;
        // A router that does not forward is none.
        //= https://www.rfc-editor.org/rfc/rfc4861#section-6.2.5
        let lifetime_s = if is_last || !self.is_router { 0 } else { settings.lifetime_s };
        let said = RouterAdvert {
            hop_limit: settings.hop_limit,
            managed: settings.managed,
            other: settings.other,
            preference: settings.preference,
            lifetime_s,
            reachable_ms: settings.reachable_ms,
            retrans_ms: settings.retrans_ms,
        };
        let params = nd::NdTxParams { src, dst: ALL_NODES, mac: None };
        nd::advertise_router(cpu, self.ifindex, params, said, self.options(cpu.now, mac, is_last));
        true
    }

    fn options(&self, now: Instant, mac: wire::ether::Mac, is_last: bool) -> impl Iterator<Item = Opt<'_>> {
        let settings = &*self.settings;
        let lived = move |lifetime_s: u32| if is_last { 0 } else { lifetime_s };
        let dns_lifetime_s = lived(settings.dns_lifetime_s);
        let deprecated = self.deprecated.iter().map(move |(prefix, until)| {
            let left = u32::try_from(until.since(now).as_secs()).unwrap_or(u32::MAX);
            Prefix { valid_s: left.min(prefix.valid_s), preferred_s: 0, ..*prefix }
        });
        let prefixes = settings.prefixes.iter().map(move |prefix| limited(settings, prefix, now));
        let routes = settings
            .routes
            .iter()
            .map(move |route| Opt::RouteInfo(RouteInfo { lifetime_s: lived(route.lifetime_s), ..*route }));
        let servers = (!settings.servers.is_empty())
            .then_some(Opt::Rdnss { lifetime_s: dns_lifetime_s, servers: &settings.servers });
        let search = (!settings.search.is_empty())
            .then_some(Opt::Dnssl { lifetime_s: dns_lifetime_s, names: &settings.search });
        let nat64 = settings.nat64.map(move |nat64| {
            let lifetime_s = if is_last { 0 } else { nat64.lifetime_s };
            Opt::Pref64(Pref64 { lifetime_s, ..nat64 })
        });
        core::iter::once(Opt::SourceLinkAddr(mac))
            .chain(settings.mtu.map(Opt::Mtu))
            .chain(prefixes.chain(deprecated).map(Opt::Prefix))
            .chain(servers)
            .chain(search)
            .chain(routes)
            .chain(nat64)
    }
}
