//! Redirected flows on the wires: deliveries, and remains.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::time::Duration;

use wire::Protocol;
use wire::checksum::Sum;
use wire::ip6_ext::Fragment;
use wire::tcp::{Flags, Header, Options};

use crate::base::count::Count;
use crate::base::drop::DropReason;
use crate::firewall::state::{Kind, Settings};
use crate::testkit::rules::{Script, rules};
use crate::testkit::{Bench, addr4, addr6, build};
use crate::turn::netisr::Netisr;

mod ends;
mod pairs;

/// Neighbours may be looked for, whatever other rules say.
const DISCOVERY: &str = "add 1 allow ipv6-icmp from any to any icmp6types 135,136\n";
const CPUS: [u16; 3] = [1, 2, 8];
const SYN: Flags = Flags::SYN;
const ACK: Flags = Flags::ACK;
const SYN_ACK: Flags = Flags(Flags::SYN.0 | Flags::ACK.0);
const FIN: Flags = Flags(Flags::FIN.0 | Flags::ACK.0);
const RST: Flags = Flags(Flags::RST.0 | Flags::ACK.0);

type Ends = ((IpAddr, u16), (IpAddr, u16));

/// The participants: a client outside on interface 2, the stack's address there, a server inside on interface 1.
#[derive(Clone, Copy)]
struct Cast {
    client: IpAddr,
    front: IpAddr,
    server: IpAddr,
}

const CASTS: [Cast; 2] = [
    Cast {
        client: IpAddr::V4(Ipv4Addr::new(10, 0, 2, 77)),
        front: IpAddr::V4(Ipv4Addr::new(10, 0, 2, 1)),
        server: IpAddr::V4(Ipv4Addr::new(10, 0, 1, 9)),
    },
    Cast {
        client: IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 2, 0, 0, 0, 0, 77)),
        front: IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 2, 0, 0, 0, 0, 1)),
        server: IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 9)),
    },
];

/// Each family on each number of CPUs.
fn worlds() -> impl Iterator<Item = (u16, Cast)> {
    CPUS.into_iter().flat_map(|cpus| CASTS.map(|cast| (cpus, cast)))
}

impl Cast {
    /// A stack that has these rules; `SERVER` stands for the server, `FRONT` for the address outside.
    fn bench(&self, cpus: u16, text: &str) -> Bench {
        let mut bench = Bench::with(3, cpus, |_| ());
        bench.set_rules(&mut self.script(text));
        bench
    }

    fn script(&self, text: &str) -> Script {
        let text = text.replace("SERVER", &self.server.to_string());
        rules(&(DISCOVERY.to_owned() + &text.replace("FRONT", &self.front.to_string())))
    }

    /// From the client's port to a port of the front; and as it comes to the server.
    fn there(&self, port: u16, front: u16) -> Ends {
        ((self.client, port), (self.front, front))
    }

    fn redirected(&self, port: u16, server: u16) -> Ends {
        ((self.client, port), (self.server, server))
    }
}

const fn back((src, dst): Ends) -> Ends {
    (dst, src)
}

fn tcp((src, dst): Ends, flags: Flags, seq: u32, ack: u32) -> Vec<u8> {
    let (src_port, dst_port) = (src.1, dst.1);
    let header =
        Header { src_port, dst_port, seq, ack, flags, window: 9000, urgent: 0, options: Options::NONE };
    build::tcp(src.0, dst.0, &header, b"")
}

fn udp((src, dst): Ends, payload: &[u8]) -> Vec<u8> {
    build::udp(src.0, dst.0, (src.1, dst.1), payload)
}

/// The packets without their link header that left by an interface.
fn sent(bench: &mut Bench, ifindex: u16) -> Vec<Vec<u8>> {
    bench.sent(ifindex).into_iter().map(|frame| frame[14..].to_vec()).collect()
}

/// Returns the packet forwarded to the other one of interfaces 1 and 2, if any: its ends. Its checksums are right.
fn through(bench: &mut Bench, from: u16, packet: &[u8]) -> Option<Ends> {
    bench.inject(from, build::frame(from, packet));
    bench.run();
    let mut sent = sent(bench, 3 - from);
    assert!(sent.len() <= 1, "one packet makes no two");
    let packet = sent.pop()?;
    assert!(is_right(&packet), "{packet:?}");
    Some(ends(&packet))
}

fn is_ip4(packet: &[u8]) -> bool {
    packet[0] >> 4 == 4
}

fn upper(packet: &[u8]) -> &[u8] {
    &packet[if is_ip4(packet) { 20 } else { 40 }..]
}

