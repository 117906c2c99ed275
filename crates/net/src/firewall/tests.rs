//! The firewall on the wires: what comes out, what does not, and what senders are told.

mod actions;
mod attacks;

use core::net::IpAddr;
use core::time::Duration;

use wire::ether::Mac;
use wire::tcp::{Flags, Header, Options};
use wire::{Protocol, icmp4, icmp6};

use crate::base::count::Count;
use crate::base::drop::DropReason;
use crate::testkit::rules::rules;
use crate::testkit::{Bench, addr4, addr6, build, mac};

/// Neighbours may be looked for, whatever other rules say.
const DISCOVERY: &str = "add 1 allow ipv6-icmp from any to any icmp6types 135,136\n";

/// A host on the link of interface 1 and one on that of interface 2, of both families.
fn families() -> [(IpAddr, IpAddr); 2] {
    [(addr4(1, 9).into(), addr4(2, 9).into()), (addr6(1, 9).into(), addr6(2, 9).into())]
}

/// A stack between two links, with these rules.
fn router(text: &str) -> Bench {
    let mut bench = Bench::new(2);
    bench.set_rules(&mut rules(&(DISCOVERY.to_owned() + text)));
    bench
}

fn udp((src, dst): (IpAddr, IpAddr), ports: (u16, u16)) -> Vec<u8> {
    build::udp(src, dst, ports, b"payload")
}

fn tcp((src, dst): (IpAddr, IpAddr), ports: (u16, u16), flags: Flags, seq: u32, ack: u32) -> Vec<u8> {
    let (src_port, dst_port) = ports;
    let header =
        Header { src_port, dst_port, seq, ack, flags, window: 9000, urgent: 0, options: Options::NONE };
    build::tcp(src, dst, &header, &[])
}

const fn with_ack(flags: Flags) -> Flags {
    Flags(flags.0 | Flags::ACK.0)
}

const fn back((src, dst): (IpAddr, IpAddr)) -> (IpAddr, IpAddr) {
    (dst, src)
}

/// Injects a packet on an interface; whether something came out of the other one, and nothing else.
fn passes(bench: &mut Bench, from: u16, packet: &[u8]) -> bool {
    bench.inject(from, build::frame(from, packet));
    bench.run();
    let sent = bench.sent(3 - from);
    assert!(sent.len() <= 1);
    assert!(sent.iter().all(|frame| frame.len() >= 14 + packet.len()), "it is the packet that came out");
    sent.len() == 1
}

/// The network packets that left by an interface.
fn told(bench: &mut Bench, ifindex: u16) -> Vec<Vec<u8>> {
    bench.sent(ifindex).into_iter().map(|frame| frame[14..].to_vec()).collect()
}

#[test]
fn what_no_rule_allows_is_denied_and_what_one_allows_passes() {
    for family in families() {
        let mut bench = router("add allow udp from any to any 53\n");
        assert!(passes(&mut bench, 1, &udp(family, (1000, 53))));
        assert!(!passes(&mut bench, 1, &udp(family, (1000, 54))));
        assert_eq!(bench.drops(), [(DropReason::FirewallDeny, 1)]);
    }
}

#[test]
fn a_packet_on_its_way_meets_the_rules_when_it_comes_in_and_when_it_leaves() {
    for family in families() {
        for (rule, reaches) in [
            ("deny udp from any to any in recv mem1", false),
            ("deny udp from any to any in recv mem2", true),
            ("deny udp from any to any out xmit mem2", false),
            ("deny udp from any to any out xmit mem1", true),
            ("deny udp from any to any out recv mem1 xmit mem2", false),
            ("deny udp from any to any forward", false),
            ("deny udp from any to any local-in", true),
            ("deny udp from any to any local-out", true),
            ("deny udp from any to me", true),
        ] {
            let mut bench = router(&format!("add {rule}\nadd allow ip from any to any\n"));
            // The second one goes by what the first one has made ready.
            for _ in 0..2 {
                assert_eq!(passes(&mut bench, 1, &udp(family, (1, 2))), reaches, "{rule}");
            }
        }
    }
}

#[test]
fn rules_without_effect_are_not_on_the_way() {
    let mut bench = Bench::new(2);
    bench.set_rules(&mut rules("add allow ip from any to any in\nadd allow ip from any to any\n"));
    assert!(!bench.cpu().takes_detour, "nothing that a packet could meet");
    bench.set_rules(&mut rules("add deny ip from any to any out\nadd allow ip from any to any\n"));
    assert!(bench.cpu().takes_detour);
}

