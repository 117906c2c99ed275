//! Tables and rules change at once, or what neither the old nor the new configuration lets pass may pass between them.

use std::sync::Arc;

use net::fib::{Route, To};
use net::time::Duration;
use pkt::shared::interleave;
use shuttle::rand::Rng;
use sim::firewall::HostFirewall;
use sim::host::{Spec, ifindex};
use sim::plan::Family;

use super::scene::{BEHIND, Scene, datagrams, explore, tour};

/// Datagrams of each family in one order.
const DATAGRAMS: u8 = 4;

/// The order in which a control thread publishes.
#[derive(Clone, Copy, Debug)]
enum Order {
    /// Tables and rules in one visit of each CPU.
    Together,
    /// A planted fault: rules when all CPUs have the tables.
    TablesThenRules,
    /// A planted fault: tables when all CPUs have the rules.
    RulesThenTables,
}

/// A configuration, as far as it differs.
#[derive(Clone, Copy, Debug)]
struct Side {
    forwards: bool,
    /// The link by which [`BEHIND`] is reached.
    link: u8,
    rules: &'static str,
}

/// A change of the configuration.
#[derive(Clone, Copy, Debug)]
struct Change {
    before: Side,
    after: Side,
    /// Flows that the flow cache remembers.
    flows: Option<usize>,
}

/// Forwarding comes with the rule that restricts it.
const OPENING: Change = Change {
    before: Side { forwards: false, link: 2, rules: "add 100 allow ip from any to any" },
    after: Side { forwards: true, link: 2, rules: "add 100 deny udp from any to any" },
    flows: None,
};

/// A route moves to another link, and so does the rule that nothing leaves by it.
const MOVING: Change = Change {
    before: Side {
        forwards: true,
        link: 2,
        rules: "add 100 deny udp from any to any out xmit mem1\nadd 200 allow ip from any to any",
    },
    after: Side {
        forwards: true,
        link: 3,
        rules: "add 100 deny udp from any to any out xmit mem2\nadd 200 allow ip from any to any",
    },
    flows: None,
};

/// A change with a flow cache.
const MOVING_REMEMBERED: Change = Change { flows: Some(16), ..MOVING };

/// A route moves, and all is allowed.
const OPEN: Change = Change {
    before: Side { forwards: true, link: 2, rules: "add 100 allow ip from any to any" },
    after: Side { forwards: true, link: 3, rules: "add 100 allow ip from any to any keep-state" },
    flows: None,
};

impl Side {
    fn configure(self, spec: &mut Spec) {
        spec.forwarding = self.forwards;
        let route = |family: Family| {
            let (ifindex, via) = (ifindex(usize::from(self.link) - 1), family.addr(self.link, 2));
            Route::new(family.prefix(BEHIND.0), To::Gateway { ifindex, via })
        };
        spec.routes = Family::BOTH.map(route).to_vec();
    }
}

/// Changes the configuration while datagrams are on their way; answers how many have arrived.
fn arrived(change: Change, order: Order) -> usize {
    let mut scene = Scene::new(|spec| match change.flows {
        Some(flows) => spec.flows(flows),
        None => spec,
    });
    let mut firewall = HostFirewall::new(change.before.rules, 2, 16);
    assert!(scene.host().change(|spec| change.before.configure(spec)));
    assert!(scene.host().set_firewall(&mut firewall));
    scene.world.run_for(Duration::from_secs(1));
    scene.run(datagrams(DATAGRAMS, BEHIND), |host, rings| {
        if shuttle::rand::thread_rng().r#gen() {
            rings.move_away(host);
        }
        // What no netisr sees yet has no orders; it would take longer than all datagrams are on their way.
        interleave(false);
        let mut firewall = HostFirewall::new(change.after.rules, 2, 16);
        let tables = host.prepare(|spec| change.after.configure(spec));
        let shared = Arc::new(firewall.shared(&tables));
        interleave(true);
        let (rules, again) = (Arc::clone(&shared), Arc::clone(&tables));
        match order {
            Order::Together => tour(host, move |netisr| {
                netisr.set_tables(Arc::clone(&tables));
                netisr.set_firewall(&shared);
            }),
            Order::TablesThenRules => {
                tour(host, move |netisr| netisr.set_tables(Arc::clone(&tables)));
                tour(host, move |netisr| netisr.set_firewall(&rules));
            }
            Order::RulesThenTables => {
                tour(host, move |netisr| netisr.set_firewall(&rules));
                tour(host, move |netisr| netisr.set_tables(Arc::clone(&again)));
            }
        }
    });
    let arrived = scene.heard(2) + scene.heard(3);
    scene.world.finish();
    arrived
}

#[test]
fn nothing_passes_that_neither_configuration_lets_pass() {
    for change in [OPENING, MOVING, MOVING_REMEMBERED] {
        let wrong = explore(move || arrived(change, Order::Together) > 0);
        assert_eq!(wrong, 0, "{change:?}");
    }
}

#[test]
fn nothing_is_lost_that_both_configurations_let_pass() {
    let wrong = explore(|| arrived(OPEN, Order::Together) != 2 * usize::from(DATAGRAMS));
    assert_eq!(wrong, 0);
}

#[test]
fn planted_tables_before_rules_are_found() {
    assert!(explore(|| arrived(OPENING, Order::TablesThenRules) > 0) > 0);
    assert!(explore(|| arrived(MOVING, Order::TablesThenRules) > 0) > 0);
}

#[test]
fn planted_rules_before_tables_are_found() {
    assert!(explore(|| arrived(MOVING, Order::RulesThenTables) > 0) > 0);
}
