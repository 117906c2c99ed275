//! Good configurations and their values. Bad ones are in `tests/integration/bad_configuration.rs`.

use super::*;

fn machine() -> Machine {
    Machine { cpus: vec![0, 1, 2] }
}

fn parse(text: &str) -> Config {
    Config::parse("pantala.toml", text, &machine()).unwrap_or_else(|problems| panic!("{problems}"))
}

const FULL: &str = r#"
cpus = [0, 1]
polling = "always"
forwarding = true
buffers = 8192
socket = "/tmp/p.sock"

[[interface]]
name = "lan"
device = "af_xdp:eth0,mode=native,queues=2"
address = ["192.0.2.1/24", "2001:db8::1/64"]
mtu = 1500
mac = "02:00:00:00:00:01"
rings = 2
rxcsum = "verify"
monitor = true
queue = "fifo"
queue_packets = 100

[[interface]]
device = "tap:wan0"
address = "198.51.100.1/31"

[[route]]
to = "default"
via = ["192.0.2.254", "192.0.2.253"]

[[route]]
to = "default"
via = "fe80::1"
dev = "tap0"

[[route]]
to = "203.0.113.0/24"
dev = "lan"

[[route]]
to = "2001:db8:dead::/48"
reject = true

[[route]]
to = "10.0.0.0/8"
blackhole = true
"#;

#[test]
fn flows_are_remembered_where_there_is_a_firewall_unless_the_file_says_otherwise() {
    let interface = "[[interface]]\ndevice = \"tap:pt-a\"\n";
    let flows = |text: &str| {
        let text = format!("{text}{interface}");
        Config::parse("t", &text, &Machine { cpus: vec![0] }).unwrap().flow_cache
    };
    let firewall = "[firewall]\nrules_text = 'add allow ip from any to any'\n";
    assert_eq!((flows(""), flows(firewall)), (0, 65_536));
    assert_eq!(flows(&format!("flow_cache = 0\n{firewall}")), 0);
    assert_eq!(flows(&format!("flow_cache = 64\n{firewall}")), 64);
}

#[test]
fn every_key_arrives_in_the_configuration() {
    let config = parse(FULL);
    assert_eq!(
        (config.cpus.as_slice(), config.polling.policy, config.forwarding),
        (&[0, 1][..], Policy::Always, true)
    );
    assert_eq!((config.buffers, config.socket), (Some(8192), Some("/tmp/p.sock".into())));
    let lan = Interface {
        name: "lan".into(),
        device: Device::AfXdp {
            host: "eth0".into(),
            mode: XdpMode::Native,
            queues: Some(0..=1),
            share: false,
        },
        addresses: vec!["192.0.2.1/24".parse().unwrap(), "2001:db8::1/64".parse().unwrap()],
        mtu: Some(1500),
        mac: Some(Mac([2, 0, 0, 0, 0, 1])),
        rings: Some(2),
        rxcsum: RxCsum::Verify,
        offload: false,
        xdp: None,
        monitor: true,
        queue: net::ifq::QueueSpec { packets_max: 100, ..net::ifq::QueueSpec::FIFO },
        autoconf: None,
        vlanpcp: 0,
        metric: 0,
        fib: 0,
        description: None,
        fdb: Fdb::default(),
        bridge: BridgeKeys::default(),
        is_port: false,
        ra: None,
        kernel_ports: vec![],
        dhcp_server: None,
        dhcp: None,
        dhcp_relay: None,
        dhcp6_relay: Vec::new(),
        dhcp6: None,
        ppp: None,
        session: None,
        punt: None,
        twin_of: None,
        dhcp6_server: None,
        prefix_from: None,
        leased: Vec::new(),
        resolver: Resolver::default(),
        publish: Publish::default(),
    };
    assert_eq!(config.interfaces[0], lan);
}

