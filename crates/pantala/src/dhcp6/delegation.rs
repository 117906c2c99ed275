//! Prefixes that are delegated to routers behind us (RFC 8415 §6.3): equal parts of a network, or of prefixes that a provider has
//! delegated to us.
//!
//! A delegation is the number of a part: when the provider renumbers, a router gets the same part of the new prefix. Times are
//! milliseconds since 1970.

use core::fmt::Write as _;
use core::net::Ipv6Addr;

use ipnet::Ipv6Net;
use wire::dhcp6::Ia;

use super::lease::{self, Entry};

/// Delegations of a server.
pub(crate) const DELEGATIONS_MAX: usize = 1024;
/// Bits of the number of a part; of a larger network the first parts are used.
const NUMBER_BITS: u8 = 16;
const HEADER: &str = "pantala-delegations 1\n";

/// Terms under which prefixes are delegated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    /// Bits of a part.
    pub(crate) len: u8,
    /// Seconds of a lease.
    pub(crate) lease_s: u32,
}

/// A part that a router has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Delegation {
    pub(crate) duid: Vec<u8>,
    pub(crate) iaid: u32,
    number: u32,
    /// The address that it asks from: the router's link-local one, or that of the relay before us.
    pub(crate) router: Ipv6Addr,
    pub(crate) expires: u64,
}

/// All delegations of a server, and what they are parts of.
#[derive(Clone, Debug)]
pub(crate) struct Delegations {
    terms: Terms,
    /// Networks, the one that is used for what is new first.
    sources: Vec<Entry>,
    /// Networks of our own links, of which no part is delegated.
    own: Vec<Ipv6Net>,
    all: Vec<Delegation>,
}

impl Delegations {
    pub(crate) const fn new(terms: Terms, all: Vec<Delegation>) -> Self {
        Self { terms, sources: Vec::new(), own: Vec::new(), all }
    }

    /// Delegates parts of these networks from now on, but for those of our links.
    pub(crate) fn settle(&mut self, terms: Terms, mut sources: Vec<Entry>, own: Vec<Ipv6Net>) {
        sources.sort_by_key(|source| core::cmp::Reverse(source.preferred));
        if self.terms.len != terms.len {
            // The numbers were those of other parts.
            self.all.clear();
        }
        (self.terms, self.sources, self.own) = (terms, sources, own);
    }

    pub(crate) fn all(&self) -> &[Delegation] {
        &self.all
    }

    /// The prefixes of a delegation at `now`: one of each network, with the times until which it is used.
    pub(crate) fn parts(&self, own: &Delegation, now: u64) -> Vec<Entry> {
        self.parts_of(own.number, now)
    }

    fn parts_of(&self, number: u32, now: u64) -> Vec<Entry> {
        let end = now + u64::from(self.terms.lease_s) * 1000;
        let part = |source: &Entry| {
            let net = self.part(source.net, number)?;
            let (preferred, valid) = (source.preferred.min(end), source.valid.min(end));
            (valid > now).then_some(Entry { net, preferred: preferred.max(now), valid })
        };
        self.sources.iter().filter_map(part).collect()
    }

    /// Part `number` of a network.
    fn part(&self, of: Ipv6Net, number: u32) -> Option<Ipv6Net> {
        let bits = self.terms.len.checked_sub(of.prefix_len())?;
        if number.checked_shr(bits.into()).unwrap_or_default() != 0 {
            return None;
        }
        let shift = 128_u8.checked_sub(self.terms.len)?;
        let addr = u128::from(of.network()) | u128::from(number).checked_shl(shift.into())?;
        Ipv6Net::new(addr.into(), self.terms.len).ok()
    }

    /// The delegation of a router's association.
    pub(crate) fn of(&self, duid: &[u8], iaid: u32) -> Option<&Delegation> {
        self.all.iter().find(|own| own.duid == duid && own.iaid == iaid)
    }

    /// The part that an association gets: the one it has, else the one it asks for, else the last that is free, so that the first
    /// ones are left to our own links.
    pub(crate) fn choose(&self, duid: &[u8], ia: Ia<'_>) -> Option<u32> {
        if let Some(own) = self.of(duid, ia.iaid) {
            return Some(own.number);
        }
        let first = self.sources.first()?;
        let bits = self.terms.len.checked_sub(first.net.prefix_len())?.min(NUMBER_BITS);
        let is_free = |number: &u32| self.is_free(*number);
        let asked = ia.leased().find_map(|leased| self.number_of(first.net, leased.addr)).filter(is_free);
        let chosen = asked.or_else(|| (0..1_u32 << bits).rev().find(is_free));
        chosen.filter(|_| self.all.len() < DELEGATIONS_MAX)
    }

