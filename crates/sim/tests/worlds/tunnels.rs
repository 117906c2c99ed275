//! Tunnels between two routers, and what goes through them.

use net::count::{Count, IfCount};
use net::drop::DropReason;
use net::tunnel::{Encap, Tunnel};
use sim::cable;
use sim::firewall::HostFirewall;
use sim::host::{Port, Spec};
use sim::plan::Family;
use sim::station::{Content, Flow, IcmpError};
use sim::world::{HostId, StationId, World};

use net::time::Duration;

use crate::common::{BOOT, Shape, seeds, station};

const SECOND: Duration = Duration::from_secs(1);

/// Networks 1 and 3 with a router each, a cable between the two routers (network 2), and a tunnel over it (network 4).
struct Sites {
    world: World,
    routers: [HostId; 2],
    hosts: [StationId; 2],
}

fn tunnel((outer, encap): Outer, here: u8, there: u8) -> Tunnel {
    Tunnel::between(outer.addr(2, here), outer.addr(2, there), encap)
}

/// The family of the outer header, and what stands behind it.
type Outer = (Family, Encap);

/// Each family and encapsulation.
fn outers() -> impl Iterator<Item = Outer> {
    let encaps = [Encap::Ip, Encap::Gre { key: None }, Encap::Gre { key: Some(7) }];
    encaps.into_iter().flat_map(|encap| Family::BOTH.map(|outer| (outer, encap)))
}

fn sites(
    name: &str,
    seed: u64,
    shape: Shape,
    outer: Outer,
    flows: Option<usize>,
    middle: cable::Spec,
) -> Sites {
    sites_with((name, seed, shape), outer, flows, middle, |router, _| router)
}

/// As [`sites`], with something more in the routers, 1 and 2.
fn sites_with(
    (name, seed, shape): (&str, u64, Shape),
    outer: Outer,
    flows: Option<usize>,
    middle: cable::Spec,
    more: impl Fn(Spec, u8) -> Spec,
) -> Sites {
    let mut world = World::new(name, seed);
    let cables = [cable::Spec::default(), middle, cable::Spec::default()].map(|spec| world.cable(spec));
    let routers = [(1, 1, 3), (3, 2, 1)].map(|(own, here, behind)| {
        let port = |net: u8, host: u8| {
            let at = usize::from(net - 1);
            Port::new(cables[at], net, host)
                .mtu(if net == 2 { middle.mtu } else { 1500 })
                .rings(shape.rings, shape.rss)
        };
        let there = 3 - here;
        let router = Spec::router(&format!("router{here}")).cpus(shape.cpus).buffers(8192);
        let router =
            router.port(port(own, 1)).port(port(2, here)).tunnel(tunnel(outer, here, there), 4, here);
        let router = Family::BOTH
            .into_iter()
            .fold(router, |router, family| router.via(family.prefix(behind), family.addr(4, there)));
        world.host(Spec { flows, ..more(router, here) })
    });
    let hosts = [(0, 1), (2, 3)].map(|(cable, net)| world.station(cables[cable], station(net, 2)));
    world.run_for(BOOT);
    Sites { world, routers, hosts }
}

#[test]
fn two_sites_reach_each_other_through_a_tunnel_whatever_the_card_hashes() {
    for shape in Shape::several() {
        for outer in outers() {
            for seed in seeds(1) {
                let mut sites = sites("tunnel", seed, shape, outer, None, cable::Spec::default());
                sites.world.stalls = 100_000;
                let [a, b] = sites.hosts;
                for round in [1, 100] {
                    let mut flows = Vec::new();
                    for port in 1000..1008 {
                        for family in Family::BOTH {
                            let flow = |net: u8| {
                                let gap = Duration::from_micros(200);
                                Flow::to(family.addr(net, 2)).ports(port, 53).count(round).gap(gap)
                            };
                            flows.push(sites.world.flow(a, b, flow(3)));
                            flows.push(sites.world.flow(b, a, flow(1)));
                        }
                    }
                    sites.world.run_for(2 * SECOND);
                    for flow in flows {
                        let received = sites.world.tally(flow).received;
                        assert_eq!(received, round, "{shape:?}, {outer:?}\n{}", sites.world.drops());
                    }
                }
                for router in sites.routers {
                    assert!(sites.world.of(router).count(Count::TunnelIn) >= 16 * 101);
                }
                sites.world.finish();
            }
        }
    }
}

