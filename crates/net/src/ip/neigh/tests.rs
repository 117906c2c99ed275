use core::net::IpAddr;
use core::time::Duration;

use ::wire::ether::Mac;

use super::*;
use crate::base::count::Count;
use crate::fib::{Prefix, Route, To};
use crate::link::tables::Config;
use crate::testkit::link::{FAMILIES, Family, Said, answer, claim, question, question_to};
use crate::testkit::{Bench, build, ifnet, mac};
use crate::turn::netisr::dispatch;

mod published;

const HOST: Mac = Mac([6, 0, 0, 0, 0, 0x10]);
const OTHER: Mac = Mac([6, 0, 0, 0, 0, 0x66]);
const SECOND: Duration = Duration::from_secs(1);

/// Makes a stack on whose link no host answers by itself.
fn bench() -> Bench {
    let mut bench = Bench::new(2);
    bench.neighbours_answer = false;
    bench
}

/// Forwards a packet to `to`, on the link of interface 2. `n` marks it.
fn forward(bench: &mut Bench, to: IpAddr, n: u8) {
    forward_quietly(bench, to, n);
    bench.run();
}

fn forward_quietly(bench: &mut Bench, to: IpAddr, n: u8) {
    let from = if to.is_ipv4() { Family::V4 } else { Family::V6 }.addr(1, 9);
    let cpu = bench.cpu();
    let mut pkt = cpu.pool.take().expect("a buffer");
    let bytes = build::udp(from, to, (1, 2), &[n]);
    pkt.append(bytes.len()).unwrap().copy_from_slice(&bytes);
    pkt.outif = 2;
    let next = link(cpu, &mut pkt, to);
    dispatch(cpu, pkt, next);
}

/// The packets that left by interface 2: to which link address, and their marks.
fn forwarded(bench: &mut Bench) -> Vec<(Mac, u8)> {
    let frames = bench.sent(2).into_iter().filter(|frame| crate::testkit::link::said(frame).is_none());
    frames.map(|frame| (Mac(*frame.first_chunk().unwrap()), *frame.last().unwrap())).collect()
}

fn state(bench: &mut Bench, addr: IpAddr) -> Option<State> {
    entries(bench.cpu()).into_iter().find(|entry| entry.key.addr == addr).map(|entry| entry.state)
}

fn key(addr: IpAddr) -> Key {
    Key { ifindex: 2, addr }
}

/// Brings `host` to REACHABLE: resolved by a packet.
fn resolve(bench: &mut Bench, host: IpAddr) {
    forward(bench, host, 0);
    bench.hear(2, &answer(2, HOST, host));
    assert_eq!(state(bench, host), Some(State::Reachable));
    bench.forget_sent();
}

/// Where a packet to `host` goes now.
fn goes_to(bench: &mut Bench, host: IpAddr) -> Vec<Mac> {
    forward(bench, host, 0);
    forwarded(bench).into_iter().map(|(mac, _)| mac).collect()
}

#[test]
fn the_first_packet_waits_for_the_answer_and_the_next_goes_at_once() {
    for family in FAMILIES {
        let (mut bench, host) = (bench(), family.addr(2, 16));
        forward(&mut bench, host, 1);
        assert!(
            matches!(bench.said(2)[..], [Said::Asked { target, source, .. }]
            if target == host && source == family.addr(2, 1)),
            "{family:?}"
        );
        bench.hear(2, &answer(2, HOST, host));
        forward(&mut bench, host, 2);
        assert_eq!(forwarded(&mut bench), [(HOST, 1), (HOST, 2)], "{family:?}");
        assert_eq!(state(&mut bench, host), Some(State::Reachable));
    }
}

#[test]
fn a_frame_has_our_source_and_the_ethertype_of_its_packet() {
    for (family, ethertype) in FAMILIES.into_iter().zip([[0x08, 0x00], [0x86, 0xdd]]) {
        let (mut bench, host) = (bench(), family.addr(2, 16));
        bench.hear(2, &question(HOST, host, family.addr(2, 1)));
        bench.forget_sent();
        forward(&mut bench, host, 1);
        let frame = &bench.sent(2)[0];
        assert_eq!((&frame[6..12], &frame[12..14]), (&mac(2).0[..], &ethertype[..]));
    }
}

