//! Translation on the wires.

use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;

use wire::Protocol;

use crate::base::count::Count;
use crate::base::drop::DropReason;
use crate::testkit::rules::rules;
use crate::testkit::{Bench, addr4, addr6, build};

const INSIDE: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 9);

/// The packet without its link header that left by an interface, if one did.
fn sent(bench: &mut Bench, ifindex: u16) -> Option<Vec<u8>> {
    let mut sent = bench.sent(ifindex);
    assert!(sent.len() <= 1);
    sent.pop().map(|frame| frame[14..].to_vec())
}

fn through(bench: &mut Bench, from: u16, packet: &[u8]) -> Option<Vec<u8>> {
    bench.inject(from, build::frame(from, packet));
    bench.run();
    sent(bench, 3 - from)
}

fn ends(packet: &[u8]) -> (Ipv4Addr, Ipv4Addr, u16, u16) {
    let addr = |at: usize| Ipv4Addr::from(*packet[at..].first_chunk::<4>().unwrap());
    let port = |at: usize| u16::from_be_bytes([packet[at], packet[at + 1]]);
    (addr(12), addr(16), port(20), port(22))
}

fn is_right(packet: &[u8]) -> bool {
    let headers = etherparse::PacketHeaders::from_ip_slice(packet).unwrap();
    let (Some(etherparse::NetHeaders::Ipv4(ip, _)), Some(etherparse::TransportHeader::Udp(udp))) =
        (headers.net, headers.transport)
    else {
        return false;
    };
    let payload = headers.payload.slice();
    ip.header_checksum == ip.calc_header_checksum()
        && udp.checksum == udp.calc_checksum_ipv4(&ip, payload).unwrap()
}

const NAT: &str = "nat 1 config if mem2 redirect_port tcp 10.0.1.9:80 8080 redirect_port udp 10.0.1.9:53 5353\n\
                   add nat 1 ip4 from any to any via mem2\nadd allow ip from any to any\n";

#[test]
fn hosts_inside_share_an_address_and_each_reply_finds_its_way_back() {
    for cpus in [1, 2, 5] {
        let mut bench = Bench::with(2, cpus, |_| ());
        bench.set_rules(&mut rules(NAT));
        let server: IpAddr = addr4(2, 9).into();
        for host in 9..40 {
            let client: IpAddr = addr4(1, host).into();
            let asked = build::udp(client, server, (1000, 53), b"question");
            let out = through(&mut bench, 1, &asked).expect("it goes out");
            let (src, dst, port, to) = ends(&out);
            assert_eq!((src, IpAddr::from(dst), to), (addr4(2, 1), server, 53));
            assert!(is_right(&out));
            let reply = build::udp(server, src.into(), (53, port), b"answer");
            let back = through(&mut bench, 2, &reply).expect("it comes back");
            assert_eq!(ends(&back), (addr4(2, 9), addr4(1, host), 53, 1000));
            assert!(is_right(&back));
        }
        assert_eq!(bench.counted(Count::NatHandoffs), 0, "the port was chosen so");
        assert_eq!(bench.counted(Count::Strays), 0);
    }
}

#[test]
fn echoes_are_translated_and_so_are_errors_about_what_went_out() {
    for cpus in [1, 4] {
        let mut bench = Bench::with(2, cpus, |_| ());
        bench.set_rules(&mut rules(NAT));
        let (client, server): (IpAddr, IpAddr) = (INSIDE.into(), addr4(2, 9).into());
        for id in 1..20 {
            let out = through(&mut bench, 1, &build::echo_request(client, server, id, 1, b"?")).unwrap();
            let mut reply = out.clone();
            let (src, dst, ..) = ends(&out);
            reply[12..16].copy_from_slice(&dst.octets());
            reply[16..20].copy_from_slice(&src.octets());
            reply[20] = 0;
            build::fix_ip4_checksum(&mut reply);
            reply[22..24].fill(0);
            let sum = wire::checksum::Sum::new().bytes(&reply[20..]).checksum();
            reply[22..24].copy_from_slice(&sum.to_be_bytes());
            let back = through(&mut bench, 2, &reply).expect("the reply");
            assert_eq!(ends(&back).1, INSIDE);
            assert_eq!(back[24..26], id.to_be_bytes());
        }
        let out = through(&mut bench, 1, &build::udp(client, server, (7, 7), b"")).unwrap();
        let message = wire::icmp4::Message::Unreachable { code: 3, mtu: 0 };
        let quote = &out[..28];
        let error = [&message.to_bytes(quote)[..], quote].concat();
        let error = build::ip(server, addr4(2, 1).into(), Protocol::ICMP, 60, &error);
        let told = through(&mut bench, 2, &error).expect("the error");
        assert_eq!((ends(&told).1, ends(&told[28..]).0), (INSIDE, INSIDE), "and what it quotes");
    }
}

#[test]
fn what_is_redirected_reaches_the_server_inside_and_its_answers_come_from_outside() {
    for cpus in [1, 4] {
        let mut bench = Bench::with(2, cpus, |_| ());
        bench.set_rules(&mut rules(NAT));
        let client: IpAddr = addr4(2, 77).into();
        for port in 1000..1020 {
            let asked = build::udp(client, addr4(2, 1).into(), (port, 5353), b"?");
            let inside = through(&mut bench, 2, &asked).expect("it comes in");
            assert_eq!(ends(&inside), (addr4(2, 77), INSIDE, port, 53));
            let answer = build::udp(INSIDE.into(), client, (53, port), b"!");
            let out = through(&mut bench, 1, &answer).expect("the answer");
            assert_eq!(ends(&out), (addr4(2, 1), addr4(2, 77), 5353, port));
            assert!(is_right(&out));
        }
    }
}

