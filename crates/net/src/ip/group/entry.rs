//! One group on a link, on the CPU that reports for the link: its filters, and pending reports.

use core::net::IpAddr;

use wire::membership::{Kind, Version};

use super::filter::{Filter, SOURCES_MAX};
use super::output::Record;
use crate::base::time::{Duration, Instant};
use crate::turn::cpu::CpuId;

/// One group.
#[derive(Default)]
pub(super) struct Entry {
    /// Filters of each CPU that has any.
    wanted: Vec<(CpuId, Filter)>,
    /// Joined by the host itself.
    pub(super) follows: bool,
    /// Merged filter.
    pub(super) filter: Filter,
    changes: Changes,
    answer: Option<Answer>,
}

/// Changes to be reported again.
#[derive(Default)]
struct Changes {
    /// Remaining reports of the filter mode.
    mode_left: u8,
    /// Remaining reports in an older version.
    short_left: u8,
    /// Remaining reports of single sources.
    sources_left: Vec<(IpAddr, u8)>,
    /// When next.
    at: Option<Instant>,
}

/// A pending answer to a query.
struct Answer {
    at: Instant,
    /// Senders; all, if there are none.
    sources: Vec<IpAddr>,
}

/// A report of the older versions, on leaving or joining.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Short {
    Joined,
    Left,
}

impl Entry {
    /// Tells whether there is a listener.
    pub(super) fn is_member(&self) -> bool {
        !self.filter.is_none()
    }

    /// Whether there is nothing to remember any more.
    pub(super) fn is_over(&self) -> bool {
        !self.is_member() && self.changes.at.is_none() && self.answer.is_none()
    }

    /// The sockets of a CPU want something else.
    pub(super) fn wants(&mut self, cpu: CpuId, filter: Filter) {
        self.wanted.retain(|(of, _)| *of != cpu);
        if !filter.is_none() {
            self.wanted.push((cpu, filter));
        }
    }

    /// Works out what follows from what is wanted, and begins to say what has changed, `times` times.
    pub(super) fn settle(&mut self, now: Instant, times: u8) {
        let all = Filter::ALL;
        let own = self.follows.then_some(&all);
        let new = Filter::merge(self.wanted.iter().map(|(_, filter)| filter).chain(own));
        let old = core::mem::replace(&mut self.filter, new);
        if old != self.filter {
            self.changed(&old, times);
            self.changes.at = Some(now);
        }
    }

    /// Settles after a report of another host.
    pub(super) fn settle_silently(&mut self, now: Instant) {
        let before = core::mem::take(&mut self.changes);
        self.settle(now, 0);
        self.changes = before;
    }

    /// Reports everything again, because no router has heard it yet.
    pub(super) fn say_again(&mut self, now: Instant, times: u8) {
        if self.is_member() {
            self.changes =
                Changes { mode_left: times, short_left: times, at: Some(now), ..Changes::default() };
        }
    }

    //= https://www.rfc-editor.org/rfc/rfc3376#section-5.1
    fn changed(&mut self, old: &Filter, times: u8) {
        let new = &self.filter;
        let Changes { mode_left, short_left, sources_left, .. } = &mut self.changes;
        if old.is_none() != new.is_none() {
            *short_left = times;
        }
        if old.excludes != new.excludes {
            // What is said of the mode has all sources.
            (*mode_left, *sources_left) = (times, Vec::new());
            return;
        }
        let gone = old.sources.iter().filter(|source| !new.names(**source));
        let come = new.sources.iter().filter(|source| !old.names(**source));
        for source in gone.chain(come) {
            sources_left.retain(|(of, _)| of != source);
            sources_left.push((*source, times));
        }
    }

    /// When there is something to say.
    pub(super) fn due(&self) -> Instant {
        let answer = self.answer.as_ref().map(|answer| answer.at);
        self.changes.at.into_iter().chain(answer).min().unwrap_or(Instant::NEVER)
    }