#[test]
fn a_neighbour_that_never_answers_is_asked_three_times_and_its_packets_are_answered() {
    for family in FAMILIES {
        let (mut bench, host) = (bench(), family.addr(2, 16));
        forward(&mut bench, host, 1);
        bench.advance(SECOND * 2 + SECOND / 2);
        assert_eq!(bench.said(2).len(), 3, "{family:?}");
        assert_eq!(bench.dropped(DropReason::NeighUnreachable), 0);
        bench.advance(SECOND);
        assert_eq!(bench.dropped(DropReason::NeighUnreachable), 1);
        assert_eq!(state(&mut bench, host), None);
    }
}

#[test]
fn a_neighbour_that_did_not_answer_is_not_asked_again_for_a_while() {
    for family in FAMILIES {
        let (mut bench, host) = (bench(), family.addr(2, 16));
        forward(&mut bench, host, 1);
        bench.advance(SECOND * 4);
        bench.forget_sent();
        forward(&mut bench, host, 2);
        assert!(bench.said(2).is_empty(), "{family:?}");
        assert_eq!(bench.dropped(DropReason::NeighUnreachable), 2);
        bench.advance(SECOND * 3);
        forward(&mut bench, host, 3);
        assert_eq!(bench.said(2).len(), 1, "{family:?}");
    }
}

#[test]
fn a_neighbour_that_did_not_answer_is_reached_as_soon_as_it_speaks() {
    for family in FAMILIES {
        let (mut bench, host) = (bench(), family.addr(2, 16));
        forward(&mut bench, host, 1);
        bench.advance(SECOND * 4);
        bench.hear(2, &question(HOST, host, family.addr(2, 1)));
        assert_eq!(goes_to(&mut bench, host), [HOST], "{family:?}");
    }
}

#[test]
fn a_few_packets_wait_for_a_neighbour_and_the_oldest_makes_room() {
    for family in FAMILIES {
        let (mut bench, host) = (bench(), family.addr(2, 16));
        let last = u8::try_from(HOLD_EACH_MAX).unwrap() + 2;
        for n in 1..=last {
            forward(&mut bench, host, n);
        }
        assert_eq!(bench.dropped(DropReason::NeighHoldFull), 2);
        assert_eq!(entries(bench.cpu())[0].held, HOLD_EACH_MAX);
        bench.hear(2, &answer(2, HOST, host));
        let kept: Vec<_> = (3..=last).map(|n| (HOST, n)).collect();
        assert_eq!(forwarded(&mut bench), kept, "{family:?}");
    }
}

#[test]
fn packets_that_wait_are_bounded_in_all_and_the_oldest_make_room() {
    for family in FAMILIES {
        let mut bench = bench();
        for host in 2..=201 {
            for n in 1..=3 {
                forward(&mut bench, family.addr(2, host), n);
            }
        }
        let dropped = bench.dropped(DropReason::NeighHoldFull);
        assert_eq!(usize::try_from(dropped).unwrap(), 600 - HOLD_MAX, "{family:?}");
        assert_eq!(bench.buffers_out(), HOLD_MAX);
        bench.forget_sent();
        bench.hear(2, &answer(2, HOST, family.addr(2, 2)));
        bench.hear(2, &answer(2, HOST, family.addr(2, 201)));
        assert_eq!(forwarded(&mut bench), [(HOST, 1), (HOST, 2), (HOST, 3)], "those of the last host");
    }
}

#[test]
fn packets_of_which_the_oldest_made_room_leave_in_their_order() {
    for family in FAMILIES {
        let (mut bench, host) = (bench(), family.addr(2, 201));
        forward(&mut bench, host, 1);
        forward(&mut bench, host, 2);
        for other in 2..=171 {
            for n in 1..=3 {
                forward(&mut bench, family.addr(2, other), n);
            }
        }
        // The third takes the place of the first, while the second still waits.
        forward(&mut bench, host, 3);
        assert_eq!(bench.dropped(DropReason::NeighHoldFull), 1, "{family:?}");
        bench.forget_sent();
        bench.hear(2, &answer(2, HOST, host));
        assert_eq!(forwarded(&mut bench), [(HOST, 2), (HOST, 3)], "{family:?}");
    }
}

