//! All groups on a link, on the CPU that speaks for it.

use core::net::IpAddr;
use std::collections::BTreeMap;

use wire::membership::{Kind, Version};

use super::entry::{Entry, Short};
use super::filter::Filter;
use super::implied;
use super::output::{self, Record};
use crate::base::secret::Secret;
use crate::base::time::{Duration, Instant};
use crate::link::tables::IfIndex;
use crate::turn::cpu::{Cpu, CpuId};

/// Robustness variable, unless the querier gives another (RFC 3376 §8.1).
const ROBUSTNESS: u8 = 2;
/// Between general queries, unless the querier says (RFC 3376 §8.2).
const QUERY_INTERVAL: Duration = Duration::from_secs(125);
/// Interval of repeated reports of a change (RFC 3376 §8.11).
const REPORT_INTERVAL: Duration = Duration::from_secs(1);
/// That interval in older versions (RFC 2236 §8.10, RFC 2710 §7.10).
const REPORT_INTERVAL_SHORT: Duration = Duration::from_secs(10);
/// The longest time for an answer: what MLDv2 can say at the most, over two hours.
const MAX_DELAY_MS: u32 = 8_387_584;

/// A link.
pub(super) struct Link {
    pub(super) ifindex: IfIndex,
    is_up: bool,
    pub(super) entries: BTreeMap<IpAddr, Entry>,
    /// Queriers of IPv4 and of IPv6.
    queriers: [Querier; 2],
    /// When the timer fires that is set.
    pub(super) armed: Instant,
}

// docs/reference/LIMITS.md says so.
const _: () = assert!(size_of::<(IpAddr, Entry)>() <= 160 && size_of::<IpAddr>() == 17);

/// The querier of a link.
#[derive(Clone, Copy)]
struct Querier {
    robustness: u8,
    interval: Duration,
    /// Until when one of version 1, and of version 2, is thought to be there.
    older_until: [Instant; 2],
    /// When all groups are reported, because it has asked for all.
    all_due: Option<Instant>,
}

/// A query.
pub(super) struct Asked {
    pub(super) is_v6: bool,
    pub(super) version: Version,
    pub(super) max_delay_ms: u32,
    pub(super) robustness: u8,
    pub(super) interval_s: u32,
    pub(super) group: Option<IpAddr>,
    pub(super) sources: Vec<IpAddr>,
}

/// A report of a link.
#[derive(Default)]
struct Said {
    records: [Vec<Record>; 2],
    short: Vec<(Version, IpAddr, Short)>,
}

impl Querier {
    const NONE: Self = Self {
        robustness: ROBUSTNESS,
        interval: QUERY_INTERVAL,
        older_until: [Instant::START; 2],
        all_due: None,
    };

    /// The version in which is spoken.
    //= https://www.rfc-editor.org/rfc/rfc3376#section-7.2.1
    fn version(&self, now: Instant) -> Version {
        match self.older_until {
            [v1, _] if v1 > now => Version::V1,
            [_, v2] if v2 > now => Version::V2,
            _ => Version::V3,
        }
    }

    /// Notes the querier's version.
    //= https://www.rfc-editor.org/rfc/rfc3376#section-8.12
    //# This value MUST be ((the Robustness Variable) times (the Query
    //# Interval in the last Query received)) plus (one Query Response
    //# Interval).
    fn heard(&mut self, now: Instant, asked: &Asked) {
        let until = |querier: &Self| {
            let response = Duration::from_millis(asked.max_delay_ms.into());
            now + querier.interval * u32::from(querier.robustness) + response
        };
        match asked.version {
            Version::V1 => self.older_until[0] = until(self),
            Version::V2 => self.older_until[1] = until(self),
            Version::V3 => {
                self.robustness = if asked.robustness == 0 { ROBUSTNESS } else { asked.robustness };
                let interval = Duration::from_secs(asked.interval_s.into());
                self.interval = if interval.is_zero() { QUERY_INTERVAL } else { interval };
            }
        }
    }
}

