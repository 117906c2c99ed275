//! The state of one link.

use core::net::Ipv6Addr;
use std::sync::Arc;

use wire::ether::Mac;
use wire::ip6::MIN_MTU;
use wire::nd::RouterAdvert;

use super::addresses::{Maker, OwnAddrs, OwnStatus};
use super::prefixes::{PrefixStatus, Prefixes};
use super::routers::{RouterStatus, Routers};
use super::solicit::Solicit;
use super::{Advert, Forget, Settings};
use crate::base::count::Count;
use crate::base::time::{Duration, Instant};
use crate::fib::Prefix;
use crate::ip::addr::State;
use crate::link::tables::{HOP_LIMIT, IfIndex, Ifnet, Learned, REACHABLE, RETRANS};
use crate::turn::cpu::Cpu;

/// Two changes of the tables are so far apart at the least, whatever routers say.
const TABLES_GAP: Duration = Duration::from_millis(100);
/// Valid range of reachable time, milliseconds (RFC 4861 §6.2.1).
const REACHABLE_MS: core::ops::RangeInclusive<u32> = 1..=3_600_000;
/// Accepted range of the retransmission timer, milliseconds: less would be a flood, more would be no probe.
const RETRANS_MS: core::ops::RangeInclusive<u32> = 100..=60_000;

/// The state of one link.
pub(super) struct Link {
    pub(super) ifindex: IfIndex,
    pub(super) settings: Settings,
    pub(super) routers: Routers,
    pub(super) prefixes: Prefixes,
    pub(super) own: OwnAddrs,
    pub(super) solicit: Solicit,
    /// When the timer that is set fires.
    pub(super) armed: Instant,
    name: String,
    mac: Mac,
    device_mtu: u32,
    managed: bool,
    other: bool,
    mtu: Option<u32>,
    hop_limit: Option<u8>,
    reachable: Duration,
    retrans: Duration,
    link_local: Option<(Ipv6Addr, State)>,
    published: Arc<Learned>,
    /// Prefixes that are not in force, as tables say.
    refused: Vec<Prefix>,
    /// Tables do not change before.
    quiet_until: Instant,
    /// There is something to be published then.
    has_news: bool,
}

/// The status of one link for users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Its interface.
    pub ifindex: IfIndex,
    /// Its default routers.
    pub routers: Vec<RouterStatus>,
    /// The prefixes that are on it.
    pub prefixes: Vec<PrefixStatus>,
    /// Our addresses in them.
    pub addrs: Vec<OwnStatus>,
    /// Further parameters of router advertisements.
    pub learned: Arc<Learned>,
}

impl Link {
    pub(super) fn new(ifnet: &Ifnet, settings: Settings) -> Self {
        Self {
            ifindex: ifnet.index,
            settings,
            routers: Routers::default(),
            prefixes: Prefixes::default(),
            own: OwnAddrs::default(),
            solicit: Solicit::default(),
            armed: Instant::NEVER,
            name: ifnet.name.clone(),
            mac: ifnet.mac,
            device_mtu: ifnet.mtu,
            managed: false,
            other: false,
            mtu: None,
            hop_limit: None,
            reachable: REACHABLE,
            retrans: RETRANS,
            link_local: None,
            published: Arc::default(),
            refused: Vec::new(),
            quiet_until: Instant::START,
            has_news: false,
        }
    }

    /// Solicits routers once we have an address; where our link-local address is a duplicate, we are silent.
    //= https://www.rfc-editor.org/rfc/rfc4862#section-5.4.5
    pub(super) fn link_local_is(&mut self, addr: Ipv6Addr, state: State, cpu: &mut Cpu) {
        if self.link_local == Some((addr, state)) {
            return;
        }
        self.link_local = Some((addr, state));
        match state {
            State::Preferred => self.solicit.start(cpu.now, &mut cpu.secret),
            State::Duplicated => {
                self.solicit.stop();
                self.own.clear();
            }
            State::Tentative => {}
        }
    }

    /// A valid router advertisement was heard.
    pub(super) fn advertised(&mut self, advert: &Advert, cpu: &mut Cpu) {
        if matches!(self.link_local, Some((_, State::Duplicated))) {
            return cpu.count(Count::NdRouterIgnored);
        }
        self.solicit.stop();
        self.take_parameters(&advert.said, advert.mtu);
        let now = cpu.now;
        let RouterAdvert { lifetime_s, preference, .. } = advert.said;
        if self.routers.advertised(advert.from, lifetime_s, preference, now).is_err() {
            cpu.count(Count::NdRoutersFull);
        }
        let maker = Maker { settings: self.settings, mac: self.mac, name: &self.name };
        for prefix in advert.prefixes.iter().filter(|prefix| !prefix.addr.is_unicast_link_local()) {
            if is_impossible(prefix) || self.is_refused(prefix) {
                cpu.count(Count::NdPrefixesRefused);
            }
            if is_impossible(prefix) {
                continue;
            }
            if self.prefixes.advertised(prefix, now).is_err() {
                cpu.count(Count::NdPrefixesFull);
            }
            if self.own.advertised(prefix, &maker, now).is_err() {
                cpu.count(Count::NdAddrsFull);
            }
        }
    }