#[test]
fn a_reachable_neighbour_goes_stale_and_is_asked_by_itself_when_it_is_used() {
    for family in FAMILIES {
        let (mut bench, host) = (bench(), family.addr(2, 16));
        resolve(&mut bench, host);
        bench.advance(SECOND * 14);
        assert_eq!(state(&mut bench, host), Some(State::Reachable), "{family:?}: not before 15 s");
        bench.advance(SECOND * 31);
        assert_eq!(state(&mut bench, host), Some(State::Stale), "{family:?}: after 45 s");
        bench.advance(SECOND * 60);
        assert!(bench.said(2).is_empty(), "nobody uses it, so nobody asks");

        assert_eq!(goes_to(&mut bench, host), [HOST]);
        assert_eq!(state(&mut bench, host), Some(State::Delay));
        bench.advance(SECOND * 5 + SECOND / 2);
        assert_eq!(state(&mut bench, host), Some(State::Probe));
        assert!(matches!(bench.said(2)[..], [Said::Asked { to: HOST, target, .. }] if target == host));
        bench.hear(2, &answer(2, HOST, host));
        assert_eq!(state(&mut bench, host), Some(State::Reachable), "{family:?}");
    }
}

#[test]
fn a_neighbour_that_is_silent_when_probed_is_forgotten_and_then_looked_for_anew() {
    for family in FAMILIES {
        let (mut bench, host) = (bench(), family.addr(2, 16));
        bench.hear(2, &question(HOST, host, family.addr(2, 1)));
        bench.forget_sent();
        assert_eq!(goes_to(&mut bench, host), [HOST]);
        bench.advance(SECOND * 9);
        let asked = bench.said(2);
        assert_eq!(asked.len(), 3, "{family:?}");
        assert!(asked.iter().all(|said| matches!(said, Said::Asked { to: HOST, .. })));
        assert_eq!(state(&mut bench, host), None);
        assert_eq!(goes_to(&mut bench, host), []);
        assert_eq!(state(&mut bench, host), Some(State::Incomplete), "{family:?}");
    }
}

#[test]
fn an_unused_entry_expires_after_twenty_minutes() {
    for family in FAMILIES {
        let (mut bench, host) = (bench(), family.addr(2, 16));
        bench.hear(2, &question(HOST, host, family.addr(2, 1)));
        bench.advance(SECOND * 60 * 19);
        assert_eq!(state(&mut bench, host), Some(State::Stale), "{family:?}");
        bench.advance(SECOND * 61);
        assert_eq!(state(&mut bench, host), None, "{family:?}");
    }
}

#[test]
fn a_request_for_our_address_creates_a_neighbour_entry_and_other_packets_do_not() {
    for family in FAMILIES {
        let mut bench = bench();
        let [asker, talker, liar] = [16, 17, 18].map(|host| family.addr(2, host));
        bench.hear(2, &question(HOST, asker, family.addr(2, 1)));
        bench.hear(2, &question(HOST, talker, family.addr(2, 99)));
        bench.hear(2, &claim(HOST, talker));
        bench.hear(2, &answer(2, HOST, liar));
        let known: Vec<_> = entries(bench.cpu()).into_iter().map(|entry| entry.key.addr).collect();
        assert_eq!(known, [asker], "{family:?}");
    }
}

#[test]
fn an_off_link_requester_gets_no_neighbour_entry() {
    for family in FAMILIES {
        let mut bench = bench();
        bench.hear(2, &question(HOST, family.addr(7, 16), family.addr(2, 1)));
        assert_eq!(entries(bench.cpu()), [], "{family:?}");
    }
}

#[test]
fn a_takeover_is_believed_only_when_the_old_neighbour_is_silent() {
    let host = Family::V4.addr(2, 16);
    for old_answers in [true, false] {
        let mut bench = bench();
        resolve(&mut bench, host);
        bench.hear(2, &claim(OTHER, host));
        assert_eq!(bench.counted(Count::NeighClaims), 1);
        assert!(matches!(bench.said(2)[..], [Said::Asked { to: HOST, .. }]));
        assert_eq!(goes_to(&mut bench, host), [HOST]);
        if old_answers {
            bench.hear(2, &answer(2, HOST, host));
            assert_eq!(state(&mut bench, host), Some(State::Reachable));
        }
        bench.advance(SECOND * 3);
        assert_eq!(goes_to(&mut bench, host), [if old_answers { HOST } else { OTHER }]);
    }
}

#[test]
fn an_unsolicited_reply_overrides_no_neighbour_entry() {
    let host = Family::V4.addr(2, 16);
    let mut bench = bench();
    resolve(&mut bench, host);
    bench.hear(2, &answer(2, OTHER, host));
    assert_eq!(goes_to(&mut bench, host), [HOST]);
}