    /// The number of the part of a network that begins at an address.
    fn number_of(&self, of: Ipv6Net, addr: Ipv6Addr) -> Option<u32> {
        let shift = 128_u8.checked_sub(self.terms.len)?;
        let number = u128::from(addr).checked_sub(u128::from(of.network()))?.checked_shr(shift.into())?;
        let number = u32::try_from(number).ok().filter(|number| *number >> NUMBER_BITS == 0)?;
        self.part(of, number).filter(|net| net.network() == addr).map(|_| number)
    }

    fn is_free(&self, number: u32) -> bool {
        let is_ours = |part: Ipv6Net| self.own.iter().any(|own| own.contains(&part) || part.contains(own));
        let mut parts = self.sources.iter().filter_map(|source| self.part(source.net, number));
        self.all.iter().all(|other| other.number != number) && !parts.any(is_ours)
    }

    /// Delegates a part, or extends its lease.
    pub(crate) fn put(&mut self, duid: &[u8], iaid: u32, number: u32, router: Ipv6Addr, now: u64) {
        let expires = now + u64::from(self.terms.lease_s) * 1000;
        self.all.retain(|own| own.duid != duid || own.iaid != iaid);
        self.all.push(Delegation { duid: duid.to_vec(), iaid, number, router, expires });
    }

    /// Ends a delegation; answers whether there was one.
    pub(crate) fn remove(&mut self, duid: &[u8], iaid: u32) -> bool {
        let before = self.all.len();
        self.all.retain(|own| own.duid != duid || own.iaid != iaid);
        self.all.len() < before
    }

    /// Ends those whose time is over; answers whether there were any.
    pub(crate) fn expire(&mut self, now: u64) -> bool {
        let before = self.all.len();
        self.all.retain(|own| own.expires > now);
        self.all.len() < before
    }

    /// When the next one ends.
    pub(crate) fn next(&self) -> Option<u64> {
        self.all.iter().map(|own| own.expires).min()
    }

    /// The prefixes that an association of `number` is told.
    pub(crate) fn told(&self, number: u32, now: u64) -> Vec<(Ipv6Net, [u32; 2])> {
        let seconds = |time: u64| u32::try_from(time.saturating_sub(now) / 1000).unwrap_or(u32::MAX);
        let told = |part: Entry| (part.net, [seconds(part.preferred), seconds(part.valid)]);
        self.parts_of(number, now).into_iter().map(told).collect()
    }

    /// The file of them.
    pub(crate) fn write(&self) -> String {
        let mut text = format!("{HEADER}len {}\n", self.terms.len);
        for Delegation { duid, iaid, number, router, expires } in &self.all {
            // Writing to a string does not fail.
            let _ = writeln!(text, "part {} {iaid} {number} {router} {expires}", lease::hex(duid));
        }
        text + "end\n"
    }
}

/// Reads the delegations of parts of `len` bits. What a crash has left of a file is nothing.
pub(crate) fn read(text: &str, len: u8) -> Option<Vec<Delegation>> {
    let body = text.strip_prefix(HEADER)?.strip_suffix("end\n")?;
    let body = body.strip_prefix(&format!("len {len}\n"))?;
    let line = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let ["part", duid, iaid, number, router, expires] = words[..] else { return None };
        Some(Delegation {
            duid: lease::bytes(duid)?,
            iaid: iaid.parse().ok()?,
            number: number.parse().ok()?,
            router: router.parse().ok()?,
            expires: expires.parse().ok()?,
        })
    };
    body.lines().take(DELEGATIONS_MAX).map(line).collect()
}

#[cfg(test)]
mod tests {
    use wire::dhcp6::{Kind, View, option};

    use super::*;
    use crate::dhcp6::message::Builder;

    const NOW: u64 = 1_000_000_000;
    const HOUR: Terms = Terms { len: 60, lease_s: 3600 };

