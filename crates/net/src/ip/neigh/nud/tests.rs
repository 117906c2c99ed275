use super::*;
use crate::link::tables::{REACHABLE, RETRANS};

const OLD: Mac = Mac([6, 0, 0, 0, 0, 1]);
const NEW: Mac = Mac([6, 0, 0, 0, 0, 2]);

fn clock() -> Clock {
    Clock::new(Instant::from_ns(1_000_000_000_000), 7, [REACHABLE, RETRANS])
}

fn nud(state: State) -> Nud {
    let mac = if state == State::Incomplete { Mac::ZERO } else { OLD };
    Nud { state, mac, until: Instant::NEVER, sent: 0, rival: None }
}

/// Returns the entry after an advertisement.
fn advertised(state: State, mac: Option<Mac>, solicited: bool, replace: bool) -> (State, Mac) {
    let mut nud = nud(state);
    let what = nud.advertised(Advert { mac, solicited, replace }, clock());
    assert_eq!(what, Do::Nothing);
    (nud.state, nud.mac)
}

const KNOWN: [State; 4] = [State::Reachable, State::Stale, State::Delay, State::Probe];

#[test]
fn an_advertisement_completes_an_entry_whatever_its_override_flag() {
    for replace in [false, true] {
        let of = |mac, solicited| advertised(State::Incomplete, mac, solicited, replace);
        assert_eq!(of(Some(NEW), true), (State::Reachable, NEW));
        assert_eq!(of(Some(NEW), false), (State::Stale, NEW));
        assert_eq!(of(None, true), (State::Incomplete, Mac::ZERO), "without a link address it says nothing");
    }
}

#[test]
fn without_override_another_link_address_only_makes_a_reachable_neighbour_doubtful() {
    for solicited in [false, true] {
        for state in KNOWN {
            let after = if state == State::Reachable { State::Stale } else { state };
            assert_eq!(advertised(state, Some(NEW), solicited, false), (after, OLD), "{state:?}");
        }
    }
}

#[test]
fn with_override_another_link_address_replaces_the_old_one() {
    for state in KNOWN {
        assert_eq!(advertised(state, Some(NEW), true, true), (State::Reachable, NEW), "{state:?}");
        assert_eq!(advertised(state, Some(NEW), false, true), (State::Stale, NEW), "{state:?}");
    }
}

#[test]
fn the_same_link_address_or_none_confirms_when_it_was_asked_for_and_changes_nothing_else() {
    for state in KNOWN {
        for (mac, replace) in [(Some(OLD), false), (Some(OLD), true), (None, false), (None, true)] {
            assert_eq!(advertised(state, mac, true, replace), (State::Reachable, OLD), "{state:?}");
            assert_eq!(advertised(state, mac, false, replace), (state, OLD), "{state:?}");
        }
    }
}

#[test]
fn a_solicitation_makes_a_changed_or_new_neighbour_stale_and_leaves_a_known_one() {
    for state in [State::Incomplete, State::Reachable, State::Stale, State::Delay, State::Probe] {
        let (mut changed, mut same) = (nud(state), nud(state));
        assert_eq!(changed.solicited_us(NEW, clock()), Do::Nothing);
        assert_eq!((changed.state, changed.mac), (State::Stale, NEW), "{state:?}");
        assert_eq!(same.solicited_us(same.mac, clock()), Do::Nothing);
        assert_eq!(same.state, state);
    }
}

#[test]
fn an_arp_packet_from_another_link_address_makes_a_neighbour_in_use_prove_itself() {
    for state in [State::Reachable, State::Delay] {
        let mut nud = nud(state);
        assert_eq!(nud.arp(NEW, true, clock()), Do::Ask(OLD), "{state:?}");
        assert_eq!((nud.state, nud.mac), (State::Probe, OLD));
        assert_eq!(nud.arp(NEW, true, clock()), Do::Nothing, "again and again does not help");
        assert_eq!(nud.arp(OLD, true, clock()), Do::Nothing);
        assert_eq!((nud.state, nud.mac), (State::Reachable, OLD));
    }
}

#[test]
fn a_neighbour_that_does_not_prove_itself_makes_room_for_the_rival() {
    let mut nud = nud(State::Reachable);
    assert_eq!(nud.arp(NEW, false, clock()), Do::Ask(OLD));
    assert_eq!(nud.tick(clock()), Do::Ask(OLD));
    assert_eq!(nud.tick(clock()), Do::Nothing);
    assert_eq!((nud.state, nud.mac), (State::Stale, NEW));
}

#[test]
fn a_neighbour_that_is_doubted_has_a_moment_and_is_asked_and_doubts_meanwhile_change_nothing() {
    for state in [State::Reachable, State::Stale] {
        let mut nud = nud(state);
        nud.doubted(clock());
        assert_eq!((nud.state, nud.until), (State::Delay, clock().now + DELAY_FIRST_PROBE), "{state:?}");
        nud.doubted(Clock { now: clock().now + DELAY_FIRST_PROBE / 2, ..clock() });
        assert_eq!(nud.until, clock().now + DELAY_FIRST_PROBE);
        assert_eq!(nud.tick(clock()), Do::Ask(OLD));
        nud.doubted(clock());
        assert_eq!((nud.state, nud.sent), (State::Probe, 1));
    }
    let mut incomplete = nud(State::Incomplete);
    incomplete.doubted(clock());
    assert_eq!(incomplete.state, State::Incomplete);
}

#[test]
fn nothing_changes_a_permanent_entry() {
    let mut nud = Nud::permanent(OLD);
    let (clock, advert) = (clock(), Advert { mac: Some(NEW), solicited: true, replace: true });
    let all = [
        nud.arp(NEW, true, clock),
        nud.solicited_us(NEW, clock),
        nud.advertised(advert, clock),
        nud.tick(clock),
    ];
    nud.used(clock);
    nud.doubted(clock);
    assert_eq!(all, [Do::Nothing; 4]);
    assert_eq!((nud.state, nud.mac, nud.until), (State::Permanent, OLD, Instant::NEVER));
}

#[test]
fn the_time_an_answer_is_believed_lies_between_half_and_one_and_a_half_of_thirty_seconds() {
    let span = |random| Clock::new(Instant::START, random, [REACHABLE, RETRANS]).reachable.as_millis();
    assert_eq!((span(0), span(29_999), span(30_000)), (15_000, 44_999, 15_000));
}