    /// Returns changes that are due to be reported. They are reported again after `gap`.
    //= https://www.rfc-editor.org/rfc/rfc3376#section-5.1
    pub(super) fn take_changes(&mut self, group: IpAddr, now: Instant, gap: Duration, out: &mut Vec<Record>) {
        if self.changes.at.is_none_or(|at| at > now) {
            return;
        }
        let Self { filter, changes: Changes { mode_left, short_left, sources_left, at }, .. } = self;
        if *mode_left > 0 {
            let kind = if filter.excludes { Kind::ToExclude } else { Kind::ToInclude };
            out.push(Record { kind, group, sources: filter.sources.clone() });
        } else {
            for (kind, admitted) in [(Kind::Allow, true), (Kind::Block, false)] {
                let of_kind = sources_left.iter().map(|(source, _)| *source);
                let sources: Vec<_> = of_kind.filter(|source| filter.admits(*source) == admitted).collect();
                if !sources.is_empty() {
                    out.push(Record { kind, group, sources });
                }
            }
        }
        (*mode_left, *short_left) = (mode_left.saturating_sub(1), 0);
        sources_left.iter_mut().for_each(|(_, left)| *left = left.saturating_sub(1));
        sources_left.retain(|(_, left)| *left > 0);
        *at = (*mode_left > 0 || !sources_left.is_empty()).then(|| now + gap);
    }

    /// Returns a due report of an older version, which knows no sources.
    //= https://www.rfc-editor.org/rfc/rfc2236#section-3
    pub(super) fn take_short(&mut self, now: Instant, version: Version, gap: Duration) -> Option<Short> {
        self.changes.at.filter(|at| *at <= now)?;
        let is_told = self.changes.short_left > 0;
        let short_left = self.changes.short_left.saturating_sub(1);
        self.changes = Changes::default();
        if !self.is_member() {
            return (is_told && version == Version::V2).then_some(Short::Left);
        }
        if short_left > 0 {
            (self.changes.short_left, self.changes.at) = (short_left, Some(now + gap));
        }
        is_told.then_some(Short::Joined)
    }

    /// A router asks, for `sources` or for all; the answer is given at `at`.
    //= https://www.rfc-editor.org/rfc/rfc3376#section-5.2
    pub(super) fn asked(&mut self, at: Instant, sources: &[IpAddr]) {
        let Some(answer) = &mut self.answer else {
            self.answer = Some(Answer { at, sources: bounded(sources.to_vec()) });
            return;
        };
        answer.at = answer.at.min(at);
        if sources.is_empty() || answer.sources.is_empty() {
            answer.sources.clear();
        } else {
            answer.sources.extend(sources);
            answer.sources.sort_unstable();
            answer.sources.dedup();
            answer.sources = bounded(core::mem::take(&mut answer.sources));
        }
    }

    /// The answer, if it is time for it.
    pub(super) fn take_answer(&mut self, group: IpAddr, now: Instant) -> Option<Record> {
        let Answer { sources, .. } = self.answer.take_if(|answer| answer.at <= now)?;
        if sources.is_empty() {
            return self.state(group);
        }
        let sources: Vec<_> = sources.into_iter().filter(|source| self.filter.admits(*source)).collect();
        (!sources.is_empty()).then_some(Record { kind: Kind::IsInclude, group, sources })
    }

    /// All that is wanted.
    pub(super) fn state(&self, group: IpAddr) -> Option<Record> {
        let kind = if self.filter.excludes { Kind::IsExclude } else { Kind::IsInclude };
        self.is_member().then(|| Record { kind, group, sources: self.filter.sources.clone() })
    }

    /// Another host has answered, or the older version has ended.
    pub(super) fn forget_answer(&mut self) {
        self.answer = None;
    }

    /// Nothing is said any more of what has changed.
    pub(super) fn forget_changes(&mut self) {
        self.changes = Changes::default();
    }
}

/// Too many sources are replaced by all: an answer for the whole group is valid.
fn bounded(sources: Vec<IpAddr>) -> Vec<IpAddr> {
    if sources.len() > SOURCES_MAX { Vec::new() } else { sources }
}
