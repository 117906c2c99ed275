//! Several routing tables: of rules, of interfaces, of connections.

#![expect(clippy::unwrap_used, reason = "a world that cannot begin has failed")]
use core::net::IpAddr;

use net::count::Count;
use net::fib::To;
use net::firewall::state::Settings as StateSettings;
use net::tables::IfAddr;
use net::tcp::settings::Settings;
use net::tcp::{self, Connect, IpTxParams, Listen};
use net::time::Duration;
use sim::cable;
use sim::firewall::HostFirewall;
use sim::host::{Port, Spec, ifindex};
use sim::plan::{self, Family};
use sim::station::Station;
use sim::world::{CableId, HostId, StationId, World};

use crate::common::{BOOT, Shape, on, seeds, station};

const SECOND: Duration = Duration::from_secs(1);
/// A network that each uplink leads to.
const FAR: u8 = 9;
/// A network that no table has a route to.
const NOWHERE: u8 = 77;
const PINGS: u16 = 5;
/// Datagrams that come together.
const MANY: u16 = 32;

/// An uplink: it has an address on its link, and one on the far network.
fn uplink(net: u8) -> Station {
    let mut uplink = station(net, 2);
    for addr in plan::addrs(FAR, 9) {
        uplink.add(IfAddr { prefix_len: if addr.addr.is_ipv4() { 32 } else { 128 }, ..addr });
    }
    uplink
}

/// A router between two hosts of network 1 and two uplinks, on networks 2 and 3, of which table 1 has the second.
struct Office {
    world: World,
    hosts: [StationId; 2],
    uplinks: [StationId; 2],
}

impl Office {
    fn new(seed: u64, shape: Shape, is_cached: bool, rules: &str) -> Self {
        let mut world = World::new("uplinks", seed);
        let cables = [1, 2, 3].map(|_| world.cable(cable::Spec::default()));
        let port = |net: u8| Port::new(cables[usize::from(net) - 1], net, 1).rings(shape.rings, shape.rss);
        let mut router = Spec::router("router").cpus(shape.cpus).more_fibs(1);
        router = router.port(port(1)).port(port(2)).port(port(3).fib(1));
        for family in Family::BOTH {
            let by = |net: u8, at| To::Gateway { ifindex: ifindex(at), via: family.addr(net, 2) };
            router = router.route(family.default_prefix(), by(2, 1));
            router = router.route_in(1, family.default_prefix(), by(3, 2));
            router = router.route_in(1, family.prefix(1), To::OnLink { ifindex: ifindex(0) });
        }
        let router = world.host(if is_cached { router.flows(64) } else { router });
        let hosts = [2, 3].map(|host| world.station(cables[0], station(1, host)));
        let uplinks = [2, 3].map(|net| world.station(cables[usize::from(net) - 1], uplink(net)));
        world.run_for(BOOT);
        let mut firewall = HostFirewall::new(rules, shape.cpus, 16);
        firewall.settings = StateSettings::default();
        assert!(world.of(router).set_firewall(&mut firewall));
        world.run_for(SECOND);
        Self { world, hosts, uplinks }
    }

    /// Pings of a host that are answered.
    fn pings(&mut self, at: usize, to: IpAddr) -> usize {
        for seq in 0..PINGS {
            self.world.at(self.hosts[at]).ping(to, [7, seq], 56);
            self.world.run_for(SECOND / 5);
        }
        self.world.run_for(SECOND);
        self.world.at(self.hosts[at]).replies(7)
    }

    /// Whether uplink `at` has heard of a host.
    fn has_heard(&mut self, at: usize, from: IpAddr) -> bool {
        self.world.at(self.uplinks[at]).has_heard(|packet| packet.from == from)
    }
}

