//! Wrong configurations: each gets one clear message that names the place and the remedy, and exit code 1.

use pantala::config::{Config, Machine};

/// The mistake, the file, and the expected message: place and text, help.
struct Bad {
    text: &'static str,
    says: &'static str,
    help: &'static str,
}

const fn bad(text: &'static str, says: &'static str, help: &'static str) -> Bad {
    Bad { text, says, help }
}

const LAN: &str = "[[interface]]\nname = \"lan\"\ndevice = \"tap:lan0\"\naddress = [\"192.0.2.1/24\", \"2001:db8::1/64\"]\n";

/// Files that are wrong on their own.
const WHOLE: &[Bad] = &[
    bad("", "1:1: there is no interface", "add a section [[interface]]"),
    bad("cpus = [0\n", "1:10: unclosed array, expected `]`", ""),
    bad(
        "[[interface]]\nname = \"x\"\ndevice = \"pcap:a\"\npunt = true\n",
        "4:8: a capture file has no twin",
        "leave `punt` out",
    ),
    bad(
        "[[interface]]\nname = \"x\"\ndevice = \"af_xdp:eth0,share\"\npunt = true\n",
        "4:8: an interface that is shared with the kernel has no twin",
        "leave out `punt`, or `,share`",
    ),
    bad(
        "[[interface]]\ndevice = \"tap:a\"\npunt = true\n",
        "3:8: a twin is named like its interface, which has no name",
        "punt = \"NAME\"",
    ),
    bad(
        "[[interface]]\nname = \"x\"\ndevice = \"tap:a\"\npunt = true\n[[interface]]\ndevice = \"bridge:x\"\n",
        "4:8: a port of a bridge has no twin",
        "give one to the bridge",
    ),
    bad(
        "[[interface]]\ndevice = \"tap:a\"\nxdp = \"/nonexistent/prog.o\"\n",
        "3:7: /nonexistent/prog.o: No such file or directory",
        "write the object file, and behind a colon which of several programs",
    ),
    bad(
        "[[interface]]\ndevice = \"tap:a\"\nxdp = \":drop\"\n",
        "3:7: `:drop` names no XDP program",
        "write the object file",
    ),
    bad(
        "[[interface]]\ndevice = \"tap:a\"\nxdp = \"../dev/tests/xdp/two.c\"\n",
        "3:7: ../dev/tests/xdp/two.c: not an ELF file",
        "write the object file",
    ),
    bad(
        "[[interface]]\ndevice = \"tap:a\"\nxdp = \"../dev/tests/xdp/two.o\"\n",
        "3:7: ../dev/tests/xdp/two.o: several XDP programs in it; write which one behind a colon, as in `prog.o:pass`",
        "write the object file",
    ),
    bad(
        "[[interface]]\ndevice = \"tap:a\"\nxdp = \"../dev/tests/xdp/devmap.o\"\n",
        "3:7: ../dev/tests/xdp/devmap.o: map `pantala_test_out`: a devmap has interfaces of the kernel",
        "docs/guide/XDP-PROGRAMS.md",
    ),
    bad(
        "[[interface]]\ndevice = \"tun:a\"\nxdp = \"../dev/tests/xdp/two.o:drop\"\n",
        "3:7: XDP programs see Ethernet frames, and a TUN has none",
        "use a TAP",
    ),
    bad("fibs = 17\n[[interface]]\ndevice = \"tap:a\"\n", "1:8: fibs 17 is too large", "use 1 to 16"),
    bad(
        "[[interface]]\ndevice = \"tap:a\"\nfib = 1\n",
        "3:7: there is no routing table 1: the last one is 0",
        "say fibs = 2",
    ),
    bad(
        "fibs = 2\n[[interface]]\ndevice = \"tap:a\"\n[[route]]\nto = \"10.0.0.0/8\"\nreject = true\nfib = 2\n",
        "7:7: there is no routing table 2: the last one is 1",
        "say fibs = 3",
    ),
    bad(
        "[[interface]]\ndevice = \"tap:a\"\n[routes.fpm]\ntables = \"100 1\"\n",
        "1:1: [routes]: there is no routing table 1 for table 100",
        "say fibs = 2",
    ),
    bad(
        "[[interface]]\ndevice = \"tap:a\"\n[routes.kernel]\ntables = \"100\"\n",
        "4:10: `100` is not the numbers of two routing tables",
        "100 1",
    ),
    bad("forwarding = yes\n", "1:14: string values must be quoted, expected literal string", ""),
    bad(
        "[interface]\ndevice = \"tap:a\"\n",
        "1:1: `interface` must be written with two brackets, [[interface]]",
        "section of its own",
    ),
    bad(
        "[[interfaces]]\ndevice = \"tap:a\"\n[[interface]]\ndevice = \"tap:b\"\n",
        "1:3: unknown key `interfaces` at the top of the file",
        "did you mean `interface`?",
    ),
    bad(
        "[[serve]]\nport = 80\n[[interface]]\ndevice = \"tap:a\"\n",
        "1:1: nothing is served here",
        "add a line like dir = \"/srv/www\"",
    ),
    bad("[[serve]]\ndir = 7\n[[interface]]\ndevice = \"tap:a\"\n", "2:7: `dir` cannot be this number", ""),
    bad(
        "[[serve]]\ndir = \"/srv\"\nport = 65536\n[[interface]]\ndevice = \"tap:a\"\n",
        "3:8: port 65536 is too large",
        "use 1 to 65535",
    ),
    bad(
        "[[serve]]\ndir = \"/srv\"\naddress = \"192.0.2.1/24\"\n[[interface]]\ndevice = \"tap:a\"\n",
        "3:11: `192.0.2.1/24` is not an IP address",
        "use an address of an interface like 192.0.2.1",
    ),
    bad(
        "[[serve]]\ndir = \"/srv\"\nfolder = \"/srv\"\n[[interface]]\ndevice = \"tap:a\"\n",
        "3:1: unknown key `folder` in [[serve]]",
        "known are",
    ),
    bad(
        "[[serve]]\ndir = \"/srv\"\nclient_memory_mib = 300\n[[interface]]\ndevice = \"tap:a\"\n",
        "3:21: one client may hold more than all together",
        "set memory_mib to at least as much",
    ),
    bad(
        "[[serve]]\ndir = \"/srv\"\nstall_s = 0\n[[interface]]\ndevice = \"tap:a\"\n",
        "3:11: stall_s 0 is too small",
        "use 1 to 86400",
    ),
    bad(
        "[[serve]]\ndir = \"/a\"\n[[serve]]\ndir = \"/b\"\n[[interface]]\ndevice = \"tap:a\"\n",
        "3:1: [::]:80 is served to already",
        "give it another address or port",
    ),
    bad(
        "[serve]\ndir = \"/a\"\n[[interface]]\ndevice = \"tap:a\"\n",
        "1:1: `serve` must be written with two brackets, [[serve]]",
        "section of its own",
    ),
    bad(
        "cpus = [0]\nthreads = 2\n[[interface]]\ndevice = \"tap:a\"\n",
        "2:11: `cpus` and `threads` both say how many netisrs there are",
        "keep `cpus` for threads that stay",
    ),
    bad(
        "[sysctl]\nnet.inet.tcp.delaktime = 20\n[[interface]]\ndevice = \"tap:a\"\n",
        "2:14: unknown variable `net.inet.tcp.delaktime`",
        "did you mean `net.inet.tcp.delacktime`?",
    ),
    bad(
        "[sysctl]\n\"net.inet.tcp.delacktime\" = 500\n[[interface]]\ndevice = \"tap:a\"\n",
        "2:29: net.inet.tcp.delacktime cannot be 500",
        "it is a number from 1 to 499",
    ),
    bad(
        "[sysctl]\nnet.inet.tcp.blackhole = true\n[[interface]]\ndevice = \"tap:a\"\n",
        "2:26: net.inet.tcp.blackhole cannot be 1",
        "it is always 0 here",
    ),
    bad("[[interface]]\nname = \"lan\"\n", "1:1: this interface has no device", "device = \"tap:lan0\""),
    bad("[[interface]]\ndevice = \"eth0\"\n", "2:10: `eth0` names no driver", "af_xdp:NAME"),
    bad(
        "[[interface]]\ndevice = \"memif:/run/memif.sock,role=boss\"\n",
        "2:10: unknown memif role `boss`",
        "master",
    ),
    bad(
        "[[interface]]\ndevice = \"tap:a\"\nadress = \"192.0.2.1/24\"\n",
        "3:1: unknown key `adress` in [[interface]]",
        "did you mean `address`?",
    ),
    bad(
        "[[interface]]\ndevice = \"tap:a\"\naddress = \"192.0.2.1\"\n",
        "3:11: `192.0.2.1` has no prefix length",
        "192.0.2.1/24",
    ),
    bad(
        "[[interface]]\ndevice = \"tap:a\"\naddress = [\"192.0.2.1/33\"]\n",
        "3:12: bad address `192.0.2.1/33`",
        "2001:db8::1/64",
    ),
    bad(
        "[[interface]]\ndevice = \"tap:a\"\naddress = 5\n",
        "3:11: `address` cannot be this number",
        "a string in quotes or a list",
    ),
    bad(
        "[[interface]]\ndevice = \"tap:a\"\naddress = \"192.0.2.0/24\"\n",
        "3:11: 192.0.2.0 is the network itself in a /24",
        "192.0.2.1/24",
    ),
    bad(
        "[[interface]]\ndevice = \"tap:a\"\naddress = \"192.0.2.255/24\"\n",
        "3:11: 192.0.2.255 is the broadcast address in a /24",
        "192.0.2.1/24",
    ),
    bad(
        "[[interface]]\ndevice = \"tap:a\"\naddress = \"2001:db8::/64\"\n",
        "3:11: 2001:db8:: is the anycast address of all routers in a /64",
        "2001:db8::1/64",
    ),
    bad(
        "[[interface]]\ndevice = \"tap:a\"\naddress = \"224.0.0.1/24\"\n",
        "3:11: 224.0.0.1 is a multicast address and cannot be given to an interface",
        "unicast",
    ),
    bad(
        "[[interface]]\ndevice = \"tap:a\"\naddress = \"::1/128\"\n",
        "3:11: ::1 is a loopback address and cannot be given to an interface",
        "unicast",
    ),
    bad("[[interface]]\ndevice = \"tap:a\"\nmtu = 67\n", "3:7: mtu 67 is too small", "use 68 to 65535"),
    bad("[[interface]]\ndevice = \"tap:a\"\nmtu = 65536\n", "3:7: mtu 65536 is too large", "use 68 to 65535"),
    bad(
        "[[interface]]\ndevice = \"tap:a\"\nmtu = 1500.0\n",
        "3:7: `mtu` cannot be a fraction",
        "a whole number",
    ),
    bad(
        "[[interface]]\ndevice = \"tap:a\"\naddress = \"2001:db8::1/64\"\nmtu = 1279\n",
        "4:7: mtu 1279 is too small for IPv6",
        "1280",
    ),
    bad("[[interface]]\ndevice = \"tap:a\"\nrings = 0\n", "3:9: rings 0 is too small", "use 1 to 256"),
    bad(
        "[[interface]]\ndevice = \"af_xdp:a,queues=0-3\"\nrings = 2\n",
        "3:9: rings 2 contradicts the 4 queues of the device",
        "leave out one",
    ),
    bad("[[interface]]\ndevice = \"pcap:a\"\nrings = 2\n", "3:9: a capture file has one ring", "leave out"),
    bad(
        "[[interface]]\ndevice = \"tap:a\"\nname = \"0lan\"\n",
        "3:8: `0lan` cannot be the name of an interface",
        "a letter",
    ),
    bad(
        "[[interface]]\ndevice = \"tap:a\"\nname = \"lo0\"\n",
        "3:8: lo0 is the name of a loopback interface",
        "another name",
    ),
    bad(
        "[[interface]]\ndevice = \"lo\"\nmac = \"02:00:00:00:00:01\"\n",
        "3:7: a loopback interface has no link address",
        "leave `mac` out",
    ),
    bad(
        "[[interface]]\ndevice = \"lo\"\nrings = 2\n",
        "3:9: a loopback interface has no rings",
        "no packet leaves by it",
    ),
    bad(
        "[[interface]]\ndevice = \"lo\"\nautoconf = true\n",
        "2:10: a loopback interface has no link where routers or DHCP servers are asked",
        "give it addresses",
    ),
    bad(
        "[[interface]]\ndevice = \"lo\"\nname = \"lo1\"\n[[interface]]\ndevice = \"bridge:lo1\"\n",
        "5:10: `lo1` is a loopback interface, which has no frames",
        "leave it out",
    ),
    bad(
        "[[interface]]\ndevice = \"lo\"\nname = \"lo1\"\npunt = true\n",
        "4:8: an interface without link addresses has no twin",
        "leave `punt` out",
    ),
    bad(
        "[[interface]]\ndevice = \"tap:a\"\nmac = \"02:00:00:00:00\"\n",
        "3:7: bad mac `02:00:00:00:00`",
        "six pairs of hexadecimal digits",
    ),
    bad(
        "[[interface]]\ndevice = \"tap:a\"\nmac = \"01:00:5e:00:00:01\"\n",
        "3:7: 01:00:5e:00:00:01 cannot be the address of one interface",
        "must be even",
    ),
    bad(
        "[[interface]]\ndevice = \"tap:a\"\nrxcsum = \"verfy\"\n",
        "3:10: unknown rxcsum `verfy`",
        "did you mean `verify`?",
    ),
    bad(
        "[[interface]]\ndevice = \"tap:a\"\nqueue = \"fq-codel\"\n",
        "3:9: unknown queue `fq-codel`",
        "did you mean `fq_codel`?",
    ),
    bad(
        "[[interface]]\ndevice = \"tap:a\"\nqueue = \"fifo\"\nqueue_target_ms = 5\n",
        "4:19: a fifo does not look at how long packets wait",
        "leave this out, or use queue = \"fq_codel\"",
    ),
    bad(
        "[[interface]]\ndevice = \"tap:a\"\nqueue_target_ms = 100\n",
        "3:19: the target of 100 ms is not below the interval of 100 ms",
        "a twentieth of the interval is usual",
    ),
    bad(
        "[[interface]]\ndevice = \"tap:a\"\nqueue_packets = 0\n",
        "3:17: queue_packets 0 is too small",
        "use 1 to 1000000",
    ),
    bad(
        "[[interface]]\ndevice = \"tap:a\"\n[[interface]]\ndevice = \"tap:a\"\n",
        "4:10: this device is already used in line 2",
        "one device carries one interface",
    ),
];

