//! Worlds that a seed thinks up: a line of routers with stations on every network, traffic of all kinds, and things
//! that happen meanwhile. When all is well again, everybody must reach everybody.

mod judge;
mod policy;
mod firewalls;

use net::driver::Caps;
use net::time::Duration;

use super::{Broken, CableId, Check, HostId, Permit, StationId, World};
use crate::cable;
use crate::firewall::HostFirewall;
use crate::host::{Port, Spec};
use crate::mem::Rss;
use crate::mutate::Mutator;
use crate::plan::{self, Family};
use crate::random::Random;
use crate::station::{Flow, FlowId, Station};
use firewalls::firewall;
use judge::Judge;
use policy::{Addr, Packet, Proto};

/// Time for the detection of duplicate addresses to end, and for neighbours to be found again after trouble.
const BOOT: Duration = Duration::from_secs(12);
const RECOVERY: Duration = Duration::from_secs(90);
/// Attempts to reach a station when all is well.
const ATTEMPTS: u16 = 5;
/// Identifier of those attempts.
const LAST_WORDS: u16 = 0x7777;

/// The port of a walled router's first address that leads to another port of the first station on its other network.
const FRONT: u16 = 9001;
const SERVICE: u16 = 9;

/// A world and what there is in it.
struct Tale {
    world: World,
    random: Random,
    cables: Vec<CableId>,
    routers: Vec<HostId>,
    /// The routers that have a firewall, and it: it keeps states, redirects, and denies.
    walled: Vec<(usize, HostFirewall)>,
    /// Says what the firewalls have to deny.
    judge: Judge,
    plant: Option<Plant>,
    /// The flows that the judge knows.
    flows: Vec<(FlowId, Packet)>,
    /// Two on each network.
    stations: Vec<[StationId; 2]>,
    specs: Vec<cable::Spec>,
}

/// A fault that a test plants in a random world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    /// Firewalls are told to allow what rules deny.
    OpenFirewall,
    /// Firewalls are told that rules changed, and keep the old ones.
    StaleRules,
}

/// Makes the world of a seed, lets it live, and answers it with all that is broken.
#[must_use]
pub fn explore(name: &str, seed: u64) -> (World, Vec<Broken>) {
    explore_planted(name, seed, None)
}

/// [`explore`] with a planted fault.
#[must_use]
pub fn explore_planted(name: &str, seed: u64, plant: Option<Plant>) -> (World, Vec<Broken>) {
    let mut tale = Tale::begin(name, seed, plant);
    for _ in 0..tale.random.between(2, 6) {
        tale.traffic();
        tale.pass(3_000_000);
        tale.upset();
        tale.pass(30_000_000);
    }
    tale.end()
}

impl Tale {
    fn begin(name: &str, seed: u64, plant: Option<Plant>) -> Self {
        let mut world = World::new(name, seed);
        let mut random = world.random().fork();
        world.stalls = [0, 20_000, 300_000][random.below(3)];
        let count = random.between(1, 3);
        let specs: Vec<_> = (0..=count).map(|_| good_cable(&mut random)).collect();
        let cables: Vec<_> = specs.iter().map(|spec| world.cable(*spec)).collect();
        let routers =
            (0..count).map(|at| router(&mut random, at, count, &cables, &specs)).collect::<Vec<_>>();
        let routers: Vec<_> = routers.into_iter().map(|spec| world.host(spec)).collect();
        let stations = (0..=count)
            .map(|at| {
                [2, 3].map(|host| {
                    let net = net(at);
                    let gateway = if at < count { 1 } else { 254 };
                    let station = Station::new(
                        &format!("10.0.{net}.{host}"),
                        plan::mac(net, host),
                        &plan::addrs(net, host),
                    );
                    let station = Family::BOTH
                        .into_iter()
                        .fold(station, |it, family| it.gateway(family.addr(net, gateway)));
                    world.station(cables[at], station.mtu(specs[at].mtu as usize))
                })
            })
            .collect();
        world.run_for(BOOT);
        let walled: Vec<usize> = (0..count).filter(|_| random.chance(400_000)).collect();
        let (walled, judge) = (
            walled.into_iter().map(|at| (at, firewall(&routers, &mut world, at))).collect(),
            Judge::new(count),
        );
        let mut tale =
            Self { world, random, cables, routers, walled, judge, plant, flows: Vec::new(), stations, specs };
        (0..tale.walled.len()).for_each(|at| tale.rule(at));
        tale.world.run_for(judge::EXCHANGE);
        tale
    }

