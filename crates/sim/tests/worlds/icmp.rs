//! ICMP replies of hosts, and errors of routers.

use core::sync::atomic::Ordering;

use net::count::Count;
use net::fib::To;
use net::time::Duration;
use sim::cable;
use sim::host::{Port, Spec};
use sim::mem::Rss;
use sim::plan::{self, Family, mac};
use sim::station::{Flow, IcmpError, Station};
use sim::world::{HostId, StationId, World};

use crate::common::{BOOT, Shape, pair, pair_with, seeds, station};

const SECOND: Duration = Duration::from_secs(1);

/// Three routers in a line, 1 to 3, between networks 1 and 4: router `n` is host 1 on network `n`, 254 on the next.
fn line(name: &str, seed: u64, cpus: u16, rings: usize, rss: Rss) -> (World, Vec<HostId>, [StationId; 2]) {
    let mut world = World::new(name, seed);
    let cables: Vec<_> = (0..4).map(|_| world.cable(cable::Spec::default())).collect();
    let mut routers = Vec::new();
    for at in 1..=3_u8 {
        let port = |net: u8, host| Port::new(cables[usize::from(net) - 1], net, host).rings(rings, rss);
        let mut spec =
            Spec::router(&format!("router{at}")).cpus(cpus).port(port(at, 1)).port(port(at + 1, 254));
        for family in Family::BOTH {
            for net in 1..=4 {
                if net < at {
                    spec = spec.via(family.prefix(net), family.addr(at, 254));
                } else if net > at + 1 {
                    spec = spec.via(family.prefix(net), family.addr(at + 1, 1));
                }
            }
        }
        routers.push(world.host(spec));
    }
    let a = world.station(cables[0], station(1, 2));
    let b = Station::new("b", mac(4, 2), &plan::addrs(4, 2));
    let b = Family::BOTH.into_iter().fold(b, |b, family| b.gateway(family.addr(4, 254)));
    let b = world.station(cables[3], b);
    world.run_for(BOOT);
    (world, routers, [a, b])
}

#[test]
fn two_hosts_with_this_stack_ping_each_other_through_a_router() {
    for family in Family::BOTH {
        for (seed, shape) in (1..).zip(Shape::several()) {
            let mut world = World::new("hosts", seed);
            let cables = [1, 2].map(|_| world.cable(cable::Spec::default()));
            let port = |net: u8, host| {
                Port::new(cables[usize::from(net) - 1], net, host).rings(shape.rings, shape.rss)
            };
            world.host(Spec::router("router").cpus(shape.cpus).port(port(1, 1)).port(port(2, 1)));
            let [a, _] = [1, 2].map(|net| {
                let spec = Spec::host(&format!("host{net}")).cpus(shape.cpus).port(port(net, 2));
                world.host(spec.via(family.default_prefix(), family.addr(net, 1)))
            });
            world.run_for(BOOT);
            // Only so many wait while neighbours are looked for: first one.
            let first = world.of(a).ping(family.addr(2, 2), 98, 1);
            world.run_for(5 * SECOND);
            assert_eq!(first.load(Ordering::Relaxed), 1, "{}", world.drops());
            let replies = world.of(a).ping(family.addr(2, 2), 99, 20);
            world.run_for(5 * SECOND);
            assert_eq!(replies.load(Ordering::Relaxed), 20, "{}", world.drops());
            world.finish();
        }
    }
}

#[test]
fn stations_ping_through_a_router() {
    for family in Family::BOTH {
        for shape in Shape::several() {
            for seed in seeds(2) {
                let mut pair = pair("ping_through", seed, shape);
                for seq in 0..20 {
                    pair.world.at(pair.a).ping(family.addr(2, 2), [7, seq], 56);
                    pair.world.run_for(SECOND / 10);
                }
                pair.world.run_for(SECOND);
                assert_eq!(pair.world.at(pair.a).replies(7), 20, "{}", pair.world.drops());
                pair.world.finish();
            }
        }
    }
}

#[test]
fn each_request_of_a_flood_of_pings_is_answered() {
    const BURSTS: u16 = 50;
    const EACH: u16 = 16;
    for family in Family::BOTH {
        for shape in Shape::doubling() {
            let mut pair = pair("flood_pings", 1, shape);
            let both = [(pair.a, family.addr(1, 1), 7), (pair.b, family.addr(2, 1), 8)];
            // First one host, then two at once.
            for (name, stations) in [(0, &both[..1]), (10, &both[..])] {
                for burst in 0..BURSTS {
                    for (station, router, id) in stations {
                        for seq in 0..EACH {
                            pair.world.at(*station).ping(*router, [name + id, burst * EACH + seq], 56);
                        }
                    }
                    pair.world.run_for(Duration::from_millis(1));
                }
                pair.world.run_for(SECOND);
                for (station, _, id) in stations {
                    let replies = pair.world.at(*station).replies(name + id);
                    assert_eq!(replies, usize::from(BURSTS * EACH), "{}", pair.world.drops());
                }
            }
            pair.world.finish();
        }
    }
}

