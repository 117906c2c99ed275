use super::*;

#[test]
fn echoes_go_out_and_come_back_with_their_identifiers_on_any_number_of_cpus() {
    for cpus in CPUS {
        let mut world = World::new(cpus, &NatConfig::default());
        for n in 0..300 {
            let request = echo_request(host(n).into(), far(n % 3).into(), 7, 1, b"abc");
            let sent = world.out(&request);
            let cpu = sent.cpu;
            let sent = translated(sent);
            assert_eq!((ends(&sent)[0].0, ends(&sent)[1].0), (ALIAS, far(n % 3)));
            let handoffs = world.handoffs;
            let back = world.back(&echo_reply(&sent));
            assert_eq!((back.cpu, world.handoffs), (cpu, handoffs), "the answer comes where the binding is");
            assert_eq!(translated(back), echo_reply(&request));
        }
        assert_eq!(world.bindings(), 300);
    }
}

#[test]
fn icmp_errors_reach_the_inside_host_with_a_translated_quote_of_each_protocol() {
    for cpus in CPUS {
        let mut world = World::new(cpus, &NatConfig::default());
        for n in 0..50 {
            let (inside, remote) = ((host(n), 4000), (far(n), 443));
            let plain = [
                datagram(inside, remote),
                segment(inside, remote, tcp::Flags::SYN),
                echo_request(inside.0.into(), remote.0.into(), 9, 1, b"abc"),
            ];
            for packet in plain {
                let sent = world.sent(&packet);
                let router = far(200);
                // From a router on the way: whole, and with the eight bytes behind the header that there are at least.
                for len in [28, sent.len()] {
                    let got = world.received(&error(router, ALIAS, &sent[..len]));
                    assert_eq!(got, error(router, inside.0, &packet[..len]));
                }
            }
        }
        assert_eq!(world.bindings(), 150, "errors begin nothing");
    }
}

#[test]
fn errors_from_inside_tell_nothing_of_inside() {
    for cpus in CPUS {
        let mut world = World::new(cpus, &NatConfig::default());
        for n in 0..50 {
            let sent = world.sent(&datagram((host(n), 4000), (far(1), 53)));
            let reply = answer(&sent);
            let got = world.received(&reply);
            for who in [host(n), host(999), ALIAS] {
                let told = world.sent(&error(who, far(1), &got[..28]));
                assert_eq!(told, error(ALIAS, far(1), &reply[..28]));
            }
        }
    }
}

#[test]
fn an_error_whose_quote_fits_no_binding_in_all_of_it_is_not_translated() {
    let config = NatConfig { deny_in: true, ..NatConfig::default() };
    let mut world = World::new(4, &config);
    let sent = world.sent(&datagram((host(1), 4000), (far(1), 53)));
    let [outside, remote] = ends(&sent);
    let denied = Verdict::Drop(DropReason::NatDenied);
    let forged = [
        datagram((ALIAS, outside.1 ^ 1), remote),
        datagram(outside, (far(2), remote.1)),
        datagram(outside, (remote.0, 54)),
        segment(outside, remote, tcp::Flags::SYN),
        datagram((host(1), 4000), remote),
        sent[..20].to_vec(),
        sent[..23].to_vec(),
        sent[..7].to_vec(),
    ];
    for quote in forged {
        assert_eq!(world.back(&error(far(1), ALIAS, &quote)).verdict, denied, "{quote:x?}");
    }
    assert_eq!(world.back(&error(far(1), ALIAS, &sent)).verdict, Verdict::Translated);
}

#[test]
fn an_error_from_inside_about_nothing_that_is_known_dies_and_our_own_goes() {
    let mut world = World::new(4, &NatConfig::default());
    let quote = datagram((far(1), 53), (host(1), 4000));
    let nobodys = error(host(1), far(1), &quote);
    assert_eq!(world.out(&nobodys).verdict, Verdict::Drop(DropReason::NatUnknown));
    let ours = error(ALIAS, far(1), &datagram((far(1), 53), (ALIAS, 4000)));
    assert_eq!(world.out(&ours).verdict, Verdict::Untouched);
}

#[test]
fn an_error_keeps_no_binding_alive() {
    let mut world = World::new(1, &NatConfig::default());
    let sent = world.sent(&datagram((host(1), 4000), (far(1), 53)));
    world.wait(200);
    world.received(&error(far(2), ALIAS, &sent));
    world.wait(102);
    assert_eq!(world.back(&answer(&sent)).verdict, Verdict::Untouched);
}

#[test]
fn when_no_identifier_is_left_for_a_remote_host_a_query_is_refused_and_others_go_on() {
    let mut world = World::new(1, &NatConfig::default());
    let mut refused = 0;
    for n in 0..70_000 {
        let fate = world.out(&echo_request(host(n).into(), far(1).into(), 7, 1, b""));
        if fate.verdict != Verdict::Translated {
            assert_eq!(fate.verdict, Verdict::Refuse(DropReason::NatExhausted));
            refused += 1;
        }
    }
    assert_eq!(world.bindings() + refused, 70_000);
    // Of 65,536 identifiers nearly all are found, although no more than 256 are tried.
    assert!((4464..6000).contains(&refused), "{refused}");
    world.sent(&echo_request(host(1).into(), far(2).into(), 7, 1, b""));
}