#[test]
fn a_permanent_entry_is_never_overwritten_and_goes_when_it_is_deleted() {
    for family in FAMILIES {
        let (mut bench, host) = (bench(), family.addr(2, 16));
        assert!(set_static(bench.cpu(), key(host), HOST));
        for frame in [claim(OTHER, host), answer(2, OTHER, host), question(OTHER, host, family.addr(2, 1))] {
            bench.hear(2, &frame);
        }
        bench.advance(SECOND * 3600);
        bench.forget_sent();
        assert_eq!(goes_to(&mut bench, host), [HOST], "{family:?}");
        assert_eq!(state(&mut bench, host), Some(State::Permanent));

        assert!(delete(bench.cpu(), key(host)));
        assert!(!delete(bench.cpu(), key(host)));
        assert_eq!(goes_to(&mut bench, host), []);
        assert_eq!(bench.said(2).len(), 0, "the question has been taken with the frames");
        assert_eq!(state(&mut bench, host), Some(State::Incomplete), "{family:?}");
    }
}

#[test]
fn a_permanent_entry_frees_packets_that_wait() {
    for family in FAMILIES {
        let (mut bench, host) = (bench(), family.addr(2, 16));
        forward(&mut bench, host, 1);
        assert!(set_static(bench.cpu(), key(host), HOST));
        bench.run();
        assert_eq!(forwarded(&mut bench), [(HOST, 1)], "{family:?}");
        assert!(!set_static(bench.cpu(), key(host), Mac::BROADCAST), "a group is nobody's link address");
    }
}

#[test]
fn a_sweep_leaves_the_table_bounded_and_known_neighbours_alone() {
    for family in FAMILIES {
        let mut bench = Bench::with(2, 1, |config| {
            config.ifs[1].addrs[0].prefix_len = 8;
        });
        bench.neighbours_answer = false;
        let host = family.addr(2, 16);
        resolve(&mut bench, host);
        for n in 0..10_000_u32 {
            let to: IpAddr = match family {
                Family::V4 => core::net::Ipv4Addr::from_bits(0x0a10_0000 + n).into(),
                Family::V6 => {
                    let IpAddr::V6(base) = family.addr(2, 0) else { unreachable!() };
                    core::net::Ipv6Addr::from_bits(base.to_bits() + 0x1_0000 + u128::from(n)).into()
                }
            };
            forward_quietly(&mut bench, to, 9);
            if n % 100 == 0 {
                bench.advance(Duration::from_millis(10));
                assert_eq!(goes_to(&mut bench, host), [HOST], "{family:?}: packet {n}");
            }
        }
        assert!(entries(bench.cpu()).len() <= INCOMPLETE_MAX + 1);
        assert!(bench.counted(Count::NeighLimited) > 9_000);
        assert_eq!(state(&mut bench, host), Some(State::Reachable), "{family:?}");
        bench.advance(SECOND * 5);
        // The sender is told, and is itself looked for on the other link.
        let on_the_link = entries(bench.cpu()).iter().filter(|entry| entry.key.ifindex == 2).count();
        assert_eq!(on_the_link, 1, "{family:?}: what did not answer is gone");
    }
}

#[test]
fn askers_without_end_leave_the_table_bounded_and_neighbours_in_use_alone() {
    let mut bench = bench();
    let host = Family::V6.addr(2, 16);
    resolve(&mut bench, host);
    let IpAddr::V6(base) = Family::V6.addr(2, 0) else { unreachable!() };
    for n in 0..ENTRIES_MAX as u128 + 100 {
        let asker = core::net::Ipv6Addr::from_bits(base.to_bits() + 0x1_0000 + n);
        bench.hear(2, &question(OTHER, asker.into(), Family::V6.addr(2, 1)));
    }
    assert_eq!(entries(bench.cpu()).len(), ENTRIES_MAX);
    assert_eq!(bench.counted(Count::NeighEvicted), 101);
    assert_eq!(state(&mut bench, host), Some(State::Reachable));
}

#[test]
fn neighbours_of_a_link_that_is_gone_are_forgotten_and_those_of_others_stay() {
    for family in FAMILIES {
        let mut bench = bench();
        let [known, unknown] = [16, 17].map(|host| family.addr(2, host));
        let other = family.addr(1, 16);
        resolve(&mut bench, known);
        bench.hear(1, &question(HOST, other, family.addr(1, 1)));
        forward(&mut bench, unknown, 1);
        let mut config = Config { ifs: vec![ifnet(1), ifnet(2)], forwarding: true, ..Config::default() };
        bench.set_tables(config.clone());
        assert_eq!(entries(bench.cpu()).len(), 3, "{family:?}: a reload disturbs nothing");
        config.ifs.pop();
        bench.set_tables(config);
        let left: Vec<_> = entries(bench.cpu()).into_iter().map(|entry| entry.key.addr).collect();
        assert_eq!(left, [other], "{family:?}");
        assert_eq!(bench.dropped(DropReason::InterfaceGone), 1, "the packet that waited");
    }
}