impl Link {
    pub(super) fn new(ifindex: IfIndex) -> Self {
        Self {
            ifindex,
            is_up: false,
            entries: BTreeMap::new(),
            queriers: [Querier::NONE; 2],
            armed: Instant::NEVER,
        }
    }

    /// The interface is as `cpu.tables` says. What is in it before routers are told is told when it comes up.
    pub(super) fn tables_changed(&mut self, cpu: &Cpu) {
        let ifnet = cpu.tables.ifnet(self.ifindex).filter(|ifnet| ifnet.up);
        let comes_up = ifnet.is_some() && !self.is_up;
        self.is_up = ifnet.is_some();
        if !self.is_up {
            self.queriers = [Querier::NONE; 2];
            self.entries.values_mut().for_each(Entry::forget_changes);
        }
        let followed = ifnet.map(|ifnet| implied::reported(ifnet, cpu.tables.forwarding)).unwrap_or_default();
        for group in &followed {
            // The search for duplicates has told of those of addresses (RFC 4862 §5.4.2).
            let entry = self.entries.entry(*group).or_default();
            if !core::mem::replace(&mut entry.follows, true) {
                entry.settle_silently(cpu.now);
            }
        }
        for (group, entry) in &mut self.entries {
            let times = self.queriers[usize::from(group.is_ipv6())].robustness;
            if entry.follows && followed.binary_search(group).is_err() {
                entry.follows = false;
                entry.settle(cpu.now, if self.is_up { times } else { 0 });
            }
            if comes_up && !entry.follows {
                entry.say_again(cpu.now, times);
            }
        }
        self.entries.retain(|_, entry| !entry.is_over());
    }

    /// The sockets of a CPU want something else of a group. Answers whether we are in it now, if that has changed.
    pub(super) fn wants(&mut self, now: Instant, from: CpuId, group: IpAddr, filter: Filter) -> Option<bool> {
        let times = self.queriers[usize::from(group.is_ipv6())].robustness;
        let entry = self.entries.entry(group).or_default();
        let was_member = entry.is_member();
        entry.wants(from, filter);
        entry.settle(now, times);
        if !self.is_up {
            entry.forget_changes();
        }
        let (is_member, is_over) = (entry.is_member(), entry.is_over());
        if is_over {
            self.entries.remove(&group);
        }
        Some(is_member).filter(|is_member| *is_member != was_member)
    }

    /// A router asks.
    //= https://www.rfc-editor.org/rfc/rfc3376#section-5.2
    pub(super) fn asked(&mut self, now: Instant, asked: &Asked, secret: &mut Secret) {
        let querier = &mut self.queriers[usize::from(asked.is_v6)];
        let before = querier.version(now);
        querier.heard(now, asked);
        let version = querier.version(now);
        if version != before {
            self.cancel(asked.is_v6);
        }
        let max = u64::from(asked.max_delay_ms.clamp(1, MAX_DELAY_MS));
        let mut delay = || Duration::from_millis(secret.below(max));
        let Some(group) = asked.group else { return self.asked_for_all(now, asked.is_v6, version, delay) };
        let is_soon = |due: Option<Instant>, at| due.is_some_and(|due| due < at);
        let at = now + delay();
        let all_due = self.queriers[usize::from(asked.is_v6)].all_due;
        if let Some(entry) = self.entries.get_mut(&group)
            && entry.is_member()
            && !is_soon(all_due, at)
        {
            entry.asked(at, if version == Version::V3 { &asked.sources } else { &[] });
        }
    }

    /// In older versions each group has its own time to answer.
    fn asked_for_all(
        &mut self,
        now: Instant,
        is_v6: bool,
        version: Version,
        mut delay: impl FnMut() -> Duration,
    ) {
        if version == Version::V3 {
            let due = &mut self.queriers[usize::from(is_v6)].all_due;
            let at = now + delay();
            *due = Some(due.map_or(at, |before| before.min(at)));
            return;
        }
        for (_, entry) in of_family(&mut self.entries, is_v6).filter(|(_, entry)| entry.is_member()) {
            entry.asked(now + delay(), &[]);
        }
    }

