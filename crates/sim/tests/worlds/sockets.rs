//! Programs that speak UDP with each other over cables that lose.

use core::net::SocketAddr;

use net::drop::DropReason;
use net::time::Duration;
use net::udp::{self, Bind, Connect, Id, Settings};
use sim::cable;
use sim::host::{Host, Port, Spec};
use sim::plan::Family;
use sim::world::{HostId, World};

use crate::common::{BOOT, Shape, seeds};

const PORT: u16 = 5300;
/// Datagrams that each CPU sends to one server.
const COUNT: usize = 200;

/// Two hosts on a cable, and a server on each CPU of the second.
fn two_hosts(seed: u64, shape: Shape, family: Family, spec: cable::Spec) -> (World, [HostId; 2], Vec<Id>) {
    let mut world = World::new("sockets", seed);
    let cable = world.cable(spec);
    let hosts = [1, 2].map(|host| {
        let port = Port::new(cable, 1, host).rings(shape.rings, shape.rss);
        world.host(Spec::host(&format!("host{host}")).cpus(shape.cpus).port(port))
    });
    world.run_for(BOOT);
    let settings = Settings { queue_bytes: udp::QUEUE_BYTES_MAX, ..Settings::default() };
    let addr = (family.addr(1, 2), PORT).into();
    let wanted = Bind { addr, zone: 0, only_v6: false, is_shared: false, settings };
    let cpus = world.of(hosts[1]).cpus.iter_mut();
    let servers = cpus.flat_map(|cpu| udp::bind(&mut cpu.netisr.cpu, &wanted)).collect();
    (world, hosts, servers)
}

/// A socket on each CPU of the first host that speaks with the server.
fn clients(host: &mut Host, family: Family) -> Vec<Id> {
    let (remote, settings) = ((family.addr(1, 2), PORT).into(), Settings::default());
    let wanted = Connect { remote, local: None, port: None, zone: 0, settings };
    host.cpus.iter_mut().flat_map(|cpu| udp::connect(&mut cpu.netisr.cpu, &wanted)).collect()
}

/// All numbers that wait at a socket, and from which ports.
fn read(host: &mut Host, at: usize, id: Id) -> Vec<(u16, usize)> {
    let cpu = &mut host.cpus[at].netisr.cpu;
    let mut into = [0; 2000];
    let next = || udp::recv(cpu, id, &mut into).ok();
    core::iter::from_fn(next).map(|got| (got.from.port(), got.len)).collect()
}

/// Answers to each client: of so many not half get lost.
const ANSWERS: usize = 10;

#[test]
fn datagrams_of_a_pair_are_on_one_cpu_and_in_order_whatever_is_lost_and_the_answers_too() {
    let lossy = cable::Spec { loss: 30_000, ..cable::Spec::default() };
    for (family, shape) in Family::BOTH
        .into_iter()
        .flat_map(|family| Shape::several().into_iter().map(move |shape| (family, shape)))
    {
        for seed in seeds(1) {
            let (mut world, [a, b], servers) = two_hosts(seed, shape, family, lossy);
            let clients = clients(world.of(a), family);
            for n in 0..COUNT {
                for (at, id) in clients.iter().copied().enumerate() {
                    world.of(a).call(at, move |netisr| {
                        // The length is the number.
                        udp::send(&mut netisr.cpu, id, &vec![0; n]).unwrap();
                    });
                }
                // Behind the first ones there is time to find the neighbour, if its answers are lost.
                world.run_for(if n == 0 { Duration::from_secs(5) } else { Duration::from_micros(200) });
            }
            world.run_for(Duration::from_secs(5));
            let mut ports = Vec::new();
            for (at, id) in servers.iter().copied().enumerate() {
                let numbers = read(world.of(b), at, id);
                for port in numbers.iter().map(|(port, _)| *port) {
                    if !ports.contains(&(port, at)) {
                        ports.push((port, at));
                    }
                }
                for (port, at) in ports.iter().filter(|(_, on)| *on == at) {
                    let of_pair: Vec<_> =
                        numbers.iter().filter(|(of, _)| of == port).map(|(_, n)| *n).collect();
                    assert!(of_pair.is_sorted_by(|a, b| a < b), "{shape:?}: {of_pair:?}");
                    assert!(of_pair.len() > COUNT / 2, "{}", world.drops());
                    let to = SocketAddr::new(family.addr(1, 1), *port);
                    for _ in 0..ANSWERS {
                        world
                            .of(b)
                            .call(*at, move |netisr| udp::send_to(&mut netisr.cpu, id, to, b"seen").unwrap());
                    }
                }
            }
            assert_eq!(ports.len(), clients.len(), "each pair is on one CPU: {ports:?}");
            world.run_for(Duration::from_secs(5));
            let answered =
                clients.iter().enumerate().map(|(at, id)| read(world.of(a), at, *id).len()).sum::<usize>();
            assert!(answered * 2 > ANSWERS * clients.len(), "{answered} answers: {}", world.drops());
            world.finish();
        }
    }
}

#[test]
fn long_datagrams_arrive_whole_over_a_cable_that_doubles_and_overtakes() {
    let bad = cable::Spec { duplicate: 50_000, reorder: 50_000, ..cable::Spec::default() };
    for family in Family::BOTH {
        for (seed, shape) in (1..).zip(Shape::several()) {
            let (mut world, [a, b], servers) = two_hosts(seed, shape, family, bad);
            let clients = clients(world.of(a), family);
            let bytes: Vec<u8> = (0..9000).map(|n: u32| n.to_le_bytes()[0]).collect();
            for _ in 0..10 {
                for (at, id) in clients.iter().copied().enumerate() {
                    let bytes = bytes.clone();
                    world.of(a).call(at, move |netisr| udp::send(&mut netisr.cpu, id, &bytes).unwrap());
                }
                world.run_for(Duration::from_millis(5));
            }
            world.run_for(Duration::from_secs(5));
            let mut came = 0;
            for (at, id) in servers.iter().copied().enumerate() {
                let mut into = vec![0; 10_000];
                while let Ok(got) = udp::recv(&mut world.of(b).cpus[at].netisr.cpu, id, &mut into) {
                    assert!(into[..got.len] == bytes);
                    came += 1;
                }
            }
            assert!(came >= clients.len() * 9, "{came}: {}", world.drops());
            world.finish();
        }
    }
}

#[test]
fn a_flood_that_nobody_reads_takes_a_bounded_place_and_all_buffers_come_back() {
    for family in Family::BOTH {
        for (seed, shape) in (1..).zip(Shape::several()) {
            let (mut world, [a, b], servers) = two_hosts(seed, shape, family, cable::Spec::default());
            let clients = clients(world.of(a), family);
            for (at, id) in servers.iter().copied().enumerate() {
                let cpu = &mut world.of(b).cpus[at].netisr.cpu;
                udp::change(cpu, id, |settings| settings.queue_bytes = udp::QUEUE_BYTES).unwrap();
            }
            for _ in 0..60 {
                for (at, id) in clients.iter().copied().enumerate() {
                    world.of(a).call(at, move |netisr| {
                        udp::send(&mut netisr.cpu, id, &[1; 1000]).unwrap();
                    });
                }
                world.run_for(Duration::from_millis(1));
            }
            world.run_for(Duration::from_secs(1));
            assert!(world.of(b).dropped(DropReason::UdpQueueFull) > 0);
            for (at, id) in servers.iter().copied().enumerate() {
                let cpu = &world.of(b).cpus[at].netisr.cpu;
                assert!(udp::ready(cpu, id).bytes <= udp::QUEUE_BYTES);
            }
            world.finish();
        }
    }
}
