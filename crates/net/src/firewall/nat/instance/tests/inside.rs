//! From inside to inside, by way of the outside address.

use super::*;

fn config() -> NatConfig {
    let redirect = NatRedirect::Port {
        proto: Protocol::UDP.0,
        targets: vec![host(5)],
        target_ports: vec![8080..=8080],
        alias: None,
        alias_ports: 80..=80,
        remote: None,
        remote_ports: None,
    };
    NatConfig { redirects: vec![redirect], ..NatConfig::default() }
}

#[test]
fn a_host_inside_reaches_another_at_its_redirected_port_and_both_see_the_outside() {
    for cpus in CPUS {
        let mut world = World::new(cpus, &config());
        for n in 0..100 {
            let ask = datagram((host(100 + n), 4000), (ALIAS, 80));
            let got = world.turned(&ask);
            let [from, to] = ends(&got);
            assert_eq!((from.0, to), (ALIAS, (host(5), 8080)));
            assert_eq!(world.turned(&answer(&got)), answer(&ask));
            let told = world.turned(&error(host(5), ALIAS, &got));
            assert_eq!(told, error(ALIAS, host(100 + n), &ask));
        }
        assert_eq!((world.bindings(), world.count(Count::NatHairpins)), (100, 200));
    }
}

#[test]
fn hosts_inside_that_know_each_others_outside_ends_meet_on_one_cpu() {
    for cpus in CPUS {
        let mut world = World::new(cpus, &NatConfig::default());
        for n in 0..100 {
            let (one, other) = ((host(2 * n), 4000), (host(2 * n + 1), 5000));
            // Each learns its own from a host outside.
            let ends_seen =
                [one, other].map(|inside| ends(&world.sent(&datagram(inside, (far(1), 3478))))[0]);
            let first = world.go(&datagram(one, ends_seen[1]), BindingDirection::In, INSIDE);
            assert_eq!(first.verdict, Verdict::Untouched, "nobody has asked for it yet");
            let second = world.turned(&datagram(other, ends_seen[0]));
            assert_eq!(ends(&second), [ends_seen[1], one]);
            let third = world.turned(&datagram(one, ends_seen[1]));
            assert_eq!(ends(&third), [ends_seen[0], other]);
        }
        assert_eq!(world.handoffs, 0);
    }
}

#[test]
fn a_ping_from_inside_to_a_redirected_address_is_answered() {
    for cpus in CPUS {
        let redirect = NatRedirect::Addr { targets: vec![host(5)], alias: far(77) };
        let mut world = World::new(cpus, &NatConfig { redirects: vec![redirect], ..NatConfig::default() });
        let request = echo_request(host(1).into(), far(77).into(), 3, 1, b"abc");
        let got = world.turned(&request);
        assert_eq!((ends(&got)[0].0, ends(&got)[1].0), (ALIAS, host(5)));
        assert_eq!(world.turned(&echo_reply(&got)), echo_reply(&request));
    }
}

#[test]
fn a_ping_from_inside_to_the_outside_address_is_this_hosts() {
    let mut world = World::new(2, &NatConfig::default());
    let request = echo_request(host(1).into(), ALIAS.into(), 3, 1, b"abc");
    assert_eq!(world.go(&request, BindingDirection::In, INSIDE).verdict, Verdict::Untouched);
    assert_eq!(world.bindings(), 0);
}
