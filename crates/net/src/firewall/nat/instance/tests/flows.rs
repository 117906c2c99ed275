use super::*;

#[test]
fn a_thousand_connections_through_one_address_come_back_to_the_cpu_that_owns_them() {
    for cpus in CPUS {
        let mut world = World::new(cpus, &NatConfig::default());
        for n in 0..1000 {
            let inside = (host(n % 50), 4000 + u16::try_from(n).unwrap());
            let remote = (far(n % 7), 443);
            let syn = world.out(&segment(inside, remote, tcp::Flags::SYN));
            let [outside, to] = ends(&syn.bytes);
            assert_eq!((outside.0, to), (ALIAS, remote));
            let ack = world.back(&segment(remote, outside, tcp::Flags::SYN | tcp::Flags::ACK));
            assert_eq!((ack.verdict, ack.cpu), (Verdict::Translated, syn.cpu));
            assert_eq!(ends(&translated(ack)), [remote, inside]);
        }
        assert_eq!((world.handoffs, world.bindings()), (0, 1000));
    }
}

#[test]
fn sixty_thousand_connections_to_one_remote_end_fit_one_address() {
    for (cpus, refused_max) in [(1, 0), (2, 0), (8, 0), (24, 20), (64, 400)] {
        let mut world = World::new(cpus, &NatConfig::default());
        let mut ports = HashMap::new();
        let mut refused = 0;
        for n in 0..60_000 {
            let inside = (host(n / 60), 10_000 + u16::try_from(n % 60 * 7).unwrap());
            let fate = world.out(&datagram(inside, (far(1), 53)));
            if fate.verdict == Verdict::Refuse(DropReason::NatExhausted) {
                refused += 1;
                continue;
            }
            let bytes = translated(fate);
            assert_eq!(ports.insert(ends(&bytes)[0].1, inside), None, "each has a port of its own");
        }
        assert!(refused <= refused_max, "{refused} with {cpus} CPUs");
        for (port, inside) in &ports {
            let back = world.received(&datagram((far(1), 53), (ALIAS, *port)));
            assert_eq!(ends(&back)[1], *inside);
        }
        assert_eq!((world.handoffs, world.bindings()), (0, ports.len()));
    }
}

#[test]
fn what_went_out_comes_back_byte_for_byte() {
    let mut world = World::new(4, &NatConfig::default());
    let ask = datagram((host(1), 4000), (far(1), 53));
    let sent = world.sent(&ask);
    let back = world.received(&answer(&sent));
    assert_eq!(back, answer(&ask));
}

#[test]
fn a_host_has_the_same_port_for_all_others_whichever_cpu_they_are_on() {
    for cpus in CPUS {
        let mut world = World::new(cpus, &NatConfig::default());
        let mut cpus_seen = HashMap::new();
        let ports = (0..200).map(|n| {
            let fate = world.out(&datagram((host(1), 4000), (far(n), 1000 + u16::try_from(n).unwrap() * 3)));
            cpus_seen.insert(fate.cpu, ());
            ends(&fate.bytes)[0].1
        });
        let ports: HashMap<u16, ()> = ports.map(|port| (port, ())).collect();
        assert_eq!(ports.len(), 1, "{cpus} CPUs");
        assert!(cpus_seen.len() > usize::from(cpus) / 2);
    }
}

#[test]
fn only_the_pinged_host_may_answer() {
    let config = NatConfig { deny_in: true, ..NatConfig::default() };
    let mut world = World::new(4, &config);
    let sent = world.sent(&datagram((host(1), 4000), (far(1), 53)));
    let outside = ends(&sent)[0];
    let denied = Verdict::Drop(DropReason::NatDenied);
    assert_eq!(world.back(&datagram((far(2), 53), outside)).verdict, denied);
    assert_eq!(world.back(&datagram((far(1), 54), outside)).verdict, denied);
    assert_eq!(world.back(&segment((far(1), 53), outside, tcp::Flags::SYN)).verdict, denied);
    assert_eq!(world.back(&answer(&sent)).verdict, Verdict::Translated);
    assert_eq!(world.back(&datagram((far(1), 53), (far(9), outside.1))).verdict, denied);
}

