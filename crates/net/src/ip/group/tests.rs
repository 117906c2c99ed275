//! A host that listens to groups, a router that asks, on one CPU and on several.

mod compat;
mod deliver;
mod limits;
mod malformed;

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::time::Duration;

use wire::addr::{multicast_mac_v4, multicast_mac_v6};
use wire::checksum::Sum;
use wire::ether::{HEADER_LEN, Mac};
use wire::membership::{Kind, Records, Version};
use wire::{Protocol, icmp6, igmp, ip4, ip6, mld};

use super::*;
use crate::base::drop::DropReason;
use crate::host::sock::Error;
use crate::host::udp::{self, Bind, Id, Listen, Settings};
use crate::ip::addr;
use crate::link::tables::Config;
use crate::testkit::link::FAMILIES;
use crate::testkit::link::Family;
use crate::testkit::{Bench, addr4, addr6, build, mac, peer_mac};

const CPUS: [u16; 4] = [1, 2, 4, 8];
const SECOND: Duration = Duration::from_secs(1);
const PORT: u16 = 5300;

impl Family {
    /// Any-source groups.
    fn group(self, n: u8) -> IpAddr {
        match self {
            Self::V4 => Ipv4Addr::new(239, 1, 2, n).into(),
            Self::V6 => Ipv6Addr::new(0xff05, 0, 0, 0, 0, 0, 0, 0x100 + u16::from(n)).into(),
        }
    }

    /// A group that needs a sender.
    fn channel(self) -> IpAddr {
        match self {
            Self::V4 => Ipv4Addr::new(232, 1, 2, 3).into(),
            Self::V6 => Ipv6Addr::new(0xff3e, 0, 0, 0, 0, 0, 0, 0x99).into(),
        }
    }

    fn querier(self) -> IpAddr {
        match self {
            Self::V4 => addr4(1, 99).into(),
            Self::V6 => Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 9).into(),
        }
    }

    /// All nodes of a link.
    fn all(self) -> IpAddr {
        match self {
            Self::V4 => igmp::ALL_SYSTEMS.into(),
            Self::V6 => wire::addr::ALL_NODES.into(),
        }
    }

    fn nobody(self) -> IpAddr {
        match self {
            Self::V4 => Ipv4Addr::UNSPECIFIED.into(),
            Self::V6 => Ipv6Addr::UNSPECIFIED.into(),
        }
    }

    /// To where reports of the newest version go.
    fn routers(self) -> IpAddr {
        match self {
            Self::V4 => igmp::ALL_IGMP3_ROUTERS.into(),
            Self::V6 => mld::ALL_MLD2_ROUTERS.into(),
        }
    }

    fn sender(self, host: u8) -> IpAddr {
        self.addr(1, host)
    }
}

/// A message of the stack.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Sent {
    /// The records of a report.
    Report(Vec<(Kind, IpAddr, Vec<IpAddr>)>),
    /// That we are in a group, in an older version.
    In(IpAddr),
    /// That we left it.
    Left(IpAddr),
}

/// A query of the newest version that wants an answer within ten seconds.
fn query(family: Family, group: IpAddr, sources: &[IpAddr]) -> Vec<u8> {
    let count = u8::try_from(sources.len()).unwrap();
    message(family, Version::V3, group, &[&[2, 125, 0, count][..], &bytes(sources)].concat())
}

fn bytes(addrs: &[IpAddr]) -> Vec<u8> {
    let octets = |addr: &IpAddr| match addr {
        IpAddr::V4(addr) => addr.octets().to_vec(),
        IpAddr::V6(addr) => addr.octets().to_vec(),
    };
    addrs.iter().flat_map(octets).collect()
}

/// A query whose end is `rest`.
fn message(family: Family, version: Version, group: IpAddr, rest: &[u8]) -> Vec<u8> {
    let delay = if version == Version::V1 { 0 } else { 100 };
    let head: &[u8] =
        if family == Family::V4 { &[0x11, delay, 0, 0] } else { &[130, 0, 0, 0, 0x27, 0x10, 0, 0] };
    [head, &bytes(&[group]), rest].concat()
}

/// The packet of a message from the router.
fn packet(family: Family, dst: IpAddr, message: &[u8]) -> Vec<u8> {
    packet_with(family.querier(), dst, 1, true, message)
}

