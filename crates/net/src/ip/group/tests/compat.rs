//! Routers that speak an older version.

use super::*;

/// The versions that a family had before.
fn older(family: Family) -> Vec<Version> {
    if family == Family::V4 { vec![Version::V1, Version::V2] } else { vec![Version::V2] }
}

/// A router asks in an older version.
fn ask_old(bench: &mut Bench, family: Family, version: Version, group: IpAddr) -> Vec<Sent> {
    let to = if group.is_multicast() { group } else { family.all() };
    hear(bench, &packet(family, to, &message(family, version, group, &[])));
    bench.advance(SECOND * 11);
    told(bench, family)
        .into_iter()
        .filter(|told| !matches!(told, Sent::In(group) if is_follower(*group)))
        .collect()
}

#[test]
fn a_router_of_an_older_version_is_answered_in_it_until_it_has_been_silent_for_long() {
    for (cpus, family) in each() {
        for version in older(family) {
            let mut bench = Bench::with(1, cpus, |_| ());
            let ids = everywhere(&mut bench, family);
            let groups = [1, 2].map(|n| family.group(n));
            listen(&mut bench, &ids, groups[0], &Filter::ALL);
            listen(&mut bench, &ids, groups[1], &Filter::only([family.sender(7)]));
            bench.advance(SECOND * 5);
            told(&mut bench, family);
            let mut answers = ask_old(&mut bench, family, version, family.nobody());
            answers.sort_by_key(|told| format!("{told:?}"));
            assert_eq!(answers, groups.map(Sent::In));
            assert_eq!(ask_old(&mut bench, family, version, groups[0]), [Sent::In(groups[0])]);
            assert_eq!(
                ask(&mut bench, family, groups[0], &[]),
                [Sent::In(groups[0])],
                "a new one changes nothing"
            );

            listen(&mut bench, &ids, groups[1], &Filter::NONE);
            bench.advance(SECOND * 30);
            let left = [Sent::Left(groups[1])];
            assert_eq!(told(&mut bench, family), if version == Version::V1 { &[][..] } else { &left });
            listen(&mut bench, &ids, groups[1], &Filter::ALL);
            bench.advance(SECOND * 30);
            assert_eq!(told(&mut bench, family), vec![Sent::In(groups[1]); 2]);

            // Twice the interval of its questions, and the time for an answer (RFC 3376 §8.12).
            bench.advance(SECOND * 261);
            let state = [report(&[(Kind::IsExclude, groups[0], &[])])];
            assert_eq!(ask(&mut bench, family, groups[0], &[]), state);
        }
    }
}

#[test]
fn in_igmp_v1_and_v2_another_members_report_suppresses_ours() {
    for family in FAMILIES {
        for version in older(family) {
            let mut bench = Bench::new(1);
            let ids = everywhere(&mut bench, family);
            let group = family.group(1);
            listen(&mut bench, &ids, group, &Filter::ALL);
            bench.advance(SECOND * 5);
            told(&mut bench, family);
            hear(&mut bench, &packet(family, group, &message(family, version, group, &[])));
            let mut said = message(family, version, group, &[]);
            said[0] = if family == Family::V4 { 0x16 } else { 131 };
            hear(&mut bench, &packet(family, group, &said));
            bench.advance(SECOND * 11);
            assert_eq!(told(&mut bench, family), []);
            assert_eq!(ask_old(&mut bench, family, version, group), [Sent::In(group)]);
        }
    }
}

#[test]
fn in_an_older_version_nothing_is_said_of_groups_that_need_a_sender() {
    for family in FAMILIES {
        let mut bench = Bench::new(1);
        let ids = everywhere(&mut bench, family);
        ask_old(&mut bench, family, Version::V2, family.nobody());
        listen(&mut bench, &ids, family.channel(), &Filter::only([family.sender(7)]));
        bench.advance(SECOND * 30);
        assert_eq!(told(&mut bench, family), []);
        assert_eq!(ask_old(&mut bench, family, Version::V2, family.nobody()), []);
    }
}
