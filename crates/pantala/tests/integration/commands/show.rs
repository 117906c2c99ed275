//! Output of the showing commands.

use crate::commands::server::World;

fn ifconfig_shows_blocks_as_bsd_does() {
    assert_eq!(
        World::new().shows("ifconfig"),
        "\
lo0: flags=8049<UP,LOOPBACK,RUNNING,MULTICAST> metric 0 mtu 16384
\tinet 127.0.0.1 netmask 0xff000000
\tinet6 ::1 prefixlen 128
lan: flags=8843<UP,BROADCAST,RUNNING,SIMPLEX,MULTICAST> metric 0 mtu 1500
\toptions=3<RXCSUM,TXCSUM>
\tether 02:00:00:00:00:01
\tinet 192.0.2.1 netmask 0xffffff00 broadcast 192.0.2.255
\tinet6 2001:db8::1 prefixlen 64 tentative
\tinet6 fe80::1%lan prefixlen 64 scopeid 0x2
\tinet6 2001:db8:7::5 prefixlen 64 deprecated autoconf pltime 0 vltime 3600
\tinet6 2001:db8:7::9 prefixlen 64 autoconf temporary pltime 60 vltime infty
\tmedia: Ethernet autoselect
\tstatus: active
\txdp: native copy need-wakeup umem 4096x2048 host eth0 queues 2
wan: flags=8802<BROADCAST,SIMPLEX,MULTICAST> metric 0 mtu 1500
\tether 02:00:00:00:00:02
\tinet 198.51.100.0 netmask 0xfffffffe duplicated
\tmulticast: 224.0.0.2 ff02::1:ff00:1
\tstatus: no carrier
\ttap: host wan0 queues 1
"
    );
}

fn ifconfig_shows_one_interface_or_only_names() {
    let world = World::new();
    assert!(world.shows("ifconfig wan").starts_with("wan: flags=8802<"));
    assert_eq!(world.shows("ifconfig -l"), "lo0 lan wan\n");
}

fn netstat_i_has_a_line_for_the_link_and_one_for_each_address() {
    assert_eq!(
        World::new().shows("netstat -i -n"),
        "\
Name    Mtu  Network          Address            Ipkts  Ierrs  Idrop  Opkts  Oerrs  Odrop
lo0   16384  <Link#1>                                0      0      0      0      0      0
lo0       -  127.0.0.0/8      127.0.0.1              -      -      -      -      -      -
lo0       -  ::1/128          ::1                    -      -      -      -      -      -
lan    1500  <Link#2>         02:00:00:00:00:01     42      1      2     40      3      4
lan       -  192.0.2.0/24     192.0.2.1              -      -      -      -      -      -
lan       -  2001:db8::/64    2001:db8::1            -      -      -      -      -      -
lan       -  fe80::/64        fe80::1                -      -      -      -      -      -
lan       -  2001:db8:7::/64  2001:db8:7::5          -      -      -      -      -      -
lan       -  2001:db8:7::/64  2001:db8:7::9          -      -      -      -      -      -
wan    1500  <Link#3>         02:00:00:00:00:02      0      0      0      0      0      0
wan       -  198.51.100.0/31  198.51.100.0           -      -      -      -      -      -
"
    );
}

fn netstat_o_has_a_line_for_each_output_queue() {
    let shown = World::new().shows("netstat -o");
    let lines: Vec<Vec<&str>> = shown.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0][..5], ["Name", "CPU", "Queue", "Pkts", "Bytes"]);
    assert_eq!(
        lines[1].join(" "),
        "lan 0 fq_codel 3 300 2 10240 33554432 1514 3028 4 6 7 40 8 5",
        "the counters are the interface's"
    );
    assert_eq!(lines[2].join(" "), "lan 1 fq_codel 0 0 0 10240 33554432 1514 - - - - - - -");
    let json = World::new().shows("netstat -o --json");
    for key in ["byte_limit", "in_flight", "packets_max", "discipline", "tx_marks", "tx_flushes"] {
        assert!(json.contains(key), "{key}");
    }
}

fn netstat_ib_counts_bytes_too() {
    let shown = World::new().shows("netstat -b -I wan");
    assert!(shown.starts_with("Name   Mtu  Network"), "{shown}");
    assert!(shown.lines().next().unwrap().ends_with("Idrop  Ibytes  Opkts  Oerrs  Odrop  Obytes"), "{shown}");
    assert_eq!(shown.lines().count(), 3);
}