fn addrs(packet: &[u8]) -> (IpAddr, IpAddr) {
    let four = |at: usize| IpAddr::from(*packet[at..].first_chunk::<4>().unwrap());
    let sixteen = |at: usize| IpAddr::from(*packet[at..].first_chunk::<16>().unwrap());
    if is_ip4(packet) { (four(12), four(16)) } else { (sixteen(8), sixteen(24)) }
}

fn ends(packet: &[u8]) -> Ends {
    let (src, dst) = addrs(packet);
    let port = |at: usize| u16::from_be_bytes([upper(packet)[at], upper(packet)[at + 1]]);
    ((src, port(0)), (dst, port(2)))
}

/// Whether header and upper layer have the right checksums.
fn is_right(packet: &[u8]) -> bool {
    let protocol = Protocol(if is_ip4(packet) { packet[9] } else { packet[6] });
    let upper = upper(packet);
    let sum = match addrs(packet) {
        (IpAddr::V4(_), _) if protocol == Protocol::ICMP => Sum::new(),
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            Sum::pseudo_v4(src, dst, protocol, u16::try_from(upper.len()).unwrap())
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            Sum::pseudo_v6(src, dst, protocol, u32::try_from(upper.len()).unwrap())
        }
        _ => return false,
    };
    let header = !is_ip4(packet) || Sum::new().bytes(&packet[..20]).is_intact();
    header && sum.bytes(upper).is_intact()
}

/// States on all CPUs.
fn states(bench: &Bench) -> usize {
    let each = bench.netisrs.iter().filter_map(|netisr| netisr.cpu.firewall.as_ref());
    each.map(|firewall| firewall.states().len()).sum()
}

/// States of these kinds on each CPU.
fn of_kind(bench: &Bench, kind: Kind) -> usize {
    let each = bench.netisrs.iter().filter_map(|netisr| netisr.cpu.firewall.as_ref());
    each.flat_map(|firewall| firewall.states().page(0, 10_000, false, bench.now).0)
        .filter(|listed| listed.kind == kind)
        .count()
}

/// Packets that the rule of this number has matched, on all CPUs.
fn matched(bench: &Bench, number: u16) -> u64 {
    let each = bench.netisrs.iter().filter_map(|netisr| netisr.cpu.firewall.as_ref());
    each.map(|firewall| {
        let rule = firewall.rules().rule(firewall.rules().position_of_number(number)).unwrap();
        firewall.counters().get(rule.id).packets
    })
    .sum()
}

/// Messages about redirected flows that are on their way: what all CPUs have sent, less what all have taken.
fn on_their_way(bench: &Bench) -> u64 {
    bench.counted(Count::RedirectGiven) - bench.counted(Count::RedirectTaken)
}

/// A connection from the client's port through port 80 of the front to port 8080 of the server: its handshake.
fn connect(bench: &mut Bench, cast: &Cast, port: u16) {
    let (there, inside) = (cast.there(port, 80), cast.redirected(port, 8080));
    assert_eq!(through(bench, 2, &tcp(there, SYN, 100, 0)), Some(inside));
    assert_eq!(through(bench, 1, &tcp(back(inside), SYN_ACK, 700, 101)), Some(back(there)));
    assert_eq!(through(bench, 2, &tcp(there, ACK, 101, 701)), Some(inside));
}

/// The redirection of most tests: what is behind it decides what passes, and knows its connections.
const RULES: &str = "add 100 check-state\n\
     add 200 rdr SERVER,8080 tcp from any to FRONT 80 in recv mem2\n\
     add 300 allow tcp from any to SERVER 8080 setup keep-state\n";