#[test]
fn autoconf_is_true_or_says_how() {
    let autoconf = |text: &str| {
        let text = format!("[[interface]]\ndevice = \"tap:a\"\n{text}");
        parse(&text).interfaces[0].autoconf
    };
    let usual = Autoconf::default();
    assert_eq!(
        (autoconf(""), autoconf("autoconf = false"), autoconf("autoconf = true")),
        (None, None, Some(usual))
    );
    assert_eq!(autoconf("autoconf = {}"), Some(usual));
    let all =
        "autoconf = { identifiers = \"eui64\", temporary = true, dad_transmits = 2, dad_nonce = false }";
    let settings =
        Autoconf { identifiers: Identifiers::Eui64, temporary: true, dad_transmits: 2, dad_nonce: false };
    assert_eq!(autoconf(all), Some(settings));
}

#[test]
fn an_interface_without_a_name_gets_driver_and_unit() {
    let text = "[[interface]]\ndevice = \"tap:a\"\n[[interface]]\nname = \"tap0\"\ndevice = \"tap:b\"\n[[interface]]\ndevice = \"pcap:x\"";
    let names: Vec<_> = parse(text).interfaces.into_iter().map(|interface| interface.name).collect();
    assert_eq!(names, ["tap1", "tap0", "pcap0"]);
}

#[test]
fn a_vxlan_begins_at_an_address_and_has_learnt_and_static_addresses() {
    let read = |more: &str| {
        let lan = "[[interface]]\ndevice = \"tap:a\"\naddress = [\"192.0.2.1/24\", \"2001:db8::1/64\"]\n";
        let vxlan =
            "[[interface]]\nname = \"far\"\ndevice = \"vxlan:42,192.0.2.1\"\naddress = \"10.9.0.1/24\"\n";
        Config::parse("t", &format!("{lan}{vxlan}{more}"), &machine())
    };
    let more =
        "timeout = 60\nmaxaddr = 5\nmac = \"02:00:00:00:00:01\"\nfdb = [\"02:00:00:00:00:07 198.51.100.1\"]";
    let config = read(more).unwrap();
    let fdb = &config.interfaces[1].fdb;
    assert_eq!((fdb.timeout_s, fdb.addresses_max, fdb.statics.len()), (60, 5, 1));
    assert_eq!(fdb.statics[0].to_string(), "02:00:00:00:00:07 198.51.100.1");
    let plain = read("").unwrap();
    assert_eq!((plain.interfaces[1].fdb.timeout_s, plain.interfaces[1].fdb.addresses_max), (1200, 2000));
    for (more, message, help) in [
        ("rings = 2", "a VXLAN has no rings of its own", "where the outer packets leave"),
        ("maxaddr = 0", "maxaddr 0 is too small", "1 to 65536"),
        ("fdb = [\"02:00:00:00:00:07\"]", "behind which remote end or port", "MAC REMOTE"),
        ("fdb = [\"03:00:00:00:00:07 198.51.100.1\"]", "is a group", "MAC REMOTE"),
        ("fdb = [\"02:00:00:00:00:07 2001:db8::7\"]", "another address family", "or all IPv6"),
        (
            "[[interface]]\ndevice = \"vxlan:42,192.0.2.1\"",
            "network identifier 42 is taken",
            "one address and port",
        ),
        (
            "[[interface]]\ndevice = \"vxlan:43,192.0.2.9\"",
            "no interface has the address 192.0.2.9",
            "VNI,LOCAL",
        ),
        ("[[interface]]\ndevice = \"tap:b\"\ntimeout = 7", "which this device has not", "vxlan:VNI,LOCAL"),
    ] {
        let wrong = read(more).unwrap_err();
        let is_meant = |one: &Problem| one.message.contains(message) && one.help.contains(help);
        assert!(wrong.list.iter().any(is_meant), "{more}: {wrong}");
    }
    read("[[interface]]\ndevice = \"vlan:far,7\"").unwrap();
}