fn packet_with(src: IpAddr, dst: IpAddr, ttl: u8, has_alert: bool, message: &[u8]) -> Vec<u8> {
    let mut message = message.to_vec();
    message[2..4].fill(0);
    let len = u32::try_from(message.len()).unwrap();
    let sum = match (src, dst) {
        (IpAddr::V6(src), IpAddr::V6(dst)) => Sum::pseudo_v6(src, dst, Protocol::ICMP6, len),
        _ => Sum::new(),
    };
    let sum = sum.bytes(&message).checksum();
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    match (src, dst, has_alert) {
        (IpAddr::V4(src), IpAddr::V4(dst), true) => {
            let options = ip4::Options::from_bytes(&igmp::ROUTER_ALERT).unwrap();
            let header = ip4::Header::new(src, dst, Protocol::IGMP, u16::try_from(message.len()).unwrap());
            let mut out = vec![0; 24];
            ip4::Header { ttl, options, ..header }.emit(&mut out).unwrap();
            [out, message].concat()
        }
        (IpAddr::V4(_), ..) => build::ip(src, dst, Protocol::IGMP, ttl, &message),
        (_, _, true) => {
            build::ip(src, dst, Protocol::HOP_BY_HOP, ttl, &[&mld::ROUTER_ALERT[..], &message].concat())
        }
        _ => build::ip(src, dst, Protocol::ICMP6, ttl, &message),
    }
}

/// Puts a packet from the router on the wire.
fn hear(bench: &mut Bench, packet: &[u8]) {
    let (ethertype, dst) = match packet[0] >> 4 {
        4 => (0x0800, Ipv4Addr::from(*packet[16..].first_chunk::<4>().unwrap()).into()),
        _ => (0x86dd, Ipv6Addr::from(*packet[24..].first_chunk::<16>().unwrap()).into()),
    };
    bench.inject(1, build::ether(group_mac(dst), peer_mac(addr4(1, 99).into()), ethertype, packet));
    bench.run();
}

fn group_mac(group: IpAddr) -> Mac {
    match group {
        IpAddr::V4(group) => multicast_mac_v4(group).unwrap_or_else(|| mac(1)),
        IpAddr::V6(group) => multicast_mac_v6(group).unwrap_or_else(|| mac(1)),
    }
}

/// A router asks, and has its answers within ten seconds.
fn ask(bench: &mut Bench, family: Family, group: IpAddr, sources: &[IpAddr]) -> Vec<Sent> {
    let to = if group.is_multicast() { group } else { family.all() };
    hear(bench, &packet(family, to, &query(family, group, sources)));
    bench.advance(SECOND * 11);
    told(bench, family)
}

/// Returns the reports of a family, without those for its addresses.
fn told(bench: &mut Bench, family: Family) -> Vec<Sent> {
    bench.sent(1).iter().filter_map(|frame| said(family, frame)).collect()
}

fn said(family: Family, frame: &[u8]) -> Option<Sent> {
    let packet = &frame[HEADER_LEN..];
    let (dst, told) = match family {
        Family::V4 => said4(packet)?,
        Family::V6 => said6(packet)?,
    };
    assert_eq!(Mac(*frame.first_chunk()?), group_mac(dst));
    match &told {
        Sent::Report(records) if !records.is_empty() => assert_eq!(dst, family.routers()),
        Sent::Report(_) => return None,
        Sent::In(group) => assert_eq!(dst, *group),
        Sent::Left(_) => assert_ne!(dst, family.routers()),
    }
    Some(told)
}

fn said4(packet: &[u8]) -> Option<(IpAddr, Sent)> {
    let view = ip4::View::new(packet).ok().filter(|view| view.protocol() == Protocol::IGMP)?;
    assert!(view.verify_checksum());
    assert_eq!((view.ttl(), view.tos(), view.option_bytes()), (1, igmp::TOS, &igmp::ROUTER_ALERT[..]));
    assert_eq!(view.src(), addr4(1, 1));
    let told = match igmp::Message::parse(view.payload()).expect("a good message") {
        igmp::Message::Report3(records) => Sent::Report(read(records)),
        igmp::Message::Report(group) => Sent::In(group.into()),
        igmp::Message::Leave(group) => Sent::Left(group.into()),
        igmp::Message::Query(query) => panic!("{query:?}"),
    };
    Some((view.dst().into(), told))
}

