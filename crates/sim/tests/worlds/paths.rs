//! Path MTUs that routers tell a host, and that others make up.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use core::net::IpAddr;

use net::cpu::Cpu;
use net::drop::DropReason;
use net::pcb::FourTuple;
use net::pmtu::{self, Flow};
use net::tcp;
use net::udp::{self, Bind, Id, Settings};
use sim::builder::{self, Ip};
use sim::cable;
use sim::frame::Frame;
use sim::host::{Port, Spec};
use sim::plan::{self, Family};
use sim::world::{HostId, Permit, StationId, World};
use wire::ether::EtherType;
use wire::{Protocol, icmp4, icmp6};

use crate::autoconf::SECOND;
use crate::common::{BOOT, Shape, on, station};

/// The port of the host's socket, and the ports of the other end that it sends to.
const PORT: u16 = 7000;
const TO: core::ops::Range<u16> = 9000..9016;
/// Bytes of a datagram, what a router says that it carries, and what the link does.
const LEN: usize = 1400;
const NARROW: u32 = 1300;
const LINK: u32 = 1500;

/// A host whose socket has sent long datagrams, and a station that says what it likes.
struct Room {
    world: World,
    host: HostId,
    liar: StationId,
    family: Family,
    sockets: Vec<Id>,
}

impl Room {
    fn new(family: Family, shape: Shape) -> Self {
        let mut world = World::new("paths", 1);
        world.allow(Permit::Nonsense);
        let cable = world.cable(cable::Spec::default());
        let liar = world.station(cable, station(1, 9));
        let port = Port::new(cable, 1, 2).rings(shape.rings, shape.rss);
        let host = world.host(Spec::host("host").cpus(shape.cpus).port(port));
        world.run_for(BOOT);
        let settings = Settings { dont_fragment: true, ..Settings::default() };
        let wanted = Bind {
            addr: (family.addr(1, 2), PORT).into(),
            zone: 0,
            only_v6: false,
            is_shared: false,
            settings,
        };
        let cpus = world.of(host).cpus.iter_mut();
        let sockets = cpus.map(|cpu| udp::bind(&mut cpu.netisr.cpu, &wanted).unwrap()).collect();
        Self { world, host, liar, family, sockets }
    }

    /// Our address, and the other end's.
    fn addrs(&self) -> [IpAddr; 2] {
        [2, 9].map(|host| self.family.addr(1, host))
    }

    /// The socket of each CPU sends to some of the ports.
    fn send(&mut self) {
        let [_, peer] = self.addrs();
        for (at, port) in TO.enumerate() {
            let at = at % self.sockets.len();
            let id = self.sockets[at];
            on(&mut self.world, self.host, at, |cpu| {
                udp::send_to(cpu, id, core::net::SocketAddr::new(peer, port), &[7; LEN]).unwrap();
            });
        }
        self.world.run_for(SECOND);
    }

    /// The datagram that was sent to a port.
    fn datagram(&self, port: u16) -> Vec<u8> {
        let [own, peer] = self.addrs();
        builder::udp(Ip::new(own, peer), [PORT, port], &[7; LEN])
    }

    /// `router` says of `packet` that it was too big.
    fn too_big(&mut self, router: u8, packet: &[u8], mtu: u32) {
        let [own, _] = self.addrs();
        let from = self.family.addr(1, router);
        let quote = &packet[..packet.len().min(200)];
        let (packet, kind) = match (from, own) {
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                let header = icmp6::Message::PacketTooBig { mtu }.to_bytes(src, dst, quote);
                let body = [&header, quote].concat();
                (builder::packet(Ip::new(from, own), Protocol::ICMP6, &body), EtherType::IPV6)
            }
            _ => {
                let code = icmp4::unreachable::FRAGMENTATION_NEEDED;
                let mtu = u16::try_from(mtu).unwrap();
                let header = icmp4::Message::Unreachable { code, mtu }.to_bytes(quote);
                let body = [&header, quote].concat();
                (builder::packet(Ip::new(from, own), Protocol::ICMP, &body), EtherType::IPV4)
            }
        };
        let frame = Frame::around(plan::mac(1, 9), plan::mac(1, 2), kind, &packet);
        self.world.at(self.liar).send_frame(frame);
        self.world.run_for(SECOND / 100);
    }

    fn each<T>(&mut self, ask: impl Fn(&Cpu) -> T) -> Vec<T> {
        (0..self.sockets.len()).map(|at| on(&mut self.world, self.host, at, |cpu| ask(cpu))).collect()
    }

    /// Returns the path MTU for datagrams to a port on each CPU.
    fn mtu(&mut self, port: u16) -> Vec<u32> {
        let [own, peer] = self.addrs();
        let flow = Flow::udp(FourTuple::new((own, PORT).into(), (peer, port).into(), 0));
        self.each(|cpu| pmtu::of(cpu, 0, &flow).unwrap())
    }

    /// The length of the first segments of a new connection, headers included.
    fn segments(&mut self) -> u32 {
        let [_, peer] = self.addrs();
        let headers = if peer.is_ipv4() { 40 } else { 60 };
        let wanted = tcp::Connect::to((peer, 80).into());
        on(&mut self.world, self.host, 0, |cpu| {
            let id = tcp::connect(cpu, &wanted).unwrap();
            let (_, tcb) = tcp::connection(cpu, id).unwrap();
            tcb.info().path_mss + headers
        })
    }
}