#[test]
fn a_bridge_has_ports_without_addresses() {
    let read = |keys: &str, more: &str| {
        let port = |name: &str| format!("[[interface]]\nname = \"{name}\"\ndevice = \"tap:{name}\"\n");
        let bridge =
            "[[interface]]\nname = \"bridge0\"\ndevice = \"bridge:lan1,lan2\"\naddress = \"10.9.0.1/24\"\n";
        let text = format!("{}{}{bridge}{keys}\n{more}", port("lan1"), port("lan2"));
        Config::parse("t", &text, &machine())
    };
    let keys = "timeout = 60\nmaxaddr = 5\nprivate = [\"lan1\"]\nspan = [\"lan2\"]\nstorm = 9\nfdb = [\"02:00:00:00:00:07 lan1\"]";
    let config = read(keys, "").unwrap();
    let bridge = &config.interfaces[2];
    assert_eq!(bridge.fdb.statics[0].to_string(), "02:00:00:00:00:07 lan1");
    assert_eq!((bridge.bridge.private.len(), bridge.bridge.span.len(), bridge.bridge.storm), (1, 1, 9));
    assert_eq!(config.interfaces.iter().map(|one| one.is_port).collect::<Vec<_>>(), [true, true, false]);
    let keys = "stp = true\nstp_priority = 4096\nhellotime = 1\nmaxage = 6\nfwddelay = 4\nholdcnt = 3\nsnooping = true\n\
                stp_port = [\"lan2 cost 7 priority 16 edge -autoedge -ptp\"]";
    let config = read(keys, "").unwrap();
    let bridge = &config.interfaces[2].bridge;
    let stp = bridge.stp.clone().unwrap();
    let times =
        net::stp::Settings { hello: 1, max_age: 6, forward_delay: 4, ..net::stp::Settings::default() };
    assert_eq!(stp.settings, net::stp::Settings { priority: 4096, hold_count: 3, ..times });
    let port = net::stp::PortSettings {
        priority: 16,
        cost: 7,
        is_edge: true,
        may_be_edge: false,
        is_point_to_point: false,
    };
    assert_eq!((stp.port("lan2"), stp.port("lan1")), (port, net::stp::PortSettings::default()));
    assert!(bridge.snooping);
    assert!(read("stp = \"stp\"", "").unwrap().interfaces[2].bridge.stp.as_ref().unwrap().settings.is_stp);
    assert_eq!(read("stp = false", "").unwrap().interfaces[2].bridge.stp, None);
    let many: Vec<_> = (0..=net::bridge::PORTS_MAX).map(|n| format!("lan{n}")).collect();
    let many = format!("[[interface]]\ndevice = \"bridge:{}\"", many.join(","));
    let wrong = read("", &many).unwrap_err();
    assert!(wrong.list.iter().any(|one| one.message == "33 ports are too many"), "{wrong}");
    for (keys, more, message, help) in [
        ("rings = 2", "", "a bridge has no rings of its own", "at its ports"),
        ("private = [\"lan3\"]", "", "`lan3` is no port of this bridge", "bridge:"),
        ("fdb = [\"02:00:00:00:00:07 lan3\"]", "", "`lan3` is no port", "MAC PORT"),
        ("fdb = [\"02:00:00:00:00:07 10.0.0.1\"]", "", "is no port", "MAC PORT"),
        ("", "[[interface]]\ndevice = \"bridge:lan1\"", "is a port of the bridge in line", "one bridge"),
        ("", "[[interface]]\ndevice = \"bridge:lan9\"", "there is no interface `lan9`", "lan"),
        ("", "[[interface]]\ndevice = \"bridge:bridge0\"", "is a bridge itself", "its ports"),
        ("", "[[interface]]\ndevice = \"tap:c\"\nstorm = 7", "`storm` is of a bridge", "bridge:"),
        ("", "[[interface]]\ndevice = \"tap:c\"\nstp = true", "`stp` is of a bridge", "bridge:"),
        ("", "[[interface]]\ndevice = \"tap:c\"\nsnooping = true", "`snooping` is of a bridge", "bridge:"),
        ("stp = \"mstp\"", "", "no spanning tree protocol", "rstp"),
        ("stp_priority = 4000", "", "no multiple of 4096", "4096"),
        ("stp = true\nmaxage = 40", "", "do not fit each other", "17.14"),
        ("stp_port = [\"lan3 cost 5\"]", "", "`lan3` is no port of this bridge", "bridge:"),
        ("stp_port = [\"lan1 cost\"]", "", "`cost` needs a number", "cost N"),
        ("stp_port = [\"lan1 priority 17\"]", "", "multiple of 16", "cost N"),
        ("stp_port = [\"lan1 fast\"]", "", "`fast` says nothing of a port", "edge"),
        (
            "",
            "[[interface]]\nname = \"c\"\ndevice = \"tap:c\"\naddress = \"10.7.0.1/24\"\n\
             [[interface]]\ndevice = \"bridge:c\"",
            "no addresses of its own",
            "give the address to the bridge",
        ),
    ] {
        let wrong = read(keys, more).unwrap_err();
        let is_meant = |one: &Problem| one.message.contains(message) && one.help.contains(help);
        assert!(wrong.list.iter().any(is_meant), "{keys}{more}: {wrong}");
    }
}

