//! The tests of each kind of interface.
#![expect(clippy::panic, clippy::unwrap_used, reason = "bodies of tests")]

use core::net::IpAddr;
use std::sync::Arc;

use net::capture::{self, Buffer, CaptureId, Place, Places, Selection};
use net::count::Count;
use net::drop::DropReason;
use net::ifq::QueueSpec;
use net::time::Duration;
use sim::cable;
use sim::firewall::HostFirewall;
use sim::plan::Family;
use sim::station::{Content, Flow};
use sim::world::Permit;

use wire::ether::{EtherType, HEADER_LEN};

use super::{Kind, Link, link};
use crate::common::{Shape, on};

const SECOND: Duration = Duration::from_secs(1);
const BITS_PER_SECOND: u64 = 10_000_000;

/// One CPU, and four whose device chooses other rings than the stack would.
fn shapes() -> [Shape; 2] {
    [Shape::SIMPLE, Shape { cpus: 4, rings: 4, rss: sim::mem::Rss::Wrong }]
}

/// Two flows that send more than the link takes get half of its bytes each; a sparse one loses nothing and hardly waits.
pub(super) fn fair_queueing(kind: Kind) {
    assert_eq!(QueueSpec::default(), QueueSpec::FQ_CODEL);
    for family in Family::BOTH {
        let slow = cable::Spec { rate_bps: Some(BITS_PER_SECOND), ..cable::Spec::default() };
        let Link { mut world, a, b, .. } = link("kind_fair", kind, Shape::SIMPLE, None, slow);
        world.allow(Permit::Loss);
        let to = |port: u16| Flow::to(family.addr(3, 2)).ports(port, 53);
        let large = world.flow(a, b, to(1).len(1200).gap(Duration::from_micros(800)).count(5000));
        let small = world.flow(a, b, to(2).len(300).gap(Duration::from_micros(150)).count(27_000));
        let sparse = world.flow(a, b, to(3).len(100).gap(Duration::from_millis(20)).count(190));
        world.run_for(4 * SECOND);
        let headers = if family == Family::V4 { 28 } else { 48 };
        let bytes =
            |flow, len: u64| u64::from(world.tally(flow).received) * (len + headers + kind.overhead());
        let [large, small] = [bytes(large, 1200), bytes(small, 300)];
        assert!(
            large.abs_diff(small) * 10 < large + small,
            "{kind:?}, {family:?}: {large} and {small} bytes"
        );
        let busy = (large + small) * 8;
        assert!(busy > BITS_PER_SECOND * 4 * 9 / 10, "{kind:?}, {family:?}: {busy} bits in four seconds");
        let waited = world.delays(sparse).into_iter().max().unwrap_or(Duration::MAX);
        assert!(waited < Duration::from_millis(8), "{kind:?}, {family:?}: {waited:?}");
        assert_eq!(world.tally(sparse).received, 190, "{kind:?}, {family:?}");
        world.run_for(5 * SECOND);
        world.finish();
    }
}

/// A rule denies what leaves by the interface; what comes in by it passes as an answer alone.
pub(super) fn firewall(kind: Kind) {
    let rules = format!(
        "add 5 deny udp from any to any 54 out xmit {name}\n\
         add 6 allow ipv6-icmp from any to any icmp6types 133,134,135,136\n\
         add 10 check-state\n\
         add 20 allow udp from any to any 53 in recv mem0 keep-state\n\
         add 30 deny udp from any to any in recv {name}\n\
         add 40 allow ip from any to any\n",
        name = kind.name()
    );
    for shape in shapes() {
        let Link { mut world, routers, a, b } = link("kind_rules", kind, shape, None, cable::Spec::default());
        let mut firewall = HostFirewall::new(&rules, shape.cpus, 64);
        // Outer packets are UDP, too.
        if let Kind::Vxlan(_) = kind {
            firewall.obey("add 1 allow udp from any to me 4789\n");
        }
        assert!(world.of(routers[0]).set_firewall(&mut firewall));
        world.run_for(SECOND);
        for family in Family::BOTH {
            let ip = world.at(a).ip_to(family.addr(3, 2));
            let back = world.at(b).ip_to(family.addr(1, 2));
            for (from, to) in [(4000, 53), (5000, 54)] {
                world.at(a).send_udp(ip, [from, to], b"question");
            }
            world.at(b).send_udp(back, [53, 6000], b"nobody asked");
            world.run_for(SECOND);
            world.at(b).send_udp(back, [53, 4000], b"answer");
            world.run_for(SECOND);
            let got =
                |content: &Content, wanted| matches!(content, Content::Udp { ports, .. } if *ports == wanted);
            let count = |heard: &std::collections::VecDeque<sim::station::ReceivedPacket>, ports, from| {
                heard.iter().filter(|heard| heard.from == from && got(&heard.what, ports)).count()
            };
            let (here, there): (IpAddr, IpAddr) = (family.addr(1, 2), family.addr(3, 2));
            let asked = [[4000, 53], [5000, 54]].map(|ports| count(&world.at(b).heard, ports, here));
            assert_eq!(asked, [1, 0], "{kind:?}, {family:?}, {shape:?} {}", world.drops());
            let answered = [[53, 4000], [53, 6000]].map(|ports| count(&world.at(a).heard, ports, there));
            assert_eq!(answered, [1, 0], "{kind:?}, {family:?}, {shape:?} {}", world.drops());
        }
        assert_eq!(world.of(routers[0]).dropped(DropReason::FirewallDeny), 4, "{kind:?}, {shape:?}");
        world.finish();
    }
}

