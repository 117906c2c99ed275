//! Interfaces that are created, destroyed and moved, and rings that move, while packets flow.

use net::logical::Vlan;
use net::time::Duration;
use sim::cable;
use sim::host::{Host, Port, Spec, VlanPort};
use sim::plan::Family;
use sim::random::Random;
use sim::station::{Flow, FlowId, Station};
use sim::world::{HostId, Permit, StationId, World};
use wire::EtherType;

use crate::common::{BOOT, Shape, seeds, station};

const SECOND: Duration = Duration::from_secs(1);
/// Changes while packets flow.
const CHANGES: u64 = 40;
/// The VLANs of the trunk: network and tag.
const VLANS: [(u8, u16); 3] = [(3, 10), (4, 20), (5, 30)];
/// A tag that none of the stations has.
const ELSEWHERE: u16 = 999;

/// A router with a trunk on one cable, with VLANs 10, 20 and 30, and network 2 on another; a station in each network.
struct Links {
    world: World,
    router: HostId,
    hosts: Vec<(u8, StationId)>,
    cpus: u16,
}

fn vlan(vid: u16) -> Vlan {
    Vlan { parent: 1, tpid: EtherType::VLAN, vid, pcp: 0 }
}

fn links(seed: u64, shape: Shape) -> Links {
    let mut world = World::new("live_links", seed);
    let cables = [world.cable(cable::Spec::default()), world.cable(cable::Spec::default())];
    let port = |at: usize, net: u8| Port::new(cables[at], net, 1).rings(shape.rings, shape.rss);
    let router = Spec::router("router").cpus(shape.cpus).buffers(8192).port(port(0, 1)).port(port(1, 2));
    let router = VLANS.into_iter().fold(router, |router, (net, vid)| router.vlan(vlan(vid), net, 1));
    let router = world.host(router);
    let on_trunk = |net: u8, vid: u16| -> Station { station(net, 2).tagged(EtherType::VLAN, vid) };
    let tagged: Vec<_> =
        VLANS.into_iter().map(|(net, vid)| (net, world.station(cables[0], on_trunk(net, vid)))).collect();
    let others = [(1, world.station(cables[0], station(1, 2))), (2, world.station(cables[1], station(2, 2)))];
    world.run_for(BOOT);
    Links { world, router, hosts: [&tagged[..], &others].concat(), cpus: shape.cpus }
}

impl Links {
    /// A flow in each family from each host to each other.
    fn flows(&mut self, first_port: u16, count: u32, gap: Duration) -> Vec<FlowId> {
        let mut flows = Vec::new();
        for (port, (_, from)) in (first_port..).zip(self.hosts.clone()) {
            for (net, to) in self.hosts.clone().into_iter().filter(|(_, to)| *to != from) {
                for family in Family::BOTH {
                    let flow = Flow::to(family.addr(net, 2)).ports(port, 53).count(count).gap(gap);
                    flows.push(self.world.flow(from, to, flow));
                }
            }
        }
        flows
    }

    /// A change that `random` chooses; `all` is what there is when nothing is changed.
    fn change(&mut self, random: &mut Random, all: &[VlanPort]) {
        let cpus = usize::from(self.cpus);
        let (choice, port, from) = (random.below(6), random.below(2), random.below(cpus));
        let to = (from + 1 + random.below(cpus - 1)) % cpus;
        let router: &mut Host = self.world.of(self.router);
        let count = router.spec.vlans.len();
        let at = random.below(count);
        let done = match choice {
            // Destroyed, and created again.
            0 if count > 0 => router.change(|spec| drop(spec.vlans.pop())),
            0 | 1 if count < all.len() => router.change(|spec| spec.vlans.push(all[count].clone())),
            // Moved to another tag, and back.
            2 if count > 0 => router.change(|spec| {
                let vlan = &mut spec.vlans[at].vlan;
                vlan.vid = if vlan.vid == ELSEWHERE { all[at].vlan.vid } else { ELSEWHERE };
            }),
            // Moved to the other trunk, and back.
            3 if count > 0 => router.change(|spec| spec.vlans[at].vlan.parent ^= 3),
            4 => router.change(|spec| spec.ports[port].up = !spec.ports[port].up),
            _ => from == to || router.move_rings(port, from, to),
        };
        assert!(done, "there is room for the message");
    }
}

#[test]
fn interfaces_are_created_destroyed_and_moved_under_traffic_and_each_packet_is_accounted_for() {
    for shape in Shape::several() {
        for seed in seeds(3) {
            let mut links = links(seed, shape);
            links.world.stalls = 100_000;
            let all = links.world.of(links.router).spec.vlans.clone();
            let mut random = Random::new(seed);
            links.world.allow(Permit::Loss);
            links.world.allow(Permit::Disorder);
            let during = links.flows(1000, 400, SECOND / 400);
            for _ in 0..CHANGES {
                links.change(&mut random, &all);
                links.world.run_for(Duration::from_micros(random.draw() % 60_000));
            }
            let lost: u32 = during.iter().map(|flow| 400 - links.world.tally(*flow).received).sum();
            links.world.of(links.router).change(|spec| {
                spec.vlans.clone_from(&all);
                spec.ports.iter_mut().for_each(|port| port.up = true);
            });
            links.world.run_for(5 * SECOND);
            links.world.forbid(Permit::Loss);
            links.world.forbid(Permit::Disorder);
            // Neighbours that were given up are found again.
            links.flows(2000, 1, SECOND);
            links.world.run_for(2 * SECOND);
            let after = links.flows(3000, 100, Duration::from_micros(500));
            links.world.run_for(SECOND);
            for flow in &after {
                let received = links.world.tally(*flow).received;
                assert_eq!(received, 100, "seed {seed}, {shape:?}, {}", links.world.drops());
            }
            assert!(lost > 0, "seed {seed}, {shape:?}: no change was felt");
            links.world.finish();
        }
    }
}
