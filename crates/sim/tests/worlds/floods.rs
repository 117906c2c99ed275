//! Floods through stateful rules: connections come by the hundred thousand, real ones and others, and leave nothing
//! behind.

mod bounds;
mod calls;
mod scripted_ends;
mod half_open;

use std::collections::{BTreeMap, BTreeSet};

use ipfw::rule::LimitMask;
use net::count::Count;
use net::drop::DropReason;
use net::firewall::state::{End, Flow, Group, Settings, States};
use net::time::Duration;
use sim::builder::{self, Ip};
use sim::firewall::HostFirewall;
use sim::mem::Rss;
use sim::plan::Family;
use sim::station::Content;
use wire::Protocol;
use wire::tcp::Flags;

use crate::common::{Pair, Shape, pair_around};
use scripted_ends::{Crowd, SILENT, STEP, segment, to_be_closed};

const SECOND: Duration = Duration::from_secs(1);
/// Steps of a crowd in a second.
const STEPS: u32 = 4000;
/// Memory of a CPU without states: a few empty segments of the table.
const MEMORY_AT_REST: usize = 256 << 10;

/// Groups that the CPUs can count together.
const TRACKS: usize = 1 << 10;

/// First and last rules of a stateful firewall.
const FRAME: [&str; 2] = [
    "add check-state\n",
    "add allow ip from any to any out\nadd allow ipv6-icmp from any to any icmp6types 135,136\n",
];

/// Whether this is `cargo xtask worlds`, which has time.
fn has_time() -> bool {
    std::env::var_os("PANTALA_WORLDS").is_some()
}

/// A router of so many CPUs between two stations, with these rules in force; with several it has the flow cache, too.
fn guarded(name: &str, cpus: u16, text: &str, settings: Settings) -> (Pair, HostFirewall) {
    let mut firewall = HostFirewall::new(text, cpus, TRACKS);
    firewall.settings = settings;
    guarded_by(name, cpus, firewall)
}

/// Makes one behind an existing firewall.
fn guarded_by(name: &str, cpus: u16, mut firewall: HostFirewall) -> (Pair, HostFirewall) {
    let shape = Shape { cpus, rings: cpus.into(), rss: Rss::Right };
    let mut pair = pair_around(
        name,
        1,
        shape,
        |router| if cpus > 1 { router.buffers(4096).flows(4096) } else { router.buffers(4096) },
        |port| port.card(|card| card.allowance = 1024),
        Default::default(),
    );
    for family in Family::BOTH {
        pair.world.at(pair.a).ping(family.addr(2, 2), [1, 1], 8);
    }
    pair.world.run_for(SECOND);
    assert!(pair.world.of(pair.router).set_firewall(&mut firewall));
    pair.world.run_for(SECOND);
    pair.world.at(pair.a).heard.clear();
    (pair, firewall)
}

fn states(pair: &mut Pair) -> impl Iterator<Item = &States> {
    pair.world.of(pair.router).firewalls().map(|firewall| firewall.states())
}

fn count(pair: &mut Pair, event: Count) -> u64 {
    pair.world.of(pair.router).count(event)
}

/// Nothing is remembered any more, and all memory is back.
fn check_that_nothing_is_left(pair: &mut Pair, firewall: &HostFirewall) {
    assert_eq!(states(pair).map(|states| states.len() + states.tracks()).sum::<usize>(), 0);
    assert_eq!(firewall.loose.total(), 0);
    for states in states(pair) {
        assert!(states.memory() <= MEMORY_AT_REST, "{} bytes", states.memory());
    }
    assert_eq!(pair.world.of(pair.router).outstanding(), 0);
}

