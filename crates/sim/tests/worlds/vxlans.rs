//! VXLANs between routers, and what goes through them.

use net::count::Count;
use net::drop::DropReason;
use net::time::Duration;
use net::vxlan::{PORT, Vxlan};
use sim::cable;
use sim::firewall::HostFirewall;
use sim::host::{Port, Spec};
use sim::plan::Family;
use sim::station::{Flow, IcmpError};
use sim::world::{HostId, StationId, World};

use crate::common::{BOOT, Shape, seeds, station};

const SECOND: Duration = Duration::from_secs(1);

/// Networks 1 and 3 with a router each, a cable between the two routers (network 2), and a VXLAN over it (network 4).
struct Sites {
    world: World,
    routers: [HostId; 2],
    hosts: [StationId; 2],
}

fn vxlan(outer: Family, here: u8, there: u8) -> Vxlan {
    Vxlan { vni: 7, local: outer.addr(2, here), remote: Some(outer.addr(2, there)), port: PORT }
}

fn sites(name: &str, seed: u64, shape: Shape, outer: Family, flows: Option<usize>, mtu: u32) -> Sites {
    let mut world = World::new(name, seed);
    let middle = cable::Spec { mtu, ..cable::Spec::default() };
    let cables = [cable::Spec::default(), middle, cable::Spec::default()].map(|spec| world.cable(spec));
    let routers = [(1, 1, 3), (3, 2, 1)].map(|(own, here, behind)| {
        let port = |net: u8, host: u8| {
            let mtu = if net == 2 { mtu } else { 1500 };
            Port::new(cables[usize::from(net - 1)], net, host).mtu(mtu).rings(shape.rings, shape.rss)
        };
        let there = 3 - here;
        let router = Spec::router(&format!("router{here}")).cpus(shape.cpus).buffers(8192);
        let router = router.port(port(own, 1)).port(port(2, here)).vxlan(vxlan(outer, here, there), 4, here);
        let router = Family::BOTH
            .into_iter()
            .fold(router, |router, family| router.via(family.prefix(behind), family.addr(4, there)));
        world.host(Spec { flows, ..router })
    });
    let hosts = [(0, 1), (2, 3)].map(|(cable, net)| world.station(cables[cable], station(net, 2)));
    world.run_for(BOOT);
    Sites { world, routers, hosts }
}

#[test]
fn two_sites_share_an_ethernet_through_a_vxlan_whatever_the_card_hashes() {
    for shape in Shape::several() {
        for outer in Family::BOTH {
            for seed in seeds(1) {
                let mut sites = sites("vxlan", seed, shape, outer, None, 1500);
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
                    let router = sites.world.of(router);
                    assert!(router.count(Count::TunnelIn) >= 16 * 101);
                    // Neighbours were asked for, and from then on the other router was known.
                    assert_eq!(router.count(Count::FdbLearnt), 1, "{shape:?}");
                    assert!(router.count(Count::VxlanFlooded) < 50, "{}", router.count(Count::VxlanFlooded));
                }
                sites.world.finish();
            }
        }
    }
}

#[test]
fn the_path_mtu_below_a_vxlan_is_told_and_what_fits_arrives() {
    for shape in Shape::doubling() {
        for (outer, header) in [(Family::V4, 50), (Family::V6, 70)] {
            let mut sites = sites("vxlan_mtu", 1, shape, outer, None, 1400);
            let [a, _] = sites.hosts;
            for (family, ident, headers) in [(Family::V4, 1, 28), (Family::V6, 2, 48)] {
                sites.world.at(a).ping(family.addr(3, 2), [ident, 1], 1400 - header - headers + 1);
                sites.world.at(a).ping(family.addr(3, 2), [ident + 2, 1], 1400 - header - headers);
            }
            sites.world.run_for(SECOND);
            let told: Vec<_> = sites.world.at(a).errors().map(|(_, error)| error).collect();
            let expected = IcmpError::TooBig(u32::try_from(1400 - header).unwrap());
            assert!(!told.is_empty() && told.iter().all(|error| *error == expected), "{outer:?}: {told:?}");
            for ident in [3, 4] {
                assert_eq!(sites.world.at(a).replies(ident), 1, "{outer:?} {}", sites.world.drops());
            }
            sites.world.finish();
        }
    }
}

/// On the router of network 1.
const RULES: &str = "add 5 deny udp from any to any 54 out xmit vxlan0\n\
     add 20 check-state\n\
     add 40 allow udp from any to any 53 in recv mem0 keep-state\n\
     add 50 allow ip from any to any\n";

#[test]
fn rules_and_states_know_a_vxlan_with_a_flow_cache_and_without() {
    for shape in Shape::several() {
        for flows in [None, Some(64)] {
            let mut sites = sites("vxlan_rules", 3, shape, Family::V4, flows, 1500);
            let mut firewall = HostFirewall::new(RULES, shape.cpus, 64);
            assert!(sites.world.of(sites.routers[0]).set_firewall(&mut firewall));
            sites.world.run_for(SECOND);
            let [a, b] = sites.hosts;
            let flow = |family: Family, to: u16| {
                Flow::to(family.addr(3, 2)).ports(4000, to).count(20).gap(Duration::from_millis(10))
            };
            sites.world.allow(sim::world::Permit::Loss);
            let passed = Family::BOTH.map(|family| sites.world.flow(a, b, flow(family, 53)));
            let denied = Family::BOTH.map(|family| sites.world.flow(a, b, flow(family, 54)));
            sites.world.run_for(SECOND);
            for (flows, expected) in [(passed, 20), (denied, 0)] {
                for flow in flows {
                    let received = sites.world.tally(flow).received;
                    assert_eq!(received, expected, "{shape:?} {}", sites.world.drops());
                }
            }
            let router = sites.world.of(sites.routers[0]);
            assert_eq!(router.dropped(DropReason::FirewallDeny), 40);
            assert_eq!(router.count(Count::FlowHits) > 20, flows.is_some(), "{shape:?}");
            sites.world.finish();
        }
    }
}