#[test]
fn a_sweep_of_hop_limits_names_each_router_on_the_way() {
    for family in Family::BOTH {
        for (seed, cpus, rss) in [(1, 1, Rss::Absent), (2, 2, Rss::Wrong), (3, 4, Rss::Right)] {
            let (mut world, _, [a, b]) = line("sweep", seed, cpus, 2, rss);
            for ttl in 1..=4 {
                let ip = world.at(a).ip_to(family.addr(4, 2)).ttl(ttl);
                world.at(a).send_udp(ip, [33000, 33434], b"who is there?");
                world.run_for(3 * SECOND);
            }
            let named: Vec<_> = world.at(a).errors().collect();
            let hop = |net| (family.addr(net, 1), IcmpError::TimeExceeded);
            let hops: Vec<_> = [1, 2, 3].map(hop).to_vec();
            assert_eq!(named, hops);
            assert!(world.at(b).has_heard(|heard| heard.ttl == 1), "the fourth one arrived");
            world.finish();
        }
    }
}

#[test]
fn a_smaller_link_behind_says_how_small_it_is() {
    for family in Family::BOTH {
        for shape in Shape::several() {
            let small = cable::Spec { mtu: 1300, ..cable::Spec::default() };
            let specs = [cable::Spec::default(), small];
            let mut pair = pair_with("pmtu", 1, shape, |port| port, specs);
            pair.world.at(pair.a).ping(family.addr(2, 2), [1, 1], 8);
            pair.world.run_for(SECOND);
            for (len, fits) in [(1200, true), (1400, false)] {
                let flow = Flow::to(family.addr(2, 2)).count(1).len(len);
                let flow = pair.world.flow(pair.a, pair.b, flow);
                pair.world.run_for(SECOND);
                assert_eq!(pair.world.tally(flow).received == 1, fits);
            }
            let said: Vec<_> = pair.world.at(pair.a).errors().collect();
            assert_eq!(said, [(family.addr(1, 1), IcmpError::TooBig(1300))]);
            pair.world.finish();
        }
    }
}

#[test]
fn a_datagram_that_may_be_fragmented_arrives_in_pieces_over_a_smaller_link() {
    for shape in Shape::several() {
        let small = cable::Spec { mtu: 576, ..cable::Spec::default() };
        let mut pair = pair_with("refragmented", 1, shape, |port| port, [cable::Spec::default(), small]);
        pair.world.at(pair.a).ping(Family::V4.addr(2, 2), [1, 1], 8);
        pair.world.run_for(SECOND);
        for len in [1400, 4000] {
            let flow = Flow::to(Family::V4.addr(2, 2)).count(5).len(len).may_fragment();
            let flow = pair.world.flow(pair.a, pair.b, flow);
            pair.world.run_for(SECOND);
            assert_eq!(pair.world.tally(flow).received, 5, "{}", pair.world.drops());
        }
        assert!(pair.world.of(pair.router).count(Count::Ip4FragmentsMade) > 30);
        pair.world.finish();
    }
}

#[test]
fn fragments_are_forwarded_as_they_are() {
    for family in Family::BOTH {
        for shape in Shape::several() {
            let mut pair = pair("fragments", 1, shape);
            pair.world.at(pair.a).ping(family.addr(2, 2), [1, 1], 8);
            pair.world.run_for(SECOND);
            let flow = Flow::to(family.addr(2, 2)).count(20).len(5000).may_fragment();
            let flow = pair.world.flow(pair.a, pair.b, flow);
            pair.world.run_for(SECOND);
            assert_eq!(pair.world.tally(flow).received, 20, "{}", pair.world.drops());
            pair.world.finish();
        }
    }
}

#[test]
fn what_cannot_be_delivered_is_answered_with_the_reason() {
    for family in Family::BOTH {
        for seed in seeds(2) {
            let mut world = World::new("unreachable", seed);
            let cables = [1, 2].map(|_| world.cable(cable::Spec::default()));
            let port = |net: u8| Port::new(cables[usize::from(net) - 1], net, 1).rings(2, Rss::Wrong);
            let spec = Spec::router("router").cpus(3).port(port(1)).port(port(2));
            let spec = spec.route(family.prefix(8), To::Reject).route(family.prefix(9), To::Blackhole);
            let _router = world.host(spec);
            let a = world.station(cables[0], station(1, 2));
            world.run_for(BOOT);
            // What BSD says: over IPv4, a rejected host is an unreachable one.
            let rejected = if family == Family::V4 { IcmpError::Host } else { IcmpError::Prohibited };
            let cases = [
                (family.addr(7, 1), Some(IcmpError::NoRoute)),
                (family.addr(8, 1), Some(rejected)),
                (family.addr(9, 1), None),
                (family.addr(2, 99), Some(IcmpError::Host)),
                (family.addr(1, 1), Some(IcmpError::Port)),
                (family.addr(2, 1), Some(IcmpError::Port)),
            ];
            for (to, answer) in cases {
                world.at(a).heard.clear();
                let ip = world.at(a).ip_to(to);
                world.at(a).send_udp(ip, [5, 6], b"hello");
                world.run_for(5 * SECOND);
                let said = world.at(a).errors().next();
                assert_eq!(said.map(|(_, error)| error), answer, "to {to}\n{}", world.drops());
                if let Some((from, _)) = said {
                    assert!(from == family.addr(1, 1) || from == to);
                }
            }
            world.finish();
        }
    }
}

#[test]
fn errors_are_limited_when_many_are_due() {
    for family in Family::BOTH {
        let mut pair = pair("limited", 1, Shape { cpus: 2, rings: 2, rss: Rss::Right });
        let flow = Flow::to(family.addr(7, 7)).count(20_000).gap(Duration::from_micros(50));
        pair.world.flow(pair.a, pair.b, flow);
        pair.world.run_for(2 * SECOND);
        let errors = pair.world.at(pair.a).errors().count();
        assert!(errors > 0 && errors < 4096, "{errors} errors for 20 000 packets");
        pair.world.finish();
    }
}
