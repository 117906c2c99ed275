//! Redirected flows: there and back on any number of CPUs, two that want the same, too many, and all kinds of trouble.

use core::net::IpAddr;
use core::ops::Range;

use net::count::Count;
use net::drop::DropReason;
use net::firewall::state::{Settings, States};
use net::time::Duration;
use sim::builder::{self, Ip};
use sim::firewall::HostFirewall;
use sim::host::Spec;
use sim::mem::Rss;
use sim::plan::Family;
use sim::random::Random;
use sim::station::Content;
use wire::tcp::{Flags, Header, Options};

use crate::common::{Pair, Shape, pair_around, seeds};
use sim::world::Permit;

const CPUS: [u16; 3] = [1, 2, 8];
const SECOND: Duration = Duration::from_secs(1);
/// Time for a question to come to the server, and for its answer to come back.
const STEP: Duration = Duration::from_millis(5);
/// Ports of the router's address that lead to one port of the server.
const FRONTS: Range<u16> = 80..112;
const SERVICE: u16 = 8080;
/// The number of the rules that redirect.
const NUMBER: u16 = 200;
/// Time for all states to end.
const ALL_LIVES: Duration = Duration::from_secs(30);

const SYN_ACK: Flags = Flags(Flags::SYN.0 | Flags::ACK.0);
const RST_ACK: Flags = Flags(Flags::RST.0 | Flags::ACK.0);

/// A router between a client and a server, of which clients know nothing but the router's address.
struct Scene {
    pair: Pair,
    firewall: HostFirewall,
    /// Clients' questions that were answered: family and ports.
    answered: Vec<(Family, u16, u16)>,
}

/// A question of a client.
#[derive(Clone, Copy)]
struct Question {
    family: Family,
    from: u16,
    front: u16,
    is_tcp: bool,
}

fn server(family: Family) -> IpAddr {
    family.addr(2, 2)
}

/// Returns the redirecting rules.
fn redirections() -> String {
    let rule = |(front, family): (u16, Family)| {
        let (to, by) = (server(family), family.addr(1, 1));
        format!("add {NUMBER} rdr {to},{SERVICE} ip from any to {by} {front} in recv mem0\n")
    };
    FRONTS.flat_map(|front| Family::BOTH.map(|family| (front, family))).map(rule).collect()
}

/// That and what is let pass behind it.
fn rules() -> String {
    let pass = |family| {
        let to = server(family);
        format!(
            "add 300 allow tcp from any to {to} {SERVICE} setup keep-state\n\
             add 300 allow udp from any to {to} {SERVICE} keep-state\n"
        )
    };
    let first = "add 1 allow ipv6-icmp from any to any icmp6types 135,136\nadd 100 check-state\n";
    first.to_owned() + &redirections() + &Family::BOTH.map(pass).concat()
}

impl Scene {
    fn new(name: &str, seed: u64, cpus: u16, settings: Settings) -> Self {
        let rss = if seed.is_multiple_of(2) { Rss::Right } else { Rss::Wrong };
        let shape = Shape { cpus, rings: if seed.is_multiple_of(3) { 1 } else { cpus.into() }, rss };
        let specs = Default::default();
        let is_cached = seed % 4 >= 2;
        let more = |router: Spec| if is_cached { router.flows(64) } else { router };
        let mut pair =
            pair_around(name, seed, shape, |router| more(router.buffers(4096)), |port| port, specs);
        for family in Family::BOTH {
            pair.world.at(pair.a).ping(server(family), [1, 1], 8);
        }
        pair.world.run_for(SECOND);
        let mut firewall = HostFirewall::new(&rules(), cpus, 16);
        firewall.settings = settings;
        assert!(pair.world.of(pair.router).set_firewall(&mut firewall));
        pair.world.run_for(SECOND);
        pair.world.at(pair.a).heard.clear();
        pair.world.at(pair.b).heard.clear();
        Self { pair, firewall, answered: Vec::new() }
    }

    fn ask(&mut self, question: Question) {
        let Question { family, from, front, is_tcp } = question;
        let (src, dst) = (family.addr(1, 2), family.addr(1, 1));
        let packet = if is_tcp {
            segment([src, dst], [from, front], Flags::SYN, 0)
        } else {
            builder::udp(Ip::new(src, dst), [from, front], b"?")
        };
        self.pair.world.at(self.pair.a).send(packet);
    }

