use super::*;
use crate::membership::Kind;
use std::vec::Vec;

const GROUP: Ipv4Addr = Ipv4Addr::new(239, 1, 2, 3);
const SOURCE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 7);

fn summed(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes[2..4].fill(0);
    sum(&mut bytes);
    bytes
}

fn query(len: usize, code: u8, group: Ipv4Addr) -> Vec<u8> {
    let mut bytes = std::vec![0; len];
    bytes[..2].copy_from_slice(&[QUERY, code]);
    bytes[4..8].copy_from_slice(&group.octets());
    summed(bytes)
}

fn parse(bytes: &[u8]) -> Option<Query<'_>> {
    match Message::parse(bytes)? {
        Message::Query(query) => Some(query),
        other => panic!("{other:?}"),
    }
}

#[test]
fn length_and_code_of_a_query_tell_its_version() {
    let version = |(len, code)| parse(&query(len, code, GROUP)).map(|query| query.version);
    assert_eq!(
        [(8, 0), (8, 1), (9, 1), (10, 0), (11, 0), (12, 0), (20, 9)].map(version),
        [Some(Version::V1), Some(Version::V2), None, None, None, Some(Version::V3), Some(Version::V3)]
    );
    assert_eq!(parse(&query(8, 1, GROUP)[..7]), None);
}

#[test]
fn a_query_asks_for_one_group_or_for_all() {
    let group = |group| parse(&query(12, 0, group)).map(|query| query.group);
    assert_eq!(group(Ipv4Addr::UNSPECIFIED), Some(None));
    assert_eq!(group(GROUP), Some(Some(IpAddr::V4(GROUP))));
    assert_eq!(group(SOURCE), None, "that is no group");
}

#[test]
fn delays_are_tenths_of_seconds_and_long_ones_floating_point_numbers_in_version_3() {
    let delay = |len, code| parse(&query(len, code, GROUP)).unwrap().max_delay_ms;
    assert_eq!((delay(8, 0), delay(8, 255)), (10_000, 25_500));
    assert_eq!((delay(12, 0x7f), delay(12, 0x80), delay(12, 0xff)), (12_700, 12_800, 3_174_400));
}

#[test]
fn a_query_may_ask_for_sources_and_has_as_many_as_it_says() {
    let with = |flags, interval, count: u16, group: Ipv4Addr| {
        let [n0, n1] = count.to_be_bytes();
        let head = [&[QUERY, 0, 0, 0][..], &group.octets(), &[flags, interval, n0, n1]].concat();
        summed([&head[..], &SOURCE.octets()].concat())
    };
    let good = with(0x0a, 0x8f, 1, GROUP);
    let asked = parse(&good).unwrap();
    assert_eq!((asked.robustness, asked.interval_s), (2, 248));
    assert!(asked.sources.eq([IpAddr::V4(SOURCE)]));
    for bad in [with(0, 0, 2, GROUP), with(0, 0, 0xffff, GROUP), with(0, 0, 1, Ipv4Addr::UNSPECIFIED)] {
        assert_eq!(parse(&bad), None, "{bad:?}");
    }
}

#[test]
fn reports_are_intact_and_are_read_as_they_were_written() {
    let mut out = [0; 28];
    let mut report = report3(&mut out).unwrap();
    assert_eq!(report.push(Kind::ToExclude, GROUP.into(), &[]), Ok(()));
    assert!(report.push(Kind::Allow, GROUP.into(), &[SOURCE.into(); 2]).is_err(), "there is room for one");
    assert_eq!(report.push(Kind::Allow, GROUP.into(), &[SOURCE.into()]), Ok(()));
    let len = finish(report);
    let Some(Message::Report3(records)) = Message::parse(&out[..len]) else { panic!() };
    let read: Vec<_> =
        records.map(|record| (record.kind, record.group, record.sources.collect::<Vec<_>>())).collect();
    let group = IpAddr::V4(GROUP);
    let wanted = [(Kind::ToExclude, group, Vec::new()), (Kind::Allow, group, std::vec![IpAddr::V4(SOURCE)])];
    assert_eq!((len, &read[..]), (28, &wanted[..]));
}

#[test]
fn records_end_where_one_says_more_than_there_is() {
    let record = |count: u8, aux| [&[1, aux, 0, count][..], &GROUP.octets(), &SOURCE.octets()].concat();
    let report = |records: &[Vec<u8>]| {
        let count = u8::try_from(records.len()).unwrap();
        summed([&[REPORT3, 0, 0, 0, 0, 0, 0, count][..], &records.concat()].concat())
    };
    let count = |bytes: &[u8]| match Message::parse(bytes) {
        Some(Message::Report3(records)) => records.count(),
        other => panic!("{other:?}"),
    };
    assert_eq!(count(&report(&[record(1, 0), record(0, 1)])), 2);
    assert_eq!(count(&report(&[record(1, 0), record(2, 0)])), 1);
    assert_eq!(count(&report(&[record(1, 255), record(1, 0)])), 0);
    let mut more = report(&[record(1, 0)]);
    more[6..8].fill(0xff);
    assert_eq!(count(&summed(more)), 1);
}

#[test]
fn messages_of_older_versions_are_intact_and_name_their_group() {
    let mut out = [0; 8];
    for version in [Version::V1, Version::V2] {
        assert_eq!(emit_report(version, GROUP, &mut out), Ok(8));
        assert!(matches!(Message::parse(&out), Some(Message::Report(group)) if group == GROUP));
    }
    assert_eq!(emit_leave(GROUP, &mut out), Ok(8));
    assert!(matches!(Message::parse(&out), Some(Message::Leave(group)) if group == GROUP));
    out[7] ^= 1;
    assert!(Message::parse(&out).is_none() && !verify(&out));
}

#[test]
fn a_query_is_read_as_it_was_written() {
    let mut out = [0; 12];
    for group in [Ipv4Addr::UNSPECIFIED, Ipv4Addr::new(239, 1, 2, 3)] {
        let len = emit_query3(group, 10_000, 2, 125, &mut out).unwrap();
        let Some(Message::Query(query)) = Message::parse(&out[..len]) else { panic!("{out:02x?}") };
        assert_eq!(
            (query.version, query.max_delay_ms, query.interval_s, query.robustness),
            (Version::V3, 10_000, 125, 2)
        );
        assert_eq!(query.group, Some(IpAddr::V4(group)).filter(IpAddr::is_multicast));
        assert!(emit_query3(group, 1, 2, 125, &mut [0; 11]).is_err());
    }
}