fn said6(packet: &[u8]) -> Option<(IpAddr, Sent)> {
    let header = ip6::Header::parse(packet).ok().filter(|ip| ip.next_header == Protocol::HOP_BY_HOP)?;
    let (alert, message) = packet[40..].split_at(8);
    assert_eq!((alert, header.hop_limit), (&mld::ROUTER_ALERT[..], 1));
    assert!(icmp6::verify(header.src, header.dst, message));
    let told = match mld::Message::parse(message).expect("a good message") {
        mld::Message::Report2(records) => Sent::Report(read(records)),
        mld::Message::Report(group) => Sent::In(group.into()),
        mld::Message::Done(group) => Sent::Left(group.into()),
        mld::Message::Query(query) => panic!("{query:?}"),
    };
    Some((header.dst.into(), told))
}

/// The records of groups that do not follow from our addresses.
fn read(records: Records<'_>) -> Vec<(Kind, IpAddr, Vec<IpAddr>)> {
    let all = records.map(|record| (record.kind, record.group, record.sources.collect()));
    all.filter(|(_, group, _)| !is_follower(*group)).collect()
}

fn is_follower(group: IpAddr) -> bool {
    match group {
        IpAddr::V4(group) => group == igmp::ALL_ROUTERS,
        IpAddr::V6(group) => {
            group == wire::addr::ALL_ROUTERS || wire::addr::is_solicited_node_multicast(group)
        }
    }
}

/// A socket on each CPU.
fn everywhere(bench: &mut Bench, family: Family) -> Vec<Id> {
    let addr = (family.nobody(), PORT).into();
    let wanted = Bind { addr, zone: 0, only_v6: false, is_shared: true, settings: Settings::default() };
    bench.netisrs.iter_mut().map(|netisr| udp::bind(&mut netisr.cpu, &wanted).unwrap()).collect()
}

/// That socket listens to a group on interface 1.
fn listen(bench: &mut Bench, ids: &[Id], group: IpAddr, filter: &Filter) {
    let wanted = Listen { group, ifindex: 1, filter: filter.clone() };
    for (netisr, id) in bench.netisrs.iter_mut().zip(ids) {
        udp::listen(&mut netisr.cpu, *id, &wanted).unwrap();
    }
    bench.run();
}

fn report(records: &[(Kind, IpAddr, &[IpAddr])]) -> Sent {
    Sent::Report(records.iter().map(|(kind, group, sources)| (*kind, *group, sources.to_vec())).collect())
}

fn each() -> impl Iterator<Item = (u16, Family)> {
    CPUS.into_iter().flat_map(|cpus| FAMILIES.map(|family| (cpus, family)))
}

#[test]
fn a_new_address_is_reported_before_and_after_it_has_been_asked_for() {
    let new = addr6(1, 0x77);
    let mut bench = Bench::cold(1, 1, |config| config.ifs[0].addrs[1].addr = new.into());
    bench.advance(SECOND * 5);
    let group = solicited_node_multicast(new);
    let frames = bench.sent(1);
    let reports = frames.iter().filter_map(|frame| {
        let header = ip6::Header::parse(&frame[HEADER_LEN..]).ok()?;
        let message = frame.get(HEADER_LEN + 48..).filter(|_| header.next_header == Protocol::HOP_BY_HOP)?;
        let Some(mld::Message::Report2(mut records)) = mld::Message::parse(message) else { return None };
        let about = records.any(|record| record.group == IpAddr::V6(group) && record.kind == Kind::ToExclude);
        about.then_some((header.src, header.dst))
    });
    let reports: Vec<_> = reports.collect();
    assert_eq!(reports.len(), 2, "{reports:?}");
    assert!(reports.iter().all(|(_, to)| *to == mld::ALL_MLD2_ROUTERS));
    assert_eq!(reports[0].0, Ipv6Addr::UNSPECIFIED, "no address of ours is certain yet");
}

