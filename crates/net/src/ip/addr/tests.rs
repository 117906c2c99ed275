use core::time::Duration;

use super::*;
use crate::link::tables::{Config, IfAddr};
use crate::testkit::link::{FAMILIES, Family, Said, claim, nd_packet, question, said};
use crate::testkit::{Bench, addr4, addr6, build, ifnet, mac};

const RIVAL: Mac = Mac([6, 0, 0, 0, 0, 0x66]);
const SECOND: Duration = Duration::from_secs(1);
const TICK: Duration = Duration::from_millis(50);

fn config(up: bool) -> Config {
    let mut ifnet = ifnet(1);
    ifnet.up = up;
    Config { ifs: vec![ifnet], forwarding: true, ..Config::default() }
}

/// A stack whose interface has come up just now; addresses are used at once, or only when they have been asked for.
fn start(optimistic: bool) -> Bench {
    let mut bench = Bench::cold(1, 1, |cold| *cold = config(false));
    bench.neighbours_answer = false;
    bench.cpu().addrs.set_optimistic(optimistic);
    bench.set_tables(config(true));
    bench
}

fn key(addr: IpAddr) -> Key {
    Key { ifindex: 1, addr }
}

fn ours(family: Family) -> Key {
    key(family.addr(1, 1))
}

fn state(bench: &mut Bench, key: Key) -> Option<State> {
    bench.cpu().addrs.state(&key)
}

fn usable(bench: &mut Bench, key: Key) -> bool {
    bench.cpu().addrs.usable(key.ifindex, key.addr)
}

fn status(bench: &mut Bench, key: Key) -> Status {
    states(bench.cpu()).into_iter().find(|status| status.key == key).unwrap()
}

/// Checks for a conflict: another station claims the address.
fn conflict(bench: &mut Bench, key: Key) {
    bench.hear(1, &claim(RIVAL, key.addr));
}

/// Returns the packets about `addr` while `span` goes by, with their times, in milliseconds from now.
fn timeline(bench: &mut Bench, addr: IpAddr, span: Duration) -> Vec<(u64, Said)> {
    let begin = bench.now;
    let mut all = Vec::new();
    bench.run();
    while bench.now.since(begin) <= span {
        let ms = u64::try_from(bench.now.since(begin).as_millis()).unwrap();
        let about = |said: &Said| matches!(said, Said::Asked { target, .. } | Said::Answered { target, .. } if *target == addr);
        all.extend(bench.said(1).into_iter().filter(about).map(|said| (ms, said)));
        bench.advance(TICK);
    }
    all
}

fn is_probe(said: &Said) -> bool {
    matches!(said, Said::Asked { source, .. } if source.is_unspecified())
}

#[test]
fn an_ipv6_address_is_asked_for_once_and_then_announced() {
    for optimistic in [true, false] {
        let mut bench = start(optimistic);
        let key = ours(Family::V6);
        assert_eq!(state(&mut bench, key), Some(State::Tentative));
        assert_eq!(usable(&mut bench, key), optimistic);
        let said = timeline(&mut bench, key.addr, SECOND * 10);
        assert_eq!(said.len(), 2, "{said:?}");
        let ((asked, probe), (told, announcement)) = (said[0], said[1]);
        assert!(is_probe(&probe) && asked <= 1000, "{said:?}");
        assert!(matches!(announcement, Said::Answered { mac: Some(own), .. } if own == mac(1)));
        assert!((1000..=1100).contains(&(told - asked)), "{said:?}");
        assert_eq!(state(&mut bench, key), Some(State::Preferred));
        assert!(usable(&mut bench, key));
    }
}

#[test]
fn an_optimists_ipv4_address_is_announced_twice_and_used_at_once() {
    let mut bench = start(true);
    let key = ours(Family::V4);
    assert!(usable(&mut bench, key) && state(&mut bench, key) == Some(State::Preferred));
    let said = timeline(&mut bench, key.addr, SECOND * 20);
    let announced =
        |said: &Said| matches!(said, Said::Asked { to: Mac::BROADCAST, source, target } if source == target);
    assert!(said.iter().all(|(_, said)| announced(said)), "{said:?}");
    assert_eq!(said.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [0, 2000]);
}

#[test]
fn a_careful_ipv4_address_is_asked_for_three_times_before_it_is_announced() {
    let mut bench = start(false);
    let key = ours(Family::V4);
    assert!(!usable(&mut bench, key));
    let said = timeline(&mut bench, key.addr, SECOND * 20);
    assert_eq!(
        said.iter().map(|(_, said)| is_probe(said)).collect::<Vec<_>>(),
        [true, true, true, false, false]
    );
    let gaps: Vec<_> = said.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    assert!(said[0].0 <= 1000, "{said:?}");
    assert!(gaps[..2].iter().all(|gap| (1000..=2050).contains(gap)), "{gaps:?}");
    assert!(gaps[2..].iter().all(|gap| (2000..=2050).contains(gap)), "{gaps:?}");
    assert!(usable(&mut bench, key));
}

