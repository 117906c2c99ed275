//! The prefix of a link is configured, and a router advertisement on another link claims it: packets go where the
//! configuration says, and where it is shown, whatever came first.

use std::sync::Arc;

use net::fib::To;
use net::ip6::autoconf::{Identifiers, Settings};
use net::tables::{Learned, Tables};
use shuttle::rand::Rng;
use sim::host::{Host, Spec, ifindex};
use sim::plan::{self, Family};

use super::scene::{Scene, datagrams, explore, tour};

/// Datagrams in one order.
const DATAGRAMS: u8 = 3;
/// The network of the link, and the host there.
const LAN: u8 = 4;

/// The way in which the advertised prefix becomes a route.
#[derive(Clone, Copy, Debug)]
enum Claim {
    /// As what an advertisement has said.
    Learned,
    /// A planted fault: as if it had been configured.
    Configured,
}

/// A publication by the control thread.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// The prefix is configured on this port.
    Configure(usize),
    /// It is learnt on this one.
    Learn(usize, Claim),
}

impl Step {
    fn change(self, spec: &mut Spec) {
        match self {
            Self::Configure(port) => spec.ports[port].addrs.extend(plan::addrs(LAN, 1)),
            Self::Learn(port, Claim::Learned) => {
                let on_link = vec![Family::V6.prefix(LAN)];
                spec.ports[port].learned = Arc::new(Learned { on_link, ..Learned::default() });
            }
            Self::Learn(port, Claim::Configured) => spec.ports[port].addrs.extend(plan::addrs(LAN, 3)),
        }
    }

    fn publish(self, host: &mut Host) {
        let tables = host.prepare(|spec| self.change(spec));
        tour(host, move |netisr| netisr.set_tables(Arc::clone(&tables)));
    }
}

/// The port by which the tables lead to the host on the link.
fn port_of(tables: &Tables) -> Option<usize> {
    match tables.hop(0, Family::V6.addr(LAN, 2), || 0).to {
        To::OnLink { ifindex: found } => (0..3).find(|port| ifindex(*port) == found),
        _ => None,
    }
}

/// Publishes both in an order by chance, and then lets datagrams come. Answers whether one goes elsewhere than configured,
/// or the tables say so.
fn goes_astray(configured: usize, learnt: usize, claim: Claim) -> bool {
    let settings =
        Settings { identifiers: Identifiers::Eui64, temporary: false, dad_transmits: 1, dad_nonce: false };
    let mut scene = Scene::new(|mut spec| {
        spec.ports[learnt].autoconf = Some(settings);
        spec
    });
    for station in [scene.stations[1], scene.stations[2]] {
        plan::addrs(LAN, 2).into_iter().for_each(|addr| scene.world.at(station).add(addr));
    }
    let mut shown = None;
    let frames = datagrams(DATAGRAMS, (LAN, 2));
    scene.run(frames.clone(), |host, _| {
        let mut steps = [Step::Configure(configured), Step::Learn(learnt, claim)];
        if shuttle::rand::thread_rng().r#gen() {
            steps.reverse();
        }
        steps.into_iter().for_each(|step| step.publish(host));
    });
    let before = [scene.heard(2), scene.heard(3)];
    scene.run(frames, |host, _| {
        tour(host, |_| ());
        shown = Some(host.prepare(|_| ())).and_then(|tables| port_of(&tables));
    });
    let after = [scene.heard(2) - before[0], scene.heard(3) - before[1]];
    scene.world.forget();
    shown != Some(configured) || after[learnt - 1] > 0
}

#[test]
fn a_learnt_prefix_never_takes_what_is_configured_elsewhere() {
    for (configured, learnt) in [(1, 2), (2, 1)] {
        let wrong = explore(move || goes_astray(configured, learnt, Claim::Learned));
        assert_eq!(wrong, 0, "configured on port {configured}, learnt on port {learnt}");
    }
}

#[test]
fn planted_equality_of_what_is_learnt_and_configured_is_found() {
    let wrong = [(1, 2), (2, 1)]
        .map(|(configured, learnt)| explore(move || goes_astray(configured, learnt, Claim::Configured)));
    assert!(wrong.iter().sum::<usize>() > 0, "{wrong:?}");
}