    /// Lets questions arrive, the server answer, and the client hear that, and end connections.
    fn step(&mut self) {
        let Self { pair: Pair { world, a, b, .. }, answered, .. } = self;
        world.run_for(STEP);
        for heard in core::mem::take(&mut world.at(*b).heard) {
            let ends = [heard.to, heard.from];
            match heard.what {
                Content::Tcp { ports: [from, to], flags, .. } => {
                    assert_eq!(to, SERVICE);
                    if Flags(flags) == Flags::SYN {
                        world.at(*b).send(segment(ends, [to, from], SYN_ACK, 101));
                    }
                }
                Content::Udp { ports: [from, to], .. } => {
                    world.at(*b).send(builder::udp(Ip::new(ends[0], ends[1]), [to, from], b"!"));
                }
                _ => {}
            }
        }
        world.run_for(STEP);
        for heard in core::mem::take(&mut world.at(*a).heard) {
            let family = Family::of(heard.from);
            let (Content::Tcp { ports: [front, to], .. } | Content::Udp { ports: [front, to], .. }) =
                heard.what
            else {
                continue;
            };
            assert_eq!(heard.from, family.addr(1, 1), "nobody hears of the server");
            assert!(FRONTS.contains(&front));
            answered.push((family, to, front));
            if let Content::Tcp { flags, .. } = heard.what
                && Flags(flags) == SYN_ACK
            {
                world.at(*a).send(segment([heard.to, heard.from], [to, front], RST_ACK, 701));
            }
        }
    }

    fn states(&mut self) -> usize {
        self.pair.world.of(self.pair.router).firewalls().map(|firewall| firewall.states().len()).sum()
    }

    fn count(&mut self, event: Count) -> u64 {
        self.pair.world.of(self.pair.router).count(event)
    }

    /// When all lives are over there is no state on any CPU, and nothing under way between them. That no packet is missing,
    /// the world finds out.
    fn end(mut self) {
        self.pair.world.run_for(ALL_LIVES);
        assert_eq!(self.states(), 0);
        assert_eq!(self.firewall.loose.total(), 0);
        assert_eq!(self.count(Count::RedirectGiven), self.count(Count::RedirectTaken));
        let router = self.pair.world.of(self.pair.router);
        assert!(!router.firewalls().map(|firewall| firewall.states()).any(States::has_pairs));
        self.pair.world.finish();
    }
}

fn segment([src, dst]: [IpAddr; 2], [src_port, dst_port]: [u16; 2], flags: Flags, ack: u32) -> Vec<u8> {
    let seq = if flags.syn() && flags.ack() { 700 } else { 100 + u32::from(!flags.syn()) };
    let header =
        Header { src_port, dst_port, seq, ack, flags, window: 8000, urgent: 0, options: Options::NONE };
    builder::tcp(Ip::new(src, dst), &header, b"")
}

/// A question from a port of its own, to any of the fronts.
fn question(random: &mut Random, from: u16) -> Question {
    let front = FRONTS.start + u16::try_from(random.below(FRONTS.len())).unwrap_or(0);
    Question { family: Family::BOTH[random.below(2)], from, front, is_tcp: random.chance(500_000) }
}

#[test]
fn each_request_is_answered_by_its_cpu_and_nothing_is_left() {
    for (seed, cpus) in seeds(4).flat_map(|seed| CPUS.map(|cpus| (seed, cpus))) {
        let mut scene = Scene::new("redirections", seed, cpus, Settings::default());
        let mut random = Random::new(seed);
        let mut asked = Vec::new();
        for round in 0..4 {
            for n in 0..60 {
                let question = question(&mut random, 2000 + 60 * round + n);
                scene.ask(question);
                asked.push((question.family, question.from, question.front));
            }
            (0..3).for_each(|_| scene.step());
        }
        let by_port = |(_, from, _): &(Family, u16, u16)| *from;
        scene.answered.sort_unstable_by_key(by_port);
        assert!(scene.answered == asked, "seed {seed}, {cpus} CPUs: {}", scene.pair.world.drops());
        assert_eq!(scene.count(Count::RedirectSplit) > 0, cpus > 1);
        assert!(scene.count(Count::RedirectSplit) < scene.count(Count::Redirected));
        assert_eq!(scene.count(Count::RedirectConflicts), 0);
        scene.end();
    }
}