#[test]
fn setfib_sends_a_host_by_the_uplink_of_another_table_and_fib_matches_it() {
    for family in Family::BOTH {
        for (seed, shape) in (1..).zip(Shape::doubling()) {
            let second = family.addr(1, 3);
            let rules = format!(
                "add 10 setfib 1 ip from {second} to any in recv mem0\n\
                 add 20 deny ip from any to any fib 1 recv mem1\n\
                 add 30 deny ip from not {second} to any fib 1 in recv mem0\n\
                 add 40 deny ip from {second} to any not fib 1 in recv mem0\n\
                 add 50 allow ip from any to any"
            );
            let mut office = Office::new(seed, shape, seed % 2 == 0, &rules);
            let far = family.addr(FAR, 9);
            for (at, host) in [(0, family.addr(1, 2)), (1, second)] {
                assert_eq!(office.pings(at, far), usize::from(PINGS), "{shape:?}: {}", office.world.drops());
                assert!(office.has_heard(at, host) && !office.has_heard(1 - at, host), "{shape:?}");
            }
            office.world.finish();
        }
    }
}

#[test]
fn verrevpath_asks_the_table_of_the_packet() {
    for family in Family::BOTH {
        let rules = "add 10 deny log ip from any to any not verrevpath in\nadd 20 allow ip from any to any";
        let mut office = Office::new(1, Shape::SIMPLE, false, rules);
        // Its way back is the default route of table 1, which table 0 has by the other uplink.
        let (far, host) = (family.addr(FAR, 9), family.addr(1, 2));
        let uplink = office.uplinks[1];
        office.world.at(uplink).send(sim::builder::udp(sim::builder::Ip::new(far, host), [1, 2], b"?"));
        office.world.run_for(SECOND);
        assert!(
            office.world.at(office.hosts[0]).has_heard(|packet| packet.from == far),
            "{}",
            office.world.drops()
        );
        office.world.finish();
    }
}

/// A router for two customers whose networks have the same addresses, each in a table of its own.
struct Customers {
    world: World,
    /// Stations of networks 1 and 2 of each customer.
    stations: [[StationId; 2]; 2],
}

impl Customers {
    fn new(seed: u64, shape: Shape) -> Self {
        let mut world = World::new("customers", seed);
        let cables: [[CableId; 2]; 2] = [0, 1].map(|_| [0, 1].map(|_| world.cable(cable::Spec::default())));
        let mut router = Spec::router("router").cpus(shape.cpus).more_fibs(2);
        for (fib, cables) in (1..).zip(cables) {
            for (net, cable) in (1..).zip(cables) {
                router = router.port(Port::new(cable, net, 1).rings(shape.rings, shape.rss).fib(fib));
            }
        }
        world.host(router);
        let stations = cables
            .map(|[one, two]| [(one, 1), (two, 2)].map(|(cable, net)| world.station(cable, station(net, 2))));
        world.run_for(BOOT);
        Self { world, stations }
    }
}

#[test]
fn customers_with_the_same_addresses_do_not_meet_and_get_their_own_answers() {
    for family in Family::BOTH {
        for (seed, shape) in (1..).zip(Shape::several()) {
            let mut scene = Customers::new(seed, shape);
            for (customer, [from, to]) in scene.stations.into_iter().enumerate() {
                let other = scene.stations[1 - customer];
                let (world, id) = (&mut scene.world, 7 + u16::try_from(customer).unwrap());
                let before = other.map(|station| world.at(station).heard.len());
                for (seq, dst) in
                    [family.addr(2, 2), family.addr(1, 1), family.addr(2, 1)].into_iter().enumerate()
                {
                    world.at(from).ping(dst, [id, u16::try_from(seq).unwrap()], 56);
                    world.run_for(SECOND);
                }
                assert_eq!(
                    world.at(from).replies(id),
                    3,
                    "customer {customer}, {shape:?}: {}",
                    world.drops()
                );
                assert!(world.at(to).has_heard(|packet| packet.from == family.addr(1, 2)));
                // So many at once go the short way.
                let (ip, heard) = (world.at(from).ip_to(family.addr(2, 2)), world.at(to).heard.len());
                (0..MANY).for_each(|port| world.at(from).send_udp(ip, [1000, 1000 + port], b"?"));
                world.run_for(SECOND);
                assert_eq!(
                    world.at(to).heard.len(),
                    heard + usize::from(MANY),
                    "{shape:?}: {}",
                    world.drops()
                );
                // The error comes by the table of the packet that has caused it.
                world.at(from).ping(family.addr(NOWHERE, 2), [id, 9], 56);
                world.run_for(SECOND);
                assert_eq!(world.at(from).errors().count(), 1, "{shape:?}: {}", world.drops());
                assert_eq!(other.map(|station| world.at(station).heard.len()), before, "{shape:?}");
            }
            scene.world.forget();
        }
    }
}

