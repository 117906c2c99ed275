//! Floods of SYNs, in states and in translations: half-open connections have a bounded place, and clients that complete
//! their handshakes get in.

use core::net::IpAddr;

use super::calls::{Call, Syns};
use super::scripted_ends::SILENT;
use super::*;

/// Clients that call before the flood, and during it.
const CALLS: u16 = 8;
/// SYNs between two segments of a handshake.
const BETWEEN: u32 = 100;

/// Calls of both families, those with even numbers of IPv4.
fn call(number: u16) -> Call {
    let family = Family::BOTH[usize::from(number % 2)];
    Call::new(family.addr(1, 2), family.addr(2, 2), number)
}

/// The flood's destinations.
fn silent() -> [(IpAddr, u16); 2] {
    Family::BOTH.map(|family| (family.addr(2, 2), SILENT))
}

/// Returns how many of some calls complete their handshakes amid a flood, after `hundreds` of its SYNs; established ones
/// must be open all the time.
fn calls_amid(pair: &mut Pair, hundreds: u32, to: &[(IpAddr, u16)], call: impl Fn(u16) -> Call) -> u16 {
    let mut syns = Syns::default();
    let mut open: Vec<Call> = (0..CALLS).map(&call).collect();
    assert!(open.iter().all(|call| call.gets_in(pair, |_| ())), "before the flood");
    syns.pour(pair, hundreds, to);
    let mut opened = 0;
    for number in CALLS..2 * CALLS {
        opened += u16::from(call(number).gets_in(pair, |pair| syns.send(pair, BETWEEN, to)));
        assert!(open.iter_mut().all(|call| call.goes_on(pair)), "{} SYNs", syns.sent);
    }
    opened
}

#[test]
fn clients_that_complete_their_handshakes_get_in_through_a_flood_of_syns_ten_times_the_budget() {
    const MAX: u32 = 1000;
    let keep = FRAME.join("add allow tcp from any to any in recv mem0 setup keep-state\n");
    let limit =
        FRAME.join("add allow tcp from any to any in recv mem0 setup limit src-addr src-port dst-addr 100\n");
    for rules in [&keep, &limit] {
        for cpus in [1, 2, 8] {
            let settings = Settings { half_open_max: Some(MAX), syn_lifetime: 20, ..Settings::default() };
            let (mut pair, firewall) = guarded("through_a_flood", cpus, rules, settings);
            assert_eq!(calls_amid(&mut pair, MAX / 10, &silent(), call), CALLS, "{cpus} CPUs: {rules}");
            let half_open: usize = states(&mut pair).map(States::half_open).sum();
            assert!(half_open <= MAX as usize && half_open > MAX as usize / 2, "{half_open}");
            assert!(count(&mut pair, Count::StateHalfOpenEvicted) > 9 * u64::from(MAX));
            assert_eq!(count(&mut pair, Count::StateOverflow) + count(&mut pair, Count::TrackOverflow), 0);
            pair.world.run_for(25 * SECOND);
            assert_eq!(
                firewall.loose.total(),
                2 * u64::from(CALLS),
                "those that are open are all that is left"
            );
            pair.world.run_for(320 * SECOND);
            check_that_nothing_is_left(&mut pair, &firewall);
            pair.world.finish();
        }
    }
    // Where half-open connections may take all the room, none gets in.
    let settings = Settings { state_max: MAX, half_open_max: Some(2 * MAX), ..Settings::default() };
    let (mut pair, _) = guarded("without_a_budget", 1, &keep, settings);
    assert_eq!(calls_amid(&mut pair, MAX / 10, &silent(), call), 0);
}

#[test]
fn sources_without_end_leave_room_for_another_that_a_limit_counts() {
    let rules = FRAME.join("add allow tcp from any to any in recv mem0 setup limit src-addr src-port 10\n");
    for cpus in [1, 2, 8] {
        let mut firewall = HostFirewall::new(&rules, cpus, 8 * TRACKS);
        firewall.settings.track_max = 400;
        let (mut pair, firewall) = guarded_by("flood_of_groups", cpus, firewall);
        assert_eq!(calls_amid(&mut pair, 100, &silent(), call), CALLS, "{cpus} CPUs");
        assert!(states(&mut pair).all(|states| states.tracks() <= 400));
        assert!(count(&mut pair, Count::StateHalfOpenEvicted) > 5000);
        pair.world.run_for(350 * SECOND);
        check_that_nothing_is_left(&mut pair, &firewall);
        pair.world.finish();
    }
}

