//! Bindings in a server's message: addresses and prefixes.

use core::net::Ipv6Addr;

use ipnet::Ipv6Net;
use wire::dhcp6::{Leased, View, option, status};

use super::RENEW_MIN;
use crate::dhcp6::lease::{ENTRIES_MAX, Entry, Lease};

/// The shortest valid lifetime that is believed, seconds: less is as good as none.
const VALID_MIN_S: u32 = 10;

/// The bindings in a message.
#[derive(Debug, Default)]
pub(super) struct Bindings {
    /// Addresses and prefixes; those that have ended are valid until 0.
    pub(super) entries: Vec<Entry>,
    /// The server does not know the association.
    pub(super) is_unknown: bool,
    renew_s: Option<u32>,
    rebind_s: Option<u32>,
}

impl Bindings {
    /// Reads those of the association `iaid`.
    pub(super) fn read(message: &View<'_>, iaid: u32, now: u64) -> Self {
        let mut bindings = Self::default();
        for code in [option::IA_NA, option::IA_PD] {
            for ia in message.options.associations(code).filter(|ia| ia.iaid == iaid) {
                bindings.is_unknown |= ia.options.status() == status::NO_BINDING;
                //= https://www.rfc-editor.org/rfc/rfc8415#section-21.4
                //# If a client receives an IA_NA with T1 greater than T2 and both T1 and T2 are greater than 0, the client discards the IA_NA option
                if ia.t1_s > ia.t2_s && ia.t2_s > 0 {
                    continue;
                }
                let room = ENTRIES_MAX.saturating_sub(bindings.entries.len());
                let is_address = code == option::IA_NA;
                let entries = ia.leased().filter_map(|leased| entry(&leased, is_address, now)).take(room);
                bindings.entries.extend(entries);
                let least = |own: &mut Option<u32>, said: u32| {
                    *own = (said > 0).then_some(said).into_iter().chain(*own).min();
                };
                least(&mut bindings.renew_s, ia.t1_s);
                least(&mut bindings.rebind_s, ia.t2_s);
            }
        }
        bindings
    }

    /// Returns the bindings that have not ended.
    pub(super) fn live(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| entry.valid > 0)
    }

    /// The lease of these alone; `None` if there is none.
    pub(super) fn lease(&self, server: &[u8], now: u64) -> Option<Lease> {
        let entries: Vec<Entry> = self.live().copied().collect();
        let shortest = entries.iter().map(|entry| entry.preferred.saturating_sub(now)).min()?;
        let last = entries.iter().map(|entry| entry.valid).max()?;
        let time = |said: Option<u32>, usual: u64| said.map_or(usual, |seconds| u64::from(seconds) * 1000);
        // Usual parts of the preferred lifetime (§21.4).
        let renew = time(self.renew_s, shortest / 2).max(RENEW_MIN);
        let rebind = time(self.rebind_s, shortest / 5 * 4).max(renew);
        let within = |time: u64| (now + time).min(last);
        Some(Lease { server: server.to_vec(), entries, renew: within(renew), rebind: within(rebind) })
    }

    /// The lease `before` as these change it. What the server does not mention, and does mention others of its kind, is
    /// deprecated; what it says has ended has.
    pub(super) fn merged(&self, before: &Lease, server: &[u8], now: u64) -> Option<Lease> {
        let mut lease = self.lease(server, now);
        let is_said = |entry: &Entry| self.entries.iter().any(|said| said.net == entry.net);
        let has_others = |entry: &Entry| self.live().any(|said| said.is_address() == entry.is_address());
        let left = before.entries.iter().filter(|entry| !is_said(entry)).map(|entry| {
            let preferred = if has_others(entry) { entry.preferred.min(now) } else { entry.preferred };
            Entry { preferred, ..*entry }
        });
        let left: Vec<Entry> = left.collect();
        match &mut lease {
            Some(lease) => {
                lease.entries.extend(left);
                lease.entries.truncate(ENTRIES_MAX);
            }
            None if !left.is_empty() => {
                let server = before.server.clone();
                lease = Some(Lease { server, entries: left, renew: now + RENEW_MIN, rebind: before.rebind });
            }
            None => {}
        }
        lease
    }
}

/// An address or prefix, if it is one that can be used.
fn entry(leased: &Leased<'_>, is_address: bool, now: u64) -> Option<Entry> {
    let net = Ipv6Net::new(leased.addr, leased.len).ok()?;
    let is_good = (leased.len == 128) == is_address
        && (is_address || (1..=64).contains(&leased.len))
        && is_usable(leased.addr)
        && leased.preferred_s <= leased.valid_s
        && matches!(leased.options.status(), status::SUCCESS);
    let until = |seconds: u32| now + u64::from(seconds) * 1000;
    let is_live = leased.valid_s >= VALID_MIN_S;
    let (preferred, valid) =
        if is_live { (until(leased.preferred_s), until(leased.valid_s)) } else { (0, 0) };
    is_good.then_some(Entry { net: net.trunc(), preferred, valid })
}

/// Whether a host or a link can have it.
fn is_usable(addr: Ipv6Addr) -> bool {
    !(addr.is_unspecified() || addr.is_loopback() || addr.is_multicast() || addr.is_unicast_link_local())
}
