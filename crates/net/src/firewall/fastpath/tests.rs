//! The oracle of all short ways is the walk over the rules: same packets, same counters, same states and bindings.

use core::net::IpAddr;
use core::time::Duration;

use pkt::Note;
use wire::Protocol;
use wire::tcp::{Flags, Header, Options};

use crate::base::count::Count;
use crate::firewall::answering;
use crate::firewall::ruleset::FlowId;
use crate::firewall::state::{Direction, End, Flow, Listed};
use crate::ip::ip_tx;
use crate::testkit::rules::{Script, rules};
use crate::testkit::{Bench, addr4, addr6, build};

/// Lines of rulesets. Random matches cannot be compared.
const LINES: [&str; 35] = [
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
    "count udp from any to any src-port 1000 out",
    "nat 1 ip from any to any in recv mem2",
    "nat 1 ip from any to any forward",
    "nptv6 out ip from any to any via mem2",
    "nptv6 out ip from any to any in",
];
/// Translations before and after other rules.
const TRANSLATING: [&str; 6] = [
    "",
    "add 5 nat 1 ip from any to any via mem2\nadd 6 nptv6 out ip from any to any via mem2\n",
    "add 5 nat 1 ip from any to any in recv mem2\nadd 200 nat 1 ip from any to any out xmit mem2\n",
    "disable one_pass\nadd 5 nat 1 ip4 from any to any via mem2\nadd 6 nptv6 out ip from any to any via mem2\n",
    // As most people write it: a state and a translation.
    "disable one_pass\nadd 5 nat 1 ip4 from any to any in recv mem2\nadd 6 check-state\n\
     add 7 skipto 200 udp from any to any in recv mem1 keep-state\n\
     add 8 skipto 200 tcp from any to any in recv mem1 setup keep-state\n\
     add 200 nat 1 ip4 from any to any out xmit mem2\nadd 210 allow ip from any to any\n",
    "add 5 nat 1 ip4 from any to any in recv mem2\nadd 6 check-state\n\
     add 7 skipto 200 udp from any to any in recv mem1 keep-state\n\
     add 8 skipto 200 tcp from any to any in recv mem1 setup limit src-addr 3\n\
     add 200 nat 1 ip4 from any to any out xmit mem2\nadd 210 allow ip from any to any\n",
];
const STEPS: u32 = 4000;

struct Random {
    state: u64,
    /// The last packet that has left by the second interface.
    heard: Vec<u8>,
}

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.state =
            self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 33) % n
    }

    fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[usize::try_from(self.below(all.len() as u64)).unwrap()]
    }

    /// A few rules.
    fn script(&mut self) -> String {
        let nat = self.pick(&["", " same_ports", " deny_in"]);
        let mut text = format!(
            "table 1 create\nnat 1 config ip 10.0.2.1{nat}\n\
             nptv6 out create int_prefix 2001:db8:1:: ext_prefix 2001:db8:99:: prefixlen 48\n\
             add 1 allow ipv6-icmp from any to any icmp6types 135,136\n"
        );
        text += self.pick(&TRANSLATING);
        for number in 0..self.below(9) {
            text += &format!("add {} {}\n", 10 + 10 * number, self.pick(&LINES));
        }
        text + self.pick(&["", "add allow ip from any to any\n", "add allow udp from any to any\n"])
    }

    /// A packet of one of few flows, and the interface that it comes in by.
    fn packet(&mut self, is_ip4: bool) -> (u16, Vec<u8>) {
        let from = self.pick(&[1, 1, 2]);
        if from == 2 && self.below(2) == 0 && !self.heard.is_empty() {
            return (from, answer(&self.heard));
        }
        let host = |i: u16, host: u8| -> IpAddr {
            if is_ip4 { addr4(i, host).into() } else { addr6(i, host.into()).into() }
        };
        let (client, port) = (host(1, self.pick(&[9, 10])), self.pick(&[1_u16, 2, 3]));
        let (server, own) = (host(2, 9), self.pick(&[1000_u16, 1001]));
        let (src, dst, ports) =
            if from == 1 { (client, server, (own, port)) } else { (server, client, (port, own)) };
        (from, self.between(is_ip4, (src, dst), ports))
    }

    /// Makes a packet from the router itself to one of few peers, in a flow of its own.
    fn own(&mut self, is_ip4: bool) -> Vec<u8> {
        let ends = if is_ip4 {
            (addr4(2, 1).into(), addr4(2, 9).into())
        } else {
            (addr6(2, 1).into(), addr6(2, 9).into())
        };
        let ports = (self.pick(&[1000, 1001]), self.pick(&[1, 2, 3]));
        self.between(is_ip4, ends, ports)
    }

    fn between(&mut self, is_ip4: bool, (src, dst): (IpAddr, IpAddr), ports: (u16, u16)) -> Vec<u8> {
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
        packet
    }
}

