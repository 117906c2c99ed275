//! Programs that listen to multicast groups, a querier, and cables that lose.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use core::net::{IpAddr, Ipv6Addr, SocketAddr};

use net::count::Count;
use net::group::{self, Filter};
use net::time::Duration;
use net::udp::{self, Bind, Id, Listen, Settings};
use sim::cable;
use sim::frame::Frame;
use sim::host::{Host, Port, Spec};
use sim::mem::Rss;
use sim::plan::{self, Family};
use sim::station::{Content, Station};
use sim::world::{HostId, StationId, World};
use wire::checksum::Sum;
use wire::{EtherType, Mac, Protocol, igmp, ip4, ip6, mld};

use crate::common::{BOOT, seeds};

const PORT: u16 = 5300;
const SECOND: Duration = Duration::from_secs(1);
/// Datagrams that each CPU of the first host sends.
const COUNT: u8 = 20;

fn group(family: Family) -> IpAddr {
    match family {
        Family::V4 => [239, 1, 2, 3].into(),
        Family::V6 => Ipv6Addr::new(0xff05, 0, 0, 0, 0, 0, 1, 3).into(),
    }
}

/// Two hosts and a router that asks, on one cable.
fn link(seed: u64, cpus: u16, spec: cable::Spec) -> (World, [HostId; 2], StationId) {
    let mut world = World::new("groups", seed);
    let cable = world.cable(spec);
    let hosts = [1, 2].map(|host| {
        let port = Port::new(cable, 1, host).rings(usize::from(cpus), Rss::Right);
        world.host(Spec::host(&format!("host{host}")).cpus(cpus).port(port))
    });
    let router = world.station(cable, Station::new("router", plan::mac(1, 9), &plan::addrs(1, 9)));
    world.run_for(BOOT);
    (world, hosts, router)
}

/// A socket on each CPU that listens to the group.
fn listener(host: &mut Host, family: Family, filter: &Filter) -> Vec<Id> {
    let any: IpAddr = if family == Family::V4 { [0; 4].into() } else { [0_u16; 8].into() };
    let settings = Settings { queue_bytes: udp::QUEUE_BYTES_MAX, ..Settings::default() };
    let wanted = Bind { addr: (any, PORT).into(), zone: 0, only_v6: true, is_shared: true, settings };
    let wish = Listen { group: group(family), ifindex: 1, filter: filter.clone() };
    let cpus = host.cpus.iter_mut();
    let ids: Vec<_> = cpus.filter_map(|cpu| udp::bind(&mut cpu.netisr.cpu, &wanted).ok()).collect();
    for (at, id) in ids.iter().copied().enumerate() {
        let wish = wish.clone();
        host.call(at, move |netisr| udp::listen(&mut netisr.cpu, id, &wish).unwrap());
    }
    ids
}

/// Returns everything received by a socket, on any CPU: the sender, and the two bytes.
fn read(host: &mut Host, ids: &[Id]) -> Vec<(IpAddr, [u8; 2])> {
    let mut all = Vec::new();
    for (cpu, id) in host.cpus.iter_mut().zip(ids) {
        let mut into = [0; 2];
        while let Ok(got) = udp::recv(&mut cpu.netisr.cpu, *id, &mut into) {
            all.push((got.from.ip(), into));
        }
    }
    all.sort_unstable();
    all
}

#[test]
fn each_listener_has_what_it_wants_of_a_group_once_however_many_cpus_there_are() {
    for (family, cpus) in Family::BOTH.into_iter().flat_map(|family| [1, 2, 4, 8].map(|cpus| (family, cpus)))
    {
        for seed in seeds(1) {
            let late = cable::Spec { reorder: 50_000, ..cable::Spec::default() };
            let (mut world, hosts, _) = link(seed, cpus, late);
            let sender = family.addr(1, 1);
            let filters = [Filter::ALL, Filter::only([sender]), Filter::except([sender])];
            let listeners =
                hosts.map(|host| filters.clone().map(|filter| listener(world.of(host), family, &filter)));
            world.run_for(SECOND);
            for host in hosts {
                for (at, n) in (0..usize::from(cpus)).flat_map(|at| (0..COUNT).map(move |n| (at, n))) {
                    let id = listeners[usize::from(host == hosts[1])][0][at];
                    let bytes = [u8::try_from(at).unwrap_or(u8::MAX), n];
                    world.of(host).call(at, move |netisr| {
                        let to = SocketAddr::new(group(family), PORT);
                        udp::send_to(&mut netisr.cpu, id, to, &bytes).unwrap();
                    });
                }
            }
            world.run_for(SECOND * 2);
            for (host, sockets) in hosts.into_iter().zip(&listeners) {
                for (ids, filter) in sockets.iter().zip(&filters) {
                    let senders = [1, 2].map(|host| family.addr(1, host));
                    let senders = senders.into_iter().filter(|sender| filter.admits(*sender));
                    let cpus = u8::try_from(cpus).unwrap_or(u8::MAX);
                    let wanted: Vec<_> = senders
                        .flat_map(|from| {
                            (0..cpus).flat_map(move |at| (0..COUNT).map(move |n| (from, [at, n])))
                        })
                        .collect();
                    assert_eq!(read(world.of(host), ids), wanted, "{cpus} CPUs: {}", world.drops());
                }
            }
            world.finish();
        }
    }
}

