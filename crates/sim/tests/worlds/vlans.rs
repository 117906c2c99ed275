//! VLANs: trunks, stacked tags, and what goes over them.

use net::count::Count;
use net::drop::DropReason;
use net::ifq::QueueSpec;
use net::logical::Vlan;
use net::tables::IfIndex;
use net::time::Duration;
use sim::cable;
use sim::firewall::HostFirewall;
use sim::host::{Port, Spec};
use sim::mem::Rss;
use sim::plan::Family;
use sim::station::{Content, Flow, FlowId, Station};
use sim::world::{HostId, StationId, World};
use wire::EtherType;

use crate::common::{BOOT, Shape, seeds, station};

const SECOND: Duration = Duration::from_secs(1);

/// A router with a trunk and another cable. On the trunk: network 1 without a tag, 3 with tag 10, 5 with the tags 100 and 7.
/// On the other cable: network 2.
struct Trunk {
    world: World,
    router: HostId,
    /// Stations in the networks 1, 3, 5 and 2.
    hosts: [(u8, StationId); 4],
}

/// Interfaces of the router.
const TRUNK: IfIndex = 1;
const VLAN10: usize = 0;
const OUTER: IfIndex = 4;

fn vlan(parent: IfIndex, tpid: EtherType, vid: u16, pcp: u8) -> Vlan {
    Vlan { parent, tpid, vid, pcp }
}

fn on_trunk(net: u8, tags: &[(EtherType, u16)]) -> Station {
    tags.iter().fold(station(net, 2), |station, (tpid, tci)| station.tagged(*tpid, *tci))
}

fn trunk(name: &str, seed: u64, shape: Shape, port: impl Fn(Port) -> Port, other: cable::Spec) -> Trunk {
    trunk_around(name, seed, shape, |router| router, port, other)
}

fn trunk_around(
    name: &str,
    seed: u64,
    shape: Shape,
    more: impl Fn(Spec) -> Spec,
    port: impl Fn(Port) -> Port,
    other: cable::Spec,
) -> Trunk {
    let mut world = World::new(name, seed);
    let cables = [world.cable(cable::Spec::default()), world.cable(other)];
    let port = |at: usize, net: u8| port(Port::new(cables[at], net, 1).rings(shape.rings, shape.rss));
    let router = Spec::router("router").cpus(shape.cpus).buffers(8192).port(port(0, 1)).port(port(1, 2));
    let router = router.vlan(vlan(TRUNK, EtherType::VLAN, 10, 0), 3, 1);
    let router = router.vlan(vlan(TRUNK, EtherType::QINQ, 100, 0), 4, 1);
    let router = router.vlan(vlan(OUTER, EtherType::VLAN, 7, 5), 5, 1);
    let router = world.host(more(router));
    let tagged = [(EtherType::QINQ, 100), (EtherType::VLAN, 0x6000 | 7)];
    let hosts = [
        (1, world.station(cables[0], on_trunk(1, &[]))),
        (3, world.station(cables[0], on_trunk(3, &[(EtherType::VLAN, 10)]))),
        (5, world.station(cables[0], on_trunk(5, &tagged))),
        (2, world.station(cables[1], station(2, 2))),
    ];
    world.run_for(BOOT);
    Trunk { world, router, hosts }
}

impl Trunk {
    /// A flow in each family from each host to each other.
    fn flows(&mut self, count: u32, gap: Duration) -> Vec<FlowId> {
        let mut flows = Vec::new();
        for (port, (_, from)) in (1000..).zip(self.hosts) {
            for (net, to) in self.hosts.into_iter().filter(|(_, to)| *to != from) {
                for family in Family::BOTH {
                    let flow = Flow::to(family.addr(net, 2)).ports(port, 53).count(count).gap(gap);
                    flows.push(self.world.flow(from, to, flow));
                }
            }
        }
        flows
    }

    fn assert_received(&self, flows: &[FlowId], count: u32) {
        for flow in flows {
            assert_eq!(self.world.tally(*flow).received, count, "{flow:?}\n{}", self.world.drops());
        }
    }
}

