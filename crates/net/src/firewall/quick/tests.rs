//! The oracle of all short ways is the walk over the rules: same packets, same counters, same states.

use core::net::IpAddr;
use core::time::Duration;

use wire::tcp::{Flags, Header, Options};

use crate::count::Count;
use crate::firewall::state::Listed;
use crate::kit::rules::{Script, rules};
use crate::kit::{Bench, addr4, addr6, build};

/// What rulesets are made of. Of chances nothing can be compared.
const LINES: [&str; 30] = [
    "check-state",
    "check-state",
    "check-state :web",
    "check-state :any",
    "allow udp from any to any keep-state",
    "allow tcp from any to any setup keep-state",
    "allow tcp from any to any 1,2 keep-state :web",
    "deny udp from any to any 3 keep-state",
    "count udp from any to any 1 out keep-state :web",
    "allow udp from any to any 2 limit src-addr 2",
    "allow tcp from any to any record-state",
    "allow ip from any to any",
    "allow udp from any to any",
    "allow tcp from any to any established",
    "allow ip from any to any in",
    "allow ip from any to any out xmit mem2",
    "deny udp from any to any 2 in",
    "deny tcp from any to any 2 forward",
    "deny ip from table(1) to any",
    "allow udp from any to table(1) out",
    "deny ip from any to any iplen 90-200",
    "deny ip from any to any ipttl 1-60",
    "deny ip from any to any dscp ef",
    "deny ip from any to any iptos lowdelay",
    "count ip from any to any",
    "count tcp from any to any tcpflags fin,!rst",
    "skipto 60 udp from any to any 1",
    "skipto 90 ip from any to any in",
    "count log udp from any to any 1",
    "count tag 7 ip from any to any 1",
];
const STEPS: u32 = 4000;

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[usize::try_from(self.below(all.len() as u64)).unwrap()]
    }

    /// A few rules.
    fn script(&mut self) -> String {
        let mut text =
            "table 1 create\nadd 1 allow ipv6-icmp from any to any icmp6types 135,136\n".to_owned();
        for number in 0..self.below(9) {
            text += &format!("add {} {}\n", 10 + 10 * number, self.pick(&LINES));
        }
        text + self.pick(&["", "add allow ip from any to any\n", "add allow udp from any to any\n"])
    }

    /// A packet of one of few flows, and the interface that it comes in by.
    fn packet(&mut self, is_ip4: bool) -> (u16, Vec<u8>) {
        let from = self.pick(&[1, 1, 2]);
        let host = |i: u16, host: u8| -> IpAddr {
            if is_ip4 { addr4(i, host).into() } else { addr6(i, host.into()).into() }
        };
        let (client, port) = (host(1, self.pick(&[9, 10])), self.pick(&[1_u16, 2, 3]));
        let (server, own) = (host(2, 9), self.pick(&[1000_u16, 1001]));
        let (src, dst, ports) =
            if from == 1 { (client, server, (own, port)) } else { (server, client, (port, own)) };
        let payload = vec![7; self.pick(&[10, 10, 10, 100])];
        let mut packet = match self.below(8) {
            0 => build::echo_request(src, dst, 1, 1, &payload),
            1..4 => {
                let flags = self.pick(&[
                    Flags::SYN,
                    Flags(Flags::SYN.0 | Flags::ACK.0),
                    Flags::ACK,
                    Flags::ACK,
                    Flags::ACK,
                    Flags(Flags::FIN.0 | Flags::ACK.0),
                    Flags::RST,
                ]);
                let (seq, ack) = (self.pick(&[100, 101, 101, 500_000]), self.pick(&[100, 101, 111]));
                let (src_port, dst_port) = ports;
                let options = Options::NONE;
                let header = Header { src_port, dst_port, seq, ack, flags, window: 9000, urgent: 0, options };
                build::tcp(src, dst, &header, &payload)
            }
            _ => build::udp(src, dst, ports, &payload),
        };
        let (ttl, class) = (self.pick(&[64, 64, 64, 50, 1]), self.pick(&[0, 0, 0, 1, 3, 0x10, 0xb8]));
        if is_ip4 {
            (packet[8], packet[1]) = (ttl, class);
            build::fix_ip4_checksum(&mut packet);
        } else {
            (packet[7], packet[0], packet[1]) = (ttl, 0x60 | class >> 4, class << 4);
        }
        (from, packet)
    }
}