#[test]
fn when_no_port_is_left_for_a_remote_end_a_flow_is_refused_and_others_go_on() {
    for cpus in [1, 2, 24] {
        let config = NatConfig { port_range: Some(5000..=5255), ..NatConfig::default() };
        let mut world = World::new(cpus, &config);
        let mut ports = HashMap::new();
        for n in 0..4000 {
            let inside = (host(n), 4000);
            let fate = world.out(&datagram(inside, (far(1), 53)));
            if fate.verdict == Verdict::Translated {
                ports.insert(ends(&fate.bytes)[0].1, inside);
            } else {
                assert_eq!(fate.verdict, Verdict::Refuse(DropReason::NatExhausted));
            }
        }
        assert_eq!(ports.len(), 256, "each port was used, with {cpus} CPUs");
        let other = world.out(&datagram((host(1), 4000), (far(2), 53)));
        assert_eq!(other.verdict, Verdict::Translated, "another remote end has all ports");
        world.wait(302);
        assert!(world.nats.iter_mut().map(|nat| nat.expire(world.now, 1000)).sum::<usize>() > 0);
        assert_eq!(world.bindings(), 0);
        assert_eq!(world.out(&datagram((host(1), 4000), (far(1), 53))).verdict, Verdict::Translated);
    }
}

#[test]
fn a_port_whose_binding_has_ended_is_free_though_nobody_looked() {
    let config = NatConfig { port_range: Some(5000..=5000), ..NatConfig::default() };
    let mut world = World::new(1, &config);
    assert_eq!(world.out(&datagram((host(1), 4000), (far(1), 53))).verdict, Verdict::Translated);
    assert_ne!(world.out(&datagram((host(2), 4000), (far(1), 53))).verdict, Verdict::Translated);
    world.wait(302);
    assert_eq!(world.out(&datagram((host(2), 4000), (far(1), 53))).verdict, Verdict::Translated);
}

#[test]
fn when_there_are_as_many_bindings_as_may_be_a_flow_is_refused() {
    let mut world = World::new(1, &NatConfig::default());
    let tables = Tables::default();
    let config = NatConfig { ip: Some(ALIAS), ..NatConfig::default() };
    let mut spec = Spec::new(1, &config, &tables, 1).unwrap();
    spec.max = 10;
    assert!(world.nats[0].configure(Arc::new(spec), &mut Secret::new(1)));
    for n in 0..10 {
        world.sent(&datagram((host(n), 4000), (far(1), 53)));
    }
    let fate = world.out(&datagram((host(10), 4000), (far(1), 53)));
    assert_eq!(fate.verdict, Verdict::Refuse(DropReason::NatFull));
    world.sent(&datagram((host(3), 4000), (far(1), 53)));
}

#[test]
fn what_this_host_sends_itself_keeps_its_port_unless_another_has_it() {
    let mut world = World::new(4, &NatConfig::default());
    let own = datagram((ALIAS, 123), (far(1), 123));
    assert_eq!(world.sent(&own), own);
    let sent = world.sent(&datagram((host(1), 4000), (far(1), 53)));
    let [outside, remote] = ends(&sent);
    let other = world.sent(&datagram((ALIAS, outside.1), remote));
    assert_ne!(ends(&other)[0].1, outside.1);
    assert_eq!(ends(&world.received(&answer(&sent)))[1], (host(1), 4000));
    assert_eq!(ends(&world.received(&answer(&other)))[1], (ALIAS, outside.1));
}

#[test]
fn fragments_are_reassembled_first_and_first_ones_too_short_to_know_die() {
    let mut world = World::new(2, &NatConfig::default());
    let fragment = |src: Ipv4Addr, dst: Ipv4Addr, word: u16| {
        let mut packet = datagram((src, 4000), (dst, 53));
        packet[6..8].copy_from_slice(&word.to_be_bytes());
        fix_ip4_checksum(&mut packet);
        packet
    };
    for word in [0x2000, 0x2004, 0x0005] {
        assert_eq!(world.out(&fragment(host(1), far(1), word)).verdict, Verdict::Reassemble);
        assert_eq!(world.back(&fragment(far(1), ALIAS, word)).verdict, Verdict::Reassemble);
        assert_eq!(world.back(&fragment(far(1), far(2), word)).verdict, Verdict::Untouched);
    }
    let tiny = ip(IpAddr::from(host(1)), far(1).into(), Protocol::TCP, 64, &[0; 3]);
    assert_eq!(world.out(&tiny).verdict, Verdict::Drop(DropReason::NatMalformed));
}

