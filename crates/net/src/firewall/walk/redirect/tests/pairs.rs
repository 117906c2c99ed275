//! Two states, mostly on two CPUs: their ends, and conflicts over the same address pair.

use super::*;

/// Two ports of the front lead to one of the server.
const TWO_FRONTS: &str = "add 200 rdr SERVER,8080 tcp from any to FRONT 80 in recv mem2\n\
     add 210 rdr SERVER,8080 tcp from any to FRONT 81 in recv mem2\n\
     add 300 allow tcp from any to SERVER 8080\n";

#[test]
fn of_two_flows_that_want_the_same_ends_the_second_waits_until_the_first_is_over() {
    for (cpus, cast) in worlds() {
        let mut bench = cast.bench(cpus, TWO_FRONTS);
        for port in 2000..2030 {
            connect(&mut bench, &cast, port);
            let (there, inside) = (cast.there(port, 80), cast.redirected(port, 8080));
            let second = cast.there(port, 81);
            assert_eq!(through(&mut bench, 2, &tcp(second, SYN, 5, 0)), None, "{cpus} CPUs");
            assert_eq!(through(&mut bench, 1, &tcp(back(inside), ACK, 701, 101)), Some(back(there)));
            assert_eq!(through(&mut bench, 2, &tcp(there, RST, 101, 701)), Some(inside));
            assert_eq!(through(&mut bench, 2, &tcp(second, SYN, 6, 0)), Some(inside), "now it may");
            let answer = tcp(back(inside), SYN_ACK, 900, 7);
            assert_eq!(through(&mut bench, 1, &answer), Some(back(second)));
        }
        assert_eq!(bench.drops(), [(DropReason::FirewallRedirect, 30)]);
        assert_eq!(bench.counted(Count::RedirectConflicts), 30);
        assert_eq!(bench.counted(Count::RedirectResolved), 30);
        bench.advance(Duration::from_secs(400));
        assert_eq!((states(&bench), on_their_way(&bench)), (0, 0));
    }
}

#[test]
fn a_direct_connection_to_the_server_does_not_match_a_redirected_flow_or_vice_versa() {
    for (cpus, cast) in worlds() {
        let mut bench = cast.bench(cpus, RULES);
        for port in (2000..2040).step_by(2) {
            let inside = cast.redirected(port, 8080);
            connect(&mut bench, &cast, port);
            assert_eq!(through(&mut bench, 2, &tcp(inside, SYN, 5, 0)), None, "redirected already");
            let straight = cast.redirected(port + 1, 8080);
            assert_eq!(through(&mut bench, 2, &tcp(straight, SYN, 5, 0)), Some(straight));
            assert_eq!(through(&mut bench, 1, &tcp(back(straight), SYN_ACK, 9, 6)), Some(back(straight)));
            assert_eq!(through(&mut bench, 2, &tcp(cast.there(port + 1, 80), SYN, 5, 0)), None);
            assert_eq!(through(&mut bench, 1, &tcp(back(straight), ACK, 10, 6)), Some(back(straight)));
        }
        assert_eq!(bench.counted(Count::RedirectConflicts), 40);
        assert_eq!(of_kind(&bench, Kind::RedirectMaster), 20, "refused ones are gone");
        bench.advance(Duration::from_secs(700));
        assert_eq!((states(&bench), on_their_way(&bench)), (0, 0));
    }
}

#[test]
fn a_rule_that_is_deleted_takes_its_flows_along_on_all_cpus() {
    for (cpus, cast) in worlds() {
        let mut bench = Bench::with(3, cpus, |_| ());
        let mut script = cast.script(TWO_FRONTS);
        bench.set_rules(&mut script);
        (2000..2050).for_each(|port| connect(&mut bench, &cast, port));
        let kept = cast.there(1999, 81);
        assert!(through(&mut bench, 2, &tcp(kept, SYN, 5, 0)).is_some());
        script.rules.delete(None, &[200..=200]).unwrap();
        bench.set_rules(&mut script);
        bench.advance(Duration::from_secs(3));
        assert_eq!((states(&bench), on_their_way(&bench)), (2, 0), "those of the other rule");
        let inside = cast.redirected(2000, 8080);
        assert_eq!(through(&mut bench, 2, &tcp(cast.there(2000, 80), ACK, 101, 701)), None);
        assert_eq!(through(&mut bench, 1, &tcp(back(inside), ACK, 701, 101)), None);
        assert!(through(&mut bench, 2, &tcp(kept, SYN, 5, 0)).is_some());
    }
}