/// Bindings of NAT and NAT64 on each CPU.
fn bindings(pair: &mut Pair) -> Vec<usize> {
    let firewalls = pair.world.of(pair.router).firewalls();
    firewalls
        .map(|firewall| {
            let nat: usize = firewall.nat().iter().map(|instance| instance.table().len()).sum();
            nat + firewall.nat64().get("gate").map_or(0, |instance| instance.table().len())
        })
        .collect()
}

/// Checks the limit of bindings on a CPU, and that none is left in the end.
fn check_bindings(pair: &mut Pair, max: usize) {
    let now = bindings(pair);
    assert!(now.iter().all(|bindings| *bindings <= max), "{now:?}");
    assert!(count(pair, Count::NatHalfOpenEvicted) > 1000);
    let refused =
        [DropReason::NatExhausted, DropReason::NatFull].map(|why| pair.world.of(pair.router).dropped(why));
    assert_eq!(refused, [0, 0], "each SYN found room");
    pair.world.run_for(7500 * SECOND);
    assert_eq!(bindings(pair).iter().sum::<usize>(), 0);
    assert_eq!(pair.world.of(pair.router).outstanding(), 0);
}

#[test]
fn clients_get_in_through_a_flood_of_syns_that_fills_the_bindings_of_nat() {
    const RULES: &str = "nat 1 config ip 10.0.2.1\nadd nat 1 tcp from any to any out xmit mem1\n\
         add nat 1 tcp from any to 10.0.2.1 in recv mem1\nadd allow ip from any to any\n";
    let call = |number| Call::new(Family::V4.addr(1, 2), Family::V4.addr(2, 2), number);
    for cpus in [1, 2, 8] {
        let mut firewall = HostFirewall::new(RULES, cpus, TRACKS);
        firewall.bindings_max = Some(500);
        let (mut pair, _) = guarded_by("flood_of_bindings", cpus, firewall);
        let to = [(Family::V4.addr(2, 2), SILENT)];
        assert_eq!(calls_amid(&mut pair, 100, &to, call), CALLS, "{cpus} CPUs");
        check_bindings(&mut pair, 500);
        pair.world.finish();
    }
}

#[test]
fn clients_get_in_through_a_flood_of_syns_that_takes_all_ports_of_nat() {
    const RULES: &str = "nat 1 config ip 10.0.2.1 port_range 2000-3999\n\
         add nat 1 tcp from any to any out xmit mem1\n\
         add nat 1 tcp from any to 10.0.2.1 in recv mem1\nadd allow ip from any to any\n";
    let call = |number| Call::new(Family::V4.addr(1, 2), Family::V4.addr(2, 2), number);
    for cpus in [1, 2, 8] {
        let (mut pair, _) = guarded("flood_of_ports", cpus, RULES, Settings::default());
        // All of it is for the end that clients speak to.
        let to = [(Family::V4.addr(2, 2), call(0).port)];
        assert_eq!(calls_amid(&mut pair, 200, &to, call), CALLS, "{cpus} CPUs");
        check_bindings(&mut pair, 2000);
        pair.world.finish();
    }
}

#[test]
fn clients_get_in_through_a_flood_of_syns_that_fills_the_bindings_of_nat64() {
    const RULES: &str = "nat64lsn gate create prefix4 192.0.2.0/28 prefix6 2001:db8:64::/96\n\
         add nat64lsn gate ip6 from any to 2001:db8:64::/96 in recv mem0\n\
         add nat64lsn gate ip4 from any to 192.0.2.0/28 in recv mem1\nadd allow ip from any to any\n";
    let to: IpAddr = "2001:db8:64::10.0.2.2".parse().unwrap();
    let call = |number| Call::new(Family::V6.addr(1, 2), to, number);
    for cpus in [1, 2, 8] {
        let mut firewall = HostFirewall::new(RULES, cpus, TRACKS);
        firewall.bindings_max = Some(500);
        let (mut pair, _) = guarded_by("flood_of_bindings_64", cpus, firewall);
        assert_eq!(calls_amid(&mut pair, 100, &[(to, SILENT)], call), CALLS, "{cpus} CPUs");
        check_bindings(&mut pair, 500);
        pair.world.finish();
    }
}