    fn source(net: &str, preferred_s: u64) -> Entry {
        let preferred = NOW + preferred_s * 1000;
        Entry { net: net.parse().unwrap(), preferred, valid: preferred + 600_000 }
    }

    fn delegations(sources: &[Entry]) -> Delegations {
        let mut own = Delegations::new(HOUR, Vec::new());
        own.settle(HOUR, sources.to_vec(), vec!["2001:db8:0:1::/64".parse().unwrap()]);
        own
    }

    /// Chooses a part for association `iaid` that asks for these prefixes.
    fn choose(own: &Delegations, duid: &[u8], iaid: u32, asked: &[(Ipv6Addr, u8)]) -> Option<u32> {
        let message =
            Builder::new(Kind::Solicit, 1).with_association(option::IA_PD, iaid, asked).into_bytes();
        let view = View::parse(&message).unwrap();
        own.choose(duid, view.options.associations(option::IA_PD).next().unwrap())
    }

    #[test]
    fn each_router_gets_a_part_of_its_own_and_the_same_one_of_the_next_prefix() {
        let mut own = delegations(&[source("2001:db8::/56", 7200)]);
        let router = "fe80::2".parse().unwrap();
        let mut numbers = Vec::new();
        let duid = |count: usize| [0, 1, u8::try_from(count).unwrap()];
        while let Some(number) = choose(&own, &duid(numbers.len()), 7, &[]) {
            own.put(&duid(numbers.len()), 7, number, router, NOW);
            numbers.push(number);
        }
        // The first part has one of our links.
        assert_eq!(numbers, (1..16).rev().collect::<Vec<_>>());
        let told = own.told(15, NOW);
        assert_eq!(told, [("2001:db8:0:f0::/60".parse().unwrap(), [3600, 3600])]);
        // The provider renumbers: the old prefix is not preferred any more.
        own.settle(
            HOUR,
            vec![
                Entry { preferred: NOW, ..source("2001:db8::/56", 100) },
                source("2001:db8:5500::/56", 7200),
            ],
            Vec::new(),
        );
        let told = own.told(15, NOW);
        assert_eq!(told[0], ("2001:db8:5500:f0::/60".parse().unwrap(), [3600, 3600]));
        assert_eq!(told[1], ("2001:db8:0:f0::/60".parse().unwrap(), [0, 700]));
        assert!(own.expire(NOW + 3_600_000) && own.all().is_empty());
    }

    #[test]
    fn a_part_that_is_asked_for_is_given_if_it_is_free() {
        let own = delegations(&[source("2001:db8::/56", 7200)]);
        let asked = |text: &str| (text.parse().unwrap(), 60);
        assert_eq!(choose(&own, b"one", 1, &[asked("2001:db8:0:50::")]), Some(5));
        assert_eq!(choose(&own, b"one", 1, &[asked("2001:db8::")]), Some(15), "it has one of our links");
        assert_eq!(choose(&own, b"one", 1, &[asked("::")]), Some(15));
        assert_eq!(choose(&delegations(&[]), b"one", 1, &[]), None);
        assert_eq!(choose(&delegations(&[source("2001:db8::/64", 9)]), b"one", 1, &[]), None, "too small");
    }

    #[test]
    fn no_more_are_delegated_than_there_is_room_for() {
        let mut own = delegations(&[source("2001:db8::/32", 7200)]);
        let router = "fe80::2".parse().unwrap();
        for iaid in 0..u32::try_from(DELEGATIONS_MAX).unwrap() {
            own.put(b"one", iaid, iaid + 100, router, NOW);
        }
        assert_eq!(choose(&own, b"one", 9999, &[]), None);
        assert_eq!(choose(&own, b"one", 7, &[]), Some(107));
    }

    #[test]
    fn delegations_are_read_as_they_were_written_and_a_part_of_a_file_is_nothing() {
        let mut own = delegations(&[source("2001:db8::/56", 7200)]);
        own.put(b"one", 1, 5, "fe80::2".parse().unwrap(), NOW);
        own.put(b"two", u32::MAX, 6, "fe80::3".parse().unwrap(), NOW);
        let text = own.write();
        assert_eq!(read(&text, 60).as_deref(), Some(own.all()));
        assert!((0..text.len()).all(|len| read(&text[..len], 60).is_none()));
        assert_eq!(read(&text, 64), None, "of other parts");
    }
}