    /// Lets up to `ns` nanoseconds pass.
    fn pass(&mut self, ns: usize) {
        let span = self.random.between(1, ns) as u64;
        self.world.run_for(Duration::from_nanos(span));
    }

    /// Picks a station; returns the number of its network and its number there.
    fn somebody(&mut self) -> Addr {
        let (at, which) = (self.random.below(self.stations.len()), self.random.below(2));
        Addr { net: net(at), host: if which == 0 { 2 } else { 3 } }
    }

    fn station(&self, addr: Addr) -> StationId {
        self.stations[usize::from(addr.net) - 1][usize::from(addr.host) - 2]
    }

    fn traffic(&mut self) {
        for _ in 0..self.random.between(1, 12) {
            let family = Family::BOTH[self.random.below(2)];
            let (from, to) = (self.somebody(), self.somebody());
            if from == to {
                continue;
            }
            match self.random.below(11) {
                0 => self.odd_datagrams(family, from, to),
                1 => self.ping(family, from, to),
                2 => self.nonsense(),
                3..5 => self.redirected_flow(family),
                5 => self.answers(),
                _ => {
                    let ports = self.ports();
                    self.flow(Packet { family, proto: Proto::Udp, from, to, ports });
                }
            }
        }
    }

    fn ports(&mut self) -> [u16; 2] {
        [(); 2].map(|()| u16::try_from(self.random.below(65_536)).unwrap_or(0))
    }

    fn ping(&mut self, family: Family, from: Addr, to: Addr) {
        let (now, len) = (self.world.now(), self.random.below(4000));
        self.judge.sends(Packet { family, proto: Proto::Echo, from, to, ports: [0; 2] }, now, now);
        let station = self.station(from);
        self.world.at(station).ping(family.addr(to.net, to.host), [1, 1], len);
    }

    fn flow(&mut self, packet: Packet) {
        let [src_port, dst_port] = packet.ports;
        let flow = Flow::to(packet.family.addr(packet.to.net, packet.to.host)).ports(src_port, dst_port);
        let flow = flow.count(u32::try_from(self.random.between(1, 300)).unwrap_or(1));
        let flow = flow.gap(Duration::from_nanos(self.random.between(100, 200_000) as u64));
        let big = self.random.chance(200_000);
        let flow = flow.len(self.random.between(Flow::LEN_MIN, if big { 5000 } else { 1200 }));
        self.send(packet, if big { flow.may_fragment() } else { flow });
    }

    /// Datagrams from where a flow went to where it came from.
    fn answers(&mut self) {
        let flows: Vec<Packet> = self.flows.iter().map(|(_, packet)| *packet).collect();
        if let Some(packet) = self.random.pick(&flows) {
            self.flow(packet.reversed());
        }
    }

    /// Sends a flow that rules may be asked about.
    fn send(&mut self, packet: Packet, flow: Flow) -> FlowId {
        let now = self.world.now();
        self.judge.sends(packet, now, flow.leaves(now, flow.count));
        let id = self.world.flow(self.station(packet.from), self.station(packet.to), flow);
        self.flows.push((id, packet));
        id
    }

    /// Adds a flow by way of a router that redirects it to another station.
    fn redirected_flow(&mut self, family: Family) {
        if !self.walled.is_empty() {
            let at = self.random.below(self.walled.len());
            self.flow_through(self.walled[at].0, family);
        }
    }

    /// By way of router `at`. Rules are asked about the packet that it makes of each.
    fn flow_through(&mut self, at: usize, family: Family) -> (FlowId, Packet) {
        let from = Addr { net: net(at), host: if self.random.chance(500_000) { 2 } else { 3 } };
        let to = Addr { net: net(at + 1), host: 2 };
        let own = u16::try_from(self.random.below(65_536)).unwrap_or(0);
        let packet = Packet { family, proto: Proto::Udp, from, to, ports: [own, SERVICE] };
        let flow = Flow::to(family.addr(net(at), 1)).ports(own, FRONT);
        let flow = flow.count(u32::try_from(self.random.between(1, 300)).unwrap_or(1));
        let flow = flow.gap(Duration::from_nanos(self.random.between(100, 200_000) as u64));
        let flow = flow.len(self.random.between(Flow::LEN_MIN, 1200));
        let now = self.world.now();
        self.judge.sends_redirected(packet, now, flow.leaves(now, flow.count));
        let id = self.world.flow(self.station(from), self.station(to), flow);
        self.flows.push((id, packet));
        (id, packet)
    }