#[test]
fn networks_with_and_without_tags_reach_each_other_whatever_the_card_hashes() {
    for shape in Shape::several() {
        for seed in seeds(2) {
            let mut trunk = trunk("trunk", seed, shape, |port| port, cable::Spec::default());
            trunk.world.stalls = 100_000;
            trunk.flows(1, SECOND);
            trunk.world.run_for(SECOND);
            let flows = trunk.flows(100, Duration::from_micros(200));
            trunk.world.run_for(SECOND);
            trunk.assert_received(&flows, 100);
            trunk.world.finish();
        }
    }
}

#[test]
fn a_vlan_follows_its_trunk_down_and_up() {
    for shape in Shape::doubling() {
        let mut trunk = trunk("trunk_down", 1, shape, |port| port, cable::Spec::default());
        for (round, up) in [(0, true), (1, false), (2, true)] {
            trunk.world.of(trunk.router).change(|spec| spec.ports[0].up = up);
            trunk.world.run_for(BOOT);
            let (_, host) = trunk.hosts[3];
            for family in Family::BOTH {
                for net in [3, 5] {
                    let id = 10 * round + u16::from(net);
                    trunk.world.at(host).ping(family.addr(net, 2), [id, 1], 8);
                }
            }
            trunk.world.run_for(5 * SECOND);
            for net in [3, 5] {
                let replies = trunk.world.at(host).replies(10 * round + net);
                assert_eq!(
                    replies,
                    if up { 2 } else { 0 },
                    "{shape:?}, network {net}, {}",
                    trunk.world.drops()
                );
            }
        }
        trunk.world.finish();
    }
}

#[test]
fn a_smaller_mtu_of_a_vlan_is_told_and_fragments_fit() {
    for shape in Shape::doubling() {
        let mut trunk = trunk("vlan_mtu", 1, shape, |port| port, cable::Spec::default());
        trunk.world.of(trunk.router).change(|spec| spec.vlans[VLAN10].mtu = 1400);
        trunk.world.run_for(BOOT);
        let (_, host) = trunk.hosts[3];
        trunk.world.at(host).ping(Family::V4.addr(3, 2), [1, 1], 1450);
        trunk.world.at(host).ping(Family::V6.addr(3, 2), [2, 1], 1440);
        trunk.world.run_for(SECOND);
        let told: Vec<_> = trunk.world.at(host).errors().map(|(_, error)| error).collect();
        assert!(
            told.iter().all(|error| *error == sim::station::IcmpError::TooBig(1400)) && !told.is_empty(),
            "{told:?}"
        );
        trunk.world.finish();
    }
}

#[test]
fn frames_of_vlans_share_the_queue_of_their_device_fairly() {
    let slow = cable::Spec { rate_bps: Some(10_000_000), ..cable::Spec::default() };
    for family in Family::BOTH {
        let mut world = World::new("vlan_fair", 1);
        let cables = [world.cable(cable::Spec::default()), world.cable(slow)];
        let port = |at: usize, net: u8| Port::new(cables[at], net, 1).queue(QueueSpec::default());
        let router = Spec::router("router").buffers(8192).port(port(0, 1)).port(port(1, 2));
        world.host(router.vlan(vlan(2, EtherType::VLAN, 10, 0), 3, 1));
        let a = world.station(cables[0], station(1, 2));
        let b = world.station(cables[1], on_trunk(3, &[(EtherType::VLAN, 10)]));
        world.run_for(BOOT);
        world.at(a).ping(family.addr(3, 2), [1, 1], 8);
        world.run_for(SECOND);
        world.allow(sim::world::Permit::Loss);
        // A flood of 80 Mbit/s beside one packet each ten milliseconds.
        let flood =
            Flow::to(family.addr(3, 2)).ports(1, 53).count(1000).gap(Duration::from_micros(100)).len(1000);
        let thin = Flow::to(family.addr(3, 2)).ports(2, 53).count(10).gap(Duration::from_millis(10)).len(100);
        let [flood, thin] = [flood, thin].map(|flow| world.flow(a, b, flow));
        world.run_for(5 * SECOND);
        assert_eq!(world.tally(thin).received, 10, "{}", world.drops());
        assert!(world.tally(flood).received < 1000, "the flood is more than the cable takes");
        world.finish();
    }
}

