mod peer;

use super::*;
use peer::{Faults, Peer, World};
use wire::ppp::{lcp, protocol};

fn settings() -> Settings {
    Settings {
        user: Some(("user".to_owned(), Password("secret".to_owned()))),
        dns: true,
        mru: lcp_mru(),
        echo_interval: 5_000,
        echo_failures: 3,
        mac: [2, 0, 0, 0, 0, 9],
        ..Settings::default()
    }
}

const fn lcp_mru() -> u16 {
    super::lcp::MRU
}

/// A client and an access concentrator that authenticates it by this protocol.
fn world(auth: Option<u16>, seed: u64) -> World {
    World::new(settings(), Peer { auth, ..Peer::default() }, seed)
}

#[test]
fn a_session_opens_with_addresses_name_servers_and_identifiers() {
    for auth in [None, Some(protocol::PAP), Some(protocol::CHAP)] {
        let mut world = world(auth, 1);
        world.run(5_000);
        let link = world.client.link().unwrap_or_else(|| panic!("{auth:?}: {:?}", world.client));
        let v4 = link.v4.unwrap();
        assert_eq!((v4.addr, v4.peer), ([10, 64, 0, 100].into(), Some([10, 64, 0, 1].into())));
        assert_eq!(v4.dns, [core::net::Ipv4Addr::new(10, 64, 0, 53), [10, 64, 0, 54].into()]);
        let v6 = link.v6.unwrap();
        assert_eq!(v6.id, 0x0000_00ff_fe00_0009, "of the link address");
        assert_eq!(v6.peer, Some("fe80::1".parse().unwrap()));
        assert_eq!((link.session, link.mtu), (1, 1492));
        assert_eq!((world.client.phase(), world.peer.user.as_deref()), (Phase::Open, auth.map(|_| "user")));
        assert!(world.took < 100, "{} ms", world.took);
    }
}

#[test]
fn whatever_a_lossy_link_does_a_session_opens() {
    for seed in 0..200 {
        let auth = [None, Some(protocol::PAP), Some(protocol::CHAP)][usize::try_from(seed % 3).unwrap()];
        let mut world = world(auth, seed);
        world.faults = Faults { loses: 25, repeats: 15, delays: 30 };
        world.run_until(600_000, |world| {
            world.client.link().is_some_and(|link| link.v4.is_some() && link.v6.is_some())
        });
        assert!(world.client.link().is_some(), "seed {seed}: {:?}", world.client);
        // What is said again and again is bounded.
        assert!(world.client.counts.sent < 2_000, "seed {seed}: {} frames", world.client.counts.sent);
    }
}

#[test]
fn a_wrong_password_is_told_and_tried_less_and_less_often() {
    for auth in [protocol::PAP, protocol::CHAP] {
        let mut world = world(Some(auth), 3);
        world.peer.password = "other".to_owned();
        world.run(600_000);
        assert_eq!(world.client.link(), None);
        assert_eq!(world.client.last_error.as_deref(), Some("authentication failed: denied"), "{auth:#x}");
        let sessions = world.client.counts.sessions;
        assert!((8..=14).contains(&sessions), "{sessions} attempts in ten minutes");
        world.peer.password = "secret".to_owned();
        world.run(100_000);
        assert!(world.client.link().is_some());
    }
}

#[test]
fn a_peer_that_wants_what_we_do_not_do_is_told_what_we_do() {
    for (auth, own, opens) in [
        (protocol::PAP, Auth::Chap, false),
        (protocol::CHAP, Auth::Pap, false),
        (protocol::PAP, Auth::Any, true),
        (protocol::PAP, Auth::Pap, true),
    ] {
        let peer = Peer { auth: Some(auth), ..Peer::default() };
        let mut world = World::new(Settings { auth: own, ..settings() }, peer, 4);
        world.run(20_000);
        assert_eq!(world.client.link().is_some(), opens, "{auth:#x}, {own:?}");
        let proposed = if own == Auth::Pap { protocol::PAP } else { protocol::CHAP };
        assert_eq!(world.peer.proposed, (!opens).then_some(proposed));
    }
    // Without a password there is nothing to propose.
    let peer = Peer { auth: Some(protocol::CHAP), ..Peer::default() };
    let mut world = World::new(Settings { user: None, ..settings() }, peer, 5);
    world.run(20_000);
    assert_eq!((world.client.link(), world.peer.rejected.first()), (None, Some(&lcp::AUTH)));
}