    /// To hosts that are not there, ports that are closed, and with little time to live.
    fn odd_datagrams(&mut self, family: Family, from: Addr, to: Addr) {
        const PORTS: [u16; 2] = [7, 7];
        let now = self.world.now();
        self.judge.sends(Packet { family, proto: Proto::Udp, from, to, ports: PORTS }, now, now);
        let (from, dst) = (self.station(from), family.addr(to.net, to.host));
        for _ in 0..self.random.between(1, 20) {
            let nobody = family.addr(self.random.byte() % 6, self.random.byte());
            let to = if self.random.chance(500_000) { nobody } else { dst };
            let ip = self.world.at(from).ip_to(to).ttl(self.random.byte() % 5);
            let payload = vec![1; self.random.below(1400)];
            self.world.at(from).send_udp(ip, PORTS, &payload);
        }
    }

    fn nonsense(&mut self) {
        self.world.allow(Permit::Nonsense);
        let at = self.random.below(self.stations.len() - 1);
        let (net, random) = (net(at), self.random.fork());
        let mut mutator = Mutator::new(random, net, 2, [plan::mac(net, 2), plan::mac(net, 1)]);
        for _ in 0..self.random.between(1, 300) {
            self.world.at(self.stations[at][0]).send_frame(mutator.next_frame());
        }
    }

    /// Something happens.
    fn upset(&mut self) {
        let cable = self.cables[self.random.below(self.cables.len())];
        let router = self.routers[self.random.below(self.routers.len())];
        let port = self.random.below(2);
        match self.random.below(10) {
            0 => self.world.on(cable).spec.loss = 100_000,
            1 | 2 => self.disorder(cable),
            3 => self.spoil(cable),
            4 => self.move_rings(router, port),
            5 => self.world.of(router).nics[port].refuse(10),
            6 => _ = self.world.of(router).change(|spec| spec.ports[port].up ^= true),
            7 if !self.walled.is_empty() => {
                let walled = self.random.below(self.walled.len());
                self.rule(walled);
            }
            8 => {
                let station = self.somebody();
                let station = self.station(station);
                self.world.allow(Permit::Loss);
                self.world.at(station).mute ^= true;
            }
            _ => {
                let station = self.somebody();
                let station = self.station(station);
                self.world.at(station).forget_neighbours();
            }
        }
        if self.random.chance(500_000) {
            self.world.of(router).tour(|_| {}, || {});
        }
    }

    /// Frames arrive twice, or overtake each other.
    fn disorder(&mut self, cable: CableId) {
        self.world.allow(Permit::Disorder);
        let twice = self.random.chance(500_000);
        let spec = &mut self.world.on(cable).spec;
        if twice { spec.duplicate = 100_000 } else { spec.reorder = 100_000 }
    }

    fn spoil(&mut self, cable: CableId) {
        self.world.allow(Permit::Nonsense);
        self.world.on(cable).spec.corrupt = 50_000;
    }

    fn move_rings(&mut self, router: HostId, port: usize) {
        self.world.allow(Permit::Disorder);
        let cpus = self.world.of(router).cpus.len();
        let (from, to) = (self.random.below(cpus), self.random.below(cpus));
        if from != to && self.world.of(router).nics[port].spec().rings == 1 {
            self.world.of(router).move_rings(port, from, to);
        }
    }