#[test]
fn connections_reach_the_server_and_answers_come_from_where_the_client_sent_them() {
    for (cpus, cast) in worlds() {
        // The hash is linear, so the ports decide for all flows of a redirection whether two CPUs have their states.
        let fronts = 80..112;
        let rdr =
            |front: u16| format!("add 200 rdr SERVER,8080 tcp from any to FRONT {front} in recv mem2\n");
        let text = fronts.clone().map(rdr).collect::<String>() + RULES;
        let mut bench = cast.bench(cpus, &text);
        let flows = || fronts.clone().flat_map(|front| (0..2).map(move |n| (2000 + front * 8 + n, front)));
        for (port, front) in flows() {
            let (there, inside) = (cast.there(port, front), cast.redirected(port, 8080));
            assert_eq!(through(&mut bench, 2, &tcp(there, SYN, 100, 0)), Some(inside));
            assert_eq!(through(&mut bench, 1, &tcp(back(inside), SYN_ACK, 700, 101)), Some(back(there)));
            assert_eq!(through(&mut bench, 2, &tcp(there, ACK, 101, 701)), Some(inside));
        }
        for kind in [Kind::RedirectMaster, Kind::RedirectSlave, Kind::Keep] {
            assert_eq!(of_kind(&bench, kind), 64);
        }
        for (port, front) in flows() {
            let (there, inside) = (cast.there(port, front), cast.redirected(port, 8080));
            assert_eq!(through(&mut bench, 1, &tcp(back(inside), FIN, 701, 101)), Some(back(there)));
            assert_eq!(through(&mut bench, 2, &tcp(there, FIN, 101, 702)), Some(inside));
            assert_eq!(through(&mut bench, 1, &tcp(back(inside), ACK, 702, 102)), Some(back(there)));
        }
        let redirected = bench.counted(Count::Redirected);
        assert_eq!(redirected, 64 * 6);
        let split = bench.counted(Count::RedirectSplit);
        assert_eq!(split > 0, cpus > 1);
        assert!(split < redirected, "some have both states on one CPU");
        assert_eq!(bench.counted(Count::Strays), 0);
        bench.advance(Duration::from_secs(8));
        assert_eq!((states(&bench), on_their_way(&bench)), (0, 0), "{cpus} CPUs");
        assert_eq!(bench.drops(), []);
    }
}

#[test]
fn what_is_behind_the_redirection_decides_and_a_client_that_is_denied_gets_its_answer_from_the_front() {
    for (cpus, cast) in worlds() {
        let text = "add 200 rdr SERVER,8080 tcp from any to FRONT 80 in\n\
                    add 300 reset tcp from any to SERVER 8080 in\nadd 400 allow ip from any to any out\n";
        let mut bench = cast.bench(cpus, text);
        for port in 2000..2020 {
            assert_eq!(through(&mut bench, 2, &tcp(cast.there(port, 80), SYN, 7, 0)), None);
            let told = sent(&mut bench, 2);
            assert_eq!(told.len(), 1);
            assert_eq!(ends(&told[0]), back(cast.there(port, 80)), "nobody tells of the server");
            assert!(is_right(&told[0]) && upper(&told[0])[13] & Flags::RST.0 != 0);
            assert_eq!(matched(&bench, 300), u64::from(port - 1999), "at once, on whatever CPU");
        }
        bench.advance(Duration::from_secs(30));
        assert_eq!((states(&bench), on_their_way(&bench)), (0, 0));
    }
}

#[test]
fn without_a_port_the_port_stays_and_datagrams_are_redirected_too() {
    for (cpus, cast) in worlds() {
        let text = "add rdr SERVER udp from any to FRONT in\nadd allow udp from any to SERVER\n";
        let mut bench = cast.bench(cpus, text);
        for port in 2000..2040 {
            let (there, inside) = (cast.there(port, port), cast.redirected(port, port));
            for _ in 0..3 {
                assert_eq!(through(&mut bench, 2, &udp(there, b"?")), Some(inside));
            }
            assert_eq!(through(&mut bench, 1, &udp(back(inside), b"!!!")), Some(back(there)));
        }
        let each = bench.netisrs.iter().filter_map(|netisr| netisr.cpu.firewall.as_ref());
        for listed in each.flat_map(|firewall| firewall.states().page(0, 10_000, false, bench.now).0) {
            assert_eq!(listed.packets, 4, "{:?}: both know all packets", listed.kind);
        }
        let (server, client) = (cast.server, cast.client);
        let stranger = ((server, 2000), (client, 3000));
        assert_eq!(through(&mut bench, 1, &udp(stranger, b"?")), None, "it was not asked");
        bench.advance(Duration::from_secs(15));
        assert_eq!((states(&bench), on_their_way(&bench)), (0, 0));
    }
}

#[test]
fn what_cannot_be_redirected_meets_the_next_rule() {
    for cast in CASTS {
        let text = "add 100 rdr SERVER ip from any to any\nadd 200 allow ip from any to any\n";
        let mut bench = cast.bench(2, text);
        let other = if cast.client.is_ipv4() { CASTS[1] } else { CASTS[0] };
        let answers = |bench: &mut Bench, packet: &[u8], src| {
            bench.inject(2, build::frame_from(2, src, packet));
            bench.run();
            sent(bench, 2).len()
        };
        let echo = build::echo_request(cast.client, cast.front, 1, 1, b"?");
        assert_eq!(answers(&mut bench, &echo, cast.client), 1, "of a protocol without ports");
        let family = udp(((other.client, 5), (other.server, 6)), b"?");
        assert_eq!(
            through(&mut bench, 2, &family),
            Some(((other.client, 5), (other.server, 6))),
            "the other family"
        );
        let straight = cast.redirected(7, 8);
        assert_eq!(through(&mut bench, 2, &udp(straight, b"?")), Some(straight), "it goes there anyway");
        assert_eq!((states(&bench), bench.counted(Count::Redirected)), (0, 0));
    }
}