    /// Handles a report of another host; in older versions that suppresses ours.
    //= https://www.rfc-editor.org/rfc/rfc2236#section-3
    pub(super) fn reported(&mut self, now: Instant, group: IpAddr) {
        if self.queriers[usize::from(group.is_ipv6())].version(now) < Version::V3
            && let Some(entry) = self.entries.get_mut(&group)
        {
            entry.forget_answer();
        }
    }

    //= https://www.rfc-editor.org/rfc/rfc3376#section-7.2.1
    //# Whenever a host changes its compatibility mode, it cancels all its
    //# pending response and retransmission timers.
    fn cancel(&mut self, is_v6: bool) {
        self.queriers[usize::from(is_v6)].all_due = None;
        for (_, entry) in of_family(&mut self.entries, is_v6) {
            entry.forget_answer();
            entry.forget_changes();
        }
    }

    /// When there is something to say.
    pub(super) fn due(&self) -> Instant {
        if !self.is_up {
            return Instant::NEVER;
        }
        let all = self.queriers.iter().filter_map(|querier| querier.all_due);
        self.entries.values().map(Entry::due).chain(all).min().unwrap_or(Instant::NEVER)
    }

    /// Says what is due.
    pub(super) fn speak(&mut self, cpu: &mut Cpu) {
        let mut said = Said::default();
        for (group, entry) in &mut self.entries {
            let version = self.queriers[usize::from(group.is_ipv6())].version(cpu.now);
            said.hear(*group, entry, version, cpu);
        }
        for (is_v6, querier) in [false, true].into_iter().zip(&mut self.queriers) {
            if querier.all_due.take_if(|at| *at <= cpu.now).is_some() {
                let all = of_family(&mut self.entries, is_v6);
                said.records[usize::from(is_v6)].extend(all.filter_map(|(group, entry)| entry.state(*group)));
            }
        }
        self.entries.retain(|_, entry| !entry.is_over());
        said.send(cpu, self.ifindex);
    }

    /// The groups in which we are, for people.
    pub(super) fn memberships(&self) -> impl Iterator<Item = (IpAddr, &Filter)> {
        self.entries
            .iter()
            .filter(|(_, entry)| entry.is_member())
            .map(|(group, entry)| (*group, &entry.filter))
    }
}

fn of_family(
    entries: &mut BTreeMap<IpAddr, Entry>,
    is_v6: bool,
) -> impl Iterator<Item = (&IpAddr, &mut Entry)> {
    entries.iter_mut().filter(move |(group, _)| group.is_ipv6() == is_v6)
}

impl Said {
    fn hear(&mut self, group: IpAddr, entry: &mut Entry, version: Version, cpu: &mut Cpu) {
        let now = cpu.now;
        let records = &mut self.records[usize::from(group.is_ipv6())];
        if version == Version::V3 {
            entry.take_changes(group, now, gap(&mut cpu.secret, REPORT_INTERVAL), records);
            records.extend(entry.take_answer(group, now));
            return;
        }
        let changed = entry.take_short(now, version, gap(&mut cpu.secret, REPORT_INTERVAL_SHORT));
        let answer = entry.take_answer(group, now).map(|_| Short::Joined);
        //= https://www.rfc-editor.org/rfc/rfc4607#section-8
        //# A host that complies with this document will send ONLY source-
        //# specific host reports for addresses in the SSM range.
        if !implied::is_source_specific(group) {
            self.short.extend(changed.or(answer).map(|short| (version, group, short)));
        }
    }

    fn send(self, cpu: &mut Cpu, ifindex: IfIndex) {
        for (records, is_v6) in self.records.iter().zip([false, true]) {
            output::report(cpu, ifindex, is_v6, records);
        }
        for (version, group, short) in self.short {
            output::short(cpu, ifindex, version, group, short);
        }
    }
}

/// A random part of `most`.
fn gap(secret: &mut Secret, most: Duration) -> Duration {
    Duration::from_millis(1 + secret.below(u64::try_from(most.as_millis()).unwrap_or(1)))
}

/// Returns the report for joining the group of an address under detection.
pub(super) const fn joined(group: IpAddr) -> Record {
    Record { kind: Kind::ToExclude, group, sources: Vec::new() }
}