#[test]
fn of_questions_at_the_same_moment_that_want_the_same_ends_one_is_answered() {
    for (seed, cpus) in seeds(4).flat_map(|seed| CPUS.map(|cpus| (seed, cpus))) {
        let mut scene = Scene::new("redirections_that_meet", seed, cpus, Settings::default());
        let mut random = Random::new(seed);
        for from in 2000..2050 {
            let first = question(&mut random, from);
            let other = FRONTS.start + (first.front - FRONTS.start + 1 + from % 30) % 32;
            scene.ask(first);
            scene.ask(Question { front: other, ..first });
        }
        (0..4).for_each(|_| scene.step());
        let mut ports: Vec<u16> = scene.answered.iter().map(|(_, from, _)| *from).collect();
        ports.sort_unstable();
        assert_eq!(ports, (2000..2050).collect::<Vec<_>>(), "seed {seed}, {cpus} CPUs");
        assert_eq!(scene.count(Count::RedirectConflicts), 50);
        assert_eq!(scene.pair.world.of(scene.pair.router).dropped(DropReason::FirewallRedirect), 50);
        scene.end();
    }
}

#[test]
fn more_flows_than_states_overflow_by_no_more_than_a_twentieth_and_those_that_are_there_go_on() {
    const MAX: u32 = 600;
    for (seed, cpus) in seeds(2).flat_map(|seed| CPUS.map(|cpus| (seed, cpus))) {
        let settings = Settings { state_max: MAX, ..Settings::default() };
        let mut scene = Scene::new("redirections_overflow", seed, cpus, settings);
        let mut random = Random::new(seed);
        let early = Question { is_tcp: false, ..question(&mut random, 1999) };
        scene.ask(early);
        (0..2).for_each(|_| scene.step());
        for n in 0..40 {
            for m in 0..40 {
                scene.ask(Question { is_tcp: false, ..question(&mut random, 2000 + 40 * n + m) });
            }
            scene.step();
            let total = scene.firewall.loose.total();
            assert!(total <= u64::from(MAX + MAX / 20), "seed {seed}, {cpus} CPUs: {total}");
        }
        scene.answered.clear();
        scene.ask(early);
        (0..2).for_each(|_| scene.step());
        assert!(scene.answered.contains(&(early.family, early.from, early.front)));
        assert!(scene.count(Count::StateOverflow) > 0, "there were too many");
        scene.end();
    }
}

#[test]
fn trouble_on_the_cables_between_cpus_and_in_the_rules_leaves_nothing_behind() {
    for (seed, cpus) in seeds(6).flat_map(|seed| CPUS.map(|cpus| (seed, cpus))) {
        let mut scene = Scene::new("redirections_in_trouble", seed, cpus, Settings::default());
        let mut random = Random::new(seed);
        scene.pair.world.stalls = [0, 20_000, 300_000][random.below(3)];
        for what in [Permit::Loss, Permit::Disorder] {
            scene.pair.world.allow(what);
        }
        let mut is_redirected = true;
        for _ in 0..40 {
            for _ in 0..random.between(1, 40) {
                // Few ports: questions meet those that were put before.
                let from = 2000 + u16::try_from(random.below(30)).unwrap_or(0);
                let question = question(&mut random, from);
                scene.ask(question);
            }
            let cable = scene.pair.cables[random.below(2)];
            let spec = &mut scene.pair.world.on(cable).spec;
            match random.below(5) {
                0 => spec.loss ^= 100_000,
                1 => spec.duplicate ^= 100_000,
                2 => spec.reorder ^= 100_000,
                3 => {
                    is_redirected ^= true;
                    let text = format!("delete {NUMBER}\n");
                    scene.firewall.obey(if is_redirected { redirections() } else { text }.as_str());
                    assert!(scene.pair.world.of(scene.pair.router).set_firewall(&mut scene.firewall));
                }
                _ => {
                    let span = random.between(1, 5_000_000_000) as u64;
                    scene.pair.world.run_for(Duration::from_nanos(span));
                }
            }
            scene.step();
        }
        for cable in scene.pair.cables {
            let spec = &mut scene.pair.world.on(cable).spec;
            (spec.loss, spec.duplicate, spec.reorder) = (0, 0, 0);
        }
        if !is_redirected {
            scene.firewall.obey(&redirections());
            assert!(scene.pair.world.of(scene.pair.router).set_firewall(&mut scene.firewall));
        }
        scene.pair.world.run_for(ALL_LIVES);
        assert_eq!(scene.states(), 0, "seed {seed}, {cpus} CPUs");
        scene.answered.clear();
        let last = question(&mut random, 5000);
        scene.ask(last);
        (0..3).for_each(|_| scene.step());
        assert!(
            scene.answered.contains(&(last.family, last.from, last.front)),
            "{}",
            scene.pair.world.drops()
        );
        scene.end();
    }
}
