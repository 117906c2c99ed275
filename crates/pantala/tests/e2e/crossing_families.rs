//! NAT64: a Linux host speaks IPv6 to one that speaks IPv4.

use core::net::{IpAddr, Ipv6Addr};
use std::io::ErrorKind;
use std::net::TcpStream;

use rustix::io::Errno;

use crate::firewall::section;
use crate::lab::{Attach, Family, Host, Lab, Link, at};
use crate::socket::{Ping, datagram_arrives, path_mtu, refusal, stream_arrives};
use crate::wait::PATIENCE;

const RULES: &str = "\
    nat64lsn gate create prefix4 198.51.100.1/32 prefix6 fd77:64::/96\n\
    add 100 nat64lsn gate ip6 from any to fd77:64::/96 in\n\
    add 200 nat64lsn gate ip4 from any to 198.51.100.1 in\n";

fn lab(test: &str, links: &[Link]) -> Option<Lab> {
    let mut lab = Lab::without_pantala(test, links)?;
    lab.run_pantala(&section("allow", RULES));
    Some(lab)
}

/// A host's address of IPv4, as hosts of IPv6 write it.
fn in_ip6(host: &Host) -> IpAddr {
    let IpAddr::V4(addr) = host.addr(Family::V4) else { panic!("it is of IPv4") };
    let prefix = Ipv6Addr::new(0xfd77, 0x64, 0, 0, 0, 0, 0, 0).to_bits();
    Ipv6Addr::from_bits(prefix | u128::from(addr.to_bits())).into()
}

fn streams_datagrams_and_pings_cross_and_what_is_refused_is_seen() {
    let name = "crossing_families::streams_datagrams_and_pings_cross_and_what_is_refused_is_seen";
    let links = [Link::new(Attach::Native).rings(2), Link::new(Attach::Tap).rings(2)];
    let Some(lab) = lab(name, &links) else { return };
    let (a, b) = lab.pair();
    let there = in_ip6(b);
    assert!(Ping::open(&a.netns, there).ask(1, 56));
    assert!(Ping::open(&a.netns, there).ask(2, 5000), "an echo in pieces");
    for len in [1, 1400, 8000] {
        assert!(datagram_arrives(&a.netns, &b.netns, there, len), "{len} bytes");
    }
    assert!(stream_arrives(&a.netns, &b.netns, there, 20_000_000).unwrap());
    assert_eq!(refusal(&a.netns, there, PATIENCE), Some(Errno::CONNREFUSED.raw_os_error()));
    let refused = a.netns.run(|| TcpStream::connect_timeout(&at(there, 81), PATIENCE)).unwrap();
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::ConnectionRefused);
    let shown = lab.pantala().shows("ipfw -d nat64lsn gate show");
    assert!(shown.contains(" as 198.51.100.1 ") && shown.contains("icmp=2"), "{shown}");
}

fn a_stream_finds_the_mtu_behind_the_translator() {
    let name = "crossing_families::a_stream_finds_the_mtu_behind_the_translator";
    let links = [Link::new(Attach::Native), Link::new(Attach::Native).pantala_mtu(1400)];
    let Some(lab) = lab(name, &links) else { return };
    let (a, b) = lab.pair();
    let there = in_ip6(b);
    assert_eq!(path_mtu(&a.netns, there, 1452).0, Some(1420), "20 bytes more than the link's");
    assert!(stream_arrives(&a.netns, &b.netns, there, 4_000_000).unwrap());
    assert!(lab.pantala().counter("nat_errors") > 0);
}

harness::tests![
    streams_datagrams_and_pings_cross_and_what_is_refused_is_seen,
    a_stream_finds_the_mtu_behind_the_translator,
];
