//! A link with one host that configures itself, and two routers that say what a test has them say.

use core::net::Ipv6Addr;
use core::sync::atomic::Ordering;
use std::sync::mpsc::channel;

use net::cpu::Cpu;
use net::ip6::autoconf::{self, Forget, Identifiers, Settings, Status};
use net::ping;
use net::pmtu::{self, Flow};
use net::tables::IfAddr;
use net::time::Duration;
use net::udp;
use sim::builder::{self, Ip};
use sim::cable;
use sim::frame::Frame;
use sim::host::{Host, Port, Spec};
use sim::plan::{self, Family};
use sim::station::{Content, Station};
use sim::world::{CableId, HostId, Permit, StationId, World};
use wire::addr::{ALL_NODES, multicast_mac_v6};
use wire::ether::{EtherType, Mac};
use wire::nd::{Message, Opt, Prefix, RouterAdvert};
use wire::{Protocol, icmp6};

use crate::common::on;

pub(crate) const SECOND: Duration = Duration::from_secs(1);
/// Time for the link-local address, and some questions for routers.
pub(crate) const BOOT: Duration = Duration::from_secs(12);
pub(crate) const CPUS: [u16; 3] = [1, 2, 8];
pub(crate) const EUI64: Settings =
    Settings { identifiers: Identifiers::Eui64, temporary: false, dad_transmits: 1, dad_nonce: true };
pub(crate) const STABLE: Settings =
    Settings { identifiers: Identifiers::Stable { secret: 0x0123_4567_89ab_cdef }, ..EUI64 };
/// A host behind both routers.
pub(crate) const FAR: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 9, 0, 0, 0, 0, 9);
const ROUTERS: u16 = 2;
/// The name of the next ping; replies of others are not its own.
const IDENT: u16 = 100;
/// The name of the one with long requests.
const LONG: u16 = 99;
/// The port of the host's socket.
pub(crate) const PORT: u16 = 7000;

pub(crate) struct Link {
    pub(crate) world: World,
    pub(crate) cables: [CableId; 3],
    host: HostId,
    routers: Vec<StationId>,
    ident: u16,
}

impl Link {
    /// The host has `cpus` CPUs; it has a link-local address, and has asked for routers in vain.
    pub(crate) fn new(name: &str, cpus: u16, settings: Settings) -> Self {
        Self::around(name, |cable| {
            Spec::host("host").cpus(cpus).port(Port::new(cable, 1, 2).autoconf(settings))
        })
    }

    pub(crate) fn around(name: &str, spec: impl FnOnce(CableId) -> Spec) -> Self {
        Self::beside(name, |[cable, ..]| spec(cable))
    }

    /// The host may have ports on two other links.
    pub(crate) fn beside(name: &str, spec: impl FnOnce([CableId; 3]) -> Spec) -> Self {
        let mut world = World::new(name, 1);
        world.allow(Permit::Nonsense);
        let cables = [(); 3].map(|()| world.cable(cable::Spec::default()));
        let [cable, ..] = cables;
        let station = |number| {
            let addr = |addr: Ipv6Addr| IfAddr { addr: addr.into(), prefix_len: 64 };
            let on_link = Family::V6.addr(1, u8::try_from(200 + number).unwrap());
            let addrs = [addr(router(number)), IfAddr { addr: on_link, prefix_len: 64 }, addr(FAR)];
            let mut station = Station::new(&format!("router {number}"), mac(number), &addrs);
            station.is_router = true;
            station
        };
        let routers = (1..=ROUTERS).map(|number| world.station(cable, station(number))).collect();
        let host = world.host(spec(cables));
        world.run_for(BOOT);
        Self { world, cables, host, routers, ident: IDENT }
    }

    pub(crate) fn host(&mut self) -> &mut Host {
        self.world.of(self.host)
    }