#[test]
fn groups_of_our_addresses_are_in_each_answer_and_those_of_addresses_that_go_are_left() {
    let all_routers = |family| match family {
        Family::V4 => IpAddr::V4(igmp::ALL_ROUTERS),
        Family::V6 => IpAddr::V6(wire::addr::ALL_ROUTERS),
    };
    let mut bench = Bench::with(1, 2, |_| ());
    let own = [addr::link_local(mac(1)), addr6(1, 1)].map(|own| IpAddr::V6(solicited_node_multicast(own)));
    for family in FAMILIES {
        hear(&mut bench, &packet(family, family.all(), &query(family, family.nobody(), &[])));
        bench.advance(SECOND * 11);
        let members: Vec<_> = bench.netisrs.iter().flat_map(|netisr| memberships(&netisr.cpu)).collect();
        let is_in = |group| members.iter().any(|of| of.key == Key { ifindex: 1, group });
        assert!(is_in(all_routers(family)) && own.iter().all(|group| is_in(*group)));
        let frames = bench.sent(1);
        let reports = frames.iter().filter_map(|frame| match family {
            Family::V4 => igmp::Message::parse(frame.get(HEADER_LEN + 24..)?).map(|message| match message {
                igmp::Message::Report3(records) => records.map(|record| record.group).collect(),
                _ => Vec::new(),
            }),
            Family::V6 => mld::Message::parse(frame.get(HEADER_LEN + 48..)?).map(|message| match message {
                mld::Message::Report2(records) => records.map(|record| record.group).collect(),
                _ => Vec::new(),
            }),
        });
        let groups: Vec<IpAddr> = reports.flatten().collect();
        let mut wanted = vec![all_routers(family)];
        wanted.extend(own.iter().filter(|_| family == Family::V6));
        wanted.sort_unstable();
        wanted.dedup();
        assert_eq!(groups, wanted);
    }
    let mut config = Config { ifs: vec![crate::testkit::ifnet(1)], forwarding: true, ..Config::default() };
    config.ifs[0].addrs[1].addr = addr6(1, 0x77).into();
    bench.set_tables(config);
    bench.advance(SECOND * 5);
    let frames = bench.sent(1);
    let left = frames.iter().filter_map(|frame| mld::Message::parse(frame.get(HEADER_LEN + 48..)?));
    let left = left.filter_map(|message| match message {
        mld::Message::Report2(mut records) => {
            Some(records.any(|record| record.kind == Kind::ToInclude && record.group == own[1]))
        }
        _ => None,
    });
    let gone = solicited_node_multicast(addr6(1, 1)) != solicited_node_multicast(addr::link_local(mac(1)));
    assert_eq!(left.filter(|is_left| *is_left).count(), if gone { 2 } else { 0 });
}

#[test]
fn what_is_listened_to_is_told_as_often_as_messages_may_get_lost_and_then_no_more() {
    for (cpus, family) in each() {
        let mut bench = Bench::with(1, cpus, |_| ());
        let ids = everywhere(&mut bench, family);
        let group = family.group(1);
        listen(&mut bench, &ids, group, &Filter::ALL);
        let joined = report(&[(Kind::ToExclude, group, &[])]);
        assert_eq!(told(&mut bench, family), core::slice::from_ref(&joined), "at once");
        bench.advance(SECOND);
        bench.advance(SECOND);
        assert_eq!(told(&mut bench, family), [joined], "and once more");
        bench.advance(SECOND * 100);
        assert_eq!(told(&mut bench, family), []);
        listen(&mut bench, &ids, group, &Filter::NONE);
        bench.advance(SECOND * 100);
        assert_eq!(told(&mut bench, family), vec![report(&[(Kind::ToInclude, group, &[])]); 2]);
        assert_eq!(bench.drops(), []);
    }
}

