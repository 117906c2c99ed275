//! Messages that break the rules.

use super::*;

fn malformed(bench: &Bench, family: Family) -> u64 {
    bench.dropped(if family == Family::V4 { DropReason::IgmpMalformed } else { DropReason::MldMalformed })
}

#[test]
fn a_query_that_is_not_whole_not_of_this_link_or_lies_about_its_sources_is_ignored_and_counted() {
    for (cpus, family) in each() {
        let (group, source) = (family.group(1), family.sender(7));
        let good = query(family, group, &[source]);
        let addr_len = bytes(&[group]).len();
        let with_count = |count: u16| {
            let mut bytes = good.clone();
            let at = bytes.len() - addr_len - 2;
            bytes[at..at + 2].copy_from_slice(&count.to_be_bytes());
            bytes
        };
        let of_no_group =
            message(family, Version::V3, family.nobody(), &[&[2, 125, 0, 1][..], &bytes(&[source])].concat());
        let of_host = message(family, Version::V3, family.addr(1, 1), &[2, 125, 0, 0]);
        let short = message(family, Version::V3, group, &[2, 125]);
        let elsewhere = match family {
            Family::V4 => packet_with(family.querier(), group, 2, true, &good),
            Family::V6 => packet_with(addr6(1, 9).into(), group, 1, true, &good),
        };
        let bad = [
            packet(family, group, &with_count(2)),
            packet(family, group, &with_count(0xffff)),
            packet(family, group, &of_no_group),
            packet(family, group, &of_host),
            packet(family, group, &short),
            packet_with(family.querier(), group, 1, false, &good),
            packet_with(family.querier(), group, 255, true, &good),
            elsewhere,
        ];
        let mut bench = Bench::with(1, cpus, |_| ());
        let ids = everywhere(&mut bench, family);
        listen(&mut bench, &ids, group, &Filter::ALL);
        bench.advance(SECOND * 5);
        told(&mut bench, family);
        for (n, packet) in (1..).zip(&bad) {
            hear(&mut bench, packet);
            bench.advance(SECOND * 11);
            assert_eq!((told(&mut bench, family), malformed(&bench, family)), (vec![], n), "{packet:02x?}");
        }
        hear(&mut bench, &packet(family, group, &good));
        bench.advance(SECOND * 11);
        assert_eq!(told(&mut bench, family).len(), 1);
    }
}

#[test]
fn reports_of_others_however_wrong_change_nothing() {
    for family in FAMILIES {
        let mut bench = Bench::new(1);
        let ids = everywhere(&mut bench, family);
        let group = family.group(1);
        listen(&mut bench, &ids, group, &Filter::ALL);
        bench.advance(SECOND * 5);
        told(&mut bench, family);
        let kind = if family == Family::V4 { 0x22 } else { 143 };
        for (records, sources) in [(1_u16, 0_u16), (0xffff, 0), (1, 0xffff), (0xffff, 0xffff)] {
            let [r0, r1] = records.to_be_bytes();
            let [s0, s1] = sources.to_be_bytes();
            let lie = [&[kind, 0, 0, 0, 0, 0, r0, r1, 4, 0xff, s0, s1][..], &bytes(&[group])].concat();
            hear(&mut bench, &packet(family, group, &lie));
        }
        bench.advance(SECOND * 20);
        assert_eq!(told(&mut bench, family), []);
        assert_eq!(ask(&mut bench, family, group, &[]), [report(&[(Kind::IsExclude, group, &[])])]);
    }
}

#[test]
fn a_storm_of_queries_for_senders_without_end_is_answered_once_for_the_group() {
    for (cpus, family) in each() {
        let mut bench = Bench::with(1, cpus, |_| ());
        let ids = everywhere(&mut bench, family);
        let group = family.group(1);
        listen(&mut bench, &ids, group, &Filter::ALL);
        bench.advance(SECOND * 5);
        told(&mut bench, family);
        for host in 2..200 {
            hear(&mut bench, &packet(family, group, &query(family, group, &[family.sender(host)])));
        }
        bench.advance(SECOND * 11);
        assert_eq!(told(&mut bench, family), [report(&[(Kind::IsExclude, group, &[])])]);
    }
}
