//! The default router list of a link.

use core::net::{IpAddr, Ipv6Addr};

use wire::nd::Preference;

use crate::base::time::{Duration, Instant};
use crate::link::tables::DefaultRouter;

/// Routers of a link at the most; a newcomer to a full list is refused.
pub const ROUTERS_MAX: usize = 8;

/// Routers that would be our default, in the order in which they are tried.
#[derive(Default)]
pub(super) struct Routers {
    list: Vec<Router>,
}

struct Router {
    addr: Ipv6Addr,
    preference: Preference,
    until: Instant,
    is_reachable: bool,
}

/// A default router, as people see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouterStatus {
    /// Its link-local address.
    pub addr: Ipv6Addr,
    /// Router preference.
    pub preference: Preference,
    /// Until when it is one.
    pub expires: Instant,
    /// Whether it answers, or has not been asked yet.
    pub is_reachable: bool,
    /// Whether it is the one that packets go by.
    pub is_chosen: bool,
}

/// The list is full.
pub(super) struct Full;

impl Routers {
    /// A router says that it is one for `lifetime_s` seconds.
    //= https://www.rfc-editor.org/rfc/rfc4861#section-6.3.4
    pub(super) fn advertised(
        &mut self,
        addr: Ipv6Addr,
        lifetime_s: u16,
        preference: Preference,
        now: Instant,
    ) -> Result<(), Full> {
        if lifetime_s == 0 {
            self.remove(addr.into());
            return Ok(());
        }
        let until = now + Duration::from_secs(lifetime_s.into());
        if let Some(router) = self.list.iter_mut().find(|router| router.addr == addr) {
            (router.until, router.preference) = (until, preference);
            return Ok(());
        }
        if self.list.len() >= ROUTERS_MAX {
            return Err(Full);
        }
        self.list.push(Router { addr, preference, until, is_reachable: true });
        Ok(())
    }

    /// One that does not answer is the last to be tried again: so when none does, they take turns.
    //= https://www.rfc-editor.org/rfc/rfc4861#section-6.3.6
    pub(super) fn reach(&mut self, addr: IpAddr, is_reachable: bool) {
        let Some(at) = self.list.iter().position(|router| IpAddr::V6(router.addr) == addr) else { return };
        if is_reachable {
            self.list[at].is_reachable = true;
        } else {
            let router = self.list.remove(at);
            self.list.push(Router { is_reachable: false, ..router });
        }
    }

    pub(super) fn remove(&mut self, addr: IpAddr) {
        self.list.retain(|router| IpAddr::V6(router.addr) != addr);
    }

    /// Forgets all, and returns how many there were.
    pub(super) fn clear(&mut self) -> usize {
        self.list.drain(..).count()
    }

    pub(super) fn expire(&mut self, now: Instant) {
        self.list.retain(|router| router.until > now);
    }

    pub(super) fn due(&self) -> Instant {
        self.list.iter().map(|router| router.until).min().unwrap_or(Instant::NEVER)
    }

    pub(super) fn addrs(&self) -> Vec<Ipv6Addr> {
        self.list.iter().map(|router| router.addr).collect()
    }

    /// The first that answers, of those that want it most.
    //= https://www.rfc-editor.org/rfc/rfc4191#section-3.2
    pub(super) fn chosen(&self) -> Option<DefaultRouter> {
        // Of equals `max_by_key` answers the last.
        let best = self.list.iter().rev().max_by_key(|router| router.rank())?;
        Some(DefaultRouter { addr: best.addr, rank: best.rank() })
    }

    pub(super) fn status(&self) -> Vec<RouterStatus> {
        let chosen = self.chosen().map(|router| router.addr);
        let status = |router: &Router| RouterStatus {
            addr: router.addr,
            preference: router.preference,
            expires: router.until,
            is_reachable: router.is_reachable,
            is_chosen: Some(router.addr) == chosen,
        };
        self.list.iter().map(status).collect()
    }
}

impl Router {
    const fn rank(&self) -> (bool, Preference) {
        (self.is_reachable, self.preference)
    }
}