/// Mistakes added to a file with one good interface, four lines long.
const ADDED: &[Bad] = &[
    bad("[interface.dhcp_server]\ndns_from = \"wan\"\n", "5:12: there is no interface `wan`", "dns_from"),
    bad(
        "[interface.dhcp_server]\ndns_from = \"lan\"\n",
        "5:12: interface `lan` has neither a DHCP client nor PPPoE",
        "add dhcp = true to it",
    ),
    bad(
        "punt = \"a b\"\n",
        "5:8: `a b` cannot be the name of a host interface",
        "Linux allows 1 to 15 bytes",
    ),
    bad("punt = \"lan0\"\n", "5:8: the kernel has another interface `lan0`", "a name that is free"),
    bad("name = \"lan2\"\n", "5:1: duplicate key", ""),
    bad(
        "[[interface]]\nname = \"lan\"\ndevice = \"tap:b\"\n",
        "6:8: the name `lan` is taken by the interface in line 2",
        "a name of its own",
    ),
    bad(
        "[[interface]]\ndevice = \"tap:b\"\naddress = \"192.0.2.1/32\"\n",
        "7:11: this address is already given in line 4",
        "one interface",
    ),
    bad(
        "[[interface]]\ndevice = \"tap:b\"\naddress = \"192.0.2.130/25\"\n",
        "7:11: this prefix overlaps 192.0.2.0/24 of another interface in line 4",
        "two prefixes",
    ),
    bad(
        "[[interface]]\ndevice = \"tap:b\"\naddress = \"2001:db8::5/48\"\n",
        "7:11: this prefix overlaps 2001:db8::/64 of another interface in line 4",
        "two prefixes",
    ),
    bad("[[route]]\nvia = \"192.0.2.254\"\n", "5:1: this route leads nowhere", "\"default\""),
    bad(
        "[[route]]\nto = \"default\"\n",
        "5:1: this route does not say what to do with its packets",
        "reject = true",
    ),
    bad(
        "[[route]]\nto = \"198.51.100.7/24\"\nvia = \"192.0.2.254\"\n",
        "6:6: 198.51.100.7/24 has bits set beyond its prefix length",
        "the network is 198.51.100.0/24, the single host 198.51.100.7/32",
    ),
    bad(
        "[[route]]\nto = \"defualt\"\nvia = \"192.0.2.254\"\n",
        "6:6: bad destination `defualt`",
        "\"default\"",
    ),
    bad(
        "[[route]]\nto = \"default\"\nvia = \"203.0.113.1\"\n",
        "7:7: the gateway 203.0.113.1 is not on the link of any interface",
        "on-link are 192.0.2.0/24 (lan)",
    ),
    bad(
        "[[route]]\nto = \"default\"\nvia = \"fe80::1\"\n",
        "7:7: the link-local gateway fe80::1 needs its interface",
        "dev =",
    ),
    bad(
        "[[route]]\nto = \"default\"\nvia = \"192.0.2.1\"\n",
        "7:7: 192.0.2.1 is an address of this host",
        "neighbouring router",
    ),
    bad(
        "[[route]]\nto = \"default\"\nvia = [\"192.0.2.2\", \"192.0.2.2\"]\n",
        "7:21: the gateway 192.0.2.2 is named twice",
        "once",
    ),
    bad(
        "[[route]]\nto = \"::/0\"\nvia = \"192.0.2.254\"\n",
        "7:7: the gateway 192.0.2.254 is not of the family of ::/0",
        "one for IPv6",
    ),
    bad(
        "[[route]]\nto = \"default\"\nvia = [\"192.0.2.2\", \"2001:db8::2\"]\n",
        "7:21: the gateway 2001:db8::2 is not of the family of 0.0.0.0/0",
        "one for IPv6",
    ),
    bad(
        "[[route]]\nto = \"default\"\nvia = \"192.0.2.254\"\nreject = true\n",
        "5:1: this route says several things at once",
        "keep one",
    ),
    bad(
        "[[route]]\nto = \"10.0.0.0/8\"\nreject = true\nblackhole = true\n",
        "5:1: this route says several things at once",
        "keep one",
    ),
    bad(
        "[[route]]\nto = \"10.0.0.0/8\"\ndev = \"lam\"\n",
        "7:7: there is no interface `lam`",
        "did you mean `lan`?",
    ),
    bad(
        "[[route]]\nto = \"default\"\nreject = true\n",
        "6:6: `default` could mean IPv4 or IPv6 here",
        "\"::/0\"",
    ),
    bad(
        "[[route]]\nto = \"10.0.0.0/8\"\nreject = true\n[[route]]\nto = \"10.0.0.0/8\"\nblackhole = true\n",
        "9:6: the route to 10.0.0.0/8 is already given in line 5",
        "several gateways",
    ),
    bad("[[firewall]]\nrules = \"f\"\n", "5:3: `firewall` must be a section, [firewall]", "keys of its own"),
    bad(
        "[firewall]\nrule = \"firewall.ipfw\"\n",
        "6:1: unknown key `rule` in [firewall]",
        "did you mean `rules`?",
    ),
    bad(
        "[firewall]\nrules = \"nowhere.ipfw\"\n",
        "6:9: cannot read nowhere.ipfw: No such file",
        "relative to the configuration's folder",
    ),
    bad(
        "[firewall]\nrules = \"a\"\nrules_text = \"add allow ip from any to any\"\n",
        "6:9: `rules` and `rules_text` are two sets of rules",
        "keep one of them",
    ),
    bad(
        "[firewall]\ndefault = \"reject\"\n",
        "6:11: `reject` is not what can become of packets",
        "allow, deny",
    ),
    bad("[firewall]\ndyn_fin_lifetime = 5\n", "6:20: dyn_fin_lifetime must be less than 5 s", "in seconds"),
    bad("[firewall]\ndyn_keepalive = 1\n", "6:17: `dyn_keepalive` cannot be this number", "true or false"),
    bad(
        "[firewall]\nstate_mx = 5\n",
        "6:1: unknown key `state_mx` in [firewall]",
        "did you mean `state_max`?",
    ),
    bad(
        "[firewall]\nrules_text = \"\"\"\n# mine\nadd 100 alow ip from any to any\n\"\"\"\n",
        "8:9: ",
        "did you mean `allow`?",
    ),
    bad("[firewall]\nrules_text = \"add alow ip from any to any\"\n", "6:19: ", "did you mean `allow`?"),
    bad(
        "[firewall]\nrules_text = \"\"\"\nadd 100 allow ip from any to any\ndelete 200\n\"\"\"\n",
        "8:1: there is no rule 200",
        "",
    ),
    bad(
        "[firewall]\nrules_text = \"list\"\n",
        "6:15: this shows something, and changes nothing",
        "command of its own",
    ),
];