#[test]
fn a_link_that_comes_back_to_itself_is_noticed() {
    let mut world = world(None, 6);
    world.peer.is_loop = true;
    world.run(5_000);
    assert_eq!(world.client.link(), None);
    assert_eq!(world.client.last_error.as_deref(), Some("the link is looped"));
}

#[test]
fn a_silent_peer_is_given_up_and_looked_for_again() {
    let mut world = world(Some(protocol::CHAP), 7);
    world.run(40_000);
    assert!(world.client.link().is_some());
    assert_eq!(world.client.counts.echo_lost, 0, "echoes are answered");
    world.peer.is_silent = true;
    world.run(25_000);
    assert_eq!(world.client.link(), None, "{:?}", world.client);
    assert_eq!(world.client.last_error.as_deref(), Some("no answer to LCP echo requests"));
    assert_eq!(world.peer.ended, [1], "it was told that the session has ended");
    world.peer.is_silent = false;
    world.run(100_000);
    assert_eq!(world.client.link().map(|link| link.session), Some(2));
}

#[test]
fn without_echo_requests_a_session_is_not_given_up() {
    let mut world = World::new(Settings { echo_interval: 0, ..settings() }, Peer::default(), 8);
    world.run(1_000);
    world.peer.is_silent = true;
    world.run(3_600_000);
    assert_eq!(world.client.link().map(|link| link.session), Some(1));
}

#[test]
fn the_end_of_a_session_is_believed_of_its_access_concentrator_alone() {
    for ends in [World::padt as fn(&mut World), World::terminate] {
        let mut world = world(None, 9);
        world.run(1_000);
        let (_, acts) = world.client.arrived(
            Mac([2, 0, 0, 0, 0, 66]),
            EtherType::PPPOE_DISCOVERY,
            &discovery::padt(1),
            1_000,
        );
        assert_eq!((acts, world.client.counts.ignored), (vec![], 1), "a stranger");
        let (_, acts) =
            world.client.arrived(peer::MAC, EtherType::PPPOE_DISCOVERY, &discovery::padt(7), 1_000);
        assert_eq!((acts, world.client.counts.ignored), (vec![], 2), "another session");
        assert!(world.client.link().is_some());
        ends(&mut world);
        world.run(10);
        assert_eq!((world.client.link(), world.client.phase()), (None, Phase::Waiting));
        world.run(10_000);
        assert_eq!(world.client.link().map(|link| link.session), Some(2));
    }
}

#[test]
fn pauses_grow_differ_and_are_forgotten_after_a_steady_session() {
    let pauses = |seed| {
        let mut world = world(None, seed);
        world.run(1_000);
        let mut all = Vec::new();
        for _ in 0..8 {
            world.padt();
            world.run(5);
            all.push(world.client.next().saturating_sub(world.now));
            world.run_until(100_000, |world| world.client.link().is_some());
        }
        // A session that holds.
        world.run(40_000);
        world.padt();
        world.run(5);
        all.push(world.client.next().saturating_sub(world.now));
        all
    };
    let (one, other) = (pauses(10), pauses(12));
    assert_ne!(one, other);
    assert!((790..=1_200).contains(&one[0]) && (47_990..=72_000).contains(&one[7]), "{one:?}");
    assert!((790..=1_200).contains(&one[8]), "{one:?}");
}

#[test]
fn only_the_service_and_the_concentrator_that_were_asked_for_are_taken() {
    for (service, ac, opens) in [
        ("", None, true),
        ("fast", None, true),
        ("slow", None, false),
        ("", Some("test-ac"), true),
        ("", Some("another"), false),
    ] {
        let wanted = Wanted { service: service.to_owned(), ac: ac.map(str::to_owned), max_payload: None };
        let mut world = World::new(Settings { wanted, ..settings() }, Peer::default(), 12);
        world.run(100_000);
        assert_eq!(world.client.link().is_some(), opens, "{service:?} {ac:?}");
        if !opens {
            // One, two, four … seconds and then half a minute.
            assert!((5..=12).contains(&world.client.counts.sent), "{}", world.client.counts.sent);
        }
    }
}

