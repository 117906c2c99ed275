use super::*;
use crate::firewall::nat::spec::Error;

fn verdict(config: &NatConfig, src: Ipv4Addr) -> Verdict {
    World::new(1, config).out(&datagram((src, 4000), (Ipv4Addr::new(198, 51, 100, 1), 53))).verdict
}

#[test]
fn only_sources_that_are_to_be_are_translated() {
    let all = NatConfig::default();
    let private = NatConfig { unreg_only: true, ..NatConfig::default() };
    let shared = NatConfig { unreg_cgn: true, ..NatConfig::default() };
    let sources = ["10.9.9.9", "172.16.0.1", "172.31.9.9", "192.168.9.9", "100.64.0.1", "100.127.9.9"];
    let others = ["172.32.0.1", "192.169.0.1", "100.63.9.9", "100.128.0.1", "203.0.113.9"];
    for (n, src) in sources.iter().chain(&others).enumerate() {
        let src = src.parse().unwrap();
        let of = |config| verdict(config, src) == Verdict::Translated;
        assert_eq!([of(&all), of(&private), of(&shared)], [true, n < 4, n < 6], "{src}");
    }
}

#[test]
fn a_port_is_kept_if_that_is_asked_for_and_can_be() {
    let config = NatConfig { same_ports: true, ..NatConfig::default() };
    let mut world = World::new(1, &config);
    assert_eq!(ends(&world.sent(&datagram((host(1), 4000), (far(1), 53))))[0].1, 4000);
    assert_ne!(ends(&world.sent(&datagram((host(2), 4000), (far(1), 53))))[0].1, 4000, "it is taken");
    let ping = world.sent(&echo_request(host(1).into(), far(1).into(), 77, 1, b""));
    assert_eq!(ends(&ping)[0].1, 77);
}

#[test]
fn reversed_what_comes_in_is_translated_as_what_goes_out() {
    let config = NatConfig { reverse: true, ..NatConfig::default() };
    let mut world = World::new(2, &config);
    let got = translated(world.go(&datagram((host(1), 4000), (far(1), 53)), BindingDirection::In, INSIDE));
    assert_eq!(ends(&got)[0].0, ALIAS);
    let back = translated(world.go(&answer(&got), BindingDirection::Out, 0));
    assert_eq!(ends(&back)[1], (host(1), 4000));
}

#[test]
fn with_proxies_only_nothing_is_translated() {
    let config = NatConfig { proxy_only: true, ..NatConfig::default() };
    assert_eq!(verdict(&config, host(1)), Verdict::Untouched);
}

#[test]
fn deny_in_drops_what_comes_in_from_outside_to_whatever_address_and_nothing_else() {
    let denied = Verdict::Drop(DropReason::NatDenied);
    for deny_in in [false, true] {
        let mut world = World::new(1, &NatConfig { deny_in, ..NatConfig::default() });
        // To the outside address, to a host inside by its own, to another network, to all of the link.
        for dst in [ALIAS, host(1), far(9), Ipv4Addr::BROADCAST] {
            let unasked = datagram((far(1), 53), (dst, 4000));
            let expected = if deny_in { denied } else { Verdict::Untouched };
            assert_eq!(world.back(&unasked).verdict, expected, "{dst}");
            let is_passing =
                world.go(&datagram((host(1), 53), (far(9), 4000)), BindingDirection::In, INSIDE).verdict;
            assert_eq!(is_passing, Verdict::Untouched, "what comes in from inside");
        }
        let sent = world.sent(&datagram((host(1), 4000), (far(1), 53)));
        assert_eq!(world.back(&answer(&sent)).verdict, Verdict::Translated);
    }
}

#[test]
fn ipv6_is_left_as_it_is() {
    let mut world = World::new(2, &NatConfig::default());
    let packet = udp(crate::testkit::addr6(1, 9).into(), crate::testkit::addr6(2, 9).into(), (1, 2), b"");
    assert_eq!(world.out(&packet).verdict, Verdict::Untouched);
}