/// A router that walks the rules for each packet, one that takes short ways, and one with the flow cache too.
fn routers() -> [Bench; 3] {
    [false, false, true].map(|is_fast| {
        let mut bench = Bench::new(2);
        bench.netisrs[0].set_flows(is_fast.then_some(64));
        bench
    })
}

fn set(routers: &mut [Bench; 3], scripts: &mut [Script; 3]) {
    for (bench, script) in routers.iter_mut().zip(scripts) {
        bench.set_rules(script);
    }
    routers[0].cpu().firewall.as_mut().unwrap().only_walks = true;
}

/// Packets and bytes of all rules, and all states.
fn remembered(bench: &mut Bench) -> (Vec<(u64, u64)>, Vec<Listed>) {
    let now = bench.cpu().now;
    let firewall = bench.cpu().firewall.as_ref().unwrap();
    let rules = (0..firewall.rules().len()).map(|at| firewall.rules().rule(at).unwrap().id);
    let counted = rules.map(|id| firewall.counters().get(id)).map(|row| (row.packets, row.bytes));
    let mut states = firewall.states().page(0, usize::MAX, false, now).0;
    states.sort_by_key(|state| (state.ends, state.flow.0, state.proto));
    (counted.collect(), states)
}

#[test]
fn short_ways_and_the_flow_cache_do_to_packets_rules_and_states_what_the_walk_does() {
    let (mut hits, mut worlds) = (0, 0);
    for is_ip4 in [true, false] {
        for seed in 0..40 {
            let (mut random, mut routers) = (Random(seed), routers());
            let text = random.script();
            let mut scripts = [(); 3].map(|()| rules(&text));
            set(&mut routers, &mut scripts);
            for step in 0..STEPS / 40 {
                match random.below(40) {
                    0 => {
                        let ms = random.pick(&[100, 2500, 11_000]);
                        routers.iter_mut().for_each(|bench| bench.advance(Duration::from_millis(ms)));
                    }
                    1 => {
                        let host: IpAddr = if is_ip4 { addr4(1, 9).into() } else { addr6(1, 9).into() };
                        scripts.iter_mut().for_each(|script| script.turn_in_table("1", host));
                    }
                    2 => {
                        let text = random.script();
                        scripts = [(); 3].map(|()| rules(&text));
                        set(&mut routers, &mut scripts);
                    }
                    _ => {}
                }
                for _ in 0..1 + random.below(12) {
                    let (from, packet) = random.packet(is_ip4);
                    // An answer is made before or after what comes behind the packet that it is about: let nothing.
                    if packet[if is_ip4 { 8 } else { 7 }] == 1 {
                        routers.iter_mut().for_each(Bench::run);
                    }
                    routers.iter_mut().for_each(|bench| bench.inject(from, build::frame(from, &packet)));
                    if packet[if is_ip4 { 8 } else { 7 }] == 1 {
                        routers.iter_mut().for_each(Bench::run);
                    }
                }
                routers.iter_mut().for_each(Bench::run);
                let [walking, others @ ..] = &mut routers;
                let sent = [1, 2].map(|i| walking.sent(i));
                let expected = (sent, remembered(walking), walking.drops());
                for (name, bench) in ["short ways", "flow cache"].into_iter().zip(others) {
                    let sent = [1, 2].map(|i| bench.sent(i));
                    let is = (sent, remembered(bench), bench.drops());
                    let place = format!("{name}, IPv4 {is_ip4}, seed {seed}, step {step}:\n{text}");
                    assert_eq!(is.1, expected.1, "{place}");
                    assert!(is == expected, "other packets: {place}");
                }
            }
            let outside = |bench: &Bench| bench.counted(Count::StateOutside);
            assert!(routers.iter().all(|bench| outside(bench) == outside(&routers[0])));
            hits += routers[2].counted(Count::FlowHits);
            worlds += 1;
        }
    }
    assert!(hits > 20 * worlds, "{hits} packets were forwarded by the flow cache");
}