/// NAT44 and NPTv6 on the interface: the far end sees other addresses, and answers to them come home.
pub(super) fn translation(kind: Kind) {
    let rules = format!(
        "nat 1 config ip 10.0.4.1\n\
         nptv6 out create int_prefix 2001:db8:1:: ext_prefix 2001:db8:9:: prefixlen 64\n\
         add 10 nat 1 ip4 from any to any via {name}\n\
         add 20 nptv6 out ip6 from any to any via {name}\n\
         add 30 allow ip from any to any\n",
        name = kind.name()
    );
    for shape in shapes() {
        for flows in [None, Some(64)] {
            let Link { mut world, routers, a, b } =
                link("kind_nat", kind, shape, flows, cable::Spec::default());
            let mut firewall = HostFirewall::new(&rules, shape.cpus, 64);
            assert!(world.of(routers[0]).set_firewall(&mut firewall));
            world.run_for(SECOND);
            for (family, round) in
                Family::BOTH.into_iter().flat_map(|family| (0..5).map(move |n| (family, n)))
            {
                let ip = world.at(a).ip_to(family.addr(3, 2));
                world.at(a).send_udp(ip, [4000 + round, 53], b"question");
                world.run_for(SECOND / 10);
                let heard = world.at(b).heard.pop_back().map(|heard| (heard.from, heard.what));
                let Some((from, Content::Udp { ports: [port, 53], .. })) = heard else {
                    panic!("{kind:?}, {family:?}, {shape:?}: {heard:?} {}", world.drops());
                };
                match from {
                    IpAddr::V4(_) => assert_eq!(from, Family::V4.addr(4, 1)),
                    IpAddr::V6(from) => assert_eq!(from.segments()[..4], [0x2001, 0xdb8, 9, 0]),
                }
                let back = world.at(b).ip_to(from);
                world.at(b).send_udp(back, [53, port], b"answer");
                world.run_for(SECOND / 10);
                let heard = world.at(a).heard.pop_back().map(|heard| (heard.from, heard.what));
                let Some((from, Content::Udp { ports, .. })) = heard else {
                    panic!("{kind:?}, {family:?}, {shape:?}: {heard:?} {}", world.drops());
                };
                assert_eq!((from, ports), (family.addr(3, 2), [53, 4000 + round]), "{kind:?}, {shape:?}");
            }
            world.finish();
        }
    }
}

/// Packets of a flow hit the cache in both directions; rules that change are obeyed by the next packet.
pub(super) fn flow_cache(kind: Kind) {
    const COUNT: u32 = 20;
    for shape in shapes() {
        let Link { mut world, routers, a, b } =
            link("kind_cache", kind, shape, Some(64), cable::Spec::default());
        let allow = "add 30 allow ip from any to any\n";
        let mut firewall = HostFirewall::new(allow, shape.cpus, 64);
        assert!(world.of(routers[0]).set_firewall(&mut firewall));
        world.run_for(SECOND);
        let both = |world: &mut sim::world::World| {
            let gap = Duration::from_millis(10);
            let flows = Family::BOTH.map(|family| {
                let flow = |net| Flow::to(family.addr(net, 2)).ports(4000, 53).count(COUNT).gap(gap);
                [world.flow(a, b, flow(3)), world.flow(b, a, flow(1))]
            });
            world.run_for(SECOND);
            flows.as_flattened().iter().map(|flow| world.tally(*flow).received).collect::<Vec<_>>()
        };
        let before = world.of(routers[0]).count(Count::FlowHits);
        assert_eq!(both(&mut world), [COUNT; 4], "{kind:?}, {shape:?} {}", world.drops());
        let hits = world.of(routers[0]).count(Count::FlowHits) - before;
        assert!(hits >= u64::from(4 * (COUNT - 3)), "{kind:?}, {shape:?}: {hits} hits");
        let name = kind.name();
        firewall.obey(&format!(
            "add 10 deny udp from any to any 53 out xmit {name}\n\
             add 20 deny udp from any to any 53 in recv {name}\n"
        ));
        assert!(world.of(routers[0]).set_firewall(&mut firewall));
        world.run_for(SECOND);
        world.allow(Permit::Loss);
        assert_eq!(both(&mut world), [0; 4], "{kind:?}, {shape:?}: {}", world.drops());
        let denied = world.of(routers[0]).dropped(DropReason::FirewallDeny);
        assert_eq!(denied, u64::from(4 * COUNT), "{kind:?}, {shape:?}");
        world.finish();
    }
}