#[test]
fn a_flow_that_was_let_out_may_come_back_and_no_other() {
    for family in families() {
        let mut bench = router(
            "add check-state\nadd allow udp from any to any out xmit mem2 keep-state\n\
             add allow ip from any to any in recv mem1\n",
        );
        assert!(!passes(&mut bench, 2, &udp(back(family), (53, 1000))), "nobody asked");
        assert!(passes(&mut bench, 1, &udp(family, (1000, 53))));
        assert!(passes(&mut bench, 2, &udp(back(family), (53, 1000))), "the answer");
        assert!(!passes(&mut bench, 2, &udp(back(family), (53, 1001))), "another port");
        bench.advance(Duration::from_secs(12));
        bench.forget_sent();
        assert!(
            !passes(&mut bench, 2, &udp(back(family), (53, 1000))),
            "too late: RFC says nothing, ipfw 10 s"
        );
    }
}

#[test]
fn a_connection_lives_from_its_handshake_to_its_end() {
    const RULES: &str = "add check-state\nadd allow tcp from any to any 80 in recv mem1 setup keep-state\n";
    for family in families() {
        let mut bench = router(RULES);
        let (there, here) = ((1000, 80), (80, 1000));
        assert!(!passes(&mut bench, 1, &tcp(family, there, Flags::ACK, 5, 5)), "of no connection");
        assert!(!passes(&mut bench, 2, &tcp(back(family), here, with_ack(Flags::SYN), 5, 5)));
        assert!(passes(&mut bench, 1, &tcp(family, there, Flags::SYN, 100, 0)));
        assert!(passes(&mut bench, 2, &tcp(back(family), here, with_ack(Flags::SYN), 700, 101)));
        assert!(passes(&mut bench, 1, &tcp(family, there, Flags::ACK, 101, 701)));
        bench.advance(Duration::from_secs(200));
        bench.forget_sent();
        assert!(passes(&mut bench, 2, &tcp(back(family), here, Flags::ACK, 701, 101)), "300 s are not over");
        assert!(passes(&mut bench, 1, &tcp(family, there, with_ack(Flags::FIN), 101, 701)));
        assert!(passes(&mut bench, 2, &tcp(back(family), here, with_ack(Flags::FIN), 701, 102)));
        assert!(passes(&mut bench, 1, &tcp(family, there, Flags::ACK, 102, 702)));
        bench.advance(Duration::from_secs(4));
        bench.forget_sent();
        assert!(!passes(&mut bench, 1, &tcp(family, there, Flags::ACK, 102, 702)), "it is over");
    }
}

#[test]
fn states_end_by_themselves_and_leave_nothing_behind() {
    for family in families() {
        let mut bench = router("add allow udp from any to any keep-state\n");
        for port in 1..=500 {
            assert!(passes(&mut bench, 1, &udp(family, (port, 53))));
        }
        let states = |bench: &mut Bench| bench.cpu().firewall.as_ref().unwrap().states().len();
        assert_eq!(states(&mut bench), 500);
        bench.advance(Duration::from_secs(13));
        assert_eq!(states(&mut bench), 0);
    }
}

#[test]
fn a_rejected_sender_gets_the_error_of_the_rule() {
    for family in families() {
        let is_ip4 = family.0.is_ipv4();
        for (action, code4, code6) in [
            ("reject", 1, 0),
            ("unreach port", 3, 4),
            ("unreach filter-prohib", 13, 1),
            ("unreach6 admin-prohib", 10, 1),
        ] {
            let mut bench =
                router(&format!("add {action} udp from any to any in\nadd allow ip from any to any\n"));
            assert!(!passes(&mut bench, 1, &udp(family, (1000, 53))));
            let told = told(&mut bench, 1);
            assert_eq!(told.len(), 1, "{action}");
            let message = &told[0][if is_ip4 { 20 } else { 40 }..];
            let expected = if is_ip4 { [3, code4] } else { [1, code6] };
            assert_eq!(message[..2], expected, "{action}");
            assert_eq!(bench.drops(), [(DropReason::FirewallReject, 1)]);
        }
    }
}

