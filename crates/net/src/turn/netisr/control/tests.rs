use core::net::IpAddr;
use core::time::Duration;
use std::sync::Arc;

use pkt::Flags;

use crate::base::count::Count;
use crate::base::drop::DropReason;
use crate::fib::{Prefix, Route, To};
use crate::firewall::Shared;
use crate::link::tables::{Config, Tables};
use crate::testkit::rules::{Script, rules};
use crate::testkit::{Bench, addr4, addr6, build, ifnet};

/// Payload of packets that neither configuration allows, and of those that both allow.
const FORBIDDEN: &[u8] = b"forbidden";
const ALLOWED: &[u8] = b"allowed";

/// Hosts behind routers, and their prefixes: led to by interface 2 or 3, and denied there.
const FAR: [&str; 2] = ["198.51.100.9", "2001:db8:f::9"];

const DISCOVERY: &str = "add 1 allow ipv6-icmp from any to any icmp6types 135,136\n";

/// One of two configurations that let the same pass, each by its own routes, interfaces and rules. Of the first, interface 4 only
/// monitors, and interface 5 is not there.
struct World {
    is_first: bool,
    rules: Script,
}

impl World {
    fn new(is_first: bool) -> Self {
        let text = if is_first {
            "add 10 deny ip from any to 198.51.100.0/24,2001:db8:f::/64 out via mem2\n"
        } else {
            "add 10 deny ip from any to 198.51.100.0/24,2001:db8:f::/64 out via mem3\n\
             add 11 deny ip from any to any in recv mem4\nadd 12 deny ip from any to any in recv mem5\n"
        };
        Self { is_first, rules: rules(&format!("{DISCOVERY}{text}add 99 allow ip from any to any\n")) }
    }

    fn config(&self, generation: u64) -> Config {
        let out = if self.is_first { 2 } else { 3 };
        let route = |len: u8, far: &str, via: IpAddr| {
            let to = Prefix::new(far.parse().unwrap(), len).unwrap();
            Route::new(to, To::Gateway { ifindex: out, via })
        };
        let routes = vec![route(24, FAR[0], addr4(out, 9).into()), route(64, FAR[1], addr6(out, 9).into())];
        let ifs = (1..=if self.is_first { 4 } else { 5 }).map(|index| {
            let mut ifnet = ifnet(index);
            ifnet.monitor = self.is_first && index == 4;
            ifnet
        });
        Config { generation, ifs: ifs.collect(), routes, forwarding: true, ..Config::default() }
    }

    fn given(&mut self, generation: u64, cpus: usize) -> (Arc<Tables>, Shared) {
        let tables = Arc::new(Tables::new(self.config(generation)));
        let shared = self.rules.shared(&tables, cpus);
        (tables, shared)
    }
}

/// Draws numbers from a seed.
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// A packet of one of four kinds; answers whether it is to arrive.
fn inject(bench: &mut Bench, draw: &mut Draw) -> bool {
    let is_v4 = draw.below(2) == 0;
    let host = |i: u16| if is_v4 { IpAddr::from(addr4(i, 9)) } else { addr6(i, 9).into() };
    let far: IpAddr = FAR[usize::from(!is_v4)].parse().unwrap();
    let (from, dst, payload) = match draw.below(4) {
        0 => (1, far, FORBIDDEN),
        1 => (4, host(2), FORBIDDEN),
        2 => (5, host(2), FORBIDDEN),
        _ => (1, host(2), ALLOWED),
    };
    let port = u16::try_from(1024 + draw.below(512)).unwrap();
    bench.inject(from, build::frame(from, &build::udp(host(from), dst, (port, 53), payload)));
    payload == ALLOWED
}

fn bearing(frames: &[Vec<u8>], payload: &[u8]) -> usize {
    frames.iter().filter(|frame| frame.windows(payload.len()).any(|bytes| bytes == payload)).count()
}

/// The way in which CPUs learn of another configuration.
#[derive(Clone, Copy, PartialEq)]
enum Sent {
    AtOnce,
    TablesFirst,
}

