//! Stations on the ports of a bridge, and what goes between them and beyond.

use net::count::Count;
use net::drop::DropReason;
use net::tables::IfIndex;
use net::time::Duration;
use sim::cable;
use sim::host::{Port, Spec};
use sim::plan::Family;
use sim::station::Flow;
use sim::world::{HostId, Permit, StationId, World};

use crate::common::{BOOT, Shape, seeds, station};

const SECOND: Duration = Duration::from_secs(1);
const PORTS: [IfIndex; 3] = [1, 2, 3];

/// Three ports with a station of network 1 each, host 2 to 4; the bridge is host 1. Behind another interface is network 3.
struct Lan {
    world: World,
    bridge: HostId,
    stations: [StationId; 3],
    outside: StationId,
}

fn lan(name: &str, seed: u64, shape: Shape, flows: Option<usize>) -> Lan {
    let mut world = World::new(name, seed);
    let cables = [(); 4].map(|()| world.cable(cable::Spec::default()));
    let port = |at: usize, net: u8| {
        // Ports have cards of their own, whose addresses are of no network.
        Port::new(cables[at], net, 1).rings(shape.rings, shape.rss).card(|card| card.promiscuous = true)
    };
    let router = Spec::router("bridge").cpus(shape.cpus).buffers(8192);
    let router = router.port(port(0, 101)).port(port(1, 102)).port(port(2, 103)).port(port(3, 3));
    let router = router.bridge(&PORTS, 0, 1, 1);
    let bridge = world.host(Spec { flows, ..router });
    let stations = [(0, 2), (1, 3), (2, 4)].map(|(at, host)| world.station(cables[at], station(1, host)));
    let outside = world.station(cables[3], station(3, 2));
    world.run_for(BOOT);
    Lan { world, bridge, stations, outside }
}

#[test]
fn stations_of_a_bridge_reach_each_other_and_what_is_beyond_whatever_the_card_hashes() {
    for shape in Shape::several() {
        for flows in [None, Some(64)] {
            for seed in seeds(1) {
                let mut lan = lan("bridge", seed, shape, flows);
                lan.world.stalls = 100_000;
                let [a, b, c] = lan.stations;
                let ends = [
                    (a, 1, 3, b),
                    (b, 1, 4, c),
                    (c, 1, 2, a),
                    (a, 3, 2, lan.outside),
                    (lan.outside, 1, 4, c),
                ];
                for round in [1, 60] {
                    let mut flows = Vec::new();
                    for port in 1000..1006 {
                        for family in Family::BOTH {
                            for (from, net, host, to) in ends {
                                let flow = Flow::to(family.addr(net, host)).ports(port, 53).count(round);
                                flows.push(lan.world.flow(from, to, flow.gap(Duration::from_micros(300))));
                            }
                        }
                    }
                    lan.world.run_for(2 * SECOND);
                    for flow in flows {
                        let received = lan.world.tally(flow).received;
                        assert_eq!(received, round, "{shape:?}\n{}", lan.world.drops());
                    }
                }
                let host = lan.world.of(lan.bridge);
                assert_eq!(host.count(Count::FdbLearnt), 3, "{shape:?}");
                assert!(host.count(Count::BridgeForwarded) > 4 * 12 * 61);
                // Neighbours are asked for; what is sent then has one port.
                assert!(host.count(Count::BridgeFlooded) < 200, "{}", host.count(Count::BridgeFlooded));
                assert_eq!(host.dropped(DropReason::BridgeStorm), 0);
                lan.world.finish();
            }
        }
    }
}

#[test]
fn a_loop_between_two_bridges_floods_no_more_than_their_storm_limits() {
    const STORM: u32 = 200;
    for cpus in [1, 4] {
        let mut world = World::new("bridge_loop", 1);
        let cables = [(); 4].map(|()| world.cable(cable::Spec::default()));
        // The second and the third cable join both bridges.
        let bridges = [(0, 1_u8), (3, 2)].map(|(own, host)| {
            let port = |at: usize| {
                Port::new(cables[at], 100 + 10 * host, u8::try_from(at).unwrap() + 1)
                    .card(|card| card.promiscuous = true)
            };
            let spec = Spec::router(&format!("bridge{host}")).cpus(cpus).buffers(4096);
            world.host(spec.port(port(own)).port(port(1)).port(port(2)).bridge(&PORTS, STORM, 1, host))
        });
        let [a, _] = [(0, 8), (3, 9)].map(|(at, host)| world.station(cables[at], station(1, host)));
        world.allow(Permit::Loss);
        world.run_for(BOOT);
        world.at(a).ping(Family::V4.addr(1, 9), [1, 1], 20);
        let before = bridges.map(|bridge| world.of(bridge).count(Count::BridgeFlooded));
        world.run_for(5 * SECOND);
        for (bridge, before) in bridges.into_iter().zip(before) {
            let bridge = world.of(bridge);
            let flooded = bridge.count(Count::BridgeFlooded) - before;
            // What it sends itself is not counted against the limit.
            assert!(flooded <= u64::from(STORM) * 6 + 100, "{cpus} CPUs: {flooded}");
            assert!(bridge.dropped(DropReason::BridgeStorm) > 0);
        }
    }
}
