use super::*;

fn v4(text: &str) -> Ipv4Addr {
    text.parse().unwrap()
}

fn v6(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn martians_are_not_believed_as_sources() {
    let martians = [
        "0.0.0.0",
        "0.1.2.3",
        "127.0.0.1",
        "127.255.0.1",
        "224.0.0.1",
        "239.1.1.1",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "ff02::1",
        "ff0e::1",
        "::ffff:10.0.0.1",
    ];
    let hosts = [
        "1.0.0.1",
        "126.0.0.1",
        "128.0.0.1",
        "10.0.0.1",
        "169.254.1.1",
        "223.255.255.255",
        "::2",
        "2001:db8::1",
        "fe80::1",
        "fd00::1",
        "::fffe:10.0.0.1",
        "64:ff9b::1",
    ];
    for text in martians {
        assert!(is_martian_source(ip(text)), "{text}");
    }
    for text in hosts {
        assert!(!is_martian_source(ip(text)), "{text}");
    }
}

#[test]
fn martians_are_not_reached_either_but_groups_are() {
    for text in [
        "0.0.0.0",
        "0.1.2.3",
        "127.0.0.1",
        "240.0.0.1",
        "255.255.255.254",
        "::",
        "::1",
        "ff00::1",
        "ff01::1",
        "ff11::1",
        "::ffff:1.2.3.4",
    ] {
        assert!(is_martian_destination(ip(text)), "{text}");
    }
    for text in ["10.0.0.1", "224.0.0.1", "255.255.255.255", "2001:db8::1", "ff02::1", "ff0e::1", "fe80::1"] {
        assert!(!is_martian_destination(ip(text)), "{text}");
    }
}

#[test]
fn routers_pass_on_what_may_leave_its_link() {
    let (near4, near6) = (ip("169.254.1.1"), ip("fe80::1"));
    let pairs = [(ip("10.0.0.1"), ip("192.0.2.1"), near4), (ip("2001:db8::1"), ip("2001:db8:1::1"), near6)];
    for (a, b, near) in pairs {
        assert!(is_forwardable(a, b) && is_forwardable(b, a));
        assert!(!is_forwardable(near, b) && !is_forwardable(a, near));
    }
    for text in ["224.0.0.5", "239.1.1.1", "255.255.255.255", "127.0.0.1"] {
        assert!(!is_forwardable(ip("10.0.0.1"), ip(text)), "{text}");
    }
    for text in ["ff02::1", "ff0e::1", "::1"] {
        assert!(!is_forwardable(ip("2001:db8::1"), ip(text)), "{text}");
    }
}

#[test]
fn class_e_does_not_contain_the_broadcast_address() {
    assert!(is_class_e(v4("240.0.0.0")) && is_class_e(v4("255.255.255.254")));
    assert!(!is_class_e(v4("239.255.255.255")) && !is_class_e(Ipv4Addr::BROADCAST));
}

#[test]
fn multicast_addresses_say_how_far_they_reach() {
    assert_eq!(multicast_scope(v6("ff01::1")), Some(Scope::INTERFACE_LOCAL));
    assert_eq!(multicast_scope(ALL_NODES), Some(Scope::LINK_LOCAL));
    assert_eq!(multicast_scope(v6("ff35::1")), Some(Scope::SITE_LOCAL));
    assert_eq!(multicast_scope(v6("ff0e::1")), Some(Scope::GLOBAL));
    assert_eq!(multicast_scope(v6("fe80::1")), None);
    assert!(Scope::LINK_LOCAL < Scope::GLOBAL);
}

#[test]
fn a_solicited_node_group_is_made_of_the_last_24_bits() {
    // the example of RFC 4291 §2.7.1
    let group = solicited_node_multicast(v6("4037::1:800:200e:8c6c"));
    assert_eq!(group, v6("ff02::1:ff0e:8c6c"));
    assert!(is_solicited_node_multicast(group));
    assert!(!is_solicited_node_multicast(ALL_NODES) && !is_solicited_node_multicast(v6("ff02::1:fe00:1")));
}

#[test]
fn a_link_local_address_is_made_of_an_ethernet_address() {
    // the example of RFC 2464 §4
    let mac = Mac([0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde]);
    assert_eq!(eui64(mac), [0x36, 0x56, 0x78, 0xff, 0xfe, 0x9a, 0xbc, 0xde]);
    assert_eq!(link_local_from_mac(mac), v6("fe80::3656:78ff:fe9a:bcde"));
}

#[test]
fn groups_have_ethernet_addresses_and_hosts_have_none() {
    assert_eq!(multicast_mac_v4(v4("224.0.0.251")), Some(Mac([1, 0, 0x5e, 0, 0, 0xfb])));
    assert_eq!(multicast_mac_v4(v4("239.129.2.3")), Some(Mac([1, 0, 0x5e, 1, 2, 3])));
    assert_eq!(multicast_mac_v6(v6("ff02::1:ff12:3456")), Some(Mac([0x33, 0x33, 0xff, 0x12, 0x34, 0x56])));
    assert_eq!(multicast_mac_v4(v4("10.0.0.1")), None);
    assert_eq!(multicast_mac_v4(Ipv4Addr::BROADCAST), None);
    assert_eq!(multicast_mac_v6(v6("fe80::1")), None);
}