fn netstat_rn_shows_both_tables_and_route_show_the_same() {
    let world = World::new();
    let shown = world.shows("netstat -rn");
    assert_eq!(
        shown,
        "\
Routing tables

Internet:
Destination   Gateway      Flags  Netif  Expire
default       192.0.2.254  UGS      lan
default       192.0.2.253  UGS      lan
10.0.0.0/8    -            URS        -
192.0.2.0/24  link#2       U        lan
192.0.2.1     link#1       UHl      lo0

Internet6:
Destination         Gateway  Flags  Netif  Expire
2001:db8::/64       link#2   U        lan
2001:db8:1::/48     fe80::2  UGS      lan     300
2001:db8:dead::/48  -        USB        -
"
    );
    assert_eq!(world.shows("route -n show"), shown);
    assert!(!world.shows("netstat -rn -4").contains("Internet6"));
}

fn route_get_explains_the_way() {
    let world = World::new();
    assert_eq!(
        world.shows("route get 192.0.2.9"),
        "   route to: 192.0.2.9\ndestination: 192.0.2.0/24\n       mask: 255.255.255.0\n  interface: lan\n      \
         flags: <UP>\n     source: 192.0.2.1\n        mtu: 1500\n"
    );
    let far = world.shows("route -n get 203.0.113.1");
    assert!(far.contains("destination: default\n"), "{far}");
    assert!(far.contains("    gateway: 192.0.2.254\n  interface: lan\n"), "{far}");
    assert!(far.contains("flags: <UP,GATEWAY,STATIC>"), "{far}");
}

fn netstat_s_shows_what_is_not_zero_by_protocol() {
    let world = World::new();
    assert_eq!(
        world.shows("netstat -s"),
        "\
netisr:
\t1000 netisr turns
ip:
\t42 IPv4 packets received
ip6:
\t5 IPv6 packets received
icmp6:
\t1 ICMPv6 echo requests answered
drops:
\t3 ip4_bad_checksum: bad IPv4 header checksum
"
    );
    assert_eq!(
        world.shows("netstat -s -p ip6"),
        "ip6:\n\t5 IPv6 packets received\ndrops:\n\t0 no_route: no route to host\n"
    );
}

fn netstat_m_shows_the_pools() {
    assert_eq!(
        World::new().shows("netstat -m"),
        "\
72/2048/6072/8192 packet buffers of 2048 bytes in use (stack/rings/free/total)
4 requests for buffers denied

CPU  Buffers  Free  Rings  Used  Denied
  0     4096  3000   1024    72       2
  1     4096  3072   1024     0       2
"
    );
}

fn intrctl_list_shows_the_cpu_of_each_ring() {
    let world = World::new();
    assert_eq!(
        world.shows("intrctl list"),
        "\
Name  Ring  Device       Queue  CPU  Steering  Ipkts  Opkts  Doorbells  Idrop  Polls  Busy  Burst  UsedUp
lan      0  af_xdp:eth0      4    0  nic          42     40          7      2   1000     9    256       3
lan      1  af_xdp:eth0      5    1  nic          42     40          7      2   1000     9    256       3
wan      0  tap:wan0         0    1  hand-off     42     40          7      2   1000     9    256       3
"
    );
    assert_eq!(world.shows("intrctl list wan").lines().count(), 2);
    let json = world.json("intrctl list");
    assert_eq!((&json[1]["interface"], &json[1]["cpu"]), (&"lan".into(), &1.into()));
    assert_eq!((&json[2]["steering"], &json[2]["bursts_used_up"]), (&"hand_off".into(), &3.into()));
}

fn netstat_q_shows_the_netisrs() {
    assert_eq!(
        World::new().shows("netstat -Q"),
        "\
CPU  Turns  Busy  Packets  Pkts/turn  HandIn  HandOut  Msgs  Sleeps  Wakeups  Burst  Long  User%  User_ms
  0   1000   100     6400       64.0       7        8     9      10       11    256    12     50     1400
  1      0     0        0        0.0       0        0     0       0        0      0     0      0        0
"
    );
}

fn netstat_w_shows_what_passed_since() {
    assert_eq!(
        World::new().shows("netstat -w 0.001 -q 2 -I lan"),
        "\x20                       input (lan) output
   packets  errs idrops      bytes    packets  errs odrops      bytes
        10     0      0       1000          0     0      0          0
        10     0      0       1000          0     0      0          0
"
    );
}

fn arp_and_ndp_show_their_own_family() {
    let world = World::new();
    assert_eq!(
        world.shows("arp -an"),
        "\
? (192.0.2.1) at 02:00:00:00:00:01 on lan permanent [ethernet]
? (192.0.2.7) at 02:00:00:00:00:07 on lan expires in 1187 seconds [ethernet]
? (192.0.2.9) at (incomplete) on lan expires in 2 seconds [ethernet]
"
    );
    assert_eq!(
        world.shows("ndp -an"),
        "\
Neighbor     Linklayer Address  Netif  Expire     S  Flags
2001:db8::1  02:00:00:00:00:01    lan  permanent  R
fe80::7      02:00:00:00:00:07    lan  23h59m58s  S  R
2001:db8::9  (incomplete)         lan  1s         I
"
    );
    assert_eq!(world.shows("arp -n 192.0.2.9").lines().count(), 1);
}