    /// All is well again: everybody must reach everybody, and nothing must be missing.
    fn end(mut self) -> (World, Vec<Broken>) {
        for (cable, spec) in self.cables.iter().zip(&self.specs) {
            self.world.on(*cable).spec = *spec;
        }
        // Nonsense may have claimed an address that was just being asked for: it is lost until configured again.
        let ups = if self.world.has_allowed(Permit::Nonsense) { &[false, true][..] } else { &[true] };
        for up in ups {
            for router in &self.routers {
                self.world.of(*router).nics.iter().for_each(|nic| nic.refuse(0));
                self.world.of(*router).change(|spec| spec.ports.iter_mut().for_each(|port| port.up = *up));
            }
            self.world.run_for(BOOT);
        }
        for station in self.stations.iter().flatten() {
            self.world.at(*station).mute = false;
            self.world.at(*station).forget_neighbours();
        }
        self.world.run_for(RECOVERY);
        for what in [Permit::Nonsense, Permit::Loss, Permit::Disorder] {
            self.world.forbid(what);
        }
        let unreached = self.last_words();
        let mut unruled = self.ask_the_rules();
        let mut broken = self.world.check();
        broken.extend(unreached.map(|text| Broken { check: Check::Reach, text }));
        unruled.extend(self.unruly_arrivals());
        broken.extend(unruled.into_iter().map(|text| Broken { check: Check::Firewall, text }));
        (self.world, broken)
    }

    fn last_words(&mut self) -> Option<String> {
        let (first, last) = (self.stations[0][0], self.stations.len() - 1);
        for family in Family::BOTH {
            let dst = family.addr(net(last), 3);
            self.world.at(first).heard.clear();
            for seq in 0..ATTEMPTS {
                self.world.at(first).ping(dst, [LAST_WORDS, seq], 8);
                self.world.run_for(Duration::from_secs(5));
            }
            if self.world.at(first).replies(LAST_WORDS) == 0 {
                return Some(format!("{dst} cannot be reached when all is well"));
            }
        }
        let ways: Vec<_> =
            self.walled.iter().flat_map(|(at, _)| Family::BOTH.map(|family| (*at, family))).collect();
        ways.into_iter().find_map(|(at, family)| {
            let (flow, packet) = self.flow_through(at, family);
            let is_meant = self.judge.allows(&packet);
            self.world.run_for(Duration::from_secs(5));
            let is_there = !self.world.tally(flow).arrived.is_empty();
            (is_meant && !is_there)
                .then(|| format!("router {at} does not redirect {family:?} when all is well"))
        })
    }
}

/// Number of the network at a place in the line.
fn net(at: usize) -> u8 {
    u8::try_from(at + 1).unwrap_or(u8::MAX)
}

fn good_cable(random: &mut Random) -> cable::Spec {
    cable::Spec {
        delay: Duration::from_nanos(random.between(100, 2_000_000) as u64),
        rate_bps: random.pick(&[None, None, Some(1_000_000_000), Some(50_000_000)]).flatten(),
        mtu: random.pick(&[1500, 1500, 1280, 1400]).unwrap_or(1500),
        ..cable::Spec::default()
    }
}

/// Router `at` of `count`: host 1 on its first network, 254 on the next.
fn router(random: &mut Random, at: usize, count: usize, cables: &[CableId], specs: &[cable::Spec]) -> Spec {
    let cpus = u16::try_from(random.between(1, 4)).unwrap_or(1);
    let mut spec = Spec::router(&format!("router{at}")).cpus(cpus).buffers(random.between(1500, 4000));
    if random.chance(500_000) {
        spec = spec.flows(random.between(8, 64));
    }
    for (at, host) in [(at, 1), (at + 1, 254)] {
        spec = spec.port(port(random, cables[at], net(at), host).mtu(specs[at].mtu));
    }
    for family in Family::BOTH {
        for other in 0..=count {
            if other < at {
                spec = spec.via(family.prefix(net(other)), family.addr(net(at), 254));
            } else if other > at + 1 {
                spec = spec.via(family.prefix(net(other)), family.addr(net(at + 1), 1));
            }
        }
    }
    spec
}

fn port(random: &mut Random, cable: CableId, net: u8, host: u8) -> Port {
    let rss = random.pick(&[Rss::Right, Rss::Wrong, Rss::Absent]).unwrap_or(Rss::Absent);
    let rings = random.between(1, 4);
    let (csum, uso) = (random.chance(500_000), random.chance(500_000));
    Port::new(cable, net, host).rings(rings, rss).card(|card| {
        card.ring_len = random.between(4, 128);
        card.allowance = card.ring_len + random.below(200);
        card.memory = random.below(100);
        card.promiscuous = random.chance(300_000);
        card.caps = Caps { tx_csum: csum, tso: csum, uso: csum && uso, buffers_max: random.between(1, 3) };
    })
}