#[test]
fn a_duplicate_address_is_never_used() {
    for family in FAMILIES {
        let mut bench = start(false);
        let key = ours(family);
        bench.advance(SECOND + SECOND / 2);
        conflict(&mut bench, key);
        assert_eq!(state(&mut bench, key), Some(State::Duplicated), "{family:?}");
        assert!(!usable(&mut bench, key));
        bench.forget_sent();
        bench.hear(1, &question(RIVAL, family.addr(1, 9), key.addr));
        conflict(&mut bench, key);
        assert_eq!(timeline(&mut bench, key.addr, SECOND * 30), [], "{family:?}: not a word more about it");
        let status = status(&mut bench, key);
        assert_eq!((status.conflicts, status.rival), (2, Some(RIVAL)));
    }
}

#[test]
fn an_optimistic_ipv6_address_that_is_a_duplicate_is_removed() {
    let mut bench = start(true);
    let key = ours(Family::V6);
    bench.advance(SECOND / 2);
    conflict(&mut bench, key);
    assert!(!usable(&mut bench, key) && state(&mut bench, key) == Some(State::Duplicated));
    let other = Key { addr: link_local(mac(1)).into(), ..key };
    assert!(usable(&mut bench, other), "the others are not concerned");
}

#[test]
fn two_hosts_that_ask_for_one_address_at_once_both_leave_it() {
    for family in FAMILIES {
        let mut bench = start(false);
        let key = ours(family);
        let nobody: IpAddr = if key.addr.is_ipv4() { [0, 0, 0, 0].into() } else { [0; 8].into() };
        bench.hear(1, &question(RIVAL, nobody, key.addr));
        assert_eq!(state(&mut bench, key), Some(State::Duplicated), "{family:?}");
    }
}

#[test]
fn our_own_question_coming_back_over_a_loop_is_no_conflict() {
    let mut bench = start(false);
    let key = ours(Family::V6);
    bench.advance(SECOND);
    let frames = bench.sent(1);
    let probe = frames
        .iter()
        .find(|frame| matches!(said(frame), Some(Said::Asked { target, .. }) if target == key.addr));
    bench.hear(1, probe.unwrap());
    assert_eq!(state(&mut bench, key), Some(State::Tentative));
    bench.advance(SECOND * 2);
    assert_eq!(state(&mut bench, key), Some(State::Preferred));
}

#[test]
fn while_it_is_asked_for_a_careful_address_is_not_answered_for() {
    for family in FAMILIES {
        let mut bench = start(false);
        bench.run();
        bench.forget_sent();
        bench.hear(1, &question(RIVAL, family.addr(1, 9), family.addr(1, 1)));
        assert_eq!(bench.said(1), [], "{family:?}");
    }
}

#[test]
fn an_optimist_answers_without_claiming_to_be_sure() {
    let mut bench = start(true);
    let target = addr6(1, 1);
    let message = wire::nd::Message::NeighborSolicit { target };
    let option = [wire::nd::Opt::SourceLinkAddr(RIVAL)];
    for replace in [false, true] {
        bench.run();
        bench.forget_sent();
        bench.hear(
            1,
            &build::ether(mac(1), RIVAL, 0x86dd, &nd_packet(addr6(1, 9), target, &message, &option)),
        );
        let answer = bench.sent(1).pop().unwrap();
        assert_eq!(answer[58] & 0x20 != 0, replace);
        bench.advance(SECOND * 3);
    }
}

#[test]
fn a_configured_address_is_kept_and_defended_once_in_ten_seconds() {
    for family in FAMILIES {
        let mut bench = start(true);
        let key = ours(family);
        bench.advance(SECOND * 10);
        bench.forget_sent();
        for second in 0..20 {
            conflict(&mut bench, key);
            let defences = bench.said(1).len();
            assert_eq!(defences, usize::from(second % 10 == 0), "{family:?}: second {second}");
            bench.advance(SECOND);
        }
        assert!(usable(&mut bench, key));
        let status = status(&mut bench, key);
        assert_eq!((status.state, status.conflicts, status.rival), (State::Preferred, 20, Some(RIVAL)));
        let counted = bench.counted(Count::ArpConflicts) + bench.counted(Count::NdConflicts);
        assert_eq!(counted, 20, "{family:?}");
    }
}

