//! A route by two gateways, one of which dies: its senders find out, and go on by the other one.

#![expect(clippy::unwrap_used, reason = "a world that cannot begin has failed")]
use net::count::Count;
use net::fib::To;
use net::tcp::settings::Settings;
use net::tcp::{self, Connect, Id, IpTxParams, Listen};
use net::time::Duration;
use sim::cable;
use sim::host::{Port, Spec, ifindex};
use sim::plan::Family;
use sim::world::{HostId, Permit, World};

use crate::common::{BOOT, Shape, on, seeds};

const SECOND: Duration = Duration::from_secs(1);
const CONNECTIONS: usize = 16;

/// A client on network 1 and a server on network 2, whose answers come by the second of the two routers between them.
struct Scene {
    world: World,
    client: HostId,
    server: HostId,
    routers: [HostId; 2],
}

impl Scene {
    fn new(seed: u64, shape: Shape, family: Family) -> Self {
        let mut world = World::new("gateways", seed);
        world.allow(Permit::Loss);
        let cables = [1, 2].map(|_| world.cable(cable::Spec::default()));
        let port = |net: u8, host| Port::new(cables[usize::from(net) - 1], net, host);
        let router = |host| Spec::router("router").port(port(1, host)).port(port(2, host));
        let routers = [1, 2].map(|host| world.host(router(host)));
        let mut client =
            Spec::host("client").cpus(shape.cpus).port(port(1, 10).rings(shape.rings, shape.rss));
        client = client.via(family.default_prefix(), family.addr(1, 1));
        client.routes[0].hops.push(To::Gateway { ifindex: ifindex(0), via: family.addr(1, 2) }.into());
        let client = world.host(client);
        let server = Spec::host("server").port(port(2, 10));
        let server = world.host(server.via(family.prefix(1), family.addr(2, 2)));
        world.run_for(BOOT);
        Self { world, client, server, routers }
    }

    /// Connections on all CPUs, all of which stand; answers where they are.
    fn connect(&mut self, family: Family) -> Vec<(usize, Id)> {
        let (settings, tx_params, zone) = (Settings::default(), IpTxParams::default(), 0);
        let (server, client) = (self.server, self.client);
        let wants = Listen {
            addr: ([0_u16; 8], 80).into(),
            zone,
            only_v6: false,
            backlog: 64,
            is_shared: false,
            settings,
            tx_params,
        };
        on(&mut self.world, server, 0, |cpu| tcp::listen(cpu, &wants).unwrap());
        let remote = (family.addr(2, 10), 80).into();
        let wants = Connect { remote, local: None, port: None, zone, settings, tx_params };
        let cpus = self.world.of(client).cpus.len();
        let begin = |number| {
            let at = number % cpus;
            (at, on(&mut self.world, client, at, |cpu| tcp::connect(cpu, &wants).unwrap()))
        };
        let all: Vec<_> = (0..CONNECTIONS).map(begin).collect();
        self.world.run_for(2 * SECOND);
        assert_eq!(self.world.of(server).count(Count::TcpAccepts), CONNECTIONS as u64);
        all
    }

    /// Sends on each of them; answers of how many all is acknowledged when so much time has passed.
    fn say(&mut self, all: &[(usize, Id)], span: Duration) -> usize {
        for (at, id) in all {
            on(&mut self.world, self.client, *at, |cpu| assert_eq!(tcp::send(cpu, *id, b"hello"), Ok(5)));
        }
        self.world.run_for(span);
        let client = self.world.of(self.client);
        let is_heard = |(at, id): &&(usize, Id)| {
            tcp::connection(&client.cpus[*at].netisr.cpu, *id)
                .is_some_and(|(_, tcb)| tcb.info().unacknowledged == 0)
        };
        all.iter().filter(is_heard).count()
    }

    fn dies(&mut self, router: HostId) {
        let until = self.world.now() + 3600 * SECOND;
        self.world.of(router).cpus[0].stall_until(until);
    }
}

/// A neighbour that has just answered is believed for 15 s at the least, and then it takes 8 s more until it is given up: an
/// earlier probe follows from a connection's report.
#[test]
fn a_gateway_that_dies_is_found_out_by_connections_and_they_go_on_by_the_other() {
    for family in Family::BOTH {
        for shape in Shape::doubling() {
            for seed in seeds(1) {
                let mut scene = Scene::new(seed, shape, family);
                let all = scene.connect(family);
                assert_eq!(scene.say(&all, SECOND), CONNECTIONS);
                scene.dies(scene.routers[0]);
                let heard = scene.say(&all, 20 * SECOND);
                let doubts = scene.world.of(scene.client).count(Count::TcpDoubts);
                assert_eq!(heard, CONNECTIONS, "{shape:?}, {doubts} doubts");
                assert!(doubts > 0, "some have gone by it");
                assert_eq!(scene.say(&all, SECOND), CONNECTIONS, "and go on at once");
            }
        }
    }
}