#[test]
fn changes_of_senders_are_told_as_changes_and_modes_as_modes() {
    for (cpus, family) in each() {
        let mut bench = Bench::with(1, cpus, |_| ());
        let ids = everywhere(&mut bench, family);
        let (group, [a, b]) = (family.channel(), [7, 8].map(|host| family.sender(host)));
        let any = family.group(2);
        let steps: [(IpAddr, Filter, Vec<Sent>); 6] = [
            (group, Filter::only([a]), vec![report(&[(Kind::Allow, group, &[a])])]),
            (
                group,
                Filter::only([b]),
                vec![report(&[(Kind::Allow, group, &[b]), (Kind::Block, group, &[a])])],
            ),
            (group, Filter::NONE, vec![report(&[(Kind::Block, group, &[b])])]),
            (any, Filter::only([a]), vec![report(&[(Kind::Allow, any, &[a])])]),
            (any, Filter::except([a, b]), vec![report(&[(Kind::ToExclude, any, &[a, b])])]),
            (any, Filter::except([b]), vec![report(&[(Kind::Allow, any, &[a])])]),
        ];
        for (group, filter, wanted) in steps {
            listen(&mut bench, &ids, group, &filter);
            bench.advance(SECOND * 3);
            let said = told(&mut bench, family);
            // Of several CPUs each wants what it does a moment before or after the others: more steps, to the same end.
            assert!(cpus > 1 || said == [wanted.clone(), wanted].concat(), "{said:?}");
            let kind = if filter.excludes() { Kind::IsExclude } else { Kind::IsInclude };
            let state = [report(&[(kind, group, filter.sources())])];
            assert_eq!(ask(&mut bench, family, group, &[]), if filter.is_none() { &[][..] } else { &state });
        }
    }
}

#[test]
fn a_change_before_the_last_one_has_been_told_twice_is_told_with_it() {
    for family in FAMILIES {
        let mut bench = Bench::new(1);
        let ids = everywhere(&mut bench, family);
        let (group, [a, b]) = (family.group(1), [7, 8].map(|host| family.sender(host)));
        listen(&mut bench, &ids, group, &Filter::only([a]));
        listen(&mut bench, &ids, group, &Filter::only([b]));
        let both = report(&[(Kind::Allow, group, &[b]), (Kind::Block, group, &[a])]);
        assert_eq!(told(&mut bench, family), [report(&[(Kind::Allow, group, &[a])]), both.clone()]);
        bench.advance(SECOND * 5);
        assert_eq!(told(&mut bench, family), [both]);
        listen(&mut bench, &ids, group, &Filter::ALL);
        listen(&mut bench, &ids, group, &Filter::only([a]));
        bench.advance(SECOND * 5);
        let back = report(&[(Kind::ToInclude, group, &[a])]);
        assert_eq!(told(&mut bench, family), [report(&[(Kind::ToExclude, group, &[])]), back.clone(), back]);
    }
}

#[test]
fn several_sockets_are_told_as_one_that_wants_what_any_of_them_wants() {
    for (cpus, family) in each() {
        let mut bench = Bench::with(1, cpus, |_| ());
        let [first, second] = [0; 2].map(|_| everywhere(&mut bench, family));
        let (group, [a, b]) = (family.group(1), [7, 8].map(|host| family.sender(host)));
        listen(&mut bench, &first, group, &Filter::except([a, b]));
        listen(&mut bench, &second, group, &Filter::only([a]));
        bench.advance(SECOND * 5);
        told(&mut bench, family);
        let state = |sources: &[IpAddr]| [report(&[(Kind::IsExclude, group, sources)])];
        assert_eq!(ask(&mut bench, family, group, &[]), state(&[b]));
        for (netisr, id) in bench.netisrs.iter_mut().zip(&second) {
            udp::close(&mut netisr.cpu, *id).unwrap();
        }
        bench.advance(SECOND * 5);
        assert_eq!(told(&mut bench, family), vec![report(&[(Kind::Block, group, &[a])]); 2]);
        for (netisr, id) in bench.netisrs.iter_mut().zip(&first) {
            udp::close(&mut netisr.cpu, *id).unwrap();
        }
        bench.advance(SECOND * 5);
        assert_eq!(told(&mut bench, family), vec![report(&[(Kind::ToInclude, group, &[])]); 2]);
        assert_eq!(ask(&mut bench, family, group, &[]), [], "the last has closed");
    }
}

