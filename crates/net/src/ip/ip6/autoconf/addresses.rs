//! Our addresses in prefixes that routers advertise, and how long they live.

use core::net::Ipv6Addr;

use wire::ether::Mac;
use wire::nd::Prefix;

use super::interface_id::join;
use super::{PREFIX_LEN, Settings};
use crate::base::secret::Secret;
use crate::base::time::{Duration, Instant};
use crate::link::tables::LearnedAddr;

/// Addresses of a link at the most; a prefix that would need more gets none.
pub const ADDRS_MAX: usize = 16;
/// Lifetime below which an unauthenticated advertisement cannot shorten one (RFC 4862 §5.5.3 (e)).
const TWO_HOURS: Duration = Duration::from_secs(2 * 60 * 60);
/// `TEMP_VALID_LIFETIME` and the rest of RFC 8981 §3.8.
const TEMPORARY_VALID: Duration = Duration::from_secs(2 * 24 * 60 * 60);
const TEMPORARY_PREFERRED: Duration = Duration::from_secs(24 * 60 * 60);
const DESYNC_MAX_S: u64 = 24 * 60 * 60 * 2 / 5;
const REGEN_ADVANCE: Duration = Duration::from_secs(5);
const TEMPORARY_RETRIES: u8 = 3;

/// Our addresses on a link.
#[derive(Default)]
pub(super) struct OwnAddrs {
    list: Vec<Own>,
}

/// The address in one prefix, and the temporary ones beside it.
struct Own {
    prefix: Ipv6Addr,
    addr: Ipv6Addr,
    preferred: Instant,
    valid: Instant,
    /// Duplicate.
    is_duplicate: bool,
    /// Duplicates found in this prefix.
    conflicts: u8,
    temporary: Vec<Temporary>,
    /// Consecutive duplicates of temporary addresses.
    temporary_conflicts: u8,
}

/// A temporary address lives no longer than the other one in its prefix.
struct Temporary {
    addr: Ipv6Addr,
    preferred: Instant,
    valid: Instant,
}

/// The kind of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A router's prefix.
    Autoconf,
    /// Temporary (RFC 8981).
    Temporary,
}

/// One of our addresses, as people see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnStatus {
    /// Which one.
    pub addr: Ipv6Addr,
    /// Kind.
    pub kind: Kind,
    /// Until when new connections use it; never, if for ever.
    pub preferred: Instant,
    /// Until when it is ours.
    pub valid: Instant,
}

/// All addresses that may be are there.
pub(super) struct Full;

/// The inputs of address generation.
pub(super) struct Maker<'a> {
    pub(super) settings: Settings,
    pub(super) mac: Mac,
    pub(super) name: &'a str,
}

impl OwnAddrs {
    /// A router advertises a prefix in which hosts may make themselves addresses.
    //= https://www.rfc-editor.org/rfc/rfc4862#section-5.5.3
    pub(super) fn advertised(&mut self, said: &Prefix, maker: &Maker<'_>, now: Instant) -> Result<(), Full> {
        let is_useless =
            said.len != PREFIX_LEN || said.addr.is_unicast_link_local() || said.addr.is_multicast();
        if !said.autonomous || is_useless || said.preferred_s > said.valid_s {
            return Ok(());
        }
        let prefix = join(said.addr, 0);
        if let Some(own) = self.list.iter_mut().find(|own| own.prefix == prefix) {
            own.is_advertised(said, now);
            return Ok(());
        }
        if said.valid_s == 0 {
            return Ok(());
        }
        if self.len() >= ADDRS_MAX {
            return Err(Full);
        }
        let addr = maker.settings.identifiers.addr(prefix, maker.mac, maker.name, 0);
        self.list.push(Own {
            prefix,
            addr,
            preferred: lifetime(now, said.preferred_s),
            valid: lifetime(now, said.valid_s),
            is_duplicate: false,
            conflicts: 0,
            temporary: Vec::new(),
            temporary_conflicts: 0,
        });
        Ok(())
    }

    /// Handles a duplicate of one of them.
    pub(super) fn is_duplicate(&mut self, addr: Ipv6Addr) {
        for own in &mut self.list {
            own.is_duplicate |= own.addr == addr;
            let before = own.temporary.len();
            own.temporary.retain(|temporary| temporary.addr != addr);
            own.temporary_conflicts += u8::from(own.temporary.len() < before);
        }
    }

    /// Handles the passage of time: expiry, replacements of duplicates, new temporary addresses.
    pub(super) fn tick(&mut self, maker: &Maker<'_>, now: Instant, secret: &mut Secret) {
        self.list.retain(|own| own.valid > now);
        for own in &mut self.list {
            own.temporary.retain(|temporary| temporary.valid > now);
            own.try_another(maker);
        }
        for at in 0..self.list.len() {
            let has_room = self.len() < ADDRS_MAX;
            if maker.settings.temporary && has_room {
                self.list[at].renew(now, secret);
            }
        }
    }