/// A server with two uplinks, each to a router with a client behind it that has no way back by the other.
fn served(seed: u64, shape: Shape, family: Family) -> (World, HostId, [HostId; 2]) {
    let mut world = World::new("servers", seed);
    let cables = [1, 2, 3, 4].map(|_| world.cable(cable::Spec::default()));
    let port =
        |net: u8, host| Port::new(cables[usize::from(net) - 1], net, host).rings(shape.rings, shape.rss);
    let mut server =
        Spec::host("server").cpus(shape.cpus).more_fibs(1).port(port(1, 10)).port(port(2, 10).fib(1));
    for (fib, net) in [(0, 1), (1, 2)] {
        let by = To::Gateway { ifindex: ifindex(fib.into()), via: family.addr(net, 1) };
        server = server.route_in(fib, family.default_prefix(), by);
    }
    let server = world.host(server);
    for net in [1, 2] {
        world.host(Spec::router("router").port(port(net, 1)).port(port(net + 2, 1)));
    }
    let clients = [3, 4].map(|net| {
        let client =
            Spec::host("client").port(port(net, 10)).via(family.default_prefix(), family.addr(net, 1));
        world.host(client)
    });
    world.run_for(BOOT);
    (world, server, clients)
}

fn listen(world: &mut World, host: HostId) {
    let (settings, tx_params) = (Settings::default(), IpTxParams::default());
    let addr = ([0_u16; 8], 80).into();
    let wants = Listen { addr, zone: 0, only_v6: false, backlog: 64, is_shared: false, settings, tx_params };
    for at in 0..world.of(host).cpus.len() {
        on(world, host, at, |cpu| tcp::listen(cpu, &wants).unwrap());
    }
}

fn connect(world: &mut World, host: HostId, remote: IpAddr, fib: u8) -> Option<IpAddr> {
    let tx_params = IpTxParams { fib, ..IpTxParams::default() };
    let (settings, remote) = (Settings::default(), (remote, 80).into());
    let wants = Connect { remote, local: None, port: None, zone: 0, settings, tx_params };
    on(world, host, 0, |cpu| {
        let id = tcp::connect(cpu, &wants).ok()?;
        tcp::connection(cpu, id).map(|(ends, _)| ends.local)
    })
}

#[test]
fn a_connection_is_answered_by_the_table_of_its_syn() {
    for family in Family::BOTH {
        for seed in seeds(2) {
            for shape in Shape::doubling() {
                let (mut world, server, clients) = served(seed, shape, family);
                listen(&mut world, server);
                for (client, net) in clients.into_iter().zip([1, 2]) {
                    connect(&mut world, client, family.addr(net, 10), 0).unwrap();
                }
                world.run_for(5 * SECOND);
                assert_eq!(world.of(server).count(Count::TcpAccepts), 2, "{shape:?}: {}", world.drops());
                world.forget();
            }
        }
    }
}

#[test]
fn a_connection_of_a_table_leaves_by_its_routes_with_the_address_of_its_uplink() {
    for family in Family::BOTH {
        for shape in Shape::doubling() {
            let (mut world, server, clients) = served(1, shape, family);
            for (fib, client) in (0..).zip(clients) {
                listen(&mut world, client);
                let remote = family.addr(fib + 3, 10);
                let local = connect(&mut world, server, remote, fib);
                assert_eq!(local, Some(family.addr(fib + 1, 10)));
            }
            world.run_for(5 * SECOND);
            let accepts = clients.map(|client| world.of(client).count(Count::TcpAccepts));
            assert_eq!(accepts, [1, 1], "{shape:?}: {}", world.drops());
            world.forget();
        }
    }
}
