//! Firewalls of a random world: rules that are drawn and change, and the questions whether what they deny stays out.

use net::drop::DropReason;
use net::time::Duration;

use super::policy::{Addr, Packet, Policy, Proto};
use super::{FRONT, Plant, SERVICE, Tale, net};
use crate::firewall::HostFirewall;
use crate::plan::Family;
use crate::station::Flow;
use crate::world::{HostId, Permit, World};

/// Flows that each firewall is asked about when all is well.
const QUESTIONS: usize = 6;
/// Unruly arrivals that are listed.
const UNRULY_MAX: usize = 5;

impl Tale {
    /// Gives one of the firewalls other rules.
    pub(super) fn rule(&mut self, walled: usize) {
        let nets = net(self.cables.len() - 1);
        let friends = self.friends();
        let policy = Policy::draw(&mut self.random, self.judge.policies(), nets, friends);
        let (at, firewall) = &mut self.walled[walled];
        let before = self.judge.policy(*at).map(|before| (before.end(), before.clone()));
        let told = match (self.plant, &before) {
            (Some(Plant::OpenFirewall), _) => policy.clone().without_denials(),
            (Some(Plant::StaleRules), Some((_, before))) => before.clone(),
            _ => policy.clone(),
        };
        if self.plant != Some(Plant::StaleRules) || before.is_none() {
            firewall.obey(&before.map(|(end, _)| end).unwrap_or_default());
            firewall.obey(&told.text());
        }
        let is_set = self.world.of(self.routers[*at]).set_firewall(firewall);
        debug_assert!(is_set, "nothing else is being said to the router");
        let now = self.world.now();
        self.judge.rules(*at, policy, now);
    }

    /// The two stations that must reach each other when all is well.
    pub(super) fn friends(&self) -> [Addr; 2] {
        [Addr { net: net(0), host: 2 }, Addr { net: net(self.stations.len() - 1), host: 3 }]
    }

    /// Sends flows through each firewall when all is well: those that rules allow arrive whole, of others nothing does, and
    /// drops say so. Answers what is not so.
    pub(super) fn ask_the_rules(&mut self) -> Vec<String> {
        let mut wrong = Vec::new();
        for at in self.walled.iter().map(|(at, _)| *at).collect::<Vec<_>>() {
            for _ in 0..QUESTIONS {
                let hosts = [(); 2].map(|()| if self.random.chance(500_000) { 2 } else { 3 });
                let mut ends =
                    [Addr { net: net(at), host: hosts[0] }, Addr { net: net(at + 1), host: hosts[1] }];
                if self.random.chance(500_000) {
                    ends.reverse();
                }
                let (family, ports) = (Family::BOTH[self.random.below(2)], self.ports());
                let packet = Packet { family, proto: Proto::Udp, from: ends[0], to: ends[1], ports };
                wrong.extend(self.ask_about(at, packet));
            }
        }
        wrong
    }

    fn ask_about(&mut self, at: usize, packet: Packet) -> Option<String> {
        let refused = |tale: &mut Self| {
            let reasons = [DropReason::FirewallDeny, DropReason::FirewallReject];
            let routers = tale
                .routers
                .iter()
                .map(|router| reasons.map(|reason| tale.world.of(*router).dropped(reason)));
            routers.flatten().sum::<u64>()
        };
        let (before, is_allowed) = (refused(self), self.judge.allows(&packet));
        let to = packet.family.addr(packet.to.net, packet.to.host);
        let flow =
            Flow::to(to).ports(packet.ports[0], packet.ports[1]).count(5).gap(Duration::from_millis(5));
        let id = self.send(packet, flow);
        let may_arrive = is_allowed || self.judge.may_arrive(&packet, self.world.now(), self.world.now());
        self.world.run_for(Duration::from_secs(1));
        let (arrived, dropped) = (self.world.tally(id).received, refused(self) - before);
        self.world.judged[usize::from(!is_allowed)] += u64::from(flow.count);
        let is_right = match (is_allowed, may_arrive) {
            (true, _) => arrived == flow.count,
            (false, true) => true,
            (false, false) => arrived == 0 && dropped >= flow.count.into(),
        };
        let rules = self.judge.policy(at).map(Policy::text).unwrap_or_default();
        let meant = if is_allowed { "allowed" } else { "denied" };
        (!is_right).then(|| {
            format!("router {at}: {packet:?} is {meant}: {arrived} arrived, {dropped} dropped, by\n{rules}")
        })
    }

    /// Datagrams and echoes that have arrived though no policy that was in force let them pass. What nonsense has forged is
    /// not asked about.
    pub(super) fn unruly_arrivals(&mut self) -> Vec<String> {
        let mut unruly = Vec::new();
        for (id, packet) in &self.flows {
            for (number, at) in self.world.tally(*id).arrived {
                let sent = self.world.sent(*id, number);
                if self.world.permits(Permit::Nonsense, at) {
                    continue;
                }
                let may = self.judge.may_arrive(packet, sent, at);
                self.world.judged[0] += u64::from(may);
                if !may {
                    unruly.push(format!("{packet:?}, number {number}, arrived at {} ns", at.ns()));
                }
            }
        }
        for station in self.stations.iter().flatten() {
            let heard: Vec<_> = self.world.at(*station).heard.iter().copied().collect();
            let heard = heard.into_iter().filter(|heard| !self.world.permits(Permit::Nonsense, heard.at));
            let unruled = heard.filter(|heard| self.judge.may_be_heard(heard) == Some(false));
            unruly.extend(unruled.map(|heard| format!("{heard:?}")));
        }
        unruly.truncate(UNRULY_MAX);
        unruly
    }
}

/// The firewall of router `at`, without the rules that are drawn.
pub(super) fn firewall(routers: &[HostId], world: &mut World, at: usize) -> HostFirewall {
    let last = routers.len();
    let front = |family: Family| {
        let (to, by) = (family.addr(net(at + 1), 2), family.addr(net(at), 1));
        format!("add 200 rdr {to},{SERVICE} udp from any to {by} {FRONT} in\n")
    };
    let echoes = |family: Family| {
        let (one, other) = (family.addr(net(0), 2), family.addr(net(last), 3));
        let icmp = if family == Family::V4 { "icmp" } else { "ipv6-icmp" };
        format!("add 150 allow {icmp} from {one} to {other}\nadd 150 allow {icmp} from {other} to {one}\n")
    };
    let rules = format!(
        "add 1 allow ipv6-icmp from any to any icmp6types 133,134,135,136\nadd 100 check-state\n{}{}",
        Family::BOTH.map(echoes).concat(),
        Family::BOTH.map(front).concat()
    );
    let cpus = u16::try_from(world.of(routers[at]).cpus.len()).unwrap_or(1);
    HostFirewall::new(&rules, cpus, 16)
}