#[test]
fn a_host_that_claims_our_address_gets_no_neighbour_entry() {
    for family in FAMILIES {
        let mut bench = start(true);
        bench.advance(SECOND * 10);
        conflict(&mut bench, ours(family));
        bench.hear(1, &question(RIVAL, family.addr(1, 1), family.addr(1, 1)));
        assert_eq!(crate::ip::neigh::entries(bench.cpu()), [], "{family:?}");
    }
}

#[test]
fn a_reload_leaves_what_has_not_changed_alone() {
    let mut bench = start(true);
    bench.advance(SECOND * 10);
    conflict(&mut bench, ours(Family::V4));
    bench.forget_sent();
    let mut changed = config(true);
    changed.ifs[0].addrs.push(IfAddr { addr: addr6(1, 2).into(), prefix_len: 64 });
    bench.set_tables(changed);
    assert_eq!(state(&mut bench, ours(Family::V6)), Some(State::Preferred));
    assert_eq!(state(&mut bench, key(addr6(1, 2).into())), Some(State::Tentative));
    bench.advance(SECOND * 10);
    let about_new = |said: &Said| matches!(said, Said::Asked { target, .. } | Said::Answered { target, .. } if *target == IpAddr::from(addr6(1, 2)));
    assert!(bench.said(1).iter().all(about_new));
    assert_eq!(status(&mut bench, ours(Family::V4)).conflicts, 1);
}

#[test]
fn addresses_of_an_interface_that_goes_down_are_forgotten_and_asked_for_when_it_comes_back() {
    let mut bench = start(true);
    bench.advance(SECOND * 10);
    bench.set_tables(config(false));
    assert_eq!(states(bench.cpu()), []);
    bench.set_tables(config(true));
    assert_eq!(state(&mut bench, ours(Family::V6)), Some(State::Tentative));
    bench.advance(SECOND * 10);
    assert_eq!(state(&mut bench, ours(Family::V6)), Some(State::Preferred));
}

#[test]
fn with_a_new_link_address_our_addresses_are_made_known_again() {
    let mut bench = start(true);
    bench.advance(SECOND * 10);
    bench.forget_sent();
    let mut changed = config(true);
    changed.ifs[0].mac = mac(9);
    bench.set_tables(changed);
    let said = timeline(&mut bench, addr4(1, 1).into(), SECOND);
    assert_eq!(said.len(), 1, "{said:?}");
}

#[test]
fn every_cpu_knows_what_has_become_of_an_address() {
    let mut bench = Bench::cold(1, 2, |_| ());
    bench.neighbours_answer = false;
    let keys = [addr6(1, 1), link_local(mac(1))].map(|addr| key(addr.into()));
    let states_of =
        |bench: &Bench, key: &Key| [0, 1].map(|cpu: usize| bench.netisrs[cpu].cpu.addrs.state(key));
    for key in &keys {
        assert_eq!(states_of(&bench, key), [Some(State::Tentative); 2]);
    }
    bench.advance(SECOND * 3);
    for key in &keys {
        assert_eq!(states_of(&bench, key), [Some(State::Preferred); 2]);
    }
    let watched: usize = bench.netisrs.iter().map(|netisr| states(&netisr.cpu).len()).sum();
    assert_eq!(watched, 3, "each address is watched by one CPU");
}

#[test]
fn while_an_address_is_being_asked_for_neighbours_are_asked_with_another() {
    let mut bench = start(true);
    bench.advance(SECOND * 10);
    let mut changed = config(true);
    changed.ifs[0].addrs.push(IfAddr { addr: "2001:db8:5::1".parse().unwrap(), prefix_len: 64 });
    bench.set_tables(changed);
    bench.forget_sent();
    let host: IpAddr = "2001:db8:5::16".parse().unwrap();
    let cpu = bench.cpu();
    let mut pkt = cpu.pool.take().unwrap();
    let bytes = build::udp(addr6(1, 1).into(), host, (1, 2), &[0]);
    pkt.append(bytes.len()).unwrap().copy_from_slice(&bytes);
    pkt.outif = 1;
    crate::ip::neigh::hold(cpu, pkt);
    bench.run();
    let asked = bench.said(1);
    assert!(
        asked.iter().any(|said| matches!(said, Said::Asked { source, target, .. }
        if *target == host && bench_is_sure_of(*source))),
        "{asked:?}"
    );
}

/// The addresses that the bench had before.
fn bench_is_sure_of(source: IpAddr) -> bool {
    [IpAddr::from(addr6(1, 1)), link_local(mac(1)).into()].contains(&source)
}
