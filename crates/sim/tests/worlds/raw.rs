//! Programs with raw sockets on each CPU, over cables that lose.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use core::net::IpAddr;

use net::count::Count;
use net::raw::{self, Filter, Id, Open};
use net::time::Duration;
use net::udp::{QUEUE_BYTES_MAX, Settings};
use sim::cable;
use sim::host::{Host, Port, Spec};
use sim::plan::Family;
use sim::world::{HostId, World};
use wire::checksum::Sum;

use crate::common::{BOOT, Shape, seeds};

/// Requests that each CPU sends.
const COUNT: u16 = 50;

/// The types of an echo request and its reply.
const fn echo(family: Family) -> [u8; 2] {
    match family {
        Family::V4 => [8, 0],
        Family::V6 => [128, 129],
    }
}

fn two_hosts(seed: u64, shape: Shape, spec: cable::Spec) -> (World, [HostId; 2]) {
    let mut world = World::new("raw", seed);
    let cable = world.cable(spec);
    let hosts = [1, 2].map(|host| {
        let port = Port::new(cable, 1, host).rings(shape.rings, shape.rss);
        world.host(Spec::host(&format!("host{host}")).cpus(shape.cpus).port(port))
    });
    world.run_for(BOOT);
    (world, hosts)
}

/// A socket on each CPU that is shown messages of one type.
fn sockets(host: &mut Host, family: Family, kind: u8) -> Vec<Id> {
    let any: IpAddr = if family == Family::V4 { [0; 4].into() } else { [0_u16; 8].into() };
    let settings = Settings { queue_bytes: QUEUE_BYTES_MAX, ..Settings::default() };
    let wanted = Open { local: any, remote: None, zone: 0, filter: Filter::BLOCK_ALL.pass(kind), settings };
    host.cpus.iter_mut().map(|cpu| raw::open(&mut cpu.netisr.cpu, &wanted).unwrap()).collect()
}

/// An echo request with a checksum that is right for IPv4: IPv6 computes its own.
fn request(kind: u8, cpu: usize, seq: u16) -> Vec<u8> {
    let [high, low] = seq.to_be_bytes();
    let mut bytes = [kind, 0, 0, 0, 0, u8::try_from(cpu).unwrap(), high, low, 7, 7, 7, 7];
    let sum = Sum::new().bytes(&bytes).checksum();
    bytes[2..4].copy_from_slice(&sum.to_be_bytes());
    bytes.to_vec()
}

/// All that has come, on whichever CPU: the CPU's number, the sender's CPU and sequence number.
fn read(host: &mut Host, ids: &[Id]) -> Vec<(usize, u8, u16)> {
    let mut all = Vec::new();
    for (at, (cpu, id)) in host.cpus.iter_mut().zip(ids).enumerate() {
        let mut into = [0; 100];
        while let Ok(got) = raw::recv(&mut cpu.netisr.cpu, *id, &mut into) {
            assert_eq!((got.len, &into[8..12]), (12, &[7; 4][..]));
            all.push((at, into[5], u16::from_be_bytes([into[6], into[7]])));
        }
    }
    all
}

#[test]
fn each_message_is_shown_once_and_those_of_a_pair_of_hosts_on_one_cpu() {
    let lossy = cable::Spec { loss: 30_000, reorder: 30_000, ..cable::Spec::default() };
    for (family, shape) in Family::BOTH
        .into_iter()
        .flat_map(|family| Shape::doubling().into_iter().map(move |shape| (family, shape)))
    {
        for seed in seeds(1) {
            let (mut world, [a, b]) = two_hosts(seed, shape, lossy);
            let [asks, answers] = echo(family);
            let replies = sockets(world.of(a), family, answers);
            let requests = sockets(world.of(b), family, asks);
            let to = core::net::SocketAddr::new(family.addr(1, 2), 0);
            for seq in 0..COUNT {
                for (at, id) in replies.iter().copied().enumerate() {
                    let message = request(asks, at, seq);
                    world.of(a).call(at, move |netisr| {
                        raw::send_to(&mut netisr.cpu, id, to, &message).unwrap();
                    });
                }
                // Behind the first ones there is time to find the neighbour, if its answers are lost.
                world.run_for(if seq == 0 { Duration::from_secs(5) } else { Duration::from_millis(1) });
            }
            world.run_for(Duration::from_secs(5));
            let sent = usize::from(COUNT) * replies.len();
            for (host, ids) in [(b, requests), (a, replies)] {
                let mut came = read(world.of(host), &ids);
                assert!(came.len() * 2 > sent, "{} of {sent}: {}", came.len(), world.drops());
                assert!(came.iter().all(|(at, ..)| *at == came[0].0), "they are all of one pair of hosts");
                assert_eq!(world.of(host).count(Count::IcmpRawTaken), came.len() as u64);
                let all = came.len();
                came.sort_unstable();
                came.dedup();
                assert_eq!(came.len(), all, "one is shown twice");
            }
            world.finish();
        }
    }
}