#[test]
fn a_tunnel_begins_at_an_address_and_has_no_frames() {
    let read = |text: &str| {
        let lan = "[[interface]]\nname = \"lan\"\ndevice = \"tap:lan0\"\n";
        let addrs = "address = [\"192.0.2.1/24\", \"2001:db8::1/64\"]\n";
        Config::parse("t", &format!("{lan}{addrs}[[interface]]\nname = \"far\"\n{text}"), &machine())
    };
    for device in ["gif:192.0.2.1,198.51.100.1", "gif:2001:db8::1,2001:db8:9::1"] {
        let config = read(&format!("device = \"{device}\"\n")).unwrap();
        assert_eq!(config.interfaces[1].device.to_string(), device);
        for (text, message, help) in [
            ("mac = \"02:00:00:00:00:01\"", "a tunnel has no mac of its own", "leave it out here"),
            ("rings = 2", "a tunnel has no rings of its own", "leave it out here"),
            ("queue = \"fifo\"", "a tunnel has no queue of its own", "where the outer packets leave"),
            ("autoconf = true", "a tunnel has no link where routers advertise", "give it addresses"),
            ("[interface.ra]", "a tunnel has no link where routers advertise", "give it addresses"),
            ("[[interface]]\ndevice = \"vlan:far,7\"", "`far` has no frames", "over a device"),
        ] {
            let wrong = read(&format!("device = \"{device}\"\n{text}")).unwrap_err();
            assert!(
                wrong.list.iter().any(|one| one.message.contains(message) && one.help.contains(help)),
                "{text}: {wrong}"
            );
        }
    }
    let wrong = read("device = \"gif:192.0.2.7,198.51.100.1\"").unwrap_err();
    let message = "no interface has the address 192.0.2.7 of this end";
    assert!(wrong.list.iter().any(|one| one.message == message), "{wrong}");
}

#[test]
fn a_tun_has_no_link_address_and_nothing_that_needs_frames() {
    let read = |text: &str| {
        let tun = "[[interface]]\nname = \"far\"\ndevice = \"tun:t0\"\n";
        Config::parse("t", &format!("{tun}{text}"), &machine())
    };
    let config = read("address = [\"192.0.2.1/24\", \"2001:db8::1/64\"]\nrings = 2\nmtu = 1400\n").unwrap();
    assert_eq!((config.interfaces[0].rings, config.interfaces[0].mtu), (Some(2), Some(1400)));
    let link = "a TUN has no link";
    for (text, message, help) in [
        ("autoconf = true", link, "give it addresses"),
        ("[interface.ra]", link, "give it addresses"),
        ("address = \"dhcp\"", link, "give it addresses"),
        ("mac = \"02:00:00:00:00:01\"", "a TUN has no link address", "leave `mac` out"),
        ("[[interface]]\ndevice = \"vlan:far,7\"", "`far` has no frames", "over a device"),
        ("[[interface]]\ndevice = \"bridge:far\"", "`far` is a TUN", "use a TAP"),
        ("[[interface]]\ndevice = \"pppoe:far\"", "`far` has no frames", "name a device"),
        ("[[interface]]\ndevice = \"tap:t0\"", "this device is already used", "one device"),
    ] {
        let wrong = read(text).unwrap_err();
        let is_it = wrong.list.iter().any(|one| one.message.contains(message) && one.help.contains(help));
        assert!(is_it, "{text}: {wrong}");
    }
}

