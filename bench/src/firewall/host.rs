//! Short connections to a host of several CPUs: what states cost where a segment is not only forwarded.
//!
//! Clients and server are [`short`](crate::short)'s, with a TIME-WAIT at the server, which closes first. Only what the server
//! does is counted. Time is the hosts' own, as in [`connections`](super::connections).

use core::time::Duration;

use anyhow::{Context, Result, ensure};
use net::drop::DropReason;
use net::netisr::Netisr;
use net::time::Instant;

use super::rules;
use super::segments::NEW;
use crate::cable::Kind;
use crate::frames::Family;
use crate::short::{Behind, PORT, Pace, Pair, Pairs, Serves, Wanted};

/// The firewall in front of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// Nothing.
    None,
    /// Rules that affect no packet.
    Empty,
    /// `check-state`, `allow tcp from any to me 80 setup keep-state`, and deny: a segment is asked about when it comes, and
    /// one that answers when it goes.
    States,
}

/// Their names, and what a reader is told.
pub const GUARDS: [(&str, Guard, &str); 3] = [
    ("none", Guard::None, "no firewall"),
    ("empty", Guard::Empty, "rules that affect no packet"),
    ("states", Guard::States, "states"),
];

/// Maximum segment lifetime; TIME-WAIT lasts twice as long.
const MSL: Duration = Duration::from_secs(1);
/// Time that passes before anything counts: as many connections are forgotten as begin, and as many states end.
const SETTLING: Duration = Duration::from_secs(4);

/// Two hosts.
pub struct Hosts {
    /// Their CPUs, which may be moved to threads.
    pub pairs: Pairs,
    span: Duration,
}

impl Hosts {
    /// Two hosts between which so many connections begin in a second, and for which all is as it will be from now on.
    ///
    /// # Errors
    ///
    /// When there is no memory, or connections fail.
    pub fn new(family: Family, guard: Guard, serves: Serves, cpus: u16, per_second: u32) -> Result<Self> {
        let mut hosts = Self::asking(PORT, family, guard, serves, cpus, per_second)?;
        let before: Vec<_> = hosts.pairs.cpus.iter().map(Pair::drops).collect();
        hosts.turn(hosts.turns(SETTLING), |server, now| _ = server.turn(now));
        hosts.pairs.cpus.iter_mut().zip(before).try_for_each(|(pair, before)| check(pair, &before))?;
        Ok(hosts)
    }

    fn asking(
        port: u16,
        family: Family,
        guard: Guard,
        serves: Serves,
        cpus: u16,
        per_second: u32,
    ) -> Result<Self> {
        let span = Duration::from_secs(NEW as u64) * cpus.into() / per_second;
        let (pace, behind, cable) = (Pace::EachTurn(NEW), Behind::Close, Kind::Plain);
        let mut pairs =
            Pairs::new(&Wanted { family, cpus, cable, pace, behind, serves, port, msl: MSL, span })?;
        if let Some(text) = guard.rules() {
            let shared = rules::shared(text, &pairs.tables, cpus)?;
            pairs.cpus.iter_mut().for_each(|pair| pair.server.set_firewall(&shared));
        }
        Ok(Self { pairs, span })
    }

    /// Turns of each CPU, one after the other in each; `serve` is the server's.
    pub fn turn(&mut self, turns: usize, serve: impl FnMut(&mut Netisr, Instant)) {
        self.pairs.turn(turns, serve);
    }

    /// Segments that have come to the server and gone from it since the start.
    #[must_use]
    pub fn segments(&self) -> usize {
        self.pairs.frames()
    }

    /// Turns that so much time takes.
    #[must_use]
    pub const fn turns(&self, time: Duration) -> usize {
        (time.as_nanos() / self.span.as_nanos()) as usize
    }

    /// States of all CPUs, and connections in whatever state they are.
    #[must_use]
    pub fn remembered(&self) -> (usize, usize) {
        let states = |cpu: &net::cpu::Cpu| cpu.firewall.as_ref().map_or(0, |wall| wall.states().len());
        let pcbs = |cpu: &net::cpu::Cpu| cpu.tcp.as_ref().map_or(0, |pcbs| pcbs.len());
        let all = self.pairs.cpus.iter().map(|pair| &pair.server.cpu);
        all.fold((0, 0), |(sum, pcb_sum), cpu| (sum + states(cpu), pcb_sum + pcbs(cpu)))
    }
}

/// Whether all connections have come to an end but the latest, and no packet has died that was to be served.
fn check(pair: &mut Pair, before: &[u64]) -> Result<()> {
    let seen = pair.seen();
    let (begun, answered) = (seen.begun, seen.answered);
    ensure!(
        seen.failed == 0 && begun - answered <= 8 * NEW,
        "{answered} of {begun} connections are answered"
    );
    let lost = DropReason::ALL.iter().zip(pair.drops()).zip(before);
    let lost: Vec<_> =
        lost.filter(|((_, now), before)| now != *before).map(|((reason, _), _)| reason).collect();
    ensure!(lost.is_empty(), "{lost:?}");
    Ok(())
}

impl Guard {
    /// The guard of this name.
    ///
    /// # Errors
    ///
    /// When it is none.
    pub fn named(name: &str) -> Result<Self> {
        let found = GUARDS.iter().find(|(known, ..)| *known == name);
        found.map(|(_, guard, _)| *guard).with_context(|| format!("nothing is called {name}"))
    }

    const fn rules(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Empty => Some("add allow ip from any to any\n"),
            Self::States => Some(
                "add check-state\nadd allow tcp from any to me 80 setup keep-state\nadd deny ip from any to any\n",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn serve(server: &mut Netisr, now: Instant) {
        server.turn(now);
    }

    #[test]
    fn connections_are_served_whatever_guards_the_server_and_leave_nothing_behind() {
        for family in [Family::Ip4, Family::Ip6] {
            for ((name, guard, _), serves) in
                GUARDS.into_iter().flat_map(|guard| [(guard, Serves::Least), (guard, Serves::Web)])
            {
                let mut hosts = Hosts::new(family, guard, serves, 2, 1000).unwrap();
                let (states, connections) = hosts.remembered();
                assert_eq!(states > 0, guard == Guard::States, "{name}: {states}");
                hosts.turn(hosts.turns(SETTLING), serve);
                let after = hosts.remembered();
                assert!(after.0 <= states * 11 / 10 && after.1 <= connections * 11 / 10, "{name}: {after:?}");
            }
        }
    }

    #[test]
    fn another_port_is_not_served() {
        let mut hosts = Hosts::asking(8080, Family::Ip4, Guard::States, Serves::Least, 1, 1000).unwrap();
        hosts.turn(3, serve);
        let denied = hosts.pairs.cpus[0].server.cpu.counters.dropped(DropReason::FirewallDeny);
        assert!(denied >= 2 * NEW as u64, "{denied}");
    }
}