/// Makes the reply.
fn answer(packet: &[u8]) -> Vec<u8> {
    let mut answer = packet.to_vec();
    let (src, dst, len, ports) = if packet[0] >> 4 == 4 { (12, 16, 4, 20) } else { (8, 24, 16, 40) };
    answer[src..src + len].copy_from_slice(&packet[dst..dst + len]);
    answer[dst..dst + len].copy_from_slice(&packet[src..src + len]);
    answer[ports..ports + 2].copy_from_slice(&packet[ports + 2..ports + 4]);
    answer[ports + 2..ports + 4].copy_from_slice(&packet[ports..ports + 2]);
    answer
}

/// Sends a packet that was made here. What leaves.
fn say(bench: &mut Bench, packet: &[u8]) -> Vec<Vec<u8>> {
    say_with(bench, packet, None)
}

/// Sends a packet that bears a note.
fn say_with(bench: &mut Bench, packet: &[u8], note: Option<Note>) -> Vec<Vec<u8>> {
    let cpu = bench.cpu();
    let mut pkt = cpu.pool.take().unwrap();
    pkt.append(packet.len()).unwrap().copy_from_slice(packet);
    if let Some(note) = note {
        pkt.set_note(note);
    }
    ip_tx::output(cpu, pkt);
    bench.run();
    bench.sent(2)
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

/// Packets and bytes of all rules, all states, and all bindings of NAT.
fn remembered(bench: &mut Bench) -> (Vec<(u64, u64)>, Vec<Listed>, Vec<String>) {
    let now = bench.cpu().now;
    let firewall = bench.cpu().firewall.as_ref().unwrap();
    let rules = (0..firewall.rules().len()).map(|at| firewall.rules().rule(at).unwrap().id);
    let counted = rules.map(|id| firewall.counters().get(id)).map(|row| (row.packets, row.bytes));
    let mut states = firewall.states().page(0, usize::MAX, false, now).0;
    states.sort_by_key(|state| (state.ends, state.flow.0, state.proto));
    let bindings = firewall.nat().iter().flat_map(|instance| instance.table().iter_from(0));
    let mut bindings: Vec<_> = bindings.map(|binding| format!("{binding:?}")).collect();
    bindings.sort();
    (counted.collect(), states, bindings)
}

#[test]
fn short_ways_and_the_flow_cache_do_to_packets_rules_and_states_what_the_walk_does() {
    let (mut hits, mut worlds) = (0, 0);
    for is_ip4 in [true, false] {
        for seed in 0..40 {
            let (mut random, mut routers) = (Random { state: seed, heard: Vec::new() }, routers());
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
                let is_flow = |frame: &&Vec<u8>| matches!(frame[if is_ip4 { 23 } else { 20 }], 6 | 17);
                if let Some(frame) = sent[1].iter().rfind(is_flow) {
                    random.heard = frame[14..].to_vec();
                }
                let expected = (sent, remembered(walking), walking.drops());
                for (name, bench) in ["short ways", "flow cache"].into_iter().zip(others) {
                    let sent = [1, 2].map(|i| bench.sent(i));
                    let is = (sent, remembered(bench), bench.drops());
                    let place = format!("{name}, IPv4 {is_ip4}, seed {seed}, step {step}:\n{text}");
                    assert_eq!(is.1, expected.1, "{place}");
                    assert!(is == expected, "other packets: {place}");
                }
                for _ in 0..random.below(4) {
                    let packet = random.own(is_ip4);
                    let [walks, short, cached] = routers.each_mut().map(|bench| say(bench, &packet));
                    assert!(walks == short && walks == cached, "own: seed {seed}, step {step}:\n{text}");
                }
            }
            let counts = [Count::StateOutside, Count::NatOut, Count::NatIn];
            let [walking, short, cached] =
                routers.each_ref().map(|bench| counts.map(|count| bench.counted(count)));
            assert!(walking == short && walking == cached, "{walking:?}, {short:?}, {cached:?}:\n{text}");
            hits += routers[2].counted(Count::FlowHits);
            worlds += 1;
        }
    }
    assert!(hits > 20 * worlds, "{hits} packets were forwarded by the flow cache");
}

/// Each hook asks for the state of a packet, but the state judges a segment once: a reset that answers a SYN is what it is.
#[test]
fn a_segment_that_its_state_believes_at_one_hook_is_believed_at_the_next() {
    for is_ip4 in [true, false] {
        let host = |i: u16| -> IpAddr { if is_ip4 { addr4(i, 9).into() } else { addr6(i, 9).into() } };
        let mut script = rules(
            "add allow ipv6-icmp from any to any icmp6types 135,136\nadd 100 check-state\n\
             add 200 skipto 1000 tcp from any to any in recv mem1 setup keep-state\n\
             add 300 deny ip from any to any\nadd 1000 allow ip from any to any\n",
        );
        script.settings.strict = true;
        let mut bench = Bench::new(2);
        bench.set_rules(&mut script);
        let segment = |from: u16, ports: (u16, u16), flags, seq, ack| {
            let (src_port, dst_port) = ports;
            let options = Options::NONE;
            let header = Header { src_port, dst_port, seq, ack, flags, window: 9000, urgent: 0, options };
            build::tcp(host(from), host(3 - from), &header, b"")
        };
        let refused = Flags(Flags::RST.0 | Flags::ACK.0);
        for (from, packet) in [
            (1, segment(1, (1000, 80), Flags::SYN, 100, 0)),
            (2, segment(2, (80, 1000), refused, 77_777, 101)),
        ] {
            bench.inject(from, build::frame(from, &packet));
            bench.run();
            assert_eq!(bench.sent(3 - from).len(), 1, "IPv4 {is_ip4}, from {from}");
        }
        assert_eq!(bench.counted(Count::StateOutside), 0);
    }
}