    /// Forgets an address, with the temporary ones beside it, or a temporary one; returns how many.
    pub(super) fn forget(&mut self, addr: Ipv6Addr) -> usize {
        let before = self.len();
        self.list.retain(|own| own.addr != addr);
        self.list.iter_mut().for_each(|own| own.temporary.retain(|temporary| temporary.addr != addr));
        before - self.len()
    }

    pub(super) fn clear(&mut self) {
        self.list.clear();
    }

    /// When [`Self::tick`] or what it made is next of interest.
    pub(super) fn due(&self, settings: Settings, now: Instant) -> Instant {
        let instants = self.list.iter().flat_map(|own| own.instants(settings.temporary));
        instants.filter(|at| *at > now).min().unwrap_or(Instant::NEVER)
    }

    pub(super) fn learned(&self, now: Instant) -> Vec<LearnedAddr> {
        let learned = |status: OwnStatus| LearnedAddr {
            addr: status.addr,
            is_deprecated: status.preferred <= now,
            is_temporary: status.kind == Kind::Temporary,
        };
        self.status().map(learned).collect()
    }

    pub(super) fn status(&self) -> impl Iterator<Item = OwnStatus> + '_ {
        self.list.iter().flat_map(Own::status)
    }

    fn len(&self) -> usize {
        self.list.iter().map(|own| 1 + own.temporary.len()).sum()
    }
}

impl Own {
    /// An advertisement extends lifetimes, and shortens them to two hours at the least: else one packet could take
    /// our addresses away.
    //= https://www.rfc-editor.org/rfc/rfc4862#section-5.5.3
    fn is_advertised(&mut self, said: &Prefix, now: Instant) {
        self.preferred = lifetime(now, said.preferred_s);
        let (valid, two_hours) = (lifetime(now, said.valid_s), now + TWO_HOURS);
        if valid > two_hours || valid > self.valid {
            self.valid = valid;
        } else if self.valid > two_hours {
            self.valid = two_hours;
        }
    }

    fn try_another(&mut self, maker: &Maker<'_>) {
        if self.is_duplicate && self.conflicts < maker.settings.identifiers.retries() {
            self.conflicts += 1;
            self.is_duplicate = false;
            self.addr = maker.settings.identifiers.addr(self.prefix, maker.mac, maker.name, self.conflicts);
        }
    }

    /// Makes a temporary address before the last one is deprecated, while it would be preferred for long enough.
    //= https://www.rfc-editor.org/rfc/rfc8981#section-3.4
    fn renew(&mut self, now: Instant, secret: &mut Secret) {
        let soon = now + REGEN_ADVANCE;
        let is_served = self.temporary.iter().any(|temporary| temporary.preferred.min(self.preferred) > soon);
        if is_served || self.preferred <= soon || self.temporary_conflicts >= TEMPORARY_RETRIES {
            return;
        }
        let desync = Duration::from_secs(secret.below(DESYNC_MAX_S));
        self.temporary.push(Temporary {
            addr: join(self.prefix, secret.draw()),
            preferred: now + TEMPORARY_PREFERRED.saturating_sub(desync),
            valid: now + TEMPORARY_VALID,
        });
    }

    fn status(&self) -> impl Iterator<Item = OwnStatus> + '_ {
        let Self { addr, preferred, valid, .. } = *self;
        let own = OwnStatus { addr, kind: Kind::Autoconf, preferred, valid };
        let temporary = self.temporary.iter().map(move |temporary| OwnStatus {
            addr: temporary.addr,
            kind: Kind::Temporary,
            preferred: temporary.preferred.min(preferred),
            valid: temporary.valid.min(valid),
        });
        // A duplicate stays in the list, so that it is shown; it is not used.
        [own].into_iter().chain(temporary)
    }

    fn instants(&self, is_temporary: bool) -> impl Iterator<Item = Instant> + '_ {
        let renewals = self.temporary.iter().map(|temporary| earlier(temporary.preferred, REGEN_ADVANCE));
        let renewals = renewals.filter(move |_| is_temporary);
        self.status().flat_map(|status| [status.preferred, status.valid]).chain(renewals)
    }
}

/// The moment at which a lifetime ends that begins now; `u32::MAX` seconds are for ever.
pub(super) fn lifetime(now: Instant, seconds: u32) -> Instant {
    if seconds == u32::MAX { Instant::NEVER } else { now + Duration::from_secs(seconds.into()) }
}

fn earlier(at: Instant, by: Duration) -> Instant {
    Instant::START + at.since(Instant::START).saturating_sub(by)
}