fn everywhere(mut what: impl FnMut(Room)) {
    for family in Family::BOTH {
        Shape::doubling().into_iter().for_each(|shape| what(Room::new(family, shape)));
    }
}

#[test]
fn an_error_about_what_was_never_sent_sets_no_path_mtu() {
    everywhere(|mut room| {
        room.send();
        let [own, peer] = room.addrs();
        let other = room.family.addr(1, 10);
        let udp = |to, ports| builder::udp(Ip::new(own, to), ports, &[7; LEN]);
        let echo = |is_reply| builder::echo(Ip::new(own, peer), is_reply, [1, 1], &[0; LEN]);
        let mut lies = vec![
            ("a port that nobody has", udp(peer, [PORT + 1, TO.start])),
            ("a port that was not sent to", udp(peer, [PORT, TO.end])),
            ("a host that was not sent to", udp(other, [PORT, TO.start])),
            ("a ping that was not sent", echo(false)),
            ("an answer that was not sent", echo(true)),
            ("a short datagram", builder::udp(Ip::new(own, peer), [PORT, TO.start], &[7; 500])),
        ];
        // SCTP, GRE, ESP, UDP-Lite, and an unknown protocol.
        let strange = [132, 47, 50, 136, 253].map(Protocol);
        lies.extend(
            strange.map(|protocol| ("a protocol", builder::packet(Ip::new(own, peer), protocol, &[0; LEN]))),
        );
        if room.family == Family::V4 {
            let may_be_cut = Ip::new(own, peer).may_fragment(1);
            lies.push(("what may be cut", builder::udp(may_be_cut, [PORT, TO.start], &[7; LEN])));
        }
        for (told, (what, lie)) in (1..).zip(&lies) {
            room.too_big(254, lie, NARROW);
            let host = room.world.of(room.host);
            assert_eq!(host.dropped(DropReason::IcmpNotSent), told, "{what}: {:?}", host.drops());
        }
        // Of what was sent, that it was longer than it was.
        let datagram = room.datagram(TO.start);
        room.too_big(254, &datagram, LINK - 1);
        assert!(room.each(|cpu| cpu.paths.len()).iter().all(|paths| *paths == 0), "{:?}", room.family);
        assert_eq!(room.segments(), LINK);
        room.world.finish();
    });
}

#[test]
fn a_path_mtu_is_of_the_conversation_whose_packet_was_too_big_and_every_cpu_knows_it_for_ten_minutes() {
    everywhere(|mut room| {
        room.send();
        for port in TO.step_by(2) {
            let datagram = room.datagram(port);
            room.too_big(254, &datagram, NARROW);
        }
        for port in TO {
            let expected = if port % 2 == 0 { NARROW } else { LINK };
            assert!(room.mtu(port).iter().all(|mtu| *mtu == expected), "{port}: {:?}", room.mtu(port));
        }
        assert_eq!(room.segments(), LINK, "TCP goes by what TCP was told");
        let [_, peer] = room.addrs();
        for (at, id) in room.sockets.clone().into_iter().enumerate() {
            let to = core::net::SocketAddr::new(peer, TO.start);
            let sent = on(&mut room.world, room.host, at, |cpu| udp::send_to(cpu, id, to, &[7; LEN]));
            assert_eq!(sent, Err(net::sock::Error::TooBig { mtu: NARROW }), "on CPU {at}");
        }
        room.world.run_for(601 * SECOND);
        assert!(room.mtu(TO.start).iter().all(|mtu| *mtu == LINK));
        room.world.finish();
    });
}

#[test]
fn floods_of_errors_that_are_made_up_take_nothing_from_what_is_true() {
    for (family, shape) in Family::BOTH.map(|family| (family, Shape::doubling()[3])) {
        let mut room = Room::new(family, shape);
        room.send();
        let datagram = room.datagram(TO.start);
        room.too_big(254, &datagram, NARROW);
        let [own, peer] = room.addrs();
        for number in 0..3000_u16 {
            let lie = builder::udp(Ip::new(own, peer), [PORT, 10_000 + number], &[7; LEN]);
            room.too_big(u8::try_from(number % 200).unwrap_or(0) + 20, &lie, NARROW);
        }
        assert!(room.each(|cpu| cpu.paths.len()).iter().all(|paths| *paths == 1));
        assert!(room.mtu(TO.start).iter().all(|mtu| *mtu == NARROW), "{:?}", room.mtu(TO.start));
        assert_eq!(room.world.of(room.host).dropped(DropReason::IcmpNotSent), 3000);
    }
}