#[test]
fn a_vlan_is_over_an_interface_and_has_what_belongs_to_it_from_there() {
    let read = |text: &str| {
        let lan = "[[interface]]\nname = \"lan\"\ndevice = \"tap:lan0\"\nmtu = 1400\n";
        let vlan = "[[interface]]\nname = \"v10\"\ndevice = \"vlan:lan,10\"\n";
        Config::parse("t", &format!("{lan}{vlan}{text}"), &machine())
    };
    let config = read("vlanpcp = 5\nmtu = 1300\n[[interface]]\ndevice = \"vlan:v10,7\"\n").unwrap();
    assert_eq!((config.interfaces[1].vlanpcp, config.interfaces[1].mtu), (5, Some(1300)));
    assert_eq!(config.interfaces[2].name, "vlan0");
    for (text, message, help) in [
        ("[[interface]]\ndevice = \"vlan:lam,11\"", "there is no interface `lam`", "did you mean `lan`?"),
        ("[[interface]]\ndevice = \"vlan:lan,10\"", "this device is already used in line 7", ""),
        (
            "[[interface]]\nname = \"w\"\ndevice = \"vlan:v10,7\"\n[[interface]]\ndevice = \"vlan:w,8\"",
            "frames have 2 tags at the most",
            "over one VLAN of a device",
        ),
        ("[[interface]]\nname = \"w\"\ndevice = \"vlan:w,7\"", "frames have 2 tags at the most", ""),
        ("mtu = 1500", "mtu 1500 is above the 1400 of the interface below", "use 1400 or less"),
        ("vlanpcp = 8", "vlanpcp 8 is too large", "use 0 to 7"),
        ("mac = \"02:00:00:00:00:01\"", "a VLAN has the mac of the interface below", "set it there"),
        ("rings = 2", "a VLAN has the rings of the interface below", "leave it out here"),
        ("queue = \"fifo\"", "a VLAN has the queue of the interface below", "set it there"),
        ("[[interface]]\ndevice = \"tap:b\"\nvlanpcp = 1", "which this device has not", "vlan:INTERFACE,VID"),
    ] {
        let wrong = read(text).unwrap_err();
        assert!(
            wrong.list.iter().any(|one| one.message.contains(message) && one.help.contains(help)),
            "{text}: {wrong}"
        );
    }
}

#[test]
fn routes_know_the_interface_of_their_gateway() {
    let routes = parse(FULL).routes;
    let hop = |gateway: &str, interface: &str| NextHop {
        gateway: gateway.parse().unwrap(),
        interface: interface.into(),
    };
    assert_eq!(routes[0].to.to_string(), "0.0.0.0/0");
    assert_eq!(
        routes[0].target,
        RouteTarget::Via(vec![hop("192.0.2.254", "lan"), hop("192.0.2.253", "lan")])
    );
    assert_eq!(routes[1].to.to_string(), "::/0");
    assert_eq!(routes[1].target, RouteTarget::Via(vec![hop("fe80::1", "tap0")]));
    assert_eq!(routes[2].target, RouteTarget::Dev("lan".into()));
    assert_eq!(routes[3].target, RouteTarget::Reject);
    assert_eq!(routes[4].target, RouteTarget::Blackhole);
}

#[test]
fn what_is_not_said_has_a_default() {
    let config = parse("[[interface]]\ndevice = \"tap:a\"");
    assert_eq!((config.cpus, config.polling, config.forwarding), (vec![0, 1, 2], Polling::default(), false));
    let interface = &config.interfaces[0];
    assert_eq!((interface.mtu, interface.rings, interface.rxcsum), (None, None, RxCsum::Auto));
}