/// Mistakes before the good interface.
const BEFORE: &[Bad] = &[
    bad("cpus = [9]\n", "1:9: CPU 9 is not available", "this process may use 0, 1"),
    bad("cpus = [1, 1]\n", "1:12: CPU 1 is named twice", "one netisr"),
    bad("cpus = [-1]\n", "1:9: `cpus` cannot be this number", "[0, 1]"),
    bad("cpus = []\n", "1:1: `cpus` is empty", "leave it out"),
    bad("polling = \"allways\"\n", "1:11: unknown polling `allways`", "did you mean `always`?"),
    bad("forwarding = 1\n", "1:14: `forwarding` cannot be this number", "true or false"),
    bad("flow_cache = 5000000\n", "1:14: flow_cache 5000000 is too large", "use 0 to"),
    bad("buffers = 10\n", "1:11: buffers 10 is too small", "use 256 to"),
    bad("socket = \"\"\n", "1:10: this cannot be the path of a socket", "control.sock"),
    bad(
        "pooling = \"never\"\n",
        "1:1: unknown key `pooling` at the top of the file",
        "did you mean `polling`?",
    ),
];

fn machine() -> Machine {
    Machine { cpus: vec![0, 1] }
}

fn cases() -> Vec<(String, &'static Bad)> {
    let whole = WHOLE.iter().map(|bad| (bad.text.to_owned(), bad));
    let added = ADDED.iter().map(|bad| (format!("{LAN}{}", bad.text), bad));
    let before = BEFORE.iter().map(|bad| (format!("{}{LAN}", bad.text), bad));
    whole.chain(added).chain(before).collect()
}