    /// Takes over which prefixes are not in force, as tables say, and counts those that were.
    pub(super) fn refuses(&mut self, refused: &[Prefix], cpu: &mut Cpu) {
        let came = refused.iter().filter(|prefix| !self.refused.contains(prefix)).count();
        cpu.counters.add(Count::NdPrefixesRefused, came as u64);
        self.refused = refused.to_vec();
    }

    fn is_refused(&self, said: &wire::nd::Prefix) -> bool {
        Prefix::new(said.addr.into(), said.len).is_some_and(|prefix| self.refused.contains(&prefix))
    }

    /// A hop limit below the usual one is not believed: with 1, one packet would cut us off (CVE-2015-2922).
    //= https://www.rfc-editor.org/rfc/rfc4861#section-6.3.4
    fn take_parameters(&mut self, said: &RouterAdvert, mtu: Option<u32>) {
        (self.managed, self.other) = (said.managed, said.other);
        if said.hop_limit >= HOP_LIMIT {
            self.hop_limit = Some(said.hop_limit);
        }
        if REACHABLE_MS.contains(&said.reachable_ms) {
            self.reachable = Duration::from_millis(said.reachable_ms.into());
        }
        if RETRANS_MS.contains(&said.retrans_ms) {
            self.retrans = Duration::from_millis(said.retrans_ms.into());
        }
        let fits = |mtu: &u32| (u32::from(MIN_MTU)..=self.device_mtu).contains(mtu);
        self.mtu = mtu.filter(fits).or(self.mtu);
    }

    pub(super) fn forget(&mut self, what: Forget) -> usize {
        match what {
            Forget::Routers => self.routers.clear(),
            Forget::Prefixes => {
                self.own.clear();
                self.prefixes.clear()
            }
            Forget::Address(addr) => self.own.forget(addr),
        }
    }

    /// Handles the passage of time.
    pub(super) fn tick(&mut self, cpu: &mut Cpu) {
        self.routers.expire(cpu.now);
        self.prefixes.expire(cpu.now);
        let maker = Maker { settings: self.settings, mac: self.mac, name: &self.name };
        self.own.tick(&maker, cpu.now, &mut cpu.secret);
    }

    /// Returns an update for the tables, if there is one and it is time.
    pub(super) fn news(&mut self, now: Instant) -> Option<Arc<Learned>> {
        let learned = self.learned(now);
        self.has_news = *self.published != learned;
        // A router that resigns must not be sent to any more; others go on at their pace. That bounds tables, too: of the routers
        // in the last ones each resigns once.
        //= https://www.rfc-editor.org/rfc/rfc4861#section-6.3.5
        let in_use = self.published.router.map(|router| router.addr);
        let has_resigned = in_use.is_some_and(|addr| !learned.routers.contains(&addr));
        if !self.has_news || now < self.quiet_until && !has_resigned {
            return None;
        }
        self.has_news = false;
        self.quiet_until = now + TABLES_GAP;
        self.published = Arc::new(learned);
        Some(Arc::clone(&self.published))
    }

    fn learned(&self, now: Instant) -> Learned {
        Learned {
            addrs: self.own.learned(now),
            on_link: self.prefixes.prefixes(),
            refused: Vec::new(),
            router: self.routers.chosen(),
            routers: self.routers.addrs(),
            managed: self.managed,
            other: self.other,
            mtu: self.mtu,
            hop_limit: self.hop_limit,
            reachable: self.reachable,
            retrans: self.retrans,
        }
    }

    /// When something is next to be done.
    pub(super) fn due(&self, now: Instant) -> Instant {
        let quiet = if self.has_news { self.quiet_until } else { Instant::NEVER };
        let lists = self.routers.due().min(self.prefixes.due()).min(self.own.due(self.settings, now));
        lists.min(self.solicit.at).min(quiet)
    }

    pub(super) fn status(&self) -> Status {
        Status {
            ifindex: self.ifindex,
            routers: self.routers.status(),
            prefixes: self.prefixes.status(),
            addrs: self.own.status().collect(),
            learned: Arc::clone(&self.published),
        }
    }
}

/// Returns whether a prefix is on no link: it holds addresses of groups, or those that are on every link.
fn is_impossible(said: &wire::nd::Prefix) -> bool {
    const EVERYWHERE: [(Ipv6Addr, u8); 2] =
        [(Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0), 8), (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10)];
    let Some(prefix) = Prefix::new(said.addr.into(), said.len) else { return false };
    let mut everywhere = EVERYWHERE.into_iter().filter_map(|(addr, len)| Prefix::new(addr.into(), len));
    everywhere.any(|other| other.overlaps(prefix))
}