#[test]
fn when_the_address_changes_flows_keep_theirs_or_end() {
    for reset in [false, true] {
        let mut world = World::new(1, &NatConfig { reset, ..NatConfig::default() });
        let sent = world.sent(&datagram((host(1), 4000), (far(1), 53)));
        let config = NatConfig { reset, ip: Some(far(50)), ..NatConfig::default() };
        let spec = Spec::new(1, &config, &Tables::default(), 1).unwrap();
        assert!(world.nats[0].configure(Arc::new(spec), &mut Secret::new(1)));
        assert_eq!(world.bindings(), usize::from(!reset));
        let again = ends(&world.sent(&datagram((host(1), 4000), (far(1), 53))))[0];
        assert_eq!(again == ends(&sent)[0], !reset);
        let new = ends(&world.sent(&datagram((host(2), 4000), (far(1), 53))))[0];
        assert_eq!(new.0, far(50));
    }
}

#[test]
fn an_instance_needs_an_address_or_an_interface_that_exists() {
    let tables = Tables::new(crate::link::tables::Config {
        ifs: vec![crate::testkit::ifnet(1)],
        ..Default::default()
    });
    let new = |config: &NatConfig| Spec::new(1, config, &tables, 1);
    assert_eq!(new(&NatConfig::default()).unwrap_err(), Error::NoAddress);
    let named = |name: &str| NatConfig { interface: Some(name.to_owned()), ..NatConfig::default() };
    assert_eq!(new(&named("em0")).unwrap_err(), Error::NoInterface("em0".to_owned()));
    let spec = new(&named("mem1")).unwrap();
    assert_eq!((spec.addr, spec.outside_if), (Some(ALIAS.to_bits()), OUTSIDE));
    let mut bare = crate::testkit::ifnet(1);
    bare.addrs.clear();
    let tables = Tables::new(crate::link::tables::Config { ifs: vec![bare], ..Default::default() });
    let spec = Spec::new(1, &named("mem1"), &tables, 1).unwrap();
    let mut world = World::new(1, &NatConfig::default());
    assert!(world.nats[0].configure(Arc::new(spec), &mut Secret::new(1)));
    let fate = world.out(&datagram((host(1), 4000), (far(1), 53)));
    assert_eq!(fate.verdict, Verdict::Refuse(DropReason::NatNoAddress));
}

#[test]
fn of_several_instances_each_packet_takes_the_one_that_is_named_or_the_first_that_translates_it() {
    use crate::firewall::nat::INSTANCES_MAX;
    let mut world = World::new(1, &NatConfig { unreg_only: true, ..NatConfig::default() });
    let other = |number| {
        let config = NatConfig { ip: Some(far(60)), ..NatConfig::default() };
        Arc::new(Spec::new(number, &config, &Tables::default(), 1).unwrap())
    };
    let nat = &mut world.nats[0];
    assert!(
        (2..=u16::try_from(INSTANCES_MAX).unwrap()).all(|n| nat.configure(other(n), &mut Secret::new(1)))
    );
    assert!(!nat.configure(other(9999), &mut Secret::new(1)), "no more than there may be");
    let mut source = |src: Ipv4Addr, number: Option<u16>| {
        let cpu = &mut world.bench.netisrs[0].cpu;
        let mut pkt = load(&mut cpu.pool, &datagram((src, 4000), (far(1), 53)).into()).unwrap();
        let mut here = Here {
            now: world.now,
            cpu: CpuId(0),
            placement: world.placement,
            secret: &mut world.secrets[0],
            counters: &mut cpu.counters,
        };
        let nat = &mut world.nats[0];
        let verdict = match number {
            Some(number) => nat.translate(number, &mut here, &mut pkt, BindingDirection::Out),
            None => nat.translate_by_any(&mut here, &mut pkt, BindingDirection::Out),
        };
        let src = ends(pkt.head())[0].0;
        cpu.pool.give(pkt);
        (verdict == Verdict::Translated).then_some(src)
    };
    assert_eq!(source(host(1), None), Some(ALIAS));
    assert_eq!(source(far(9), None), Some(far(60)));
    assert_eq!(source(host(1), Some(2)), Some(far(60)));
    assert_eq!(source(host(1), Some(999)), None);
    let nat = &mut world.nats[0];
    assert!(nat.deadline().is_some());
    assert!(nat.delete(1) && !nat.delete(1) && nat.get(1).is_none());
}
