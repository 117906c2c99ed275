//! Links, addresses and routes of a real kernel, in namespaces of their own.

use dev::netlink::{LinkFlags, NetlinkError, Route, Rtnetlink, Veth, VethEnd};
use dev::netns::Netns;
use dev::sys::ethtool::{Channels, Ethtool, EthtoolError, Feature};
use dev::sys::promisc::Promisc;
use dev::sys::sysctl;

use crate::support::port::until;
use crate::support::{is_root, netns};

/// Runs `body` in a namespace of its own, if this process may make one.
fn in_namespace(test: &str, body: impl FnOnce(&mut Rtnetlink) + Send) {
    if is_root() {
        netns(test).run(|| body(&mut Rtnetlink::open().unwrap())).unwrap();
    }
}

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 7];

fn a_veth_pair_has_what_was_asked_for_and_goes_with_one_end() {
    in_namespace("veth", |nl| {
        let ends = [VethEnd { name: "a", mac: Some(MAC) }, VethEnd { name: "b", mac: None }];
        nl.add_veth(&Veth { ends, queues: 2, mtu: Some(1400) }).unwrap();
        let [a, b] = ["a", "b"].map(|name| nl.link(name).unwrap());
        assert_eq!((a.mac, a.mtu, a.queues, a.kind.as_deref()), (Some(MAC), 1400, (2, 2), Some("veth")));
        assert_eq!((b.mtu, b.queues), (1400, (2, 2)));
        assert_eq!((a.peer, b.peer), (Some(b.index), Some(a.index)));
        assert_eq!(nl.links().unwrap().len(), 3);
        let again = nl.add_veth(&Veth::new("a", "c")).unwrap_err();
        assert!(matches!(again, NetlinkError::Exists { .. }), "{again}");
        nl.delete_link("a").unwrap();
        assert!(matches!(nl.link("b"), Err(NetlinkError::NoSuchLink(name)) if name == "b"));
        assert!(matches!(nl.delete_link("a"), Err(NetlinkError::NoSuchLink(_))));
    });
}

fn what_is_set_on_a_link_is_read_back() {
    in_namespace("link-set", |nl| {
        nl.add_veth(&Veth::new("a", "b")).unwrap();
        nl.set_up("a", true).unwrap();
        nl.set_up("b", true).unwrap();
        nl.set_mtu("a", 9000).unwrap();
        nl.set_mac("a", MAC).unwrap();
        nl.set_queue_len("a", 77).unwrap();
        nl.set_promisc("a", true).unwrap();
        let a = nl.link("a").unwrap();
        assert_eq!((a.mtu, a.queue_len, a.mac), (9000, 77, Some(MAC)));
        assert!(a.flags.contains(LinkFlags::UP) && a.flags.contains(LinkFlags::PROMISC));
        nl.set_promisc("a", false).unwrap();
        nl.set_up("a", false).unwrap();
        nl.rename("a", "lan").unwrap();
        let lan = nl.link("lan").unwrap();
        assert_eq!(lan.index, a.index);
        assert!(!lan.flags.contains(LinkFlags::UP) && !lan.flags.contains(LinkFlags::PROMISC));
        let refused = nl.set_mtu("lan", 1 << 20).unwrap_err();
        assert!(refused.to_string().contains("the kernel says: mtu"), "{refused}");
    });
}

fn promiscuous_mode_and_frames_to_all_groups_end_when_their_holder_is_dropped() {
    in_namespace("promisc", |nl| {
        nl.add_veth(&Veth::new("a", "b")).unwrap();
        let index = nl.link("a").unwrap().index;
        for (hold, word) in
            [(Promisc::hold as fn(u32) -> _, "promiscuity"), (Promisc::hold_groups, "allmulti")]
        {
            let held: Promisc = hold(index).unwrap();
            // IFF_PROMISC in the list would be the flag of the operator; the counter is what the kernel obeys.
            let count = || {
                let out = std::process::Command::new("ip").args(["-d", "link", "show", "a"]).output();
                let text = String::from_utf8_lossy(&out.ok()?.stdout).into_owned();
                let count = text.split_once(&format!("{word} "))?.1.split(' ').next()?;
                count.parse::<u32>().ok()
            };
            assert!(count().is_none_or(|count| count == 1), "{word}");
            drop(held);
            // Once what other tests start has closed what it inherited.
            until(|| count().is_none_or(|count| count == 0));
        }
    });
}