#[test]
fn the_tunnel_whose_other_end_matches_most_takes_a_packet_whatever_others_there_are() {
    for shape in Shape::several() {
        for (outer, seed) in outers().flat_map(|outer| seeds(1).map(move |seed| (outer, seed))) {
            let all = if outer.0 == Family::V4 { 32 } else { 128 };
            // Router 2 has tunnels of any other end and of the network of both, in whatever order, beside that of router 1.
            let more = |router: Spec, here: u8| {
                let wide = |remote_len| Tunnel { remote_len, ..tunnel(outer, here, 3 - here) };
                if here == 1 { router } else { router.tunnel(wide(0), 5, 1).tunnel(wide(all - 8), 6, 1) }
            };
            let middle = cable::Spec::default();
            let mut sites = sites_with(("tunnel_wide", seed, shape), outer, None, middle, more);
            let [a, b] = sites.hosts;
            let mut flows = Vec::new();
            for (family, port) in Family::BOTH.into_iter().flat_map(|family| [(family, 1), (family, 2)]) {
                flows.push(sites.world.flow(a, b, Flow::to(family.addr(3, 2)).ports(port, 53).count(20)));
                flows.push(sites.world.flow(b, a, Flow::to(family.addr(1, 2)).ports(port, 53).count(20)));
            }
            sites.world.run_for(5 * SECOND);
            for flow in flows {
                assert_eq!(sites.world.tally(flow).received, 20, "{outer:?}\n{}", sites.world.drops());
            }
            let router = sites.world.of(sites.routers[1]);
            // Behind two ports.
            let received = [3, 4, 5].map(|index| router.if_count(index, IfCount::RxPackets));
            assert!(received[0] >= 80 && received[1..] == [0, 0], "{outer:?}: {received:?}");
            sites.world.finish();
        }
    }
}

#[test]
fn the_path_mtu_of_a_tunnel_is_told_and_what_may_be_cut_arrives() {
    for shape in Shape::doubling() {
        for outer in outers() {
            let header = u32::try_from(tunnel(outer, 1, 2).header_len()).unwrap();
            let middle = cable::Spec { mtu: 1400, ..cable::Spec::default() };
            let mut sites = sites("tunnel_mtu", 1, shape, outer, None, middle);
            let [a, _] = sites.hosts;
            sites.world.at(a).ping(Family::V4.addr(3, 2), [1, 1], 1372);
            sites.world.at(a).ping(Family::V6.addr(3, 2), [2, 1], 1352);
            sites.world.run_for(SECOND);
            let told: Vec<_> = sites.world.at(a).errors().map(|(_, error)| error).collect();
            let expected = IcmpError::TooBig(1400 - header);
            assert!(!told.is_empty() && told.iter().all(|error| *error == expected), "{outer:?}: {told:?}");
            for (family, ident) in [(Family::V4, 3), (Family::V6, 4)] {
                sites.world.at(a).ping(family.addr(3, 2), [ident, 1], 1200);
                sites.world.run_for(SECOND);
                assert_eq!(sites.world.at(a).replies(ident), 1, "{}", sites.world.drops());
            }
            sites.world.finish();
        }
    }
}