fn what_routers_have_said_is_shown() {
    let world = World::new();
    assert_eq!(
        world.shows("ndp -r"),
        "\
fe80::7%lan if=lan, pref=medium, expire=29m50s, chosen
fe80::8%lan if=lan, pref=high, expire=29m50s, unreachable
"
    );
    assert_eq!(
        world.shows("ndp -p"),
        "\
2001:db8::/64 if=lan, expire=23h59m58s
2001:db8:7::/64 if=lan, expire=never
"
    );
    assert_eq!(world.json("ndp -r")[0]["routers"][1]["preference"], "high");
    assert_eq!(world.json("ndp -p")[0]["prefixes"][0]["expires_s"], 86_398);
    assert_eq!(world.json("ifconfig lan")["addresses"][4]["temporary"], true);
}

fn json_has_stable_keys() {
    let world = World::new();
    let lan = world.json("ifconfig lan");
    assert_eq!(lan["addresses"][1]["state"], "tentative");
    assert_eq!(lan["device"]["mode"], "native");
    assert_eq!(lan["counters"]["rx_packets"], 42);
    assert_eq!(world.json("netstat -rn")[0]["next_hops"][1]["gateway"], "192.0.2.253");
    assert_eq!(world.json("route get 10.1.1.1")["route"]["action"], "reject");
    assert_eq!(world.json("arp -an")[1]["expires_s"], 1187);
    assert_eq!(world.json("ndp -an")[1]["router"], true);
    assert_eq!(world.json("netstat -Q")[0]["handoffs_in"], 7);
    assert_eq!(world.json("netstat -m")[1]["in_rings"], 1024);
    assert_eq!(world.json("netstat -s")["drops"][0]["reason"], "ip4_bad_checksum");
    assert_eq!(world.json("netstat -w 0.001 -q 1")["rx_packets"], 10);
}

fn netstat_upper_m_shows_what_an_interface_monitored() {
    let world = World::new();
    assert_eq!(
        world.shows("netstat -M -I wan"),
        "\
wan: 1000 frames, 64000 bytes
\t998 of a generator, in 10 flows
\t3 lost, 1 duplicated, 2 reordered by at most 7
\tlatency p50 1.0 us, p90 2.0 us, p99 30.0 us, p99.9 4.00 ms, max 5.00 ms
"
    );
    assert_eq!(world.json("netstat -M -I wan")["latency_ns"]["p999"], 4_000_000);
}

fn top_prints_screens_as_text_and_readings_as_json() {
    let world = World::new();
    let text = world.shows("top -b -n 1 -d 0.1");
    assert_eq!(text.lines().count(), 24);
    for word in ["[overview]", "CPU busy", "lan ", "wan down", "ip4_bad_checksum"] {
        assert!(text.contains(word), "{word}\n{text}");
    }
    assert!(world.shows("top -b -n 1 -d 0.1 --pane rules").contains("allow ip from any to any"));
    let lines = world.shows("--json top -n 2 -d 0.1");
    let readings: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(readings.len(), 2);
    for reading in &readings {
        assert_eq!(reading["interfaces"][1]["name"], "lan");
        assert_eq!(reading["rules"][0]["packets_total"], 12);
        assert!(reading["flows"][0]["bytes_total"].as_u64() > Some(0));
        assert!(reading["connections"].is_array() && reading["cpus"][0]["busy_percent"].is_number());
    }
}

harness::tests![
    top_prints_screens_as_text_and_readings_as_json,
    ifconfig_shows_blocks_as_bsd_does,
    ifconfig_shows_one_interface_or_only_names,
    netstat_i_has_a_line_for_the_link_and_one_for_each_address,
    netstat_o_has_a_line_for_each_output_queue,
    netstat_ib_counts_bytes_too,
    netstat_rn_shows_both_tables_and_route_show_the_same,
    route_get_explains_the_way,
    netstat_s_shows_what_is_not_zero_by_protocol,
    netstat_m_shows_the_pools,
    intrctl_list_shows_the_cpu_of_each_ring,
    netstat_q_shows_the_netisrs,
    netstat_w_shows_what_passed_since,
    arp_and_ndp_show_their_own_family,
    what_routers_have_said_is_shown,
    json_has_stable_keys,
    netstat_upper_m_shows_what_an_interface_monitored
];
