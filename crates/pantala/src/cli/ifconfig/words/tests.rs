use super::*;

fn words(interface: &str, line: &str) -> Result<Changes, String> {
    read(interface, &line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
}

fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

#[test]
fn bsd_lines_become_edits() {
    let on = || "if0".to_owned();
    let add = |address| vec![ConfigEdit::AddAddress { interface: on(), address: net(address) }];
    let remove = |address| vec![ConfigEdit::RemoveAddress { interface: on(), address: net(address) }];
    let replace = |address| vec![ConfigEdit::ReplaceAddress { interface: on(), address: net(address) }];
    let set = |key: &str, value: &str| {
        vec![ConfigEdit::Set { interface: on(), key: key.into(), value: value.into() }]
    };
    let insert = |key: &str, value: &str| {
        vec![ConfigEdit::Insert { interface: on(), key: key.into(), value: value.into() }]
    };
    let drop = |key: &str, value: &str| {
        vec![ConfigEdit::Remove { interface: on(), key: key.into(), value: value.into() }]
    };
    let create = |device: &str| vec![ConfigEdit::Create { interface: on(), device: device.into() }];
    for (line, edits) in [
        ("192.0.2.7/24", replace("192.0.2.7/24")),
        ("inet 192.0.2.7/24 alias", add("192.0.2.7/24")),
        ("inet 192.0.2.7 netmask 255.255.255.0 alias", add("192.0.2.7/24")),
        ("inet 192.0.2.7 netmask 0xffffff00 add", add("192.0.2.7/24")),
        ("inet 192.0.2.7 -alias", remove("192.0.2.7/32")),
        ("192.0.2.7/24 delete", remove("192.0.2.7/24")),
        ("inet6 2001:db8::7/64", add("2001:db8::7/64")),
        ("inet6 2001:db8::7 prefixlen 64", add("2001:db8::7/64")),
        ("inet6 2001:db8::7 -alias", remove("2001:db8::7/128")),
        ("mtu 1400", set("mtu", "1400")),
        ("ether 02:00:00:00:00:07", set("mac", "02:00:00:00:00:07")),
        ("vlanpcp 5", set("vlanpcp", "5")),
        ("metric 100", set("metric", "100")),
        ("fib 1", set("fib", "1")),
        ("create pppoedev up", create("pppoe:up")),
        ("create pppoesvc dsl pppoedev up pppoeac ac1", create("pppoe:up,service=dsl,ac=ac1")),
        ("authname office", set("ppp.user", "office")),
        ("create vlan 10 vlandev lan", create("vlan:lan,10")),
        ("create vlandev lan vlan 10 vlanproto 802.1ad", create("qinq:lan,10")),
        ("create tunnel 192.0.2.1 198.51.100.1", create("gif:192.0.2.1,198.51.100.1")),
        ("create tunnel 2001:db8::1 2001:db8::2", create("gif:2001:db8::1,2001:db8::2")),
        ("create device af_xdp:eth0", create("af_xdp:eth0")),
        ("create device tun:vpn0", create("tun:vpn0")),
        ("tunnel 192.0.2.1 198.51.100.2", set("device", "gif:192.0.2.1,198.51.100.2")),
        ("destroy", vec![ConfigEdit::Destroy { interface: on() }]),
        ("create addm lan1 addm lan2", create("bridge:lan1,lan2")),
        ("create vxlanid 5 vxlanlocal 192.0.2.1", create("vxlan:5,192.0.2.1")),
        (
            "create vxlanid 5 vxlanlocal 192.0.2.1 vxlanremote 198.51.100.1 vxlanport 8472",
            create("vxlan:5,192.0.2.1,198.51.100.1,port=8472"),
        ),
        ("create vxlanid 5 vxlanlocal 2001:db8::1 vxlangroup ff05::5", create("vxlan:5,2001:db8::1,ff05::5")),
        ("maxaddr 100", set("maxaddr", "100")),
        ("stp", set("stp", "rstp")),
        ("proto stp", set("stp", "stp")),
        ("priority 4096", set("stp_priority", "4096")),
        ("-stp", vec![ConfigEdit::Unset { interface: on(), key: "stp".into() }]),
        ("description uplink", set("description", "uplink")),
        ("addm lan3", insert("member", "lan3")),
        ("private lan1", insert("private", "lan1")),
        ("static lan1 02:00:00:00:00:07", insert("fdb", "02:00:00:00:00:07 lan1")),
        ("ifpathcost lan1 200", insert("stp_port", "lan1 cost 200")),
        ("-autoedge lan1", insert("stp_port", "lan1 -autoedge")),
        ("deletem lan3", drop("member", "lan3")),
        ("-span lan3", drop("span", "lan3")),
    ] {
        assert_eq!(words("if0", line).unwrap().edits, edits, "{line}");
    }
}

#[test]
fn one_line_changes_several_things_together() {
    let changes =
        words("vlan10", "create vlan 10 vlandev lan inet 10.0.0.1/24 inet6 2001:db8::1/64 mtu 1400 up");
    let changes = changes.unwrap();
    assert_eq!(changes.edits.len(), 4);
    assert_eq!(changes.state.up, Some(true));
    assert!(matches!(&changes.edits[0], ConfigEdit::Create { device, .. } if device == "vlan:lan,10"));
}

#[test]
fn wrong_words_are_explained() {
    for (line, says) in [
        ("dwon", "did you mean `down`?"),
        ("frobnicate", "known are up, down"),
        ("media auto", "has no meaning here"),
        ("mtu", "`mtu` needs a number behind it"),
        ("mtu big", "`big` is not a number"),
        ("inet 192.0.2.7", "192.0.2.7 has no prefix length; write it as in 192.0.2.7/24"),
        ("inet6 2001:db8::7", "2001:db8::7/64"),
        ("inet 2001:db8::7/64", "not an address of the family inet"),
        ("inet6 192.0.2.7/24", "not an address of the family inet6"),
        ("inet 192.0.2.7 netmask 255.0.255.0", "is not the mask of a prefix"),
        ("inet 192.0.2.7 netmask 33", "too long"),
        ("create", "`create` needs its device: `ifconfig if0 create device DEVICE`"),
        ("create vlan 10", "a VLAN needs both"),
        ("create vlan 10 vlandev lan device tap:x", "one device"),
        ("create tunnel 192.0.2.1", "`tunnel` needs the local and the remote address"),
        ("destroy up", "`destroy` stands alone"),
        ("ether zz", "not an Ethernet address"),
        ("create vxlanid 5", "a VXLAN needs both"),
        ("create vxlanid 5 vxlanlocal 192.0.2.1 vxlangroup 198.51.100.1", "no multicast address"),
        ("create addm a vxlanid 5 vxlanlocal 192.0.2.1", "one device"),
        ("grekey 7", "needs both ends"),
        ("static lan1", "needs an Ethernet address"),
        ("deladdr lan1", "not an Ethernet address"),
        ("addr up", "`addr` stands alone"),
    ] {
        let why = words("if0", line).unwrap_err();
        assert!(why.contains(says), "{line}: {why}");
    }
    assert!(words("gif0", "create").unwrap_err().contains("create tunnel LOCAL REMOTE"));
    assert!(words("vlan7", "create").unwrap_err().contains("vlan ID vlandev INTERFACE"));
    assert_eq!(words("tap3", "create").unwrap().edits.len(), 1);
}

#[test]
fn learnt_addresses_are_forgotten_and_a_gre_tunnel_has_a_key() {
    let mac: Mac = "02:00:00:00:00:07".parse().unwrap();
    for (line, stations, edits) in [
        ("deladdr 02:00:00:00:00:07", vec![Forget::One(mac)], 0),
        ("flush", vec![Forget::All], 0),
        ("flushall", vec![Forget::All], 1),
    ] {
        let changes = words("bridge0", line).unwrap();
        assert_eq!((changes.stations, changes.edits.len()), (stations, edits), "{line}");
    }
    assert!(words("bridge0", "addr").unwrap().lists_stations);
    for name in ["gre0", "site"] {
        for line in
            ["create tunnel 192.0.2.1 198.51.100.1 grekey 7", "create grekey 7 tunnel 192.0.2.1 198.51.100.1"]
        {
            let changes = words(name, line).unwrap();
            let device = "gre:192.0.2.1,198.51.100.1,key=7".to_owned();
            assert_eq!(
                changes.edits,
                [ConfigEdit::Create { interface: name.into(), device }],
                "{name} {line}"
            );
        }
    }
    let create = ConfigEdit::Create { interface: "bridge0".into(), device: "bridge:".into() };
    assert_eq!(words("bridge0", "create").unwrap().edits, [create], "its ports may come later");
    assert!(words("vxlan0", "create").unwrap_err().contains("vxlanid N vxlanlocal ADDRESS"));
}