#[test]
fn errors_of_discovery_are_told() {
    let mut world = world(None, 13);
    world.peer.refuses = Some("no port free");
    world.run(1_000);
    let error = world.client.last_error.as_deref();
    assert_eq!(error, Some("failure of the access concentrator: no port free"));
    world.peer.refuses = None;
    world.run(60_000);
    assert!(world.client.link().is_some());
}

#[test]
fn each_family_does_without_the_other() {
    for (rejects, v4, v6) in [
        (vec![protocol::IPV6CP], true, false),
        (vec![protocol::IPCP], false, true),
        (vec![protocol::IPCP, protocol::IPV6CP], false, false),
    ] {
        let mut world = World::new(settings(), Peer { rejects: rejects.clone(), ..Peer::default() }, 14);
        world.run(2_000);
        let link = world.client.link();
        let has = |family: fn(&Link) -> bool| link.as_ref().is_some_and(family);
        assert_eq!((has(|link| link.v4.is_some()), has(|link| link.v6.is_some())), (v4, v6), "{rejects:?}");
        if !v4 && !v6 {
            let error = world.client.last_error.as_deref();
            assert_eq!(error, Some("the peer gives neither an IPv4 nor an IPv6 link"));
        }
    }
}

#[test]
fn more_than_1492_bytes_are_carried_if_both_ends_agree() {
    for (grants, mtu) in [(true, 1500), (false, 1492)] {
        let wanted = Wanted { max_payload: Some(1500), ..Wanted::default() };
        let peer = Peer { grants_payload: grants, mru: 1500, ..Peer::default() };
        let mut world = World::new(Settings { wanted, mru: 1500, ..settings() }, peer, 15);
        world.run(1_000);
        assert_eq!(world.client.link().map(|link| link.mtu), Some(mtu));
    }
    // The smaller of what both take.
    let mut world = World::new(settings(), Peer { mru: 1400, ..Peer::default() }, 16);
    world.run(1_000);
    assert_eq!(world.client.link().map(|link| link.mtu), Some(1400));
}

#[test]
fn a_challenge_in_an_open_session_is_answered() {
    let mut world = world(Some(protocol::CHAP), 17);
    world.run(1_000);
    let before = world.peer.verdicts;
    world.challenge();
    world.run(100);
    assert_eq!((world.peer.verdicts, world.client.phase()), (before + 1, Phase::Open));
}

#[test]
fn a_peer_that_negotiates_anew_gets_a_session_that_carries_what_it_says_then() {
    let mut world = world(Some(protocol::PAP), 18);
    world.run(1_000);
    world.peer.remote = [10, 64, 0, 200].into();
    world.renegotiate();
    world.run(5_000);
    let v4 = world.client.link().and_then(|link| link.v4);
    assert_eq!(v4.map(|v4| v4.addr), Some([10, 64, 0, 200].into()));
    assert_eq!(world.client.counts.sessions, 1);
}

#[test]
fn a_link_that_goes_down_ends_the_session_and_one_that_comes_up_is_used_at_once() {
    let mut world = world(None, 19);
    world.run(1_000);
    world.carrier(false);
    assert_eq!((world.client.link(), world.client.phase()), (None, Phase::Down));
    world.run(100_000);
    world.carrier(true);
    world.run(100);
    assert!(world.client.link().is_some());
}

/// Whatever bytes come, in whatever state: nothing but a wrong session ends, and answers are few.
#[test]
fn any_bytes_are_taken_without_a_panic() {
    let mut random = 99;
    for round in 0..3_000 {
        let mut world = world(Some(protocol::CHAP), round);
        world.run(round % 60);
        let mut frame = world.last.clone();
        for _ in 0..4 {
            random = next_random(random);
            let at = usize::try_from(random % 64).unwrap() % frame.len().max(1);
            if let Some(byte) = frame.get_mut(at) {
                *byte = random.to_be_bytes()[0];
            }
        }
        frame.truncate(usize::try_from(random >> 8 & 0x7f).unwrap().max(6));
        for ethertype in [EtherType::PPPOE_DISCOVERY, EtherType::PPPOE_SESSION] {
            let (_, acts) = world.client.arrived(peer::MAC, ethertype, &frame, world.now);
            assert!(acts.len() < 12, "{acts:?}");
        }
    }
}
