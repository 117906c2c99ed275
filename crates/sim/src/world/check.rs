//! Invariants of every world.

use net::count::Count;
use net::time::{Duration, Instant};

use super::{Permit, World, ledger};
use crate::host::Host;
use crate::station::{FlowId, Station};

/// Longest time for a world to come to rest: longer than any timeout of the stack.
const REST_MAX: Duration = Duration::from_secs(200);
/// Interval at which CPUs are asked to turn meanwhile.
const REST_STEP: Duration = Duration::from_millis(500);

/// An invariant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Check {
    /// Free buffers, and those in rings, are all that there are.
    Conservation,
    /// No handle of a buffer is dropped.
    Leak,
    /// Packets received and made equal packets sent, used up, and dropped for a reason.
    Accounting,
    /// Packets are handled by the CPU that owns them.
    Ownership,
    /// Flows keep their order, and nothing arrives twice.
    Order,
    /// Losses of flows have a drop reason.
    Loss,
    /// Cards get what they can do, cables what they can carry.
    Device,
    /// When all is well again, everybody is reached.
    Reach,
    /// Denied packets do not arrive; allowed ones do when all is well.
    Firewall,
    /// Stations hear nothing that is wrong.
    Nonsense,
}

/// Something that should hold, and does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The invariant.
    pub check: Check,
    /// In words.
    pub text: String,
}

impl World {
    /// Lets the world come to rest: no station sends any more, and no packet is in the stack or on a cable. Returns
    /// whether it did.
    ///
    /// Freed buffers on their way home wake no CPU, so CPUs are asked to turn now and then.
    pub fn settle(&mut self) -> bool {
        let until = self.now + REST_MAX;
        while !self.is_at_rest() && self.now < until {
            self.run_for(REST_STEP);
            for host in &self.hosts {
                (0..host.cpus.len()).for_each(|cpu| _ = host.call(cpu, |_| {}));
            }
        }
        self.is_at_rest()
    }

    /// Lets the world come to rest, and answers what is wrong with it then.
    #[must_use]
    pub fn check(&mut self) -> Vec<Broken> {
        self.settle();
        let mut broken = Vec::new();
        for host in &self.hosts {
            conservation(host, &mut broken);
            if host.outstanding() == 0 {
                accounting(host, &mut broken);
            }
            ownership(host, &mut broken);
            devices(host, &mut broken);
        }
        self.cables_carried_all(&mut broken);
        self.flows_kept_their_order(&mut broken);
        self.losses_have_a_reason(&mut broken);
        self.stations_heard_no_nonsense(&mut broken);
        self.end(&mut broken);
        broken
    }

    fn is_at_rest(&self) -> bool {
        self.events.is_empty()
            && self.stations.iter().all(Station::is_idle)
            && self
                .hosts
                .iter()
                .all(|host| host.outstanding() == 0 && !host.nics.iter().any(crate::mem::Nic::is_busy))
    }

    fn stations_heard_no_nonsense(&self, broken: &mut Vec<Broken>) {
        if self.cables.iter().any(|cable| cable.spec.corrupt > 0) {
            return;
        }
        let complaints = self.stations.iter().flat_map(|station| &station.complaints);
        let is_odd = |at: Instant| !self.permits.cover(Permit::Nonsense, at, at);
        let odd = complaints.filter(|complaint| is_odd(complaint.at));
        odd.for_each(|complaint| note(broken, Check::Nonsense, complaint.text.clone()));
    }

    /// Frames longer than the MTU of their cable are made by nonsense only, and not any more when that has ended.
    fn cables_carried_all(&self, broken: &mut Vec<Broken>) {
        let before = self.permits.renewed.filter(|_| self.permits.ever(Permit::Nonsense));
        let is_excused = self.permits(Permit::Nonsense, self.now)
            || self.permits.ever(Permit::Nonsense) && before.is_none()
            || self.cables.iter().any(|cable| cable.spec.corrupt > 0);
        let oversized = self.oversized() - before.map_or(0, |before| before.oversized);
        if !is_excused && oversized > 0 {
            note(broken, Check::Device, format!("{oversized} frames longer than the MTU of their cable"));
        }
    }

    /// Frames that were longer than the MTU of their cable.
    pub(super) fn oversized(&self) -> u64 {
        self.cables.iter().map(|cable| cable.counts.oversized).sum()
    }