fn every_mistake_gets_one_message_with_its_place_and_the_remedy() {
    let mut failures = String::new();
    for (text, bad) in cases() {
        let said = match Config::parse("p.toml", &text, &machine()) {
            Ok(config) => format!("no complaint: {config:?}"),
            Err(problems) if problems.list.len() == 1 => problems.to_string(),
            Err(problems) => format!("{} problems:\n{problems}", problems.list.len()),
        };
        if !said.starts_with(&format!("p.toml:{}", bad.says))
            || !said.contains(bad.help)
            || !said.contains('^') && !text.is_empty()
        {
            failures += &format!("--- wanted {} / {}\n{said}\n", bad.says, bad.help);
        }
    }
    assert!(failures.is_empty(), "\n{failures}");
}

fn the_good_interface_of_these_cases_is_good() {
    assert!(Config::parse("p.toml", LAN, &machine()).is_ok());
}

fn all_mistakes_of_a_file_are_reported_together_in_its_order() {
    let text = "cpus = [7]\npolling = 3\n[[interface]]\ndevice = \"tpa:x\"\nmtu = 1\n[[route]]\nto = \"x\"\n";
    let problems = Config::parse("p.toml", text, &machine()).unwrap_err();
    let places: Vec<_> = problems.list.iter().map(|p| (p.line, p.column)).collect();
    assert_eq!(places, [(1, 9), (2, 11), (4, 10), (5, 7), (6, 1), (7, 6)]);
}

fn a_doubtful_interface_does_not_make_its_gateways_wrong() {
    let text = "[[interface]]\ndevice = \"tap:x\"\naddress = \"192.0.2.1\"\n[[route]]\nto = \"default\"\nvia = \"192.0.2.254\"\n";
    assert_eq!(Config::parse("p.toml", text, &machine()).unwrap_err().list.len(), 1);
}

fn nothing_that_is_written_makes_it_panic() {
    for (text, _) in cases() {
        for end in (0..text.len()).filter(|&end| text.is_char_boundary(end)) {
            let _ =
                Config::parse("p.toml", &text[..end], &machine()).map_err(|problems| problems.to_string());
        }
    }
}

harness::tests![
    every_mistake_gets_one_message_with_its_place_and_the_remedy,
    the_good_interface_of_these_cases_is_good,
    all_mistakes_of_a_file_are_reported_together_in_its_order,
    a_doubtful_interface_does_not_make_its_gateways_wrong,
    nothing_that_is_written_makes_it_panic
];