#[test]
fn pings_from_the_router_leave_by_vlans() {
    for shape in [Shape::SIMPLE, Shape { cpus: 8, rings: 8, rss: Rss::Right }] {
        let mut trunk = trunk("vlan_own", 1, shape, |port| port, cable::Spec::default());
        for family in Family::BOTH {
            for (ident, net) in [(1, 3), (2, 5)] {
                let heard = trunk.world.of(trunk.router).ping(family.addr(net, 2), ident, 3);
                trunk.world.run_for(5 * SECOND);
                assert_eq!(heard.load(core::sync::atomic::Ordering::Relaxed), 3, "{}", trunk.world.drops());
            }
        }
        trunk.world.finish();
    }
}

/// By tag: network 3 is translated on its way out and has states, network 5 is denied DNS.
const RULES: &str = "nat 1 config ip 10.0.2.1\n\
     add 10 nat 1 ip4 from any to any via mem1\n\
     add 20 check-state\n\
     add 30 deny udp from any to any 53 in recv vlan4\n\
     add 40 allow udp from any to any 53 in recv vlan2 keep-state\n\
     add 50 allow ip from any to any\n";

#[test]
fn rules_states_and_nat_tell_vlans_apart_with_a_flow_cache_and_without() {
    const ROUNDS: u16 = 20;
    for shape in Shape::several() {
        for cached in [false, true] {
            let more = |router: Spec| if cached { router.flows(64) } else { router };
            let specs = cable::Spec::default();
            let mut trunk = trunk_around("vlan_rules", 3, shape, more, |port| port, specs);
            let mut firewall = HostFirewall::new(RULES, shape.cpus, 64);
            assert!(trunk.world.of(trunk.router).set_firewall(&mut firewall));
            trunk.world.run_for(SECOND);
            let [_, (_, inside), (_, denied), (_, outside)] = trunk.hosts;
            for round in 0..ROUNDS {
                for (host, port) in [(inside, 4000), (denied, 5000)] {
                    for family in Family::BOTH {
                        let ip = trunk.world.at(host).ip_to(family.addr(2, 2));
                        trunk.world.at(host).send_udp(ip, [port, 53], &round.to_be_bytes());
                    }
                }
                trunk.world.run_for(SECOND / 10);
                for heard in core::mem::take(&mut trunk.world.at(outside).heard) {
                    let Content::Udp { ports: [from, 53], .. } = heard.what else { continue };
                    let family = Family::of(heard.from);
                    let own = family.addr(3, 2);
                    let shown = if family == Family::V4 { family.addr(2, 1) } else { own };
                    assert_eq!(heard.from, shown, "{shape:?}");
                    let ip = trunk.world.at(outside).ip_to(heard.from);
                    trunk.world.at(outside).send_udp(ip, [53, from], b"answer");
                }
                trunk.world.run_for(SECOND / 10);
            }
            let answers = |trunk: &mut Trunk, host, port| {
                let is_one =
                    |what: &Content| matches!(what, Content::Udp { ports: [53, to], .. } if *to == port);
                trunk.world.at(host).heard.iter().filter(|heard| is_one(&heard.what)).count()
            };
            let each = usize::from(2 * ROUNDS);
            assert_eq!(answers(&mut trunk, inside, 4000), each, "{shape:?} {}", trunk.world.drops());
            assert_eq!(answers(&mut trunk, denied, 5000), 0);
            let router = trunk.world.of(trunk.router);
            assert_eq!(router.dropped(DropReason::FirewallDeny), u64::from(2 * ROUNDS));
            assert_eq!(router.count(Count::FlowHits) > u64::from(ROUNDS), cached, "{shape:?}");
            trunk.world.finish();
        }
    }
}