#[test]
fn a_changed_link_address_of_ours_is_used_at_once() {
    for family in FAMILIES {
        let (mut bench, host) = (bench(), family.addr(2, 16));
        resolve(&mut bench, host);
        assert_eq!(goes_to(&mut bench, host), [HOST]);
        let mut config = Config { ifs: vec![ifnet(1), ifnet(2)], forwarding: true, ..Config::default() };
        config.ifs[1].mac = mac(5);
        bench.set_tables(config);
        forward(&mut bench, host, 7);
        let frames = bench.sent(2);
        let ours = frames.iter().find(|frame| frame.last() == Some(&7)).unwrap();
        assert_eq!(ours[6..12], mac(5).0, "{family:?}");
    }
}

#[test]
fn groups_and_broadcasts_are_not_looked_for() {
    let groups: [(&str, [u8; 6]); 6] = [
        ("224.0.0.5", [1, 0, 0x5e, 0, 0, 5]),
        ("239.129.2.3", [1, 0, 0x5e, 1, 2, 3]),
        ("255.255.255.255", [0xff; 6]),
        ("10.0.2.255", [0xff; 6]),
        ("ff02::1", [0x33, 0x33, 0, 0, 0, 1]),
        ("ff02::1:ff01:203", [0x33, 0x33, 0xff, 1, 2, 3]),
    ];
    for (group, mac) in groups {
        assert_eq!(goes_to(&mut bench(), group.parse().unwrap()), [Mac(mac)], "{group}");
    }
}

#[test]
fn every_cpu_has_its_copy_from_the_one_that_owns_the_entry() {
    for host in [16, 17, 18, 19] {
        let mut bench = Bench::with(2, 2, |_| ());
        bench.neighbours_answer = false;
        let host = Family::V4.addr(2, host);
        for n in 1..=2 {
            forward(&mut bench, host, n);
            bench.hear(2, &answer(2, HOST, host));
        }
        assert_eq!(forwarded(&mut bench), [(HOST, 1), (HOST, 2)]);
        let owner = bench.cpu().placement.owner_of(host).index();
        assert_eq!(entries(&bench.netisrs[owner].cpu).len(), 1);
        assert_eq!(entries(&bench.netisrs[1 - owner].cpu).len(), 0);

        assert!(delete(&mut bench.netisrs[owner].cpu, key(host)));
        // One round publishes the message, the next one handles it.
        bench.run();
        bench.run();
        assert_eq!(goes_to(&mut bench, host), [], "the copy is gone with the entry");
    }
}

#[test]
fn the_use_of_a_stale_copy_reaches_the_owner() {
    for host in [16, 17, 18, 19] {
        let mut bench = Bench::with(2, 2, |_| ());
        bench.neighbours_answer = false;
        let host = Family::V4.addr(2, host);
        forward(&mut bench, host, 1);
        bench.hear(2, &answer(2, HOST, host));
        bench.advance(SECOND * 46);
        forward(&mut bench, host, 2);
        let owner = bench.cpu().placement.owner_of(host).index();
        assert_eq!(entries(&bench.netisrs[owner].cpu)[0].state, State::Delay);
    }
}

#[test]
fn a_held_packet_goes_over_the_gateway_that_its_route_names() {
    for family in FAMILIES {
        let (gateway, far) = (family.addr(2, 16), family.addr(77, 1));
        let mut bench = Bench::with(2, 1, |config| {
            let len = if far.is_ipv4() { 24 } else { 64 };
            let to = Prefix::new(far, len).unwrap();
            config.routes.push(Route::new(to, To::Gateway { ifindex: 2, via: gateway }));
        });
        bench.neighbours_answer = false;
        let cpu = bench.cpu();
        let mut pkt = cpu.pool.take().unwrap();
        let bytes = build::udp(family.addr(1, 9), far, (1, 2), &[1]);
        pkt.append(bytes.len()).unwrap().copy_from_slice(&bytes);
        pkt.outif = 2;
        hold(cpu, pkt);
        bench.run();
        assert!(matches!(bench.said(2)[..], [Said::Asked { target, .. }] if target == gateway), "{family:?}");
    }
}