#[test]
fn what_has_no_ports_goes_through_one_host_at_a_time() {
    for cpus in [1, 2, 24] {
        let mut world = World::new(cpus, &NatConfig::default());
        let gre = |src: Ipv4Addr, dst: Ipv4Addr| ip(src.into(), dst.into(), Protocol::GRE, 64, &[0; 12]);
        let fate = world.out(&gre(host(1), far(1)));
        assert_eq!(ends(&fate.bytes), [(ALIAS, 0), (far(1), 0)]);
        let back = world.back(&gre(far(1), ALIAS));
        assert_eq!((back.cpu, ends(&back.bytes)[1].0), (fate.cpu, host(1)));
        let other = world.out(&gre(host(2), far(1)));
        assert_eq!(other.verdict, Verdict::Refuse(DropReason::NatExhausted));
        assert_eq!(world.out(&gre(host(2), far(2))).verdict, Verdict::Translated);
    }
}

#[test]
fn the_short_way_of_bound_flows_is_the_careful_one() {
    let far_away = NatRedirect::Addr { targets: vec![host(0xffff)], alias: far(0xff) };
    // Where something is redirected, no packet goes the short way.
    let careful = NatConfig { redirects: vec![far_away], ..NatConfig::default() };
    let mut worlds = [&NatConfig::default(), &careful].map(|config| World::new(4, config));
    for n in 0..200_u32 {
        let (inside, remote) = ((host(n % 20), 4000), (far(n % 3), 443));
        let flags = [tcp::Flags::SYN, tcp::Flags::ACK, tcp::Flags::FIN | tcp::Flags::ACK, tcp::Flags::RST];
        let flags = flags[usize::try_from(n / 20 % 4).unwrap()];
        let packet = if n % 2 == 0 { segment(inside, remote, flags) } else { datagram(inside, remote) };
        let [sent, same] = worlds.each_mut().map(|world| world.sent(&packet));
        assert_eq!(sent, same);
        let [src, dst] = ends(&sent);
        let back = if n % 2 == 0 { segment(dst, src, flags) } else { datagram(dst, src) };
        let [got, same] = worlds.each_mut().map(|world| world.received(&back));
        assert_eq!(got, same);
        let lives = worlds.each_ref().map(|world| {
            let all = world.nats.iter().flat_map(|nat| nat.get(1).unwrap().table().iter_from(0));
            all.map(|binding| (binding.left_s(Tick::at(world.now)), binding.packets())).collect::<Vec<_>>()
        });
        assert_eq!(lives[0], lives[1]);
        worlds.iter_mut().for_each(|world| world.wait(7));
    }
}

#[test]
fn an_instance_knows_how_many_flows_it_has_of_each_protocol_and_why_others_were_refused() {
    let config = NatConfig { port_range: Some(5000..=5001), ..NatConfig::default() };
    let mut world = World::new(1, &config);
    for n in 0..3 {
        world.out(&datagram((host(n), 4000), (far(1), 53)));
        world.out(&segment((host(n), 4000), (far(1), 53), tcp::Flags::SYN));
    }
    world.sent(&echo_request(host(1).into(), far(1).into(), 7, 1, b""));
    let instance = |world: &World| {
        let instance = world.nats[0].get(1).unwrap();
        (instance.table().by_protocol(), instance.totals())
    };
    let (has, totals) = instance(&world);
    assert_eq!(has, ByProtocol { icmp: 1, tcp: 2, udp: 2, other: 0 });
    // The third half-open connection has the port of the first.
    assert_eq!(totals, Totals { begun: 6, no_port: 1, ..Totals::default() });
    world.wait(302);
    world.nats[0].expire(world.now, 1000);
    let (has, totals) = instance(&world);
    assert_eq!((has, totals.begun), (ByProtocol::default(), 6));
}