#[test]
fn a_reset_ends_the_attempt_to_connect_on_the_way_in_and_on_the_way_out() {
    for family in families() {
        for hook in ["in", "out"] {
            let mut bench =
                router(&format!("add reset tcp from any to any 80 {hook}\nadd allow ip from any to any\n"));
            assert!(!passes(&mut bench, 1, &tcp(family, (1000, 80), Flags::SYN, 77, 0)));
            let told = told(&mut bench, 1);
            assert_eq!(told.len(), 1);
            let segment = Header::parse(&told[0][if family.0.is_ipv4() { 20 } else { 40 }..]).unwrap();
            assert_eq!((segment.src_port, segment.dst_port), (80, 1000));
            assert_eq!((segment.flags, segment.seq, segment.ack), (with_ack(Flags::RST), 0, 78));
            assert!(
                !passes(&mut bench, 1, &tcp(family, (1000, 80), Flags::RST, 77, 0)),
                "a reset has no answer"
            );
            assert!(told_nothing(&mut bench));
        }
    }
}

fn told_nothing(bench: &mut Bench) -> bool {
    bench.sent(1).is_empty() && bench.sent(2).is_empty()
}

#[test]
fn a_walk_skips_calls_and_returns() {
    for family in families() {
        let rules = "add 100 skipto 300 udp from any to any 1\n\
             add 200 deny udp from any to any 1\n\
             add 300 call 1000 udp from any to any 2\n\
             add 310 allow ip from any to any\n\
             add 1000 deny udp from 192.0.2.1 to any\n\
             add 1010 return udp from any to any\n";
        let mut bench = router(rules);
        assert!(passes(&mut bench, 1, &udp(family, (9, 1))), "it skipped the rule that denies it");
        assert!(passes(&mut bench, 1, &udp(family, (9, 2))), "it came back");
        let mut bench = router("add 100 call 100 ip from any to any\n");
        assert!(!passes(&mut bench, 1, &udp(family, (9, 1))));
        assert_eq!(bench.drops(), [(DropReason::FirewallLoop, 1)]);
    }
}

#[test]
fn a_packet_goes_to_the_next_hop_that_a_rule_names_and_is_not_changed() {
    for (src, dst) in families() {
        let elsewhere: IpAddr = if src.is_ipv4() { addr4(3, 77).into() } else { addr6(3, 77).into() };
        for hook in ["in", "out", "forward"] {
            let mut bench = Bench::new(3);
            let text = format!(
                "{DISCOVERY}add fwd {elsewhere} udp from any to any 53 {hook}\nadd allow ip from any to any\n"
            );
            bench.set_rules(&mut rules(&text));
            for _ in 0..2 {
                bench.inject(1, build::frame(1, &udp((src, dst), (1, 53))));
                bench.run();
                let sent = bench.sent(3);
                assert_eq!(sent.len(), 1, "{hook}");
                assert_eq!(sent[0][..6], crate::testkit::peer_mac(elsewhere).0);
                assert!(bench.sent(2).is_empty());
            }
            bench.inject(1, build::frame(1, &udp((src, dst), (1, 54))));
            bench.run();
            assert_eq!(bench.sent(2).len(), 1, "others go where they went");
        }
    }
}

#[test]
fn what_is_for_us_and_from_us_meets_rules_of_its_own() {
    for (src, _) in families() {
        let (us, kind): (IpAddr, u8) =
            if src.is_ipv4() { (addr4(1, 1).into(), 0) } else { (addr6(1, 1).into(), 129) };
        let ping = build::echo_request(src, us, 1, 1, b"?");
        for (rule, answers) in [
            ("deny ip from any to any local-in", false),
            ("deny ip from me to any local-out", false),
            ("deny ip from me to any out", false),
            ("deny ip from any to any forward", true),
        ] {
            let mut bench = router(&format!("add {rule}\nadd allow ip from any to any\n"));
            bench.inject(1, build::frame_from(1, src, &ping));
            bench.run();
            let told = told(&mut bench, 1);
            assert_eq!(told.len(), usize::from(answers), "{rule}");
            assert!(told.iter().all(|packet| packet[if src.is_ipv4() { 20 } else { 40 }] == kind));
        }
    }
}