#[test]
fn an_answer_hits_the_state_that_its_note_names_and_no_state_of_another_flow() {
    for is_ip4 in [true, false] {
        let host = |n: u8| -> IpAddr { if is_ip4 { addr4(2, n).into() } else { addr6(2, n.into()).into() } };
        let (own, far) = (host(1), host(9));
        let mut bench = Bench::new(2);
        bench.set_rules(&mut rules(
            "add check-state\nadd allow udp from any to me keep-state\nadd deny udp from me to any\n\
             add allow ip from any to any\n",
        ));
        let answer = |port| build::udp(own, far, (7, port), b"yes");
        let first = ask(&mut bench, (far, 1000), (own, 7));
        let second = ask(&mut bench, (far, 1001), (own, 7));
        assert_eq!(say_with(&mut bench, &answer(1000), Some(first)).len(), 1);
        assert_eq!(say_with(&mut bench, &answer(1000), Some(second)).len(), 1, "a note of another flow");
        assert_eq!(packets(&mut bench), [(1000, 3), (1001, 1)]);
        bench.advance(Duration::from_secs(60));
        let third = ask(&mut bench, (far, 1002), (own, 7));
        assert_eq!(third.at, first.at, "it has the place of the first");
        assert_eq!(say_with(&mut bench, &answer(1000), Some(first)).len(), 0, "its state is gone");
        assert_eq!(say_with(&mut bench, &answer(1002), Some(first)).len(), 1, "a note of another state");
        assert_eq!(packets(&mut bench), [(1002, 2)]);
    }
}

#[test]
fn a_note_of_a_fresh_state_between_the_same_ports_of_other_hosts_is_not_believed() {
    for is_ip4 in [true, false] {
        let host = |n: u8| -> IpAddr { if is_ip4 { addr4(2, n).into() } else { addr6(2, n.into()).into() } };
        // The lower address is ours in one case, and theirs in the other.
        for (own, far, other) in [(host(1), host(9), host(8)), (host(1), host(9), host(10))] {
            let mut bench = Bench::new(2);
            bench.set_rules(&mut rules(
                "add check-state\nadd allow udp from any to me keep-state\nadd deny udp from me to any\n\
                 add allow ip from any to any\n",
            ));
            let old = ask(&mut bench, (far, 1000), (own, 7));
            bench.advance(Duration::from_secs(60));
            let fresh = ask(&mut bench, (other, 1000), (own, 7));
            assert_eq!(fresh.at, old.at, "it has the place of the first");
            let answer = build::udp(own, far, (7, 1000), b"yes");
            assert_eq!(
                say_with(&mut bench, &answer, Some(fresh)).len(),
                0,
                "no state of its own lets it pass"
            );
            assert_eq!(packets(&mut bench), [(1000, 1)], "and it is not counted at another flow's");
            let answer = build::udp(own, other, (7, 1000), b"yes");
            assert_eq!(say_with(&mut bench, &answer, Some(fresh)).len(), 1);
        }
    }
}

/// A question comes, whose state is made. What answers to it bear.
fn ask(bench: &mut Bench, from: (IpAddr, u16), to: (IpAddr, u16)) -> Note {
    bench.inject(2, build::frame(2, &build::udp(from.0, to.0, (from.1, to.1), b"is it?")));
    bench.run();
    bench.forget_sent();
    let end = |(addr, port): (IpAddr, u16)| match addr {
        IpAddr::V4(addr) => End { addr: addr.to_bits().into(), port },
        IpAddr::V6(addr) => End { addr: addr.to_bits(), port },
    };
    let cpu = bench.cpu();
    let states = cpu.firewall.as_ref().unwrap().states();
    let flow = Flow::new(from.0.is_ipv4(), Protocol::UDP.0, end(from), end(to));
    let id = states.find(&flow, states.hash(&flow), FlowId::ANY, cpu.now).unwrap();
    answering(states.mark(id).noted(Direction::Forward))
}

/// Returns source ports, and the packet counts of their states.
fn packets(bench: &mut Bench) -> Vec<(u16, u64)> {
    let now = bench.cpu().now;
    let listed = bench.cpu().firewall.as_ref().unwrap().states().page(0, usize::MAX, false, now).0;
    let mut seen: Vec<_> = listed.iter().map(|state| (state.ends[0].port, state.packets)).collect();
    seen.sort_unstable();
    seen
}
