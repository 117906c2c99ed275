//! Commands that only look.

use core::ops::RangeInclusive;
use std::collections::BTreeMap;

use super::States;
use crate::api::client::escaped;
use crate::api::{
    FirewallRule, FirewallState, FirewallStates, FirewallStatus, FirewallTrack, FirewallTracks,
};
use crate::cli::{Failure, Session};
use crate::show;
use crate::show::ipfw::Columns;

/// States that are asked for at once.
const PAGE: usize = 1000;

/// Which rules are shown, and how.
pub(super) struct Rules<'a> {
    pub(super) columns: Columns,
    pub(super) states: States,
    /// `-e`: those too whose lives are over.
    pub(super) expired: bool,
    pub(super) set: Option<u8>,
    /// Only these; empty for all.
    pub(super) numbers: &'a [RangeInclusive<u16>],
}

impl Rules<'_> {
    fn names(&self, number: u16, set: u8) -> bool {
        let is_numbered = self.numbers.is_empty() || self.numbers.iter().any(|range| range.contains(&number));
        is_numbered && self.set.is_none_or(|only| only == set)
    }

    /// The rules that are meant; an error for a number that none has.
    fn of(&self, all: Vec<FirewallRule>) -> Result<Vec<FirewallRule>, Failure> {
        for range in self.numbers {
            if !all.iter().any(|rule| range.contains(&rule.number)) {
                let (from, to) = (range.start(), range.end());
                let which =
                    if from == to { format!("rule {from}") } else { format!("rule from {from} to {to}") };
                return Err(Failure::Failed(format!("ipfw: there is no {which}")));
            }
        }
        Ok(all.into_iter().filter(|rule| self.names(rule.number, rule.set)).collect())
    }

    /// All states of the rules that are meant, a page at a time.
    fn states(
        &self,
        session: &mut Session<'_>,
        mut see: impl FnMut(Vec<FirewallState>, &mut Session<'_>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let first = format!("/v1/firewall/states?limit={PAGE}&expired={}", self.expired);
        let mut path = first.clone();
        loop {
            let mut page: FirewallStates = session.client.get(&path)?;
            page.states.retain(|state| self.names(state.rule, state.set));
            see(page.states, session)?;
            let Some(next) = page.next else { return Ok(()) };
            path = format!("{first}&after={}", escaped(&next));
        }
    }

    /// The groups of states that a `limit` counts, each once, whichever CPUs have some of it.
    fn tracks(&self, session: &Session<'_>) -> Result<Vec<FirewallTrack>, Failure> {
        let first = format!("/v1/firewall/tracks?limit={PAGE}");
        let (mut path, mut all) = (first.clone(), BTreeMap::new());
        loop {
            let page: FirewallTracks = session.client.get(&path)?;
            let mine = page.tracks.into_iter().filter(|track| self.names(track.rule, track.set));
            for track in mine.filter(|track| track.total > 0 || self.expired) {
                all.insert(
                    (track.rule, track.proto, track.src, track.src_port, track.dst, track.dst_port),
                    track,
                );
            }
            let Some(next) = page.next else { return Ok(all.into_values().collect()) };
            path = format!("{first}&after={}", escaped(&next));
        }
    }

    fn show_states(&self, session: &mut Session<'_>) -> Result<(), Failure> {
        let status: FirewallStatus = session.client.get("/v1/firewall")?;
        if status.states > 0 {
            session.term.show(&show::ipfw::states_head(status.states))?;
        }
        self.states(session, |page, session| {
            Ok(session.term.show(&show::ipfw::states(&page, self.columns))?)
        })?;
        let tracks = self.tracks(session)?;
        Ok(session.term.show(&show::ipfw::tracks(&tracks, self.columns))?)
    }

    fn json_states(&self, session: &mut Session<'_>) -> Result<Vec<FirewallState>, Failure> {
        let mut all = Vec::new();
        self.states(session, |page, _| {
            all.extend(page);
            Ok(())
        })?;
        Ok(all)
    }
}

/// `list`, `show`, with states if they are asked for.
pub(super) fn rules(what: &Rules<'_>, session: &mut Session<'_>) -> Result<(), Failure> {
    let rules = match what.states {
        States::Only => Vec::new(),
        States::Too | States::No => what.of(session.client.get("/v1/firewall/rules")?)?,
    };
    match (what.states, session.json) {
        (States::No, _) => session.show(&rules, |rules| show::ipfw::rules(rules, what.columns)),
        (States::Too, true) => {
            let states = what.json_states(session)?;
            let all =
                serde_json::json!({ "rules": rules, "states": states, "tracks": what.tracks(session)? });
            session.show(&all, |_| String::new())
        }
        (States::Only, true) => {
            let states = what.json_states(session)?;
            session.show(&states, |_| String::new())
        }
        (States::Too | States::Only, false) => {
            session.term.show(&show::ipfw::rules(&rules, what.columns))?;
            what.show_states(session)
        }
    }
}

/// `set show`.
pub(super) fn sets(session: &mut Session<'_>) -> Result<(), Failure> {
    let status: FirewallStatus = session.client.get("/v1/firewall")?;
    session.show(&status, show::ipfw::sets)
}