#[test]
fn a_first_fragment_that_hides_its_ports_dies_whatever_rules_say() {
    for (src, dst) in families() {
        let mut bench = router(
            "add allow ip from any to any out\nadd count ip from any to any\nadd allow ip from any to any\n",
        );
        let mut packet = tcp((src, dst), (1, 80), Flags::SYN, 1, 0);
        if src.is_ipv4() {
            packet[6..8].copy_from_slice(&[0x20, 0]);
            packet.truncate(28);
            packet[2..4].copy_from_slice(&28_u16.to_be_bytes());
            build::fix_ip4_checksum(&mut packet);
        } else {
            let fragment = [Protocol::TCP.0, 0, 0, 1, 0, 0, 0, 1];
            packet = build::ip(src, dst, Protocol::FRAGMENT, 64, &[&fragment[..], &packet[40..48]].concat());
        }
        assert!(!passes(&mut bench, 1, &packet));
        assert_eq!(bench.drops(), [(DropReason::FirewallBogus, 1)]);
    }
}

#[test]
fn a_chunk_is_sorted_out_packet_by_packet_and_keeps_its_order() {
    for family in families() {
        let mut bench = router(
            "add deny udp from any to any 7\nadd reset tcp from any to any\nadd allow ip from any to any\n",
        );
        assert!(passes(&mut bench, 1, &udp(family, (1, 1))));
        for n in 0..200_u16 {
            let packet = if n % 3 == 0 { udp(family, (n, 7)) } else { udp(family, (n, 8)) };
            bench.inject(1, build::frame(1, &packet));
        }
        bench.run();
        let at = 14 + if family.0.is_ipv4() { 20 } else { 40 };
        let ports: Vec<u16> =
            bench.sent(2).iter().map(|frame| u16::from_be_bytes([frame[at], frame[at + 1]])).collect();
        assert_eq!(ports, (0..200).filter(|n| n % 3 != 0).collect::<Vec<_>>());
        assert_eq!(bench.dropped(DropReason::FirewallDeny), 67);
    }
}

#[test]
fn a_reload_ends_states_of_rules_that_are_gone_and_of_no_others() {
    for family in families() {
        let text = |last: &str| {
            format!(
                "{DISCOVERY}add 10 check-state\nadd 20 allow udp from any to any 53 in recv mem1 keep-state\n{last}"
            )
        };
        let mut all = rules(&text("add 30 allow udp from any to any 99 in recv mem1 keep-state\n"));
        let mut bench = Bench::new(2);
        bench.set_rules(&mut all);
        assert!(
            passes(&mut bench, 1, &udp(family, (1000, 53)))
                && passes(&mut bench, 1, &udp(family, (1000, 99)))
        );
        all.rules.delete(None, &[30..=30]).unwrap();
        bench.set_rules(&mut all);
        assert!(passes(&mut bench, 2, &udp(back(family), (53, 1000))), "its rule is as it was");
        assert!(!passes(&mut bench, 2, &udp(back(family), (99, 1000))), "its rule is gone");
    }
}

#[test]
fn states_of_a_rule_that_is_gone_make_room_at_once_and_not_when_their_time_is_over() {
    for family in families() {
        let mut all = rules(&format!(
            "{DISCOVERY}add 20 allow tcp from any to any 80 keep-state\nadd 30 allow tcp from any to any keep-state\n"
        ));
        let mut bench = Bench::new(2);
        bench.set_rules(&mut all);
        for port in 0..3000 {
            assert!(passes(&mut bench, 1, &tcp(family, (port, 80 + port % 2), Flags::SYN, 1, 0)));
        }
        all.rules.delete(None, &[30..=30]).unwrap();
        bench.set_rules(&mut all);
        bench.advance(Duration::from_secs(2));
        let states = bench.cpu().firewall.as_ref().unwrap().states().len();
        assert_eq!(states, 1500, "SYNs live for 20 s");
    }
}

#[test]
fn a_rule_with_bad_luck_is_as_if_it_were_not_there() {
    for family in families() {
        let mut bench = router("add prob 0.5 deny udp from any to any in\nadd allow ip from any to any\n");
        let passed = (0..400).filter(|n| passes(&mut bench, 1, &udp(family, (*n, 9)))).count();
        assert!((130..270).contains(&passed), "{passed} of 400");
    }
}

#[test]
fn what_a_rule_with_log_matches_is_written_down() {
    for family in families() {
        let mut bench = router("add 500 deny log logamount 3 udp from any to any in\n");
        for port in 0..5 {
            assert!(!passes(&mut bench, 1, &udp(family, (port, 9))));
        }
        let (records, _) = bench.cpu().firewall.as_ref().unwrap().log().since(0);
        assert_eq!(records.len(), 3);
        let record = &records[0];
        assert_eq!((record.rule, record.done, record.recv, record.xmit), (500, "Deny", 1, 0));
        assert_eq!(record.snap, udp(family, (0, 9)));
    }
}