#[test]
fn a_gateway_belongs_to_the_longest_prefix_around_it() {
    let text = r#"
[[interface]]
name = "a"
device = "tap:a"
address = ["192.0.2.1/25", "198.51.100.1/24"]
[[interface]]
name = "b"
device = "tap:b"
address = ["192.0.2.129/25"]
[[route]]
to = "default"
via = "192.0.2.200"
"#;
    let RouteTarget::Via(hops) = &parse(text).routes[0].target else { panic!() };
    assert_eq!(hops[0].interface, "b");
}

#[test]
fn link_local_addresses_may_repeat_on_other_links() {
    let text = "[[interface]]\ndevice = \"tap:a\"\naddress = \"fe80::1/64\"\n[[interface]]\ndevice = \"tap:b\"\naddress = \"fe80::1/64\"";
    assert_eq!(parse(text).interfaces.len(), 2);
}

#[test]
fn the_machine_offers_at_least_the_cpu_we_run_on() {
    assert!(!Machine::here().cpus.is_empty());
}

#[test]
fn polling_is_a_word_or_a_section() {
    let read = |text: &str| {
        let text = format!("[[interface]]\ndevice = \"tap:pt-x\"\n{text}");
        Config::parse("t", &text, &Machine { cpus: vec![0] }).map(|config| config.polling)
    };
    let all =
        "[polling]\npolicy = \"never\"\neach_burst = 5\nburst_max = 150\nturn_us = 200\nuser_frac = 50\n";
    let polling = read(all).unwrap();
    let expected =
        Polling { policy: Policy::Never, each_burst: 5, burst_max: 150, turn_us: 200, user_frac: 50 };
    assert_eq!(polling, expected);
    assert_eq!(polling.of_turns().turn_max, core::time::Duration::from_micros(100), "half is for others");
    assert_eq!(read("[polling]\nuser_frac = 10\n").unwrap(), Polling { user_frac: 10, ..Polling::default() });
    for wrong in [
        "user_frac = 91",
        "each_burst = 0",
        "each_burst = 65",
        "burst_max = 4097",
        "turn_us = 9",
        "brust_max = 1",
    ] {
        assert!(read(&format!("[polling]\n{wrong}\n")).is_err(), "{wrong}");
    }
}

#[test]
fn as_many_interfaces_as_there_may_be_and_no_more() {
    let text = |count: usize| {
        (0..count).map(|n| format!("[[interface]]\ndevice = \"tap:t{n}\"\n")).collect::<String>()
    };
    assert_eq!(parse(&text(65_535)).interfaces.len(), 65_535);
    let refused = Config::parse("pantala.toml", &text(65_536), &machine()).unwrap_err();
    assert_eq!((refused.list.len(), refused.list[0].line), (1, 2 * 65_535 + 1));
    assert!(refused.to_string().contains("no more than 65535 interfaces"), "{refused}");
}