#[test]
fn a_datagram_in_pieces_is_put_together_before_it_is_translated() {
    for cpus in [1, 4] {
        let mut bench = Bench::with(2, cpus, |_| ());
        bench.set_rules(&mut rules(NAT));
        let whole = build::udp(INSIDE.into(), addr4(2, 9).into(), (1000, 53), &[7; 64]);
        let piece = |range: core::ops::Range<usize>, more: bool| {
            let mut piece = [&whole[..20], &whole[20..][range.clone()]].concat();
            let word = u16::try_from(range.start / 8).unwrap() | if more { 0x2000 } else { 0 };
            let len = u16::try_from(piece.len()).unwrap();
            piece[2..4].copy_from_slice(&len.to_be_bytes());
            piece[4..6].copy_from_slice(&[9, 9]);
            piece[6..8].copy_from_slice(&word.to_be_bytes());
            build::fix_ip4_checksum(&mut piece);
            piece
        };
        assert_eq!(through(&mut bench, 1, &piece(40..72, false)), None);
        let out = through(&mut bench, 1, &piece(0..40, true)).expect("whole");
        let (src, dst, _, port) = ends(&out);
        assert_eq!((src, dst, port), (addr4(2, 1), addr4(2, 9), 53));
        assert!(is_right(&out));
    }
}

#[test]
fn fragments_are_put_together_where_a_rule_says_so() {
    let mut bench = Bench::new(2);
    bench.set_rules(&mut rules(
        "add reass ip from any to any in\nadd deny udp from any to any 53\nadd allow ip from any to any\n",
    ));
    let whole = build::udp(INSIDE.into(), addr4(2, 9).into(), (1000, 53), &[7; 32]);
    for (range, word) in [(8..40, 1_u16), (0..8, 0x2000)] {
        let mut piece = [&whole[..20], &whole[20..][range]].concat();
        let len = u16::try_from(piece.len()).unwrap();
        piece[2..4].copy_from_slice(&len.to_be_bytes());
        piece[6..8].copy_from_slice(&word.to_be_bytes());
        build::fix_ip4_checksum(&mut piece);
        assert_eq!(through(&mut bench, 1, &piece), None);
    }
    assert_eq!(bench.drops(), [(DropReason::FirewallDeny, 1)], "the whole has ports");
}

#[test]
fn prefixes_are_exchanged_and_back() {
    let text = "nptv6 out create int_prefix 2001:db8:1:: ext_prefix 2001:db8:99:: prefixlen 48\n\
                add nptv6 out ip6 from any to any via mem2\nadd allow ip from any to any\n";
    let mut bench = Bench::new(2);
    bench.set_rules(&mut rules(text));
    let (inside, server): (IpAddr, IpAddr) = (addr6(1, 9).into(), addr6(2, 9).into());
    let out = through(&mut bench, 1, &build::udp(inside, server, (1000, 53), b"?")).expect("out");
    let outside = core::net::Ipv6Addr::from(*out[8..].first_chunk::<16>().unwrap());
    assert_eq!(outside.segments()[..3], [0x2001, 0xdb8, 0x99]);
    let reply = build::udp(server, outside.into(), (53, 1000), b"!");
    let back = through(&mut bench, 2, &reply).expect("back");
    assert_eq!(IpAddr::from(*back[24..].first_chunk::<16>().unwrap()), inside);
}

#[test]
fn bindings_end_and_leave_nothing_behind() {
    let mut bench = Bench::new(2);
    bench.set_rules(&mut rules(NAT));
    for port in 1..=300 {
        through(&mut bench, 1, &build::udp(addr4(1, 10).into(), addr4(2, 9).into(), (port, 53), b""))
            .unwrap();
    }
    let bindings = |bench: &mut Bench| {
        bench
            .cpu()
            .firewall
            .as_ref()
            .unwrap()
            .nat()
            .iter()
            .map(|instance| instance.table().len())
            .sum::<usize>()
    };
    assert_eq!(bindings(&mut bench), 300);
    bench.advance(Duration::from_secs(600));
    assert_eq!(bindings(&mut bench), 0);
}

#[test]
fn a_packet_that_another_cpu_must_translate_is_counted_once() {
    for cpus in [1, 4] {
        let mut bench = Bench::with(2, cpus, |_| ());
        bench.set_rules(&mut rules(
            "nat 1 config if mem2\nadd 10 allow ip from any to any via mem1\n\
             add 20 nat 1 icmp from any to any out xmit mem2\nadd 30 nat 1 icmp from any to me in recv mem2\n",
        ));
        for host in 10..30 {
            let echo = build::echo_request(addr4(1, host).into(), addr4(2, 9).into(), 1, 1, b"?");
            assert!(through(&mut bench, 1, &echo).is_some());
        }
        assert_eq!(bench.counted(Count::NatHandoffs) > 0, cpus > 1);
        let counted = |bench: &Bench, number: u16| -> u64 {
            let each = bench.netisrs.iter().filter_map(|netisr| netisr.cpu.firewall.as_ref());
            each.map(|firewall| {
                let at = firewall.rules().position_of_number(number);
                firewall.counters().get(firewall.rules().rule(at).unwrap().id).packets
            })
            .sum()
        };
        assert_eq!(counted(&bench, 20), 20, "{cpus}");
    }
}