/// An error about a packet from a router on the way to its destination.
fn error_about(packet: &[u8], router: IpAddr) -> Vec<u8> {
    match router {
        IpAddr::V4(router) => {
            let to = core::net::Ipv4Addr::from(*packet[12..].first_chunk::<4>().unwrap());
            let message = icmp4::Message::Unreachable { code: 1, mtu: 0 };
            let quote = &packet[..28];
            build::ip(
                router.into(),
                to.into(),
                Protocol::ICMP,
                60,
                &[&message.to_bytes(quote), quote].concat(),
            )
        }
        IpAddr::V6(router) => {
            let to = core::net::Ipv6Addr::from(*packet[8..].first_chunk::<16>().unwrap());
            let message = icmp6::Message::Unreachable { code: 3 };
            let header = message.to_bytes(router, to, packet);
            build::ip(router.into(), to.into(), Protocol::ICMP6, 60, &[&header, packet].concat())
        }
    }
}

#[test]
fn an_error_passes_if_it_is_about_a_flow_that_has_a_state_on_whichever_cpu_that_is() {
    for (src, dst) in families() {
        let far: IpAddr = if src.is_ipv4() { addr4(2, 200).into() } else { addr6(2, 200).into() };
        for cpus in [1, 4] {
            let mut bench = Bench::with(2, cpus, |_| ());
            bench.set_rules(&mut rules(&format!(
                "{DISCOVERY}add check-state\nadd allow udp from any to any 53 keep-state\n"
            )));
            for port in 1..=16 {
                let asked = udp((src, dst), (port, 53));
                assert!(passes(&mut bench, 1, &asked));
                assert!(passes(&mut bench, 2, &error_about(&asked, far)), "{port} {cpus}");
                let unasked = udp((src, dst), (port + 100, 53));
                assert!(!passes(&mut bench, 2, &error_about(&unasked, far)), "{port} {cpus}");
            }
            assert_eq!(bench.counted(Count::Strays), 0);
        }
    }
}

#[test]
fn an_idle_connection_is_asked_whether_it_is_still_there() {
    for family in families() {
        let mut bench = router("add check-state\nadd allow tcp from any to any setup keep-state\n");
        assert!(passes(&mut bench, 1, &tcp(family, (1000, 80), Flags::SYN, 100, 0)));
        assert!(passes(&mut bench, 2, &tcp(back(family), (80, 1000), with_ack(Flags::SYN), 700, 101)));
        assert!(passes(&mut bench, 1, &tcp(family, (1000, 80), Flags::ACK, 101, 701)));
        bench.advance(Duration::from_secs(275));
        bench.forget_sent();
        bench.advance(Duration::from_secs(20));
        let at = if family.0.is_ipv4() { 20 } else { 40 };
        let segments = |packets: Vec<Vec<u8>>| -> Vec<Header> {
            let own = packets.into_iter().filter(|packet| packet.len() == at + 20);
            own.map(|packet| Header::parse(&packet[at..]).unwrap()).collect()
        };
        let (to_client, to_server) = (segments(told(&mut bench, 1)), segments(told(&mut bench, 2)));
        assert!(
            (3..=4).contains(&to_client.len()),
            "every five seconds of the last twenty: {}",
            to_client.len()
        );
        assert_eq!(to_client.len(), to_server.len());
        assert_eq!((to_client[0].seq, to_client[0].ack), (700, 101));
        assert_eq!((to_server[0].seq, to_server[0].ack), (100, 701));
    }
}

#[test]
fn the_eleventh_flow_of_a_source_is_refused_and_that_of_another_source_is_not() {
    for (src, dst) in families() {
        let other = if src.is_ipv4() { addr4(1, 10).into() } else { addr6(1, 10).into() };
        let mut bench = router("add allow udp from any to any limit src-addr 10\n");
        let passed =
            (0..20).filter(|port| passes(&mut bench, 1, &udp((src, dst), (1000 + port, 53)))).count();
        assert_eq!((passed, bench.drops()), (10, vec![(DropReason::FirewallLimit, 10)]));
        assert!(passes(&mut bench, 2, &udp((dst, src), (53, 1009))), "the answer to one of the ten");
        assert!(passes(&mut bench, 1, &udp((other, dst), (1000, 53))));
        bench.advance(Duration::from_secs(12));
        assert!(passes(&mut bench, 1, &udp((src, dst), (2000, 53))), "the ten are over");
    }
}