/// Lets packets flow while the CPUs get one configuration and the other, whatever turns first. Answers how many got through that
/// neither lets pass, and how many were lost that both do.
fn flow(seed: u64, cpus: usize, told: Sent) -> (usize, usize) {
    let mut draw = Draw(seed);
    let mut worlds = [World::new(true), World::new(false)];
    // The one with all interfaces, so that there are wires.
    let first = worlds[1].config(1);
    let mut bench = Bench::with(5, u16::try_from(cpus).unwrap(), |config| *config = first);
    let (tables, shared) = worlds[0].given(2, cpus);
    bench.netisrs.iter_mut().for_each(|netisr| netisr.reconfigure(Arc::clone(&tables), Some(&shared)));
    let mut wanted = 0;
    for round in 3..24 {
        let (tables, shared) = worlds[usize::from(round % 2 == 1)].given(round, cpus);
        let mut waiting: Vec<(usize, u8)> = (0..cpus).map(|cpu| (cpu, 0)).collect();
        if draw.below(2) == 0 {
            waiting.reverse();
        }
        let mut left = 20;
        while !waiting.is_empty() || left > 0 {
            match draw.below(8) {
                0..4 => wanted += usize::from(inject(&mut bench, &mut draw)),
                4 if !waiting.is_empty() => {
                    let (cpu, done) = waiting.remove(0);
                    let netisr = &mut bench.netisrs[cpu];
                    match (told, done) {
                        (Sent::AtOnce, _) => netisr.reconfigure(Arc::clone(&tables), Some(&shared)),
                        (Sent::TablesFirst, 0) => {
                            netisr.set_tables(Arc::clone(&tables));
                            waiting.push((cpu, 1));
                        }
                        (Sent::TablesFirst, _) => netisr.set_firewall(&shared),
                    }
                }
                _ => {
                    let cpu = usize::try_from(draw.below(cpus as u64)).unwrap();
                    let now = bench.now;
                    bench.netisrs[cpu].turn(now);
                    bench.answer();
                    left -= i32::from(left > 0);
                }
            }
        }
    }
    bench.run();
    let sent: Vec<_> = (1..=5).flat_map(|index| bench.sent(index)).collect();
    assert!(cpus == 1 || bench.counted(Count::HandoffOut) > 0);
    (bearing(&sent, FORBIDDEN), wanted - bearing(&sent, ALLOWED))
}

#[test]
fn nothing_passes_that_neither_of_two_configurations_lets_pass_and_nothing_is_lost_that_both_do() {
    for seed in 0..60 {
        for cpus in [1, 2, 3] {
            assert_eq!(flow(seed, cpus, Sent::AtOnce), (0, 0), "seed {seed}, {cpus} CPUs");
        }
    }
    let leaks: usize = (0..20).map(|seed| flow(seed, 2, Sent::TablesFirst).0).sum();
    assert!(leaks > 0, "the test sees what tables before their rules let through");
}

#[test]
fn what_waits_in_a_pipe_when_another_configuration_comes_goes_no_further() {
    for (src, dst) in [(addr4(1, 9).into(), addr4(2, 9).into()), (addr6(1, 9).into(), addr6(2, 9).into())] {
        for (cpus, exact) in [(1, ""), (3, ""), (3, "exact")] {
            let mut bench = Bench::with(3, cpus, |_| ());
            let text = format!(
                "{DISCOVERY}pipe 1 config delay 100 {exact}\nadd pipe 1 udp from any to any in\nadd allow ip from any to any\n"
            );
            let mut script = rules(&text);
            bench.set_rules(&mut script);
            let through = |bench: &mut Bench| {
                for port in 1..=9 {
                    bench.inject(1, build::frame(1, &build::udp(src, dst, (port, 53), ALLOWED)));
                }
                bench.run();
            };
            through(&mut bench);
            let tables = Arc::clone(&bench.cpu().tables);
            let shared = script.shared(&tables, cpus.into());
            bench
                .netisrs
                .iter_mut()
                .for_each(|netisr| netisr.reconfigure(Arc::clone(&tables), Some(&shared)));
            bench.advance(Duration::from_millis(200));
            assert_eq!((bearing(&bench.sent(2), ALLOWED), bench.dropped(DropReason::Reconfigured)), (0, 9));
            through(&mut bench);
            bench.advance(Duration::from_millis(200));
            assert_eq!(bearing(&bench.sent(2), ALLOWED), 9, "the pipe goes on");
        }
    }
}

#[test]
fn what_is_on_its_way_from_us_to_us_when_another_configuration_comes_goes_no_further() {
    let mut bench = Bench::new(2);
    let mut pkt = bench.cpu().pool.take().unwrap();
    pkt.flags.set(Flags::LOCAL);
    bench.cpu().loop_back(pkt, crate::turn::next::Resume::Ip4);
    let tables = Arc::clone(&bench.cpu().tables);
    bench.netisrs[0].reconfigure(tables, None);
    assert_eq!((bench.dropped(DropReason::Reconfigured), bench.buffers_out()), (1, 0));
}