#[test]
fn a_datagram_in_pieces_is_put_together_before_it_is_redirected() {
    for (cpus, cast) in worlds() {
        let text = "add rdr SERVER,5353 udp from any to FRONT 53 in\nadd allow udp from any to SERVER\n";
        let mut bench = cast.bench(cpus, text);
        for port in 2000..2010 {
            let (there, inside) = (cast.there(port, 53), cast.redirected(port, 5353));
            for (from, asked, expected) in [(2, there, inside), (1, back(inside), back(there))] {
                let whole = udp(asked, &[7; 64]);
                let pieces =
                    [(0..40, true), (40..72, false)].map(|(range, more)| piece(&whole, range, more, port));
                assert_eq!(through(&mut bench, from, &pieces[1]), None);
                assert_eq!(through(&mut bench, from, &pieces[0]), Some(expected));
            }
        }
    }
}

#[test]
fn what_was_put_together_and_is_too_long_for_the_next_link_goes_on_in_pieces() {
    for (cpus, cast) in worlds() {
        let text = "add rdr SERVER,5353 udp from any to FRONT 53 in\nadd allow udp from any to SERVER\n";
        let mut bench = cast.bench(cpus, text);
        let (there, inside) = (cast.there(2000, 53), cast.redirected(2000, 5353));
        for (from, asked, expected) in [(2, there, inside), (1, back(inside), back(there))] {
            let whole = udp(asked, &[7; 4000]);
            let ranges = [(0..1400, true), (1400..2800, true), (2800..4008, false)];
            for (range, more) in ranges {
                bench.inject(from, build::frame(from, &piece(&whole, range, more, 77)));
            }
            bench.run();
            let pieces = sent(&mut bench, 3 - from);
            assert_eq!(pieces.len(), 3, "of {cpus} CPUs");
            for piece in &pieces {
                assert_eq!(addrs(piece), (expected.0.0, expected.1.0), "none of them names who answers");
                assert!(piece.len() <= 1500);
            }
            assert_eq!(bench.counted(Count::IcmpErrorsSent) + bench.counted(Count::Icmp6ErrorsSent), 0);
        }
    }
}

#[test]
fn a_packet_on_its_way_between_two_cpus_is_buried_when_they_end() {
    for cast in CASTS {
        let fronts = 80..112;
        let rdr =
            |front: u16| format!("add 200 rdr SERVER,8080 tcp from any to FRONT {front} in recv mem2\n");
        let mut bench = cast.bench(2, &(fronts.clone().map(rdr).collect::<String>() + RULES));
        let now = bench.now;
        for front in fronts {
            bench.inject(2, build::frame(2, &tcp(cast.there(2000, front), SYN, 100, 0)));
        }
        // Frames are received, and handed to their owners; then the redirected go on as messages.
        for cpu in [0, 1] {
            bench.netisrs[cpu].turn(now);
        }
        let under_way = on_their_way(&bench);
        assert!(under_way > 0 && bench.buffers_out() > 0, "{under_way}");
        bench.netisrs.iter_mut().for_each(Netisr::shut_down);
        bench.netisrs.iter_mut().for_each(|netisr| _ = netisr.turn(now));
        assert_eq!(bench.buffers_out(), 0);
    }
}

/// Bytes of the upper layer in a fragment.
fn piece(whole: &[u8], range: core::ops::Range<usize>, more: bool, id: u16) -> Vec<u8> {
    let start = u16::try_from(range.start).unwrap();
    if !is_ip4(whole) {
        let (src, dst) = addrs(whole);
        let next_header = Protocol(whole[6]);
        let fragment = Fragment { next_header, offset: start, more, id: id.into() }.to_bytes();
        return build::ip(src, dst, Protocol::FRAGMENT, 64, &[&fragment, &whole[40..][range]].concat());
    }
    let word = (start / 8) | if more { 0x2000 } else { 0 };
    let mut piece = [&whole[..20], &whole[20..][range]].concat();
    let len = u16::try_from(piece.len()).unwrap();
    piece[2..4].copy_from_slice(&len.to_be_bytes());
    piece[4..6].copy_from_slice(&id.to_be_bytes());
    piece[6..8].copy_from_slice(&word.to_be_bytes());
    build::fix_ip4_checksum(&mut piece);
    piece
}