#[test]
fn a_hundred_thousand_connections_a_second_come_and_die_and_leave_nothing_behind() {
    let rules = FRAME.join("add allow tcp from any to any 8000-8100 in recv mem0 setup keep-state\n");
    let (per_step, steps) = (100_000 / STEPS, if has_time() { 3 * STEPS } else { STEPS / 20 });
    for cpus in [1, 2, 8] {
        let settings = Settings {
            syn_lifetime: 2,
            ack_lifetime: 3,
            finwait_lifetime: 2,
            fin_lifetime: 1,
            rst_lifetime: 1,
            keepalive: false,
            strict: true,
            ..Settings::default()
        };
        let (mut pair, firewall) = guarded("flood_of_connections", cpus, &rules, settings);
        let (mut crowd, ends) = (Crowd::default(), [pair.a, pair.b]);
        crowd.steps(&mut pair.world, ends, steps, per_step);
        let peak: usize = states(&mut pair).map(States::memory).sum();
        // Those that are on their way go on to their end.
        crowd.steps(&mut pair.world, ends, 20, 0);
        let begun = crowd.begun;
        assert_eq!((begun, crowd.opened), (per_step * steps, begun), "{}", pair.world.drops());
        assert_eq!(crowd.closed, to_be_closed(begun), "{}", pair.world.drops());
        assert!(peak >= 100 * begun.min(50_000) as usize, "{peak} bytes for {begun} connections");
        pair.world.run_for(8 * SECOND);
        check_that_nothing_is_left(&mut pair, &firewall);
        assert_eq!(count(&mut pair, Count::StateInstalled), u64::from(begun));
        assert_eq!(count(&mut pair, Count::StateOverflow) + count(&mut pair, Count::StateOutside), 0);
        let busiest = pair.world.of(pair.router).cpus.iter().map(|cpu| cpu.busiest).max();
        assert!(busiest.unwrap() <= 2000, "{busiest:?} in one turn");
        pair.world.finish();
    }
}

#[test]
fn a_flood_of_syns_finds_no_room_and_established_connections_live_on() {
    const MAX: u32 = 2000;
    const ROUND: u32 = 40;
    let rules = FRAME.join("add allow tcp from any to any in recv mem0 setup keep-state\n");
    let (per_step, seconds) = if has_time() { (25, 4) } else { (2, 3) };
    for cpus in [1, 2, 8] {
        // Half-open connections may take all the room there is.
        let half_open_max = Some(8 * MAX);
        let settings =
            Settings { state_max: MAX, half_open_max, syn_lifetime: 2, strict: true, ..Settings::default() };
        let (mut pair, firewall) = guarded("flood_of_syns", cpus, &rules, settings);
        let (mut crowd, ends) = (Crowd::default(), [pair.a, pair.b]);
        crowd.open_long(&mut pair.world, ends, 16);
        for step in 0..seconds * STEPS {
            for n in step * per_step..(step + 1) * per_step {
                let family = Family::BOTH[n as usize % 2];
                let [_, host, high, low] = n.wrapping_mul(0x9e37_79b9).to_be_bytes();
                let src = family.addr(1, host.max(3));
                let ports = [u16::from_be_bytes([high, low]), SILENT];
                pair.world.at(pair.a).send(segment(src, family.addr(2, 2), ports, Flags::SYN, n, 0));
            }
            if step % ROUND == 0 {
                crowd.send_long(&mut pair.world, pair.a);
            }
            crowd.step(&mut pair.world, ends, 0);
            let total = firewall.loose.total();
            assert!(total <= u64::from(MAX + MAX / 20), "{total} states");
        }
        let rounds = seconds * STEPS / ROUND;
        assert!(crowd.long.iter().all(|bytes| *bytes == rounds), "{:?} of {rounds}", crowd.long);
        let heard = crowd.silent.len() as u64;
        assert_eq!(count(&mut pair, Count::StateInstalled), heard + 32);
        assert!(count(&mut pair, Count::StateOverflow) > 1000 && heard >= u64::from(MAX) - 32);
        assert!(count(&mut pair, Count::StateReap) > 0, "connections that do not open make room");
        let asked = count(&mut pair, Count::StateAskAll);
        assert!((1..=u64::from(seconds) + 1).contains(&asked), "{asked} times in {seconds} s");
        pair.world.run_for(5 * SECOND);
        assert_eq!(firewall.loose.total(), 32, "those that are established are all that is left");
        pair.world.run_for(300 * SECOND);
        check_that_nothing_is_left(&mut pair, &firewall);
        pair.world.finish();
    }
}