#[test]
fn where_there_is_no_room_for_the_second_state_the_first_goes_too() {
    for cast in CASTS {
        // As many as one; the second of a pair is one too many.
        let mut bench = Bench::with(3, 8, |_| ());
        let mut script = cast.script(TWO_FRONTS);
        script.settings = Settings { state_max: 1, ..script.settings };
        bench.set_rules(&mut script);
        for port in 2000..2020 {
            assert_eq!(through(&mut bench, 2, &tcp(cast.there(port, 80), SYN, 5, 0)), None);
            assert_eq!((states(&bench), on_their_way(&bench)), (0, 0));
        }
        assert_eq!(bench.dropped(DropReason::FirewallStateFull), 20);
        // As many as two: a pair, and no other.
        script.settings = Settings { state_max: 2, ..script.settings };
        bench.set_rules(&mut script);
        connect(&mut bench, &cast, 3000);
        assert_eq!(through(&mut bench, 2, &tcp(cast.there(3001, 80), SYN, 5, 0)), None);
        assert_eq!(states(&bench), 2);
    }
}

#[test]
fn the_end_of_the_master_is_the_end_of_the_slave_and_a_lost_slave_is_made_anew() {
    for (cpus, cast) in worlds() {
        let mut bench = cast.bench(cpus, RULES);
        (2000..2020).for_each(|port| connect(&mut bench, &cast, port));
        let end = |bench: &mut Bench, kind: Kind| {
            for netisr in &mut bench.netisrs {
                let now = netisr.cpu.now;
                crate::firewall::hook::with(&mut netisr.cpu, |firewall, _| {
                    firewall.states.end(0, u32::MAX, now, |state| state.kind == kind);
                });
            }
            bench.run();
        };
        end(&mut bench, Kind::RedirectSlave);
        assert_eq!(of_kind(&bench, Kind::RedirectSlave), 0);
        assert_eq!(of_kind(&bench, Kind::RedirectMaster), 20, "it is for the master to end");
        for port in 2000..2020 {
            let (there, inside) = (cast.there(port, 80), cast.redirected(port, 8080));
            assert_eq!(through(&mut bench, 2, &tcp(there, ACK, 101, 701)), Some(inside));
            assert_eq!(through(&mut bench, 1, &tcp(back(inside), ACK, 701, 101)), Some(back(there)));
        }
        assert_eq!(of_kind(&bench, Kind::RedirectSlave), 20);
        end(&mut bench, Kind::RedirectMaster);
        assert_eq!(of_kind(&bench, Kind::RedirectSlave), 0, "{cpus} CPUs");
        assert_eq!(of_kind(&bench, Kind::Keep), 20, "others are not touched");
        assert_eq!(on_their_way(&bench), 0);
    }
}

#[test]
fn a_client_that_uses_its_port_again_gets_a_new_flow() {
    for (cpus, cast) in worlds() {
        let mut bench = cast.bench(cpus, RULES);
        for round in 1..20 {
            connect(&mut bench, &cast, 2000);
            let (there, inside) = (cast.there(2000, 80), cast.redirected(2000, 8080));
            assert_eq!(through(&mut bench, 2, &tcp(there, RST, 101, 701)), Some(inside), "round {round}");
        }
        assert_eq!(states(&bench), 3);
        bench.advance(Duration::from_secs(5));
        assert_eq!((states(&bench), on_their_way(&bench)), (0, 0));
    }
}