#[test]
fn what_a_table_holds_decides_and_rules_count_what_they_match() {
    for family in families() {
        let mut bench = router(&format!(
            "table bad create type addr\ntable bad add {}\nadd 10 deny udp from table(bad) to any in\n\
             add 20 allow udp from any to any\n",
            family.0
        ));
        let other = (if family.0.is_ipv4() { addr4(1, 10).into() } else { addr6(1, 10).into() }, family.1);
        for _ in 0..3 {
            assert!(!passes(&mut bench, 1, &udp(family, (1, 2))));
            assert!(passes(&mut bench, 1, &udp(other, (1, 2))));
        }
        let firewall = bench.cpu().firewall.as_ref().unwrap();
        let rules = firewall.rules();
        let ids = (0..rules.len()).map(|at| rules.rule(at).unwrap().id);
        let counted: Vec<u64> = ids.map(|id| firewall.counters().get(id).packets).collect();
        assert_eq!(counted[1..3], [3, 6], "the second is asked on the way in and on the way out");
    }
}

#[test]
fn whose_link_address_a_rule_names_is_known_while_its_packets_come_in_and_not_behind() {
    const SENDER: Mac = Mac([2, 0, 0x5e, 0x10, 0, 1]);
    const OTHER: Mac = Mac([2, 0, 0x5e, 0x20, 0, 1]);
    for family in families() {
        let packet = udp(family, (1, 2));
        let kind = if family.0.is_ipv4() { 0x0800_u16 } else { 0x86dd };
        // Behind a tag that only carries a priority, too.
        let tagged = [&[0x60, 0][..], &kind.to_be_bytes(), &packet].concat();
        for (rule, denied, denied_other) in [
            ("deny udp from any to any MAC any 02:00:5e:10:00:01", true, false),
            ("deny udp from any to any MAC any 02:00:5e:10:00:00/32", true, false),
            ("deny udp from any to any MAC any 02:00:5e:00:00:00/24 in", true, true),
            ("deny udp from any to any MAC 02:00:5e:10:00:01 any", false, false),
            ("deny udp from any to any MAC any 02:00:5e:10:00:01 out", false, false),
            ("deny udp from any to any in not MAC any 02:00:5e:10:00:01", false, true),
            ("deny udp from any to any lookup src-mac bad", true, false),
            ("deny udp from any to any src-mac table(bad)", true, false),
            ("deny udp from any to any dst-mac table(bad)", false, false),
            ("deny udp from any to any dst-mac table(bad,7)", false, false),
        ] {
            let mut bench = router(&format!(
                "table bad create type mac\ntable bad add {SENDER} 5\nadd {rule}\nadd allow ip from any to any\n"
            ));
            let mut passes = |frame| {
                bench.inject(1, frame);
                bench.run();
                bench.sent(2).len() == 1
            };
            // The second one goes by what the first one has made ready.
            for _ in 0..2 {
                for (sender, denied) in [(SENDER, denied), (OTHER, denied_other)] {
                    assert_eq!(
                        passes(build::ether(mac(1), sender, kind, &packet)),
                        !denied,
                        "{rule} {sender}"
                    );
                    assert_eq!(
                        passes(build::ether(mac(1), sender, 0x8100, &tagged)),
                        !denied,
                        "{rule}, tagged"
                    );
                }
            }
        }
    }
}

#[test]
fn a_flow_without_a_free_nat_port_is_rejected_and_counted() {
    let (src, dst) = families()[0];
    let mut bench = router(
        "nat 1 config if mem2 port_range 5000-5000\nadd nat 1 ip4 from any to any out xmit mem2\nadd allow ip from any to any\n",
    );
    assert!(passes(&mut bench, 1, &udp((src, dst), (1000, 53))));
    assert!(!passes(&mut bench, 1, &udp((src, dst), (1001, 53))));
    assert_eq!(told(&mut bench, 1)[0][20..22], [3, 1]);
    assert_eq!(bench.drops(), [(DropReason::NatExhausted, 1)]);
}