    fn flows_kept_their_order(&self, broken: &mut Vec<Broken>) {
        if !self.cables.iter().all(|cable| cable.spec.is_orderly()) {
            return;
        }
        for (at, (_, to, flow)) in (0..).zip(&self.flows) {
            let tally = self.stations[to.0].tally(FlowId(at));
            let is_odd = |at: &&Instant| !self.permits.cover(Permit::Disorder, **at, **at);
            let odd = tally.disorder.iter().filter(is_odd).count();
            if odd > 0 {
                let (late, twice) = (tally.late, tally.duplicates);
                let known = format!("{late} late and {twice} twice in all");
                note(broken, Check::Order, format!("flow {at} to {}: {odd} out of order, {known}", flow.to));
            }
        }
    }

    /// Each datagram that is missing was lost on a cable, in a card, or was dropped by a host: in the whole life of the
    /// world, and since the end of the last cause of irregularities.
    fn losses_have_a_reason(&self, broken: &mut Vec<Broken>) {
        let known = self.losses();
        let renewed = self.permits.renewed.map(|renewed| (renewed.at, known - renewed.losses));
        for (since, known) in [(Instant::START, known)].into_iter().chain(renewed) {
            let missing = self.missing_since(since);
            if missing > known {
                let text = format!("{missing} datagrams are missing since {} ns, {known} lost", since.ns());
                note(broken, Check::Loss, text);
            }
        }
    }

    /// Datagrams that were sent after `since`, are missing, and had no permission to be.
    fn missing_since(&self, since: Instant) -> u64 {
        let flows = (0..).zip(&self.flows).zip(&self.begun);
        let missing = flows.map(|((at, (_, to, flow)), begun)| {
            let tally = self.stations[to.0].tally(FlowId(at));
            let is_missing = |number: &u32| {
                let sent = flow.leaves(*begun, *number);
                sent > since && !tally.has(*number) && !self.permits.cover_loss(sent)
            };
            (0..flow.count).filter(is_missing).count() as u64
        });
        missing.sum()
    }

    /// Packets lost so far for a reason that is counted.
    pub(super) fn losses(&self) -> u64 {
        let cables = self.cables.iter().map(|cable| cable.counts);
        let cables: u64 = cables.map(|counts| counts.lost + counts.oversized + counts.corrupted).sum();
        let cards = self.hosts.iter().flat_map(|host| &host.nics).map(crate::mem::Nic::counts);
        let cards: u64 =
            cards.map(|counts| counts.dropped + counts.too_long + counts.refused + counts.unplugged).sum();
        let hosts: u64 = self.hosts.iter().map(Host::dropped_in_all).sum();
        let stations: u64 = self.stations.iter().map(|station| station.lost).sum();
        cables + cards + hosts + stations
    }

    fn end(&mut self, broken: &mut Vec<Broken>) {
        for host in &mut self.hosts {
            host.shut_down();
            // What was kept until now has ended, and why.
            accounting(host, broken);
            let lost = host.outstanding();
            if lost != 0 {
                note(
                    broken,
                    Check::Conservation,
                    format!("{}: {lost} buffers missing at its end", host.spec.name),
                );
            }
        }
    }
}

fn conservation(host: &Host, broken: &mut Vec<Broken>) {
    let (name, outstanding, leaked) = (&host.spec.name, host.outstanding(), host.leaked());
    if outstanding != 0 {
        let text = format!("{name}: {outstanding} of {} buffers are nowhere at rest", host.buffers());
        note(broken, Check::Conservation, text);
    }
    if leaked != 0 {
        note(broken, Check::Leak, format!("{name}: {leaked} handles were dropped"));
    }
}

fn accounting(host: &Host, broken: &mut Vec<Broken>) {
    for error in ledger::errors(host) {
        note(broken, Check::Accounting, format!("{}: {error}", host.spec.name));
    }
}

fn ownership(host: &Host, broken: &mut Vec<Broken>) {
    let strays = host.count(Count::Strays);
    if strays > 0 {
        let text =
            format!("{}: {strays} packets were handled by a CPU that does not own them", host.spec.name);
        note(broken, Check::Ownership, text);
    }
}

fn devices(host: &Host, broken: &mut Vec<Broken>) {
    for misuse in host.nics.iter().flat_map(crate::mem::Nic::misuse) {
        note(broken, Check::Device, format!("{}: {misuse}", host.spec.name));
    }
}

fn note(broken: &mut Vec<Broken>, check: Check, text: String) {
    broken.push(Broken { check, text });
}