fn addresses_and_routes_of_both_families_come_and_go() {
    in_namespace("routes", |nl| {
        for scope in ["all", "default"] {
            sysctl::set(&format!("ipv6.conf.{scope}.disable_ipv6"), 0).unwrap();
        }
        nl.add_veth(&Veth::new("a", "b")).unwrap();
        nl.set_up("a", true).unwrap();
        nl.set_up("b", true).unwrap();
        let index = nl.link("a").unwrap().index;
        let families = [
            ("192.0.2.1/24", "198.51.100.0/24", "192.0.2.9", "0.0.0.0/0"),
            ("2001:db8::1/64", "2001:db8:1::/48", "2001:db8::9", "::/0"),
        ];
        for (address, to, via, default) in families {
            let net = address.parse().unwrap();
            nl.add_address("a", net).unwrap();
            assert!(matches!(nl.add_address("a", net), Err(NetlinkError::Exists { .. })));
            let listed = nl.addresses().unwrap();
            let mine = listed.iter().find(|x| x.net == net).unwrap();
            assert_eq!((mine.ifindex, mine.tentative), (index, false));
            let via = Some(via.parse().unwrap());
            let gateway = Route { to: to.parse().unwrap(), via, ifindex: Some(index) };
            let on_link = Route { via: None, ..gateway };
            let default = Route { to: default.parse().unwrap(), via, ifindex: None };
            for route in [gateway, on_link, default] {
                nl.add_route(&route).unwrap();
                assert!(matches!(nl.add_route(&route), Err(NetlinkError::Exists { .. })), "{route}");
                let expected = Route { ifindex: Some(index), ..route };
                assert!(nl.routes().unwrap().contains(&expected), "{route}");
                nl.delete_route(&route).unwrap();
                assert!(!nl.routes().unwrap().contains(&expected), "{route}");
            }
            nl.delete_address("a", net).unwrap();
            assert!(!nl.addresses().unwrap().iter().any(|x| x.net == net));
        }
    });
}

fn a_link_moves_to_another_namespace() {
    in_namespace("move", |nl| {
        let there = Netns::anonymous().unwrap();
        nl.add_veth(&Veth::new("a", "b")).unwrap();
        nl.move_to("b", &there).unwrap();
        assert!(matches!(nl.link("b"), Err(NetlinkError::NoSuchLink(_))));
        let mut far = there.netlink().unwrap();
        far.set_up("b", true).unwrap();
        assert_eq!(far.link("b").unwrap().kind.as_deref(), Some("veth"));
    });
}

fn sysctl_speaks_to_the_namespace_of_the_thread() {
    in_namespace("sysctl", |_| {
        sysctl::set("ipv4.ip_forward", 1).unwrap();
        assert_eq!(sysctl::get("ipv4.ip_forward").unwrap(), "1");
        let other = Netns::anonymous().unwrap();
        assert_eq!(other.run(|| sysctl::get("ipv4.ip_forward").unwrap()).unwrap(), "0");
    });
}

fn ethtool_knows_a_veth_and_says_what_it_lacks() {
    in_namespace("ethtool", |nl| {
        nl.add_veth(&Veth { queues: 2, ..Veth::new("a", "b") }).unwrap();
        let a = Ethtool::open("a").unwrap();
        assert_eq!(a.driver().unwrap(), "veth");
        let expected = Channels { rx: 2, tx: 2, rx_max: 2, is_combined: false };
        assert_eq!(a.channels().unwrap(), expected);
        assert!(matches!(a.rx_hash(), Err(EthtoolError::Unsupported { .. })));
        assert!(a.feature(Feature::TxChecksum).unwrap());
        a.set_feature(Feature::TxChecksum, false).unwrap();
        assert!(!a.feature(Feature::TxChecksum).unwrap());
    });
}

harness::tests![
    a_veth_pair_has_what_was_asked_for_and_goes_with_one_end,
    what_is_set_on_a_link_is_read_back,
    promiscuous_mode_and_frames_to_all_groups_end_when_their_holder_is_dropped,
    addresses_and_routes_of_both_families_come_and_go,
    a_link_moves_to_another_namespace,
    sysctl_speaks_to_the_namespace_of_the_thread,
    ethtool_knows_a_veth_and_says_what_it_lacks,
];