/// Returns the attempts of each address.
fn knocks(crowd: &mut Crowd) -> BTreeMap<core::net::IpAddr, usize> {
    let mut knocks = BTreeMap::new();
    crowd.silent.drain(..).for_each(|(from, _)| *knocks.entry(from).or_default() += 1);
    knocks
}

#[test]
fn a_limit_is_kept_on_all_cpus_while_sources_come_and_go_and_its_counts_come_back() {
    let rules = FRAME.join("add 500 allow tcp from any to any in recv mem0 setup limit src-addr 10\n");
    let mask = LimitMask { src_addr: true, ..LimitMask::default() };
    for cpus in [1, 2, 8] {
        let settings = Settings { syn_lifetime: 2, short_lifetime: 1, ..Settings::default() };
        let (mut pair, firewall) = guarded("flood_at_a_limit", cpus, &rules, settings);
        let (mut crowd, ends) = (Crowd::default(), [pair.a, pair.b]);
        for wave in 1..=3 {
            for port in 0..30 {
                for host in 3..103 {
                    let family = Family::BOTH[usize::from(port + u16::from(host)) % 2];
                    let (src, dst) = (family.addr(1, host), family.addr(2, 2));
                    pair.world.at(pair.a).send(segment(src, dst, [port, SILENT], Flags::SYN, 1, 0));
                }
                crowd.step(&mut pair.world, ends, 0);
            }
            let knocks = knocks(&mut crowd);
            assert!(knocks.len() == 200 && knocks.values().all(|knocks| *knocks == 10), "{knocks:?}");
            assert_eq!(firewall.loose.total(), 2000);
            assert_eq!(count(&mut pair, Count::TrackLimit), wave * 1000);
            pair.world.run_for(6 * SECOND);
            check_that_nothing_is_left(&mut pair, &firewall);
            let host = pair.world.of(pair.router);
            let rules = host.firewalls().next().unwrap().rules();
            let rule = (0..rules.len()).find_map(|at| rules.rule(at).filter(|rule| rule.number == 500));
            for src in knocks.keys() {
                let end = |addr: core::net::IpAddr| match addr {
                    core::net::IpAddr::V4(addr) => End { addr: addr.to_bits().into(), port: 0 },
                    core::net::IpAddr::V6(addr) => End { addr: addr.to_bits(), port: 0 },
                };
                let flow = Flow::new(src.is_ipv4(), Protocol::TCP.0, end(*src), End::default());
                assert_eq!(firewall.limits.count(&Group::of(rule.unwrap().id, &flow, mask)), 0);
            }
        }
        pair.world.finish();
    }
}

#[test]
fn more_sources_than_can_be_counted_are_refused_and_find_room_when_the_others_are_over() {
    let rules = FRAME.join("add allow udp from any to any in recv mem0 limit src-port 1\n");
    for cpus in [1, 8] {
        let settings = Settings { udp_lifetime: 2, short_lifetime: 1, ..Settings::default() };
        let (mut pair, firewall) = guarded("flood_of_sources", cpus, &rules, settings);
        for wave in 0..2_u16 {
            let mut passed = 0;
            for n in 0..8000_u16 {
                let family = Family::BOTH[usize::from(n % 2)];
                let ports = [wave * 8000 + n, SILENT];
                let datagram = builder::udp(Ip::new(family.addr(1, 2), family.addr(2, 2)), ports, b"?");
                pair.world.at(pair.a).send(datagram);
                if n % 50 == 49 {
                    pair.world.run_for(STEP);
                    let heard = core::mem::take(&mut pair.world.at(pair.b).heard);
                    passed += heard.iter().filter(|heard| matches!(heard.what, Content::Udp { .. })).count();
                }
            }
            assert!((TRACKS..=4 * TRACKS).contains(&passed), "{passed} groups");
            assert_eq!(
                count(&mut pair, Count::TrackOverflow),
                pair.world.of(pair.router).dropped(DropReason::FirewallStateFull)
            );
            assert!(count(&mut pair, Count::TrackOverflow) > 0);
            pair.world.run_for(6 * SECOND);
            check_that_nothing_is_left(&mut pair, &firewall);
        }
        pair.world.finish();
    }
}

