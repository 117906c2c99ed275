//! Rings of bridges with a spanning tree.

use net::count::Count;
use net::drop::DropReason;
use net::stp::{Role, Settings};
use net::time::Duration;
use sim::cable;
use sim::host::{Port, Spec};
use sim::plan::Family;
use sim::station::Flow;
use sim::world::{CableId, HostId, Permit, StationId, World};

use crate::common::{seeds, station};

const SECOND: Duration = Duration::from_secs(1);
/// Time until ports forward: proposals need no second, ports to stations the migration time.
const CONVERGED: Duration = Duration::from_secs(8);

/// Bridges in a ring, each with a station, all of one network.
struct Ring {
    world: World,
    bridges: Vec<HostId>,
    stations: Vec<StationId>,
    cables: Vec<CableId>,
}

fn small(at: usize) -> u8 {
    u8::try_from(at).unwrap_or(u8::MAX)
}

fn ring(name: &str, seed: u64, bridges: u8, cpus: u16, settings: Settings) -> Ring {
    let mut world = World::new(name, seed);
    let count = usize::from(bridges);
    let cables: Vec<_> = (0..count).map(|_| world.cable(cable::Spec::default())).collect();
    let own: Vec<_> = (0..count).map(|_| world.cable(cable::Spec::default())).collect();
    let bridge = |world: &mut World, at: usize| {
        let host = small(at + 1);
        let port =
            |cable, which: u8| Port::new(cable, 100 + 10 * host, which).card(|card| card.promiscuous = true);
        let before = cables[(at + count - 1) % count];
        let spec = Spec::router(&format!("bridge{host}")).cpus(cpus).buffers(4096);
        let spec = spec.port(port(own[at], 1)).port(port(cables[at], 2)).port(port(before, 3));
        world.host(spec.bridge(&[1, 2, 3], 0, 1, host).spanning(settings))
    };
    let bridges = (0..count).map(|at| bridge(&mut world, at)).collect();
    let station = |at: usize| station(1, 101 + small(at));
    let stations = (0..count).map(|at| world.station(own[at], station(at))).collect();
    world.allow(Permit::Loss);
    world.run_for(CONVERGED);
    Ring { world, bridges, stations, cables }
}

impl Ring {
    /// Sends datagrams of both families between all stations; whether all arrive.
    fn all_arrive(&mut self, port: u16) -> Result<(), String> {
        let mut flows = Vec::new();
        for (at, from) in self.stations.iter().enumerate() {
            for (other, to) in self.stations.iter().enumerate().filter(|(other, _)| *other != at) {
                for family in Family::BOTH {
                    let host = 101 + small(other);
                    let flow = Flow::to(family.addr(1, host)).ports(port, 53).count(5);
                    flows.push(self.world.flow(*from, *to, flow.gap(Duration::from_millis(3))));
                }
            }
        }
        self.world.run_for(4 * SECOND);
        let missing = flows.iter().filter(|flow| self.world.tally(**flow).received != 5).count();
        if missing == 0 {
            Ok(())
        } else {
            Err(format!("{missing} of {} flows\n{}", flows.len(), self.world.drops()))
        }
    }

    fn count(&mut self, what: Count) -> u64 {
        let bridges = self.bridges.clone();
        bridges.into_iter().map(|bridge| self.world.of(bridge).count(what)).sum()
    }

    /// The roles of all ports of the ring.
    fn roles(&mut self) -> Vec<Role> {
        let bridges = self.bridges.clone();
        let status = bridges.into_iter().flat_map(|bridge| self.world.of(bridge).spanning_trees());
        status.flat_map(|status| status.ports).map(|(_, port)| port.role).collect()
    }
}

#[test]
fn rings_of_bridges_forward_by_a_tree_and_take_another_way_when_a_cable_is_cut() {
    for (bridges, cpus) in [(3, 1), (4, 2), (5, 1), (8, 1)] {
        for seed in seeds(1) {
            let mut ring = ring("spanning_ring", seed, bridges, cpus, Settings::default());
            ring.world.stalls = 200_000;
            assert_eq!(ring.all_arrive(1000), Ok(()), "{bridges} bridges");
            let alternate = ring.roles().iter().filter(|role| **role == Role::Alternate).count();
            assert_eq!(alternate, 1, "one port of a ring is blocked");
            // What is flooded goes round once, and no more.
            let flooded = ring.count(Count::BridgeFlooded);
            let stations = u64::from(bridges);
            assert!(flooded < 40 * stations * stations, "{flooded} frames flooded by {bridges} bridges");
            for cut in 0..2 {
                let cable = ring.cables[cut];
                ring.world.on(cable).spec.loss = 1_000_000;
                // Three hello times, and a hand-shake.
                ring.world.run_for(CONVERGED);
                assert_eq!(ring.all_arrive(2000 + u16::from(small(cut))), Ok(()), "cable {cut} of {bridges}");
                assert!(ring.count(Count::StpFlushes) > 0);
                ring.world.on(cable).spec.loss = 0;
                ring.world.run_for(CONVERGED);
                assert_eq!(ring.all_arrive(3000 + u16::from(small(cut))), Ok(()), "it is back");
            }
            ring.world.finish();
        }
    }
}

#[test]
fn rings_of_bridges_with_stp_alone_become_trees_in_twice_the_forward_delay() {
    for seed in seeds(1) {
        let settings =
            Settings { is_stp: true, hello: 1, max_age: 6, forward_delay: 4, ..Settings::default() };
        let mut ring = ring("spanning_stp", seed, 3, 2, settings);
        ring.world.run_for(12 * SECOND);
        assert_eq!(ring.all_arrive(1000), Ok(()));
        let bridges = ring.bridges.clone();
        assert!(
            bridges.into_iter().any(|bridge| ring.world.of(bridge).dropped(DropReason::BridgeBlocked) > 0)
        );
        ring.world.finish();
    }
}
