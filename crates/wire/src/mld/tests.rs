use super::*;
use crate::icmp6;
use crate::membership::Kind;
use std::vec::Vec;

const GROUP: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00, 1);
const SOURCE: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 7);

fn query(len: usize, code: u16, group: Ipv6Addr) -> Vec<u8> {
    let mut bytes = std::vec![0; len];
    bytes[0] = kind::MLD_QUERY;
    bytes[4..6].copy_from_slice(&code.to_be_bytes());
    bytes[8..24].copy_from_slice(&group.octets());
    bytes
}

fn parse(bytes: &[u8]) -> Option<Query<'_>> {
    match Message::parse(bytes)? {
        Message::Query(query) => Some(query),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_length_of_a_query_tells_its_version() {
    let version = |len| parse(&query(len, 1000, GROUP)).map(|query| query.version);
    assert_eq!(
        [24, 25, 27, 28, 44].map(version),
        [Some(Version::V2), None, None, Some(Version::V3), Some(Version::V3)]
    );
    assert_eq!(parse(&query(24, 1000, GROUP)[..23]), None);
}

#[test]
fn a_query_asks_for_one_group_or_for_all() {
    let group = |group| parse(&query(28, 0, group)).map(|query| query.group);
    assert_eq!(group(Ipv6Addr::UNSPECIFIED), Some(None));
    assert_eq!(group(GROUP), Some(Some(IpAddr::V6(GROUP))));
    assert_eq!(group(Ipv6Addr::LOCALHOST), None, "that is no group");
}

#[test]
fn long_delays_are_floating_point_numbers_in_version_2_only() {
    let delay = |len, code| parse(&query(len, code, GROUP)).unwrap().max_delay_ms;
    assert_eq!((delay(28, 0x7fff), delay(28, 0x8000), delay(28, 0xffff)), (32_767, 32_768, 8_387_584));
    assert_eq!(delay(24, 0xffff), 65_535);
}

#[test]
fn a_query_may_ask_for_sources_and_has_as_many_as_it_says() {
    let mut bytes = query(28 + 16, 0, GROUP);
    bytes[24..28].copy_from_slice(&[0x0a, 0x8f, 0, 1]);
    bytes[28..44].copy_from_slice(&SOURCE.octets());
    let asked = parse(&bytes).unwrap();
    assert_eq!((asked.robustness, asked.interval_s), (2, 248));
    assert!(asked.sources.eq([IpAddr::V6(SOURCE)]));
    bytes[27] = 2;
    assert_eq!(parse(&bytes), None, "more sources than bytes");
    bytes[26] = 0xff;
    assert_eq!(parse(&bytes), None, "very many more");
    bytes[26..28].copy_from_slice(&[0, 1]);
    bytes[8..24].fill(0);
    assert_eq!(parse(&bytes), None, "sources of no group");
}

#[test]
fn reports_are_intact_and_are_read_as_they_were_written() {
    let src = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
    let mut out = [0; 64];
    let mut report = report2(&mut out).unwrap();
    assert_eq!(report.push(Kind::ToExclude, GROUP.into(), &[]), Ok(()));
    assert!(report.push(Kind::Allow, GROUP.into(), &[SOURCE.into(); 2]).is_err(), "there is room for one");
    assert_eq!(report.push(Kind::Allow, GROUP.into(), &[SOURCE.into()]), Ok(()));
    let len = finish(src, report);
    assert!(icmp6::verify(src, ALL_MLD2_ROUTERS, &out[..len]));
    let Some(Message::Report2(records)) = Message::parse(&out[..len]) else { panic!() };
    let read: Vec<_> =
        records.map(|record| (record.kind, record.group, record.sources.collect::<Vec<_>>())).collect();
    let group = IpAddr::V6(GROUP);
    let wanted = [(Kind::ToExclude, group, Vec::new()), (Kind::Allow, group, std::vec![IpAddr::V6(SOURCE)])];
    assert_eq!((len, &read[..]), (64, &wanted[..]));
}

#[test]
fn messages_of_version_1_are_intact_and_name_their_group() {
    let src = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
    let mut out = [0; 24];
    assert_eq!(emit_report1(src, GROUP, &mut out), Ok(24));
    assert!(icmp6::verify(src, GROUP, &out));
    assert!(matches!(Message::parse(&out), Some(Message::Report(group)) if group == GROUP));
    assert_eq!(emit_done(src, GROUP, &mut out), Ok(24));
    assert!(icmp6::verify(src, crate::addr::ALL_ROUTERS, &out));
    assert!(matches!(Message::parse(&out), Some(Message::Done(group)) if group == GROUP));
}

#[test]
fn the_all_hosts_groups_are_not_reported() {
    let groups = ["ff02::1", "ff01::2", "ff02::2", "ff02::1:ff00:1", "2001:db8::1"];
    let reported = groups.map(|group| is_reported(group.parse().unwrap()));
    assert_eq!(reported, [false, false, true, true, false]);
}

#[test]
fn a_query_is_read_as_it_was_written() {
    let mut out = [0; QUERY2_LEN];
    let src = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
    for group in [Ipv6Addr::UNSPECIFIED, Ipv6Addr::new(0xff15, 0, 0, 0, 0, 0, 0, 7)] {
        let ends = [src, crate::addr::ALL_NODES];
        let len = emit_query2(ends, group, 10_000, 2, 125, &mut out).unwrap();
        let message = &out[..len];
        assert!(Sum::pseudo_v6(ends[0], ends[1], Protocol::ICMP6, 28).bytes(message).is_intact());
        let Some(Message::Query(query)) = Message::parse(message) else { panic!("{message:02x?}") };
        assert_eq!(
            (query.version, query.max_delay_ms, query.interval_s, query.robustness),
            (Version::V3, 10_000, 125, 2)
        );
        assert_eq!(query.group, Some(IpAddr::V6(group)).filter(IpAddr::is_multicast));
        assert!(emit_query2(ends, group, 1, 2, 125, &mut [0; 27]).is_err());
    }
}