/// A configuration in a folder of its own, beside a file of rules.
fn with_rules(folder: &str, write: impl Fn(&std::fs::File)) -> Result<Config, Problems> {
    let folder = std::env::temp_dir().join(format!("pantala-config-{}-{folder}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    write(&std::fs::File::create(folder.join("rules.ipfw")).unwrap());
    let text = "[firewall]\nrules = \"rules.ipfw\"\n[[interface]]\nname = \"lan\"\ndevice = \"tap:x\"\n";
    let config = Config::parse(&folder.join("pantala.toml").display().to_string(), text, &machine());
    std::fs::remove_dir_all(folder).unwrap();
    config
}

#[test]
fn rules_are_read_from_their_file_and_what_they_name_may_come_later() {
    use std::io::Write;
    let rules =
        "add 100 allow ip from any to any via lan\nadd 200 deny ip from any to any in recv nowhere0\n";
    let config = with_rules("good", |mut file| file.write_all(rules.as_bytes()).unwrap()).unwrap();
    let firewall = config.firewall.unwrap();
    assert_eq!((firewall.commands.len(), firewall.default), (2, ipfw::Action::Deny));
    let [warning] = firewall.warnings.as_slice() else { panic!("{:?}", firewall.warnings) };
    assert!(warning.contains("rules.ipfw:2: there is no interface `nowhere0`"), "{warning}");
}

#[test]
fn a_mistake_in_the_file_of_rules_is_shown_where_it_is() {
    use std::io::Write;
    let problems =
        with_rules("bad", |mut file| file.write_all(b"\nadd 1 alow ip from any to any\n").unwrap());
    let said = problems.unwrap_err().to_string();
    assert!(
        said.contains("rules.ipfw:2:7: ") && said.contains("    add 1 alow ip from any to any\n"),
        "{said}"
    );
    assert!(said.contains("\n          ^^^^\n"), "{said}");
}

#[test]
fn a_file_of_rules_beyond_the_bound_is_refused() {
    let problems = with_rules("large", |file| file.set_len((64 << 20) + 1).unwrap()).unwrap_err();
    assert!(problems.to_string().contains("it has more than 67108864 bytes"), "{problems}");
}

#[test]
fn settings_of_the_firewall_have_ipfws_names() {
    let text = "[firewall]\ndefault = \"allow\"\nstate_max = 77\ndyn_udp_lifetime = 30\ndyn_strict = true\none_pass = false\n\
                [[interface]]\ndevice = \"tap:x\"\n";
    let firewall = parse(text).firewall.unwrap();
    let states = firewall.states;
    assert_eq!((states.state_max, states.udp_lifetime, states.strict), (77, 30, true));
    assert_eq!((firewall.default, firewall.one_pass, firewall.verbose), (ipfw::Action::Allow, false, true));
}

#[test]
fn variables_stand_in_quotes_or_bare() {
    let config = parse(
        "[sysctl]\nnet.inet.tcp.delacktime = 20\n\"net.inet.tcp.sack.enable\" = false\n\
         net.inet.tcp.cc.algorithm = \"newreno\"\n[[interface]]\ndevice = \"tap:a\"\n",
    );
    let values: Vec<_> = config.sysctl.into_iter().collect();
    let name = |name| format!("net.inet.tcp.{name}");
    let names: Vec<_> = values.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(names, [name("cc.algorithm"), name("delacktime"), name("sack.enable")]);
    assert_eq!(values.iter().map(|(_, value)| *value).collect::<Vec<_>>(), [0, 20, 0]);
}

#[test]
fn interfaces_of_different_tables_may_have_the_same_prefixes_and_gateways_are_of_their_table() {
    let text = |more: &str| {
        format!(
            "fibs = 2\n{more}[[interface]]\nname = \"a\"\ndevice = \"tap:a\"\naddress = \"192.0.2.1/24\"\n\
             [[interface]]\nname = \"b\"\ndevice = \"tap:b\"\naddress = \"192.0.2.1/24\"\nfib = 1\n\
             [[route]]\nto = \"default\"\nvia = \"192.0.2.9\"\n\
             [[route]]\nto = \"default\"\nvia = \"192.0.2.9\"\nfib = 1\n"
        )
    };
    let parse = |text: &str| Config::parse("t", text, &Machine { cpus: vec![0] });
    let config = parse(&text("")).unwrap();
    assert_eq!((config.fibs, config.add_addr_all_fibs), (2, false));
    for (fib, interface) in [(0, "a"), (1, "b")] {
        let route = config.routes.iter().find(|route| route.fib == fib).unwrap();
        let hop =
            |gateway: &str| NextHop { gateway: gateway.parse().unwrap(), interface: interface.to_owned() };
        assert_eq!(route.target, RouteTarget::Via(vec![hop("192.0.2.9")]));
    }
    let why = parse(&text("add_addr_all_fibs = true\n")).unwrap_err().to_string();
    assert!(why.contains("this address is already given"), "{why}");
}