#[test]
fn general_group_and_source_queries_are_answered_once_and_in_time() {
    for (cpus, family) in each() {
        let mut bench = Bench::with(1, cpus, |_| ());
        let ids = everywhere(&mut bench, family);
        let (all, some) = (family.group(1), family.group(2));
        let [a, b, c] = [7, 8, 9].map(|host| family.sender(host));
        listen(&mut bench, &ids, all, &Filter::except([c]));
        listen(&mut bench, &ids, some, &Filter::only([a, b]));
        bench.advance(SECOND * 5);
        told(&mut bench, family);
        let answers = ask(&mut bench, family, family.nobody(), &[]);
        let both = [(Kind::IsExclude, all, &[c][..]), (Kind::IsInclude, some, &[a, b])];
        assert_eq!(answers, [report(&both)]);
        let mut of = |group, sources: &[IpAddr]| ask(&mut bench, family, group, sources);
        assert_eq!(of(all, &[]), [report(&both[..1])]);
        assert_eq!(of(some, &[]), [report(&both[1..])]);
        assert_eq!(of(some, &[b, c]), [report(&[(Kind::IsInclude, some, &[b])])]);
        assert_eq!(of(all, &[b, c]), [report(&[(Kind::IsInclude, all, &[b])])]);
        assert_eq!((of(some, &[c]), of(family.group(3), &[])), (vec![], vec![]));
        bench.advance(SECOND * 100);
        assert_eq!(told(&mut bench, family), []);
    }
}

#[test]
fn many_questions_about_a_group_have_one_answer_and_those_after_one_about_all_none_of_their_own() {
    for (cpus, family) in each() {
        let mut bench = Bench::with(1, cpus, |_| ());
        let ids = everywhere(&mut bench, family);
        let (group, [a, b]) = (family.group(1), [7, 8].map(|host| family.sender(host)));
        listen(&mut bench, &ids, group, &Filter::ALL);
        bench.advance(SECOND * 5);
        told(&mut bench, family);
        for source in [a, b] {
            hear(&mut bench, &packet(family, group, &query(family, group, &[source])));
        }
        bench.advance(SECOND * 11);
        let of_senders = [report(&[(Kind::IsInclude, group, &[a, b])])];
        assert_eq!(told(&mut bench, family), of_senders);
        for _ in 0..300 {
            hear(&mut bench, &packet(family, group, &query(family, group, &[a])));
            hear(&mut bench, &packet(family, family.all(), &query(family, family.nobody(), &[])));
        }
        bench.advance(SECOND * 11);
        let answers = told(&mut bench, family).len();
        assert!((1..=2).contains(&answers), "{answers}");
    }
}

#[test]
fn what_is_listened_to_is_told_again_when_the_interface_comes_up_and_forgotten_when_it_goes() {
    for (cpus, family) in each() {
        let mut bench = Bench::with(1, cpus, |_| ());
        let ids = everywhere(&mut bench, family);
        let group = family.group(1);
        listen(&mut bench, &ids, group, &Filter::ALL);
        bench.advance(SECOND * 5);
        let config = |up| {
            let mut ifnet = crate::testkit::ifnet(1);
            ifnet.up = up;
            Config { ifs: vec![ifnet], forwarding: true, ..Config::default() }
        };
        bench.set_tables(config(false));
        bench.advance(SECOND * 5);
        told(&mut bench, family);
        bench.set_tables(config(true));
        bench.advance(SECOND * 10);
        assert_eq!(told(&mut bench, family), vec![report(&[(Kind::ToExclude, group, &[])]); 2]);
        bench.set_tables(Config::default());
        bench.run();
        for (at, id) in ids.iter().enumerate() {
            assert_eq!(udp::memberships(&bench.netisrs[at].cpu, *id), []);
        }
        bench.set_tables(config(true));
        bench.advance(SECOND * 10);
        assert_eq!(told(&mut bench, family), []);
    }
}

#[test]
fn groups_joined_and_left_while_the_interface_is_down_leave_nothing_behind() {
    for (cpus, family) in each() {
        let mut bench = Bench::with(1, cpus, |config| config.ifs[0].up = false);
        let ids = everywhere(&mut bench, family);
        for n in 0..100 {
            listen(&mut bench, &ids, family.group(n), &Filter::ALL);
            listen(&mut bench, &ids, family.group(n), &Filter::NONE);
        }
        let links = bench.netisrs.iter().flat_map(|netisr| &netisr.cpu.groups.links);
        assert_eq!(links.map(|link| link.entries.len()).sum::<usize>(), 0);
        assert!(bench.netisrs.iter().all(|netisr| netisr.cpu.groups.members.is_empty()));
    }
}