/// A capture of the interface has each packet once, as it comes and as it goes, beside a capture of the port below.
pub(super) fn capture(kind: Kind) {
    const ID: [CaptureId; 2] = [CaptureId(1), CaptureId(2)];
    for shape in shapes() {
        let Link { mut world, routers, a, .. } =
            link("kind_capture", kind, shape, None, cable::Spec::default());
        let [router, _] = routers;
        let index = world.of(router).spec.last_index();
        let index = if matches!(kind, Kind::Ethernet | Kind::Tun) { 2 } else { index };
        let places = Places { rx: true, tx: true, drops: false };
        for cpu in 0..usize::from(shape.cpus) {
            for (id, ifindex) in ID.into_iter().zip([index, 2]) {
                let interfaces = Some(vec![ifindex]);
                let selection =
                    Arc::new(Selection { interfaces, places, snap_len: 2000, filter: None, sampling: None });
                on(&mut world, router, cpu, |cpu| {
                    capture::attach(cpu, id, selection, Buffer::new(0)).unwrap();
                });
            }
        }
        for (ident, family) in [1, 2].into_iter().zip(Family::BOTH) {
            world.at(a).ping(family.addr(3, 2), [ident, 1], 56);
        }
        world.run_for(SECOND);
        let mut seen = [Vec::new(), Vec::new()];
        for cpu in 0..usize::from(shape.cpus) {
            for (id, seen) in ID.into_iter().zip(&mut seen) {
                on(&mut world, router, cpu, |cpu| {
                    let (buffer, _) = capture::swap(cpu, id, Buffer::new(0)).unwrap();
                    seen.extend(
                        buffer
                            .packets()
                            .map(|(record, bytes)| (record.ifindex, record.place, bytes.to_vec())),
                    );
                });
            }
        }
        let [own, below] = seen;
        for (family, ethertype) in [(Family::V4, EtherType::IPV4), (Family::V6, EtherType::IPV6)] {
            for (place, ends) in [(Place::Out, [1, 3]), (Place::In, [3, 1])] {
                let is_it = |(_, at, frame): &&(u16, Place, Vec<u8>)| {
                    *at == place && is_echo(&frame[HEADER_LEN..], ends.map(|net| family.addr(net, 2)))
                };
                let found: Vec<_> = own.iter().filter(is_it).collect();
                assert_eq!(found.len(), 1, "{kind:?}, {family:?}, {place:?}, {shape:?}: {own:?}");
                let (ifindex, _, frame) = found[0];
                assert_eq!((*ifindex, &frame[12..HEADER_LEN]), (index, &ethertype.0.to_be_bytes()[..]));
                assert_eq!(frame[..12] == [0; 12], kind.is_bare(), "{kind:?}: {:x?}", &frame[..12]);
            }
        }
        assert!(below.len() >= 4 && below.iter().all(|(ifindex, ..)| *ifindex == 2), "{kind:?}: {below:?}");
        world.finish();
    }
}

/// Whether a packet is one of ICMP between these hosts.
fn is_echo(packet: &[u8], [src, dst]: [IpAddr; 2]) -> bool {
    let octets = |addr: IpAddr| match addr {
        IpAddr::V4(addr) => addr.octets().to_vec(),
        IpAddr::V6(addr) => addr.octets().to_vec(),
    };
    let ends = [octets(src), octets(dst)].concat();
    let at = if src.is_ipv4() { 12 } else { 8 };
    packet.get(at..at + ends.len()) == Some(&ends[..])
}