/// A question for all groups, in the newest version or the one before.
fn query(family: Family, is_old: bool) -> Frame {
    let rest: &[u8] = if is_old { &[] } else { &[2, 10, 0, 0] };
    let (packet, ethertype, dst) = match family {
        Family::V4 => (query4(rest), EtherType::IPV4, wire::addr::multicast_mac_v4(igmp::ALL_SYSTEMS)),
        Family::V6 => (query6(rest), EtherType::IPV6, wire::addr::multicast_mac_v6(wire::addr::ALL_NODES)),
    };
    Frame::around(plan::mac(1, 9), dst.unwrap_or(Mac::BROADCAST), ethertype, &packet)
}

fn query4(rest: &[u8]) -> Vec<u8> {
    let IpAddr::V4(src) = Family::V4.addr(1, 9) else { return Vec::new() };
    let mut message = [&[0x11, 50, 0, 0, 0, 0, 0, 0], rest].concat();
    let sum = Sum::new().bytes(&message).checksum();
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let len = u16::try_from(message.len()).unwrap_or_default();
    let options = ip4::Options::from_bytes(&igmp::ROUTER_ALERT).unwrap_or(ip4::Options::NONE);
    let header = ip4::Header::new(src, igmp::ALL_SYSTEMS, Protocol::IGMP, len);
    let mut packet = vec![0; 24];
    ip4::Header { ttl: igmp::TTL, options, ..header }.emit(&mut packet).unwrap();
    [packet, message].concat()
}

fn query6(rest: &[u8]) -> Vec<u8> {
    let (src, dst) = (wire::addr::link_local_from_mac(plan::mac(1, 9)), wire::addr::ALL_NODES);
    let mut message = [&[130, 0, 0, 0, 0x13, 0x88, 0, 0][..], &[0; 16], rest].concat();
    let len = u16::try_from(message.len()).unwrap_or_default();
    let sum = Sum::pseudo_v6(src, dst, Protocol::ICMP6, len.into()).bytes(&message).checksum();
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let header = ip6::Header::new(src, dst, Protocol::HOP_BY_HOP, len + 8);
    let header = ip6::Header { hop_limit: mld::HOP_LIMIT, ..header }.to_bytes();
    [&header[..], &mld::ROUTER_ALERT, &message].concat()
}

/// Reports that the router has heard from the second host, in the newest version.
fn reports(world: &mut World, router: StationId, family: Family) -> usize {
    let (kind, link_local) = match family {
        Family::V4 => (Protocol::IGMP.0, family.addr(1, 2)),
        Family::V6 => (143, wire::addr::link_local_from_mac(plan::mac(1, 2)).into()),
    };
    let to: IpAddr = match family {
        Family::V4 => igmp::ALL_IGMP3_ROUTERS.into(),
        Family::V6 => mld::ALL_MLD2_ROUTERS.into(),
    };
    let heard = world.at(router).heard.iter();
    heard.filter(|it| it.what == Content::Other(kind) && (it.from, it.to) == (link_local, to)).count()
}

#[test]
fn a_router_that_asks_has_one_answer_each_time_and_in_its_own_version() {
    for (family, cpus) in Family::BOTH.into_iter().flat_map(|family| [1, 2, 4, 8].map(|cpus| (family, cpus)))
    {
        for seed in seeds(1) {
            let (mut world, [_, host], router) = link(seed, cpus, cable::Spec::default());
            let ids = listener(world.of(host), family, &Filter::ALL);
            world.run_for(SECOND * 5);
            assert!(reports(&mut world, router, family) >= 2, "told twice that it listens");
            for _ in 0..5 {
                let before = reports(&mut world, router, family);
                world.at(router).send_frame(query(family, false));
                world.run_for(SECOND * 6);
                assert_eq!(reports(&mut world, router, family), before + 1);
            }
            let count = if family == Family::V4 { Count::IgmpQueriesIn } else { Count::MldQueriesIn };
            assert_eq!(world.of(host).count(count), 5);
            let before = reports(&mut world, router, family);
            world.at(router).send_frame(query(family, true));
            world.run_for(SECOND * 6);
            assert_eq!(reports(&mut world, router, family), before);
            let said = world.at(router).has_heard(|it| it.to == group(family));
            assert!(said, "in the older version to the group itself");
            for (at, id) in ids.into_iter().enumerate() {
                world.of(host).call(at, move |netisr| udp::close(&mut netisr.cpu, id).unwrap());
            }
            world.run_for(SECOND * 20);
            let cpus = world.of(host).cpus.iter();
            let left = cpus
                .flat_map(|cpu| group::memberships(&cpu.netisr.cpu))
                .all(|of| of.key.group != group(family));
            assert!(left, "the last socket has closed");
            world.finish();
        }
    }
}