/// Bindings of NAT on all CPUs, and their bytes.
fn bindings(pair: &mut Pair) -> (usize, usize) {
    let firewalls = pair.world.of(pair.router).firewalls();
    let tables = firewalls.flat_map(|firewall| firewall.nat().iter()).map(|instance| instance.table());
    tables.fold((0, 0), |(len, bytes), table| (len + table.len(), bytes + table.bytes()))
}

#[test]
fn a_hundred_thousand_translated_connections_a_second_give_back_ports_and_memory() {
    const RULES: &str = "nat 1 config ip 10.0.2.1\nadd nat 1 tcp from any to any out xmit mem1\n\
         add nat 1 tcp from any to 10.0.2.1 in recv mem1\nadd allow ip from any to any\n";
    // All connections of a port of the server's are of one remote end: there are 64 512 ports for them.
    let steps = if has_time() { STEPS } else { STEPS / 40 };
    for cpus in [1, 2, 8] {
        let (mut pair, _) = guarded("flood_through_nat", cpus, RULES, Settings::default());
        let (mut crowd, ends) = (Crowd::default(), [pair.a, pair.b]);
        crowd.steps(&mut pair.world, ends, steps, 100_000 / STEPS);
        crowd.steps(&mut pair.world, ends, 20, 0);
        let begun = crowd.begun;
        assert_eq!((crowd.opened, crowd.closed), (begun, to_be_closed(begun)), "{}", pair.world.drops());
        // Those of IPv6 are not translated.
        assert_eq!(bindings(&mut pair).0, begun as usize / 2);
        assert_eq!(count(&mut pair, Count::NatHandoffs), 0);
        // As long as an idle connection must be kept, and a little.
        pair.world.run_for(7500 * SECOND);
        let (left, bytes) = bindings(&mut pair);
        assert!(left == 0 && bytes <= usize::from(cpus) * MEMORY_AT_REST, "{left} bindings, {bytes} bytes");
        pair.world.finish();
    }
}

#[test]
fn when_all_ports_are_taken_flows_are_refused_and_the_ports_come_back() {
    const RULES: &str = "nat 1 config ip 10.0.2.1 port_range 2000-2199\n\
         add nat 1 udp from any to any out xmit mem1\nadd allow ip from any to any\n";
    for cpus in [1, 2, 8] {
        let (mut pair, _) = guarded("ports_run_out", cpus, RULES, Settings::default());
        for wave in 0..2_u16 {
            for n in 0..600_u16 {
                let ip = Ip::new(Family::V4.addr(1, 2), Family::V4.addr(2, 2));
                pair.world.at(pair.a).send(builder::udp(ip, [10_000 * wave + n, SILENT], b"?"));
                pair.world.run_for(STEP);
            }
            let heard = core::mem::take(&mut pair.world.at(pair.b).heard);
            let knocks: BTreeSet<_> = heard
                .iter()
                .filter_map(|heard| match heard.what {
                    Content::Udp { ports: [from, SILENT], .. } => Some((heard.from, from)),
                    _ => None,
                })
                .collect();
            let refused = pair.world.of(pair.router).dropped(DropReason::NatExhausted);
            assert!((180..=200).contains(&knocks.len()), "{} ports", knocks.len());
            assert_eq!(
                refused + bindings(&mut pair).0 as u64,
                600 + u64::from(wave) * (600 - knocks.len() as u64)
            );
            assert!(knocks.iter().all(|(_, port)| (2000..2200).contains(port)));
            pair.world.run_for(320 * SECOND);
            assert_eq!(bindings(&mut pair).0, 0);
        }
        pair.world.finish();
    }
}
