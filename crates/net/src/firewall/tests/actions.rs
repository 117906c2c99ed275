//! Actions on packets that go on: tags, table values, deferred actions, rewritten fields.

use super::*;

/// Whether a datagram to `port` comes through.
fn goes(bench: &mut Bench, family: (IpAddr, IpAddr), port: u16) -> bool {
    passes(bench, 1, &udp(family, (1000, port)))
}

#[test]
fn a_mark_is_seen_by_the_rules_behind_and_when_the_packet_leaves_until_it_is_taken_away() {
    for family in families() {
        for (text, reaches) in [
            ("count tag 7 udp from any to any 53 in\nadd deny udp from any to any in tagged 7", false),
            ("count tag 7 udp from any to any 53 in\nadd deny udp from any to any out tagged 5-7", false),
            ("count tag 7 udp from any to any 53 in\nadd deny udp from any to any tagged 8", true),
            ("count tag 7 udp from any to any 53 in\nadd deny udp from any to any 53 in not tagged 7", true),
            (
                "count tag 7 udp from any to any 53\n\
                 add count untag 7 udp from any to any\nadd deny udp from any to any tagged 7",
                true,
            ),
            (
                "count tag 7 udp from any to any 53\n\
                 add count untag 8 udp from any to any\nadd deny udp from any to any tagged 7",
                false,
            ),
            (
                "count tag 7 udp from any to any 53\n\
                 add count tag 9 udp from any to any tagged 7\nadd deny udp from any to any tagged 9",
                false,
            ),
        ] {
            let mut bench = router(&format!("add {text}\nadd allow ip from any to any\n"));
            for _ in 0..2 {
                assert_eq!(goes(&mut bench, family, 53), reaches, "{text}");
                assert!(goes(&mut bench, family, 54), "{text}");
            }
        }
    }
}

/// Value 300 of a table that the destination is in, wherever a rule may say `tablearg`.
#[test]
fn what_a_table_says_stands_for_the_number_that_an_action_needs() {
    for family in families() {
        for (text, reaches) in [
            (
                "add 100 skipto tablearg udp from any to table(t) in\nadd 200 deny udp from any to any in",
                true,
            ),
            (
                "add 100 skipto tablearg udp from any to table(t) in\nadd 300 deny udp from any to any in",
                false,
            ),
            (
                "add 100 call tablearg udp from any to table(t)\n\
                 add 200 allow ip from any to any\nadd 300 deny udp from any to any",
                false,
            ),
            (
                "add 100 call tablearg udp from any to table(t)\nadd 200 deny udp from any to any\nadd 300 return",
                false,
            ),
            (
                "add 100 count tag tablearg udp from any to table(t) in\nadd 200 deny udp from any to any tagged 300",
                false,
            ),
            (
                "add 100 count tag 300 udp from any to any in\n\
                 add 110 count untag tablearg udp from any to table(t) in\nadd 200 deny udp from any to any tagged 300",
                true,
            ),
            ("pipe 300 config plr 1\nadd 100 pipe tablearg udp from any to table(t) in", false),
            ("add 100 pipe tablearg udp from any to table(t) in", false),
        ] {
            let table = format!("table t create type addr\ntable t add {} 300\n", family.1);
            let mut bench = router(&format!("{table}{text}\nadd 9000 allow ip from any to any\n"));
            for _ in 0..2 {
                assert_eq!(goes(&mut bench, family, 53), reaches, "{text}");
            }
        }
        let table = format!("table t create type addr\ntable t add {} 2\n", family.1);
        let mut bench =
            router(&format!("{table}add allow udp from any to table(t) limit src-addr tablearg\n"));
        assert_eq!([53, 54, 55, 53].map(|port| goes(&mut bench, family, port)), [true, true, false, true]);
    }
}

#[test]
fn a_table_names_the_next_hop_and_the_instance_that_translates() {
    for (src, dst) in families() {
        let elsewhere: IpAddr = if src.is_ipv4() { addr4(3, 77).into() } else { addr6(3, 77).into() };
        let text = format!(
            "{DISCOVERY}table t create type addr\ntable t add {dst} {elsewhere}\n\
             add fwd tablearg udp from any to table(t) in\nadd allow ip from any to any\n"
        );
        let mut bench = Bench::new(3);
        bench.set_rules(&mut rules(&text));
        bench.inject(1, build::frame(1, &udp((src, dst), (1, 53))));
        bench.run();
        let sent = bench.sent(3);
        assert!(sent.len() == 1 && sent[0][..6] == crate::testkit::peer_mac(elsewhere).0, "{elsewhere}");
    }
    let (src, dst) = families()[0];
    let mut bench = router(&format!(
        "nat 7 config if mem2\ntable t create type addr\ntable t add {dst} 7\n\
         add nat tablearg ip4 from any to table(t) out\nadd allow ip from any to any\n"
    ));
    bench.inject(1, build::frame(1, &udp((src, dst), (1, 53))));
    bench.run();
    assert_eq!(told(&mut bench, 2)[0][12..16], addr4(2, 1).octets(), "by the instance that the table names");
}

#[test]
fn what_is_deferred_is_done_to_the_packets_that_come_behind() {
    for family in families() {
        for word in ["record-state", "keep-state", "set-limit src-addr 9", "limit src-addr 9"] {
            let mut bench = router(&format!(
                "add allow ip from any to any out\nadd check-state\n\
                 add deny udp from any to any in {word} defer-action\nadd allow ip from any to any\n"
            ));
            assert!(goes(&mut bench, family, 53), "{word}: the next rule is asked about the first");
            assert!(!goes(&mut bench, family, 53), "{word}: those behind meet the state");
            assert!(goes(&mut bench, family, 54), "{word}: another flow");
        }
        let mut bench =
            router("add allow udp from any to any in set-limit src-addr 2\nadd allow ip from any to any\n");
        assert_eq!([53, 54, 55].map(|port| goes(&mut bench, family, port)), [true, true, false]);
    }
}

#[test]
fn a_code_point_and_a_segment_size_are_written_into_packets_and_the_rules_behind_see_them() {
    for family in families() {
        let mut bench = router(
            "add setdscp ef ip from any to any in recv mem1\nadd tcp-setmss 1000 tcp from any to any in recv mem1\n\
             add deny ip from any to any dst-port 99 in not dscp ef\n\
             add deny tcp from any to any in not tcpmss 1-1000\n\
             add allow ip from any to any\n",
        );
        let options = Options { mss: Some(1460), ..Options::NONE };
        let header = Header {
            src_port: 1,
            dst_port: 99,
            seq: 1,
            ack: 0,
            flags: Flags::SYN,
            window: 9000,
            urgent: 0,
            options,
        };
        assert!(passes(&mut bench, 1, &build::tcp(family.0, family.1, &header, &[])));
        bench.inject(1, build::frame(1, &build::tcp(family.0, family.1, &header, &[])));
        bench.run();
        let out = told(&mut bench, 2).remove(0);
        let class = if family.0.is_ipv4() { out[1] } else { out[0] << 4 | out[1] >> 4 };
        assert_eq!(class >> 2, 46);
        let tcp = if family.0.is_ipv4() { 20 } else { 40 };
        assert_eq!(out[tcp + 20..tcp + 24], [2, 4, 3, 232], "1000 bytes");
    }
}