#[test]
fn flows_in_a_tunnel_share_the_queue_of_the_outer_link_fairly() {
    for outer in outers() {
        for family in Family::BOTH {
            let slow = cable::Spec { rate_bps: Some(10_000_000), ..cable::Spec::default() };
            let mut sites = sites("tunnel_fair", 1, Shape::SIMPLE, outer, None, slow);
            let [a, b] = sites.hosts;
            sites.world.at(a).ping(family.addr(3, 2), [1, 1], 8);
            sites.world.run_for(SECOND);
            sites.world.allow(sim::world::Permit::Loss);
            // A flood of 80 Mbit/s beside one packet each ten milliseconds.
            let to = |port: u16| Flow::to(family.addr(3, 2)).ports(port, 53);
            let flood = to(1).count(1000).gap(Duration::from_micros(100)).len(1000);
            let thin = to(2).count(10).gap(Duration::from_millis(10)).len(100);
            let [flood, thin] = [flood, thin].map(|flow| sites.world.flow(a, b, flow));
            sites.world.run_for(5 * SECOND);
            assert_eq!(sites.world.tally(thin).received, 10, "{outer:?}, {family:?} {}", sites.world.drops());
            assert!(sites.world.tally(flood).received < 1000, "the flood is more than the cable takes");
            sites.world.finish();
        }
    }
}

/// On the router of network 1: what leaves by the tunnel is translated and has states.
const RULES: &str = "nat 1 config ip 10.0.4.1\n\
     add 5 deny udp from any to any 54 out xmit gif0\n\
     add 10 nat 1 ip4 from any to any via gif0\n\
     add 20 check-state\n\
     add 40 allow udp from any to any 53 in recv mem0 keep-state\n\
     add 50 allow ip from any to any\n";

#[test]
fn rules_states_and_nat_know_a_tunnel_with_a_flow_cache_and_without() {
    const ROUNDS: u16 = 20;
    for shape in Shape::several() {
        for flows in [None, Some(64)] {
            let gre = (Family::V4, Encap::Gre { key: Some(7) });
            let outer = if flows.is_none() { (Family::V4, Encap::Ip) } else { gre };
            let mut sites = sites("tunnel_rules", 3, shape, outer, flows, cable::Spec::default());
            let mut firewall = HostFirewall::new(RULES, shape.cpus, 64);
            assert!(sites.world.of(sites.routers[0]).set_firewall(&mut firewall));
            sites.world.run_for(SECOND);
            let [inside, outside] = sites.hosts;
            for round in 0..ROUNDS {
                for (from, to) in [(4000, 53), (5000, 54)] {
                    for family in Family::BOTH {
                        let ip = sites.world.at(inside).ip_to(family.addr(3, 2));
                        sites.world.at(inside).send_udp(ip, [from, to], &round.to_be_bytes());
                    }
                }
                sites.world.run_for(SECOND / 10);
                for heard in core::mem::take(&mut sites.world.at(outside).heard) {
                    let Content::Udp { ports: [from, 53], .. } = heard.what else { continue };
                    let family = Family::of(heard.from);
                    let shown = family.addr(
                        if family == Family::V4 { 4 } else { 1 },
                        if family == Family::V4 { 1 } else { 2 },
                    );
                    assert_eq!(heard.from, shown, "{shape:?}");
                    let ip = sites.world.at(outside).ip_to(heard.from);
                    sites.world.at(outside).send_udp(ip, [53, from], b"answer");
                }
                sites.world.run_for(SECOND / 10);
            }
            let is_answer = |what: &Content| matches!(what, Content::Udp { ports: [53, 4000], .. });
            let heard = &sites.world.at(inside).heard;
            let answers = heard.iter().filter(|heard| is_answer(&heard.what)).count();
            assert_eq!(answers, usize::from(2 * ROUNDS), "{shape:?} {}", sites.world.drops());
            let router = sites.world.of(sites.routers[0]);
            assert_eq!(router.dropped(DropReason::FirewallDeny), u64::from(2 * ROUNDS));
            assert_eq!(router.count(Count::FlowHits) > u64::from(ROUNDS), flows.is_some(), "{shape:?}");
            sites.world.finish();
        }
    }
}
