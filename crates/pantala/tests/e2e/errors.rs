//! Undeliverable packets: the sender's socket gets the error.

use core::net::IpAddr;
use core::time::Duration;
use std::thread;

use rustix::io::Errno;

use crate::lab::{Attach, Family, Host, Lab, Link};
use crate::socket::refusal;

/// Longer than it takes to give up on a neighbour.
const LONG: Duration = Duration::from_secs(6);

const ROUTES: &str = r#"
[[route]]
to = "198.51.100.0/24"
reject = true
[[route]]
to = "2001:db8:1::/48"
reject = true
[[route]]
to = "203.0.113.0/24"
blackhole = true
[[route]]
to = "2001:db8:2::/48"
blackhole = true
"#;

fn lab(test: &str) -> Option<Lab> {
    let links = [Link::new(Attach::Native).rings(2), Link::new(Attach::Tap).rings(2)];
    Lab::start_with(test, &links, ROUTES)
}

#[track_caller]
fn hears(host: &Host, to: IpAddr, error: Errno) {
    assert_eq!(refusal(&host.netns, to, LONG), Some(error.raw_os_error()), "{}: {to}", host.link);
}

fn a_closed_port_of_pantala_refuses() {
    let Some(lab) = lab("errors::a_closed_port_of_pantala_refuses") else { return };
    lab.both(|family| {
        for host in &lab.hosts {
            hears(host, host.router(family), Errno::CONNREFUSED);
        }
    });
    assert_eq!(lab.pantala().dropped("no_port"), 4);
}

fn a_neighbour_that_does_not_answer_is_a_host_unreachable() {
    let Some(lab) = lab("errors::a_neighbour_that_does_not_answer_is_a_host_unreachable") else { return };
    let (a, b) = lab.pair();
    thread::scope(|scope| {
        for family in Family::BOTH {
            scope.spawn(move || hears(a, b.neighbour(family, 99), Errno::HOSTUNREACH));
            scope.spawn(move || hears(b, a.neighbour(family, 99), Errno::HOSTUNREACH));
        }
    });
    assert!(lab.pantala().dropped("neigh_unreachable") >= 4);
}

fn a_prefix_without_a_route_is_a_net_unreachable() {
    let Some(lab) = lab("errors::a_prefix_without_a_route_is_a_net_unreachable") else { return };
    lab.both(|family| {
        let nowhere: IpAddr = family.pick("192.0.2.9", "2001:db8:9::9").parse().unwrap();
        lab.hosts.iter().for_each(|host| hears(host, nowhere, Errno::NETUNREACH));
    });
    assert_eq!(lab.pantala().dropped("no_route"), 4);
}

fn a_reject_route_is_heard_and_a_blackhole_is_not() {
    let Some(lab) = lab("errors::a_reject_route_is_heard_and_a_blackhole_is_not") else { return };
    let (a, _) = lab.pair();
    lab.both(|family| {
        let [rejected, lost] = family
            .pick(["198.51.100.9", "203.0.113.9"], ["2001:db8:1::9", "2001:db8:2::9"])
            .map(|text| text.parse::<IpAddr>().unwrap());
        // What Linux makes of "host unreachable", and of RFC 4443's code 6.
        hears(a, rejected, family.pick(Errno::HOSTUNREACH, Errno::ACCESS));
        assert_eq!(refusal(&a.netns, lost, Duration::from_millis(300)), None);
    });
    assert_eq!(lab.pantala().dropped("reject_route"), 2);
    assert_eq!(lab.pantala().dropped("blackhole_route"), 2);
}

fn routes_come_and_go_by_command() {
    let Some(lab) = lab("errors::routes_come_and_go_by_command") else { return };
    let (a, b) = lab.pair();
    lab.both(|family| {
        let there: IpAddr = family.pick("192.0.2.9", "2001:db8:9::9").parse().unwrap();
        let net = family.pick("192.0.2.0/24", "2001:db8:9::/48");
        hears(a, there, Errno::NETUNREACH);
        let word = family.pick("-inet", "-inet6");
        lab.pantala().shows(&format!("route add {word} {net} {}", b.addr(family)));
        // The host has no such address and is no router: it drops the packet silently.
        assert_eq!(refusal(&a.netns, there, Duration::from_millis(300)), None);
        lab.pantala().shows(&format!("route delete {word} {net}"));
        hears(a, there, Errno::NETUNREACH);
    });
}

harness::tests![
    a_closed_port_of_pantala_refuses,
    a_neighbour_that_does_not_answer_is_a_host_unreachable,
    a_prefix_without_a_route_is_a_net_unreachable,
    a_reject_route_is_heard_and_a_blackhole_is_not,
    routes_come_and_go_by_command,
];
