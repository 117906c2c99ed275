//! Replays the firewall's verdict of one packet of a flow on the others, without walking the rules: for the
//! [flow cache](crate::flow).

use ipfw::rule::{Action, NatTarget};
use pkt::Pkt;

use super::nat::Nat;
use super::nat::instance::Verdict as Translated;
use super::nat::nptv6::Nptv6;
use super::nat::table::BindingDirection;
use super::ruleset::{Compiled, RuleId, Seen as Asked};
use super::state::{Seen, States};
use super::trace::{Known, Lookups, Met, Trace, Translation};
use super::{Firewall, walk};
use crate::base::count::Counters;
use crate::base::time::Instant;

impl Firewall {
    /// Translates a packet as another of its flow was translated, and takes it into account in its state if it has one.
    /// False, and nothing has changed, if the rules must be asked about it.
    pub(crate) fn translate_again(
        &mut self,
        counters: &mut Counters,
        now: Instant,
        pkt: &mut Pkt,
        met: &Met,
        known: &Known,
        how: Lookups,
    ) -> bool {
        match met.translation() {
            None => false,
            Some(Translation::Nat(number, direction)) => {
                let Self { nat, states, .. } = self;
                let hits =
                    |pkt: &Pkt| how.times() == 0 || hits_again(states, pkt, (known, how), now).is_some();
                nat.translate_again(number, counters, now, pkt, (known.binding, direction), hits)
            }
            Some(Translation::Prefixes(rule)) => {
                let Some(prefixes) = self.prefixes_of(rule) else { return false };
                let hits = how.times() == 0 || self.hits_again(pkt, known, how, now).is_some();
                hits && prefixes.translate(pkt) == Translated::Translated
            }
        }
    }

    /// Takes a packet into account that hits a state which another of its flow has hit. `None`, and nothing has changed, if
    /// the rules must be asked about it. Answers whether the connection is closed by both ends now, or reset.
    #[inline]
    pub(crate) fn hits_again(
        &mut self,
        pkt: &Pkt,
        known: &Known,
        how: Lookups,
        now: Instant,
    ) -> Option<bool> {
        hits_again(&mut self.states, pkt, (known, how), now)
    }

    /// Whether the packets of a flow may go where only their number is known, as [`Self::forwarded`] tells it.
    pub(crate) fn may_release(&self, met: &Met, known: &Known, how: Lookups, now: Instant) -> bool {
        let is_bound = match met.translation() {
            None => !how.is_translated(),
            Some(Translation::Nat(number, _)) => self.nat.is_bound(number, known.binding, now),
            Some(Translation::Prefixes(rule)) => self.prefixes_of(rule).is_some(),
        };
        is_bound && (how.times() == 0 || self.states.may_release(known.state, now))
    }

    /// Whether a rule that the packets of a flow match keeps drivers from forwarding them: `nooffload`.
    pub(crate) fn refuses_offload(&self, met: &Met) -> bool {
        let mut rules = met.rules().iter().filter_map(|id| self.rules.rule(self.rules.by_id(*id)?));
        rules.any(|rule| rule.no_offload)
    }

    /// Lets them go there.
    pub(crate) fn release(&mut self, known: &Known, how: Lookups) {
        if how.times() > 0 {
            self.states.release(known.state);
        }
    }

    /// Takes packets of a flow into account that went where only their number is known. False if the next ones must come by
    /// here again.
    pub(crate) fn forwarded(
        &mut self,
        met: &Met,
        (known, how): (&Known, Lookups),
        is_tcp: bool,
        count: (u64, u64),
        now: Instant,
    ) -> bool {
        let (packets, bytes) = count;
        if packets > 0 {
            met.rules().iter().for_each(|rule| self.counters.count(*rule, packets, bytes, now));
        }
        let is_bound = match met.translation() {
            Some(Translation::Nat(number, direction)) => {
                self.nat.forwarded(number, (known.binding, direction), is_tcp, packets, now)
            }
            _ => true,
        };
        let is_alive =
            how.times() == 0 || self.states.forwarded(known.state, how.direction(), count, how.times(), now);
        is_bound && is_alive
    }

    fn prefixes_of(&self, rule: RuleId) -> Option<Nptv6> {
        match &self.rules.rule(self.rules.by_id(rule)?)?.action {
            Action::Nptv6(name) => self.prefixes.get(name).copied(),
            _ => None,
        }
    }
}

#[inline]
fn hits_again(states: &mut States, pkt: &Pkt, (known, how): (&Known, Lookups), now: Instant) -> Option<bool> {
    states.again(known.state, how.direction(), &Seen::of_usual(pkt), how.times(), now)
}

/// Notes what has translated a packet; or that another one of its flow may fare otherwise.
pub(super) fn note_translation(
    trace: &mut Trace,
    nat: &Nat,
    rule: &Compiled,
    asked: &Asked,
    (direction, outcome): (BindingDirection, Translated),
    is_ip4: bool,
) {
    let number = match rule.action {
        Action::Nat(NatTarget::Instance(number)) => walk::value(number, asked),
        _ => None,
    };
    let bound = number.and_then(|number| Some((number, nat.bound(number)?)));
    match (&rule.action, outcome, bound) {
        (Action::Nptv6(_), Translated::Translated, _) => {
            trace.translate(Translation::Prefixes(rule.id), None)
        }
        (Action::Nat(_), Translated::Translated, Some((number, binding))) => {
            trace.translate(Translation::Nat(number, direction), Some(binding));
        }
        // That lies in the addresses.
        (Action::Nptv6(_), Translated::Untouched, _) => {}
        (Action::Nat(_), Translated::Untouched, _) if !is_ip4 => {}
        _ => trace.holds = false,
    }
}

#[cfg(test)]
mod tests;
