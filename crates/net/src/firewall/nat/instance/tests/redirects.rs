use super::*;

fn port(targets: &[Ipv4Addr], inside: u16, outside: u16) -> NatRedirect {
    NatRedirect::Port {
        proto: Protocol::UDP.0,
        targets: targets.to_vec(),
        target_ports: targets.iter().map(|_| inside..=inside).collect(),
        alias: None,
        alias_ports: outside..=outside,
        remote: None,
        remote_ports: None,
    }
}

fn with(redirects: Vec<NatRedirect>) -> NatConfig {
    NatConfig { redirects, deny_in: true, ..NatConfig::default() }
}

#[test]
fn a_redirected_port_leads_inside_and_its_answers_look_as_if_it_did_not() {
    for cpus in CPUS {
        let mut world = World::new(cpus, &with(vec![port(&[host(5)], 8080, 80)]));
        for n in 0..100 {
            let ask = datagram((far(n), 3000), (ALIAS, 80));
            let got = world.received(&ask);
            assert_eq!(ends(&got), [(far(n), 3000), (host(5), 8080)]);
            assert_eq!(world.sent(&answer(&got)), answer(&ask));
            let told = world.sent(&error(host(5), far(n), &got));
            assert_eq!(told, error(ALIAS, far(n), &ask));
            let told = world.received(&error(far(99), ALIAS, &answer(&ask)));
            assert_eq!(told, error(far(99), host(5), &answer(&got)));
        }
        assert_eq!((world.handoffs, world.bindings()), (0, 0));
        assert_eq!(
            world.back(&datagram((far(1), 3000), (ALIAS, 81))).verdict,
            Verdict::Drop(DropReason::NatDenied)
        );
    }
}

#[test]
fn ranges_of_ports_keep_their_distance_and_remote_ends_may_be_named() {
    let redirect = NatRedirect::Port {
        proto: Protocol::UDP.0,
        targets: vec![host(5)],
        target_ports: vec![2000..=2099],
        alias: Some(far(77)),
        alias_ports: 5000..=5099,
        remote: Some(far(1)),
        remote_ports: Some(53..=54),
    };
    let mut world = World::new(2, &with(vec![redirect]));
    let got = world.received(&datagram((far(1), 53), (far(77), 5042)));
    assert_eq!(ends(&got)[1], (host(5), 2042));
    assert_eq!(ends(&world.sent(&answer(&got)))[0], (far(77), 5042));
    for (from, to) in [((far(2), 53), 5042), ((far(1), 55), 5042), ((far(1), 53), 5100)] {
        let verdict = world.back(&datagram(from, (far(77), to))).verdict;
        assert_eq!(verdict, Verdict::Drop(DropReason::NatDenied));
    }
    let other = world.sent(&datagram((host(5), 2042), (far(2), 53)));
    assert_eq!(ends(&other)[0].0, ALIAS, "to others it is a host as any");
}

#[test]
fn several_targets_share_the_load_and_each_client_keeps_its_own() {
    let targets: Vec<_> = (0..4).map(host).collect();
    let mut world = World::new(8, &with(vec![port(&targets, 8080, 80)]));
    let mut load = HashMap::new();
    for n in 0..4000_u32 {
        let ask = datagram((far(n % 50), 3000 + u16::try_from(n / 50).unwrap()), (ALIAS, 80));
        let got = world.received(&ask);
        assert_eq!(got, world.received(&ask));
        assert_eq!(world.sent(&answer(&got)), answer(&ask));
        *load.entry(ends(&got)[1].0).or_insert(0) += 1;
    }
    assert!(targets.iter().all(|target| (850..1150).contains(&load[target])), "{load:?}");
}

#[test]
fn a_redirected_address_is_a_host_inside_in_all_that_it_says() {
    for cpus in CPUS {
        let redirect = NatRedirect::Addr { targets: vec![host(5)], alias: far(77) };
        let mut world = World::new(cpus, &with(vec![redirect]));
        let ask = datagram((far(1), 3000), (far(77), 9));
        let got = world.received(&ask);
        assert_eq!(ends(&got)[1], (host(5), 9));
        assert_eq!(world.sent(&answer(&got)), answer(&ask));
        let ping = world.received(&echo_request(far(1).into(), far(77).into(), 3, 1, b""));
        assert_eq!(ends(&ping), [(far(1), 3), (host(5), 3)]);
        assert_eq!(ends(&world.sent(&echo_reply(&ping))), [(far(77), 3), (far(1), 3)]);
        assert_eq!(ends(&world.sent(&datagram((host(5), 1234), (far(2), 53))))[0], (far(77), 1234));
        assert_eq!((world.handoffs, world.bindings()), (0, 0));
    }
}

#[test]
fn a_redirected_protocol_leads_inside() {
    let redirect =
        NatRedirect::Proto { proto: Protocol::GRE.0, target: host(5), alias: None, remote: Some(far(1)) };
    let mut world = World::new(4, &with(vec![redirect]));
    let gre = |src: Ipv4Addr, dst: Ipv4Addr| ip(src.into(), dst.into(), Protocol::GRE, 64, &[0; 12]);
    assert_eq!(ends(&world.back(&gre(far(1), ALIAS)).bytes)[1].0, host(5));
    assert_eq!(ends(&world.out(&gre(host(5), far(1))).bytes)[0].0, ALIAS);
    assert_eq!(world.back(&gre(far(2), ALIAS)).verdict, Verdict::Drop(DropReason::NatDenied));
}

#[test]
fn a_port_that_is_redirected_is_given_to_no_flow() {
    let config = NatConfig { port_range: Some(80..=81), ..with(vec![port(&[host(5)], 8080, 80)]) };
    let mut world = World::new(1, &config);
    assert_eq!(ends(&world.sent(&datagram((host(1), 4000), (far(1), 53))))[0].1, 81);
    let second = world.out(&datagram((host(2), 4000), (far(1), 53)));
    assert_eq!(second.verdict, Verdict::Refuse(DropReason::NatExhausted));
}

#[test]
fn what_cannot_be_redirected_is_refused() {
    use crate::firewall::nat::redirect::{Error, REDIRECTS_MAX, Redirects, TARGETS_MAX};
    let of = |list: &[NatRedirect]| Redirects::new(list, Some(1), 0).map(|_| ()).unwrap_err();
    assert_eq!(of(&[port(&[], 80, 80)]), Error::Targets);
    assert_eq!(of(&[port(&vec![host(1); TARGETS_MAX + 1], 80, 80)]), Error::Targets);
    assert_eq!(of(&vec![port(&[host(1)], 80, 80); REDIRECTS_MAX + 1]), Error::TooMany);
    let NatRedirect::Port { targets, target_ports, alias, remote, remote_ports, .. } =
        port(&[host(1)], 80, 80)
    else {
        unreachable!()
    };
    let wider = NatRedirect::Port {
        proto: 6,
        targets,
        target_ports,
        alias,
        alias_ports: 80..=81,
        remote,
        remote_ports,
    };
    assert_eq!(of(&[wider]), Error::Ports);
    let NatRedirect::Port { targets, target_ports, alias, alias_ports, remote, remote_ports, .. } =
        port(&[host(1)], 80, 80)
    else {
        unreachable!()
    };
    let sctp =
        NatRedirect::Port { proto: 132, targets, target_ports, alias, alias_ports, remote, remote_ports };
    assert_eq!(of(&[sctp]), Error::Protocol(132));
}
