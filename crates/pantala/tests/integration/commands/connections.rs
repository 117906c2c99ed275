//! `netstat -an`, `netstat -L`, `netstat -s -p`, `tcpdrop`.

use pantala::Exit;

use crate::commands::server::World;

fn netstat_an_shows_connections_and_listeners() {
    assert_eq!(
        World::new().shows("netstat -an"),
        "\
Active Internet connections (including servers)
Proto Recv-Q Send-Q Local Address          Foreign Address        (state)
tcp4       0      0 192.0.2.1.22           *.*                    LISTEN
tcp46      0      0 *.80                   *.*                    LISTEN
tcp4       0   1448 192.0.2.1.80           198.51.100.7.40000     ESTABLISHED
tcp4       0      0 192.0.2.1.80           198.51.100.8.40001     TIME_WAIT
tcp6      12      0 2001:db8::1.80         2001:db8::7.40002      CLOSE_WAIT
tcp6       0      0 fe80::1%lan.80         fe80::7%lan.40003      SYN_RCVD
udp4     120      0 *.514                  *.*
udp6       0      0 2001:db8::1.40004      2001:db8::53.53
icmp4    128      0 *.*                    *.*
icmp6    128      0 2001:db8::1.*          2001:db8::7.*
"
    );
}

fn without_a_those_who_wait_for_anybody_are_not_shown() {
    let world = World::new();
    let shown = world.shows("netstat");
    assert!(shown.starts_with("Active Internet connections\n"), "{shown}");
    assert!(!shown.contains("LISTEN") && !shown.contains("*.514") && shown.contains("2001:db8::53.53"));
    assert_eq!(world.shows("netstat -n -p udp").lines().count(), 3);
    assert_eq!(world.shows("netstat -a -f inet").lines().count(), 2 + 2 + 2 + 1 + 1);
    assert!(!shown.contains("icmp4") && shown.contains("icmp6"), "{shown}");
    assert_eq!(world.shows("netstat -an -p icmp -f inet").lines().count(), 2 + 1);
    assert_eq!(world.shows("netstat -anf inet6 -p tcp").lines().count(), 2 + 1 + 2);
}

fn netstat_upper_t_says_what_tcp_knows_with_the_words_of_ss() {
    let shown = World::new().shows("netstat -nT -p tcp -f inet");
    assert_eq!(
        shown.lines().nth(3).unwrap(),
        "\tts sack cubic wscale:7,6 rto:204 rtt:10/0.5 mss:1448 pmtu:1500 rcvmss:536 cwnd:10 bytes_acked:2896 \
         segs_out:6 segs_in:5 data_segs_out:3 send 11.5Mbps lastsnd:5 lastrcv:70 lastack:0 busy:80ms \
         rwnd_limited:10ms(12.5%) unacked:1 retrans:2 snd_wnd:65535 rcv_wnd:65536 minrtt:9.875 cpu:0"
    );
    assert_eq!(shown.lines().count(), 5, "of TIME-WAIT nothing more is known: {shown}");
}

fn netstat_upper_l_adds_up_the_queues_of_all_cpus() {
    assert_eq!(
        World::new().shows("netstat -Lan"),
        "\
Current listen queue sizes (qlen/maxqlen)
Proto  Listen          Local Address
tcp4   0/256           192.0.2.1.22
tcp46  5/256           *.80
"
    );
}

fn netstat_g_shows_groups_and_source_filters() {
    let world = World::new();
    assert_eq!(
        world.shows("netstat -gn"),
        "\
Multicast Group Memberships
Group      Netif  Senders
239.1.2.3  lan    *
232.1.2.3  lan    192.0.2.7,192.0.2.8
ff05::1:3  wan    all but 2001:db8::7
"
    );
    assert_eq!(world.shows("netstat -gf inet6").lines().count(), 3);
    assert_eq!(world.json("netstat -g")[1]["sources"][0], "192.0.2.7");
}

fn netstat_sp_shows_all_of_a_protocol_and_what_its_packets_died_of() {
    let world = World::new();
    assert_eq!(
        world.shows("netstat -s -p ip"),
        "\
ip:
\t42 IPv4 packets received
\t0 IPv4 packets forwarded
drops:
\t3 ip4_bad_checksum: bad IPv4 header checksum
\t0 no_route: no route to host
"
    );
    assert!(!world.shows("netstat -ss -p ip").contains("forwarded"));
    assert_eq!(world.json("netstat -s -p ip")["counters"].as_array().unwrap().len(), 2);
    let said = world.run("netstat -s -p igrp");
    assert_eq!(said.exit, Exit::Usage);
    assert!(said.err.contains("unknown protocol `igrp`"), "{said:?}");
}

fn json_has_a_row_for_each_cpu_and_all_that_is_known() {
    let json = World::new().json("netstat -anT");
    assert_eq!(json["tcp_listeners"].as_array().unwrap().len(), 4);
    let first = &json["tcp"][0];
    assert_eq!((&first["local"], &first["foreign_port"]), (&"192.0.2.1".into(), &40_000.into()));
    assert_eq!((&first["state"], &first["owner"]), (&"established".into(), &"program".into()));
    assert_eq!((&first["info"]["cwnd"], &first["info"]["rto_us"]), (&14_480.into(), &204_000.into()));
    assert!(json["tcp"][1].get("info").is_none());
    assert_eq!(json["udp"][2]["foreign"], "[2001:db8::53]:53");
    assert_eq!((&json["icmp"][3]["foreign"], &json["icmp"][3]["cpu"]), (&"2001:db8::7".into(), &1.into()));
    assert_eq!(World::new().json("netstat -L")[3]["qlen"], 3);
}

fn tcpdrop_ends_one_connection_or_those_of_a_state_or_only_says_how() {
    let world = World::new();
    assert_eq!(
        world.shows("tcpdrop 192.0.2.1 80 198.51.100.7 40000"),
        "192.0.2.1 80 198.51.100.7 40000: dropped\n"
    );
    assert_eq!(world.shows("tcpdrop -l -s syn_rcvd"), "pantala tcpdrop fe80::1%lan 80 fe80::7%lan 40003\n");
    assert_eq!(world.shows("tcpdrop fe80::1 80 fe80::7%lan 40003").lines().count(), 1);
    assert_eq!(*world.told.lock().unwrap(), ["drop 192.0.2.1 40000", "drop fe80::1 40003"]);
    assert_eq!(world.shows("tcpdrop -a").lines().count(), 4);
    assert_eq!(world.json("tcpdrop -la")[1]["foreign_port"], 40_001);
    let said = world.run("tcpdrop 192.0.2.1 80 198.51.100.7 1");
    assert_eq!(said.exit, Exit::Failed);
    assert!(said.err.contains("no connection between 192.0.2.1 and 198.51.100.7"), "{said:?}");
}

harness::tests![
    netstat_an_shows_connections_and_listeners,
    without_a_those_who_wait_for_anybody_are_not_shown,
    netstat_upper_t_says_what_tcp_knows_with_the_words_of_ss,
    netstat_upper_l_adds_up_the_queues_of_all_cpus,
    netstat_g_shows_groups_and_source_filters,
    netstat_sp_shows_all_of_a_protocol_and_what_its_packets_died_of,
    json_has_a_row_for_each_cpu_and_all_that_is_known,
    tcpdrop_ends_one_connection_or_those_of_a_state_or_only_says_how
];