    /// Router `number` advertises itself, with its link address.
    pub(crate) fn hear(&mut self, number: u16, said: RouterAdvert, options: &[Opt<'_>]) {
        self.hear_from(router(number), mac(number), said, options);
        self.world.run_for(3 * SECOND);
    }

    pub(crate) fn hear_from(&mut self, from: Ipv6Addr, mac: Mac, said: RouterAdvert, options: &[Opt<'_>]) {
        let options = [&[Opt::SourceLinkAddr(mac)], options].concat();
        let frame = nd_frame(mac, [from, ALL_NODES], Message::RouterAdvert(said), &options);
        self.inject(1, frame);
    }

    /// A frame that router `number` sends.
    pub(crate) fn inject(&mut self, number: u16, frame: Frame) {
        let station = self.routers[usize::from(number) - 1];
        self.world.at(station).send_frame(frame);
        self.world.run_for(Duration::from_millis(1));
    }

    /// Router `from` says that `to` is the better one towards `dst`, about a datagram of the host's.
    pub(crate) fn redirect(&mut self, from: u16, to: u16, dst: Ipv6Addr) {
        let quoted = self.datagram_to(dst);
        let options = [Opt::TargetLinkAddr(mac(to)), Opt::Redirected(&quoted)];
        self.redirect_by(router(from), mac(from), router(to), dst, &options);
    }

    /// A datagram to `dst` that a socket of the host can have sent.
    pub(crate) fn datagram_to(&mut self, dst: Ipv6Addr) -> Vec<u8> {
        self.binds(Family::V6);
        let own = self.speaker(dst);
        builder::udp(Ip::new(own, dst.into()), [PORT, 9], &[0; 56])
    }

    /// The host has a socket at [`PORT`], on each CPU.
    pub(crate) fn binds(&mut self, family: Family) {
        let addr: core::net::IpAddr = match family {
            Family::V4 => core::net::Ipv4Addr::UNSPECIFIED.into(),
            Family::V6 => Ipv6Addr::UNSPECIFIED.into(),
        };
        let settings = udp::Settings::default();
        let wanted =
            udp::Bind { addr: (addr, PORT).into(), zone: 0, only_v6: true, is_shared: false, settings };
        for cpu in &mut self.host().cpus {
            // It may be there from before.
            let _ = udp::bind(&mut cpu.netisr.cpu, &wanted);
        }
    }

    pub(crate) fn redirect_by(
        &mut self,
        from: Ipv6Addr,
        mac: Mac,
        target: Ipv6Addr,
        destination: Ipv6Addr,
        options: &[Opt<'_>],
    ) {
        let to = ours();
        self.inject(1, nd_frame(mac, [from, to], Message::Redirect { target, destination }, options));
    }

    /// Router `number` says that the long echo request to `dst` that the host has sent was too big.
    pub(crate) fn too_big(&mut self, number: u16, dst: Ipv6Addr, mtu: u32) {
        let own: Ipv6Addr = self.addrs()[0].parse().unwrap();
        let source = ping::source(&self.host().cpus[0].netisr.cpu, dst.into(), None, None, 0).unwrap();
        on(&mut self.world, self.host, source.cpu.index(), |cpu| {
            // It may be there from before.
            _ = ping::register(cpu, LONG, dst.into(), Box::new(|_| ()));
            let (src, dst, outif, ident, seq, ttl) = (source.src, dst.into(), None, LONG, 1, 64);
            let request = ping::Request {
                dst,
                src,
                outif,
                ident,
                seq,
                payload_len: 1400,
                ttl,
                dont_fragment: false,
                fib: 0,
            };
            ping::send(cpu, &request).unwrap();
        });
        self.world.run_for(SECOND);
        let quoted = builder::echo(Ip::new(own.into(), dst.into()), false, [LONG, 1], &[0; 1400]);
        let quoted = &quoted[..200];
        let header = icmp6::Message::PacketTooBig { mtu }.to_bytes(router(number), own, quoted);
        let ip = Ip::new(router(number).into(), own.into());
        let packet = builder::packet(ip, Protocol::ICMP6, &[&header[..], quoted].concat());
        self.inject(number, Frame::around(mac(number), plan::mac(1, 2), EtherType::IPV6, &packet));
        self.world.run_for(SECOND);
    }

    /// Returns the path MTU for long echo requests to `dst` on each CPU.
    pub(crate) fn mtu_to(&mut self, dst: Ipv6Addr) -> Vec<u32> {
        let own: Ipv6Addr = self.addrs()[0].parse().unwrap();
        let flow = Flow::echo(own.into(), dst.into(), LONG, 0);
        self.ask(move |cpu| pmtu::of(cpu, 0, &flow).unwrap())
    }

    /// Returns the replies to three echo requests to `dst`.
    pub(crate) fn pings(&mut self, dst: Ipv6Addr) -> usize {
        self.ident += 1;
        let ident = self.ident;
        let replies = self.host().ping(dst.into(), ident, 3);
        self.world.run_for(2 * SECOND);
        replies.load(Ordering::Relaxed)
    }

    /// Echo requests that router `number` has received.
    pub(crate) fn heard_pings(&mut self, number: u16) -> usize {
        let station = self.world.at(self.routers[usize::from(number) - 1]);
        station.heard.iter().filter(|heard| matches!(heard.what, Content::EchoRequest { .. })).count()
    }

    /// Router 1 pings the host.
    pub(crate) fn router_pings(&mut self) {
        let own: Ipv6Addr = self.addrs()[0].parse().unwrap();
        let station = self.world.at(self.routers[0]);
        station.ping(own.into(), [1, 1], 8);
        self.world.run_for(SECOND);
    }

    /// The hop limit of what router `number` has heard last.
    pub(crate) fn last_ttl_at(&mut self, number: u16) -> u8 {
        let station = self.world.at(self.routers[usize::from(number) - 1]);
        station.heard.back().unwrap().ttl
    }

    pub(crate) fn router_is_mute(&mut self, number: u16) {
        self.world.at(self.routers[usize::from(number) - 1]).mute = true;
    }

    /// Router `number` has this address, too, and defends it.
    pub(crate) fn router_has(&mut self, number: u16, addr: Ipv6Addr) {
        self.world
            .at(self.routers[usize::from(number) - 1])
            .add(IfAddr { addr: addr.into(), prefix_len: 64 });
    }

    /// Makes router `number` claim any address that is asked for.
    pub(crate) fn router_has_everything(&mut self, number: u16) {
        self.world.at(self.routers[usize::from(number) - 1]).claims_all = true;
    }

    /// The address that the host speaks to `dst` with.
    pub(crate) fn speaker(&mut self, dst: Ipv6Addr) -> core::net::IpAddr {
        net::output::source_for(&self.host().cpus[0].netisr.cpu, 0, dst.into()).unwrap().0
    }

    /// Returns the host's link status.
    pub(crate) fn status(&mut self) -> Option<Status> {
        self.ask(autoconf::states).into_iter().flatten().next()
    }

    /// Asks each CPU.
    fn ask<T: Send + 'static>(&mut self, what: impl Fn(&Cpu) -> T + Send + Sync + 'static) -> Vec<T> {
        let (sender, receiver) = channel();
        let sent = self.host().tour(move |netisr| drop(sender.send(what(&netisr.cpu))), || ());
        assert!(sent, "the port is full");
        self.world.run_for(Duration::from_millis(1));
        receiver.try_iter().collect()
    }

    /// The addresses that the host made itself.
    pub(crate) fn addrs(&mut self) -> Vec<String> {
        let status = self.status();
        status.iter().flat_map(|status| &status.addrs).map(|own| own.addr.to_string()).collect()
    }

    /// Has the host forget something by command; returns how many.
    pub(crate) fn forget(&mut self, what: Forget) -> usize {
        let cpus = self.host().cpus.iter_mut();
        let forgotten = cpus.map(|cpu| autoconf::forget(&mut cpu.netisr.cpu, None, what)).sum();
        self.world.run_for(Duration::from_millis(300));
        forgotten
    }

    /// The default router.
    pub(crate) fn chosen(&mut self) -> Option<Ipv6Addr> {
        let status = self.status()?;
        status.routers.iter().find(|router| router.is_chosen).map(|router| router.addr)
    }
}

/// The host's link-local address.
pub(crate) const fn ours() -> Ipv6Addr {
    net::addr::link_local(plan::mac(1, 2))
}

/// The link-local address of a router.
pub(crate) const fn router(number: u16) -> Ipv6Addr {
    Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, number)
}

/// Its link address.
pub(crate) const fn mac(number: u16) -> Mac {
    let [_, low] = number.to_be_bytes();
    Mac([2, 0, 0, 0, 9, low])
}

/// A router for half an hour.
pub(crate) fn advert() -> RouterAdvert {
    RouterAdvert { lifetime_s: 1800, ..RouterAdvert::default() }
}

/// The prefix of network `net`, on the link, for addresses that live a day and are preferred for half of it.
pub(crate) fn prefix(net: u8) -> Prefix {
    let addr = Ipv6Addr::new(0x2001, 0xdb8, net.into(), 0, 0, 0, 0, 0);
    Prefix { addr, len: 64, on_link: true, autonomous: true, valid_s: 86_400, preferred_s: 43_200 }
}

pub(crate) fn nd_frame(mac: Mac, [from, to]: [Ipv6Addr; 2], message: Message, options: &[Opt<'_>]) -> Frame {
    let mut bytes = [0; 1400];
    let len = message.emit(from, to, options.iter().copied(), &mut bytes).unwrap();
    let packet = builder::packet(Ip::new(from.into(), to.into()).ttl(255), Protocol::ICMP6, &bytes[..len]);
    let dst = multicast_mac_v6(to).unwrap_or(plan::mac(1, 2));
    Frame::around(mac, dst, EtherType::IPV6, &packet)
}
